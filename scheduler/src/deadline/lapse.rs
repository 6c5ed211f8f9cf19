//! Promises whose deadlines are over: a job that was not done by its deadline loses its place before
//! all others, and is an ordinary job from then on. That its promise was broken is remembered.
//!
//! In the paper (Wozniak, Jiang and Striegel) there are only bags with deadlines, and one that is
//! late is worked off before those behind it; so its rows, which take estimates as they are given,
//! do the same. Here others wait beside them: a bag whose tasks take a thousand times their estimates
//! would keep every slot that becomes free for as long as it takes.

use common::{JobId, Time};

use crate::state::job::Job;
use crate::state::promise::Promise;
use crate::state::scheduler::Scheduler;

impl Job {
    /// Returns its promise, whether it is in force or was broken since its deadline is over.
    pub(crate) fn promised(&self) -> Option<Promise> {
        self.promise.or(self.broken)
    }

    /// Forgets what was foretold of its end, the end that a broken promise foretold included: that was
    /// not for tasks that are done again. A promise in force is made anew.
    pub(crate) fn forget_forecasts(&mut self) {
        self.plan.forget_predictions();
        if let Some(promise) = &mut self.broken {
            promise.finish = None;
        }
    }
}

impl Scheduler {
    /// Lets the promises of jobs go whose deadlines are over.
    pub(crate) fn let_lapse(&mut self) {
        while let Some((deadline, id)) = self.jobs.deadlines.first().copied()
            && deadline < self.now
        {
            self.jobs.deadlines.pop_first();
            self.lapse(id, deadline);
        }
    }

    /// Gives a job whose deadline is over the rank that it would have without a promise.
    fn lapse(&mut self, id: JobId, deadline: Time) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let Some(promise) = job.promise.filter(|promise| promise.deadline == deadline) else {
            return;
        };
        let reckoning = job.policy.admission.reckoning();
        if job.settled() || !reckoning.is_some_and(|reckoning| reckoning.calibrated) {
            return;
        }

        job.promise = None;
        job.broken = Some(promise);
        let arrival = job.rank.arrival();
        let ordering = job.policy.ordering;
        let rank = ordering.rank(job.user, job.rules.priority, arrival, id, false);
        self.jobs.lines.rerank(job, rank);
        self.jobs.slack = None;
    }
}
