//! The starts of attempts: waiting tasks first, then copies on slots left over, then short tasks
//! ahead of their slots (prefetch).

use common::{HostId, Incarnation, JobId, Span, TaskId, Time};
use smallvec::SmallVec;

use crate::policy::ordering::Rank;
use crate::policy::replication::{CopyPurpose, Replicated};
use crate::protocol::effect::{CopyReason, Effect, StartReason};
use crate::state::foresight::Foresight;
use crate::state::host::{Host, HostAttempt, Hosts};
use crate::state::job::{Job, Jobs};
use crate::state::pool::{Pool, PoolId};
use crate::state::room::RoomClaim;
use crate::state::scene::Scene;
use crate::state::scheduler::Scheduler;
use crate::state::settings::Settings;
use crate::state::shares::{AskedLine, ShareWalk};

/// The number of checks without a delivery after which a backlog is taken back. One is not enough:
/// the caller itself may have been paused, with deliveries in its queue behind the tick.
const QUIET_LOOKS: u32 = 2;
/// The number of jobs behind gangs that may be tried for backfill while all free slots are
/// reserved.
const PASSING: u32 = 32;

/// The pools for whose jobs no room can be saved up on this walk.
type VainPools = SmallVec<[PoolId; 4]>;

impl Scheduler {
    /// Starts whatever can start now. `delivered` is the host that has just delivered a completion.
    pub(crate) fn dispatch(&mut self, delivered: Option<HostId>, fx: &mut Vec<Effect>) {
        self.let_lapse();
        self.expect_anew(fx);
        self.release_saved();
        self.count_memory_anew();
        self.tend_gangs(fx);
        let yielded = self.place_promised(true, fx);
        self.place_waiting(fx);
        if yielded && !self.hosts.index.all.ready.is_empty() {
            self.place_promised(false, fx);
        }
        self.make_room(fx);
        self.release_needless();
        self.fill_gaps(fx);
        self.place_copies(fx);
        if let Some(host) = delivered {
            self.prefetch(host, fx);
        }
    }

    /// Starts tasks with a promise where and when the calendar has them. Returns whether slots were
    /// left to users with a smaller claim, as `sharing` allows.
    fn place_promised(&mut self, sharing: bool, fx: &mut Vec<Effect>) -> bool {
        self.clear_for_promised(fx);
        let nowhere = self.hosts.index.all.ready.is_empty() && self.hosts.index.standing.is_bare();
        let first = self.jobs.lines.waiting.first();
        if nowhere || !first.is_some_and(|rank| rank.promised()) {
            return false;
        }

        let mut yielded = 0;
        for (id, index, host) in self.promised_starts() {
            if sharing && self.yields(id, host, yielded) {
                yielded += 1;
            } else {
                self.start_promised(id, index, host, fx);
            }
        }
        yielded > 0
    }

    /// Starts a task with a promise on the host that the calendar has for it, with a preemption if
    /// needed.
    fn start_promised(&mut self, id: JobId, index: u32, host: HostId, fx: &mut Vec<Effect>) {
        let Some(job) = self.jobs.table.get(&id) else {
            return;
        };
        let takes = job.demand;
        if self.jobs.lines.shares.may_start(job.user) == 0 {
            return;
        }
        if !self.hosts.has_room(host, takes) {
            let Some(others) = self.makes_room_on(host, job) else {
                return;
            };
            self.give_way(&others, TaskId::new(id, index), fx);
            if !self.hosts.has_room(host, takes) {
                return;
            }
        }

        let (mut starter, jobs) = self.starter();
        let Some(job) = jobs.table.get_mut(&id) else {
            return;
        };
        let Some(why) = job.take_waiting(index) else {
            return;
        };
        starter.start(job, index, host, why, fx);
        jobs.lines.sync(job);
    }

    /// Assigns waiting tasks, and those whose primary attempt was lost, to free slots, job by job.
    /// A job whose policy declines all ready hosts lets the next job try.
    pub(crate) fn place_waiting(&mut self, fx: &mut Vec<Effect>) {
        let mut asked = ShareWalk::default();
        let mut vain = VainPools::new();
        let mut passing = 0;
        let mut thawed = false;

        self.unpark();
        self.thaw(false, fx);
        let kept = |jobs: &Jobs| !jobs.kept.is_empty() || !jobs.fillers.is_empty();
        while (!self.hosts.index.all.ready.is_empty() || kept(&self.jobs) && passing < PASSING)
            && let Some((rank, alone)) = self.next_to_place(&vain, &mut asked)
        {
            if rank.disclosed() && !std::mem::replace(&mut thawed, true) {
                self.thaw(true, fx);
                asked.claims_changed();
                continue;
            }

            passing += u32::from(self.hosts.index.all.ready.is_empty());
            let before = fx.len();
            let again = self.place_job(rank.job, alone, fx);
            if again || fx.len() > before {
                asked.claims_changed();
            }
            if !again {
                asked.pass(rank);
                if !self.park(rank.job) && !self.save_for(rank.job) {
                    self.note_vain(rank.job, &mut vain);
                }
            }
        }

        if !thawed {
            self.thaw(true, fx);
        }
    }

    /// Returns the next job with waiting tasks for which something can be done: its pool has a host with
    /// room, or its tasks are large, so that room could be saved up. Tells whether no other user's job is
    /// asked before it is done with.
    fn next_to_place(&self, vain: &VainPools, asked: &mut ShareWalk) -> Option<(Rank, bool)> {
        // What gangs hold may pass to any job.
        let kept = !self.jobs.kept.is_empty() || !self.jobs.fillers.is_empty();
        let saves = self.may_save();
        let line = self.line_of(|id, pool| {
            kept || !pool.places.ready.is_empty()
                || pool.serves_without_room(saves && !vain.contains(&id))
        });
        let rank = self.jobs.lines.next_turn(&line, asked)?;
        let alone = !kept && self.jobs.lines.is_alone(&line, asked, rank);
        Some((rank, alone))
    }

    /// Returns the queue of jobs with waiting tasks, of which those are asked that need no room in a pool,
    /// and those of these pools.
    fn line_of(&self, asks: impl Fn(PoolId, &Pool) -> bool) -> AskedLine<'_> {
        let lines = &self.jobs.lines;
        let pools = &self.hosts.index.pools;
        let asked = lines.pooled.iter().filter(|(id, _)| {
            let pool = id.and_then(|id| Some((id, pools.get(id)?)));
            pool.is_none_or(|(id, pool)| asks(id, pool))
        });
        AskedLine {
            all: &lines.waiting,
            asked: asked.map(|(_, ranks)| ranks).collect(),
        }
    }

    /// Notes the pool of this job, for which no room was saved up, if there is none for any job of it.
    fn note_vain(&self, id: JobId, vain: &mut VainPools) {
        let of = self.jobs.table.get(&id).and_then(|job| job.pool);
        let Some(of) = of.filter(|of| !vain.contains(of)) else {
            return;
        };
        let pool = self.hosts.index.pools.get(of);
        let full = pool.filter(|pool| pool.places.ready.is_empty());
        if full.is_some_and(|pool| pool.short().is_empty()) {
            vain.push(of);
        }
    }

    /// Returns the next job with waiting tasks whose needs this host meets.
    fn next_for(&self, host: HostId) -> Option<Rank> {
        let line = self.line_of(|_, pool| pool.has(host));
        self.jobs.lines.next_turn(&line, &mut ShareWalk::default())
    }

    /// Starts as many tasks of a job as its policy wants now; only its next task if it has a
    /// `Speculation`. Returns whether the job is to be asked again. If it is `alone` on its walk, its
    /// turns, of a task each while other users' jobs wait, follow at once on each other.
    pub(crate) fn place_job(&mut self, id: JobId, alone: bool, fx: &mut Vec<Effect>) -> bool {
        if self.jobs.gangs.contains(&id) {
            self.place_gang(id, fx);
            return false;
        }
        let passed = self.let_pass(id);
        let again = self.place_tasks(id, alone, fx);
        self.close_again(passed);
        again
    }

    fn place_tasks(&mut self, id: JobId, alone: bool, fx: &mut Vec<Effect>) -> bool {
        let (mut starter, jobs) = self.starter();
        let Some(job) = jobs.table.get_mut(&id) else {
            return false;
        };

        starter.quota = jobs.lines.quota(job);
        if starter.quota == 0 {
            return false;
        }
        if alone {
            // Where nobody else's wait, its quota is all that it may start.
            let room = jobs.lines.shares.may_start(job.user);
            starter.turns = room.saturating_sub(starter.quota);
        }
        let several = starter.turns > 0;

        let again = if job.speculation.is_some() {
            starter.place_next(job, fx)
        } else {
            starter.place(job, fx)
        };

        if several {
            jobs.lines.share_each(job);
        }
        jobs.lines.sync(job);
        again
    }

    /// Starts copies on slots that no waiting task took.
    fn place_copies(&mut self, fx: &mut Vec<Effect>) {
        while let Some(id) = self.jobs.lines.rested(self.now)
            && let Some(job) = self.jobs.table.get_mut(&id)
        {
            job.plan.rests = None;
            self.jobs.lines.sync(job);
        }

        let mut asked = ShareWalk::default();
        while !self.hosts.index.all.ready.is_empty()
            && let Some(rank) = self.jobs.lines.next_to_copy(&mut asked)
        {
            let (mut starter, jobs) = self.starter();
            let Some(job) = jobs.table.get_mut(&rank.job) else {
                return;
            };
            let before = fx.len();
            starter.copy(job, fx);
            job.plan.rests = starter.rests(job);
            jobs.lines.sync(job);
            if fx.len() > before {
                asked.claims_changed();
            }
            asked.pass(rank);
        }
    }

    /// Prefetches further short tasks of the next job for a host that has just delivered, once
    /// every slot is taken: as many as fit `prefetch_window` by measured run times, and at most the
    /// host's share of the waiting ones.
    fn prefetch(&mut self, id: HostId, fx: &mut Vec<Effect>) {
        let Some(rank) = self.next_for(id) else {
            return;
        };
        let allowed = self.jobs.lines.shares.may_start(rank.user());
        let Some(job) = self.jobs.table.get(&rank.job) else {
            return;
        };
        let fit = job.pace.fit(self.settings.prefetch_window);
        let told_apart = job.promise.is_some() || job.speculation.is_some() || job.gang.is_some();
        let one_by_one = told_apart || job.rules.quorum.compares();
        if fit == 0 || one_by_one || !self.hosts.index.all.ready.is_empty() {
            return;
        }

        let needs = &job.rules.needs;
        // A host where a rank waits for others must not be busy when these are ready.
        let wanted = |host: &Host| {
            let mut attempts = host.books.attempts();
            host.reserved.slots > 0
                || self.jobs.fillers.values().any(|on| *on == host.id)
                || attempts.any(|attempt| self.jobs.gangs.contains(&attempt.task.job))
        };
        let takes = |host: &Host| {
            host.takes_work()
                && host.suits(needs)
                && host.claim_ahead(needs.takes).is_some()
                && !job.failed_last(host.id)
                && !wanted(host)
        };
        let Some(host) = self.hosts.table.get(&id).filter(|host| takes(host)) else {
            return;
        };

        let slots = u64::from(host.usable_slots());
        let most = slots
            + fit
                .saturating_mul(slots)
                .min(u64::from(self.settings.max_prefetch));
        let share = job
            .waiting()
            .saturating_mul(slots)
            .div_ceil(self.hosts.index.all.usable_slots.max(1));

        let room = most
            .saturating_sub(host.in_slots() as u64)
            .min(share)
            .min(allowed);
        let (mut starter, jobs) = self.starter();
        let Some(job) = jobs.table.get_mut(&rank.job) else {
            return;
        };
        starter.ahead = true;
        for _ in 0..room {
            let Some((index, why)) = job.pop_for(id, starter.hosts) else {
                break;
            };
            starter.start(job, index, id, why, fx);
        }

        jobs.lines.sync(job);
        if room > 0
            && let Some(host) = self.hosts.table.at_mut(&id)
            && host.watch.is_none()
        {
            self.hosts
                .index
                .watch_backlog(host, Some(self.now + self.settings.backlog_look()), 0);
        }
    }

    /// Takes back backlogs that do not move (`QUIET_LOOKS`): a task turned out longer than those
    /// before it, and the tasks behind it may run elsewhere.
    pub(crate) fn recall(&mut self, fx: &mut Vec<Effect>) {
        let next = self.now + self.settings.backlog_look();
        while let Some((at, id)) = self.hosts.index.backlogs.first().copied()
            && at <= self.now
            && let Some(host) = self.hosts.table.at_mut(&id)
        {
            // A rank is given back only with all others.
            let mut backlog = host.backlog();
            backlog.retain(|attempt| !self.jobs.gangs.contains(&attempt.task.job));

            let quiet = if host.takes_work() {
                host.quiet_looks()
            } else {
                0
            };

            let again =
                (!backlog.is_empty() && quiet < QUIET_LOOKS && next > self.now).then_some(next);
            self.hosts.index.watch_backlog(host, again, quiet);

            if quiet >= QUIET_LOOKS {
                for attempt in backlog {
                    self.take_back(id, attempt, fx);
                }
            }
        }
    }
}

/// The references and bounds that starting an attempt needs beside its job.
pub(crate) struct Starter<'a> {
    pub(crate) hosts: &'a mut Hosts,
    pub(crate) settings: &'a Settings,
    pub(crate) foresight: &'a Foresight,
    pub(crate) now: Time,
    pub(crate) incarnation: Incarnation,
    /// The longest run time of attempts that it starts, whatever the policy says.
    pub(crate) most: Option<Span>,
    /// The number of the job's tasks that may start before another user's turn.
    pub(crate) quota: u64,
    /// The number of further turns of one task each that the job has, where no other user's comes
    /// between.
    pub(crate) turns: u64,
    /// Whether attempts may start ahead of their slots.
    pub(crate) ahead: bool,
}

impl Scheduler {
    /// Returns the references for starting attempts, and the jobs beside them.
    pub(crate) fn starter(&mut self) -> (Starter<'_>, &mut Jobs) {
        let starter = Starter {
            hosts: &mut self.hosts,
            settings: &self.settings,
            foresight: &self.foresight,
            now: self.now,
            incarnation: self.incarnation,
            most: None,
            quota: u64::MAX,
            turns: 0,
            ahead: false,
        };
        (starter, &mut self.jobs)
    }
}

impl Starter<'_> {
    pub(crate) fn scene<'s>(&'s self, job: &'s Job) -> Scene<'s> {
        job.scene(self.now, self.settings, self.hosts)
    }

    /// Starts waiting tasks on the hosts that the job's policy proposes, until it declines or it is
    /// another user's turn. Returns whether the job is to be asked again after that.
    fn place(&mut self, job: &mut Job, fx: &mut Vec<Effect>) -> bool {
        // Tasks with a promise start by the calendar. It does not know which hosts may have a task
        // whose results are compared, so those start here.
        if job.promise.is_none() || job.rules.quorum.compares() {
            self.place_all(job, fx);
        }
        self.quota == 0
    }

    fn place_all(&mut self, job: &mut Job, fx: &mut Vec<Effect>) {
        let placement = job.policy.placement;
        self.classify(job);
        // Most jobs with needs that wait while some host is ready wait for another one.
        let nowhere = job.pool.is_some() && self.hosts.index.places(job.pool).ready.is_empty();
        if nowhere && !placement.prepares() {
            return;
        }
        if job.rules.quorum.compares() {
            return self.place_for_quorum(job, fx);
        }
        if placement.looks_ahead() && self.place_ahead(job, fx) {
            return;
        }

        self.prepare(job);
        let mut order = placement.order(&self.scene(job)).map(Vec::into_iter);
        let overlaps = job.policy.replication.overlap().is_some();
        let windows = job.looks_at_windows();
        let mut eligible = if overlaps {
            placement.eligible(&self.scene(job), &job.plan)
        } else {
            0
        };

        while self.quota > 0 {
            if let Some((index, host, why)) = self.next_primary(job) {
                job.wishes.remove(index);
                self.start(job, index, host, why, fx);
            } else if job.waiting() > 0 {
                let host = match &mut order {
                    // A copy may have taken the slot since the order was made.
                    Some(order) => order.find(|host| {
                        self.hosts.has_room(*host, job.demand)
                            && job.has_work_for(*host, self.hosts)
                    }),
                    None => placement.propose(&self.scene(job), &job.plan, |host| {
                        job.has_work_for(host, self.hosts)
                    }),
                };
                let Some(host) = host else { return };
                let spare = eligible > job.waiting();
                let there = windows.then(|| self.hosts.table.get(&host)).flatten();
                let better =
                    there.and_then(|host| job.makes_the_most_of(host, self.hosts, self.now));
                let next = match better {
                    Some(index) => job.take_waiting(index).map(|why| (index, why)),
                    None => job.pop_for(host, self.hosts),
                };
                let Some((index, why)) = next else { return };
                let Some(number) = self.start(job, index, host, why, fx) else {
                    return;
                };

                if spare {
                    job.want_copy(index, number, CopyReason::Spare, self.settings.max_copies);
                }
            } else {
                return;
            }

            eligible = eligible.saturating_sub(1);
        }
    }

    /// Starts the job's next task on the host that its policy proposes. Returns whether one
    /// started.
    fn place_next(&mut self, job: &mut Job, fx: &mut Vec<Effect>) -> bool {
        self.prepare(job);
        let turn = job.turn();
        if let Some((index, host, why)) = self.next_primary(job) {
            job.wishes.remove(index);
            return self.start(job, index, host, why, fx).is_some();
        }

        let Some(turn) = turn else { return false };
        let turns = job.turns_from(turn);
        let hosts = &*self.hosts;
        let may = |host| turns.iter().find(|of| !job.shuns(of.index, host, hosts));

        let placement = job.policy.placement;
        let host = placement.propose(&self.scene(job), &job.plan, |host| may(host).is_some());
        let Some((host, index)) = host.and_then(|host| Some((host, may(host)?.index))) else {
            return false;
        };
        let Some(why) = job.take_waiting(index) else {
            return false;
        };

        self.start(job, index, host, why, fx).is_some()
    }

    /// Returns the task whose lost primary attempt is to be replaced first, with the host that the
    /// job's policy proposes and the reason.
    fn next_primary(&self, job: &Job) -> Option<(u32, HostId, StartReason)> {
        let (index, wish) = job.wishes.first_primary()?;
        let why = StartReason::Duplicate(wish.of, wish.why);
        Some((index, self.proposed(job, index)?, why))
    }

    /// Returns the ready host that the job's policy proposes for another attempt of a task.
    pub(crate) fn proposed(&self, job: &Job, index: u32) -> Option<HostId> {
        let scene = self.scene(job);
        job.policy
            .placement
            .propose(&scene, &job.plan, |host| scene.may_run(index, host))
    }

    /// Updates the job's `plan`. When its completion is predicted for the first time, its running
    /// attempts get timeouts.
    pub(crate) fn prepare(&self, job: &mut Job) {
        if !job.policy.placement.prepares() {
            return;
        }
        let mut plan = std::mem::take(&mut job.plan);
        let first = plan.forecast.is_none();
        job.policy.placement.prepare(&self.scene(job), &mut plan);
        job.plan = plan;
        if first && job.plan.forecast.is_some() {
            job.time_out_live(self.now);
        }
    }

    /// Starts the copies that the job wants, the most urgent first, on the hosts that its policy
    /// proposes.
    fn copy(&mut self, job: &mut Job, fx: &mut Vec<Effect>) {
        self.classify(job);
        let placement = job.policy.placement;
        self.copy_stuck(job, fx);
        if let Some(answer) = job.policy.replication.gain()
            && !job.rules.quorum.compares()
            && self.copy_for_gain(answer, job, fx)
        {
            return;
        }
        self.prepare(job);
        if job.policy.replication.overlap() == Some(Replicated::Running)
            && placement.eligible(&self.scene(job), &job.plan) > job.waiting()
        {
            job.want_copies_of_all(self.settings.max_copies);
        }

        for (index, class, wish) in job.wishes.all() {
            if class == CopyPurpose::Duplicate
                && !job
                    .policy
                    .replication
                    .may_copy(job.duplicates, job.counts().total)
            {
                return;
            }

            // The hosts that are left may all run this task, and still be good for the next one.
            let host = self.proposed(job, index);
            let Some(host) = host else { continue };
            job.wishes.remove(index);

            let primary = class == CopyPurpose::Primary;
            let why = StartReason::Duplicate(wish.of, wish.why);
            self.begin(job, index, host, primary, why, fx);
        }
    }

    /// Starts a task that waits, or whose primary attempt was lost.
    pub(crate) fn start(
        &mut self,
        job: &mut Job,
        index: u32,
        id: HostId,
        why: StartReason,
        fx: &mut Vec<Effect>,
    ) -> Option<u32> {
        self.quota = self.quota.saturating_sub(1);
        self.begin(job, index, id, true, why, fx)
    }

    /// Returns the part of a task in its newest checkpoint, from `TaskRecord::saved` and its live
    /// attempts.
    pub(crate) fn saved(&self, job: &Job, index: u32) -> f64 {
        if !job.rules.checkpoint {
            return 0.0;
        }

        let Some(record) = job.records.get(&index) else {
            return 0.0;
        };
        let live = record.live.iter().filter_map(|copy| {
            let host = self.hosts.table.get(&copy.host)?;
            let load = host.books.get(&copy.attempt)?;
            Some(
                self.foresight
                    .saved(host, load, job, self.settings, self.now),
            )
        });
        live.fold(record.saved, f64::max)
    }

    fn claim(&self, job: &Job, id: HostId) -> Option<RoomClaim> {
        let host = self.hosts.table.get(&id)?;
        if self.ahead {
            host.claim_ahead(job.demand)
        } else {
            host.claim(job.demand)
        }
    }

    /// Puts a new attempt of a task on all books and emits its `Start`; returns its number. Without
    /// room on the host the task waits on.
    pub(crate) fn begin(
        &mut self,
        job: &mut Job,
        index: u32,
        id: HostId,
        primary: bool,
        why: StartReason,
        fx: &mut Vec<Effect>,
    ) -> Option<u32> {
        let claim = self.claim(job, id);
        debug_assert!(claim.is_some(), "{id:?} has no room for {:?}", job.demand);
        let Some(claim) = claim else {
            job.put_back(index);
            return None;
        };
        let resumed = self.saved(job, index);
        if job.rules.quorum.compares() {
            self.ask(job, index, id);
        }

        let host = self.hosts.table.at_mut(&id)?;
        let attempt = job.begin(index, (id, host.speed), primary, &why, self.incarnation)?;
        let duplicate = why.is_duplicate();
        let limit = job.limit(index, host).into_iter().chain(self.most).min();
        let load = HostAttempt {
            resumed,
            limit,
            shares: self.foresight.shares(host, self.now),
            ..HostAttempt::assigned(self.now, duplicate, host.beat)
        };
        host.books.begin(&claim, attempt, load);
        self.hosts.index.update(host, self.now);
        self.hosts.stand(id, attempt, job, self.settings.start_cost);
        job.time_out(attempt, primary, self.now);

        // Short tasks would end before their first report.
        let short = job.plan.kind.is_none() && job.task_work_s().is_some();
        let report_every = job.policy.reports().filter(|_| !short);

        if duplicate || job.rules.quorum.compares() {
            job.refresh(index, self.settings.max_copies);
        }

        fx.push(Effect::Start {
            host: id,
            attempt,
            limit,
            report_every,
            why,
        });

        Some(attempt.number)
    }
}
