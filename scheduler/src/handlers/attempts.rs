//! The ends of attempts, and their consequences for the tasks. Starts live in `dispatch`.

use common::attempt::{Outcome, Phase};
use common::{AttemptId, HostId, IdSet, JobId, Span, Speed, TaskId, Time};

use crate::handlers::hosts::note_start;
use crate::prediction::pace::ObservedWork;
use crate::prediction::predict::rate_of;
use crate::prediction::reservation::ObservedRun;
use crate::prediction::widths::of_ranks;
use crate::protocol::effect::{CancelReason, CopyReason, Effect, EndReason, Settled, Verdict};
use crate::state::host::HostAttempt;
use crate::state::job::{Job, LiveCopy};
use crate::state::scheduler::Scheduler;

/// The account to which the end of an attempt is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charge {
    /// The task's retries.
    Failure,
    /// The losses that the job allows for a task.
    Loss,
    /// Its host, which could not start it.
    Host,
    /// Nothing: it was not the task's fault.
    Nothing,
}

impl Scheduler {
    /// Notes the processor time of an attempt whose completion comes next.
    pub(crate) fn on_attempt_used(&mut self, host: HostId, attempt: AttemptId, cpu: Span) {
        let host = self.hosts.get(host);
        if let Some(load) = host.and_then(|host| host.books.at_mut(&attempt)) {
            load.cpu = Some(cpu);
        }
    }

    /// Notes the time since the last end of an attempt on this host, if the one of the job that has
    /// ended now was there already.
    fn note_turn(&mut self, host: HostId, job: JobId, (assigned, ran): (Time, Span)) {
        let Some(host) = self.hosts.get(host) else {
            return;
        };
        let last = host.ended.replace(self.now);
        if let Some(last) = last.filter(|last| assigned < *last)
            && let Some(job) = self.jobs.table.get_mut(&job)
        {
            let slot_s = self.now.since(last).secs() * f64::from(host.slots);
            job.pace.note_turn(slot_s, ran);
        }
    }

    /// Handles a completion that a worker delivered. Returns the host, which has a free slot now.
    pub(crate) fn on_attempt_ended(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        outcome: &Outcome,
        ran: Span,
        fx: &mut Vec<Effect>,
    ) -> Option<HostId> {
        self.hear(host, None);
        let success = outcome.success();
        let Some((load, speed)) = self
            .hosts
            .deliver(host, attempt, success, self.now)
            .filter(|(l, _)| !l.stopping)
        else {
            self.on_late_end(host, attempt, success, fx);
            return None;
        };
        if !matches!(outcome, Outcome::Stopped | Outcome::ResultLost(_)) {
            let share = self.hosts.table.get(&host);
            let share = share.map_or(1.0, |host| self.foresight.mean_share(host, &load, self.now));
            let cpu = load
                .cpu
                .map(|cpu| Span(cpu.0 / u64::from(load.takes.cores.max(1))));
            let work = ObservedWork::of(ran, speed, share, cpu);
            let work = (load.resumed <= 0.0).then_some(work);
            self.learn(attempt, outcome, ran, speed, work);
            self.note_turn(host, attempt.task.job, (load.assigned, ran));
        }
        if success {
            self.note_enough(host, attempt.task.job);
        }
        // It was over before its host reported that it runs.
        if success
            && load.phase == Phase::Queued
            && let Some(host) = self.hosts.table.get(&host)
        {
            note_start(&mut self.jobs, host, attempt, (load.assigned, ran));
        }

        let job = self.jobs.table.get(&attempt.task.job);
        let charge = match outcome {
            // The attempt was killed at the limit that the policy set.
            Outcome::TimedOut(limit) if job.is_some_and(|job| job.limited(*limit)) => {
                Charge::Nothing
            }
            Outcome::Stopped if executing(&load) => Charge::Loss,
            Outcome::Stopped => Charge::Nothing,
            Outcome::ResultLost(_) => Charge::Loss,
            Outcome::NoRoom(_) if self.settings.benching => Charge::Nothing,
            Outcome::NotStarted(_) if self.blames(attempt.task.job) => Charge::Host,
            _ => Charge::Failure,
        };

        let why = EndReason::Delivered(outcome.clone());
        fx.push(Effect::Ended {
            host,
            attempt,
            why: why.clone(),
        });
        fx.push(Effect::Acknowledge {
            host,
            attempt,
            verdict: Verdict::Taken,
        });

        if success {
            self.succeed(host, attempt, fx);
        } else {
            self.carry_on(attempt, charge, why, fx);
        }

        if self.is_too_soon(outcome, &load) {
            let why = "ends tasks long before they can have reached the limits that it was given for them";
            self.note_return(host, why);
        } else {
            self.judge_host(host, attempt, outcome, fx);
        }
        Some(host)
    }

    /// Learns run times and estimates from the end of an attempt, into `Experience` and the job's
    /// `pace`. One that went on from a checkpoint did only a part of its task, and has no `work`.
    fn learn(
        &mut self,
        attempt: AttemptId,
        outcome: &Outcome,
        ran: Span,
        speed: Speed,
        work: Option<ObservedWork>,
    ) {
        let Some(job) = self.jobs.table.get_mut(&attempt.task.job) else {
            return;
        };
        if job.gang.is_some() {
            return self.learn_of_rank(attempt, outcome, ran, speed);
        }

        let whole = work.filter(|_| outcome.success());
        job.pace
            .observe(ran, whole, job.estimate(attempt.task.index));
        job.plan.rests = None;
        let experience = &mut self.foresight.experience;
        let of = &job.stack.terms.estimator;
        let teaches = job.teaches();
        let killed_s = job.killed_s(attempt.task.index);
        let taught = work.filter(|_| teaches);

        if let Some(work) = taught {
            let life = ObservedRun {
                time: work.work_s,
                done: !matches!(outcome, Outcome::TimedOut(_)),
            };
            self.foresight.lives.observe(&of.program, life);
        }

        let news = taught.filter(|_| outcome.success()).is_some_and(|work| {
            let estimate = job.estimate(attempt.task.index);
            experience
                .estimates
                .observe(of, attempt.task.job, estimate, work)
        });

        if job.promise.is_none() {
            self.foresight.small.note(ran, self.now);
        }

        if let Some(run) = job.run(outcome, ran, speed) {
            if teaches || killed_s > 0.0 {
                experience.runs.observe(of, run, killed_s);
            }

            let small = self.foresight.small;
            let slots = self.hosts.index.all.usable_slots;
            job.learn(attempt, run, || small.rate(slots, self.now));
        }

        if news {
            self.look_up_usual(attempt.task.job);
        }
    }

    /// Looks up again what is usual for the jobs of this one's user and program, which were submitted
    /// when less was known.
    fn look_up_usual(&mut self, like: JobId) {
        let Some(like) = self.jobs.table.get(&like) else {
            return;
        };
        let of = like.stack.terms.estimator.clone();
        let estimates = &self.foresight.experience.estimates;
        let jobs = self.jobs.table.values_mut();
        for job in jobs.filter(|job| !job.settled() && job.stack.terms.estimator == of) {
            job.usual = estimates.usual(&of, job.rules.estimate);
        }
    }

    /// The same for a rank of a gang: it teaches the limits of gangs of its program with as many
    /// ranks. The run time of the whole gang is observed when all ranks are done.
    fn learn_of_rank(&mut self, attempt: AttemptId, outcome: &Outcome, ran: Span, speed: Speed) {
        let Some(job) = self.jobs.table.get_mut(&attempt.task.job) else {
            return;
        };
        let Some(ranks) = job.gang.as_ref().and_then(|gang| gang.width) else {
            return;
        };
        let Some(run) = job.run(outcome, ran, speed) else {
            return;
        };

        // All ranks run for about as long: only the first is observed.
        if attempt.task.index == 0 {
            let of = of_ranks(&job.stack.terms.estimator, ranks);
            self.foresight
                .experience
                .runs
                .observe(&of, run, job.killed_s(0));
        }

        let small = self.foresight.small;
        let slots = self.hosts.index.all.usable_slots;
        job.learn(attempt, run, || small.rate(slots, self.now));
    }

    /// Handles a completion of an attempt that is not live (any more).
    fn on_late_end(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        success: bool,
        fx: &mut Vec<Effect>,
    ) {
        let verdict = self.judge(host, attempt, success);
        fx.push(Effect::Acknowledge {
            host,
            attempt,
            verdict,
        });

        if verdict == Verdict::Taken {
            if let Some(host) = self.hosts.get(host) {
                host.finished += 1;
            }
            self.succeed(host, attempt, fx);
        }
    }

    /// Decides the `Verdict` on a completion whose attempt is not live. A result still counts while
    /// its task is not settled, even if its host had been given up. A failure was charged when the
    /// attempt went off the books.
    fn judge(&mut self, host: HostId, attempt: AttemptId, success: bool) -> Verdict {
        let TaskId { job, index } = attempt.task;
        let Some(job) = self.jobs.table.get_mut(&job) else {
            return Verdict::Unknown;
        };
        let Some(record) = job.records.at_mut(&index) else {
            return if job.task_state(index).is_some_and(settled) {
                Verdict::Late
            } else {
                Verdict::Unknown
            };
        };
        let known = record.knows(attempt.number);

        match record
            .ended
            .iter_mut()
            .find(|ended| ended.attempt == attempt && ended.host == host)
        {
            Some(ended) if success && !ended.delivered => Verdict::Taken,
            Some(ended) => {
                ended.delivered = true;
                Verdict::Late
            }
            None if !known && attempt.number <= record.forgotten => Verdict::Late,
            None => Verdict::Unknown,
        }
    }

    /// Finishes the task by this attempt, and stops all other copies.
    pub(crate) fn finish(&mut self, attempt: AttemptId, fx: &mut Vec<Effect>) {
        let TaskId { job: id, index } = attempt.task;
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let Some(record) = job.close(index) else {
            return;
        };

        for copy in record.live.iter().filter(|copy| copy.attempt != attempt) {
            let why = EndReason::Outrun(attempt.number);
            self.hosts
                .stop(copy.host, copy.attempt, why, &self.settings, self.now, fx);
        }

        job.finished.insert(index);
        self.jobs.lines.sync(job);
        fx.push(Effect::TaskSettled {
            task: attempt.task,
            settled: Settled::Finished(attempt),
        });
        settle_job(id, job, fx);
        if job.settled() {
            self.foresight.on_job_done(job, self.now);
        }
    }

    /// Takes a live attempt off the `HostAttempts` that did not end by itself.
    pub(crate) fn lose(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        why: EndReason,
        fx: &mut Vec<Effect>,
    ) {
        let Some(load) = self
            .hosts
            .take(host, attempt, self.now)
            .filter(|load| !load.stopping)
        else {
            return;
        };
        self.note_done(host, attempt, &load);

        let lost = matches!(why, EndReason::LeaseExpired(_) | EndReason::Forgotten);
        if lost && let Some(host) = self.hosts.table.at_mut(&host) {
            host.lost += 1;
        }

        let charge = if lost && executing(&load) {
            Charge::Loss
        } else {
            Charge::Nothing
        };

        fx.push(Effect::Ended {
            host,
            attempt,
            why: why.clone(),
        });
        self.carry_on(attempt, charge, why, fx);
    }

    /// Notes the state of an attempt before it is lost: the part of its task in its checkpoint is
    /// kept, and the task takes longer than the attempt's run time at the last report, as far as it ran since it
    /// came on the books. What it ran before a restart of the master does not count: the time at which it was
    /// assigned is in the store, but not among what is restored here, and so there is only its host's word for it.
    fn note_done(&mut self, host: HostId, attempt: AttemptId, load: &HostAttempt) {
        let (Some(host), Some(job)) = (
            self.hosts.table.get(&host),
            self.jobs.table.get_mut(&attempt.task.job),
        ) else {
            return;
        };
        let saved = self
            .foresight
            .saved(host, load, job, &self.settings, self.now);
        if let Some(record) = job.records.at_mut(&attempt.task.index) {
            // What gets on with its work between two returns ends some time.
            if saved > record.saved {
                record.crowded_out = 0;
            }
            record.saved = record.saved.max(saved);
        }

        let rate = rate_of(job.computing(), host.speed.factor());
        let ran = load.ran_here(self.now);
        job.outlived(attempt.task.index, ran.secs() * rate);
    }

    /// Takes back an attempt that has waited at its host for too long; it may have begun since.
    pub(crate) fn take_back(&mut self, host: HostId, attempt: AttemptId, fx: &mut Vec<Effect>) {
        fx.push(Effect::Stop {
            host,
            attempt,
            why: EndReason::Returned,
        });
        self.lose(host, attempt, EndReason::Returned, fx);
    }

    /// Preempts an attempt for the task `by`, and charges nothing.
    pub(crate) fn preempt(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        by: TaskId,
        kept: bool,
        fx: &mut Vec<Effect>,
    ) {
        self.take_away(host, attempt, EndReason::Preempted { by, kept }, fx);
        let job = self.jobs.table.get_mut(&attempt.task.job);
        if let Some(record) = job.and_then(|job| job.records.at_mut(&attempt.task.index)) {
            record.made_room_for = Some(by);
        }
    }

    /// Ends an attempt for the reason `why`, with `Charge::Nothing`; its task waits again.
    pub(crate) fn take_away(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        why: EndReason,
        fx: &mut Vec<Effect>,
    ) {
        self.hosts
            .stop(host, attempt, why.clone(), &self.settings, self.now, fx);
        self.carry_on(attempt, Charge::Nothing, why, fx);
    }

    /// Charges the end of an attempt, which is off the books, as a failure of its task.
    pub(crate) fn fail(&mut self, attempt: AttemptId, why: EndReason, fx: &mut Vec<Effect>) {
        self.carry_on(attempt, Charge::Failure, why, fx);
    }

    /// Ends the attempt on its task's record and decides whether the task goes on, waits again or
    /// fails.
    fn carry_on(
        &mut self,
        attempt: AttemptId,
        charge: Charge,
        why: EndReason,
        fx: &mut Vec<Effect>,
    ) {
        let TaskId { job: id, index } = attempt.task;
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let Some(record) = job.records.at_mut(&index) else {
            return;
        };
        let ended = record.end(attempt, &why, charge == Charge::Loss);

        if self.settings.benching
            && matches!(charge, Charge::Failure | Charge::Host)
            && let Some(host) = record.ended.last().map(|ended| ended.host)
        {
            record.failed_on(host, charge == Charge::Host);
            job.blame.keep_away(index, self.now);
        }
        match charge {
            Charge::Failure => record.failures = record.failures.saturating_add(1),
            Charge::Loss => record.losses = record.losses.saturating_add(1),
            Charge::Host | Charge::Nothing => {}
        }

        let nowhere = charge == Charge::Host && job.nowhere_to_start(index, &self.hosts);
        let Some(record) = job.records.get(&index) else {
            return;
        };
        if let Some(first) = record.live.first() {
            let requeue = job.policy.replication.requeue();
            let follows = |copy: LiveCopy| !copy.replaced && requeue.applies(copy.primary);
            if charge != Charge::Failure && ended.is_some_and(follows) {
                let of = first.attempt.number;
                job.want_copy(index, of, CopyReason::PrimaryLost, self.settings.max_copies);
            }
        } else {
            // What is being compared may be all that it wants.
            let settled = if record.compares() {
                None
            } else if nowhere || charge == Charge::Failure && record.failures > job.rules.retries {
                Some(Settled::Failed(attempt, why))
            } else {
                record.spent(&job.rules)
            };
            if let Some(settled) = settled {
                return self.give_up(attempt.task, settled, fx);
            }

            let failed = matches!(charge, Charge::Failure | Charge::Host);
            job.requeue(index, (attempt.number, failed));
        }

        job.refresh(index, self.settings.max_copies);
        self.jobs.lines.sync(job);
    }

    /// Fails the task, and cancels the rest of its job if more than `max_fails` have failed.
    pub(crate) fn give_up(&mut self, task: TaskId, settled: Settled, fx: &mut Vec<Effect>) {
        let Some(job) = self.jobs.table.get_mut(&task.job) else {
            return;
        };
        let Some(record) = job.close(task.index) else {
            return;
        };
        let last = record.attempts;
        let failed = matches!(&settled, Settled::Failed(by, _) if by.number == last);
        job.numbers.insert(task.index, (last, failed));
        job.failed.insert(task.index);
        self.jobs.lines.sync(job);
        fx.push(Effect::TaskSettled { task, settled });

        match job.rules.max_fails {
            Some(limit) if job.failed.len() > limit && !job.settled() => {
                self.cancel(task.job, None, CancelReason::TooManyFailures(limit), fx);
            }
            _ => settle_job(task.job, job, fx),
        }
    }

    /// Cancels these unsettled tasks, or all of them if `tasks` is `None`: that closes an open job.
    pub(crate) fn cancel(
        &mut self,
        id: JobId,
        tasks: Option<&IdSet>,
        why: CancelReason,
        fx: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let closes = tasks.is_none() && std::mem::take(&mut job.open);
        let mut cancelled = job.fresh.clone();
        cancelled.union_with(&job.after.tasks);
        cancelled = tasks.map_or_else(|| cancelled.clone(), |tasks| cancelled.intersection(tasks));
        job.fresh.subtract(&cancelled);
        job.after.tasks.subtract(&cancelled);

        let wanted = |index: &u32| tasks.is_none_or(|tasks| tasks.contains(*index));
        let tried: IdSet = job.records.keys().filter(wanted).collect();
        for index in tried.iter() {
            let Some(record) = job.close(index) else {
                continue;
            };
            job.numbers.insert(index, (record.attempts, false));
            for copy in &record.live {
                let why = EndReason::Cancelled(why);
                self.hosts
                    .stop(copy.host, copy.attempt, why, &self.settings, self.now, fx);
            }
        }

        cancelled.union_with(&tried);
        if cancelled.is_empty() {
            if closes {
                settle_job(id, job, fx);
            }
            return;
        }

        job.cancelled.union_with(&cancelled);
        job.plan.forget_predictions();
        self.jobs.lines.sync(job);
        fx.push(Effect::TasksCancelled {
            job: id,
            tasks: cancelled,
            why,
        });
        settle_job(id, job, fx);
    }
}

fn settled(state: common::view::TaskState) -> bool {
    use common::view::TaskState::{Cancelled, Failed, Finished};
    matches!(state, Finished | Failed | Cancelled)
}

/// Whether the attempt may have caused the loss of its host: its command was started, and it is not
/// frozen.
fn executing(load: &HostAttempt) -> bool {
    load.phase.executing() && !load.frozen
}

/// Settles the job, if its tasks are and it is not open.
pub(crate) fn settle_job(id: JobId, job: &mut Job, fx: &mut Vec<Effect>) {
    if job.settled() {
        job.finished.compact();
        fx.push(Effect::JobSettled {
            job: id,
            state: job.state(),
        });
    }
}
