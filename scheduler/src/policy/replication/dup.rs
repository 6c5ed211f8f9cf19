//! EXCL-PRED-DUP (Kondo et al. 2004, section 6): "replicates each task when the number of ready
//! hosts is greater than the number of tasks to schedule". Duplicates go after all waiting tasks,
//! those of tasks on the slowest hosts first.
//!
//! Readings: the ready hosts are those that EXCL-PRED does not exclude. Only tasks that start from
//! then on are copied, once each; the paper finds "little improvement" since many tasks "began
//! execution before the point at which there are more ready hosts than tasks". Parameter `copies`
//! has the other reading, in which running tasks are copied too. Parameter `copies_max` bounds the
//! copies of a job, as EXCL-PRED-DUP* of the paper's Figure 11 does.

use super::Requeue;

/// The options of the copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dup {
    /// The tasks that are copied.
    pub which: Replicated,
    /// The lost copies that are started again.
    pub requeue: Requeue,
    /// The number of copies that a job may start, per task.
    pub copies_max: f64,
}

impl Dup {
    /// Whether a job of `tasks` tasks that has started `copies` copies may start another one.
    pub(crate) fn may_copy(&self, copies: u64, tasks: u64) -> bool {
        copies as f64 + 1.0 <= self.copies_max * tasks as f64
    }
}

/// The tasks that are copied once more hosts are ready than tasks wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicated {
    /// Tasks that start from then on.
    Started,
    /// Also tasks that run already.
    Running,
}
