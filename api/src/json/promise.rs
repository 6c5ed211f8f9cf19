//! The JSON of promises, of learned limits, and of the quality of estimates.

use common::view::{
    CounterView, LimitsView, PromiseState, PromiseStatus, PromiseView, QualityView,
};

use super::{IsoTime, Object, Seconds, Word, form};

form! {
    /// The promise made to a job with a deadline.
    pub struct MadePromiseJson of PromiseView as view {
        /// The time by which its last task must be done.
        pub deadline: IsoTime = IsoTime(view.deadline),
        /// The time at which its last task should be done.
        pub promised_finish: IsoTime = IsoTime(view.finish),
        /// The probability that the deadline is kept.
        pub probability: f64 = view.probability,
        /// Whether the job is taken on probation.
        pub probation: bool = view.probation,
        /// The quality of the user's estimates for this program.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub estimates: Option<QualityJson> = view.estimates.as_ref().map(Object::json),
    }
}

form! {
    /// The promises that could be made instead of the refused one.
    pub struct CounterJson of CounterView as view {
        /// The earliest deadline that could be promised.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub earliest_deadline: Option<IsoTime> = view.earliest.map(|(at, _)| IsoTime(at)),
        /// The same as a span from the moment it is asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub earliest_deadline_s: Option<Seconds> = view.earliest.map(|(_, span)| Seconds(span)),
        /// The largest part of the tasks that could be done by the deadline: `1-40`.
        pub fits: String = view.fits.to_string(),
        /// The number of these tasks.
        pub fits_tasks: u64 = view.fits.len(),
    }
}

form! {
    /// The promise of a job, and its present state.
    pub struct PromiseJson of PromiseStatus as status {
        /// The time by which its last task must be done.
        pub deadline: IsoTime = IsoTime(status.deadline),
        /// The expected end, as stated when the promise was made.
        pub promised_finish: IsoTime = IsoTime(status.finish),
        /// The time at which the promise was made.
        pub promise_made: IsoTime = IsoTime(status.made),
        /// The probability that the deadline is kept, as stated then.
        pub probability: f64 = status.probability,
        /// Whether the job was taken on probation.
        pub probation: bool = status.probation,
        /// The present state of the promise.
        pub promise: Word<PromiseState> = Word(status.state),
        /// The reason of that.
        pub promise_why: String = status.why.clone(),
    }
}

form! {
    /// The limits of a job's attempts, as run times on a host of speed 1. `sequence_s` is empty while
    /// too little is known, or where limits do not pay; then `why` is there.
    pub struct LimitsJson of LimitsView as view {
        /// The number of runs that the limits are learned from.
        pub runs: u64 = view.runs,
        /// The number of those that were killed before they were done.
        pub killed: u64 = view.killed,
        /// The algorithm that chose them: `TOptimal` or `ATOptimal`.
        pub algorithm: &'static str = if view.zeta > 0.0 { "ATOptimal" } else { "TOptimal" },
        /// The assumed rate of small work that fills gaps.
        pub zeta: f64 = view.zeta,
        /// The limits of a task's first attempt, of its second, and so on.
        pub sequence_s: Vec<Seconds> = view.limits.iter().copied().map(Seconds).collect(),
        /// The probability, for each of these, that a task is done by then.
        pub done: Vec<f64> = view.done.clone(),
        /// The first of these probabilities; `null` where there is none.
        pub p_first: Option<f64> = view.done.first().copied(),
        /// The expected reserved time that a task takes, over all its attempts.
        pub expected_cost_s: Option<Seconds> = view.expected.map(Seconds),
        /// The reason why there are no limits.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub why: Option<String> = view.why.clone(),
    }
}

form! {
    /// The quality of a user's estimates for a program.
    pub struct QualityJson of QualityView as view {
        /// The number of tasks that were compared.
        pub tasks: u64 = view.tasks,
        /// The median ratio of run time to estimate.
        pub ratio: f64 = view.ratio.0,
        /// The lower end of the middle 80 % of these ratios.
        pub ratio_low: f64 = view.ratio.1,
        /// The upper end of the middle 80 % of these ratios.
        pub ratio_high: f64 = view.ratio.2,
        /// The error of nine of ten tasks, relative to the estimate, at most.
        pub qoe: f64 = view.qoe,
    }
}
