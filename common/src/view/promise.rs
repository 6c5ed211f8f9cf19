//! Views of promised deadlines, of the run-time limits that a job's attempts get, and of the
//! quality of users' estimates.

use serde::{Deserialize, Serialize};

use super::QualityView;
use crate::time::{Span, Time};

states! {
    /// State of a promise.
    PromiseState {
        /// The forecast is that the job is done by its deadline.
        OnTime = "on-time",
        /// The forecast is that the job misses its deadline.
        AtRisk = "at-risk",
        /// The job was done by its deadline.
        Kept = "kept",
        /// The job missed its deadline, or cannot meet it any more.
        Broken = "broken",
        /// It counts no more: its user cancelled the job, or had tasks tried again that came too
        /// late.
        Withdrawn = "withdrawn",
    }
}

/// A job's promise and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromiseStatus {
    /// The time at which it was made.
    pub made: Time,
    /// The time by which the job's last task must be done.
    pub deadline: Time,
    /// The expected end of the job, as stated when the promise was made.
    pub finish: Time,
    /// The probability that the deadline is kept, as stated then.
    pub probability: f64,
    /// Whether the job was taken on probation, to learn the quality of its user's estimates.
    pub probation: bool,
    /// Its present state.
    pub state: PromiseState,
    /// The reason of its state.
    pub why: String,
}

/// The run-time limits of a job's attempts, where limits are learned. Times are run times on a host
/// of speed 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitsView {
    /// The number of runs of the same program and user that the limits are learned from.
    pub runs: u64,
    /// The number of those runs that were killed before they were done.
    pub killed: u64,
    /// The assumed rate of small work that fills gaps (backfill), by processor.
    pub zeta: f64,
    /// The limits of a task's first attempt, of its second, and so on; after the last one they
    /// double. Empty while too little is known.
    pub limits: Vec<Span>,
    /// The probability, for each of `limits`, that a task is done by then.
    pub done: Vec<f64>,
    /// The expected reserved time that a task takes, over all its attempts.
    pub expected: Option<Span>,
    /// The reason why there are no limits.
    pub why: Option<String>,
}

/// The quality of a user's estimates for a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EstimatesView {
    /// The user.
    pub user: String,
    /// The program.
    pub program: String,
    /// The number of tasks that were measured.
    pub tasks: u64,
    /// The quality, where estimates were given.
    pub quality: Option<QualityView>,
}
