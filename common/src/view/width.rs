//! Views of a gang's width and of the alternatives to it, and of the accuracy of predicted waits.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// The shortest wait whose prediction says something.
const SHORTEST: Span = Span::from_millis(500);

/// The width of a gang, settled or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WidthView {
    /// The fewest hosts that it may have, as things are.
    pub least: u32,
    /// The most hosts that it may have, as things are.
    pub most: u32,
    /// The number of its ranks, once that is settled.
    pub ranks: Option<u32>,
    /// The time since which it holds its hosts.
    pub formed: Option<Time>,
    /// The time since which its ranks run.
    pub begun: Option<Time>,
    /// The number of hosts that are free for it, while it holds none.
    pub free: u32,
    /// The number of all suitable hosts, while it holds none.
    pub hosts: u32,
    /// The number of jobs behind it in the queue, whose waiting counts under some policies.
    pub behind: u32,
    /// Its assumed speedup, where that is known.
    pub scaling: Option<ScalingView>,
    /// The alternatives that were compared, by number of hosts; at most some of them.
    pub ways: Vec<WayView>,
    /// The chosen alternative, while it holds no hosts.
    pub chosen: Option<WayView>,
    /// The reason why no alternatives were compared, or none could be chosen.
    pub why: Option<String>,
}

/// The speedup of a job by its number of hosts (Downey's model), on hosts as fast as the present
/// ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScalingView {
    /// The work of the whole job as a run time on one host.
    pub work: Span,
    /// Its average parallelism.
    pub parallelism: f64,
    /// The variance of its parallelism.
    pub sigma: f64,
    /// The number of runs that this was learned from; 0: it is only the user's statement.
    pub runs: u64,
}

/// An alternative width for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayView {
    /// The number of hosts.
    pub hosts: u32,
    /// The time at which that many should be free for it.
    pub start: Time,
    /// The time at which it should be done, where that is known.
    pub finish: Option<Time>,
}

/// The accuracy of predicted waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AccuracyView {
    /// Waits of gangs for the hosts that they held out for: the newest ones, the oldest first.
    pub hosts: Vec<ForetoldView>,
    /// Waits of jobs for their first start, in the same order.
    pub starts: Vec<ForetoldView>,
    /// Waits for the completion of jobs, each from its first prediction on, in the same order.
    pub finishes: Vec<ForetoldView>,
    /// The number of predictions whose outcome is not known yet.
    pub open: u64,
}

/// A predicted wait and the actual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForetoldView {
    /// The number of hosts waited for; 0: a wait for something else.
    pub hosts: u32,
    /// The time of the prediction.
    pub at: Time,
    /// The predicted wait.
    pub wait: Span,
    /// The lower end of the 80 % prediction interval.
    pub low: Span,
    /// The upper end of that interval.
    pub high: Span,
    /// The actual wait.
    pub came: Span,
}

impl AccuracyView {
    /// Removes the predictions without anything to predict, and returns their number.
    pub fn leave_out_trivial(&mut self) -> usize {
        let mut left_out = 0;
        for all in [&mut self.hosts, &mut self.starts, &mut self.finishes] {
            let before = all.len();
            all.retain(|one| !one.is_trivial());
            left_out += before - all.len();
        }
        left_out
    }
}

impl ForetoldView {
    /// Whether there was nothing to predict: it came at once, or within `SHORTEST` as predicted.
    pub fn is_trivial(&self) -> bool {
        self.came == Span::ZERO || self.wait.max(self.came) < SHORTEST
    }

    /// Whether the actual wait lay in the interval.
    pub fn held(&self) -> bool {
        (self.low..=self.high).contains(&self.came)
    }
}
