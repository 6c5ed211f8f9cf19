//! The forms of scenario files. What is not here: what becomes of them.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::sets::Sets;
use super::world::OnGrid;

/// A scenario.
#[derive(Debug, Clone, PartialEq)]
pub enum Scenario {
    /// What the calendar says of a new bag.
    Calendar(Calendar),
    /// Who would be killed.
    Kill(Kill),
    /// Which estimates have a quality.
    Interval(Interval),
    /// Bags over time.
    Bags(Bags),
    /// Sets that users disclose, request and cancel.
    Sets(Sets),
    /// Jobs on hosts that come and go.
    Grid(OnGrid),
}

/// An entry of `calendar`. Times in seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Calendar {
    /// When the new bag comes.
    pub now: f64,
    /// How many hosts there are.
    pub hosts: u32,
    /// Start and estimate of what runs.
    #[serde(default)]
    pub running_start_est: Vec<(f64, f64)>,
    /// Estimates of what waits.
    #[serde(default)]
    pub waiting_est: Vec<f64>,
    /// Estimates of the new bag.
    pub new_est: Vec<f64>,
    /// How long after `now` the new bag is to be done; any time will do where nothing is said.
    #[serde(default)]
    pub deadline: Option<f64>,
    /// CALENDAR unless something else is said.
    #[serde(default)]
    pub policy: Option<String>,
}

/// An entry of `kill`. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Kill {
    /// What was estimated.
    pub est: f64,
    /// What has passed.
    pub elapsed: f64,
}

/// An entry of `estimate_interval`. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Interval {
    /// The run time.
    pub c: f64,
    /// The quality.
    pub qoe: f64,
}

/// An entry of `bags`. Times in seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bags {
    /// The hosts' speeds, or how many there are of speed 1.
    pub hosts: Hosts,
    /// A policy of the catalogue, with parameters; PROMISE without disturbances unless something
    /// else is said.
    #[serde(default)]
    pub policy: Option<String>,
    /// The bags.
    pub bags: Vec<OneBag>,
}

/// Hosts of a scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Hosts {
    /// So many of speed 1.
    Equal(u32),
    /// One of each speed.
    Speeds(Vec<f64>),
}

/// A bag of a scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneBag {
    /// When it comes.
    pub at: f64,
    /// Whose it is.
    #[serde(default)]
    pub user: String,
    /// How long after that it is to be done.
    #[serde(default)]
    pub deadline: Option<f64>,
    /// Estimate and run time of each task.
    pub tasks: Vec<(f64, f64)>,
}

/// A file that is no scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadScenario {
    /// No JSON.
    #[error("it is no JSON: {0}")]
    Json(String),
    /// JSON of another form.
    #[error(
        "it holds none of `calendar`, `kill`, `estimate_interval`, `bags`, `scenarios` and `grids`, and is no entry of them"
    )]
    Unknown,
    /// Nearly an entry.
    #[error("it looks like an entry of `{kind}`, and lacks {}", quoted(lacks))]
    Lacks {
        /// Of which kind.
        kind: &'static str,
        /// What it does not have.
        lacks: Vec<&'static str>,
    },
    /// An entry that cannot be read.
    #[error("entry {number} of `{kind}`: {why}")]
    Entry {
        /// Of which kind.
        kind: &'static str,
        /// Counted from 1.
        number: usize,
        /// Why.
        why: String,
    },
}

fn quoted(fields: &[&str]) -> String {
    fields
        .iter()
        .map(|field| format!("`{field}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// What an entry of each kind must have.
const FIELDS: [(&str, &[&str]); 6] = [
    ("kill", &["est", "elapsed"]),
    ("estimate_interval", &["c", "qoe"]),
    ("calendar", &["now", "hosts", "new_est"]),
    ("scenarios", &["policy", "servers", "sets", "think"]),
    ("grids", &["hosts", "jobs"]),
    ("bags", &["hosts", "bags"]),
];

/// What somebody may have meant: the kind of which the fewest fields are missing, if any is there.
fn unknown(value: &Value) -> BadScenario {
    let Some(fields) = value.as_object() else {
        return BadScenario::Unknown;
    };
    let there = |names: &[&'static str]| {
        names
            .iter()
            .filter(|name| fields.contains_key(**name))
            .count()
    };

    // Optional, and of one kind only.
    let calendar = ["running_start_est", "waiting_est"]
        .iter()
        .any(|name| fields.contains_key(*name));
    let likely = FIELDS
        .iter()
        .filter(|(kind, names)| there(names) > 0 || (calendar && *kind == "calendar"));
    let nearest = likely
        .min_by_key(|(kind, names)| (calendar && *kind != "calendar", names.len() - there(names)));

    nearest.map_or(BadScenario::Unknown, |(kind, names)| {
        let lacks = names
            .iter()
            .copied()
            .filter(|name| !fields.contains_key(*name))
            .collect();
        BadScenario::Lacks { kind, lacks }
    })
}

/// The kinds of entries, each with a field that no other kind has.
const KINDS: [(&str, &str); 6] = [
    ("kill", "elapsed"),
    ("estimate_interval", "qoe"),
    ("calendar", "new_est"),
    ("scenarios", "sets"),
    ("grids", "jobs"),
    ("bags", "bags"),
];

/// The scenarios of a file, each with its kind.
///
/// # Errors
/// If there are none, or one cannot be read.
pub fn read(text: &str) -> Result<Vec<(&'static str, Scenario)>, BadScenario> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| BadScenario::Json(error.to_string()))?;

    let alone = |value: &Value| value.as_object().and_then(kind_of);
    if let Some(kind) = alone(&value) {
        return Ok(vec![(kind, entry(kind, 1, &value)?)]);
    }

    let mut found = Vec::new();
    if let Value::Array(entries) = &value {
        for (number, value) in (1..).zip(entries) {
            let kind = alone(value).ok_or_else(|| unknown(value))?;
            found.push((kind, entry(kind, number, value)?));
        }
    }

    for (kind, _) in KINDS {
        let Some(Value::Array(entries)) = value.get(kind) else {
            continue;
        };
        for (number, value) in (1..).zip(entries) {
            found.push((kind, entry(kind, number, value)?));
        }
    }

    if found.is_empty() {
        Err(unknown(&value))
    } else {
        Ok(found)
    }
}

fn kind_of(fields: &Map<String, Value>) -> Option<&'static str> {
    let has = |(kind, field): &&(&str, &'static str)| match *kind {
        // A list of whole entries has the same name as the field of one.
        "bags" => fields.contains_key("hosts") && fields.contains_key("bags"),
        _ => fields.contains_key(*field),
    };
    KINDS.iter().find(has).map(|(kind, _)| *kind)
}

fn entry(kind: &'static str, number: usize, value: &Value) -> Result<Scenario, BadScenario> {
    let bad = |why: String| BadScenario::Entry { kind, number, why };
    let read = |error: serde_json::Error| bad(error.to_string());
    let value = value.clone();
    let scenario = match kind {
        "kill" => Scenario::Kill(serde_json::from_value(value).map_err(read)?),
        "estimate_interval" => Scenario::Interval(serde_json::from_value(value).map_err(read)?),
        "calendar" => Scenario::Calendar(serde_json::from_value(value).map_err(read)?),
        "scenarios" => Scenario::Sets(serde_json::from_value(value).map_err(read)?),
        "grids" => Scenario::Grid(serde_json::from_value(value).map_err(read)?),
        _ => Scenario::Bags(serde_json::from_value(value).map_err(read)?),
    };
    scenario.check().map_err(bad)?;

    Ok(scenario)
}

/// The longest time that a scenario may name, in seconds.
const LONGEST_S: f64 = 1e9;

impl Scenario {
    fn check(&self) -> Result<(), String> {
        let time = |name: &str, value: f64| {
            let fine = (0.0..=LONGEST_S).contains(&value);
            if fine {
                Ok(())
            } else {
                Err(format!(
                    "{name} must be seconds between 0 and {LONGEST_S:e}, not {value}"
                ))
            }
        };
        match self {
            Scenario::Kill(Kill { est, elapsed }) => {
                time("est", *est)?;
                time("elapsed", *elapsed)
            }
            Scenario::Interval(Interval { c, qoe }) => {
                time("c", *c)?;
                let fine = (0.0..1.0).contains(qoe);
                if fine {
                    Ok(())
                } else {
                    Err(format!("qoe must be at least 0 and less than 1, not {qoe}"))
                }
            }
            Scenario::Calendar(calendar) => calendar.check(time),
            Scenario::Bags(bags) => bags.check(time),
            Scenario::Sets(sets) => sets.check(time),
            Scenario::Grid(grid) => grid.check(time),
        }
    }
}

impl Calendar {
    fn check(&self, time: impl Fn(&str, f64) -> Result<(), String>) -> Result<(), String> {
        time("now", self.now)?;
        self.deadline
            .map_or(Ok(()), |deadline| time("deadline", deadline))?;
        self.waiting_est
            .iter()
            .chain(&self.new_est)
            .try_for_each(|estimate| time("an estimate", *estimate))?;

        for (start, estimate) in &self.running_start_est {
            time("a start", *start)?;
            time("an estimate", *estimate)?;
            if *start > self.now {
                return Err(format!(
                    "what runs cannot have started after now, at {start}"
                ));
            }
        }

        if self.running_start_est.len() > self.hosts as usize {
            return Err("more runs than there are hosts".to_owned());
        }
        if self.new_est.is_empty() {
            return Err("new_est has no tasks".to_owned());
        }

        check_hosts(self.hosts as usize)?;
        check_policy(self.policy.as_deref())
    }
}

impl Hosts {
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Hosts::Equal(hosts) => check_hosts(*hosts as usize),
            Hosts::Speeds(speeds) => {
                check_hosts(speeds.len())?;
                let bad = speeds
                    .iter()
                    .find(|speed| !speed.is_finite() || **speed <= 0.0);
                bad.map_or(Ok(()), |bad| {
                    Err(format!("{bad} is no speed: it must be greater than 0"))
                })
            }
        }
    }
}

impl Bags {
    fn check(&self, time: impl Fn(&str, f64) -> Result<(), String>) -> Result<(), String> {
        self.hosts.check()?;
        let mut before = 0.0;
        for bag in &self.bags {
            time("at", bag.at)?;
            bag.deadline
                .map_or(Ok(()), |deadline| time("deadline", deadline))?;
            if bag.at < before {
                return Err(format!(
                    "bags must be in the order of their times, and {} comes after {before}",
                    bag.at
                ));
            }

            before = bag.at;
            if bag.tasks.is_empty() {
                return Err("a bag has no tasks".to_owned());
            }
            for (estimate, takes) in &bag.tasks {
                time("an estimate", *estimate)?;
                time("a run time", *takes)?;
            }
        }

        check_policy(self.policy.as_deref())
    }
}

/// The most hosts of a scenario.
const MOST_HOSTS: usize = 100_000;

fn check_hosts(hosts: usize) -> Result<(), String> {
    let fine = (1..=MOST_HOSTS).contains(&hosts);
    if fine {
        Ok(())
    } else {
        Err(format!(
            "there must be 1 to {MOST_HOSTS} hosts, not {hosts}"
        ))
    }
}

fn check_policy(name: Option<&str>) -> Result<(), String> {
    let Some(name) = name else { return Ok(()) };
    let policy = scheduler::policy::parse(name).map_err(|why| why.to_string())?;
    let promises = matches!(policy.admission, scheduler::policy::Admission::Calendar(_));
    if promises {
        Ok(())
    } else {
        Err(format!(
            "the policy {} promises no deadlines; PROMISE does",
            policy.name
        ))
    }
}
