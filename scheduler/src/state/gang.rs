//! The books of jobs that run as several ranks at once: how many, on which hosts, and what they
//! wait for. What is not here: decisions, which are in `together` (who gets hosts) and `holdout`
//! (how many).

use std::collections::{BTreeMap, BTreeSet};

use common::{AttemptId, HostId, JobId, Ranks, Time};

use crate::policy::width::Holdout;
use crate::prediction::malleable::{Malleable, Pending};
use crate::state::host::Hosts;
use crate::state::job::{Job, Jobs};

/// A job of several ranks.
#[derive(Debug)]
pub(crate) struct Gang {
    /// What was asked for.
    pub(crate) ranks: Ranks,
    /// How fast it is on how many hosts of speed 1, where that is known, and from how many runs.
    pub(crate) scaling: Option<Malleable>,
    pub(crate) runs: usize,
    /// How many ranks it has, once that is settled.
    pub(crate) width: Option<u32>,
    /// Since when it holds its hosts.
    pub(crate) formed: Option<Time>,
    /// Since when its ranks run.
    pub(crate) begun: Option<Time>,
    /// The hosts that it holds; whether a slot is kept there for it while none of its ranks is
    /// there.
    pub(crate) seats: BTreeMap<HostId, bool>,
    /// Attempts that were told to begin, as far as they may have heard it.
    pub(crate) told: BTreeSet<AttemptId>,
    /// Whether something has changed since it was last looked at.
    pub(crate) stirred: bool,
    /// Whether a rank had to start again.
    pub(crate) disturbed: bool,
    /// Since when a rank has no host.
    pub(crate) lacking: Option<Time>,
    /// What it holds out for.
    pub(crate) holdout: Option<Holdout>,
    /// Free hosts and jobs behind when it last decided, and when that was.
    pub(crate) looked: Option<(u32, u32, Time)>,
    /// How many hosts were free, or nearly, when it was last looked at whose work could make room,
    /// and when that was.
    pub(crate) room: Option<(usize, Time)>,
    /// Until when others may pass it, if they are done by then: when it was first expected to
    /// start.
    pub(crate) passes_until: Option<Time>,
    /// What was said of waits, until it can be compared with what came.
    pub(crate) pending: Pending,
}

impl Gang {
    /// One that holds no host yet.
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

impl Job {
    /// It is to have so many ranks: none of them was tried.
    pub(crate) fn widen(&mut self, ranks: u32) {
        if let Some(gang) = self.gang.as_mut().filter(|_| self.records.is_empty()) {
            gang.width = Some(ranks);
            self.set_tasks(Ranks::tasks(ranks));
        }
    }

    /// Something has happened to one of its ranks.
    pub(crate) fn stir(&mut self) {
        if let Some(gang) = &mut self.gang {
            gang.stirred = true;
        }
    }

    /// Whether time is reserved for it, since it is promised something or holds several hosts: then
    /// limits can pay.
    pub(crate) fn reserves(&self) -> bool {
        self.promise.is_some() || self.gang.is_some()
    }
}

impl Jobs {
    /// Something has happened that may matter to every job that holds hosts.
    pub(crate) fn stir_all(&mut self) {
        for id in &self.gangs {
            if let Some(job) = self.table.get_mut(id) {
                job.stir();
            }
        }
    }

    /// An attempt has not heard that it is to begin, if it was told so.
    pub(crate) fn not_heard(&mut self, attempt: AttemptId) {
        self.stir(attempt.task.job);
        if let Some(gang) = self
            .table
            .get_mut(&attempt.task.job)
            .and_then(|job| job.gang.as_mut())
        {
            gang.told.remove(&attempt);
        }
    }

    /// Something has happened to a rank of this job, if it is one of ranks.
    pub(crate) fn stir(&mut self, id: JobId) {
        if self.gangs.contains(&id)
            && let Some(job) = self.table.get_mut(&id)
        {
            job.stir();
        }
    }
}

impl Hosts {
    /// A slot of the host is kept free, or is free again.
    pub(crate) fn reserve(&mut self, id: HostId, on: bool, now: Time) {
        let Some(host) = self.table.at_mut(&id) else {
            return;
        };
        host.reserved = if on {
            host.reserved.saturating_add(1)
        } else {
            host.reserved.saturating_sub(1)
        };
        self.index.update(host, now);
    }
}
