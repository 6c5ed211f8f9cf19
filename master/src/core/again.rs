//! Tasks that are taken up again after they were settled: tried again, computed again, or requested
//! after their outputs were evicted. A settled job comes back into memory for them, where its user
//! has room for it.

use common::content::BlobHash;
use common::view::{JobState, TaskState};
use common::wire::Refusal;
use common::{IdSet, JobId, JobSpec};
use scheduler::Event;

use super::Core;
use crate::store::{Awaited, StoreResult};

impl Core {
    /// Makes failed and cancelled tasks of a job wait again, and returns their number; or refuses that
    /// where the job is settled and its user has as many others as the limits allow.
    pub(super) fn retry(
        &mut self,
        job: JobId,
        tasks: &IdSet,
        only_failed: bool,
    ) -> StoreResult<Result<u64, Refusal>> {
        let again = |spec: &JobSpec, mut failed: IdSet, cancelled: &IdSet| {
            if !only_failed {
                failed.union_with(cancelled);
            }
            // A single rank is of no use without the others.
            match spec.work.ranks() {
                None => failed.intersection(tasks),
                Some(_) => IdSet::new(),
            }
        };

        let again = if let Some(live) = self.jobs.get(&job) {
            let [failed, cancelled] = [TaskState::Failed, TaskState::Cancelled]
                .map(|state| self.scheduler.tasks_in(job, state).unwrap_or_default());
            again(&live.spec, failed, &cancelled)
        } else if let Some(refusal) = self.no_room_again(job)? {
            return Ok(Err(refusal));
        } else if let Some(mut restored) = self.store.restore_job(job)? {
            let progress = &restored.progress;
            let again = again(&restored.spec, progress.failed.clone(), &progress.cancelled);
            if !again.is_empty() {
                if let Some(refusal) = self.order_again(&mut restored)? {
                    return Ok(Err(refusal));
                }
                self.bring_back(restored)?;
            }
            again
        } else {
            IdSet::new()
        };
        if again.is_empty() {
            return Ok(Ok(0));
        }

        let count = again.len();
        self.step(Event::JobRetried { job, tasks: again })?;
        self.withdraw_end(job)?;

        let state = self.scheduler.job_state(job).unwrap_or(JobState::Waiting);
        self.write_job(job, state, None)?;
        Ok(Ok(count))
    }

    /// Withdraws what was foretold of the job's end, if it has no outcome yet: that was not for tasks which
    /// are done again.
    fn withdraw_end(&mut self, job: JobId) -> StoreResult<()> {
        match self.jobs.get(&job) {
            Some(live) if live.foretold => self.store.withdraw(job, Awaited::Finish),
            _ => Ok(()),
        }
    }

    /// Runs finished tasks again because content of their results (`gone`) is damaged or missing.
    /// Returns the number of tasks, or refuses that as [`Core::retry`] does.
    pub(super) fn recompute(
        &mut self,
        job: JobId,
        tasks: &IdSet,
        gone: &[BlobHash],
    ) -> StoreResult<Result<u64, Refusal>> {
        if tasks.is_empty() {
            return Ok(Ok(0));
        }
        if let Some(refusal) = self.no_room_again(job)? {
            return Ok(Err(refusal));
        }

        let tasks = self.store.lose_results(job, tasks, gone, self.now)?;
        if tasks.is_empty() {
            return Ok(Ok(0));
        }

        let removed = self.store.removed(job, &tasks)?;
        self.run_removed_again(job, removed)?;
        self.store.results_were_damaged(job, &tasks)?;
        self.changed.0 = true;
        Ok(Ok(tasks.len()))
    }

    /// The refusal of tasks of a settled job that are to run again, if its user has as many unsettled
    /// jobs, or bytes of specs, as the limits allow.
    pub(super) fn no_room_again(&self, job: JobId) -> StoreResult<Option<Refusal>> {
        if self.scheduler.job_state(job).is_some() {
            return Ok(None);
        }
        let weight = self.store.weight(job)?;
        Ok(weight.and_then(|(user, bytes)| self.beyond_limits(&user, bytes)))
    }

    /// Runs tasks of a job again whose outputs were evicted, each with its highest attempt number.
    pub(super) fn run_removed_again(
        &mut self,
        job: JobId,
        removed: Vec<(u32, u32)>,
    ) -> StoreResult<()> {
        if removed.is_empty() {
            return Ok(());
        }

        tracing::info!(%job, tasks = removed.len(), "requested after its output was removed: runs again");
        for (task, _) in &removed {
            self.store.result_is_gone(job, *task)?;
        }

        if self.scheduler.job_state(job).is_some() {
            self.step(Event::ResultsGone {
                job,
                tasks: removed,
            })?;
            self.withdraw_end(job)?;
        } else {
            // Its earlier failures no longer count, as in a job that goes on.
            let tasks: IdSet = removed.iter().map(|(task, _)| *task).collect();
            self.store.reopen(job, &tasks)?;
            if let Some(restored) = self.store.restore_job(job)? {
                self.note_tasks(job, &tasks, None);
                self.bring_back(restored)?;
            }
        }

        let state = self.scheduler.job_state(job).unwrap_or(JobState::Waiting);
        self.write_job(job, state, None)
    }
}
