//! Disclosed jobs: what is requested of them, and what is dropped. What is not here: which task
//! runs when (the scheduler).

use common::job::SPECULATIVE_POLICY;
use common::wire::{Refusal, RefusalCode};
use common::{IdSet, JobId, JobSpec};
use scheduler::Event;

use super::Core;
use crate::store::StoreError;

/// Why a job cannot be disclosed, if so.
pub(super) fn undisclosable(spec: &JobSpec) -> Option<Refusal> {
    let what = match scheduler::policy::policy(&spec.rules.policy) {
        Some(policy) if !policy.tells_disclosed() => {
            format!(
                "the policy {} does not tell disclosed from needed tasks",
                policy.name
            )
        }
        _ if spec.rules.quorum.compares() => {
            "results of disclosed tasks cannot be compared".to_owned()
        }
        _ => return None,
    };

    let hint = format!("submit it with --policy {SPECULATIVE_POLICY}, or without --disclose");
    Some(Refusal::new(RefusalCode::Invalid, what, hint))
}

/// What became of a request for tasks.
#[derive(Debug, Default)]
pub(crate) struct Requested {
    /// So many had not been requested before, and are now.
    pub(crate) new: u64,
    /// These are cancelled, and were not requested by this.
    pub(crate) cancelled: IdSet,
}

impl Core {
    /// Somebody waits for these tasks of a job from now on, if it was disclosed; says how many
    /// nobody waited for. Those that are cancelled are not requested: nothing would come of it but
    /// a bill.
    pub(crate) fn request(&mut self, job: JobId, tasks: &IdSet) -> Result<Requested, StoreError> {
        let Some(disclosure) = self.store.disclosure(job)? else {
            return Ok(Requested::default());
        };
        let cancelled = self.store.cancelled(job)?.intersection(tasks);
        let mut new = tasks.clone();
        new.subtract(&disclosure.all());
        new.subtract(&cancelled);
        if new.is_empty() {
            return Ok(Requested { new: 0, cancelled });
        }

        self.store.request(job, &new, self.now)?;
        let count = new.len();
        let kept = self.store.release(job, &new)?;
        if kept > 0
            && let Some(user) = self.store.job(job)?.map(|(view, ..)| view.user)
        {
            self.unshelve(&user, kept)?;
        }

        // A job that is settled has left the scheduler: its results are there, and there is nothing
        // to run.
        if self.scheduler.job_state(job).is_some() {
            self.step(Event::TasksRequested {
                job,
                tasks: Some(new.clone()),
            })?;
        } else {
            self.rest_decided(job, (!disclosure.all().is_empty()).then_some(false))?;
        }

        self.run_removed_again(job, &new)?;
        self.changed.0 = true;
        self.experience_gained();
        Ok(Requested {
            new: count,
            cancelled,
        })
    }

    /// Drops what nobody has requested of a job, running tasks included; says how many tasks that
    /// were.
    pub(crate) fn drop_unrequested(&mut self, job: JobId) -> Result<u64, StoreError> {
        let Some(before) = self.scheduler.job_counts(job) else {
            return self.drop_kept(job);
        };
        self.step(Event::UnrequestedCancelled { job })?;
        self.experience_gained();
        // A job that is settled by this has left the scheduler: then everything that was open is
        // cancelled.
        let after = self.scheduler.job_counts(job);
        Ok(after.map_or(before.total - before.settled(), |after| {
            after.cancelled - before.cancelled
        }))
    }

    /// Of a job that is over everything was executed: nothing is dropped, but that its user needs
    /// no more of it says how likely the rest of others is needed. Once; a job whose rest was
    /// dropped before has cancelled tasks.
    fn drop_kept(&mut self, job: JobId) -> Result<u64, StoreError> {
        let Some(disclosure) = self.store.disclosure(job)? else {
            return Ok(0);
        };
        let Some((view, ..)) = self.store.job(job)? else {
            return Ok(0);
        };
        let rest = disclosure.all().len() < view.tasks.total;
        if rest && self.store.cancelled(job)?.is_empty() && self.dropped.insert(job) {
            self.rest_decided(job, Some(true))?;
            self.experience_gained();
        }
        Ok(0)
    }

    /// The user of a job that is over asked for a result of it, went on with another, or dropped
    /// the rest.
    fn rest_decided(&mut self, job: JobId, dropped: Option<bool>) -> Result<(), StoreError> {
        let Some((view, ..)) = self.store.job(job)? else {
            return Ok(());
        };
        self.step(Event::RestDecided {
            user: view.user,
            dropped,
        })
    }
}
