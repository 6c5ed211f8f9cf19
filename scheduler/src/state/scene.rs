//! A job's view of the grid, on which placement policies decide.

use common::{HostId, Span, Speed, Time};

use crate::policy::placement::{HostPast, PlacementView};
use crate::state::host::{Host, Hosts};
use crate::state::job::Job;
use crate::state::pool::Places;
use crate::state::settings::Settings;

/// A job, the hosts and the settings, at one time.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) now: Time,
    pub(crate) settings: &'a Settings,
    pub(crate) hosts: &'a Hosts,
    pub(crate) job: &'a Job,
}

impl<'a> Scene<'a> {
    /// The hosts that suit the job, as far as they are kept apart from others.
    fn places(&self) -> &'a Places {
        self.hosts.index.places(self.job.pool)
    }

    /// Whether a ready host of [`Self::places`] has room for one of the job's tasks.
    pub(crate) fn has_room(&self, id: HostId) -> bool {
        self.job.pool.is_some()
            || self.job.demand.is_plain()
            || self.hosts.has_room(id, self.job.demand)
    }

    /// Whether the host offers the job's needs, is not barred from the job, and is lent for long
    /// enough; whether it has room now does not matter.
    pub(crate) fn does(&self, id: HostId) -> bool {
        let now = self.now;
        let start_cost = self.settings.start_cost;
        let lasts = |host: &Host| self.job.too_long_for(host, now, start_cost).is_none();
        self.hosts.offer(id, &self.job.rules.needs)
            && self.job.bar(id).is_none()
            && (self.hosts.index.lent.is_empty() || self.hosts.table.get(&id).is_none_or(lasts))
    }

    /// Whether another attempt of the task may go to this host: none of its live attempts is there.
    /// Where results are compared, moreover, no live attempt and no result is on this host or on one
    /// of the same owner.
    pub(crate) fn may_run(&self, index: u32, host: HostId) -> bool {
        if self.job.shuns(index, host, self.hosts) {
            return false;
        }
        if !self.job.rules.quorum.compares() {
            return !self.job.is_on(index, host);
        }

        let mine = self.hosts.party(host);
        self.job.records.get(&index).is_none_or(|record| {
            let mut live = record.live.iter();
            let questions = record.question.iter();
            let mut results = questions.flat_map(|question| question.ballot.votes());
            live.all(|copy| copy.host != host && self.hosts.party(copy.host) != mine)
                && results.all(|vote| vote.host != host && vote.party != mine)
        })
    }
}

impl PlacementView for Scene<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn start_cost(&self) -> Span {
        self.settings.start_cost
    }

    fn waiting(&self) -> u64 {
        self.job.waiting() + self.job.wishes.primaries()
    }

    fn unsettled(&self) -> u64 {
        self.job.unsettled()
    }

    fn finished(&self) -> u64 {
        self.job.finished.len()
    }

    fn work_s(&self) -> Option<f64> {
        self.job.task_work_s()
    }

    fn usable_slots(&self) -> u64 {
        self.places().usable_slots
    }

    fn ready(&self) -> u64 {
        self.places().ready.len()
    }

    fn mean_rate(&self) -> Option<f64> {
        self.hosts.index.fleet.mean_rate()
    }

    fn speed_mean_sd(&self) -> (f64, f64) {
        self.hosts.index.fleet.speed_mean_sd()
    }

    fn fastest(&self) -> Option<Speed> {
        let needs = &self.job.rules.needs;
        let fastest = self.hosts.fastest(self.job.pool);
        let barred = self.job.barred();
        let host_of = |id: &HostId| self.hosts.table.get(id);
        let counts_barred = barred
            .iter()
            .filter_map(host_of)
            .any(|host| fastest == Some(host.speed));
        // Where the pools are used up, all hosts count that take work.
        let counts_all = self.job.pool.is_none() && !needs.is_plain();
        if !counts_barred && !counts_all {
            return fastest;
        }

        let does =
            |host: &&Host| host.takes_work() && host.suits(needs) && !barred.contains(&host.id);
        let able = self.hosts.table.values().filter(does);
        able.map(|host| host.speed).max()
    }

    fn ready_by_since(&self) -> impl Iterator<Item = HostId> {
        let ready = self.places().ready.by_since();
        ready.filter(|id| self.has_room(*id) && self.does(*id))
    }

    fn ready_by_speed(&self) -> impl Iterator<Item = (Speed, HostId)> {
        let ready = self.places().ready.by_speed();
        ready.filter(|(_, id)| self.has_room(*id) && self.does(*id))
    }

    fn past(&self, host: HostId) -> Option<HostPast> {
        let host = self.hosts.table.get(&host)?;
        Some(HostPast {
            speed: host.speed,
            free_slots: host.room_for(self.job.demand),
            record: host.record,
            habit: host.habit,
        })
    }
}
