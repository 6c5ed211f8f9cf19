//! What became of promised deadlines, the limits that a job's attempts get, and how good people's
//! estimates are. What is not here: how any of it is reckoned.

use serde::{Deserialize, Serialize};

use super::QualityView;
use crate::time::{Span, Time};

states! {
    /// What becomes of a promise.
    PromiseState {
        /// The job should be done by its deadline.
        OnTime = "on-time",
        /// It should not, as things are.
        AtRisk = "at-risk",
        /// It was.
        Kept = "kept",
        /// It was not, or cannot be any more.
        Broken = "broken",
        /// It counts no more: its user cancelled the job, or had tasks tried again that came too
        /// late.
        Withdrawn = "withdrawn",
    }
}

/// A job's promise, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromiseStatus {
    /// When it was made.
    pub made: Time,
    /// When the job's last task is to be done.
    pub deadline: Time,
    /// When it should be done, as was said when the promise was made.
    pub finish: Time,
    /// The probability that the deadline is kept, as was said then.
    pub probability: f64,
    /// Whether it was made to find out how good its user's estimates are.
    pub probation: bool,
    /// What becomes of it.
    pub state: PromiseState,
    /// Why it is in its state.
    pub why: String,
}

/// The limits that a job's attempts get, of a job whose limits are learned. Times are run times on
/// a host of speed 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitsView {
    /// How many runs of the same program and user they are learned from.
    pub runs: u64,
    /// Those of them that were killed before they were done.
    pub killed: u64,
    /// The rate of small work that fills gaps, by processor, that they reckon with.
    pub zeta: f64,
    /// The limits of a task's first attempt, of its second, and so on; after the last one they
    /// double. None while too little is known.
    pub limits: Vec<Span>,
    /// For each the probability that a task is done by then.
    pub done: Vec<f64>,
    /// What a task should take of reserved time, over all its attempts.
    pub expected: Option<Span>,
    /// Why there are none.
    pub why: Option<String>,
}

/// How good somebody's estimates for a program were.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EstimatesView {
    /// Whose.
    pub user: String,
    /// For which program.
    pub program: String,
    /// Tasks that were measured.
    pub tasks: u64,
    /// How good they were, where something had been estimated.
    pub quality: Option<QualityView>,
}
