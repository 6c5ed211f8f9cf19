//! Frozen attempts: frozen so that another task gets the slot, and thawed when there is a slot for
//! them again. The choice of the attempt lives in `crate::disclosed::preemption`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use common::attempt::{HeldAttempt, Phase};
use common::needs::Demand;
use common::{AttemptId, HostId, IdSet, JobId, Span, TaskId};

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

    /// Returns the frozen attempts that it has room for. What they have in memory is counted already: they
    /// need a slot and its processors.
    fn fit_to_thaw(&self) -> impl Iterator<Item = (AttemptId, &HostAttempt)> {
        let fits = |load: &HostAttempt| self.has_room_without(load.takes, &[load], &[]);
        let frozen = self.books.iter();
        frozen
            .filter(move |(_, load)| load.frozen && !load.stopping && fits(load))
            .map(|(attempt, load)| (*attempt, load))
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
        let job = self.jobs.table.get(&by.job);
        let takes = job.map_or(Demand::PLAIN, |job| job.demand);
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

        fx.push(Effect::Freeze {
            host: id,
            attempt,
            by: Some(by),
        });
        self.jobs
            .mark(host, attempt, Phase::Held, self.settings.max_copies);

        let TaskId { job: of, index } = attempt.task;
        let job = self.jobs.table.get(&of);
        if job.is_some_and(|job| !job.only_disclosed(index)) {
            self.look_elsewhere(of, &IdSet::from_range(index, index));
        }
    }

    /// Adds wishes for copies of the frozen ones among these requested tasks, for other hosts that
    /// are idle (`Job::want_copy`).
    pub(crate) fn look_elsewhere(&mut self, id: JobId, tasks: &IdSet) {
        let job = self.jobs.table.get_mut(&id);
        let Some(job) = job.filter(|job| job.any_suspended()) else {
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
            job.want_copy(index, of, CopyReason::Frozen, self.settings.max_copies);
        }

        self.jobs.lines.sync(job);
    }

    /// Thaws frozen attempts where there are slots for them: those of requested tasks, or with
    /// `disclosed` all.
    pub(crate) fn thaw(&mut self, disclosed: bool, fx: &mut Vec<Effect>) {
        // Whoever is woken on this walk is looked at again on the next one, from the first host on.
        let woken = if disclosed {
            std::mem::take(&mut self.jobs.lines.shares.woken)
        } else {
            BTreeSet::new()
        };
        let mut last = None;
        while let Some(id) = self.next_thawable(last, &woken) {
            last = Some(id);
            while let Some(attempt) = self.next_to_thaw(id, disclosed) {
                self.let_go_on(id, attempt, fx);
            }
            self.set_aside(id);
        }
    }

    /// Returns the next host on which something may be thawed: hosts that only users' bounds keep
    /// from it are passed over, but where one of them may run more or is `woken`.
    fn next_thawable(&self, last: Option<HostId>, woken: &BTreeSet<u32>) -> Option<HostId> {
        let shares = &self.jobs.lines.shares;
        let from = (last.map_or(Unbounded, Excluded), Unbounded);
        let may = |user: u32| !shares.keeps_aside(user) || woken.contains(&user);
        let aside = self.hosts.index.set_aside.iter();
        let aside = aside
            .filter(|(user, _)| may(**user))
            .map(|(_, hosts)| hosts);
        let all = std::iter::once(&self.hosts.index.thawable).chain(aside);
        all.filter_map(|hosts| hosts.range(from).next())
            .min()
            .copied()
    }

    /// Sets a host aside where only users' bounds keep its frozen attempts from going on.
    fn set_aside(&mut self, id: HostId) {
        if !self.jobs.lines.shares.on() {
            return;
        }
        let users = self.kept_by_bounds(id);
        let index = &mut self.hosts.index;
        index.set_aside.retain(|_, hosts| {
            hosts.remove(&id);
            !hosts.is_empty()
        });

        if !users.is_empty() {
            index.thawable.remove(&id);
        } else if self.hosts.table.get(&id).is_some_and(Host::may_thaw) {
            index.thawable.insert(id);
        }
        for user in users {
            index.set_aside.entry(user).or_default().insert(id);
        }
    }

    /// Returns the users whose bounds keep all frozen attempts of a host; none where one of these may
    /// go on.
    fn kept_by_bounds(&self, id: HostId) -> BTreeSet<u32> {
        let host = self.hosts.table.get(&id).filter(|host| host.may_thaw());
        let mut users = BTreeSet::new();
        let frozen = host.into_iter().flat_map(|host| host.books.iter());
        for (attempt, _) in frozen.filter(|(_, load)| load.frozen && !load.stopping) {
            match self.kept_by_bound(*attempt) {
                Some(user) => users.insert(user),
                None => return BTreeSet::new(),
            };
        }
        users
    }

    /// Returns the user of a frozen attempt, if it would take the user beyond the bound of running
    /// tasks.
    fn kept_by_bound(&self, attempt: AttemptId) -> Option<u32> {
        let job = self.jobs.table.get(&attempt.task.job)?;
        let full = self.jobs.lines.shares.room(job.user) == Some(0);
        (full && job.stands_still(attempt.task.index)).then_some(job.user)
    }

    /// Returns the frozen attempt of a host that is thawed first: one of a requested task, with the
    /// longest run time. What would take its user beyond the bound of running tasks stays frozen.
    fn next_to_thaw(&self, id: HostId, disclosed: bool) -> Option<AttemptId> {
        let host = self.hosts.table.get(&id).filter(|host| host.may_thaw())?;
        let needed = |attempt: &AttemptId| {
            let job = self.jobs.table.get(&attempt.task.job);
            job.is_some_and(|job| !job.only_disclosed(attempt.task.index))
        };
        let frozen = host
            .fit_to_thaw()
            .filter(|(attempt, _)| self.kept_by_bound(*attempt).is_none());
        let frozen = frozen.map(|(attempt, load)| (needed(&attempt), load.ran, Reverse(attempt)));

        frozen
            .filter(|(needed, ..)| disclosed || *needed)
            .max()
            .map(|(.., Reverse(attempt))| attempt)
    }

    /// Panics if something could be thawed on one of these hosts, all of whose users are at their bounds.
    pub(crate) fn check_set_aside(&self, hosts: usize) {
        let shares = &self.jobs.lines.shares;
        let aside = &self.hosts.index.set_aside;
        let first = aside.values().next().into_iter().flatten();
        for id in first.take(hosts) {
            let mut users = aside.iter().filter(|(_, hosts)| hosts.contains(id));
            let kept = users.all(|(user, _)| shares.keeps_aside(*user));
            debug_assert!(
                !kept
                    || self.hosts.index.thawable.contains(id)
                    || self.next_to_thaw(*id, true).is_none(),
                "{id:?} could thaw something"
            );
        }
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
        self.jobs
            .mark(host, attempt, Phase::Running, self.settings.max_copies);
        fx.push(Effect::Thaw { host: id, attempt });

        if let Some(job) = self.jobs.table.get_mut(&attempt.task.job) {
            self.hosts.stand(id, attempt, job, self.settings.start_cost);
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
