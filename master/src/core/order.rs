//! The order between jobs, and jobs that stay open: what a submission comes after, what is added to
//! open jobs, and their end.

use std::sync::Arc;

use common::event::{GridEvent, in_parts};
use common::units::Bytes;
use common::view::{AfterView, JobState};
use common::wire::{Refusal, RefusalCode};
use common::{After, BlobRef, IdSet, JobId, JobSpec, NewTasks, RequestId, SubmitOptions, TaskSet};
use scheduler::Event;

use super::Core;
use crate::store::{NewAddition, RestoredJob, StoreError, StoreResult, StoredAfter};

/// Tasks that somebody adds to an open job.
#[derive(Debug, Clone)]
pub struct Adding {
    /// The number of the request, for repetitions.
    pub request: RequestId,
    /// The user who adds them.
    pub user: String,
    /// The job.
    pub job: JobId,
    /// The tasks.
    pub tasks: NewTasks,
    /// Whether nothing is to be added.
    pub dry_run: bool,
}

/// The answer to an addition.
#[derive(Debug, Clone)]
pub struct AddReply {
    /// The indices of the new tasks.
    pub ids: IdSet,
    /// The number of all tasks of the job.
    pub total: u64,
    /// Whether the request had been seen before.
    pub again: bool,
}

/// The refusal of a job that is to start after one that has not ended as it had to.
fn in_vain(after: After, state: JobState, other: &str) -> Refusal {
    let job = after.job;
    let has = match state {
        JobState::Cancelled => "was cancelled",
        JobState::Refused => "was refused",
        _ => "has failed",
    };
    let what =
        format!("job {job} {has}, so a job that is to start once it has succeeded never would");
    let hint = format!("retry it first (deskgrid job retry {job}), or {other} --after {job}:any");
    Refusal::new(RefusalCode::Conflict, what, hint)
}

/// The refusal of a request id that was used for something else.
pub(super) fn used(request: RequestId, what: &str) -> Refusal {
    Refusal::new(
        RefusalCode::Conflict,
        format!("request {request} was used {what}"),
        "give each submission a request id of its own",
    )
}

/// The jobs that are still waited for.
pub(super) fn unmet(after: &[StoredAfter]) -> Vec<After> {
    let unmet = after.iter().filter(|stored| !stored.met);
    unmet.map(|stored| stored.after).collect()
}

impl Core {
    /// The refusal of a submission that cannot be taken whatever its deadline.
    pub(super) fn unfit(
        &self,
        request: RequestId,
        (spec, content): (&JobSpec, &[BlobRef]),
        asked: &SubmitOptions,
        disclosed: bool,
    ) -> StoreResult<Option<Refusal>> {
        if let Some(refusal) = self.used_to_add(request)? {
            return Ok(Some(refusal));
        }

        let full = self.room.as_ref().and_then(|room| room.refuse_new(0));
        let refusal = full.or_else(|| self.missing_content(content));
        let undisclosable = || super::speculation::undisclosable(spec, asked);
        Ok(refusal.or_else(|| undisclosable().filter(|_| disclosed)))
    }

    /// Looks up the jobs that a submission is to come after; those `hidden` from its user count as
    /// not there.
    pub(super) fn ordered(
        &self,
        after: &[After],
        hidden: &IdSet,
    ) -> StoreResult<Result<Vec<StoredAfter>, Refusal>> {
        let mut stored = Vec::new();
        for after in after.iter().copied() {
            let state = match self.state_of(after.job)? {
                Some(state) if !hidden.contains(after.job.0) => state,
                _ => {
                    let what = format!("there is no job {} to start after", after.job);
                    let hint = "see `deskgrid job list --all`";
                    return Ok(Err(Refusal::new(RefusalCode::NotFound, what, hint)));
                }
            };

            if state.settled() && !after.how.is_met_by(state) {
                return Ok(Err(in_vain(after, state, "say")));
            }
            stored.push(StoredAfter {
                after,
                met: state.settled(),
            });
        }
        Ok(Ok(stored))
    }

    /// The state of a job; `None` if it is not there.
    fn state_of(&self, job: JobId) -> StoreResult<Option<JobState>> {
        if let Some(state) = self.scheduler.job_state(job) {
            return Ok(Some(state));
        }
        Ok(self.store.state_of(job)?.map(|(state, _)| state))
    }

    /// Looks up anew what a settled job comes after that is to be tried again: where none of its
    /// tasks was ever started it waits for those of these jobs that are not settled. Gives a refusal
    /// if one of them is, and has not succeeded as it had to.
    pub(super) fn order_again(
        &mut self,
        restored: &mut RestoredJob,
    ) -> StoreResult<Option<Refusal>> {
        let job = restored.view.job;
        let started = restored.view.attempts > 0;
        for stored in &mut restored.after {
            let state = self.state_of(stored.after.job)?;
            let ended = state.is_none_or(JobState::settled);
            match state.filter(|_| ended && !started) {
                Some(state) if !stored.after.how.is_met_by(state) => {
                    let other = "submit this one again with";
                    return Ok(Some(in_vain(stored.after, state, other)));
                }
                _ => stored.met = ended || started,
            }
        }

        for stored in restored.after.iter().filter(|stored| !stored.met) {
            self.store.wait_again(job, stored.after.job)?;
        }
        Ok(None)
    }

    /// Fills in how much is left of the jobs that a job waits for.
    pub(super) fn say_left(&self, job: JobId, after: &mut [AfterView]) {
        for before in self.scheduler.predecessors(job) {
            let view = after.iter_mut().find(|view| view.job == before.job);
            if let Some(view) = view {
                view.left = Some(before.left);
            }
        }
    }

    /// The spec of an open job, for [`super::check_addition`]: of its tasks it has only the last one's
    /// number, and one item if they have items. `None` if the job is not open. Costs about as much as the
    /// start of an attempt.
    pub(super) fn open_to(&self, job: JobId) -> Option<Box<JobSpec>> {
        let entry = self.jobs.get(&job).filter(|entry| entry.view.open)?;
        let spec = &entry.spec;
        let last = spec.tasks.ids.ranges().last();
        let tasks = TaskSet {
            ids: last.map_or_else(IdSet::new, |(_, last)| IdSet::from_range(last, last)),
            items: spec.tasks.items.first().cloned().into_iter().collect(),
        };
        Some(Box::new(JobSpec {
            name: spec.name.clone(),
            tasks,
            work: spec.work.clone(),
            rules: spec.rules.clone(),
        }))
    }

    /// Adds tasks to an open job that [`super::check_addition`] has passed, or refuses them.
    pub(super) fn add(&mut self, adding: Adding) -> StoreResult<Result<AddReply, Refusal>> {
        let Adding {
            request,
            user,
            job,
            tasks,
            dry_run,
        } = adding;
        let body = postcard::to_stdvec(&(job, &tasks));
        let body = body.map_err(|error| StoreError::Content(error.to_string()))?;
        let body_hash = *blake3::hash(&body).as_bytes();
        if let Some(refused) = self.added_before(request, &user, body_hash)? {
            return Ok(refused);
        }
        if let Some(refusal) = self.room.as_ref().and_then(|room| room.refuse_new(0)) {
            return Ok(Err(refusal));
        }

        let Some(entry) = self.jobs.get(&job).filter(|entry| entry.view.open) else {
            let what = format!("job {job} takes no more tasks: it is not open");
            let hint = "only a job that was submitted with --open takes more, until it is closed or cancelled";
            return Ok(Err(Refusal::new(RefusalCode::Conflict, what, hint)));
        };
        let new = match tasks.beside(&entry.spec.tasks) {
            Ok(new) => new,
            Err(bad) => {
                let refusal = Refusal::new(RefusalCode::Invalid, bad.to_string(), bad.hint());
                return Ok(Err(refusal));
            }
        };
        let reply = AddReply {
            ids: new.ids.clone(),
            total: entry.spec.tasks.ids.len() + new.ids.len(),
            again: false,
        };
        if let Some(refusal) = self.too_much_added(job, body.len() as u64) {
            return Ok(Err(refusal));
        }
        if dry_run {
            return Ok(Ok(reply));
        }

        let size = self.store.add_tasks(&NewAddition {
            request,
            body_hash,
            user: &user,
            job,
            tasks: &new,
            now: self.now,
        })?;
        self.grow(job, new, size);
        self.note_added(job, &reply.ids);
        self.step(Event::TasksAdded {
            job,
            tasks: reply.ids.clone(),
        })?;
        self.changed.0 = true;
        Ok(Ok(reply))
    }

    /// The answer to a request that was made before, if this one was.
    fn added_before(
        &self,
        request: RequestId,
        user: &str,
        body_hash: [u8; 32],
    ) -> StoreResult<Option<Result<AddReply, Refusal>>> {
        if self.store.job_of_request(request)?.is_some() {
            return Ok(Some(Err(used(request, "to submit a job"))));
        }
        let Some(known) = self.store.addition_of_request(request)? else {
            return Ok(None);
        };

        let job = known.job;
        Ok(Some(if known.user != user {
            Err(used(request, "by somebody else"))
        } else if known.body_hash != body_hash {
            Err(used(request, &format!("to add other tasks to job {job}")))
        } else {
            Ok(AddReply {
                ids: known.ids,
                total: self.store.state_of(job)?.map_or(0, |(_, total)| total),
                again: true,
            })
        }))
    }

    /// The refusal of a submission whose request id was used to add tasks.
    fn used_to_add(&self, request: RequestId) -> StoreResult<Option<Refusal>> {
        let known = self.store.addition_of_request(request)?;
        Ok(known.map(|known| used(request, &format!("to add tasks to job {}", known.job))))
    }

    /// The refusal of tasks of `bytes` in a job of a user whose unsettled jobs would then take more
    /// bytes than the limits allow.
    fn too_much_added(&self, job: JobId, bytes: u64) -> Option<Refusal> {
        let user = &self.jobs.get(&job)?.view.user;
        let what = self.too_many_bytes(user, bytes)?;
        let hint = "wait for some to be settled, or cancel some";
        Some(Refusal::new(RefusalCode::Conflict, what, hint))
    }

    /// Says in words that a user's unsettled jobs would take more than the limits allow with `bytes`
    /// more, if they would.
    pub(super) fn too_many_bytes(&self, user: &str, bytes: u64) -> Option<String> {
        let (_, open) = self.open_of.get(user).copied().unwrap_or_default();
        let most = self.limits.open_spec_bytes_per_user;
        let would = open.saturating_add(bytes);
        (would > most).then(|| {
            let [would, most] = [would, most].map(Bytes);
            format!("{user}'s unsettled jobs would take {would} of the {most} of one user")
        })
    }

    /// Keeps added tasks in memory, which take `bytes` in the store.
    fn grow(&mut self, job: JobId, new: TaskSet, bytes: u64) {
        let Some(entry) = self.jobs.get_mut(&job) else {
            return;
        };
        Arc::make_mut(&mut entry.spec).tasks.add(new);
        entry.bytes = entry.bytes.saturating_add(bytes);
        if let Some((_, open)) = self.open_of.get_mut(&entry.view.user) {
            *open = open.saturating_add(bytes);
        }
    }

    fn note_added(&mut self, job: JobId, tasks: &IdSet) {
        for tasks in in_parts(tasks) {
            self.note_event(GridEvent::TasksAdded { job, tasks });
        }
    }

    /// Closes an open job. Returns the number of tasks that are left; `None` if it is not open.
    pub(super) fn close(&mut self, job: JobId) -> StoreResult<Option<u64>> {
        let Some(entry) = self.jobs.get_mut(&job).filter(|entry| entry.view.open) else {
            return Ok(None);
        };
        entry.view.open = false;
        self.store.set_open(job, false)?;
        self.note_event(GridEvent::JobClosed { job });
        self.step(Event::JobClosed { job })?;
        self.changed.0 = true;
        let counts = self.scheduler.job_counts(job).unwrap_or_default();
        Ok(Some(counts.total - counts.settled()))
    }
}
