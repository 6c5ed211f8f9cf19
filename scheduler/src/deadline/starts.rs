//! The starts of tasks with a promise: where and when the calendar has them.

use std::collections::{BTreeMap, BTreeSet};

use common::needs::Needs;
use common::{HostId, JobId, Span};

use crate::deadline::admission::Overdue;
use crate::policy::admission::Reckoning;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

impl Scheduler {
    /// Returns the waiting jobs with a promise, in queue order.
    pub(super) fn promised_line(&self) -> impl Iterator<Item = &Job> {
        let line = self.jobs.lines.waiting.iter();
        let line = line.take_while(|rank| rank.promised());
        line.filter_map(|rank| self.jobs.table.get(&rank.job))
    }

    /// Returns how the calendar is computed of the waiting jobs with a promise: as the first one's policy
    /// says.
    pub(super) fn waiting_reckoning(&self) -> Option<Reckoning> {
        self.promised_line().next()?.policy.admission.reckoning()
    }

    /// Returns the tasks with a promise that start now, with their hosts. A slot that the calendar
    /// has for a later task stays free for it only if that is the slot's next task; others may use
    /// the rest.
    pub(crate) fn promised_starts(&self) -> Vec<(JobId, u32, HostId)> {
        let Some(reckoning) = self.waiting_reckoning() else {
            return Vec::new();
        };
        // Nothing of a user who may run no more tasks starts now.
        let shares = &self.jobs.lines.shares;
        let line: Vec<&Job> = self
            .promised_line()
            .filter(|job| shares.room(job.user) != Some(0))
            .collect();
        if !self.may_start_promised(&line) {
            return Vec::new();
        }

        let equal = !reckoning.inflated && self.hosts.alike() && self.hosts.index.lent.is_empty();
        if equal
            && self.hosts.index.standing.is_bare()
            && !line
                .iter()
                .any(|job| job.rules.quorum.compares() || !job.demand.is_plain())
        {
            return self.fill_windows(self.starts_on_equals());
        }

        // Overdue attempts are not waited for if all deadlines are met without their slots.
        let without = self.starts_if(reckoning, &line, Overdue::Late);
        let starts = without.unwrap_or_else(|| {
            self.starts_if(reckoning, &line, Overdue::AsLong)
                .unwrap_or_default()
        });

        self.fill_windows(starts)
    }

    /// Whether a ready host suits one of these jobs, or a task may make room: else the calendar, which takes
    /// all hosts to put together, would have no start.
    fn may_start_promised(&self, line: &[&Job]) -> bool {
        if !self.hosts.index.standing.is_bare() {
            return true;
        }
        let (wanted, avoided) = wanted_by(line);
        let mut ready = self.hosts.index.all.ready.by_since();
        ready.any(|host| {
            let offers = |needs: &&Needs| self.hosts.offer(host, needs);
            !avoided.contains(&host) && wanted.iter().any(offers)
        })
    }

    /// Returns the starts now of tasks of the jobs in this line if overdue attempts end as `overdue` says;
    /// `None` for `Overdue::Late` if a deadline would be missed.
    fn starts_if(
        &self,
        reckoning: Reckoning,
        line: &[&Job],
        overdue: Overdue,
    ) -> Option<Vec<(JobId, u32, HostId)>> {
        let mut reckoner = self.reckoner(reckoning, self.now);
        reckoner.overdue = overdue;
        // A free slot is preferred to one that should be free.
        reckoner.soonest = self.now + Span(1);
        // Attempts that may never be needed delay no task.
        reckoner.spares = false;

        let mut calendar = reckoner.calendar(&BTreeSet::new());
        let mut starts = Vec::new();
        let mut in_time = true;
        let (wanted, avoided) = wanted_by(line);
        // A slot that suits none of them does not count: they would all be stacked in vain.
        let idle = calendar.idle_for(&wanted, &avoided) as u64;
        let mut room = self.most_starts(line).min(idle) + self.hosts.index.standing.len() as u64;
        let Some(last) = line.last().map(|job| job.rank) else {
            return Some(starts);
        };
        let mut rooms: BTreeMap<u32, u64> = BTreeMap::new();

        reckoner.stack_line(&mut calendar, &BTreeSet::new(), |job, index, entry| {
            in_time &= job
                .promise
                .is_none_or(|promise| entry.finish <= promise.deadline);
            // The bound as it is counted for starts, whatever the calendar makes of it.
            let left = rooms.entry(job.user);
            let left = left.or_insert_with(|| self.jobs.lines.shares.may_start(job.user));
            if *left > 0
                && (entry.now
                    || entry.start <= reckoner.soonest
                        && self.makes_room_on(entry.host, job).is_some())
            {
                *left -= 1;
                room = room.saturating_sub(1);
                let alone = index.filter(|_| !job.rules.quorum.compares());
                starts.extend(alone.map(|index| (job.rank.job, index, entry.host)));
            }
            room > 0 && job.rank <= last
        });

        (in_time || overdue != Overdue::Late).then_some(starts)
    }

    /// Returns the number of tasks of these jobs that their users may start.
    fn most_starts(&self, line: &[&Job]) -> u64 {
        let users: BTreeSet<u32> = line.iter().map(|job| job.user).collect();
        let shares = &self.jobs.lines.shares;
        let rooms = users.into_iter().map(|user| shares.may_start(user));
        rooms.fold(0, u64::saturating_add)
    }

    /// Returns the same starts on hosts of equal speed, where waiting for another host gains
    /// nothing.
    fn starts_on_equals(&self) -> Vec<(JobId, u32, HostId)> {
        let mut slots: Vec<HostId> = (self.hosts.ready())
            .flat_map(|host| std::iter::repeat_n(host.id, host.free_slots()))
            .collect();
        slots.reverse();

        let shares = &self.jobs.lines.shares;
        let mut rooms: BTreeMap<u32, u64> = BTreeMap::new();
        let mut starts = Vec::new();
        for job in self.promised_line() {
            let barred = job.barred();
            let room = rooms.entry(job.user);
            let room = room.or_insert_with(|| shares.may_start(job.user));
            for index in job.in_order() {
                if *room == 0 || slots.is_empty() {
                    break;
                }
                let avoided = job.avoided(index, &barred, &self.hosts);
                let fit = slots.iter().rposition(|host| {
                    self.hosts.offer(*host, &job.rules.needs) && !avoided.contains(host)
                });
                let Some(slot) = fit else {
                    // Others of the job may go where this one failed.
                    if avoided != barred {
                        continue;
                    }
                    break;
                };
                starts.push((job.rank.job, index, slots.remove(slot)));
                *room = room.saturating_sub(1);
            }

            if slots.is_empty() {
                break;
            }
        }

        starts
    }
}

/// Returns the needs of these jobs, and the hosts that none of them may have.
fn wanted_by<'a>(line: &[&'a Job]) -> (BTreeSet<&'a Needs>, BTreeSet<HostId>) {
    let wanted = line.iter().map(|job| &job.rules.needs).collect();
    let barred = line.iter().map(|job| job.barred());
    let avoided = barred.reduce(|all, some| &all & &some).unwrap_or_default();
    (wanted, avoided)
}
