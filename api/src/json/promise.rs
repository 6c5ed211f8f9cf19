//! The JSON of promises, of learned limits, and of the quality of estimates.

use common::view::{
    CounterView, LimitsView, PromiseState, PromiseStatus, PromiseView, QualityView,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{IsoTime, Object, Seconds, Word};

/// The promise made to a job with a deadline.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MadePromiseJson {
    /// The time by which its last task must be done.
    pub deadline: IsoTime,
    /// The time at which its last task should be done.
    pub promised_finish: IsoTime,
    /// The probability that the deadline is kept.
    pub probability: f64,
    /// Whether the job is taken on probation.
    pub probation: bool,
    /// The quality of the user's estimates for this program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimates: Option<QualityJson>,
}

impl Object for PromiseView {
    type Json = MadePromiseJson;

    fn json(&self) -> MadePromiseJson {
        MadePromiseJson {
            deadline: IsoTime(self.deadline),
            promised_finish: IsoTime(self.finish),
            probability: self.probability,
            probation: self.probation,
            estimates: self.estimates.as_ref().map(Object::json),
        }
    }
}

/// The promises that could be made instead of the refused one.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CounterJson {
    /// The earliest deadline that could be promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earliest_deadline: Option<IsoTime>,
    /// The same as a span from the moment it is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earliest_deadline_s: Option<Seconds>,
    /// The largest part of the tasks that could be done by the deadline: `1-40`.
    pub fits: String,
    /// The number of these tasks.
    pub fits_tasks: u64,
}

impl Object for CounterView {
    type Json = CounterJson;

    fn json(&self) -> CounterJson {
        CounterJson {
            earliest_deadline: self.earliest.map(|(at, _)| IsoTime(at)),
            earliest_deadline_s: self.earliest.map(|(_, span)| Seconds(span)),
            fits: self.fits.to_string(),
            fits_tasks: self.fits.len(),
        }
    }
}

/// The promise of a job, and its present state.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PromiseJson {
    /// The time by which its last task must be done.
    pub deadline: IsoTime,
    /// The expected end, as stated when the promise was made.
    pub promised_finish: IsoTime,
    /// The time at which the promise was made.
    pub promise_made: IsoTime,
    /// The probability that the deadline is kept, as stated then.
    pub probability: f64,
    /// Whether the job was taken on probation.
    pub probation: bool,
    /// The present state of the promise.
    pub promise: Word<PromiseState>,
    /// The reason of that.
    pub promise_why: String,
}

impl Object for PromiseStatus {
    type Json = PromiseJson;

    fn json(&self) -> PromiseJson {
        PromiseJson {
            deadline: IsoTime(self.deadline),
            promised_finish: IsoTime(self.finish),
            promise_made: IsoTime(self.made),
            probability: self.probability,
            probation: self.probation,
            promise: Word(self.state),
            promise_why: self.why.clone(),
        }
    }
}

/// The limits of a job's attempts, as run times on a host of speed 1. `sequence_s` is empty while
/// too little is known, or where limits do not pay; then `why` is there.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LimitsJson {
    /// The number of runs that the limits are learned from.
    pub runs: u64,
    /// The number of those that were killed before they were done.
    pub killed: u64,
    /// The algorithm that chose them: `TOptimal` or `ATOptimal`.
    pub algorithm: &'static str,
    /// The assumed rate of small work that fills gaps.
    pub zeta: f64,
    /// The limits of a task's first attempt, of its second, and so on.
    pub sequence_s: Vec<Seconds>,
    /// The probability, for each of these, that a task is done by then.
    pub done: Vec<f64>,
    /// The first of these probabilities; `null` where there is none.
    pub p_first: Option<f64>,
    /// The expected reserved time that a task takes, over all its attempts.
    pub expected_cost_s: Option<Seconds>,
    /// The reason why there are no limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Object for LimitsView {
    type Json = LimitsJson;

    fn json(&self) -> LimitsJson {
        let algorithm = if self.zeta > 0.0 {
            "ATOptimal"
        } else {
            "TOptimal"
        };

        LimitsJson {
            runs: self.runs,
            killed: self.killed,
            algorithm,
            zeta: self.zeta,
            sequence_s: self.limits.iter().copied().map(Seconds).collect(),
            done: self.done.clone(),
            p_first: self.done.first().copied(),
            expected_cost_s: self.expected.map(Seconds),
            why: self.why.clone(),
        }
    }
}

/// The quality of a user's estimates for a program.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QualityJson {
    /// The number of tasks that were compared.
    pub tasks: u64,
    /// The median ratio of run time to estimate.
    pub ratio: f64,
    /// The lower end of the middle 80 % of these ratios.
    pub ratio_low: f64,
    /// The upper end of the middle 80 % of these ratios.
    pub ratio_high: f64,
    /// The error of nine of ten tasks, relative to the estimate, at most.
    pub qoe: f64,
}

impl Object for QualityView {
    type Json = QualityJson;

    fn json(&self) -> QualityJson {
        let (ratio, ratio_low, ratio_high) = self.ratio;
        QualityJson {
            tasks: self.tasks,
            ratio,
            ratio_low,
            ratio_high,
            qoe: self.qoe,
        }
    }
}
