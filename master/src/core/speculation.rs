//! Requests tasks of disclosed jobs, and drops the tasks that nobody requested. The scheduler
//! decides the order of tasks.

use common::job::SPECULATIVE_POLICY;
use common::wire::{Refusal, RefusalCode};
use common::{IdSet, JobId, JobSpec, SubmitOptions};
use scheduler::Event;

use super::Core;
use crate::store::StoreResult;

/// Returns the refusal of a job that cannot be disclosed, if so.
pub(super) fn undisclosable(spec: &JobSpec, asked: &SubmitOptions) -> Option<Refusal> {
    if !asked.after.is_empty() || asked.open {
        let what = "disclosed tasks wait for their requests: their job can neither wait for others nor stay open";
        let hint = "submit it without --disclose, or without --after and --open";
        return Some(Refusal::new(RefusalCode::Invalid, what, hint));
    }
    if spec.rules.quorum.compares() {
        let what = "results of disclosed tasks cannot be compared";
        let hint = "submit it without the quorum, or without --disclose";
        return Some(Refusal::new(RefusalCode::Invalid, what, hint));
    }
    let what = match scheduler::policy::policy(&spec.rules.policy) {
        Some(policy) if !policy.tells_disclosed() => {
            format!(
                "the policy {} does not tell disclosed from needed tasks",
                policy.name
            )
        }
        _ => return None,
    };

    let hint = format!("submit it with --policy {SPECULATIVE_POLICY}, or without --disclose");
    Some(Refusal::new(RefusalCode::Invalid, what, hint))
}

/// The outcome of a request for tasks.
#[derive(Debug, Default)]
pub struct RequestOutcome {
    /// The number of tasks that this request newly requested.
    pub new: u64,
    /// The tasks that were not requested because they are cancelled.
    pub cancelled: IdSet,
}

impl Core {
    /// Marks disclosed tasks of a job as requested. Cancelled tasks are not requested: they would
    /// only be billed. A job that was never disclosed changes nothing. Refuses it where outputs were
    /// evicted of a settled job whose user has as many others as the limits allow.
    pub(super) fn request(
        &mut self,
        job: JobId,
        tasks: &IdSet,
    ) -> StoreResult<Result<RequestOutcome, Refusal>> {
        let Some(disclosure) = self.store.disclosure(job)? else {
            return Ok(Ok(RequestOutcome::default()));
        };
        let cancelled = self.store.cancelled(job)?.intersection(tasks);
        let mut new = tasks.clone();
        new.subtract(&disclosure.all());
        new.subtract(&cancelled);
        if new.is_empty() {
            return Ok(Ok(RequestOutcome { new: 0, cancelled }));
        }

        let mut removed = Vec::new();
        let is_settled = self.scheduler.job_state(job).is_none();
        if is_settled {
            removed = self.store.removed(job, &new)?;
            if !removed.is_empty()
                && let Some(refusal) = self.no_room_again(job)?
            {
                return Ok(Err(refusal));
            }
        }

        self.store.request(job, &new, self.now)?;
        let count = new.len();
        let kept = self.store.release(job, &new)?;
        if kept > 0
            && let Some(user) = self.store.user_of(job)?
        {
            self.unshelve(&user, kept)?;
        }

        // A job that is settled has left the scheduler: its results are there, and there is nothing
        // to run.
        if is_settled {
            self.rest_decided(job, (!disclosure.all().is_empty()).then_some(false))?;
        } else {
            self.step(Event::TasksRequested {
                job,
                tasks: Some(new.clone()),
            })?;
            removed = self.store.removed(job, &new)?;
        }

        self.run_removed_again(job, removed)?;
        self.changed.0 = true;
        self.experience_gained();
        Ok(Ok(RequestOutcome {
            new: count,
            cancelled,
        }))
    }

    /// Cancels the unrequested tasks of a job, running ones included, and returns their number.
    pub(super) fn drop_unrequested(&mut self, job: JobId) -> StoreResult<u64> {
        let Some(before) = self.scheduler.job_counts(job) else {
            return self.drop_kept(job);
        };
        self.step(Event::UnrequestedCancelled { job })?;
        self.experience_gained();
        // A job that settles here has left the scheduler: then everything that was open is
        // cancelled.
        let after = self.scheduler.job_counts(job);
        Ok(after.map_or(before.total - before.settled(), |after| {
            after.cancelled - before.cancelled
        }))
    }

    /// Notes, for a settled job, that its user needs no more of it. All of it was executed, so
    /// nothing is dropped, but the note helps predict how likely the rest of other jobs is needed.
    /// It counts once, and not for a job with cancelled tasks.
    fn drop_kept(&mut self, job: JobId) -> StoreResult<u64> {
        let Some(disclosure) = self.store.disclosure(job)? else {
            return Ok(0);
        };
        let Some((_, total)) = self.store.state_of(job)? else {
            return Ok(0);
        };
        let rest = disclosure.all().len() < total;
        if rest && self.store.cancelled(job)?.is_empty() && self.dropped.insert(job) {
            self.rest_decided(job, Some(true))?;
            self.experience_gained();
        }
        Ok(0)
    }

    /// Tells the scheduler whether the user of a settled job dropped the rest (`Some(true)`), went
    /// on (`Some(false)`), or asked for a first result (`None`).
    fn rest_decided(&mut self, job: JobId, dropped: Option<bool>) -> StoreResult<()> {
        let Some(user) = self.store.user_of(job)? else {
            return Ok(());
        };
        self.step(Event::RestDecided { user, dropped })
    }
}
