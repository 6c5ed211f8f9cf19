//! Which waiting task is next? Each answer ranks jobs; within a job, tasks that had an attempt go
//! first, then the lowest index. Where tasks may be only disclosed, a job has the rank of the one
//! of its waiting tasks that is next (`crate::disclosed::order`).

use std::cmp::Reverse;

use common::JobId;

/// How waiting jobs are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// Of one user's jobs higher priority first, then earlier arrival; between users by share,
    /// where they share (`crate::state::shares`).
    Fcfs,
    /// Jobs that were promised a deadline before all others, by arrival (Wozniak et al., section 4:
    /// FIFO); within them the tasks in the order of the calendar.
    Promised,
    /// What somebody waits for before what is only disclosed (Petrou et al. 2004, section 3.3).
    Batchactive(Batchactive),
}

/// How requested and disclosed tasks are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Batchactive {
    /// Those that somebody waits for.
    pub requested: Requested,
    /// Those that nobody waits for yet.
    pub disclosed: Disclosed,
}

/// An order of requested tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requested {
    /// By the times of the requests, then by index.
    Fcfs,
    /// The one with the least work left; it takes the place of one with more, where that one keeps
    /// its state.
    Srpt,
}

/// An order of disclosed tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disclosed {
    /// None is started before it is requested (the interactive model).
    Held,
    /// As if all were requested when they are disclosed (the batch model).
    AsRequested,
    /// By the times of the disclosures, then by index.
    Fcfs,
    /// By how likely each is needed, and how soon: how many of its job come before it, and how
    /// often its user goes on.
    Need {
        /// What each further task before it counts, beside the chance that its user goes on, in per
        /// cent.
        later: u8,
    },
}

/// A job's place in the line; smaller goes first. Ends in the job's number, so that no two are
/// equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Whether nothing was promised to it.
    unpromised: bool,
    /// Whether nobody waits for the task that is next.
    disclosed: bool,
    /// Whose job it is, where users share (`crate::state::shares`); 0 elsewhere, and of promised jobs.
    user: u32,
    priority: Reverse<i32>,
    /// What goes before the time: the work left of the task that is next, or how likely it is not
    /// needed; 0 for most.
    key: u64,
    arrival: u64,
    /// Whose place it is.
    pub(crate) job: JobId,
}

impl Rank {
    /// Whether a deadline was promised to the job.
    pub(crate) fn promised(self) -> bool {
        !self.unpromised
    }

    /// Whether nobody waits for the task that is next.
    pub(crate) fn disclosed(self) -> bool {
        self.disclosed
    }

    /// Whose job it is, where users share.
    pub(crate) fn user(self) -> u32 {
        self.user
    }

    /// What users share is divided within: whether nothing was promised, whether it is only
    /// disclosed, and whose it is.
    pub(crate) fn class(self) -> (bool, bool, u32) {
        (self.unpromised, self.disclosed, self.user)
    }

    /// The least rank that a job of this class can have.
    pub(crate) fn first_of((unpromised, disclosed, user): (bool, bool, u32)) -> Rank {
        let priority = Reverse(i32::MAX);
        Rank {
            unpromised,
            disclosed,
            user,
            priority,
            key: 0,
            arrival: 0,
            job: JobId(0),
        }
    }

    /// The greatest rank that a job of this class can have.
    pub(crate) fn last_of((unpromised, disclosed, user): (bool, bool, u32)) -> Rank {
        let priority = Reverse(i32::MIN);
        let key = u64::MAX;
        let arrival = u64::MAX;
        Rank {
            unpromised,
            disclosed,
            user,
            priority,
            key,
            arrival,
            job: JobId(u32::MAX),
        }
    }

    /// The rank of a job whose next task is this one.
    pub(crate) fn next(self, disclosed: bool, key: u64, arrival: u64) -> Rank {
        Rank {
            disclosed,
            key,
            arrival,
            ..self
        }
    }
}

impl Ordering {
    /// The rank of a job; `user` is its user's number, where users share.
    pub(crate) fn rank(
        self,
        user: u32,
        priority: i32,
        arrival: u64,
        job: JobId,
        promised: bool,
    ) -> Rank {
        let promised = promised && self == Ordering::Promised;
        let priority = Reverse(if promised { 0 } else { priority });
        let user = if promised { 0 } else { user };
        Rank {
            unpromised: !promised,
            disclosed: false,
            user,
            priority,
            key: 0,
            arrival,
            job,
        }
    }

    /// How requested and disclosed tasks are ranked, where they are told apart.
    pub(crate) fn batchactive(self) -> Option<Batchactive> {
        if let Ordering::Batchactive(answer) = self {
            Some(answer)
        } else {
            None
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Ordering::Fcfs => {
                "of a user's jobs higher priority first, then earlier arrival; within a job requeued tasks first, then by index"
            }
            Ordering::Promised => {
                "jobs with a promised deadline before all others, by arrival whatever their priority; within a job \
                 requeued tasks first, then as on the calendar"
            }
            Ordering::Batchactive(answer) => answer.describe(),
        }
    }
}

impl Batchactive {
    fn describe(self) -> &'static str {
        match (self.requested, self.disclosed) {
            (Requested::Fcfs, Disclosed::Held) => {
                "requested tasks by the times of their requests; disclosed ones never"
            }
            (Requested::Srpt, Disclosed::Held) => {
                "the requested task with the least work left; disclosed ones never"
            }
            (Requested::Fcfs, Disclosed::AsRequested) => {
                "disclosed and requested tasks alike, by the times of their disclosures"
            }
            (Requested::Srpt, Disclosed::AsRequested) => {
                "of disclosed and requested tasks alike the one with the least work left"
            }
            (Requested::Fcfs, Disclosed::Fcfs) => {
                "requested tasks by the times of their requests; then disclosed ones by the times of their disclosures"
            }
            (Requested::Srpt, Disclosed::Fcfs) => {
                "the requested task with the least work left; then disclosed ones by the times of their disclosures"
            }
            (Requested::Fcfs, Disclosed::Need { .. }) => {
                "requested tasks by the times of their requests; then disclosed ones by how likely they are needed next"
            }
            (Requested::Srpt, Disclosed::Need { .. }) => {
                "the requested task with the least work left; then disclosed ones by how likely they are needed next"
            }
        }
    }
}
