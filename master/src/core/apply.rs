//! Applies each `Effect` of the scheduler to the store and to the hosts' mail.

use common::attempt::Outcome;
use common::event::GridEvent;
use common::text::plural;
use common::view::{AttemptState, JobState, TaskState};
use common::{AttemptId, HostId, IdSet, JobId, Span, TaskId};
use scheduler::effect::{CancelReason, EndReason, Settled, StartReason, Verdict};
use scheduler::{Effect, Event};

use super::assign::assignment;
use super::events::short;
use super::hosts::Delivered;
use super::{Core, HostMail};
use crate::numbers;
use crate::store::{Awaited, NewAttempt, StoreResult};

/// Counts settled tasks for the metrics.
fn tasks_settled(state: TaskState, count: u64) {
    metrics::counter!(numbers::TASKS_SETTLED, "state" => state.to_string()).increment(count);
}

/// The state of an attempt that ended for this reason, if no limit was learned for it and hosts without room are benched.
fn end_state(why: &EndReason) -> AttemptState {
    match why {
        EndReason::Delivered(outcome) if outcome.success() => AttemptState::Finished,
        EndReason::Delivered(Outcome::Stopped | Outcome::NoRoom(_)) => AttemptState::Killed,
        EndReason::Delivered(Outcome::ResultLost(_)) => AttemptState::Lost,
        EndReason::Delivered(_) => AttemptState::Failed,
        EndReason::LeaseExpired(_)
        | EndReason::Forgotten
        | EndReason::HostLeft
        | EndReason::Revoked => AttemptState::Lost,
        EndReason::Outrun(_)
        | EndReason::Cancelled(_)
        | EndReason::Returned
        | EndReason::Policed { .. }
        | EndReason::Preempted { .. }
        | EndReason::Disbanded
        | EndReason::Moved => AttemptState::Killed,
    }
}

impl Core {
    pub(super) fn mail(&mut self, host: HostId) -> &mut HostMail {
        self.mail.entry(host).or_default()
    }

    /// Applies one effect; `delivered` is the completion that the present event delivers.
    pub(super) fn apply(
        &mut self,
        effect: Effect,
        delivered: Option<&Delivered>,
    ) -> StoreResult<()> {
        match effect {
            Effect::JobAdmitted { job } => tracing::info!(%job, "admitted"),
            Effect::Promised { job, offer } => return self.on_promised(job, offer),
            Effect::PromiseRenewed { job, made, finish } => {
                return self.on_promise_renewed(job, Some((made, finish)));
            }
            Effect::PromiseWithdrawn { job } => return self.on_promise_renewed(job, None),
            Effect::JobRefused { job, why } => return self.on_job_refused(job, &why.to_string()),
            Effect::Start {
                host,
                attempt,
                limit,
                report_every,
                why,
            } => {
                return self.on_start(host, attempt, limit, report_every, &why);
            }
            Effect::Formed { job, ranks, free } => return self.on_formed(job, ranks, free),
            Effect::Begin { host, attempt } => self.mail(host).begin.push(attempt),
            Effect::Foretold {
                job,
                hosts,
                wait,
                low,
                high,
            } => {
                return self.on_foretold(job, hosts, (wait, low, high));
            }
            Effect::Stop { host, attempt, why } => self.tell_to_stop(host, attempt, &why),
            Effect::Freeze { host, attempt, by } => return self.on_freeze(host, attempt, by),
            Effect::Thaw { host, attempt } => self.mail(host).hold.push((attempt, false)),
            Effect::Executing { attempt } => {
                self.note_running(attempt);
                return self.store.attempt_started(attempt, self.now);
            }
            Effect::Ended { host, attempt, why } => {
                // Its acknowledgement, which comes next, stores the end with the result.
                let of_it = |of: &Delivered| of.completion.attempt == attempt;
                let stored_next =
                    matches!(why, EndReason::Delivered(_)) && delivered.is_some_and(of_it);
                return self.on_ended(host, attempt, &why, stored_next);
            }
            Effect::Acknowledge {
                host,
                attempt,
                verdict,
            } => {
                // If an attempt could not be described to its host, `delivered` belongs to another
                // one.
                let of_it = |of: &&Delivered| of.completion.attempt == attempt;
                if let Some(delivered) = delivered.filter(of_it) {
                    return self.on_acknowledge(host, delivered, verdict);
                }
            }
            Effect::Abandon { host, attempts } => self.mail(host).abandon.extend(attempts),
            Effect::Compare { attempt, with } => return self.on_compare(attempt, &with),
            Effect::Judged {
                attempt, judgement, ..
            } => return self.store.judged(attempt, judgement),
            Effect::HostTrusted { host, valid } => return self.store.host_valid(host, valid),
            Effect::TaskSettled { task, settled } => {
                return self.on_task_settled(task, &settled, delivered);
            }
            Effect::TasksCancelled { job, tasks, why } => {
                return self.on_cancelled(job, &tasks, why);
            }
            Effect::TasksReopened { job, tasks } => {
                self.changed.0 = true;
                self.note_tasks(job, &tasks, None);
                return self.store.reopen(job, &tasks);
            }
            Effect::JobSettled { job, state } => return self.on_job_settled(job, state),
            Effect::HostChanged { host, state, owner } => self.on_host_changed(host, state, owner),
        }

        Ok(())
    }

    /// Tells the host to end the attempt. If the task goes on from its state (`kept`), the state is
    /// saved first.
    fn tell_to_stop(&mut self, host: HostId, attempt: AttemptId, why: &EndReason) {
        let kept = matches!(why, EndReason::Preempted { kept: true, .. });
        let mail = self.mail(host);
        if mail.take_back(attempt) {
            return;
        }
        let told = (attempt, why.to_string());
        if kept {
            mail.give_way.push(told);
        } else {
            mail.stop.push(told);
        }
    }

    /// Freezes an attempt on its host, so that another task gets its slot.
    fn on_freeze(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        by: Option<TaskId>,
    ) -> StoreResult<()> {
        self.mail(host).hold.push((attempt, true));
        let Some(by) = by else { return Ok(()) };
        tracing::info!(%attempt, %host, %by, "frozen to make room");
        self.changed.0 = true;
        self.store.attempt_frozen(attempt, by)
    }

    fn on_start(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        limit: Option<Span>,
        report_every: Option<Span>,
        why: &StartReason,
    ) -> StoreResult<()> {
        let duplicate = why.is_duplicate();
        let learned = limit.filter(|limit| self.learned_limit(attempt.task.job, *limit));
        let why = learned.map_or_else(
            || why.to_string(),
            |limit| format!("{why}; killed if it takes longer than {limit}"),
        );
        tracing::debug!(%attempt, %host, why, "start");
        self.store.add_attempt(&NewAttempt {
            attempt,
            host,
            duplicate,
            now: self.now,
            why: &why,
        })?;

        metrics::counter!(numbers::STARTED).increment(1);
        if duplicate {
            metrics::counter!(numbers::COPIES).increment(1);
        }
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&attempt.task.job) else {
            return Ok(());
        };
        let first = job.on_start(now);
        let foretold = job.foretold;
        if first {
            let job = attempt.task.job;
            self.note_event(GridEvent::JobStarted { job });
        }
        self.note_event(GridEvent::TaskAssigned { attempt, host });
        if first && foretold {
            self.store.came(attempt.task.job, Awaited::Start, now)?;
        }

        let Some(job) = self.jobs.get(&attempt.task.job) else {
            return Ok(());
        };

        let from = if job.spec.rules.checkpoint {
            self.store.checkpoint(attempt.task)?
        } else {
            None
        };
        if let Some(saved) = &from {
            self.store.starts_from(attempt, saved)?;
        }

        let place = self.hosts.get(&host);
        let host_name = place.map_or("", |host| host.name.as_str());
        let platform = place.map_or_else(String::new, super::hosts::Host::platform_name);
        let place = (host_name, platform.as_str());
        let position = job.spec.tasks.ids.rank(attempt.task.index);
        match assignment(
            &job.spec,
            (attempt, position),
            place,
            limit,
            report_every,
            from,
        ) {
            Ok(assignment) if job.spec.work.ranks().is_some() => {
                self.mail(host).together.push(assignment);
            }
            Ok(assignment) => self.mail(host).assign.push(assignment),
            // Only a name that depends on the host or the attempt can come this far, or a task from before
            // jobs were checked for their longest assignment; the task fails and says why.
            Err(bad) => self.follow.push(Event::AttemptEnded {
                host,
                attempt,
                outcome: bad.outcome(),
                ran: Span::ZERO,
            }),
        }

        self.changed.0 = true;
        if first {
            self.write_job(attempt.task.job, JobState::Running, None)
        } else {
            Ok(())
        }
    }

    /// The state of an attempt that ended for this reason. One that reached a learned limit, or that its host was benched
    /// for, is killed, not failed.
    fn state_after(&self, attempt: AttemptId, why: &EndReason) -> AttemptState {
        match why {
            EndReason::Delivered(Outcome::TimedOut(limit))
                if self.learned_limit(attempt.task.job, *limit) =>
            {
                AttemptState::Killed
            }
            // Without benching it counts against its task.
            EndReason::Delivered(Outcome::NoRoom(_)) if !self.benching => AttemptState::Failed,
            why => end_state(why),
        }
    }

    fn on_ended(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        why: &EndReason,
        is_stored_next: bool,
    ) -> StoreResult<()> {
        let state = self.state_after(attempt, why);
        tracing::debug!(%attempt, %host, %why, "ended");
        self.note_ended(attempt);
        metrics::counter!(numbers::ENDED, "state" => state.to_string()).increment(1);
        if state != AttemptState::Finished {
            let why = short(&why.to_string());
            self.note_event(GridEvent::AttemptEnded {
                attempt,
                host,
                state,
                why,
            });
        }
        if state == AttemptState::Lost {
            tracing::info!(%attempt, %host, %why, "lost");
            self.count_host(host, 0, 1);
        }

        if !is_stored_next {
            self.store
                .attempt_ended(attempt, state, self.now, &why.to_string())?;
        }
        // An attempt that could not be started is its host's fault and does not count, except a rank: no
        // host is blamed for those.
        let job = self.jobs.get(&attempt.task.job);
        let is_rank = job.is_some_and(|job| job.spec.work.ranks().is_some());
        let unstarted = matches!(why, EndReason::Delivered(Outcome::NotStarted(_)));
        if unstarted && self.benching && !is_rank {
            self.store.attempt_not_charged(attempt)?;
        }

        if let EndReason::Policed { elapsed, .. } = why {
            self.store.attempt_policed(attempt, *elapsed)?;
            self.tell_policed(attempt, why)
        } else {
            Ok(())
        }
    }

    fn on_acknowledge(
        &mut self,
        host: HostId,
        Delivered {
            completion,
            ended,
            spent,
        }: &Delivered,
        verdict: Verdict,
    ) -> StoreResult<()> {
        let attempt = completion.attempt;
        if verdict == Verdict::Taken {
            // The attempt may have been given up as lost: its late result counts.
            let why = &completion.outcome;
            let state = self.state_after(attempt, &EndReason::Delivered(why.clone()));
            self.keep_result(completion, state, *ended)?;
            if why.success() {
                self.count_host(host, 1, 0);
            }
        } else {
            // Its outputs are of no use, but the time that it used counts.
            self.store.attempt_spent(host, spent, *ended)?;
        }

        self.mail(host).acknowledge.push(attempt);
        Ok(())
    }

    fn on_task_settled(
        &mut self,
        task: common::TaskId,
        settled: &Settled,
        delivered: Option<&Delivered>,
    ) -> StoreResult<()> {
        self.changed.0 = true;
        self.nothing_undecided(task);
        if self.saves(task.job) {
            self.store
                .drop_checkpoints(task.job, &IdSet::from_range(task.index, task.index))?;
        }

        let why = match settled {
            Settled::Finished(attempt) => {
                tasks_settled(TaskState::Finished, 1);
                self.note_finished(*attempt, delivered)?;
                return self.predict(task.job);
            }
            Settled::Failed(attempt, why) => format!("attempt {} {why}", attempt.number),
            Settled::NoQuorum(n) => format!("there are {n} results, and too few of them agree"),
            Settled::LostTooOften(n) => format!("its host was lost under it {n} times"),
            Settled::CrowdedOut(n) => format!(
                "hosts gave it back {n} times, since they were short of memory while it was suspended; with --needs \
                 mem=SIZE it goes only to hosts that lend as much, and --max-losses bounds such returns"
            ),
            Settled::FailedTooOften(n) => format!(
                "{} failed, more than its retries allow, and what went on beside did not finish it",
                plural(u64::from(*n), "attempt")
            ),
        };

        tracing::info!(%task, why, "failed");
        let told = short(&why);
        self.note_event(GridEvent::TaskFailed { task, why: told });
        tasks_settled(TaskState::Failed, 1);
        self.store.settle(
            task.job,
            &IdSet::from_range(task.index, task.index),
            TaskState::Failed,
            &why,
        )
    }

    fn on_cancelled(&mut self, job: JobId, tasks: &IdSet, why: CancelReason) -> StoreResult<()> {
        self.changed.0 = true;
        tracing::info!(%job, tasks = tasks.len(), %why, "cancelled");
        tasks_settled(TaskState::Cancelled, tasks.len());
        let reason = match why {
            CancelReason::TooManyFailures(_) => Some(format!("the rest was cancelled: {why}")),
            CancelReason::After(_) => Some(why.to_string()),
            CancelReason::Asked | CancelReason::Unrequested => None,
        };
        if let (Some(reason), Some(job)) = (reason, self.jobs.get_mut(&job)) {
            job.view.reason = Some(reason);
        }
        if self.saves(job) {
            self.store.drop_checkpoints(job, tasks)?;
        }
        self.undecided
            .retain(|task, _| task.job != job || !tasks.contains(task.index));

        let why = match why {
            CancelReason::Asked => format!("cancelled at {}'s request", self.canceller),
            _ => why.to_string(),
        };
        self.note_tasks(job, tasks, Some(&why));
        self.store.settle(job, tasks, TaskState::Cancelled, &why)
    }

    fn on_job_settled(&mut self, job: JobId, state: JobState) -> StoreResult<()> {
        tracing::info!(%job, %state, "settled");
        self.note_event(GridEvent::JobSettled { job, state });
        metrics::counter!(numbers::SETTLED, "state" => state.to_string()).increment(1);
        self.write_job(job, state, Some(self.now))?;
        self.store.set_open(job, false)?;
        self.store.job_ended(job)?;

        if self
            .jobs
            .get(&job)
            .is_some_and(|job| job.foretold || job.spec.work.ranks().is_some())
        {
            // What was foretold of its end was for all of its tasks.
            let counts = self.scheduler.job_counts(job);
            let whole = counts.is_none_or(|counts| counts.cancelled == 0);
            if state == JobState::Finished && whole {
                self.store.came(job, Awaited::Finish, self.now)?;
            }
            self.store.never_came(job)?;
        }
        self.leaving.push(job);
        self.undecided.retain(|task, _| task.job != job);
        self.changed.0 = true;
        self.settled.0 = true;
        self.experience_gained();
        Ok(())
    }

    fn on_job_refused(&mut self, job: JobId, why: &str) -> StoreResult<()> {
        if let Some(entry) = self.jobs.get_mut(&job) {
            entry.view.reason = Some(why.to_owned());
        }
        let state = JobState::Refused;
        self.note_event(GridEvent::JobSettled { job, state });
        self.write_job(job, JobState::Refused, Some(self.now))?;
        self.leaving.push(job);
        Ok(())
    }
}
