//! The policy's answer on limits: how long an attempt may run, and what happens then.

use common::job::Rules;
use common::{Span, Speed};

use crate::prediction::lessons::Lessons;

use super::policing::Policing;
use super::setting::{HasSettings, Setting, name_of, number, one_of};

/// The source of an attempt's time limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LimitSource {
    /// The job's own timeout, if any; an attempt that reaches it is killed and counts as failed.
    Fixed,
    /// TOptimal (Gainaru et al. 2019): the sequence of least cost by the job's own runs so far. A
    /// task killed at a limit is tried again with the next, and has not failed.
    TimeOptimal,
    /// ATOptimal: the same where small work fills the rest of a limit after an attempt.
    Adaptive {
        /// The rate of small work, per processor, from 0 to below 1.
        zeta: f64,
    },
    /// As [`LimitSource::Fixed`]; and attempts of jobs with a promise that exceed their estimates may be
    /// killed when another bag arrives.
    Policed(Policing),
    /// As [`LimitSource::Policed`]; and attempts of jobs with a promise get limits from the sequence of
    /// least cost by past runs of the same user and program, at the present rate of small work. A
    /// task killed at a limit has not failed.
    Learned(Policing),
    /// The sequence of least cost by past runs of the same user and program, and the job's own;
    /// only on hosts with a known law of their owners' return.
    Windowed {
        /// Whether attempts are killed at the limits, or these only serve the choice of tasks.
        killing: bool,
    },
}

impl HasSettings for LimitSource {
    fn settings(&self) -> &'static [Setting<Self>] {
        match self {
            LimitSource::Fixed | LimitSource::TimeOptimal => &[],
            LimitSource::Adaptive { .. } => &ADAPTIVE,
            LimitSource::Policed(_) | LimitSource::Learned(_) => &POLICED,
            LimitSource::Windowed { .. } => &WINDOWED,
        }
    }
}

const ADAPTIVE: [Setting<LimitSource>; 1] = [Setting {
    name: "zeta",
    meaning: "rate at which small work arrives, by processor, from 0 to below 1 (as on Intrepid, Table 2)",
    get: |limits| limits.zeta(0.0).to_string(),
    set: |limits, value| {
        let zeta = number(value, 0.0, 0.999, "a rate from 0 to below 1")?;
        *limits = LimitSource::Adaptive { zeta };
        Ok(())
    },
}];

const POLICED: [Setting<LimitSource>; 3] = [
    Setting {
        name: "policing",
        meaning: "who may be killed when a bag arrives: nobody (`off`), attempts beyond their estimate (`hard`), beyond it by \
                  the part K (`graceK`), or the farther the likelier (`probabilistic`)",
        get: |limits| limits.policing().rule.to_string(),
        set: |limits, value| {
            let rule = value.parse()?;
            limits.police(|policing| policing.rule = rule);
            Ok(())
        },
    },
    Setting {
        name: "when",
        meaning: "whether they are killed `always`, or as many as are `needed` where the bag would be refused otherwise",
        get: |limits| limits.policing().when.to_string(),
        set: |limits, value| {
            let when = value.parse()?;
            limits.police(|policing| policing.when = when);
            Ok(())
        },
    },
    Setting {
        name: "limits",
        meaning: "whether attempts of jobs with a deadline run until the job's own timeout (`given`), or until limits that past \
                  runs of the same user and program teach (`learned`)",
        get: |limits| name_of(limits.learns(), &LEARNED),
        set: |limits, value| {
            let policing = limits.policing();
            *limits = if one_of(value, &LEARNED, GIVEN_OR_LEARNED)? {
                LimitSource::Learned(policing)
            } else {
                LimitSource::Policed(policing)
            };
            Ok(())
        },
    },
];

const WINDOWED: [Setting<LimitSource>; 1] = [Setting {
    name: "limits",
    meaning: "whether attempts run until the job's own timeout (`given`), or on hosts of which it is known when their \
              owners come back until limits that past runs of the same user and program teach (`learned`)",
    get: |limits| name_of(*limits == LimitSource::Windowed { killing: true }, &LEARNED),
    set: |limits, value| {
        let killing = one_of(value, &LEARNED, GIVEN_OR_LEARNED)?;
        *limits = LimitSource::Windowed { killing };
        Ok(())
    },
}];

/// The names of limits, by whether they are learned.
const LEARNED: [(&str, bool); 2] = [("given", false), ("learned", true)];
const GIVEN_OR_LEARNED: &str = "`given` or `learned`";

/// The shortest learned limit: a shorter one is not worth a second start.
const SHORTEST: Span = Span::from_secs(1);

impl LimitSource {
    /// Returns the limit on a host of this speed, of a task that was killed after `killed_s` (in
    /// seconds on a host of speed 1) before. The job's own timeout holds in any case.
    pub(crate) fn limit(
        self,
        rules: &Rules,
        lessons: &Lessons,
        killed_s: f64,
        speed: Speed,
    ) -> Option<Span> {
        // A task that keeps its state goes on where it was: its attempts give no run times to learn
        // a limit from.
        if !self.learns() || rules.checkpoint {
            return rules.timeout;
        }

        let learned = lessons
            .limit_s(killed_s)
            .map(|work_s| Span::from_secs_f64(work_s / speed.factor()).max(SHORTEST));
        rules.timeout.into_iter().chain(learned).min()
    }

    /// Whether limits are learned from runs.
    pub fn learns(self) -> bool {
        !matches!(self, LimitSource::Fixed | LimitSource::Policed(_))
    }

    /// Returns the rate of small work that it computes with; `present` is the present one.
    pub(crate) fn zeta(self, present: f64) -> f64 {
        match self {
            LimitSource::Adaptive { zeta } => zeta,
            LimitSource::Learned(_) => present,
            LimitSource::Fixed
            | LimitSource::TimeOptimal
            | LimitSource::Policed(_)
            | LimitSource::Windowed { .. } => 0.0,
        }
    }

    /// Returns the rule by which estimates are enforced.
    pub(crate) fn policing(self) -> Policing {
        if let LimitSource::Policed(policing) | LimitSource::Learned(policing) = self {
            policing
        } else {
            Policing::OFF
        }
    }

    /// Changes the rule by which estimates are enforced, where there is one.
    fn police(&mut self, change: impl FnOnce(&mut Policing)) {
        if let LimitSource::Policed(policing) | LimitSource::Learned(policing) = self {
            change(policing);
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            LimitSource::Fixed | LimitSource::Windowed { killing: false } => {
                "the job's timeout where it has one: killed then, and counted as failed"
            }
            LimitSource::TimeOptimal => {
                "the cheapest sequence for what five or more of the job's runs teach: killed then, and tried again with \
                 the next"
            }
            LimitSource::Adaptive { .. } => {
                "the cheapest sequence where small work fills gaps, for what five or more of the job's runs teach: \
                 killed then, and tried again with the next"
            }
            LimitSource::Windowed { killing: true } => {
                "the cheapest sequence for what five or more runs of the same user and program teach: killed then, and tried \
                 again with the next; only on hosts of which it is known when their owners come back"
            }
            LimitSource::Policed(policing) => policing.describe(),
            LimitSource::Learned(_) => {
                "the cheapest sequence for what five or more past runs of the same user and program teach: killed then, \
                 and tried again with the next; only where hosts are reserved (a promised deadline, or several hosts at once)"
            }
        }
    }
}
