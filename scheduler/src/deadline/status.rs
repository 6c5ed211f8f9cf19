//! The predicted completions of jobs with a promise, and the state of promises. Promises
//! are made in `admission`.

use std::collections::{BTreeMap, BTreeSet};

use common::{JobId, Time};

use crate::deadline::admission::Reckoner;
use crate::policy::admission::Reckoning;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// The state of the `Promise` of an unsettled job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// The time at which it was made, or renewed since tasks were tried again by hand.
    pub made: Time,
    /// The deadline for every task.
    pub deadline: Time,
    /// The completion predicted when it was made; the deadline where that is not known.
    pub promised: Time,
    /// The completion predicted now; `None` where no host that takes work would do for all waiting
    /// tasks, or the deadline is over and the job an ordinary one.
    pub expected: Option<Time>,
    /// The number of attempts that have run for longer than their user's estimate.
    pub overdue: u64,
    /// The number of tasks that wait again after an attempt ended without success.
    pub again: u64,
    /// The number of unsettled tasks.
    pub open: u64,
}

impl Scheduler {
    /// Returns the state of the job's promise; `None` where it has none (any more).
    pub fn keeping(&self, id: JobId, now: Time) -> Option<Keeping> {
        self.keeping_all(&[id], now).remove(&id)
    }

    /// Returns the same for each of these jobs that has a promise. What waits for a promise is put
    /// on one `Calendar` for all of them.
    pub fn keeping_all(&self, ids: &[JobId], now: Time) -> BTreeMap<JobId, Keeping> {
        let now = now.max(self.now);
        let jobs = || ids.iter().filter_map(|id| self.jobs.table.get(id));
        let promised = jobs().filter(|job| job.promise.is_some());
        let finishes = self.promised_finishes(promised, now);

        let states = jobs().filter_map(|job| {
            let id = job.rank.job;
            let expected = finishes.get(&id).copied();
            Some((id, self.keeping_of(job, expected, now)?))
        });
        states.collect()
    }

    fn keeping_of(&self, job: &Job, expected: Option<Time>, now: Time) -> Option<Keeping> {
        let promise = job.promised()?;
        let live = job.copies();
        let overdue = live.filter(|copy| {
            let index = copy.attempt.task.index;
            let load = self.hosts.on_books(copy.host, copy.attempt);
            let Some(((host, load), estimate)) = load.zip(job.estimate(index)) else {
                return false;
            };
            job.reserved(index).is_none()
                && load.phase.executing()
                && self.done_for(job, host, load, now).0 > estimate.secs()
        });

        Some(Keeping {
            made: promise.made,
            deadline: promise.deadline,
            promised: promise.finish.unwrap_or(promise.deadline),
            expected,
            overdue: overdue.count() as u64,
            again: job.requeued.len(),
            open: job.unsettled(),
        })
    }

    /// Predicts the same as if jobs' own tasks corrected no estimates: a promise that was made by estimates
    /// is renewed by estimates.
    pub(crate) fn finish_by_estimates(&self, id: JobId) -> Option<Time> {
        let job = self.jobs.table.get(&id)?;
        let reckoner = self.reckoner_by_estimates(job.policy.admission.reckoning()?);
        reckoner.promised_finishes(&[job]).remove(&id)
    }

    /// Predicts the completions of the last tasks of these jobs with a promise: of each, its running
    /// tasks end with the first of their attempts, and its waiting ones behind those before them.
    /// The line is put on the calendar once for all of them. Left out are jobs for whose tasks no
    /// host that takes work would do.
    pub(crate) fn promised_finishes<'a>(
        &self,
        jobs: impl IntoIterator<Item = &'a Job>,
        now: Time,
    ) -> BTreeMap<JobId, Time> {
        let mut alike: Vec<(Reckoning, Vec<&Job>)> = Vec::new();
        for job in jobs {
            let Some(reckoning) = job.policy.admission.reckoning() else {
                continue;
            };
            match alike.iter_mut().find(|(of, _)| *of == reckoning) {
                Some((_, jobs)) => jobs.push(job),
                None => alike.push((reckoning, vec![job])),
            }
        }

        let finishes = |(reckoning, jobs): (Reckoning, Vec<&Job>)| {
            self.reckoner(reckoning, now).promised_finishes(&jobs)
        };
        alike.into_iter().flat_map(finishes).collect()
    }

    /// Predicts the start of the first waiting task of each of these jobs with a promise; jobs for
    /// which no host would do are left out.
    pub(crate) fn promised_first(&self, ids: &BTreeSet<JobId>, now: Time) -> BTreeMap<JobId, Time> {
        let mut jobs = ids.iter().filter_map(|id| self.jobs.table.get(id));
        let Some(reckoning) = jobs.find_map(|job| job.policy.admission.reckoning()) else {
            return BTreeMap::new();
        };
        let reckoner = self.reckoner(reckoning, now);
        let mut calendar = reckoner.calendar(&BTreeSet::new());
        let mut first = BTreeMap::new();
        reckoner.stack_line(&mut calendar, &BTreeSet::new(), |job, _, entry| {
            if ids.contains(&job.rank.job) {
                first.entry(job.rank.job).or_insert(entry.start);
            }
            first.len() < ids.len()
        });

        first
    }
}

impl Reckoner<'_> {
    /// Predicts the completions of these jobs, of which each has a promise.
    fn promised_finishes(&self, jobs: &[&Job]) -> BTreeMap<JobId, Time> {
        let ends = |job: &&Job| {
            let last = self.running_end(job).unwrap_or(self.now);
            (job.rank.job, (last, job.waiting()))
        };
        let mut ends: BTreeMap<JobId, (Time, u64)> = jobs.iter().map(ends).collect();
        let behind = jobs.iter().map(|job| job.rank).max();

        let mut calendar = self.calendar(&BTreeSet::new());
        self.stack_line(&mut calendar, &BTreeSet::new(), |job, task, entry| {
            if let Some((last, waiting)) = ends.get_mut(&job.rank.job) {
                *last = entry.finish.max(*last);
                *waiting = waiting.saturating_sub(u64::from(task.is_some()));
            }
            Some(job.rank) <= behind
        });

        let placed = |(id, (last, waiting))| (waiting == 0).then_some((id, last));
        ends.into_iter().filter_map(placed).collect()
    }

    /// Returns the expected end of the last one of the job's running tasks.
    fn running_end(&self, job: &Job) -> Option<Time> {
        let mut ends: BTreeMap<u32, Time> = BTreeMap::new();
        for copy in job.copies() {
            let load = self.scheduler.hosts.on_books(copy.host, copy.attempt);
            let Some((host, load)) = load else { continue };
            let index = copy.attempt.task.index;

            let end = self.end(host, copy.attempt, load) + self.delay(host, load, job, index);
            let first = ends.entry(index).or_insert(end);
            *first = end.min(*first);
        }
        ends.into_values().max()
    }
}
