//! EXCL-PRED-DUP (Kondo et al. 2004, section 6): "replicates each task when the number of ready hosts is greater than
//! the number of tasks to schedule". Duplicates go after all waiting tasks, those of tasks on the slowest hosts first.
//!
//! Readings: the ready hosts are those that EXCL-PRED does not exclude. Only tasks that start from then on are copied, once each; the paper finds "little improvement" since many
//! tasks "began execution before the point at which there are more ready hosts than tasks". Parameter `copies` has the
//! other reading, in which running tasks are copied too.

use super::Requeue;

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dup {
    /// Which tasks.
    pub which: Replicated,
    /// Which lost copies are started again.
    pub requeue: Requeue,
}

/// Which tasks are copied once more hosts are ready than tasks wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicated {
    /// Those that start from then on.
    Started,
    /// Those that run already too.
    Running,
}
