//! The arrival of a bag with a deadline: it is tested, attempts beyond their estimates may be
//! killed for it, and it is admitted or refused. Also the renewal of a promise when tasks are tried
//! again. The calendar lives in `calendar`, evictions for bags that were admitted earlier in `overruns`.

use std::collections::BTreeSet;

use common::{AttemptId, JobId, Span, TaskId, Time};

use crate::deadline::admission::AdmissionTest;
use crate::policy::Policy;
use crate::policy::policing::{KillOccasion, Policing, Rule};
use crate::prediction::pace::ObservedWork;
use crate::protocol::effect::{Effect, EndReason, Offer, Refused};
use crate::protocol::event::{Bag, Victim};
use crate::state::host::{Host, HostAttempt};
use crate::state::job::{Job, LiveCopy};
use crate::state::promise::Promise;
use crate::state::scheduler::Scheduler;

/// The resolution of times, in seconds: by rounding, a task may end this much after its work.
const SMALLEST_S: f64 = 1e-6;

/// Returns the least number that suffices, by bisection, where `low` does not and `high` does.
pub(crate) fn fewest(
    mut low: usize,
    mut high: usize,
    mut suffices: impl FnMut(usize) -> bool,
) -> usize {
    while low + 1 < high {
        let middle = low.midpoint(high);
        if suffices(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }

    high
}

/// Returns the elapsed time of an attempt over its estimate.
fn excess(victim: &Victim) -> f64 {
    victim.elapsed.secs() / victim.estimate.secs().max(1e-6)
}

/// A live attempt of a job with a promise.
pub(crate) struct PolicedAttempt {
    pub(crate) victim: Victim,
    /// The work done so far, in seconds on a host of speed 1.
    pub(crate) elapsed_s: f64,
    /// The work that it does in a second, by the speed of its host.
    pub(crate) rate: f64,
    /// Whether it runs, as far as is known.
    pub(crate) runs: bool,
}

impl Scheduler {
    /// Returns the offer for a valid bag, and the attempts to kill for it. Some are killed even if
    /// it is refused.
    pub(crate) fn decide(
        &self,
        bag: &Bag,
        policy: &Policy,
        now: Time,
    ) -> (Result<Option<Offer>, Refused>, Vec<Victim>) {
        let mut test = match self.admission_test(bag, policy, now) {
            Ok(Some(test)) => test,
            Ok(None) => return (Ok(None), Vec::new()),
            Err(refused) => return (Err(refused), self.victims(now, KillOccasion::Always)),
        };

        let mut doomed = self.victims(now, KillOccasion::Always);
        let mut spare = self.victims(now, KillOccasion::Needed);
        let always = doomed.len();
        let without = |doomed: &[Victim]| -> BTreeSet<AttemptId> {
            doomed.iter().map(|victim| victim.attempt).collect()
        };
        let late = match test.offer(&without(&doomed)) {
            Err(late @ Refused::TooLate { .. }) => late,
            first => return (first.map(Some), doomed),
        };
        // Where it is late only since the tasks of jobs that wait take longer than was estimated, none but
        // their own attempts make room; and none for that where it would be late in any case.
        let blames =
            !spare.is_empty() && test.by_estimates(|test| test.offer(&without(&doomed)).is_ok());
        if blames {
            spare.retain(|victim| self.waits_on(victim.attempt.task.job));
        }
        doomed.extend(spare);
        let suffices =
            |test: &AdmissionTest<'_>, doomed: &[Victim]| test.offer(&without(doomed)).is_ok();
        let search = |test: &AdmissionTest<'_>| {
            let all = doomed.len() > always && suffices(test, &doomed);
            all.then(|| {
                fewest(always, doomed.len(), |number| {
                    suffices(test, &doomed[..number])
                })
            })
        };
        let enough = match blames {
            true => search(&test),
            false => test.by_estimates(search),
        };

        doomed.truncate(enough.unwrap_or(always));
        let best = enough.and_then(|_| test.offer(&without(&doomed)).ok());
        if let Some(best) = best {
            return (Ok(Some(best)), doomed);
        }
        doomed.truncate(always);
        (Err(test.with_fits(late, &without(&doomed))), doomed)
    }

    /// Returns the attempts of jobs with a promise that may be killed now on this occasion, the one
    /// farthest beyond its estimate first.
    pub(crate) fn victims(&self, now: Time, when: KillOccasion) -> Vec<Victim> {
        let mut victims = Vec::new();
        for (job, policing) in self.policed(when) {
            for copy in job.copies() {
                let Some(policed) = self.policed_attempt(job, copy, now) else {
                    continue;
                };
                let estimate_s = policed.victim.estimate.secs();
                if policed.runs
                    && policed.elapsed_s > estimate_s + SMALLEST_S * policed.rate
                    && policing.condemns(copy.attempt, now, estimate_s, policed.elapsed_s)
                {
                    victims.push(policed.victim);
                }
            }
        }

        victims.sort_by(|a, b| {
            excess(b)
                .total_cmp(&excess(a))
                .then(a.attempt.cmp(&b.attempt))
        });
        victims
    }

    /// Returns the jobs with a promise whose attempts may be killed on this occasion.
    pub(crate) fn policed(&self, when: KillOccasion) -> impl Iterator<Item = (&Job, Policing)> {
        self.jobs.table.values().filter_map(move |job| {
            let policing = self.policing_of(job);
            let may = policing.rule != Rule::Off && policing.when == when;
            may.then_some((job, policing))
        })
    }

    /// Returns the policing of a job's attempts: that of all jobs, if an admin has set it. Without a
    /// promise there is none; a broken one protects nobody.
    pub(crate) fn policing_of(&self, job: &Job) -> Policing {
        let own = || job.policy.limits.policing();
        let set = self.settings.policing;
        job.promised()
            .map_or(Policing::OFF, |_| set.unwrap_or_else(own))
    }

    /// Returns an attempt with its estimate and what it has done so far; `None` where it is killed
    /// at a reserved limit in any case.
    pub(crate) fn policed_attempt(
        &self,
        job: &Job,
        copy: &LiveCopy,
        now: Time,
    ) -> Option<PolicedAttempt> {
        let index = copy.attempt.task.index;
        let (host, load) = self.hosts.on_books(copy.host, copy.attempt)?;
        let estimate = job.estimate(index)?;
        if job.reserved(index).is_some() {
            return None;
        }

        let (elapsed_s, rate) = self.done_for(job, host, load, now);
        let victim = Victim {
            host: copy.host,
            attempt: copy.attempt,
            estimate,
            elapsed: Span::from_secs_f64(elapsed_s),
        };
        Some(PolicedAttempt {
            victim,
            elapsed_s,
            rate,
            runs: load.noted.is_none() || load.phase.executing(),
        })
    }

    /// Returns the work that an attempt of a job with a promise has done, as it is compared with its
    /// estimate, and that which it does in a second. The share of the processor that it has counts
    /// where owners and other load do.
    pub(crate) fn done_for(
        &self,
        job: &Job,
        host: &Host,
        load: &HostAttempt,
        now: Time,
    ) -> (f64, f64) {
        let reckoning = job.policy.admission.reckoning();
        let shared = reckoning.is_some_and(|reckoning| reckoning.inflated);
        let start_cost = self.settings.start_cost;
        let foresight = &self.foresight;
        foresight.work_done((host, job.computing()), load, shared, start_cost, now)
    }

    /// Whether tasks of this job wait.
    fn waits_on(&self, id: JobId) -> bool {
        let job = self.jobs.table.get(&id);
        job.is_some_and(|job| job.waiting() > 0)
    }

    /// Kills these attempts for a bag, as failures of their tasks: they are tried again if their
    /// job has retries left, but behind the bag. Their run times are compared with the estimates.
    pub(crate) fn kill(&mut self, victims: &[Victim], by: JobId, fx: &mut Vec<Effect>) {
        let mut behind = BTreeSet::new();
        for victim in victims {
            let Victim { host, attempt, .. } = *victim;
            let TaskId { job: id, index } = attempt.task;
            let why = EndReason::Policed {
                estimate: victim.estimate,
                elapsed: victim.elapsed,
                by,
            };
            self.hosts
                .stop(host, attempt, why.clone(), &self.settings, self.now, fx);

            if let Some(job) = self.jobs.table.get_mut(&id) {
                let work_s = victim.elapsed.secs();
                job.outlived(index, work_s);
                behind.extend(job.may_retry(index).then_some(id));
                if job.teaches() {
                    let work = ObservedWork {
                        work_s,
                        computing_s: job.computing() * work_s,
                    };
                    let estimates = &mut self.foresight.experience.estimates;
                    let of = &job.stack.terms.estimator;
                    estimates.observe(of, job.rank.job, job.estimate(index), work);
                }
            }

            self.fail(attempt, why, fx);
        }

        for id in behind {
            if self.waits_on(id) {
                self.renew(id, fx);
            }
        }
    }

    /// Renews the promise of a job whose tasks wait again. They must not delay bags accepted since:
    /// the job goes to the end of the queue if its deadline can be met from there, and loses its
    /// promise otherwise. Which of both is an effect, since it must outlive a restart.
    pub(crate) fn renew(&mut self, id: JobId, fx: &mut Vec<Effect>) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let Some(promise) = job.promise else { return };
        let priority = job.rules.priority;
        let arrival = self.jobs.arrivals;

        self.jobs.arrivals += 1;
        let user = job.user;
        let ordering = job.policy.ordering;
        let rank = |promised| ordering.rank(user, priority, arrival, id, promised);
        let last = rank(true);
        let other = rank(false);

        self.jobs.lines.rerank(job, last);
        let finish = self.finish_by_estimates(id);
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };

        self.jobs.slack = None;
        if let Some(finish) = finish.filter(|finish| *finish <= promise.deadline) {
            let made = self.now;
            job.promise = Some(Promise::offered(promise.deadline, made, finish));
            fx.push(Effect::PromiseRenewed {
                job: id,
                made,
                finish,
            });
        } else {
            job.promise = None;
            self.jobs.lines.rerank(job, other);
            fx.push(Effect::PromiseWithdrawn { job: id });
        }
    }
}
