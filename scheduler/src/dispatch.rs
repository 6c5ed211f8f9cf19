//! How attempts start: waiting tasks first, then copies for slots left over, then short tasks ahead of their slots.

use std::ops::Bound::{Excluded, Unbounded};

use common::HostId;

use crate::effect::{Effect, StartReason};
use crate::host::Load;
use crate::job::Job;
use crate::scheduler::Scheduler;

/// A backlog is taken back after this many looks without a delivery. One is not enough: the caller itself may have
/// stood still for so long, with deliveries in its queue behind the tick.
const QUIET_LOOKS: u32 = 2;

impl Scheduler {
    /// Gives out what can be given out. `delivered` is the host that has just finished something.
    pub(crate) fn dispatch(&mut self, delivered: Option<HostId>, fx: &mut Vec<Effect>) {
        self.place_waiting(fx);
        self.rescue(fx);
        if let Some(host) = delivered {
            self.prefetch(host, fx);
        }
    }

    /// Waiting tasks to free slots, job by job; a job whose policy wants none of the ready hosts lets the next one try.
    fn place_waiting(&mut self, fx: &mut Vec<Effect>) {
        let mut next = self.jobs.lines.waiting.first().copied();
        while let Some(rank) = next
            && !self.hosts.index.ready.is_empty()
        {
            let Some(job) = self.jobs.table.get_mut(&rank.job) else { return };
            let placement = job.policy.placement;
            while let Some(host) = placement.propose(&self.hosts.index.ready)
                && let Some((index, why)) = job.pop_waiting()
            {
                Starter { hosts: &mut self.hosts, now: self.now, incarnation: self.incarnation }
                    .start(job, index, host, why, fx);
            }
            self.jobs.lines.sync(job);
            next = self.jobs.lines.waiting.range((Excluded(rank), Unbounded)).next().copied();
        }
    }

    /// Copies of stuck tasks to slots that no waiting task took.
    fn rescue(&mut self, fx: &mut Vec<Effect>) {
        let mut next = self.jobs.lines.rescue.first().copied();
        while let Some(rank) = next
            && !self.hosts.index.ready.is_empty()
        {
            let Some(job) = self.jobs.table.get_mut(&rank.job) else { return };
            let policy = job.policy;
            while let Some(host) = policy.placement.propose(&self.hosts.index.ready)
                && let Some(index) = job.stuck.first().copied()
                && let Some(record) = job.records.get(&index)
                && let Some(original) = record.live.first()
                && let Some(reason) = policy.replication.propose(record.live.iter().map(|copy| copy.hold_up))
            {
                let why = StartReason::Duplicate(original.attempt.number, reason);
                Starter { hosts: &mut self.hosts, now: self.now, incarnation: self.incarnation }
                    .start(job, index, host, why, fx);
                job.refresh(index, self.settings.max_copies);
            }
            self.jobs.lines.sync(job);
            next = self.jobs.lines.rescue.range((Excluded(rank), Unbounded)).next().copied();
        }
    }

    /// More short tasks of the job that is next to a host that has just finished something, once every slot is taken:
    /// as many as fit the window by what was measured, and never more than the host's share of what waits.
    fn prefetch(&mut self, id: HostId, fx: &mut Vec<Effect>) {
        let Some(rank) = self.jobs.lines.waiting.first().copied() else { return };
        let Some(job) = self.jobs.table.get_mut(&rank.job) else { return };
        let fit = job.pace.fit(self.settings.prefetch_window);
        if fit == 0 || !self.hosts.index.ready.is_empty() {
            return;
        }
        let Some(host) = self.hosts.table.get(&id).filter(|host| host.takes_work()) else { return };
        let slots = u64::from(host.slots);
        let most = slots + fit.saturating_mul(slots).min(u64::from(self.settings.max_prefetch));
        let share = job.waiting().saturating_mul(slots).div_ceil(self.hosts.index.usable_slots.max(1));
        let room = most.saturating_sub(host.books.len() as u64).min(share);
        for _ in 0..room {
            let Some((index, why)) = job.pop_waiting() else { break };
            Starter { hosts: &mut self.hosts, now: self.now, incarnation: self.incarnation }
                .start(job, index, id, why, fx);
        }
        self.jobs.lines.sync(job);
        if room > 0
            && let Some(host) = self.hosts.table.get_mut(&id)
            && host.watch.is_none()
        {
            self.hosts.index.watch_backlog(host, Some(self.now + self.settings.backlog_look()), 0);
        }
    }

    /// Takes backlogs back that do not move: tasks turned out to be longer than those before them, and whoever waits
    /// behind them may run elsewhere.
    pub(crate) fn recall(&mut self, fx: &mut Vec<Effect>) {
        let next = self.now + self.settings.backlog_look();
        while let Some((at, id)) = self.hosts.index.backlogs.first().copied()
            && at <= self.now
            && let Some(host) = self.hosts.table.get_mut(&id)
        {
            let (backlog, quiet) = (host.backlog(), if host.takes_work() { host.quiet_looks() } else { 0 });
            let again = (!backlog.is_empty() && quiet < QUIET_LOOKS && next > self.now).then_some(next);
            self.hosts.index.watch_backlog(host, again, quiet);
            if quiet >= QUIET_LOOKS {
                for attempt in backlog {
                    self.take_back(id, attempt, fx);
                }
            }
        }
    }
}

/// What starting an attempt needs beside its job.
struct Starter<'a> {
    hosts: &'a mut crate::host::Hosts,
    now: common::Time,
    incarnation: common::Incarnation,
}

impl Starter<'_> {
    /// Puts one more attempt of a task on all books and says so.
    fn start(&mut self, job: &mut Job, index: u32, id: HostId, why: StartReason, fx: &mut Vec<Effect>) {
        let Some(host) = self.hosts.table.get_mut(&id) else { return };
        let Some(attempt) = job.begin(index, id, self.incarnation) else { return };
        let duplicate = matches!(why, StartReason::Duplicate(..));
        host.books.insert(attempt, Load::assigned(self.now, duplicate, host.beat));
        self.hosts.index.update(host, self.now);
        fx.push(Effect::Start {
            host: id,
            attempt,
            limit: job.policy.limits.limit(&job.rules),
            report_every: None,
            why,
        });
    }
}
