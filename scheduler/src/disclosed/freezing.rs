//! Frozen attempts: frozen so that another task gets the slot, and thawed when there is a slot for
//! them again. The choice of the attempt lives in `crate::disclosed::preemption`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use common::attempt::{HeldAttempt, Phase};
use common::needs::Demand;
use common::{AttemptId, HostId, IdSet, JobId, Span, TaskId};

use crate::policy::replication::CopyPurpose;
use crate::protocol::effect::{CopyReason, Effect};
use crate::state::host::{Host, HostAttempt};
use crate::state::job::{Job, LiveCopy};
use crate::state::scheduler::Scheduler;

impl Host {
    /// Whether it can freeze this attempt: it runs, and `offers.frozen` permits another frozen one.
    fn can_hold(&self, load: &HostAttempt) -> bool {
        load.phase == Phase::Running
            && !load.frozen
            && !load.stopping
            && self.books.frozen() < self.offers.frozen
    }

    /// Returns those of these attempts that it can freeze while the others of them end, so that all
    /// of them together make room for a task of this demand: what frozen ones have in memory stays
    /// there.
    fn freezes(&self, attempts: &[AttemptId], takes: Demand) -> Vec<AttemptId> {
        let known = |attempt: &AttemptId| Some((*attempt, self.books.get(attempt)?));
        let loads: Vec<(AttemptId, &HostAttempt)> = attempts.iter().filter_map(known).collect();
        let most = self.offers.frozen.saturating_sub(self.books.frozen()) as usize;

        let mut frozen = Vec::new();
        let mut held = Vec::new();
        let mut ended: Vec<&HostAttempt> = loads.iter().map(|(_, load)| *load).collect();
        for (attempt, load) in loads.iter().filter(|(_, load)| self.can_hold(load)) {
            if frozen.len() == most {
                break;
            }
            let others = ended.iter().filter(|other| !std::ptr::eq(**other, *load));
            let others: Vec<&HostAttempt> = others.copied().collect();
            held.push(*load);
            if takes.is_plain() || self.has_room_without(takes, &others, &held) {
                ended = others;
                frozen.push(*attempt);
            } else {
                held.pop();
            }
        }

        frozen
    }
}

impl Job {
    /// Whether no attempt at this task goes on.
    fn stands_still(&self, index: u32) -> bool {
        let record = self.records.get(&index);
        record.is_some_and(|record| record.live.iter().all(|copy| copy.suspended))
    }
}

impl Scheduler {
    /// Freezes those of these attempts of a host for another task that it can hold
    /// (`Host::freezes`). Returns which.
    pub(crate) fn try_freeze(
        &mut self,
        id: HostId,
        attempts: &[AttemptId],
        by: TaskId,
        fx: &mut Vec<Effect>,
    ) -> Vec<AttemptId> {
        let takes = self
            .jobs
            .table
            .get(&by.job)
            .map_or(Demand::PLAIN, |job| job.demand);
        let host = self.hosts.table.get(&id);
        let frozen = host.map_or_else(Vec::new, |host| host.freezes(attempts, takes));
        for attempt in &frozen {
            self.freeze(id, *attempt, by, fx);
        }

        frozen
    }

    /// Freezes an attempt, so that another task gets its slot. It stays on the books.
    fn freeze(&mut self, id: HostId, attempt: AttemptId, by: TaskId, fx: &mut Vec<Effect>) {
        let now = self.now;
        let Some(host) = self.hosts.table.at_mut(&id) else {
            return;
        };
        let Some(load) = host.books.at_mut(&attempt) else {
            return;
        };
        let since = load.noted.map_or(Span::ZERO, |noted| now.since(noted));
        load.ran = load.ran + since;
        load.noted = Some(now);

        load.phase = Phase::Held;
        load.suspended_since = Some(now);
        load.made_room_for = Some(by);
        host.books.hold(&attempt, true);
        self.hosts.index.standing.remove(attempt);
        self.hosts.index.update(host, now);

        let hold_up = host.hold_up(Phase::Held);
        fx.push(Effect::Freeze {
            host: id,
            attempt,
            by: Some(by),
        });
        self.jobs
            .mark(attempt, Phase::Held, hold_up, self.settings.max_copies);

        let job = attempt.task.job;
        let index = attempt.task.index;
        if self
            .jobs
            .table
            .get(&job)
            .is_some_and(|job| !job.only_disclosed(index))
        {
            self.look_elsewhere(job, &IdSet::from_range(index, index));
        }
    }

    /// Adds wishes for copies of the frozen ones among these requested tasks, for other hosts that
    /// are idle (`Job::want_copy`).
    pub(crate) fn look_elsewhere(&mut self, id: JobId, tasks: &IdSet) {
        let Some(job) = self
            .jobs
            .table
            .get_mut(&id)
            .filter(|job| job.any_suspended())
        else {
            return;
        };

        let frozen = |copy: &LiveCopy| copy.hold_up == Some(CopyReason::Frozen);
        let still = job
            .records
            .iter()
            .filter(|(index, record)| tasks.contains(*index) && record.live.iter().all(frozen));
        let still: Vec<_> = still
            .filter_map(|(index, record)| Some((index, record.live.first()?.attempt.number)))
            .collect();

        for (index, of) in still {
            job.want_copy(
                index,
                of,
                CopyPurpose::Primary,
                CopyReason::Frozen,
                self.settings.max_copies,
            );
        }

        self.jobs.lines.sync(job);
    }

    /// Thaws frozen attempts where there are slots for them: those of requested tasks, or with
    /// `disclosed` all.
    pub(crate) fn thaw(&mut self, disclosed: bool, fx: &mut Vec<Effect>) {
        let mut last = None;
        while let Some(id) = match last {
            None => self.hosts.index.thawable.first().copied(),
            Some(last) => self
                .hosts
                .index
                .thawable
                .range((Excluded(last), Unbounded))
                .next()
                .copied(),
        } {
            last = Some(id);
            while let Some(attempt) = self.next_to_thaw(id, disclosed) {
                self.let_go_on(id, attempt, fx);
            }
        }
    }

    /// Returns the frozen attempt of a host that is thawed first: one of a requested task, with the
    /// longest run time. What would take its user beyond the bound of running tasks stays frozen.
    fn next_to_thaw(&self, id: HostId, disclosed: bool) -> Option<AttemptId> {
        let host = self
            .hosts
            .table
            .get(&id)
            .filter(|host| host.lets_go_on() && host.free_slots() > 0)?;
        let needed = |attempt: &AttemptId| {
            let job = self.jobs.table.get(&attempt.task.job);
            job.is_some_and(|job| !job.only_disclosed(attempt.task.index))
        };
        let may_run = |attempt: &AttemptId| {
            let job = self.jobs.table.get(&attempt.task.job);
            job.is_none_or(|job| {
                let room = self.jobs.lines.shares.room(job.user);
                room != Some(0) || !job.stands_still(attempt.task.index)
            })
        };
        // What it has in memory is still counted: it needs a slot and its processors.
        let fits = |load: &HostAttempt| host.has_room_without(load.takes, &[load], &[]);
        let frozen = host
            .books
            .iter()
            .filter(|(_, load)| load.frozen && !load.stopping && fits(load))
            .filter(|(attempt, _)| may_run(attempt));
        let frozen = frozen.map(|(attempt, load)| (needed(attempt), load.ran, Reverse(*attempt)));

        frozen
            .filter(|(needed, ..)| disclosed || *needed)
            .max()
            .map(|(.., Reverse(attempt))| attempt)
    }

    fn let_go_on(&mut self, id: HostId, attempt: AttemptId, fx: &mut Vec<Effect>) {
        let now = self.now;
        let Some(host) = self.hosts.table.at_mut(&id) else {
            return;
        };
        host.books.hold(&attempt, false);

        if let Some(load) = host.books.at_mut(&attempt) {
            let stood = load
                .suspended_since
                .map_or(Span::ZERO, |since| now.since(since));
            load.suspended = load.suspended + stood;
            load.suspended_since = None;
            load.phase = Phase::Running;
            load.noted = Some(now);
            load.made_room_for = None;
        }

        self.hosts.index.update(host, now);
        if let Some(job) = self.jobs.table.get(&attempt.task.job) {
            job.stand(
                attempt,
                host,
                self.settings.start_cost,
                &mut self.hosts.index.standing,
            );
        }

        let hold_up = host.hold_up(Phase::Running);
        fx.push(Effect::Thaw { host: id, attempt });
        self.jobs
            .mark(attempt, Phase::Running, hold_up, self.settings.max_copies);

        if let Some(job) = self.jobs.table.get_mut(&attempt.task.job) {
            job.wishes.remove(attempt.task.index);
            self.jobs.lines.sync(job);
        }
    }

    /// Compares the frozen attempts of a host that joined with its books: the last orders over
    /// another connection may not have arrived.
    pub(crate) fn hold_as_told(&mut self, id: HostId, held: &[HeldAttempt], fx: &mut Vec<Effect>) {
        let now = self.now;
        let Some(host) = self.hosts.table.at_mut(&id) else {
            return;
        };
        for held in held {
            let Some(load) = host.books.get(&held.attempt) else {
                continue;
            };
            match (load.frozen, held.phase) {
                (true, phase) if phase.executing() && phase != Phase::Held => {
                    fx.push(Effect::Freeze {
                        host: id,
                        attempt: held.attempt,
                        by: None,
                    });
                }
                // It is thawed when there is a slot for it.
                (false, Phase::Held) => {
                    host.books.hold(&held.attempt, true);
                    self.hosts.index.standing.remove(held.attempt);
                }
                _ => {}
            }
        }

        self.hosts.index.update(host, now);
    }

    /// Returns the tasks of a job that were preempted and have not gone on since, by cause, in
    /// words.
    pub(crate) fn made_room(&self, job: &Job) -> Vec<(String, IdSet)> {
        let mut all: BTreeMap<(TaskId, bool), IdSet> = BTreeMap::new();
        for (index, record) in job.records.iter() {
            let load = |copy: &LiveCopy| self.hosts.table.get(&copy.host)?.books.get(&copy.attempt);
            let frozen = record
                .live
                .iter()
                .filter_map(load)
                .find_map(|load| load.made_room_for);
            if let Some(by) = frozen.or(record.made_room_for.filter(|_| record.live.is_empty())) {
                all.entry((by, frozen.is_some())).or_default().insert(index);
            }
        }

        let words = |((by, frozen), tasks): ((TaskId, bool), IdSet)| {
            let how = if frozen { "frozen on its host, " } else { "" };
            (format!("{how}made room for task {by}"), tasks)
        };
        all.into_iter().map(words).collect()
    }
}
