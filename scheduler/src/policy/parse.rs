//! The text form of a policy: `NAME`, or `NAME:parameter=value:parameter=value`, in upper or lower
//! case. The parameters of a policy are those of its row in the `catalogue`.

use common::Span;

use super::admission::{Admission, Stacking};
use super::ordering::{Batchactive, Disclosed};
use super::placement::Placement;
use super::policing::{Policing, Rule, When};
use super::replication::{Replicated, Replication, Requeue};
use super::width::{Correction, Width};
use super::{Limits, Ordering, Policy, catalogue};

/// The reason why a text names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    /// The catalogue has no row of this name.
    #[error("there is no policy `{0}`")]
    Unknown(String),
    /// The row has no such parameter.
    #[error("the policy {policy} has no parameter `{parameter}`; it has {has}")]
    NoSuchParameter {
        /// The row.
        policy: &'static str,
        /// The parameter asked for.
        parameter: String,
        /// The parameters that the row has.
        has: String,
    },
    /// A parameter is given twice.
    #[error("`{parameter}` is said twice")]
    Twice {
        /// The parameter.
        parameter: &'static str,
    },
    /// The value cannot be read, or is out of range.
    #[error("`{value}` is not a value for `{parameter}`: {wanted}")]
    BadValue {
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// The values that can be given.
        wanted: &'static str,
    },
}

/// Returns the policy that this text names.
///
/// # Errors
/// If there is no policy of this name, or it has no such parameters or values.
pub fn parse(text: &str) -> Result<Policy, BadPolicy> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let row = catalogue()
        .iter()
        .find(|row| row.name.eq_ignore_ascii_case(name));
    let mut policy = *row.ok_or_else(|| BadPolicy::Unknown(name.to_owned()))?;
    let mut said: Vec<&str> = Vec::new();

    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let Some(parameter) = policy
            .parameters
            .iter()
            .find(|parameter| parameter.name == key)
        else {
            let names: Vec<_> = policy
                .parameters
                .iter()
                .map(|parameter| parameter.name)
                .collect();
            let has = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            return Err(BadPolicy::NoSuchParameter {
                policy: policy.name,
                parameter: key.to_owned(),
                has,
            });
        };
        let name = parameter.name;
        if said.contains(&name) {
            return Err(BadPolicy::Twice { parameter: name });
        }

        said.push(name);
        policy
            .set(name, value)
            .map_err(|wanted| BadPolicy::BadValue {
                parameter: name,
                value: value.to_owned(),
                wanted,
            })?;
    }

    Ok(policy)
}

type Wanted = &'static str;

fn number(value: &str, least: f64, most: f64, wanted: Wanted) -> Result<f64, Wanted> {
    value
        .parse()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or(wanted)
}

pub(super) fn one_of<T: Copy>(
    value: &str,
    choices: &[(&str, T)],
    wanted: Wanted,
) -> Result<T, Wanted> {
    choices
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, choice)| *choice)
        .ok_or(wanted)
}

impl Policy {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Wanted> {
        if let ("zeta", Limits::Adaptive { zeta }) = (name, &mut self.limits) {
            *zeta = number(value, 0.0, 0.999, "a rate from 0 to below 1")?;
            return Ok(());
        }

        if self.admission.reckoning().is_some() {
            return self.set_promise(name, value);
        }
        if self.width != Width::Rigid {
            return self.set_width(name, value);
        }

        if let ("limits", Placement::Windows) = (name, self.placement) {
            let choices = [
                ("given", Limits::Windowed { killing: false }),
                ("learned", Limits::Windowed { killing: true }),
            ];
            self.limits = one_of(value, &choices, "`given` or `learned`")?;
            return Ok(());
        }

        if name == "with" {
            return self.go_with(value);
        }

        if let (
            "later",
            Ordering::Batchactive(Batchactive {
                disclosed: Disclosed::Need { later },
                ..
            }),
        ) = (name, &mut self.ordering)
        {
            *later = number(value, 1.0, 100.0, "per cent, from 1 to 100")? as u8;
            return Ok(());
        }
        match (name, &mut self.placement, &mut self.replication) {
            ("wait", Placement::PriCrWait(p), _) => {
                p.wait = Span::from_secs_f64(number(value, 0.0, 1e9, "seconds")?);
            }
            ("ratio", Placement::PriCrWait(p), _) => {
                p.ratio = number(value, 0.0, 1e9, "a number of at least 0")?;
            }
            ("sds", Placement::ExclS(p), _) => p.sds = number(value, -1e3, 1e3, "a number")?,
            ("revert", Placement::ExclPred(p), _) => {
                p.revert = number(value, 0.0, 1e3, "a number of at least 0")?;
            }
            ("copies_max", _, Replication::Gain(r)) => {
                r.copies_max = number(value, 0.0, 100.0, "copies per task, between 0 and 100")?;
            }
            ("copies_max", _, Replication::Dup(r)) => {
                r.copies_max = number(value, 0.0, f64::INFINITY, "copies per task, at least 0")?;
            }
            ("requeue", _, Replication::Dup(r)) => r.requeue = requeue(value)?,
            ("requeue", _, Replication::Timeout(r)) => r.requeue = requeue(value)?,
            ("copies", _, Replication::Dup(r)) => {
                let choices = [
                    ("started", Replicated::Started),
                    ("running", Replicated::Running),
                ];
                r.which = one_of(value, &choices, "`started` or `running`")?;
            }
            ("chain", _, Replication::Timeout(r)) => {
                r.chain = one_of(value, &[("yes", true), ("no", false)], "`yes` or `no`")?;
            }
            _ => return Err("the policy does not use it"),
        }

        Ok(())
    }
}

impl Policy {
    /// Takes placement, replication and limits from another row.
    fn go_with(&mut self, value: &str) -> Result<(), Wanted> {
        let row = catalogue()
            .iter()
            .find(|row| row.name.eq_ignore_ascii_case(value));
        let row = row.filter(|row| {
            row.admission.reckoning().is_none() && row.ordering.batchactive().is_none()
        });
        let row = row.ok_or(
            "the name of a policy that promises nothing and tells no disclosed tasks apart",
        )?;
        self.placement = row.placement;
        self.replication = row.replication;
        self.limits = row.limits;

        Ok(())
    }

    /// Sets a parameter of the rows with a calendar.
    fn set_promise(&mut self, name: &str, value: &str) -> Result<(), Wanted> {
        match (name, &mut self.admission, &mut self.limits) {
            ("limits", _, limits) => {
                let policing = limits.policing();
                let choices = [
                    ("given", Limits::Policed(policing)),
                    ("learned", Limits::Learned(policing)),
                ];
                *limits = one_of(value, &choices, "`given` or `learned`")?;
            }
            ("policing", _, Limits::Policed(policing) | Limits::Learned(policing)) => {
                policing.rule = rule(value)?;
            }
            ("when", _, Limits::Policed(policing) | Limits::Learned(policing)) => {
                let choices = [("always", When::Always), ("needed", When::Needed)];
                policing.when = one_of(value, &choices, "`always` or `needed`")?;
            }
            ("calibrated", Admission::Calendar(reckoning), _) => {
                reckoning.calibrated = yes_or_no(value)?;
            }
            ("inflated", Admission::Calendar(reckoning), _) => {
                reckoning.inflated = yes_or_no(value)?;
            }
            ("windows", Admission::Calendar(reckoning), _) => reckoning.windows = yes_or_no(value)?,
            ("stacking", Admission::Calendar(reckoning), _) => {
                let choices = [
                    ("given", Stacking::Given),
                    ("longest-first", Stacking::LongestFirst),
                ];
                reckoning.stacking = one_of(value, &choices, "`given` or `longest-first`")?;
            }
            _ => return Err("the policy does not use it"),
        }

        Ok(())
    }
}

impl Policy {
    /// Sets a parameter of the rows for gangs.
    fn set_width(&mut self, name: &str, value: &str) -> Result<(), Wanted> {
        if name == "limits" {
            let choices = [
                ("given", Limits::Fixed),
                ("learned", Limits::Learned(Policing::OFF)),
            ];
            self.limits = one_of(value, &choices, "`given` or `learned`")?;
            return Ok(());
        }

        match (name, &mut self.width) {
            ("correction", Width::Soonest(way)) => {
                let choices = [
                    ("none", Correction::None),
                    ("paper", Correction::Paper),
                    ("learned", Correction::Learned),
                ];
                way.correction = one_of(value, &choices, "`none`, `paper` or `learned`")?;
            }
            ("lock", Width::Soonest(way)) => way.lock = yes_or_no(value)?,
            ("risk", Width::Soonest(way)) => {
                way.risk = number(value, 0.0, 1.0, "a part from 0 to 1")?;
            }
            ("price", Width::Soonest(way)) => {
                way.price = number(value, 0.0, 1e6, "a number of at least 0")?;
            }
            ("k", Width::Patient { k }) => *k = number(value, 0.0, 1e6, "a number of at least 0")?,
            _ => return Err("the policy does not use it"),
        }

        Ok(())
    }
}

fn yes_or_no(value: &str) -> Result<bool, Wanted> {
    one_of(value, &[("yes", true), ("no", false)], "`yes` or `no`")
}

pub(super) fn rule(value: &str) -> Result<Rule, Wanted> {
    let wanted = "`off`, `hard`, `grace` with a part of the estimate such as `grace0.25`, or `probabilistic`";
    if let Some(part) = value.strip_prefix("grace") {
        return Ok(Rule::Grace(number(part, 0.0, 1e6, wanted)?));
    }

    one_of(
        value,
        &[
            ("off", Rule::Off),
            ("hard", Rule::Hard),
            ("probabilistic", Rule::Probabilistic),
        ],
        wanted,
    )
}

fn requeue(value: &str) -> Result<Requeue, Wanted> {
    let choices = [
        ("any", Requeue::Any),
        ("primary", Requeue::Primary),
        ("never", Requeue::Never),
    ];
    one_of(value, &choices, "`any`, `primary` or `never`")
}
