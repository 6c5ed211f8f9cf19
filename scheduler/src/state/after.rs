//! The books of jobs that wait for others: the tasks that may not start yet, and the jobs that have
//! to end before. Decisions live in `handlers::after`.

use std::collections::BTreeMap;

use common::{After, EndCondition, IdSet, JobId};

use crate::protocol::effect::Refused;
use crate::protocol::event::Bag;
use crate::state::job::{Job, Jobs, TaskRecord};
use crate::state::scheduler::Scheduler;

/// The wait of a job for others.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// The tasks that may not start yet; none unless there are `jobs`.
    pub(crate) tasks: IdSet,
    /// The jobs that have not ended, each with the way in which it has to.
    pub(crate) jobs: BTreeMap<JobId, EndCondition>,
}

/// A job that another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predecessor {
    /// The job that goes first.
    pub job: JobId,
    /// The number of its tasks that are not settled.
    pub left: u64,
    /// Whether tasks can still be added to it.
    pub open: bool,
}

impl Job {
    /// Whether it waits for other jobs: none of its tasks may start.
    pub(crate) fn is_held(&self) -> bool {
        !self.after.jobs.is_empty()
    }

    /// Holds back its tasks that have had no attempt until these jobs have ended.
    pub(crate) fn wait_for(&mut self, jobs: BTreeMap<JobId, EndCondition>) {
        self.after.jobs = jobs;
        if self.is_held() {
            self.after.tasks.union_with(&self.fresh);
            self.fresh = IdSet::new();
        }
    }

    /// Lets the tasks wait for hosts that waited for other jobs, and returns them.
    pub(crate) fn let_go(&mut self) -> IdSet {
        let tasks = std::mem::take(&mut self.after.tasks);
        self.requeue_or_renew(&tasks);
        tasks
    }

    /// Lets tasks wait that were settled or held. One that had attempts goes on with their numbers.
    pub(crate) fn requeue_or_renew(&mut self, tasks: &IdSet) {
        let mut untried = tasks.clone();
        let tried: Vec<u32> = self.numbers.keys().copied().collect();
        for index in tried {
            if untried.remove(index)
                && let Some(last) = self.numbers.remove(&index)
            {
                self.records.insert(index, TaskRecord::reborn(last));
                self.wait_again(index);
            }
        }
        self.fresh.union_with(&untried);
        self.stack.rewind();
    }
}

impl Jobs {
    /// Whether a bag's deadline, if it has one, can be promised as far as other jobs go.
    ///
    /// # Errors
    /// If the bag waits for a job whose end is uncertain.
    pub(crate) fn can_promise(&self, id: JobId, bag: &Bag) -> Result<(), Refused> {
        let (waits, _) = self.unended(id, &bag.after, false);
        match waits.keys().next().filter(|_| bag.terms.deadline.is_some()) {
            Some(before) => Err(Refused::Waits(*before)),
            None => Ok(()),
        }
    }

    /// Returns those of these jobs that have not ended, and the first of them that has ended in
    /// another way than it had to. One that is unknown has ended, unless it is `awaited`.
    pub(crate) fn unended(
        &self,
        id: JobId,
        after: &[After],
        awaited: bool,
    ) -> (BTreeMap<JobId, EndCondition>, Option<JobId>) {
        let mut waits = BTreeMap::new();
        let mut missed = None;

        for After { job, how } in after.iter().filter(|after| after.job != id) {
            match self.table.get(job) {
                Some(before) if before.settled() => {
                    let missing = !how.is_met_by(before.state());
                    missed = missed.or(missing.then_some(*job));
                }
                None if !awaited => {}
                _ => drop(waits.insert(*job, *how)),
            }
        }
        (waits, missed)
    }

    /// Registers a job that waits for others with them.
    pub(crate) fn await_others(&mut self, id: JobId, job: &Job) {
        for before in job.after.jobs.keys() {
            self.followers.entry(*before).or_default().insert(id);
        }
    }

    /// Removes a job that is forgotten from those that wait for others.
    pub(crate) fn stop_waiting(&mut self, id: JobId, job: &Job) {
        for before in job.after.jobs.keys() {
            if let Some(followers) = self.followers.get_mut(before) {
                followers.remove(&id);
                if followers.is_empty() {
                    self.followers.remove(before);
                }
            }
        }
    }
}

impl Scheduler {
    /// Returns the jobs that have to end before this one starts.
    pub fn predecessors(&self, id: JobId) -> impl Iterator<Item = Predecessor> + '_ {
        let waits = self.jobs.table.get(&id).map(|job| &job.after.jobs);
        waits.into_iter().flat_map(BTreeMap::keys).map(|id| {
            let job = self.jobs.table.get(id);
            Predecessor {
                job: *id,
                left: job.map_or(0, Job::unsettled),
                open: job.is_some_and(|job| job.open),
            }
        })
    }
}
