//! The arrival of a bag with a deadline: it is tested, attempts beyond their estimates may be
//! killed for it, and it is admitted or refused. Also the renewal of a promise when tasks are tried
//! again. The calendar lives in `calendar`.

use std::collections::BTreeSet;

use common::{AttemptId, JobId, Span, Time};

use crate::policy::Policy;
use crate::policy::policing::{KillOccasion, Rule};
use crate::protocol::effect::{self, Effect, EndReason, Offer, Refused};
use crate::protocol::event::{Bag, Victim};
use crate::state::host::elapsed_s;
use crate::state::promise::Promise;
use crate::state::scheduler::Scheduler;

/// The resolution of times, in seconds: by rounding, a task may end this much after its work.
const SMALLEST_S: f64 = 1e-6;

/// Returns the elapsed time of an attempt over its estimate.
fn excess(victim: &Victim) -> f64 {
    victim.elapsed.secs() / victim.estimate.secs().max(1e-6)
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
        if bag.terms.deadline.is_none() {
            return (Ok(None), Vec::new());
        }

        let mut doomed = self.victims(now, KillOccasion::Always);
        let spare = self.victims(now, KillOccasion::Needed);
        let always = doomed.len();
        let told = |doomed: &[Victim]| {
            let without: BTreeSet<AttemptId> = doomed.iter().map(|victim| victim.attempt).collect();
            self.consider(bag, policy, now, &without)
        };
        let first = told(&doomed);
        if spare.is_empty() || !matches!(first, Err(Refused::TooLate { .. })) {
            return (first, doomed);
        }

        doomed.extend(spare);
        let mut best = told(&doomed);
        if best.is_err() {
            doomed.truncate(always);
            return (first, doomed);
        }

        // The fewest of them that suffice, by bisection.
        let mut low = always;
        let mut high = doomed.len();
        while low + 1 < high {
            let middle = low.midpoint(high);
            match told(&doomed[..middle]) {
                Ok(offer) => (high, best) = (middle, Ok(offer)),
                Err(_) => low = middle,
            }
        }

        doomed.truncate(high);
        (best, doomed)
    }

    /// Returns the attempts of jobs with a promise that may be killed now on this occasion, the one
    /// farthest beyond its estimate first.
    fn victims(&self, now: Time, when: KillOccasion) -> Vec<Victim> {
        let mut victims = Vec::new();
        for job in self.jobs.table.values().filter(|job| job.promise.is_some()) {
            let policing = self
                .settings
                .policing
                .unwrap_or_else(|| job.policy.limits.policing());
            if policing.rule == Rule::Off || policing.when != when {
                continue;
            }

            for copy in job.records.values().flat_map(|record| record.live.iter()) {
                let load = self
                    .hosts
                    .table
                    .get(&copy.host)
                    .and_then(|host| Some((host, host.books.get(&copy.attempt)?)));
                let index = copy.attempt.task.index;

                // An attempt with a reserved limit is killed there in any case.
                let estimate = job
                    .estimate(index)
                    .filter(|_| job.reserved(index).is_none());
                let (Some((host, load)), Some(estimate)) = (load, estimate) else {
                    continue;
                };
                let elapsed = elapsed_s(host, load, self.settings.start_cost, now);
                let rounding = SMALLEST_S * host.speed.factor();
                let runs = load.noted.is_none() || load.phase.executing();
                if !runs || elapsed <= estimate.secs() + rounding {
                    continue;
                }

                if policing.condemns(copy.attempt, now, estimate.secs(), elapsed) {
                    let host = copy.host;
                    let attempt = copy.attempt;
                    let elapsed = Span::from_secs_f64(elapsed);
                    victims.push(Victim {
                        host,
                        attempt,
                        estimate,
                        elapsed,
                    });
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

    /// Kills these attempts for a bag, as failures of their tasks: they are tried again if their
    /// job has retries left, but behind the bag. Their run times are compared with the estimates.
    pub(crate) fn kill(&mut self, victims: &[Victim], by: JobId, fx: &mut Vec<Effect>) {
        let mut behind = BTreeSet::new();
        for Victim {
            host,
            attempt,
            estimate,
            elapsed,
        } in victims.iter().copied()
        {
            let id = attempt.task.job;
            let index = attempt.task.index;
            self.hosts
                .stop(host, attempt, self.now, self.settings.stops_when_reported);

            let why = EndReason::Policed {
                estimate,
                elapsed,
                by,
            };
            effect::stop(host, attempt, why.clone(), fx);

            if let Some(job) = self.jobs.table.get_mut(&id) {
                job.outlived(index, elapsed.secs());
                behind.extend(job.may_retry(index).then_some(id));
                if job.teaches() {
                    let estimates = &mut self.foresight.experience.estimates;
                    let of = &job.stack.terms.estimator;
                    estimates.observe(of, job.estimate(index), elapsed);
                }
            }

            self.fail(attempt, why, fx);
        }

        for id in behind {
            if self
                .jobs
                .table
                .get(&id)
                .is_some_and(|job| job.waiting() > 0)
            {
                self.renew(id);
            }
        }
    }

    /// Renews the promise of a job whose tasks wait again. They must not delay bags accepted since:
    /// the job goes to the end of the queue if its deadline can be met from there, and loses its
    /// promise otherwise.
    pub(crate) fn renew(&mut self, id: JobId) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let Some(promise) = job.promise else { return };
        let priority = job.rules.priority;
        let arrival = self.jobs.arrivals;

        self.jobs.arrivals += 1;
        let user = self
            .jobs
            .lines
            .shares
            .number(&job.stack.terms.estimator.user);
        let rank = |promised| {
            job.policy
                .ordering
                .rank(user, priority, arrival, id, promised)
        };
        let last = rank(true);
        let other = rank(false);

        self.jobs.lines.rerank(job, last);
        let finish = self.promised_finish(id, self.now);
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };

        if finish.is_some_and(|finish| finish <= promise.deadline) {
            job.promise = finish.map(|finish| Promise {
                made: self.now,
                finish,
                ..promise
            });
            self.jobs.slack = None;
        } else {
            job.promise = None;
            self.jobs.lines.rerank(job, other);
        }
    }
}
