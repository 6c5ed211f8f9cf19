//! Which waiting task is next? Each answer ranks jobs; within a job, tasks that had an attempt go first, then the
//! lowest index.

use std::cmp::Reverse;

use common::JobId;

/// How waiting jobs are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// Higher priority first, then earlier arrival.
    Fcfs,
}

/// A job's place in the line; smaller goes first. Ends in the job's number, so that no two are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    priority: Reverse<i32>,
    arrival: u64,
    /// Whose place it is.
    pub(crate) job: JobId,
}

impl Ordering {
    pub(crate) fn rank(self, priority: i32, arrival: u64, job: JobId) -> Rank {
        match self {
            Ordering::Fcfs => Rank { priority: Reverse(priority), arrival, job },
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Ordering::Fcfs => {
                "higher priority first, then earlier arrival; within a job requeued tasks first, then by index"
            }
        }
    }
}
