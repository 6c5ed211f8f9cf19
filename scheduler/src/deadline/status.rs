//! The state of a promise: the predicted completion of its job, and the obstacles to it. Promises
//! are made in `admission`.

use std::collections::BTreeMap;

use common::{JobId, Time};

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
        let counts = |id: &JobId| {
            self.jobs
                .table
                .get(id)
                .is_some_and(|job| job.promise.is_some())
        };
        let counting: Vec<JobId> = ids.iter().copied().filter(counts).collect();
        let finishes = self.promised_finishes(&counting, now);

        let jobs = ids.iter().filter_map(|id| self.jobs.table.get(id));
        let states = jobs.filter_map(|job| {
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
            let host = self.hosts.table.get(&copy.host);
            let load = host.and_then(|host| Some((host, host.books.get(&copy.attempt)?)));
            let (Some((host, load)), Some(estimate)) =
                (load, job.estimate(copy.attempt.task.index))
            else {
                return false;
            };
            job.reserved(copy.attempt.task.index).is_none()
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
}
