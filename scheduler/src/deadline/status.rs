//! How a promise stands: when its job should be done now, and what is in its way. What is not here:
//! how promises are made (`promises`) and what is said of them.

use common::{JobId, Time};

use crate::state::host::elapsed_s;
use crate::state::scheduler::Scheduler;

/// How the promise of a job stands that is not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// When it was made, or made anew since tasks were tried again by hand.
    pub made: Time,
    /// When every task is to be done.
    pub deadline: Time,
    /// When they should be, as was said then.
    pub promised: Time,
    /// When they should be as things are now; none where no host takes work that would do for all
    /// that waits.
    pub expected: Option<Time>,
    /// Attempts that have run for longer than their user estimated.
    pub overdue: u64,
    /// Tasks that wait again, after an attempt of theirs ended without success.
    pub again: u64,
    /// Tasks that are not settled.
    pub open: u64,
}

impl Scheduler {
    /// How the job's promise stands; none where it has none (any more).
    pub fn keeping(&self, id: JobId, now: Time) -> Option<Keeping> {
        let now = now.max(self.now);
        let job = self.jobs.table.get(&id)?;
        let promise = job.promise?;
        let live = job.records.values().flat_map(|record| record.live.iter());
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
                && elapsed_s(host, load, self.settings.start_cost, now) > estimate.secs()
        });

        Some(Keeping {
            made: promise.made,
            deadline: promise.deadline,
            promised: promise.finish,
            expected: self.promised_finish(id, now),
            overdue: overdue.count() as u64,
            again: job.requeued.len(),
            open: job.unsettled(),
        })
    }
}
