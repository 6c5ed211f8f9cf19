//! What was learned from hosts' past: how long they stay, how often their owners come, how much of
//! their processors tasks get, and what copies were worth. What is not here: decisions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::prediction::estimates::Estimates;
pub use crate::prediction::prices::{JobKind, Prices};
use crate::prediction::runs::Runs;
use crate::prediction::survival::{Curve, LifeTable, Tabulated};
use crate::prediction::widths::{Waits, Widths};

/// How one host was available over the time that it has been known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TrackRecord {
    /// Mean work that a slot could have done in one availability interval (between two failures),
    /// in seconds on a host of speed 1.
    pub interval_work_s: f64,
    /// Mean work per second while it was up, in seconds on a host of speed 1.
    pub rate: f64,
}

/// What a host and its owner have done lately, such as since the morning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Habit {
    /// How often the owner came.
    pub turns: f64,
    /// For how long tasks could run, in seconds.
    pub away_s: f64,
    /// How often the host went down.
    pub failures: f64,
    /// For how long it was up, in seconds.
    pub up_s: f64,
}

/// How much more often than others a host is disturbed and goes down, as factors of the rates that
/// hosts have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Temper {
    pub(crate) suspension: f64,
    pub(crate) failure: f64,
}

impl Temper {
    /// A host like all others.
    pub(crate) const COMMON: Self = Self {
        suspension: 1.0,
        failure: 1.0,
    };

    /// What a host's habit says, as far as so few events can.
    pub(crate) fn of(habit: &Habit, common: &Common) -> Self {
        let factor = |events: f64, seen_s: f64, rate: f64, weight: f64| {
            (events + weight) / (seen_s * rate + weight)
        };
        Self {
            suspension: factor(habit.turns, habit.away_s, common.suspension_rate, 1.0),
            failure: factor(habit.failures, habit.up_s, common.failure_rate, 4.0).sqrt(),
        }
    }
}

/// What hosts have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experience {
    /// How long hosts stay up, by time since they came up.
    pub failure: LifeTable,
    /// How long owners stay away, by time since they left (or since the host came up).
    pub suspension: LifeTable,
    /// How long owners stay, by time since they came.
    pub resumption: LifeTable,
    /// Seconds in which tasks could run, and the processor time that they could have had in them.
    pub cpu: (f64, f64),
    /// What copies must gain, by kind of job.
    pub prices: Prices,
    /// How well predictions held.
    pub errors: Errors,
    /// How good people's estimates were.
    pub estimates: Estimates,
    /// How long tasks took, by user and program.
    pub runs: Runs,
    /// How long jobs of several ranks took on how many hosts, by user and program.
    pub widths: Widths,
    /// How good predictions of waits for hosts were.
    pub waits: Waits,
    /// How often each user dropped the rest of what was disclosed, and how often there was a rest
    /// to be dropped or gone on with.
    pub drops: BTreeMap<String, (u32, u32)>,
    /// The average number of slots that each user had lately, where users share.
    pub shares: BTreeMap<String, f64>,
}

/// The weight of what is assumed before anything was seen, in events per age class.
const PRIOR_WEIGHT: f64 = 2.0;

impl Default for Experience {
    /// What is assumed of an office before anything was seen: hosts stay for some hours, owners
    /// come every hour for some minutes.
    fn default() -> Self {
        Self {
            failure: LifeTable::prior(1.0 / 10_000.0, PRIOR_WEIGHT),
            suspension: LifeTable::prior(1.0 / 3_600.0, PRIOR_WEIGHT),
            resumption: LifeTable::prior(1.0 / 300.0, PRIOR_WEIGHT),
            cpu: (3_600.0, 0.95 * 3_600.0),
            prices: Prices::default(),
            errors: Errors::default(),
            estimates: Estimates::default(),
            runs: Runs::default(),
            widths: Widths::default(),
            waits: Waits::default(),
            drops: BTreeMap::new(),
            shares: BTreeMap::new(),
        }
    }
}

impl Experience {
    /// Tasks could run for so long, and have this part of the processor.
    pub(crate) fn observe_cpu(&mut self, span_s: f64, cpu: f64) {
        self.cpu.0 += span_s;
        self.cpu.1 += span_s * cpu;
    }

    /// What follows from it for all hosts.
    pub(crate) fn common(&self) -> Common {
        let rate = |table: &LifeTable| table.events() / table.exposure_s();
        Common {
            failure: self.failure,
            suspension: self.suspension,
            resumption: self.resumption,
            suspension_rate: rate(&self.suspension),
            failure_rate: rate(&self.failure),
            cpu: (self.cpu.1 / self.cpu.0).clamp(0.05, 1.0),
        }
    }
}

/// What hosts have in common, as of one moment. Much cheaper than [`Curves`], which many policies
/// never ask for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Common {
    failure: LifeTable,
    suspension: LifeTable,
    resumption: LifeTable,
    /// Events per second, whatever the age.
    suspension_rate: f64,
    failure_rate: f64,
    /// The part of a processor that tasks get while they can run, on average.
    pub(crate) cpu: f64,
}

impl Common {
    /// How long things last.
    pub(crate) fn curves(&self) -> Curves {
        let suspension = self.suspension.curve();
        let resumption = self.resumption.curve().tabulated();
        let mean_suspension_s = resumption.mean_s();
        Curves {
            failure: self.failure.curve(),
            stretch: 1.0 + mean_suspension_s / suspension.tabulated().mean_s(),
            suspension,
            resumption,
            mean_suspension_s,
        }
    }
}

/// How long things last, by [`Common`], in the form in which it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curves {
    pub(crate) failure: Curve,
    pub(crate) suspension: Curve,
    pub(crate) resumption: Tabulated,
    pub(crate) mean_suspension_s: f64,
    /// By how much suspensions lengthen what runs, as a factor.
    pub(crate) stretch: f64,
}

/// How far a job has come, as predictions tell: at its beginning, in its middle, near its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// Fewer than half of its tasks are done.
    Early,
    /// Fewer than nine tenths are.
    Middle,
    /// The rest.
    Late,
}

impl Stage {
    /// The stage of a job of which this part of the tasks is done.
    pub fn of(part: f64) -> Self {
        match part {
            _ if part < 0.5 => Stage::Early,
            _ if part < 0.9 => Stage::Middle,
            _ => Stage::Late,
        }
    }
}

/// Logarithms of (time that was left / time predicted to be left), the latest ones of each policy
/// and stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    by_kind: BTreeMap<(String, Stage), Vec<f32>>,
}

/// How many predictions of a kind are remembered.
const REMEMBERED: usize = 400;

impl Errors {
    /// The errors of this kind.
    pub fn of(&self, policy: &str, stage: Stage) -> &[f32] {
        // A lookup that borrows would need a key type of its own; there are few kinds.
        let found = self
            .by_kind
            .iter()
            .find(|((name, of), _)| name == policy && *of == stage);
        found.map_or(&[], |(_, errors)| errors)
    }

    /// So much time was predicted to be left, and so much was.
    pub(crate) fn note(&mut self, policy: &str, stage: Stage, predicted_s: f64, was_s: f64) {
        let errors = self.by_kind.entry((policy.to_owned(), stage)).or_default();
        if errors.len() == REMEMBERED {
            errors.remove(0);
        }
        errors.push((was_s.max(1.0) / predicted_s.max(1.0)).ln() as f32);
    }
}
