//! The order between jobs, and jobs that stay open: tasks that wait for other jobs are let go or
//! cancelled when these end, and open jobs take more tasks until they are closed.

use common::{IdSet, JobId};

use crate::handlers::attempts::settle_job;
use crate::protocol::effect::{CancelReason, Effect};
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

impl Scheduler {
    /// Lets jobs go, or cancels them, that waited for those which the effects from `from` on settle;
    /// these may be such jobs in turn.
    pub(crate) fn on_jobs_ended(&mut self, from: usize, fx: &mut Vec<Effect>) {
        let mut seen = from;
        while !self.jobs.followers.is_empty()
            && let Some(effect) = fx.get(seen)
        {
            seen += 1;
            if let Effect::JobSettled { job, .. } = effect {
                self.on_job_ended(*job, fx);
            }
        }
    }

    fn on_job_ended(&mut self, ended: JobId, fx: &mut Vec<Effect>) {
        let Some(state) = self.jobs.table.get(&ended).map(Job::state) else {
            return;
        };

        for id in self.jobs.followers.remove(&ended).unwrap_or_default() {
            let Some(job) = self.jobs.table.get_mut(&id) else {
                continue;
            };
            let how = job.after.jobs.remove(&ended);
            let held = job.is_held();
            if how.is_some_and(|how| !how.is_met_by(state)) {
                self.miss(id, ended, fx);
            } else if !held {
                self.let_go(id);
            }
        }
    }

    /// Cancels a job that was to start once `before` had succeeded, which it has not.
    pub(crate) fn miss(&mut self, id: JobId, before: JobId, fx: &mut Vec<Effect>) {
        self.cancel(id, None, CancelReason::After(before), fx);
    }

    fn let_go(&mut self, id: JobId) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let tasks = job.let_go();
        if tasks.is_empty() {
            return;
        }

        job.plan.entered = self.now;
        job.plan.declined = None;
        let is_gang = job.gang.is_some();
        self.queue_up(id, &tasks);
        if is_gang {
            self.jobs.gangs.insert(id);
        }
    }

    /// Queues tasks of a job that wait anew.
    pub(crate) fn queue_up(&mut self, id: JobId, tasks: &IdSet) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        job.line_up_again(tasks, self.jobs.arrivals);
        self.jobs.arrivals += u64::from(job.speculation.is_some());
        self.jobs.lines.sync(job);
        self.meet_again(id);
    }

    /// Adds those of these tasks to an open job that it does not have. They wait for other jobs
    /// where it does.
    pub(crate) fn on_tasks_added(&mut self, id: JobId, tasks: &IdSet) {
        let takes = |job: &&mut Job| job.open && job.gang.is_none() && job.promise.is_none();
        let Some(job) = self.jobs.table.get_mut(&id).filter(takes) else {
            return;
        };
        let new = job.add(tasks);
        if !job.is_held() && !new.is_empty() {
            job.plan.declined = None;
            self.queue_up(id, &new);
        }
    }

    /// Closes an open job. It is settled now, if its tasks are.
    pub(crate) fn on_job_closed(&mut self, id: JobId, fx: &mut Vec<Effect>) {
        let Some(job) = self.jobs.table.get_mut(&id).filter(|job| job.open) else {
            return;
        };
        job.open = false;
        self.jobs.lines.sync(job);
        settle_job(id, job, fx);
    }
}

impl Job {
    /// Adds those of these tasks that it does not have, and returns them.
    fn add(&mut self, tasks: &IdSet) -> IdSet {
        let mut new = tasks.clone();
        new.subtract(&self.fresh);
        new.subtract(&self.failed);
        new.subtract(&self.cancelled);
        new.subtract(&self.after.tasks);
        let has = |index: &u32| self.finished.contains(*index) || self.records.get(index).is_some();
        let there: IdSet = new.iter().filter(has).collect();
        new.subtract(&there);

        self.grow(&new);
        if let Some(speculation) = &mut self.speculation {
            speculation.grow(&new);
        }
        if self.is_held() {
            self.after.tasks.union_with(&new);
        } else {
            self.fresh.union_with(&new);
            self.stack.rewind();
        }
        new
    }
}
