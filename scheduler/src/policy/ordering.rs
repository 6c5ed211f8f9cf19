//! Which waiting task is next? Each answer ranks jobs; within a job, tasks that had an attempt go first, then the
//! lowest index.

use std::cmp::Reverse;

use common::JobId;

/// How waiting jobs are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// Higher priority first, then earlier arrival.
    Fcfs,
    /// Jobs that were promised a deadline before all others, by arrival (Wozniak et al., section 4: FIFO); within them
    /// the tasks in the order of the calendar.
    Promised,
}

/// A job's place in the line; smaller goes first. Ends in the job's number, so that no two are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Whether nothing was promised to it.
    unpromised: bool,
    priority: Reverse<i32>,
    arrival: u64,
    /// Whose place it is.
    pub(crate) job: JobId,
}

impl Rank {
    /// Whether a deadline was promised to the job.
    pub(crate) fn promised(self) -> bool {
        !self.unpromised
    }
}

impl Ordering {
    pub(crate) fn rank(self, priority: i32, arrival: u64, job: JobId, promised: bool) -> Rank {
        match self {
            Ordering::Promised if promised => Rank { unpromised: false, priority: Reverse(0), arrival, job },
            Ordering::Fcfs | Ordering::Promised => Rank { unpromised: true, priority: Reverse(priority), arrival, job },
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Ordering::Fcfs => {
                "higher priority first, then earlier arrival; within a job requeued tasks first, then by index"
            }
            Ordering::Promised => {
                "jobs with a promised deadline before all others, by arrival whatever their priority; within a job \
                 requeued tasks first, then as on the calendar"
            }
        }
    }
}
