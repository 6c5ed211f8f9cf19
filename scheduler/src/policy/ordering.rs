//! The policy's answer on ordering: the next waiting task. Each answer ranks jobs; within a job,
//! tasks that had an attempt go first, then the lowest index. Where tasks may be only disclosed, a
//! job has the rank of its next waiting task (`crate::disclosed::order`).

use super::setting::{HasSettings, Setting, number};
use super::{Policy, catalogue};
use std::cmp::Reverse;

use common::JobId;

/// The order of waiting jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// Among one user's jobs higher priority first, then earlier arrival; between users by share,
    /// where slots are divided (`crate::state::shares`).
    Fcfs,
    /// Jobs with a promise before all others, by arrival (Wozniak et al., section 4: FIFO); within
    /// them the tasks in the order of the calendar.
    Promised,
    /// Requested tasks before those that are only disclosed (Petrou et al. 2004, section 3.3).
    Batchactive(Batchactive),
}

/// The order of requested and disclosed tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Batchactive {
    /// The order of requested tasks.
    pub requested: RequestedOrder,
    /// The order of disclosed tasks.
    pub disclosed: Disclosed,
}

/// The order of requested tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestedOrder {
    /// By the times of the requests, then by index.
    Fcfs,
    /// The least work left first; such a task preempts one with more, if that one keeps its state.
    Srpt,
}

/// The order of disclosed tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disclosed {
    /// None is started before it is requested (the interactive model).
    Held,
    /// As if all were requested when they are disclosed (the batch model).
    AsRequested,
    /// By the times of the disclosures, then by index.
    Fcfs,
    /// By the probability of being needed, and how soon: by the number of the job's tasks before
    /// it, and the user's record of going on.
    Need {
        /// The weight of each further task before it, beside the probability that the user goes on,
        /// in per cent.
        later: u8,
    },
}

/// A job's place in the queue; the smallest goes first. It ends in the job's number, so that no two
/// are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Whether the job has no promise.
    unpromised: bool,
    /// Whether the next task is only disclosed.
    disclosed: bool,
    /// The number of the job's user, where slots are divided among users (`crate::state::shares`);
    /// 0 elsewhere, and for jobs with a promise.
    user: u32,
    priority: Reverse<i32>,
    /// The key that goes before the time: the work left of the next task, or its needlessness; 0
    /// for most.
    key: u64,
    arrival: u64,
    /// The job that has this place.
    pub(crate) job: JobId,
}

impl Default for Rank {
    fn default() -> Self {
        Self::first_of((false, false, 0))
    }
}

impl Rank {
    /// Whether the job has a promise.
    pub(crate) fn promised(self) -> bool {
        !self.unpromised
    }

    /// Whether the next task is only disclosed.
    pub(crate) fn disclosed(self) -> bool {
        self.disclosed
    }

    /// Returns the job's priority.
    pub(crate) fn priority(self) -> i32 {
        self.priority.0
    }

    /// Returns the number of the job's arrival.
    pub(crate) fn arrival(self) -> u64 {
        self.arrival
    }

    /// Returns the number of the job's user, where slots are divided among users.
    pub(crate) fn user(self) -> u32 {
        self.user
    }

    /// Returns the class within which jobs of a user are ranked: `unpromised`, `disclosed` and
    /// `user`.
    pub(crate) fn class(self) -> (bool, bool, u32) {
        (self.unpromised, self.disclosed, self.user)
    }

    /// Returns the least rank of this class.
    pub(crate) fn first_of((unpromised, disclosed, user): (bool, bool, u32)) -> Rank {
        Rank {
            unpromised,
            disclosed,
            user,
            priority: Reverse(i32::MAX),
            key: 0,
            arrival: 0,
            job: JobId(0),
        }
    }

    /// Returns the greatest rank of this class.
    pub(crate) fn last_of(class: (bool, bool, u32)) -> Rank {
        Rank {
            priority: Reverse(i32::MIN),
            key: u64::MAX,
            arrival: u64::MAX,
            job: JobId(u32::MAX),
            ..Rank::first_of(class)
        }
    }

    /// Returns the rank of a job with this next task.
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
    /// Returns the rank of a job; `user` is its user's number, where slots are divided among users.
    pub(crate) fn rank(
        self,
        user: u32,
        priority: i32,
        arrival: u64,
        job: JobId,
        promised: bool,
    ) -> Rank {
        let promised = promised && self == Ordering::Promised;
        let user = if promised { 0 } else { user };
        Rank {
            priority: Reverse(if promised { 0 } else { priority }),
            arrival,
            job,
            ..Rank::first_of((!promised, false, user))
        }
    }

    /// Returns the order of requested and disclosed tasks, where they are told apart.
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
            (RequestedOrder::Fcfs, Disclosed::Held) => {
                "requested tasks by the times of their requests; disclosed ones never"
            }
            (RequestedOrder::Srpt, Disclosed::Held) => {
                "the requested task with the least work left; disclosed ones never"
            }
            (RequestedOrder::Fcfs, Disclosed::AsRequested) => {
                "disclosed and requested tasks alike, by the times of their disclosures"
            }
            (RequestedOrder::Srpt, Disclosed::AsRequested) => {
                "of disclosed and requested tasks alike the one with the least work left"
            }
            (RequestedOrder::Fcfs, Disclosed::Fcfs) => {
                "requested tasks by the times of their requests; then disclosed ones by the times of their disclosures"
            }
            (RequestedOrder::Srpt, Disclosed::Fcfs) => {
                "the requested task with the least work left; then disclosed ones by the times of their disclosures"
            }
            (RequestedOrder::Fcfs, Disclosed::Need { .. }) => {
                "requested tasks by the times of their requests; then disclosed ones by how likely they are needed next"
            }
            (RequestedOrder::Srpt, Disclosed::Need { .. }) => {
                "the requested task with the least work left; then disclosed ones by how likely they are needed next"
            }
        }
    }
}

/// The weight of disclosed tasks that are further back.
const LATER: [Setting<Ordering>; 1] = [Setting {
    name: "later",
    meaning: "what each further task before a disclosed one counts, beside the chance that its user goes on, in per cent: \
              100 is by that chance alone, 1 by the number of tasks before it",
    get: |ordering| match ordering.batchactive().map(|answer| answer.disclosed) {
        Some(Disclosed::Need { later }) => later.to_string(),
        _ => String::new(),
    },
    set: |ordering, value| {
        if let Ordering::Batchactive(answer) = ordering {
            let later = number(value, 1.0, 100.0, "per cent, from 1 to 100")? as u8;
            answer.disclosed = Disclosed::Need { later };
        }
        Ok(())
    },
}];

impl HasSettings for Ordering {
    fn settings(&self) -> &'static [Setting<Self>] {
        match self.batchactive().map(|answer| answer.disclosed) {
            Some(Disclosed::Need { .. }) => &LATER,
            _ => &[],
        }
    }
}

/// The rest of a policy that tells disclosed tasks apart: it comes from another row.
pub(super) const WITH: [Setting<Policy>; 1] = [Setting {
    name: "with",
    meaning: "the policy from which placement, replication and limits are taken, one that promises nothing",
    get: |policy| {
        let mut rows = catalogue().iter().filter(|row| plain(row));
        let like = rows.find(|row| {
            row.placement == policy.placement
                && row.replication == policy.replication
                && row.limits == policy.limits
        });
        like.map_or_else(String::new, |row| row.name.to_owned())
    },
    set: |policy, value| {
        let mut rows = catalogue().iter().filter(|row| plain(row));
        let row = rows
            .find(|row| row.name.eq_ignore_ascii_case(value))
            .ok_or(
                "the name of a policy that promises nothing and tells no disclosed tasks apart",
            )?;
        policy.placement = row.placement;
        policy.replication = row.replication;
        policy.limits = row.limits;
        Ok(())
    },
}];

/// Whether a policy promises nothing and tells no disclosed tasks apart.
fn plain(row: &Policy) -> bool {
    row.admission.reckoning().is_none() && row.ordering.batchactive().is_none()
}
