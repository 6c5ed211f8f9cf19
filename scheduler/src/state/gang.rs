//! The books of gangs: the ranks of each, the hosts it holds, and its wait for more. Decisions live
//! in `crate::gang`: `placement` chooses the hosts, `width_choice` the number of ranks.

use std::collections::{BTreeMap, BTreeSet};

use common::needs::Demand;
use common::{AttemptId, HostId, JobId, Ranks, Time};

use crate::policy::width::Holdout;
use crate::prediction::malleable::{Malleable, Pending};
use crate::state::host::Hosts;
use crate::state::job::{Job, Jobs};
use crate::state::room::Room;

/// A gang: a job of several ranks that run at once.
#[derive(Debug)]
pub(crate) struct Gang {
    /// The requested number of ranks.
    pub(crate) ranks: Ranks,
    /// Its speedup on a number of hosts of speed 1, where known; `runs` is the number of runs that
    /// it is fitted to.
    pub(crate) scaling: Option<Malleable>,
    pub(crate) runs: usize,
    /// The number of its ranks, once settled.
    pub(crate) width: Option<u32>,
    /// The time at which it got all its hosts.
    pub(crate) formed: Option<Time>,
    /// The time at which its ranks began to run.
    pub(crate) begun: Option<Time>,
    /// The hosts that it holds, and whether a slot is reserved there while none of its ranks is
    /// there.
    pub(crate) seats: BTreeMap<HostId, bool>,
    /// Attempts to which `Begin` was sent, and may have arrived.
    pub(crate) told: BTreeSet<AttemptId>,
    /// Whether something has changed since it was last considered.
    pub(crate) stirred: bool,
    /// Whether a rank had to start again.
    pub(crate) disturbed: bool,
    /// The time since which a rank has had no host.
    pub(crate) lacking: Option<Time>,
    /// The larger width that it waits for, as a `Holdout`.
    pub(crate) holdout: Option<Holdout>,
    /// The number of free hosts and of jobs behind at its last decision, and the time of that.
    pub(crate) looked: Option<(u32, u32, Time)>,
    /// The number of hosts that were free, or could be freed by preemption, when it was last
    /// considered, and the time of that.
    pub(crate) room: Option<(usize, Time)>,
    /// The time until which backfill may pass it, if it ends by then: its first expected start.
    pub(crate) passes_until: Option<Time>,
    /// Predictions of its wait for hosts that are still to be compared with the outcome.
    pub(crate) pending: Pending,
}

impl Gang {
    /// A gang without hosts.
    pub(crate) fn new(ranks: Ranks, (scaling, runs): (Option<Malleable>, usize)) -> Self {
        Self {
            ranks,
            scaling,
            runs,
            width: None,
            formed: None,
            begun: None,
            seats: BTreeMap::new(),
            told: BTreeSet::new(),
            stirred: false,
            disturbed: false,
            lacking: None,
            holdout: None,
            looked: None,
            room: None,
            passes_until: None,
            pending: Pending::default(),
        }
    }
}

/// A slot reserved for a rank of a gang that waits for more hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptSlot {
    pub(crate) host: HostId,
    /// The `Demand` of the rank.
    pub(crate) takes: Demand,
    pub(crate) gang: JobId,
}

impl Job {
    /// Sets its `width`, while none of its ranks was tried.
    pub(crate) fn widen(&mut self, ranks: u32) {
        if let Some(gang) = self.gang.as_mut().filter(|_| self.records.is_empty()) {
            gang.width = Some(ranks);
            self.set_tasks(Ranks::tasks(ranks));
        }
    }

    /// Returns the number of its waiting tasks that start together at least: 1, unless it is a `Gang`.
    pub(crate) fn fewest_together(&self) -> u64 {
        match self.gang.as_ref().filter(|gang| gang.formed.is_none()) {
            Some(gang) if gang.width.is_some() => self.waiting(),
            Some(gang) => u64::from(gang.ranks.least),
            None => 1,
        }
    }

    /// Sets `stirred` after something has happened to one of its ranks.
    pub(crate) fn stir(&mut self) {
        if let Some(gang) = &mut self.gang {
            gang.stirred = true;
        }
    }

    /// Whether time is reserved for it, since it has a promise or is a gang: then run time limits
    /// can pay.
    pub(crate) fn reserves(&self) -> bool {
        self.promise.is_some() || self.gang.is_some()
    }
}

impl Jobs {
    /// Sets `stirred` in every unsettled gang, after an event that may matter to all of them.
    pub(crate) fn stir_all(&mut self) {
        for id in &self.gangs {
            if let Some(job) = self.table.get_mut(id) {
                job.stir();
            }
        }
    }

    /// Returns this job's ranks, if it is a gang.
    pub(crate) fn gang_mut(&mut self, id: JobId) -> Option<&mut Gang> {
        self.table.get_mut(&id)?.gang.as_deref_mut()
    }

    /// Notes that a `Begin` has not arrived at an attempt, if one was sent.
    pub(crate) fn not_heard(&mut self, attempt: AttemptId) {
        self.stir(attempt.task.job);
        if let Some(gang) = self.gang_mut(attempt.task.job) {
            gang.told.remove(&attempt);
        }
    }

    /// Notes that something has happened to a rank of this job, if it is a gang.
    pub(crate) fn stir(&mut self, id: JobId) {
        if self.gangs.contains(&id)
            && let Some(job) = self.table.get_mut(&id)
        {
            job.stir();
        }
    }
}

impl Hosts {
    /// Reserves the room for an attempt of this demand, or releases it.
    pub(crate) fn reserve(&mut self, id: HostId, takes: Demand, on: bool, now: Time) {
        let Some(host) = self.table.at_mut(&id) else {
            return;
        };
        let room = Room::of(takes);
        host.reserved = if on {
            host.reserved.plus(room)
        } else {
            host.reserved.minus(room)
        };
        self.index.update(host, now);
    }
}
