//! Jobs that are not settled, in memory, and the answers to clients' requests about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::attempt::Phase;
use common::checkpoint::Saved;
use common::content::BlobHash;
use common::event::GridEvent;
use common::interpreter::program_of;
use common::job::Rules;
use common::needs::Label;
use common::view::{
    AttemptState, CounterView, ExplainView, Forecast, JobState, JobView, LimitsView, PromiseView,
    RunningView, ShareView, TaskCounts, TaskState, WidthView,
};
use common::wire::{Refusal, RefusalCode};
use common::{
    AttemptId, BlobRef, HostId, IdSet, JobId, JobSpec, RequestId, Span, SubmitOptions, Time,
};
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::{AttemptOutlook, Event, Prediction, UserShare};

use super::Core;
use super::ask::Submitting;
use super::hosts::REVOKED;
use super::order::used;
use super::retention::DAY;
use crate::numbers;
use crate::store::{NewJob, Promised, RequestKey, StoreError, StoreResult, StoredAfter};

/// A job that is not settled.
pub(super) struct UnsettledJob {
    pub(super) spec: Arc<JobSpec>,
    /// The job's view as stored and shown, except its state and counts, which the scheduler knows.
    pub(super) view: JobView,
    /// Whether it was submitted as disclosed.
    pub(super) disclosed: bool,
    /// Bytes of its spec.
    pub(super) bytes: u64,
    /// The promise made for its deadline, if any.
    pub(super) promised: Option<Promised>,
    /// Whether the store may hold a prediction of its start or end.
    pub(super) foretold: bool,
}

/// The answer to a submission.
pub struct SubmitReply {
    /// The job's number; `None` for a dry run.
    pub job: Option<JobId>,
    /// Whether the request had been seen before.
    pub again: bool,
    /// The forecast of its finish.
    pub predicted: Option<Forecast>,
    /// The promise for a job with a deadline (`None` without one); or, as the error, why it is not
    /// admitted and what could be promised instead.
    pub promise: Result<Option<PromiseView>, Box<CounterView>>,
    /// The limits of its attempts, where they are learned.
    pub limits: Option<LimitsView>,
    /// The number of hosts of a job of several ranks.
    pub width: Option<WidthView>,
    /// The reasons, in words, why the known hosts could never do its tasks.
    pub nowhere: Option<String>,
}

/// The present tasks and attempts of an unsettled job.
pub struct LiveJob {
    /// The tasks in each state that memory knows.
    pub states: Vec<(TaskState, IdSet)>,
    /// Live attempts.
    pub attempts: BTreeMap<AttemptId, RunningAttempt>,
    /// The jobs that its waiting tasks wait for, in words.
    pub held: Option<String>,
}

/// A live attempt.
pub struct RunningAttempt {
    /// Its state.
    pub state: AttemptState,
    /// The reason for its suspension or its wait.
    pub reason: Option<String>,
    /// The start of the present suspension, if it is suspended.
    pub suspended_since: Option<Time>,
    /// The run time so far, as far as is known.
    pub ran: Span,
    /// The time suspended, the present suspension included.
    pub suspended: Span,
    /// The part done, if its program reports it.
    pub progress: Option<f32>,
    /// The words of its program about that.
    pub words: Option<String>,
}

impl UnsettledJob {
    /// Notes the start of an attempt, and returns whether it is the job's first.
    pub(super) fn on_start(&mut self, now: Time) -> bool {
        let first = self.view.started.is_none();
        self.view.started.get_or_insert(now);
        first
    }
}

/// Encodes a submission, so that two can be compared. The time of submission is not part of it.
fn body(spec: &JobSpec, asked: &SubmitOptions, disclosed: bool) -> StoreResult<Vec<u8>> {
    postcard::to_stdvec(&(spec, asked, disclosed)).map_err(|e| StoreError::Content(e.to_string()))
}

/// The refusal of a deadline that has passed already at `now`, when its job is submitted; `date` is its time, unless it
/// was given as a time from then on.
fn past(date: Option<Time>, now: Time) -> Refusal {
    let since = date.map(|date| now.since(date));
    let what = match since {
        Some(since) => format!("the deadline is in the past ({since} ago by the master's clock)"),
        None => "the deadline leaves no time at all".to_owned(),
    };

    let hint = "a future date (UTC unless it has an offset), or a time from now: --deadline 2h (deskgrid doctor compares the clocks)";
    let iso = date.map(common::time::iso).unwrap_or_default();
    let hint = match iso.strip_suffix("T00:00:00.000000Z") {
        Some(day) if since < Some(Span::from_secs(DAY)) => format!(
            "a day alone is its first moment (00:00 UTC): --deadline {day}T23:59:59Z is its end"
        ),
        _ => hint.to_owned(),
    };
    Refusal::new(RefusalCode::Invalid, what, hint)
}

/// The refusal of a submission that names content which is missing, or not its user's to name: the
/// answer does not tell the two apart.
pub(crate) fn content_is_missing(hash: &BlobHash) -> Refusal {
    let what = format!("the content {hash} of an input is not here");
    Refusal::new(
        RefusalCode::Conflict,
        what,
        "send it first; if it was there a moment ago, submit again",
    )
}

/// The `Estimator` of a job: its user and program.
fn estimator(spec: &JobSpec, user: &str) -> Estimator {
    let command = spec.work.command();
    Estimator {
        user: user.to_owned(),
        program: command.map_or_else(
            || "noop".to_owned(),
            |command| program_of(&command.argv, &spec.name),
        ),
    }
}

/// The `Bag` that the scheduler keeps of a job.
fn bag(
    spec: &JobSpec,
    estimates: Vec<Span>,
    user: &str,
    submitted: Time,
    (disclosed, open): (bool, bool),
    after: &[StoredAfter],
) -> Bag {
    let estimator = estimator(spec, user);
    let deadline = spec.rules.deadline.map(|deadline| submitted + deadline);
    let terms = Terms {
        deadline,
        estimates,
        estimator,
    };
    let tasks = spec.tasks.ids.clone();
    let ranks = spec.work.ranks().copied();

    Bag {
        tasks,
        rules: Rules {
            needs: spec.needs(),
            ..spec.rules.clone()
        },
        terms,
        disclosed,
        ranks,
        after: super::order::unmet(after),
        open,
    }
}

/// The `JobView` of a job that has had no attempt.
fn untried(job: JobId, spec: &JobSpec, user: &str, submitted: Time) -> JobView {
    JobView {
        job,
        name: spec.name.clone(),
        user: user.to_owned(),
        state: JobState::Waiting,
        policy: spec.rules.policy.clone(),
        priority: spec.rules.priority,
        needs: spec.rules.needs.to_string(),
        tasks: TaskCounts::default(),
        attempts: 0,
        duplicates: 0,
        submitted,
        started: None,
        finished: None,
        predicted: None,
        predicted_makespan: None,
        reason: None,
        promise: None,
        limits: None,
        starts: None,
        width: None,
        progress: None,
        labels: BTreeSet::new(),
        after: Vec::new(),
        open: false,
    }
}

fn live_attempt(live: &scheduler::LiveAttempt, now: Time, words: Option<String>) -> RunningAttempt {
    let (state, reason) = match live.phase {
        Phase::Queued => (AttemptState::Assigned, None),
        Phase::Staging => (AttemptState::Staging, None),
        Phase::Ready => (
            AttemptState::Staging,
            Some("ready, and waits for the other ranks".to_owned()),
        ),
        Phase::Running | Phase::Ended => (AttemptState::Running, None),
        Phase::Suspended(reason) => (AttemptState::Suspended, Some(reason.to_string())),
        Phase::Held => (
            AttemptState::Suspended,
            Some("another task goes first".to_owned()),
        ),
    };

    let suspended = live.suspended
        + live
            .suspended_since
            .map_or(Span::ZERO, |since| now.since(since));
    RunningAttempt {
        state,
        reason,
        suspended_since: live.suspended_since,
        ran: live.ran_by(now),
        suspended,
        progress: live.progress,
        words,
    }
}

/// Returns a predicted finish as a `Forecast` with its interval.
fn seen(Prediction { finish, low, high }: Prediction) -> Forecast {
    Forecast {
        finish,
        interval: Some((low, high)),
    }
}

impl Core {
    /// Takes a submission that [`super::check_spec`] has passed, or refuses it. A refused one
    /// leaves no trace.
    pub(super) fn submit(
        &mut self,
        submitting: Submitting,
    ) -> StoreResult<Result<SubmitReply, Refusal>> {
        let Submitting {
            request,
            user,
            mut spec,
            content,
            asked,
            hidden,
            disclosed,
            dry_run,
        } = submitting;
        let user = user.as_str();

        let body = body(&spec, &asked, disclosed)?;
        let body_hash = *blake3::hash(&body).as_bytes();
        if let Some(known) = self.store.job_of_request(request)? {
            return self.repeated((request, user, body_hash), &spec, &known);
        }
        if let Some(refusal) = self.unfit(request, (&spec, &content), &asked, disclosed)? {
            return Ok(Err(refusal));
        }
        let after = match self.ordered(&asked.after, &hidden)? {
            Ok(after) => after,
            Err(refusal) => return Ok(Err(refusal)),
        };

        // Before the admission test, which can take long.
        if let Some(refusal) = self.beyond_limits(user, body.len() as u64) {
            return Ok(Err(refusal));
        }

        // A date stays that date, however long the files took to arrive and whatever the client's
        // clock says.
        spec.rules.deadline = asked
            .deadline
            .map(|date| date.since(self.now))
            .or(spec.rules.deadline);
        if spec.rules.deadline == Some(Span::ZERO) {
            return Ok(Err(past(asked.deadline, self.now)));
        }

        let bag = bag(
            &spec,
            asked.estimates,
            user,
            self.now,
            (disclosed, asked.open),
            &after,
        );
        let (promise, tested) = match self.test(&bag) {
            Err(refusal) => return Ok(Err(refusal)),
            Ok(Err(counter)) => (Err(counter), None),
            Ok(Ok(tested)) => {
                let offer = tested.as_ref().and_then(|tested| tested.offer);
                let promise = offer.and_then(|offer| self.promise_view(&bag, offer));
                (Ok(promise), tested)
            }
        };

        let submitted = SubmitReply {
            job: None,
            again: false,
            predicted: None,
            promise,
            limits: self.limits_of(&bag),
            width: self.width_of(&bag),
            nowhere: (self.scheduler).why_nowhere(&bag.rules.needs, bag.rules.quorum),
        };
        if dry_run || submitted.promise.is_err() {
            let promises_none = matches!(submitted.promise, Ok(None));
            let predicted = promises_none.then(|| self.scheduler.predict_submitted(bag, self.now));
            return Ok(Ok(SubmitReply {
                predicted: predicted.flatten().map(seen),
                ..submitted
            }));
        }

        let key = (request, body_hash, body.len() as u64);
        let job = self.keep(key, (spec, &content), &bag, &after, asked.labels)?;
        self.step(Event::JobSubmitted {
            job,
            bag: Box::new(bag),
            tested,
        })?;
        self.foretell_start(job)?;
        let predicted = self.scheduler.predict(job, self.now);
        if let Some(prediction) = predicted.filter(|_| !asked.open) {
            self.note_first(job, prediction)?;
        }
        self.changed.0 = true;
        metrics::counter!(numbers::SUBMITTED).increment(1);

        Ok(Ok(SubmitReply {
            job: Some(job),
            predicted: predicted.map(seen),
            width: self.width(job).or(submitted.width),
            ..submitted
        }))
    }

    /// Stores a submission of `bytes` as a new job, and keeps it in memory.
    fn keep(
        &mut self,
        (request, body_hash, bytes): (RequestId, [u8; 32], u64),
        (spec, content): (JobSpec, &[BlobRef]),
        bag: &Bag,
        after: &[StoredAfter],
        labels: BTreeSet<Label>,
    ) -> StoreResult<JobId> {
        let user = bag.terms.estimator.user.as_str();
        let job = self.store.add_job(&NewJob {
            request,
            body_hash,
            user,
            spec: &spec,
            content,
            estimates: &bag.terms.estimates,
            now: self.now,
        })?;
        if !content.is_empty() {
            self.content_needed(job, user)?;
        }
        if bag.disclosed {
            self.store.disclose(job, self.now)?;
        }
        self.store.order_job(job, &labels, after, bag.open)?;

        let view = JobView {
            labels,
            after: after.iter().map(StoredAfter::view).collect(),
            open: bag.open,
            ..untried(job, &spec, user, self.now)
        };
        let entry = UnsettledJob {
            view,
            spec: Arc::new(spec),
            disclosed: bag.disclosed,
            bytes,
            promised: None,
            foretold: false,
        };
        self.enter(job, entry);
        self.note_event(GridEvent::JobSubmitted {
            job,
            user: user.to_owned(),
            tasks: bag.tasks.len(),
        });
        Ok(job)
    }

    /// The answer to a repeated request that made the same job before.
    fn repeated(
        &self,
        (request, user, body_hash): (RequestId, &str, [u8; 32]),
        spec: &JobSpec,
        known: &RequestKey,
    ) -> StoreResult<Result<SubmitReply, Refusal>> {
        let job = known.job;
        if known.user != user {
            return Ok(Err(used(request, "by somebody else")));
        }
        if known.body_hash != body_hash {
            let what = format!("for job {job}, which is another submission");
            return Ok(Err(used(request, &what)));
        }

        let promised = self.store.promise(job)?;
        let promised = promised.filter(|promised| !promised.withdrawn);
        let promise = promised.map(|promised| PromiseView {
            deadline: promised.deadline,
            finish: promised.finish,
            probability: promised.probability,
            probation: promised.probation,
            estimates: self.quality(&estimator(spec, user)),
        });
        Ok(Ok(SubmitReply {
            job: Some(job),
            again: true,
            predicted: self.forecast(job),
            promise: Ok(promise),
            limits: self.limits(job),
            width: self.width(job),
            nowhere: (self.scheduler).why_nowhere(&spec.needs(), spec.rules.quorum),
        }))
    }

    /// The refusal of another job of `bytes` by a user who has as many unsettled jobs, or bytes of
    /// specs, as the limits allow.
    pub(super) fn beyond_limits(&self, user: &str, bytes: u64) -> Option<Refusal> {
        let limits = &self.limits;
        let (jobs, _) = self.open_of.get(user).copied().unwrap_or_default();
        let what = if jobs >= limits.open_jobs_per_user {
            format!(
                "{user} has {jobs} jobs that are not settled, which is as many as this master takes of one user"
            )
        } else {
            self.too_many_bytes(user, bytes)?
        };

        let hint = "wait for some to be settled or cancel some, or put many tasks into one job";
        Some(Refusal::new(RefusalCode::Conflict, what, hint))
    }

    /// Keeps a job in memory while it is not settled.
    fn enter(&mut self, id: JobId, job: UnsettledJob) {
        let (jobs, bytes) = self.open_of.entry(job.view.user.clone()).or_default();
        *jobs += 1;
        *bytes = bytes.saturating_add(job.bytes);
        self.jobs.insert(id, job);
    }

    /// Removes a settled job from memory.
    pub(super) fn leave(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else {
            return;
        };
        if let Some((jobs, bytes)) = self.open_of.get_mut(&job.view.user) {
            *jobs = jobs.saturating_sub(1);
            *bytes = bytes.saturating_sub(job.bytes);
            if *jobs == 0 {
                self.open_of.remove(&job.view.user);
            }
        }
    }

    /// The refusal of a job of whose content something is missing.
    pub(super) fn missing_content(&self, content: &[BlobRef]) -> Option<Refusal> {
        let missing = content.iter().find(|blob| !self.blobs.has(blob))?;
        Some(content_is_missing(&missing.hash))
    }

    /// Restores the state that the last stop interrupted from the store.
    pub(super) fn restore(&mut self) -> StoreResult<()> {
        self.recall_experience()?;
        for host in self.store.restore_hosts()? {
            self.restore_host(host)?;
        }

        self.restore_site()?;
        self.restore_updates()?;
        self.tell_standings()?;
        self.tell_shares()?;
        for restored in self.store.restore_jobs()? {
            let job = restored.view.job;
            let reason = restored.view.reason.clone();
            self.bring_back(restored)?;
            if let Some(job) = self.jobs.get_mut(&job) {
                job.view.reason = reason;
            }
        }

        Ok(())
    }

    /// Loads a job of the store into memory again, without the reason of its state.
    pub(super) fn bring_back(
        &mut self,
        mut restored: crate::store::RestoredJob,
    ) -> StoreResult<()> {
        let view = restored.view;
        let job = view.job;
        let disclosed = restored.disclosed;
        let mut bag = bag(
            &restored.spec,
            restored.estimates,
            &view.user,
            view.submitted,
            (disclosed, view.open),
            &restored.after,
        );

        match &restored.promised {
            Some(promised) if promised.withdrawn => bag.terms.deadline = None,
            // A job that had ended has kept its promise, or not.
            Some(promised) if !view.state.settled() => {
                restored.progress.promised = Some((promised.made, promised.finish));
            }
            _ => {}
        }

        let entry = UnsettledJob {
            spec: Arc::new(restored.spec),
            view: JobView {
                finished: None,
                reason: None,
                promise: None,
                limits: None,
                ..view
            },
            disclosed,
            bytes: restored.bytes,
            promised: restored.promised,
            foretold: true,
        };
        self.enter(job, entry);

        self.step(Event::JobRestored {
            job,
            bag: Box::new(bag),
            progress: Box::new(restored.progress),
        })
    }

    /// Cancels these tasks of a job (`None`: all) as `user` asked, and returns the number affected.
    pub(super) fn cancel(
        &mut self,
        job: JobId,
        tasks: Option<IdSet>,
        user: String,
    ) -> StoreResult<u64> {
        let Some(before) = self.scheduler.job_counts(job) else {
            return Ok(0);
        };
        self.canceller = user;
        self.step(Event::JobCancelled { job, tasks })?;
        // A job that settles here has left the scheduler: then everything that was open is
        // cancelled.
        let cancelled = |after: TaskCounts| after.cancelled - before.cancelled;
        Ok(self
            .scheduler
            .job_counts(job)
            .map_or(before.total - before.settled(), cancelled))
    }

    /// Removes a settled job with its results; false if the job is not settled.
    pub(super) fn forget(&mut self, job: JobId) -> StoreResult<bool> {
        if self.jobs.contains_key(&job) {
            return Ok(false);
        }

        let kept = self.store.kept_of(job)?;
        let whose = self.store.user_of(job)?;
        if let Some(user) = whose.clone() {
            self.note_event(GridEvent::JobForgotten { job, user });
        }
        self.store.forget_job(job)?;
        self.clears.get_or_insert(self.now);

        self.dropped.remove(&job);
        self.changed.0 = true;
        if let Some(user) = whose.filter(|_| kept > 0) {
            self.unshelve(&user, kept)?;
        }
        Ok(true)
    }

    /// Whether this unsettled job is the user's.
    pub(super) fn is_of(&self, job: JobId, user: &str) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.view.user == user)
    }

    /// The views of the unsettled ones of these jobs. Those in `states` (none given: any) get a
    /// predicted start if they wait, and the first `forecasts` of them a predicted end.
    pub(super) fn live_jobs(
        &self,
        jobs: &IdSet,
        states: &[JobState],
        forecasts: usize,
    ) -> Vec<JobView> {
        let mut views: Vec<JobView> = jobs.iter().filter_map(|id| self.view(JobId(id))).collect();
        let shown = |view: &&mut JobView| states.is_empty() || states.contains(&view.state);

        let told = views.iter_mut().filter(shown).take(forecasts);
        let told: Vec<JobId> = told.map(|view| view.job).collect();
        let predictions = self.scheduler.predict_all(&told, self.now);
        let mut keeping = self.scheduler.keeping_all(&told, self.now);
        for view in views.iter_mut().filter(shown).take(forecasts) {
            view.predicted = predictions.get(&view.job).copied().map(seen);
            view.promise = self.promise_status_by(view.job, keeping.remove(&view.job));
            view.limits = self.limits(view.job);
            view.width = self.width(view.job);
            view.progress = self.part_done(view.job);
        }

        self.say_starts(views.iter_mut().filter(shown));
        views
    }

    /// Every unsettled job: of all users, or of one user with the jobs shared with that user.
    pub(super) fn open_ids(&self, user: Option<&(String, IdSet)>) -> IdSet {
        let visible = |id: &JobId, job: &UnsettledJob| {
            user.is_none_or(|(user, shared)| job.view.user == *user || shared.contains(id.0))
        };
        self.jobs
            .iter()
            .filter(|(id, job)| visible(id, job))
            .map(|(id, _)| id.0)
            .collect()
    }

    /// The unsettled ones of `jobs`.
    pub(super) fn open_of(&self, jobs: &IdSet) -> IdSet {
        if jobs.len() < self.jobs.len() as u64 {
            let asked = jobs.iter();
            return asked
                .filter(|id| self.jobs.contains_key(&JobId(*id)))
                .collect();
        }
        let open = self.jobs.keys().map(|id| id.0);
        open.filter(|id| jobs.contains(*id)).collect()
    }

    /// The job's `JobView` without forecast, promise, limits, start and width.
    fn view(&self, id: JobId) -> Option<JobView> {
        let job = self.jobs.get(&id)?;
        let mut tasks = self.scheduler.job_counts(id).unwrap_or_default();
        if tasks == TaskCounts::default() {
            tasks.total = job.spec.tasks.ids.len();
        }

        let (attempts, duplicates) = self.scheduler.job_attempts(id).unwrap_or_default();
        let mut after = job.view.after.clone();
        self.say_left(id, &mut after);
        Some(JobView {
            after,
            state: self.scheduler.job_state(id).unwrap_or(JobState::Waiting),
            tasks,
            attempts,
            duplicates,
            ..job.view.clone()
        })
    }

    /// The present tasks and attempts of a job; `None` if it is settled.
    pub(super) fn live_job(&self, job: JobId) -> Option<LiveJob> {
        self.jobs.get(&job)?;
        let states = [
            TaskState::Disclosed,
            TaskState::Waiting,
            TaskState::Running,
            TaskState::Suspended,
        ];
        let states = states
            .into_iter()
            .filter_map(|state| Some((state, self.scheduler.tasks_in(job, state)?)))
            .collect();
        let now = self.now;
        let attempts = self
            .scheduler
            .live_attempts(job)
            .map(|live| {
                let words = self.words.get(&live.attempt).cloned();
                (live.attempt, live_attempt(&live, now, words))
            })
            .collect();

        Some(LiveJob {
            states,
            attempts,
            held: self.scheduler.why_held(job),
        })
    }

    /// Explains why the job's tasks wait, and why each host takes none of them. `duplicates` is
    /// left empty: the store fills it in.
    pub(super) fn explain(&self, job: JobId) -> Option<ExplainView> {
        let view = self.view(job)?;
        let share = self.shares().remove(&view.user);
        let view = JobView {
            predicted: self.forecast(job),
            starts: self.starts(job),
            promise: self.promise_status(job),
            limits: self.limits(job),
            width: self.width(job),
            ..view
        };

        let why = self.scheduler.explain_at(job, self.now)?;
        let name = |id| self.host_name(id);
        let held_up = why
            .held_up
            .iter()
            .map(|row| (row.words(&name(row.host)), row.tasks.to_string()));
        let waiting = why
            .tasks
            .into_iter()
            .map(|(reason, tasks)| (reason, tasks.to_string()));
        let waiting = waiting.chain(held_up).collect();

        Some(ExplainView {
            job: view,
            waiting,
            hosts: why
                .hosts
                .into_iter()
                .filter(|(id, _)| !self.is_forgotten(*id))
                .map(|(id, reason)| match self.is_revoked(id) {
                    true => (name(id), REVOKED.to_owned()),
                    false => (name(id), reason),
                })
                .collect(),
            duplicates: Vec::new(),
            share,
        })
    }

    /// Returns the live attempts of the job.
    pub(super) fn running(&self, job: JobId) -> Vec<RunningView> {
        let view = |running: AttemptOutlook| RunningView {
            attempt: running.attempt,
            host: self.host_name(running.host),
            silent: running.silent,
            gone: running.gone,
            copied_in: running.copied_in,
        };
        let all = self.scheduler.running(job, self.now);
        all.into_iter().map(view).collect()
    }

    /// The share of each user who has had tasks lately.
    pub(super) fn shares(&self) -> BTreeMap<String, ShareView> {
        let view = |share: UserShare| {
            let view = ShareView {
                slots: share.slots,
                average: share.average,
                part: share.part,
                due: share.due,
                weight: share.weight,
                most_running: share.most,
            };
            (share.user, view)
        };
        let shares = self.scheduler.user_shares(self.now).into_iter();
        shares.map(view).collect()
    }

    /// Stores the job's view with this state.
    pub(super) fn write_job(
        &mut self,
        id: JobId,
        state: JobState,
        finished: Option<Time>,
    ) -> StoreResult<()> {
        let Some(view) = self.view(id) else {
            return Ok(());
        };
        self.store.update_job(&JobView {
            state,
            finished,
            ..view
        })
    }

    /// The predicted finish of the job as a `Forecast` with its interval.
    fn forecast(&self, id: JobId) -> Option<Forecast> {
        self.scheduler.predict(id, self.now).map(seen)
    }

    /// Whether the job's tasks write checkpoints.
    pub(super) fn saves(&self, job: JobId) -> bool {
        self.jobs
            .get(&job)
            .is_some_and(|job| job.spec.rules.checkpoint)
    }

    /// Whether a checkpoint of this attempt can be of use, and is this host's to save.
    pub(super) fn takes_state(&self, host: HostId, attempt: AttemptId) -> StoreResult<bool> {
        Ok(self.saves(attempt.task.job) && self.store.wants_checkpoint(attempt, host)?)
    }

    /// Keeps a complete checkpoint, if the host was given the attempt and the checkpoint can still
    /// be of use.
    pub(super) fn on_saved(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        saved: Saved,
        blobs: &[BlobHash],
    ) -> StoreResult<()> {
        let saved = Saved {
            taken: self.now,
            ..saved
        };
        if self.takes_state(host, attempt)? {
            let kept = self.store.keep_checkpoint(attempt, &saved, blobs)?;
            let what = if kept {
                "state saved"
            } else {
                "state not kept: the task's has more in it"
            };
            tracing::debug!(%attempt, %host, bytes = saved.bytes, files = saved.files, "{what}");
        }

        Ok(())
    }

    /// Notes that a checkpoint of an attempt was not saved, or not used.
    pub(super) fn on_not_saved(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        why: &str,
        from_scratch: bool,
    ) -> StoreResult<()> {
        if self.takes_state(host, attempt)? {
            tracing::info!(%attempt, %host, why, "state not saved, or not used");
            match from_scratch {
                true => self.store.started_from_scratch(attempt, why)?,
                false => self.store.checkpoint_problem(attempt, why)?,
            }
        }

        Ok(())
    }

    /// The job that this request made, if any.
    pub(crate) fn job_of(&self, request: RequestId) -> StoreResult<Option<JobId>> {
        Ok(self.store.job_of_request(request)?.map(|known| known.job))
    }

    /// The job's record in the store.
    pub(crate) fn stored(&self, job: JobId) -> StoreResult<Option<crate::store::RestoredJob>> {
        self.store.restore_job(job)
    }

    /// The number of unsettled jobs.
    pub(crate) fn open_jobs(&self) -> usize {
        self.jobs.len()
    }
}
