//! What disclosed tasks' lives and people's accounts look like. What is not here: how they are
//! reckoned.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::time::{Span, Time};

/// The life of a task that was only disclosed at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeculationView {
    /// When it was disclosed.
    pub disclosed: Time,
    /// When it was requested, if it was.
    pub requested: Option<Time>,
    /// When it was executed, if it was.
    pub executed: Option<Time>,
    /// When what it left was removed, if nobody had requested it and it took too much room. A
    /// request runs it again where it had finished, a retry where it had failed.
    pub removed: Option<Time>,
}

impl SpeculationView {
    /// When its result was there for its user: once it was both requested and executed.
    pub fn delivered(&self) -> Option<Time> {
        Some(self.requested?.max(self.executed?))
    }

    /// How long its user waited for the result.
    pub fn visible_response(&self) -> Option<Span> {
        Some(self.executed?.since(self.requested?))
    }
}

/// What was spent on a user's tasks, or on those of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountView {
    /// Whose.
    pub user: String,
    /// Of which job; of all, forgotten ones included, where there is none.
    pub job: Option<JobId>,
    /// Tasks that were tried or requested.
    pub tasks: u64,
    /// Those that were requested.
    pub requested: u64,
    /// Those that were requested and executed.
    pub finished: u64,
    /// Processor time spent on them, in seconds.
    pub used_s: f64,
    /// Processor time spent on those that were requested, in seconds: this is what counts.
    pub billed_s: f64,
    /// Processor time spent on those that were not, in seconds.
    pub free_s: f64,
    /// Bytes that are kept of what was executed and not requested.
    pub kept_bytes: u64,
    /// What would be billed if everything were, over what was requested.
    pub scaled_if_all_billed: Option<f64>,
    /// The same over what was not yet executed when it was requested.
    pub scaled_by_waited_for: Option<f64>,
    /// How long results were waited for, in seconds.
    pub response_s: Option<SpreadView>,
    /// The same, as a multiple of the task's run time.
    pub slowdown: Option<SpreadView>,
}

/// How values are spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpreadView {
    /// Their mean.
    pub mean: f64,
    /// Half of them are no greater, to within a tenth.
    pub p50: f64,
    /// Nine of ten are no greater.
    pub p90: f64,
    /// Of a hundred 99 are no greater.
    pub p99: f64,
}
