//! Records the promises made to jobs with a deadline, keeps them over restarts, and reports how
//! they stand. The scheduler decides whether to promise.

use std::collections::{BTreeMap, BTreeSet};

use common::text::plural;
use common::view::{
    CounterView, EstimatesView, HostState, LimitsView, PromiseState, PromiseStatus, PromiseView,
    QualityView,
};
use common::wire::{Refusal, RefusalCode};
use common::{AttemptId, HostId, JobId, Span, Time};
use scheduler::effect::{EndReason, Offer, Refused};
use scheduler::estimates::{Estimator, Quality};
use scheduler::event::{Bag, Tested};
use scheduler::reservation::Sequence;
use scheduler::{FIRST_RUNS, Keeping, LearnedLimits};

use super::Core;
use crate::store::{Promised, StoreResult};

impl Core {
    /// The quality of an `Estimator`'s estimates.
    pub(super) fn quality(&self, estimator: &Estimator) -> Option<QualityView> {
        self.scheduler
            .estimates()
            .source(estimator)
            .and_then(|source| quality_view(source.quality()))
    }

    /// The quality of estimates by user and program, of all users or of `user`.
    pub(super) fn estimates(&self, user: Option<&str>) -> Vec<EstimatesView> {
        let all = self.scheduler.estimates().quality();
        let wanted = all.filter(|(of, _)| user.is_none_or(|user| of.user == user));
        let view = |(of, quality): (&Estimator, Quality)| EstimatesView {
            user: of.user.clone(),
            program: of.program.clone(),
            tasks: quality.tasks,
            quality: quality_view(quality),
        };
        wanted.map(view).collect()
    }

    /// Tests the admission of a bag that is submitted now, if it has a deadline; the inner error is
    /// the counter-offer.
    ///
    /// Returns the refusal of a bag that can be promised nothing at all.
    pub(super) fn test(
        &self,
        bag: &Bag,
    ) -> Result<Result<Option<Box<Tested>>, Box<CounterView>>, Refusal> {
        if bag.terms.deadline.is_none() {
            return Ok(Ok(None));
        }

        match self.scheduler.would_admit(bag, self.now) {
            Ok(tested) => Ok(Ok(Some(Box::new(tested)))),
            Err(refused) => {
                let why = refused.to_string();
                let Refused::TooLate { earliest, fits } = refused else {
                    return Err(self.no_promise(&refused, why, bag.rules.quorum.size));
                };
                let earliest = Some((askable(earliest), earliest.since(self.now)));
                Ok(Err(Box::new(CounterView {
                    why,
                    earliest,
                    fits,
                })))
            }
        }
    }

    /// The view of the promise that an `Offer` makes to a bag with a deadline.
    pub(super) fn promise_view(&self, bag: &Bag, offer: Offer) -> Option<PromiseView> {
        Some(PromiseView {
            deadline: bag.terms.deadline?,
            finish: offer.finish,
            probability: offer.probability,
            probation: offer.probation,
            estimates: self.quality(&bag.terms.estimator),
        })
    }

    /// The refusal of a bag that no deadline can be promised now, with a hint.
    fn no_promise(&self, refused: &Refused, why: String, quorum: u32) -> Refusal {
        let (code, what, hint) = match refused {
            Refused::NoEstimate => {
                let hint =
                    "say it: --estimate 5m; it is learned once 20 tasks of the program are done";
                (RefusalCode::NotAdmitted, why, hint)
            }
            Refused::TooMany { .. } => (
                RefusalCode::Invalid,
                why,
                "let each task do more, or submit several jobs with a deadline each",
            ),
            Refused::NoHost if let Some(few) = self.too_few_owners(quorum) => (
                RefusalCode::NotAdmitted,
                few,
                "ask again once hosts of more owners take work (deskgrid host list), or an admin has said whose they are: \
                 deskgrid host owner HOST OWNER",
            ),
            Refused::NoHost => {
                let hint = "ask again once there is one: deskgrid host list";
                (
                    RefusalCode::NotAdmitted,
                    format!("{why}: {}", self.no_hosts()),
                    hint,
                )
            }
            Refused::Waits(before) => {
                let hint = format!("submit it once that has ended: deskgrid job wait {before}");
                return Refusal::new(RefusalCode::NotAdmitted, why, hint);
            }
            Refused::NoPromises(_) => (
                RefusalCode::Invalid,
                why,
                "leave --policy away, or the deadline: deskgrid policy list",
            ),
            _ => (RefusalCode::Invalid, why, "nothing was submitted"),
        };

        Refusal::new(code, what, hint)
    }

    /// Says that results of hosts of more owners must agree than there are with hosts that take work;
    /// `None` where there are enough, or no hosts.
    fn too_few_owners(&self, quorum: u32) -> Option<String> {
        let takes_work = |id: &HostId| {
            let state = self.scheduler.host(*id).map(|host| host.state);
            matches!(state, Some(HostState::Ready | HostState::Busy))
        };
        let there = self.hosts.iter().filter(|(id, _)| takes_work(id));
        let owners: BTreeSet<Result<&str, HostId>> = there
            .map(|(id, host)| host.owner.as_deref().ok_or(*id))
            .collect();
        let few = (1..quorum as usize).contains(&owners.len());

        few.then(|| {
            format!(
                "{quorum} results of different owners' hosts must agree, and all hosts that take work belong to {}",
                plural(owners.len() as u64, "owner")
            )
        })
    }

    /// The reason why no host takes work, with the number of hosts in each state.
    fn no_hosts(&self) -> String {
        let mut counts = BTreeMap::new();
        for id in self.hosts.keys() {
            let word = match self.scheduler.host(*id).map(|host| host.state) {
                Some(HostState::Draining) => "drained",
                Some(HostState::Benched) => "benched",
                Some(HostState::Suspended) => "kept by their owners",
                Some(HostState::Ready | HostState::Busy) => "without what the job needs",
                Some(HostState::Suspect | HostState::Lost) | None => "not connected",
            };
            *counts.entry(word).or_insert(0u64) += 1;
        }

        let told: Vec<String> = counts
            .into_iter()
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        if told.is_empty() {
            "there is none yet".to_owned()
        } else {
            format!("of the hosts, {}", told.join(", "))
        }
    }

    /// Stores the `Offer` that the job was promised.
    pub(super) fn on_promised(&mut self, id: JobId, offer: Offer) -> StoreResult<()> {
        let probability = offer.probability;
        tracing::info!(job = %id, finish = offer.finish.secs(), probability, "promised");

        let Some(Keeping { made, deadline, .. }) = self.scheduler.keeping(id, self.now) else {
            return Ok(());
        };
        let limits = self.limits(id);
        let promised = Promised {
            made,
            deadline,
            finish: offer.finish,
            probability,
            probation: offer.probation,
            withdrawn: false,
            limits,
        };
        self.store.keep_promise(id, &promised)?;
        if let Some(job) = self.jobs.get_mut(&id) {
            job.promised = Some(promised);
        }

        Ok(())
    }

    /// Tells the job's user that an attempt was killed to make room.
    pub(super) fn tell_policed(&mut self, attempt: AttemptId, why: &EndReason) -> StoreResult<()> {
        let id = attempt.task.job;
        let Some(job) = self.jobs.get_mut(&id) else {
            return Ok(());
        };
        job.view.reason = Some(format!("attempt {attempt} {why}"));
        self.changed.0 = true;

        match self
            .scheduler
            .job_state(id)
            .filter(|state| !state.settled())
        {
            Some(state) => self.write_job(id, state, None),
            // The reason is written when the job settles, which comes next.
            None => Ok(()),
        }
    }

    /// Stores what became of the job's promise when tasks of it waited again: it was made anew at
    /// the first time, with the second as the predicted end, or counts no more.
    pub(super) fn on_promise_renewed(
        &mut self,
        id: JobId,
        renewed: Option<(Time, Time)>,
    ) -> StoreResult<()> {
        let Some(promised) = self.jobs.get_mut(&id).and_then(|job| job.promised.as_mut()) else {
            return Ok(());
        };
        match renewed {
            Some(times) => (promised.made, promised.finish) = times,
            None => promised.withdrawn = true,
        }
        tracing::info!(job = %id, withdrawn = promised.withdrawn, "promise made anew, or withdrawn");

        self.changed.0 = true;
        let promised = promised.clone();
        self.store.keep_promise(id, &promised)
    }

    /// The present `PromiseStatus` of the job.
    pub(super) fn promise_status(&self, id: JobId) -> Option<PromiseStatus> {
        self.promise_status_by(id, self.scheduler.keeping(id, self.now))
    }

    /// The `PromiseStatus` of the job where the scheduler says this of its promise.
    pub(super) fn promise_status_by(
        &self,
        id: JobId,
        keeping: Option<Keeping>,
    ) -> Option<PromiseStatus> {
        let promised = self.jobs.get(&id)?.promised.as_ref()?;
        if let Some(withdrawn) = promised.withdrawn() {
            return Some(withdrawn);
        }
        let failed = self
            .scheduler
            .job_counts(id)
            .map_or(0, |tasks| tasks.failed);
        let (state, why) = standing(&keeping?, failed, self.now);
        Some(promised.status(state, why))
    }

    /// The limits that the job's next attempts get, where they are learned.
    pub(super) fn limits(&self, id: JobId) -> Option<LimitsView> {
        let job = self.jobs.get(&id)?;
        self.scheduler
            .learned_limits(id)
            .map(|limits| limits_view(limits, job.spec.rules.checkpoint))
    }

    /// The limits that the bag's attempts would get, where they are learned.
    pub(super) fn limits_of(&self, bag: &Bag) -> Option<LimitsView> {
        self.scheduler
            .limits_offered(bag)
            .map(|limits| limits_view(limits, bag.rules.checkpoint))
    }

    /// Whether the limit at which an attempt of this job was killed was learned, and not set by the
    /// user.
    pub(super) fn learned_limit(&self, id: JobId, limit: Span) -> bool {
        self.jobs
            .get(&id)
            .is_some_and(|job| job.spec.rules.timeout != Some(limit))
    }
}

/// The most limits of a sequence that are shown: later ones are hardly needed.
const TOLD: usize = 16;

/// Builds the view of learned limits; `keeps` says whether the job's tasks write checkpoints.
fn limits_view(learned: LearnedLimits, keeps: bool) -> LimitsView {
    let LearnedLimits { runs, zeta, .. } = learned;
    let Some(Sequence {
        cost, limits, done, ..
    }) = learned.sequence
    else {
        let why = if keeps {
            "tasks that keep their state go on where they were, and have no limits".to_owned()
        } else {
            format!(
                "{runs} of the {FIRST_RUNS} runs of this program are known that limits are learned from: until then there \
                 are none, and time is reserved by --estimate"
            )
        };

        return LimitsView {
            runs,
            killed: learned.killed,
            zeta,
            why: Some(why),
            ..LimitsView::default()
        };
    };

    let limits = limits
        .iter()
        .take(TOLD)
        .map(|limit_s| Span::from_secs_f64(*limit_s))
        .collect();
    let done = done.into_iter().take(TOLD).collect();

    LimitsView {
        runs,
        killed: learned.killed,
        zeta,
        limits,
        done,
        expected: Some(Span::from_secs_f64(cost)),
        why: None,
    }
}

/// Builds the view of an estimate quality; `None` if nothing was estimated.
pub(super) fn quality_view(quality: Quality) -> Option<QualityView> {
    Some(QualityView {
        tasks: quality.compared,
        ratio: quality.ratio?,
        qoe: quality.qoe?,
    })
}

/// The least time after an answer for which its date can still be asked for.
const TO_ASK: Span = Span::from_secs(2);

/// Rounds the earliest deadline up to a whole second, and adds `TO_ASK`: no work is done while the
/// user reads the answer, so the earliest deadline of now is too early a moment later.
fn askable(earliest: Time) -> Time {
    let second = Span::from_secs(1).0;
    Time(
        (earliest + TO_ASK)
            .0
            .div_ceil(second)
            .saturating_mul(second),
    )
}

/// The state of a promise and its reason; `failed` of its tasks have failed for good.
fn standing(keeping: &Keeping, failed: u64, now: Time) -> (PromiseState, String) {
    let deadline = keeping.deadline;
    let mut causes = Vec::new();
    if failed > 0 {
        causes.push(format!(
            "{} failed for good",
            counted(failed, "task has", "tasks have")
        ));
    }

    if keeping.overdue > 0 {
        causes.push(format!(
            "{} for longer than was estimated",
            counted(keeping.overdue, "attempt runs", "attempts run")
        ));
    }

    if keeping.again > 0 {
        causes.push(format!(
            "{} again after an attempt that did not succeed",
            counted(keeping.again, "task waits", "tasks wait")
        ));
    }

    let because = if causes.is_empty() {
        String::new()
    } else {
        format!(": {}", causes.join("; "))
    };

    match keeping.expected {
        _ if now > deadline => {
            let left = counted(keeping.open, "task is", "tasks are");
            (
                PromiseState::Broken,
                format!(
                    "its deadline is over since {}, and {left} not done{because}",
                    now.since(deadline)
                ),
            )
        }
        _ if failed > 0 => (
            PromiseState::Broken,
            format!("not all of it will be done{because}"),
        ),
        None => (
            PromiseState::AtRisk,
            format!("no host takes work now that would do for all that waits{because}"),
        ),
        Some(end) if end > deadline => (
            PromiseState::AtRisk,
            format!(
                "it should be done {} after its deadline{because}",
                end.since(deadline)
            ),
        ),
        Some(end) => (
            PromiseState::OnTime,
            format!(
                "it should be done {} before its deadline{because}",
                deadline.since(end)
            ),
        ),
    }
}

fn counted(n: u64, one: &str, more: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{n} {more}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_stands_as_the_expected_end_says() {
        let at = |secs: u64| Time(Span::from_secs(secs).0);
        let keeping = |expected: Option<u64>, overdue| Keeping {
            made: at(0),
            deadline: at(100),
            promised: at(60),
            expected: expected.map(at),
            overdue,
            again: 0,
            open: 2,
        };
        let stands = |expected, overdue, now| standing(&keeping(expected, overdue), 0, at(now));
        assert_eq!(stands(Some(90), 0, 50).0, PromiseState::OnTime);

        let (state, why) = stands(Some(130), 1, 50);
        assert!(
            state == PromiseState::AtRisk
                && why.contains("30.0s after")
                && why.contains("1 attempt runs for longer"),
            "{why}"
        );

        assert_eq!(stands(None, 0, 50).0, PromiseState::AtRisk);
        let (state, why) = stands(Some(130), 0, 101);
        assert!(
            state == PromiseState::Broken && why.contains("2 tasks are not done"),
            "{why}"
        );

        let (state, why) = standing(&keeping(Some(90), 0), 1, at(50));
        assert!(
            state == PromiseState::Broken && why.contains("1 task has failed for good"),
            "{why}"
        );
    }

    #[test]
    fn a_date_that_is_offered_is_a_whole_second_with_time_left_to_ask() {
        for (earliest, date) in [
            (10_000_000, 12_000_000),
            (10_000_001, 13_000_000),
            (10_999_999, 13_000_000),
        ] {
            assert_eq!(askable(Time(earliest)), Time(date));
        }
    }
}
