//! Attempts that outlive their estimates after a bag was admitted that waits for their slots: they
//! are evicted once its promise would be broken otherwise.
//!
//! The paper (Wozniak, Jiang and Striegel) kills at arrivals only, and so do its rows. Here it is
//! done under rules without chance and with [`KillOccasion::Needed`], for jobs whose policy expects
//! an overdue attempt to go on (`calibrated`). The calendar of `admission` says who would be late.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use common::{AttemptId, JobId, Span, Time};

use crate::deadline::policing::{PolicedAttempt, fewest};
use crate::policy::admission::Reckoning;
use crate::policy::policing::{KillOccasion, Policing, Rule};
use crate::protocol::effect::Effect;
use crate::protocol::event::Victim;
use crate::state::job::{Job, LiveCopy};
use crate::state::scheduler::Scheduler;

/// An attempt that ends as estimated is not evicted while its report is on the way: for this time,
/// and this part of its estimate.
const REPORT_S: f64 = 0.1;
const REPORT_PART: f64 = 0.01;
/// The expected end of an overdue attempt moves away at most this many times as fast as time
/// passes (`EstimateSource::given`).
const RECEDES: u64 = 2;
/// The longest and shortest time until the next look while attempts are beyond their estimates; the
/// latter also as a part of what the least of them has done.
const MOST: Span = Span::from_secs(60);
const LEAST_S: f64 = 1.0;
const LEAST_PART: f64 = 0.025;
/// The least time until the look after one, or after a promise.
const SOON: Span = Span(25_000);
/// No look is due before something happens.
const NEVER: Time = Time(u64::MAX);

/// The expected completion of a waiting job with a promise, as far as it waits.
struct Expected {
    job: JobId,
    deadline: Time,
    finish: Time,
}

impl Policing {
    /// Returns the least excess of an attempt that may be evicted after a bag was admitted, as a part
    /// of its estimate; `None` where none is.
    fn excess_after_admission(self) -> Option<f64> {
        match (self.rule, self.when) {
            (Rule::Hard, KillOccasion::Needed) => Some(0.0),
            (Rule::Grace(part), KillOccasion::Needed) => Some(part),
            _ => None,
        }
    }
}

impl Scheduler {
    /// Returns the time at which attempts are to be looked at that will have outlived their
    /// estimates by then.
    pub(crate) fn next_overrun(&self) -> Option<Time> {
        self.jobs.overruns.filter(|at| *at < NEVER)
    }

    /// Notes when the attempts that these effects start may outlive their estimates, and looks at
    /// all attempts where a promise is new.
    pub(crate) fn watch_overruns(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Start { attempt, .. } | Effect::Executing { attempt } => {
                    if let Some(known) = self.jobs.overruns {
                        self.jobs.overruns = Some(known.min(self.overrun_of(*attempt)));
                    }
                }
                Effect::Promised { .. } | Effect::PromiseRenewed { .. } => {
                    self.jobs.overruns = None;
                }
                _ => {}
            }
        }

        if self.jobs.overruns.is_none() && self.calibrated_reckoning().is_some() {
            let jobs = self.policed(KillOccasion::Needed).map(|(job, _)| job);
            let live = jobs.flat_map(|job| job.copies().map(move |copy| (job, copy)));
            let first = live.map(|(job, copy)| self.overruns_at(job, copy)).min();
            self.jobs.overruns = Some(first.unwrap_or(NEVER).max(self.now + SOON));
        }
    }

    fn overrun_of(&self, attempt: AttemptId) -> Time {
        let Some(job) = self.jobs.table.get(&attempt.task.job) else {
            return NEVER;
        };
        let record = job.records.get(&attempt.task.index);
        let copy =
            record.and_then(|record| record.live.iter().find(|copy| copy.attempt == attempt));
        copy.map_or(NEVER, |copy| self.overruns_at(job, copy))
    }

    /// Returns the earliest time at which an attempt may be evicted; `NEVER` if it may not be.
    fn overruns_at(&self, job: &Job, copy: &LiveCopy) -> Time {
        let Some(excess) = self.policing_of(job).excess_after_admission() else {
            return NEVER;
        };
        let Some(policed) = self.policed_attempt(job, copy, self.now) else {
            return NEVER;
        };

        let left = Span::from_secs_f64(policed.beyond_s(excess).max(0.0));
        // What stands still is looked at again.
        let least = Span::from_secs_f64(if policed.runs { 0.0 } else { LEAST_S });
        self.now + left.max(least)
    }

    /// Returns [`Self::waiting_reckoning`] if overdue attempts are expected to go on there.
    fn calibrated_reckoning(&self) -> Option<Reckoning> {
        let reckoning = self.waiting_reckoning();
        reckoning.filter(|reckoning| reckoning.calibrated)
    }

    /// Evicts attempts beyond their estimates if a waiting job with a promise would be late
    /// otherwise, and is not then: as few as that takes, the farthest beyond first.
    pub(crate) fn evict_overrunning(&mut self, fx: &mut Vec<Effect>) {
        if self.jobs.overruns.is_none_or(|at| self.now < at) {
            return;
        }

        self.jobs.overruns = None;
        let spare = self.overrunning();
        let Some(reckoning) = self.calibrated_reckoning().filter(|_| !spare.is_empty()) else {
            return;
        };
        let all = self.expected(reckoning, &BTreeSet::new());
        let late = all.iter().filter(|row| row.finish > row.deadline);
        // Where none of them is its own, one calendar without all of them tells what each can hope for.
        let own: BTreeSet<JobId> = spare.iter().map(|one| one.attempt.task.job).collect();
        let saved = OnceCell::new();
        let all_saved = || saved.get_or_init(|| self.in_time_without(&spare, reckoning));
        // Its own are no help to a job, so one to which all of them belong has no hope.
        let hopes = |row: &&Expected| match own.contains(&row.job) {
            true => own.len() > 1,
            false => all_saved().contains(&row.job),
        };
        let late = late.filter(hopes);
        let chosen = late.map(|row| (row.job, self.chosen_for(row, reckoning, &spare)));
        if let Some((id, chosen)) = chosen.filter_map(|(id, found)| Some((id, found?))).next() {
            self.kill(&chosen, id, fx);
            self.jobs.overruns = Some(self.now);
            return;
        }

        let in_time = all.iter().filter(|row| row.finish <= row.deadline);
        let slack = in_time.map(|row| row.deadline.since(row.finish)).min();
        let slack = Span(slack.map_or(MOST, |slack| Span(slack.0 / RECEDES)).0 + 1);
        let done_s = spare.iter().map(|victim| victim.elapsed.secs());
        let least_s = done_s.fold(f64::INFINITY, f64::min) * LEAST_PART;
        let least = Span::from_secs_f64(least_s.min(LEAST_S));
        self.jobs.overruns = Some(self.now + slack.clamp(least, MOST));
    }

    /// Returns the attempts that may be evicted now, the one farthest beyond its estimate first.
    fn overrunning(&self) -> Vec<Victim> {
        let mut spare = self.victims(self.now, KillOccasion::Needed);
        spare.retain(|victim| self.overrun_of(victim.attempt) <= self.now);
        spare
    }

    /// Returns the jobs that would be in time without all of these attempts.
    fn in_time_without(&self, spare: &[Victim], reckoning: Reckoning) -> BTreeSet<JobId> {
        let without = spare.iter().map(|victim| victim.attempt).collect();
        let all = self.expected(reckoning, &without);
        let in_time = all.iter().filter(|row| row.finish <= row.deadline);
        in_time.map(|row| row.job).collect()
    }

    /// Returns the fewest of these attempts without which the job would be in time; `None` if it
    /// would be late without all of them. Its own are no help to it.
    fn chosen_for(
        &self,
        late: &Expected,
        reckoning: Reckoning,
        spare: &[Victim],
    ) -> Option<Vec<Victim>> {
        let others = spare.iter().filter(|one| one.attempt.task.job != late.job);
        let mut others: Vec<Victim> = others.copied().collect();
        let in_time = |number: usize| {
            let without = others[..number].iter().map(|victim| victim.attempt);
            let all = self.expected(reckoning, &without.collect());
            let row = all.iter().find(|row| row.job == late.job);
            row.is_some_and(|row| row.finish <= late.deadline)
        };
        if !in_time(others.len()) {
            return None;
        }

        let enough = fewest(0, others.len(), in_time);
        others.truncate(enough);
        Some(others)
    }

    /// Predicts when the waiting tasks of jobs with a promise will be done if these attempts are
    /// killed, job by job in queue order.
    fn expected(&self, reckoning: Reckoning, without: &BTreeSet<AttemptId>) -> Vec<Expected> {
        // Whoever estimated too little has nobody else evicted for it.
        let reckoner = self.reckoner_by_estimates(reckoning);
        let mut calendar = reckoner.calendar(without);
        let behind = self.tried_again(without);
        let mut all: Vec<Expected> = Vec::new();
        reckoner.stack_line(&mut calendar, &behind, |job, _, entry| {
            let same = all.last_mut().filter(|last| last.job == job.rank.job);
            match (same, job.promise) {
                (Some(last), _) => last.finish = last.finish.max(entry.finish),
                (None, Some(promise)) => all.push(Expected {
                    job: job.rank.job,
                    deadline: promise.deadline,
                    finish: entry.finish,
                }),
                (None, None) => {}
            }
            true
        });

        all
    }
}

impl PolicedAttempt {
    /// Returns the seconds until it is beyond its estimate by more than this part and the way of a
    /// report, if it runs on.
    fn beyond_s(&self, excess: f64) -> f64 {
        let estimate_s = self.victim.estimate.secs() * (1.0 + excess + REPORT_PART);
        (estimate_s - self.elapsed_s) / self.rate + REPORT_S
    }
}
