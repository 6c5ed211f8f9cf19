//! Jobs in memory (only those that are not settled), and what clients ask of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use common::attempt::Phase;
use common::checkpoint::Saved;
use common::content::BlobHash;
use common::job::Work;
use common::view::{AttemptState, ExplainView, Forecast, JobState, JobView, TaskCounts, TaskState};
use common::wire::{Refusal, RefusalCode};
use common::{AttemptId, BlobRef, HostId, IdSet, JobId, JobSpec, RequestId, Span, Time};
use scheduler::Event;
use scheduler::event::Bag;

use super::Core;
use crate::store::{JobRow, NewJob, StoreError};

/// Of how many jobs a list says when they are finished. Each takes a walk over all slots and over the jobs ahead of it.
const FORECASTS: usize = 32;

/// A job that is not settled.
pub(super) struct Job {
    pub(super) spec: Arc<JobSpec>,
    pub(super) reason: Option<String>,
    user: String,
    submitted: Time,
    started: Option<Time>,
    predicted_makespan: Option<Span>,
}

/// The answer to a submission.
pub(crate) struct Submitted {
    /// Its number; none of a dry run.
    pub(crate) job: Option<JobId>,
    /// Whether the request had been seen before.
    pub(crate) again: bool,
    /// When it would be done.
    pub(crate) predicted: Option<Forecast>,
}

/// A submission that was not taken.
pub(crate) type SubmitError = Refusal;

/// The present state of a job that is not settled, task by task.
pub(crate) struct LiveJob {
    /// Tasks in each state that can be told from memory.
    pub(crate) states: Vec<(TaskState, IdSet)>,
    /// Live attempts.
    pub(crate) attempts: BTreeMap<AttemptId, LiveAttempt>,
}

/// A live attempt.
pub(crate) struct LiveAttempt {
    /// Its state.
    pub(crate) state: AttemptState,
    /// Why it is suspended, if it is.
    pub(crate) reason: Option<String>,
    /// Since when it has been suspended, if it is.
    pub(crate) suspended_since: Option<Time>,
    /// Run time as last heard.
    pub(crate) ran: Span,
    /// Time suspended, this time included.
    pub(crate) suspended: Span,
}

impl Job {
    /// Notes that an attempt is started; whether it is the job's first.
    pub(super) fn on_start(&mut self, now: Time) -> bool {
        let first = self.started.is_none();
        self.started.get_or_insert(now);
        first
    }
}

fn live_attempt(live: &scheduler::LiveAttempt, now: Time) -> LiveAttempt {
    let (state, reason) = match live.phase {
        Phase::Queued => (AttemptState::Assigned, None),
        Phase::Staging => (AttemptState::Staging, None),
        Phase::Running | Phase::Ended => (AttemptState::Running, None),
        Phase::Suspended(reason) => (AttemptState::Suspended, Some(reason.to_string())),
    };
    let suspended = live.suspended + live.suspended_since.map_or(Span::ZERO, |since| now.since(since));
    LiveAttempt { state, reason, suspended_since: live.suspended_since, ran: live.ran, suspended }
}

impl Core {
    /// Takes a submission that [`super::check_spec`] has passed, or says why not. Nothing is remembered of one that is not taken.
    pub(crate) fn submit(
        &mut self,
        request: RequestId,
        user: &str,
        spec: JobSpec,
        dry_run: bool,
    ) -> Result<Result<Submitted, SubmitError>, StoreError> {
        let body = postcard::to_stdvec(&spec).map_err(|e| StoreError::Content(e.to_string()))?;
        let body_hash = *blake3::hash(&body).as_bytes();
        if let Some((job, before)) = self.store.job_of_request(request)? {
            return Ok(if before == body_hash {
                Ok(Submitted { job: Some(job), again: true, predicted: self.forecast(job) })
            } else {
                let what = format!("request {request} was used for job {job}, which is another submission");
                Err(Refusal::new(RefusalCode::Conflict, what, "give each submission a request id of its own"))
            });
        }
        if let Some(refusal) = self.missing_content(&spec) {
            return Ok(Err(refusal));
        }
        if dry_run {
            return Ok(Ok(Submitted { job: None, again: false, predicted: None }));
        }
        let job = self.store.add_job(&NewJob { request, body_hash, user, spec: &spec, now: self.now })?;
        let bag = Bag { tasks: spec.tasks.ids.clone(), rules: spec.rules.clone() };
        self.jobs.insert(job, Job::new(spec, user.to_owned(), self.now));
        self.step(Event::JobSubmitted { job, bag })?;
        self.changed.0 = true;
        metrics::counter!("deskgrid_jobs_submitted_total").increment(1);
        Ok(Ok(Submitted { job: Some(job), again: false, predicted: self.forecast(job) }))
    }

    /// The content of an input that is not here, if there is any.
    fn missing_content(&self, spec: &JobSpec) -> Option<Refusal> {
        let Work::Command(command) = &spec.work else { return None };
        let BlobRef { hash, .. } = command.blobs().find(|blob| !self.blobs.has(blob))?;
        Some(Refusal::new(
            RefusalCode::Conflict,
            format!("the content {hash} of an input is not here"),
            "send it first; if it was there a moment ago, submit again",
        ))
    }

    /// Reads back what a restart interrupted.
    pub(super) fn restore(&mut self) -> Result<(), StoreError> {
        self.recall_experience()?;
        for host in self.store.restore_hosts()? {
            self.restore_host(host)?;
        }
        for restored in self.store.restore_jobs()? {
            self.bring_back(restored)?;
        }
        Ok(())
    }

    fn bring_back(&mut self, restored: crate::store::Restored) -> Result<(), StoreError> {
        let view = restored.view;
        let job = view.job;
        let bag = Bag { tasks: restored.spec.tasks.ids.clone(), rules: restored.spec.rules.clone() };
        let entry = Job {
            started: view.started,
            predicted_makespan: view.predicted_makespan,
            ..Job::new(restored.spec, view.user, view.submitted)
        };
        self.jobs.insert(job, entry);
        self.step(Event::JobRestored { job, bag, progress: Box::new(restored.progress) })
    }

    /// Stops the tasks (none given: all) of a job, and says how many were affected.
    pub(crate) fn cancel(&mut self, job: JobId, tasks: Option<IdSet>) -> Result<u64, StoreError> {
        let Some(before) = self.scheduler.job_counts(job) else { return Ok(0) };
        self.step(Event::JobCancelled { job, tasks })?;
        // A job that is settled by this has left the scheduler: then everything that was open is cancelled.
        let cancelled = |after: TaskCounts| after.cancelled - before.cancelled;
        Ok(self.scheduler.job_counts(job).map_or(before.total - before.settled(), cancelled))
    }

    /// Makes failed and cancelled tasks of a job wait again, and says how many.
    pub(crate) fn retry(&mut self, job: JobId, tasks: &IdSet, only_failed: bool) -> Result<u64, StoreError> {
        let Some(restored) = self.store.restore_job(job)? else { return Ok(0) };
        let mut again = restored.progress.failed.clone();
        if !only_failed {
            again.union_with(&restored.progress.cancelled);
        }
        let again = again.intersection(tasks);
        if again.is_empty() {
            return Ok(0);
        }
        if !self.jobs.contains_key(&job) {
            self.bring_back(restored)?;
        }
        let count = again.len();
        self.step(Event::JobRetried { job, tasks: again })?;
        let state = self.scheduler.job_state(job).unwrap_or(JobState::Waiting);
        self.write_job(job, state, None)?;
        Ok(count)
    }

    /// Removes a settled job with its results; false for one that is not settled.
    pub(crate) fn forget(&mut self, job: JobId) -> Result<bool, StoreError> {
        if self.jobs.contains_key(&job) {
            return Ok(false);
        }
        self.store.forget_job(job)?;
        self.changed.0 = true;
        Ok(true)
    }

    /// Removes those of these blobs, each with when somebody last counted on it, that no job needs, and says how many
    /// bytes that were.
    pub(crate) fn sweep(&mut self, old: &[(BlobRef, SystemTime)]) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for (blob, at) in old {
            // Counted on meanwhile, or needed: it stays.
            if self.blobs.modified(&blob.hash) != Some(*at) || self.store.needs_blob(&blob.hash)? {
                continue;
            }
            match self.blobs.remove(&blob.hash) {
                Ok(()) => bytes += blob.size,
                Err(error) => tracing::warn!(hash = %blob.hash, %error, "content that nobody needs stays"),
            }
        }
        Ok(bytes)
    }

    /// The jobs of these that are not settled, as they are now.
    pub(crate) fn live_jobs(&self, jobs: &IdSet, states: &[JobState]) -> Vec<JobView> {
        self.list(jobs.iter().map(JobId), states)
    }

    /// Every job that is not settled, of one user or of all.
    pub(crate) fn open_views(&self, user: Option<&str>, states: &[JobState]) -> Vec<JobView> {
        let wanted = self.jobs.iter().filter(|(_, job)| user.is_none_or(|user| job.user == user));
        self.list(wanted.map(|(id, _)| *id), states)
    }

    /// The first of these that is not settled.
    pub(crate) fn first_open(&self, jobs: &IdSet) -> Option<JobId> {
        jobs.iter().map(JobId).find(|id| self.jobs.contains_key(id))
    }

    /// With forecasts of the first in these states (none given: any) only: a long list must not hold up everybody else.
    fn list(&self, jobs: impl Iterator<Item = JobId>, states: &[JobState]) -> Vec<JobView> {
        let mut views: Vec<JobView> = jobs.filter_map(|id| self.view(id)).collect();
        let shown = views.iter_mut().filter(|view| states.is_empty() || states.contains(&view.state));
        for view in shown.take(FORECASTS) {
            view.predicted = self.forecast(view.job);
        }
        views
    }

    /// Without a forecast.
    fn view(&self, id: JobId) -> Option<JobView> {
        let job = self.jobs.get(&id)?;
        let mut tasks = self.scheduler.job_counts(id).unwrap_or_default();
        if tasks == TaskCounts::default() {
            tasks.total = job.spec.tasks.ids.len();
        }
        let (attempts, duplicates) = self.scheduler.job_attempts(id).unwrap_or_default();
        Some(JobView {
            job: id,
            name: job.spec.name.clone(),
            user: job.user.clone(),
            state: self.scheduler.job_state(id).unwrap_or(JobState::Waiting),
            policy: job.spec.rules.policy.clone(),
            priority: job.spec.rules.priority,
            tasks,
            attempts,
            duplicates,
            submitted: job.submitted,
            started: job.started,
            finished: None,
            predicted: None,
            predicted_makespan: job.predicted_makespan,
            reason: job.reason.clone(),
        })
    }

    /// The present state of a job's tasks; none of a settled job.
    pub(crate) fn live_job(&self, job: JobId) -> Option<LiveJob> {
        self.jobs.get(&job)?;
        let states = [TaskState::Waiting, TaskState::Running, TaskState::Suspended];
        let states =
            states.into_iter().filter_map(|state| Some((state, self.scheduler.tasks_in(job, state)?))).collect();
        let now = self.now;
        let attempts = self.scheduler.live_attempts(job).map(|live| (live.attempt, live_attempt(&live, now))).collect();
        Some(LiveJob { states, attempts })
    }

    /// Why the job's tasks wait, and why each host takes none of them. Its copies are the store's to tell.
    pub(crate) fn explain(&self, job: JobId) -> Option<ExplainView> {
        let view = JobView { predicted: self.forecast(job), ..self.view(job)? };
        let why = self.scheduler.explain(job)?;
        let name = |id| self.hosts.get(&id).map_or_else(|| id.to_string(), |host| host.name.clone());
        Some(ExplainView {
            job: view,
            waiting: why.tasks.into_iter().map(|(reason, tasks)| (reason, tasks.to_string())).collect(),
            hosts: why.hosts.into_iter().map(|(id, reason)| (name(id), reason)).collect(),
            duplicates: Vec::new(),
        })
    }

    /// Writes what has changed of a job.
    pub(super) fn write_job(&mut self, id: JobId, state: JobState, ended: Option<Time>) -> Result<(), StoreError> {
        let Some(job) = self.jobs.get(&id) else { return Ok(()) };
        let tasks = self.scheduler.job_counts(id).unwrap_or_default();
        let (attempts, duplicates) = self.scheduler.job_attempts(id).unwrap_or_default();
        let row = JobRow {
            state,
            tasks: &tasks,
            started: job.started,
            ended,
            predicted_makespan: job.predicted_makespan,
            attempts,
            duplicates,
            reason: job.reason.as_deref(),
        };
        self.store.update_job(id, &row)
    }

    /// When the job is expected to be finished.
    fn forecast(&self, id: JobId) -> Option<Forecast> {
        let scheduler::Prediction { finish, low, high } = self.scheduler.predict(id, self.now)?;
        Some(Forecast { finish, interval: Some((low, high)) })
    }

    /// Notes the first prediction that can be made of a job's makespan.
    pub(super) fn predict(&mut self, id: JobId) {
        let open = self.jobs.get(&id).is_some_and(|job| job.predicted_makespan.is_none());
        if !open {
            return;
        }
        let finish = self.scheduler.predict_finish(id, self.now);
        if let (Some(finish), Some(job)) = (finish, self.jobs.get_mut(&id)) {
            job.predicted_makespan = job.started.map(|started| finish.since(started));
        }
    }

    /// Whether the job's tasks keep their state.
    pub(super) fn saves(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.spec.rules.checkpoint)
    }

    /// Whether a state of this attempt can be of use, and is this host's to save.
    pub(crate) fn takes_state(&self, host: HostId, attempt: AttemptId) -> Result<bool, StoreError> {
        Ok(self.saves(attempt.task.job) && self.store.wants_checkpoint(attempt, host)?)
    }

    /// Keeps a complete state of an attempt, if it is one that this host was given and that can still be of use.
    pub(crate) fn on_saved(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        saved: Saved,
        blobs: &[BlobHash],
    ) -> Result<(), StoreError> {
        let saved = Saved { taken: self.now, ..saved };
        if self.takes_state(host, attempt)? {
            let kept = self.store.keep_checkpoint(attempt, &saved, blobs)?;
            let what = if kept { "state saved" } else { "state not kept: the task's has more in it" };
            tracing::debug!(%attempt, %host, bytes = saved.bytes, files = saved.files, "{what}");
        }
        Ok(())
    }

    /// Notes that a state of an attempt was not saved, or not used.
    pub(crate) fn on_not_saved(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        why: &str,
        from_scratch: bool,
    ) -> Result<(), StoreError> {
        if self.takes_state(host, attempt)? {
            tracing::info!(%attempt, %host, why, "state not saved, or not used");
            match from_scratch {
                true => self.store.started_from_scratch(attempt, why)?,
                false => self.store.checkpoint_problem(attempt, why)?,
            }
        }
        Ok(())
    }

    /// The job that a request made.
    pub(crate) fn job_of(&self, request: RequestId) -> Result<Option<JobId>, StoreError> {
        Ok(self.store.job_of_request(request)?.map(|(job, _)| job))
    }

    /// A job as the store has it.
    pub(crate) fn stored(&self, job: JobId) -> Result<Option<crate::store::Restored>, StoreError> {
        self.store.restore_job(job)
    }

    /// How many jobs are not settled.
    pub(crate) fn open_jobs(&self) -> usize {
        self.jobs.len()
    }
}

impl Job {
    fn new(spec: JobSpec, user: String, submitted: Time) -> Self {
        Self { spec: Arc::new(spec), reason: None, user, submitted, started: None, predicted_makespan: None }
    }
}
