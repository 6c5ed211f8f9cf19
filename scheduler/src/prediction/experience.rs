//! The experience with hosts, jobs and users: the survival of hosts, the absences of owners, the
//! processor share of tasks, the worth of copies.

use std::collections::BTreeMap;

use common::Time;
use serde::{Deserialize, Serialize};

use crate::prediction::estimates::Estimates;
use crate::prediction::predict::{Prediction, spread};
pub use crate::prediction::prices::{JobKind, Prices};
use crate::prediction::runs::Runs;
use crate::prediction::silence::Silences;
pub use crate::prediction::silence::Told;
use crate::prediction::survival::{Curve, LifeTable, TabulatedSurvival};
use crate::prediction::widths::{WaitErrors, WidthRuns};

/// The availability of one host over the time that it has been known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TrackRecord {
    /// Mean work that a slot could have done in one availability interval (between two failures),
    /// in seconds on a host of speed 1.
    pub interval_work_s: f64,
    /// Mean work per second while it was up, in seconds on a host of speed 1.
    pub rate: f64,
}

/// The recent behaviour of a host and its owner, such as since the morning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Habit {
    /// The number of times that the owner came.
    pub turns: f64,
    /// The time for which tasks could run, in seconds.
    pub away_s: f64,
    /// The number of times that the host went down.
    pub failures: f64,
    /// The time for which it was up, in seconds.
    pub up_s: f64,
}

/// A host's own rates of suspension and failure, as factors on the common rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Temper {
    pub(crate) suspension: f64,
    pub(crate) failure: f64,
}

impl Temper {
    /// The temper of an average host.
    pub(crate) const COMMON: Self = Self {
        suspension: 1.0,
        failure: 1.0,
    };

    /// Derives the factors from a host's habit, shrunk towards 1 where events are few.
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

/// The experience with all hosts, jobs and users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experience {
    /// Times until hosts go down, by time since they came up.
    pub failure: LifeTable,
    /// Times until owners return, by time since they left (or since the host came up).
    pub suspension: LifeTable,
    /// Times until owners leave, by time since they came.
    pub resumption: LifeTable,
    /// Seconds in which tasks could run, and the processor time available to them in that time.
    pub cpu: (f64, f64),
    /// The gains that copies must have, by [`JobKind`].
    pub prices: Prices,
    /// The errors of predictions.
    pub errors: Errors,
    /// The quality of users' estimates.
    pub estimates: Estimates,
    /// The run times of tasks, by user and program.
    pub runs: Runs,
    /// The run times of gangs at each width, by user and program.
    pub widths: WidthRuns,
    /// The errors of predicted waits for hosts.
    pub waits: WaitErrors,
    /// The number of times that each user dropped the rest of a disclosed job, and of those that
    /// there was a rest to drop or to go on with.
    pub drops: BTreeMap<String, (u32, u32)>,
    /// The recent average number of slots of each user, where slots are divided among users.
    pub shares: BTreeMap<String, f64>,
    /// How silences of hosts ended.
    pub silences: Silences,
}

/// The weight of the prior, in events per age class.
const PRIOR_WEIGHT: f64 = 2.0;

impl Default for Experience {
    /// The prior, for an office: hosts stay up for some hours, owners come every hour for some
    /// minutes.
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
            widths: WidthRuns::default(),
            waits: WaitErrors::default(),
            drops: BTreeMap::new(),
            shares: BTreeMap::new(),
            silences: Silences::default(),
        }
    }
}

impl Experience {
    /// Notes that tasks could run for `span_s` seconds with this part of the processor.
    pub(crate) fn observe_cpu(&mut self, span_s: f64, cpu: f64) {
        self.cpu.0 += span_s;
        self.cpu.1 += span_s * cpu;
    }

    /// Summarizes it for all hosts.
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

/// The common properties of hosts, as of one moment. Much cheaper than [`Curves`], which many
/// policies never use.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Common {
    failure: LifeTable,
    suspension: LifeTable,
    resumption: LifeTable,
    /// The rate in events per second at any age; `failure_rate` likewise.
    suspension_rate: f64,
    failure_rate: f64,
    /// The part of a processor that tasks get while they can run, on average.
    pub(crate) cpu: f64,
}

impl Common {
    /// Fits the survival curves.
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

/// Survival curves fitted to [`Common`], in the form in which they are used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curves {
    pub(crate) failure: Curve,
    pub(crate) suspension: Curve,
    pub(crate) resumption: TabulatedSurvival,
    pub(crate) mean_suspension_s: f64,
    /// The factor by which suspensions lengthen run times.
    pub(crate) stretch: f64,
}

/// The stage of a job for predictions: its beginning, middle or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum JobStage {
    /// Fewer than half of its tasks are done.
    Early,
    /// Fewer than nine tenths of its tasks are done.
    Middle,
    /// At least nine tenths of its tasks are done.
    Late,
}

impl JobStage {
    /// Returns the stage of a job of which this part of the tasks is done.
    pub fn of(part: f64) -> Self {
        match part {
            _ if part < 0.5 => JobStage::Early,
            _ if part < 0.9 => JobStage::Middle,
            _ => JobStage::Late,
        }
    }
}

/// Outcomes of predictions as their places in the predicted intervals (`Prediction::score`), the
/// latest ones of each policy and stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    by_kind: BTreeMap<(String, JobStage), Vec<f32>>,
}

/// The number of remembered predictions of a kind.
const REMEMBERED: usize = 400;

impl Errors {
    /// Returns the scores of this policy and stage.
    pub fn of(&self, policy: &str, stage: JobStage) -> &[f32] {
        // A lookup by reference would need a key type of its own; there are few kinds.
        let found = self
            .by_kind
            .iter()
            .find(|((name, of), _)| name == policy && *of == stage);
        found.map_or(&[], |(_, scores)| scores)
    }

    /// Returns the scores between which the next outcome should lie with a probability of 80 %.
    pub(crate) fn interval(&self, policy: &str, stage: JobStage) -> (f64, f64) {
        spread(self.of(policy, stage))
    }

    /// Notes the outcome of a prediction made at `made`.
    pub(crate) fn note(
        &mut self,
        policy: &str,
        stage: JobStage,
        made: Time,
        prediction: Prediction,
        completed: Time,
    ) {
        let scores = self.by_kind.entry((policy.to_owned(), stage)).or_default();
        if scores.len() == REMEMBERED {
            scores.remove(0);
        }
        scores.push(prediction.score(made, completed) as f32);
    }
}
