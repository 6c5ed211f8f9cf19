//! EXCL-PRED-DUP (Kondo et al. 2004, section 6): "replicates each task when the number of ready
//! hosts is greater than the number of tasks to schedule". Duplicates go after all waiting tasks,
//! those of tasks on the slowest hosts first.
//!
//! Readings: the ready hosts are those that EXCL-PRED does not exclude. Only tasks that start from
//! then on are copied, once each; the paper finds "little improvement" since many tasks "began
//! execution before the point at which there are more ready hosts than tasks". Parameter `copies`
//! has the other reading, in which running tasks are copied too. Parameter `copies_max` gives a job
//! so many copies and no more, as EXCL-PRED-DUP* of the paper's Figure 11 has them.

use super::Requeue;

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dup {
    /// Which tasks.
    pub which: Replicated,
    /// Which lost copies are started again.
    pub requeue: Requeue,
    /// Copies that a job may start, per task.
    pub copies_max: f64,
}

impl Dup {
    /// Whether a job with so many tasks that has started so many copies may start another one.
    pub(crate) fn may_copy(&self, copies: u64, tasks: u64) -> bool {
        copies as f64 + 1.0 <= self.copies_max * tasks as f64
    }
}

/// Which tasks are copied once more hosts are ready than tasks wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicated {
    /// Those that start from then on.
    Started,
    /// Those that run already too.
    Running,
}
