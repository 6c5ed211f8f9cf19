//! The handlers of jobs: submitted, restored, cancelled, retried, reopened and forgotten.

use std::collections::BTreeSet;

use common::attempt::Phase;
use common::{HostId, IdSet, JobId, Span, Time};

use crate::policy::Policy;
use crate::policy::catalogue::policy;
use crate::prediction::pace::ObservedWork;
use crate::prediction::predict::Prediction;
use crate::protocol::effect::{CancelReason, Effect, Offer, Refused};
use crate::protocol::event::{Bag, EarlierRun, RestoredProgress, Tested, Tried};
use crate::state::gang::Gang;
use crate::state::job::{Job, TaskRecord};
use crate::state::promise::{Promise, stacking};
use crate::state::scheduler::Scheduler;
use crate::state::terms::Stack;

/// The highest attempt number taken from a store. No scheduler gets there; the bound prevents an
/// overflow as counting goes on.
pub(crate) const MAX_NUMBER: u32 = u32::MAX / 2;

impl Scheduler {
    pub(crate) fn on_job_submitted(
        &mut self,
        id: JobId,
        bag: Bag,
        tested: Option<Box<Tested>>,
        fx: &mut Vec<Effect>,
    ) {
        let refusal = if self.jobs.table.contains_key(&id) {
            Err(Refused::NumberTaken)
        } else {
            policy(&bag.rules.policy)
                .ok_or_else(|| Refused::UnknownPolicy(bag.rules.policy.clone()))
                .and_then(|policy| policy.admission.admit(policy.name, &bag).map(|()| policy))
                .and_then(|policy| self.jobs.can_promise(id, &bag).map(|()| policy))
        };
        let policy = match refusal {
            Err(why) => return fx.push(Effect::JobRefused { job: id, why }),
            Ok(policy) => policy,
        };
        let (told, victims) = match tested {
            // This event is the first one since.
            Some(tested) if tested.events + 1 == self.events && tested.at == self.now => {
                (Ok(tested.offer), tested.victims)
            }
            _ => self.decide(&bag, &policy, self.now),
        };

        match told {
            Err(why) => fx.push(Effect::JobRefused { job: id, why }),
            Ok(offer) => {
                let promised = |(offer, deadline): (Offer, Time)| {
                    Promise::offered(deadline, self.now, offer.finish)
                };
                let promise = offer.zip(bag.terms.deadline).map(promised);
                let (waits, missed) = self.jobs.unended(id, &bag.after, false);
                let user = self.jobs.lines.shares.number(&bag.terms.estimator.user);
                let mut job = self.draw_up((id, user), bag, policy, promise);
                job.wait_for(waits);
                self.enter(id, job);
                fx.push(Effect::JobAdmitted { job: id });
                fx.extend(offer.map(|offer| Effect::Promised { job: id, offer }));
                if let Some(before) = missed {
                    self.miss(id, before, fx);
                }
            }
        }

        self.kill(&victims, id, fx);
    }

    /// Predicts the completion of a bag without a promise, as if it were submitted now; `None` where
    /// [`Self::predict`] could not say it of the job, for a bag of several ranks, and for one that
    /// waits for a job that has ended otherwise.
    pub fn predict_submitted(&self, bag: Bag, now: Time) -> Option<Prediction> {
        // No job has this number.
        let id = JobId(0);
        let policy = policy(&bag.rules.policy)?;
        let (waits, missed) = self.jobs.unended(id, &bag.after, false);
        if bag.ranks.is_some() || missed.is_some() {
            return None;
        }

        let shares = &self.jobs.lines.shares;
        let user = shares.known_number(&bag.terms.estimator.user);
        let mut job = self.draw_up((id, user), bag, policy, None);
        job.plan.entered = now;
        job.pool = self.hosts.index.pools.of(&job.rules.needs);
        job.wait_for(waits);
        self.predict_job(&job, now)
    }

    /// Creates a job of untried tasks, by its number and its user's, with its `Promise`.
    fn draw_up(
        &self,
        (id, user): (JobId, u32),
        bag: Bag,
        policy: Policy,
        promise: Option<Promise>,
    ) -> Job {
        let rank = policy.ordering.rank(
            user,
            bag.rules.priority,
            self.jobs.arrivals,
            id,
            promise.is_some(),
        );

        let lessons = self.past_lessons(&bag, policy.limits);
        let gang = bag
            .ranks
            .map(|ranks| Box::new(Gang::new(ranks, self.scaling(&ranks, &bag.terms.estimator))));
        let estimates = &self.foresight.experience.estimates;
        let usual = estimates.usual(&bag.terms.estimator, bag.rules.estimate);
        let stack = Stack::new(&bag.tasks, bag.terms, stacking(&policy));
        let ids = bag.tasks.clone();
        let open = bag.open;

        let mut job = Job::new(bag.rules, policy, rank, bag.tasks);
        job.stack = stack;
        job.promise = promise;
        job.user = user;
        job.lessons = lessons;
        job.usual = usual;
        job.open = open;
        job.speculate(&ids, bag.disclosed, self.jobs.arrivals);
        job.gang = gang;

        job
    }

    fn enter(&mut self, id: JobId, mut job: Job) {
        job.plan.entered = self.now;
        job.pool = self.hosts.pool(&job.rules.needs, self.now);
        self.jobs.arrivals += 1;
        if let Some(promise) = job.promise {
            self.jobs.slack = None;
            self.jobs.deadlines.insert((promise.deadline, id));
        }
        self.meet(id, &mut job);

        self.jobs.await_others(id, &job);
        if job.gang.is_some() && !job.settled() && !job.is_held() {
            self.jobs.gangs.insert(id);
        }
        self.jobs.lines.sync(&mut job);
        self.jobs.table.insert(id, job);
    }

    /// Restores a job. An acknowledged job is never refused: if its policy is unknown to this
    /// program, the default one replaces it.
    pub(crate) fn on_job_restored(
        &mut self,
        id: JobId,
        bag: Bag,
        progress: &RestoredProgress,
        fx: &mut Vec<Effect>,
    ) {
        if self.jobs.table.contains_key(&id) {
            return;
        }

        let policy = policy(&bag.rules.policy).unwrap_or_default();
        let (waits, missed) = self.jobs.unended(id, &bag.after, true);
        let deadline = bag
            .terms
            .deadline
            .filter(|_| policy.admission.reckoning().is_some());
        let promise = deadline.map(|deadline| Promise {
            deadline,
            made: progress.promised.map_or(self.now, |(made, _)| made),
            finish: progress.promised.map(|(_, finish)| finish),
        });
        let user = self.jobs.lines.shares.number(&bag.terms.estimator.user);
        let mut job = self.draw_up((id, user), bag, policy, promise);
        job.request(Some(&progress.requested), self.jobs.arrivals);

        let finished = job.fresh.intersection(&progress.finished);
        job.fresh.subtract(&finished);
        job.finished = finished.into();

        for (settled, into) in [
            (&progress.failed, &mut job.failed),
            (&progress.cancelled, &mut job.cancelled),
        ] {
            *into = job.fresh.intersection(settled);
            job.fresh.subtract(into);
        }

        job.attempts = progress.attempts;
        job.duplicates = progress.duplicates;
        for tried in &progress.tried {
            self.restore_task(id, &mut job, tried);
        }
        if job.rules.quorum.compares() {
            self.restore_results(id, &mut job, progress, fx);
        }

        self.restore_runs(&mut job, &progress.runs);
        self.restore_gang(&mut job, &progress.done_on);
        job.wait_for(waits);
        self.enter(id, job);
        if let Some(before) = missed {
            self.miss(id, before, fx);
        }
    }

    /// Takes over what finished tasks took. What owners left of the processors meanwhile is not kept, so the
    /// hosts count as free.
    fn restore_runs(&self, job: &mut Job, runs: &[EarlierRun]) {
        if job.gang.is_some() {
            return;
        }
        let cores = u64::from(job.demand.cores.max(1));
        for run in runs {
            let host = self.hosts.table.get(&run.host);
            if let Some(host) = host.filter(|_| job.finished.contains(run.task)) {
                let cpu = Some(Span(run.cpu.0 / cores)).filter(|cpu| *cpu > Span::ZERO);
                let work = ObservedWork::of(run.ran, host.speed, 1.0, cpu);
                let estimate = job.estimate(run.task);
                job.pace.note_work(work, estimate);
            }
        }
    }

    fn restore_task(&mut self, id: JobId, job: &mut Job, tried: &Tried) {
        let number = tried
            .live
            .iter()
            .map(|(attempt, ..)| attempt.number)
            .fold(tried.attempts, u32::max);
        let number = number.min(MAX_NUMBER);
        // Which ones failed is not told: surely the last one did where all have.
        let last = (number, tried.failures == number);
        if job.failed.contains(tried.task) || job.cancelled.contains(tried.task) {
            job.numbers.insert(tried.task, last);
        }
        if number == 0 || !job.fresh.remove(tried.task) {
            return;
        }

        let mut record = TaskRecord::reborn(last);
        record.failures = tried.failures;
        record.losses = tried.losses;

        for (attempt, host_id, executing) in tried.live.iter().copied() {
            let own = attempt.task.job == id
                && attempt.task.index == tried.task
                && attempt.number <= number;
            if !own || record.knows(attempt.number) {
                continue;
            }

            let now = self.now;
            let host = self.hosts.entry(host_id, now);
            let phase = if executing {
                Phase::Running
            } else {
                Phase::Queued
            };

            record.find_on(host, attempt, phase, &job.rules, now);
            self.hosts
                .stand(host_id, attempt, job, self.settings.start_cost);
            self.reindex(host_id);
            self.watch(host_id);
        }

        record.remember_ended(id, tried);
        if job.policy.limits.learns() {
            let speed = |host: &HostId| self.hosts.table.get(host).map(|host| host.speed.factor());
            let outlived = tried
                .outlived
                .iter()
                .filter_map(|(host, ran)| Some(ran.secs() * speed(host)?));
            record.killed_s = outlived.fold(0.0, f64::max);
        }
        if !job.rules.checkpoint {
            record.killed_s = record.killed_s.max(tried.policed.secs());
        }

        if record.live.is_empty() {
            job.wait_again(tried.task);
        }

        job.records.insert(tried.task, record);
        job.refresh(tried.task, self.settings.max_copies);
    }

    /// Restores a gang that had begun before a restart: its ranks are where they were, or lost
    /// together. Hosts on which ranks are done stay held for it while other ranks live.
    fn restore_gang(&mut self, job: &mut Job, done_on: &[HostId]) {
        let ranks = job.counts().total as u32;
        let begun = job.attempts > 0;
        let copies = job.copies();
        let live: BTreeSet<HostId> = copies.map(|copy| copy.host).collect();
        let held = !live.is_empty();
        let settled = job.settled();
        let takes = job.demand;
        let Some(gang) = job.gang.as_mut().filter(|_| begun) else {
            return;
        };
        gang.width = Some(ranks);

        gang.stirred = true;
        gang.disturbed = true;
        gang.formed = held.then_some(self.now);
        for id in done_on
            .iter()
            .filter(|id| held && !settled && !live.contains(id))
        {
            if gang.seats.insert(*id, true).is_none() {
                self.hosts.entry(*id, self.now);
                self.hosts.reserve(*id, takes, true, self.now);
                self.watch(*id);
            }
        }
    }

    pub(crate) fn on_job_cancelled(
        &mut self,
        id: JobId,
        tasks: Option<&IdSet>,
        fx: &mut Vec<Effect>,
    ) {
        // A rank is of no use without the others: the whole gang is cancelled.
        let job = self.jobs.table.get(&id);
        let is_gang = job.is_some_and(|job| job.gang.is_some());
        let tasks = tasks.filter(|_| !is_gang);

        if tasks.is_none() {
            self.on_rest_cancelled(id);
        }
        self.cancel(id, tasks, CancelReason::Asked, fx);
    }

    pub(crate) fn on_job_retried(&mut self, id: JobId, tasks: &IdSet, fx: &mut Vec<Effect>) {
        let job = self.jobs.table.get_mut(&id);
        let Some(job) = job.filter(|job| job.gang.is_none()) else {
            return;
        };
        let failed = job.failed.intersection(tasks);
        let mut reopened = job.cancelled.intersection(tasks);

        job.failed.subtract(&failed);
        job.cancelled.subtract(&reopened);
        reopened.union_with(&failed);
        if reopened.is_empty() {
            return;
        }

        if job.is_held() {
            job.after.tasks.union_with(&reopened);
        } else {
            job.requeue_or_renew(&reopened);
        }
        job.forget_forecasts();
        self.reopen(id, reopened, fx);
    }

    /// Queues settled tasks of a job that wait again, and renews its promise.
    fn reopen(&mut self, id: JobId, tasks: IdSet, fx: &mut Vec<Effect>) {
        self.queue_up(id, &tasks);
        self.renew(id, fx);
        fx.push(Effect::TasksReopened { job: id, tasks });
    }

    /// Reopens finished tasks whose results are gone.
    pub(crate) fn on_results_gone(
        &mut self,
        id: JobId,
        tasks: &[(u32, u32)],
        fx: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let mut gone = IdSet::new();
        for (index, number) in tasks {
            if !job.finished.contains(*index) {
                continue;
            }
            let record = TaskRecord::reborn(((*number).min(MAX_NUMBER), false));
            job.records.insert(*index, record);
            job.wait_again(*index);
            gone.insert(*index);
        }

        if gone.is_empty() {
            return;
        }

        job.finished.take(&gone);
        job.believe_no_more(&gone);
        job.forget_forecasts();
        self.reopen(id, gone, fx);
    }

    /// Handles the alarms of jobs that are due.
    pub(crate) fn on_alarms(&mut self) {
        while let Some((at, id)) = self.jobs.lines.alarms.first().copied()
            && at <= self.now
            && let Some(job) = self.jobs.table.get_mut(&id)
        {
            job.on_alarm(self.now, self.settings.max_copies);
            self.jobs.lines.sync(job);
        }
    }

    /// Forgets a job, if it is settled; others are kept.
    pub(crate) fn on_job_forgotten(&mut self, id: JobId) {
        if self.jobs.table.get(&id).is_some_and(Job::settled) {
            self.part_from(id);
            let job = self.jobs.table.remove(&id);
            if let Some(job) = &job {
                self.jobs.stop_waiting(id, job);
            }
            self.hosts.index.pools.leave(job.and_then(|job| job.pool));
        }
    }
}
