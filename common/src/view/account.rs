//! Views of disclosed tasks' lives and of users' accounts.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::time::{Span, Time};

/// The life of a task that was only disclosed at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeculationView {
    /// The time at which it was disclosed.
    pub disclosed: Time,
    /// The time at which it was requested, if it was.
    pub requested: Option<Time>,
    /// The time at which it was executed, if it was.
    pub executed: Option<Time>,
    /// The time at which its output was removed, if nobody had requested it and it took too much
    /// room. A request runs the task again if it had finished, a retry if it had failed.
    pub removed: Option<Time>,
}

impl SpeculationView {
    /// Returns the time at which the user had the result: the later of `requested` and `executed`.
    pub fn delivered(&self) -> Option<Time> {
        Some(self.requested?.max(self.executed?))
    }

    /// Returns the time that the user waited for the result; zero if it was executed before the
    /// request.
    pub fn visible_response(&self) -> Option<Span> {
        Some(self.executed?.since(self.requested?))
    }
}

/// The processor time spent on a user's tasks, or on those of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountView {
    /// The user.
    pub user: String,
    /// The job; `None`: every job of the user's, forgotten ones included.
    pub job: Option<JobId>,
    /// The number of tasks that were tried or requested.
    pub tasks: u64,
    /// The number of those that were requested.
    pub requested: u64,
    /// The number of those that were requested and executed.
    pub finished: u64,
    /// Processor time spent on them, in seconds.
    pub used_s: f64,
    /// Processor time spent on requested tasks, in seconds; only this is billed.
    pub billed_s: f64,
    /// Processor time spent on tasks that were not requested, in seconds.
    pub free_s: f64,
    /// The bytes kept of the output of tasks that were executed and not requested.
    pub kept_bytes: u64,
    /// The ratio of all processor time (`used_s`) to that of requested tasks (`billed_s`).
    pub scaled_if_all_billed: Option<f64>,
    /// The ratio of `used_s` to the processor time of tasks that were not yet executed when they
    /// were requested.
    pub scaled_by_waited_for: Option<f64>,
    /// The spread of the times that results were waited for, in seconds.
    pub response_s: Option<SpreadView>,
    /// The spread of the same times as multiples of the tasks' run times.
    pub slowdown: Option<SpreadView>,
    /// The user's share of the grid; `None` for a single job.
    pub share: Option<ShareView>,
}

/// A user's part of the grid, now and lately. A running task takes a slot, or as many as the
/// processors that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShareView {
    /// The number of slots that the user's tasks take now.
    pub slots: u64,
    /// The recent average of that number.
    pub average: f64,
    /// The part of the recent averages of all users, from 0 to 1.
    pub part: f64,
    /// The part that is due to the user beside those who have tasks now, by weight: over 0, and at
    /// most 1.
    pub due: f64,
    /// The user's weight.
    pub weight: f64,
    /// The most tasks of the user that may run at a time; `None`: any number.
    pub most_running: Option<u32>,
}

/// The spread of a set of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpreadView {
    /// The mean.
    pub mean: f64,
    /// The median, to within a tenth.
    pub p50: f64,
    /// The quantile 0.9.
    pub p90: f64,
    /// The quantile 0.99.
    pub p99: f64,
}
