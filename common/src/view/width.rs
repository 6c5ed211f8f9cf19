//! On how many hosts a job of several ranks runs, and what it would be on others; and how good
//! predictions of waits were. What is not here: how any of it is reckoned.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// How a job of several ranks stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WidthView {
    /// The fewest and the most hosts that it may have, as things are.
    pub least: u32,
    /// See `least`.
    pub most: u32,
    /// How many ranks it has, once that is settled.
    pub ranks: Option<u32>,
    /// Since when it holds its hosts, and since when its ranks run.
    pub formed: Option<Time>,
    /// See `formed`.
    pub begun: Option<Time>,
    /// Hosts that are free for it, and all that will do; while it holds none.
    pub free: u32,
    /// See `free`.
    pub hosts: u32,
    /// Jobs that wait behind it, whose waiting counts under some policies.
    pub behind: u32,
    /// How fast it is taken to be, where that is known.
    pub scaling: Option<ScalingView>,
    /// Ways to run it that were compared, by the number of hosts: at most some.
    pub ways: Vec<WayView>,
    /// The way that was chosen, while it holds no hosts.
    pub chosen: Option<WayView>,
    /// Why no ways were compared, or why none could be chosen.
    pub why: Option<String>,
}

/// How fast a job is on how many hosts (Downey's model), as fast as those that are there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScalingView {
    /// What all of it takes on one host.
    pub work: Span,
    /// Its average parallelism.
    pub parallelism: f64,
    /// The variance of its parallelism.
    pub sigma: f64,
    /// From how many runs that was learned; 0: only its user has said so.
    pub runs: u64,
}

/// A way to run a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayView {
    /// On how many hosts.
    pub hosts: u32,
    /// When so many should be free for it.
    pub start: Time,
    /// When it should be done, where that is known.
    pub finish: Option<Time>,
}

/// What was predicted of waits, and what came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AccuracyView {
    /// Waits of jobs for as many hosts as they held out for: the newest ones, the oldest first.
    pub hosts: Vec<ForetoldView>,
    /// Waits of jobs for their first start, likewise.
    pub starts: Vec<ForetoldView>,
    /// Predictions of which it is not known yet what comes.
    pub open: u64,
}

/// A prediction of a wait, and what came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForetoldView {
    /// For how many hosts; 0: for the job's first start.
    pub hosts: u32,
    /// When it was made.
    pub at: Time,
    /// What was predicted.
    pub wait: Span,
    /// Between which times it was to lie with a chance of 80 %.
    pub low: Span,
    /// See `low`.
    pub high: Span,
    /// What came.
    pub came: Span,
}
