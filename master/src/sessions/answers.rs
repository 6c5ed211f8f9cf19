//! What a client may ask, and the answers: from the core for what lives, from the store for what is
//! over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::host::MAX_HOST_NAME;
use common::identity::{AuditView, IdentityView};
use common::job::CommandSpec;
use common::selector::Selector;
use common::token::Role;
use common::view::{
    AvailabilityView, DuplicateView, EstimatesView, ExplainView, HostView, JobState, JobView,
    OutputView, TaskView, TokenView, Undecided,
};
use common::wire::client::{Reply, Submission};
use common::wire::{Refusal, RefusalCode};
use common::{Asked, AttemptId, BlobRef, HostId, IdSet, JobId, JobSpec, RequestId, Span, Time};
use link::LinkError;
use tokio::sync::watch;
use uuid::Uuid;

use super::views::{self, Listing};
use crate::core::{Core, Judged, Stopped, Submitted, check_spec, content_is_missing};
use crate::limits::Turn;
use crate::run::State;
use crate::store::{Peer, StoreError};

/// So many copies are explained at most, so that the answer fits a message.
const SHOWN_DUPLICATES: u32 = 500;

/// So many entries of the audit log are shown at most.
const MOST_AUDITED: u32 = 10_000;
/// So many undecided results are given out at a time.
const SHOWN_UNDECIDED: usize = 32;

/// A request has so many turns; each one beyond them counts as a request of its own.
const TURNS: u32 = 4;
/// So many jobs are looked at in one turn.
const JOBS_A_TURN: u32 = 100;
/// Looking up so many numbers of jobs costs as much as a request.
const NUMBERS: u64 = 1_000;
/// So many ranges of numbers are looked up one by one; for more, all of a user's jobs are.
const RANGES: usize = 100;
/// Of how many jobs a list says when they are finished. Each takes a walk over all slots and over
/// the jobs ahead of it.
const FORECASTS: usize = 32;

/// So many stretches of a host's availability go into one message.
const RECORDED_PORTION: usize = 1_000;

/// A client that asks, with one request.
pub(super) struct Asker {
    pub(super) user: String,
    id: Uuid,
    role: Role,
    state: Arc<State>,
    /// Turns that the request has had.
    turns: AtomicU32,
}

/// A list of jobs on its way to a client.
pub(super) struct JobListing {
    /// Jobs still to come.
    rest: IdSet,
    /// Only those in these states; none given: all.
    states: Vec<JobState>,
    forecasts: usize,
}

/// Why there is no answer.
pub(super) enum NoAnswer {
    /// The client is told.
    Refused(Refusal),
    /// The client is gone.
    Link(LinkError),
}

impl From<LinkError> for NoAnswer {
    fn from(error: LinkError) -> Self {
        NoAnswer::Link(error)
    }
}

impl From<Stopped> for NoAnswer {
    fn from(stopped: Stopped) -> Self {
        NoAnswer::Refused(stopped.into())
    }
}

impl From<StoreError> for NoAnswer {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store could not be read");
        if let StoreError::Rotten { .. } = &error {
            let hint = "tell the admin (`deskgrid master check` says what else is damaged); other tasks can be had by number";
            return refuse(RefusalCode::Conflict, error.to_string(), hint);
        }
        refuse(
            RefusalCode::Unavailable,
            error.to_string(),
            "see the master's log",
        )
    }
}

pub(super) fn refuse(
    code: RefusalCode,
    what: impl Into<String>,
    hint: impl Into<String>,
) -> NoAnswer {
    NoAnswer::Refused(Refusal::new(code, what, hint))
}

pub(super) fn no_job(job: JobId) -> NoAnswer {
    refuse(
        RefusalCode::NotFound,
        format!("there is no job {job}"),
        "see `deskgrid job list --all`",
    )
}

/// No task of the job has such a number.
fn no_task(job: JobId, number: impl std::fmt::Display) -> NoAnswer {
    let hint = format!("see `deskgrid task list {job}`");
    refuse(
        RefusalCode::NotFound,
        format!("job {job} has no task {number}"),
        hint,
    )
}

/// The tasks of a job that are to be changed. Where one that is named is not there, none is.
pub(super) fn chosen(job: JobId, tasks: &Selector, spec: &JobSpec) -> Result<IdSet, NoAnswer> {
    if let Selector::Ids(ids) = tasks {
        let mut missing = ids.clone();
        missing.subtract(&spec.tasks.ids);
        if let Some(first) = missing.first() {
            return Err(no_task(job, first));
        }
    }
    Ok(tasks.pick(&spec.tasks.ids))
}

impl Asker {
    pub(super) fn new(state: Arc<State>, peer: &Peer) -> Self {
        Self {
            user: peer.name.clone(),
            id: peer.id,
            role: peer.role,
            state,
            turns: AtomicU32::new(0),
        }
    }

    /// What every session needs.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Waits until this user may ask again.
    pub(super) async fn pace(&self) {
        let wait = self.state.counters.pace(self.id, self.state.clock.now());
        if wait > Span::ZERO {
            tokio::time::sleep(wait.into()).await;
        }
    }

    /// The right to ask the core or the store once: a request that asks often waits as many
    /// requests would.
    async fn turn(&self) -> Turn {
        if self.turns.fetch_add(1, Ordering::Relaxed) >= TURNS {
            self.pace().await;
        }
        self.state.counters.gate.enter(self.id).await
    }

    /// The right to have one answer on its way.
    pub(super) async fn answer_turn(&self) -> Turn {
        self.state.counters.answers.enter(self.id).await
    }

    /// Writes into the audit log what was refused.
    pub(super) fn refused(&self, what: &'static str, subject: &str, why: &str) {
        self.state.refused(&self.user, what, subject, why);
    }

    /// Counters of changed and of settled jobs.
    pub(super) fn counters(&self) -> (watch::Receiver<u64>, watch::Receiver<u64>) {
        (
            self.state.core.changed.clone(),
            self.state.core.settled.clone(),
        )
    }

    pub(super) async fn core<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let _turn = self.turn().await;
        Ok(self.state.core.ask(work).await?)
    }

    /// Reads the store beside the core, on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&crate::store::Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let reader = self.state.reader.clone();
        let _turn = self.turn().await;
        match tokio::task::spawn_blocking(move || work(&reader)).await {
            Ok(read) => Ok(read?),
            Err(_) => Err(Stopped.into()),
        }
    }

    pub(super) fn only_admins(&self, what: &str) -> Result<(), NoAnswer> {
        match self.role {
            Role::Admin => Ok(()),
            role => {
                let hint = "an admin identity lies in the master's own state directory";
                Err(refuse(
                    RefusalCode::NotAuthorised,
                    format!("{what} needs the role admin, not {role}"),
                    hint,
                ))
            }
        }
    }

    pub(super) async fn welcome(&self, version: u16) -> Result<Reply, NoAnswer> {
        let (incarnation, now) = self
            .core(|core| Ok((core.incarnation(), core.now())))
            .await?;
        Ok(Reply::Welcome {
            version,
            role: self.role,
            user: self.user.clone(),
            incarnation,
            now,
        })
    }

    /// Takes a job; what is only disclosed waits for nobody.
    pub(super) async fn submit(
        &self,
        id: RequestId,
        spec: Submission,
        (disclosed, dry_run): (bool, bool),
    ) -> Result<Reply, NoAnswer> {
        let (spec, asked) = match spec {
            Submission::Inline(spec, asked) => (*spec, asked),
            Submission::Blob(blob) => self.described(blob).await?,
        };

        // A long list takes its time to look through: not on the core's.
        let looked =
            tokio::task::spawn_blocking(move || check_spec(&spec, &asked).map(|()| (spec, asked)))
                .await;

        let (spec, asked) = looked.map_err(|_| Stopped)?.map_err(NoAnswer::Refused)?;
        let spec = self.names_only_ones_own(spec).await?;
        let user = self.user.clone();
        let tasks = spec.tasks.ids.len();
        let submitted = self
            .core(move |core| core.submit(id, &user, (spec, asked), (disclosed, dry_run)))
            .await?
            .map_err(NoAnswer::Refused)?;
        let Submitted {
            job,
            again,
            predicted,
            promise,
            limits,
            width,
        } = submitted;

        Ok(match promise {
            Ok(promise) => {
                let width = width.map(Box::new);
                Reply::Submitted {
                    job,
                    tasks,
                    again,
                    predicted,
                    promise,
                    limits,
                    width,
                }
            }
            Err(counter) => Reply::NotPromised(counter),
        })
    }

    /// The job, if all content that it names was sent by its user, or is in a job that the user may
    /// see.
    async fn names_only_ones_own(&self, spec: JobSpec) -> Result<JobSpec, NoAnswer> {
        let Some(user) = self.only_own() else {
            return Ok(spec);
        };
        if spec
            .work
            .command()
            .is_none_or(|command| command.blobs().next().is_none())
        {
            return Ok(spec);
        }

        let looked = self.read(move |reader| {
            let blobs = spec.work.command().into_iter().flat_map(CommandSpec::blobs);
            reader.not_to_name(&user, blobs).map(|other| (spec, other))
        });
        match looked.await? {
            (spec, None) => Ok(spec),
            (_, Some(BlobRef { hash, .. })) => {
                self.refused(
                    "submit",
                    &format!("content {hash}"),
                    "this user has not sent it, and may see no job with it",
                );
                Err(NoAnswer::Refused(content_is_missing(&hash)))
            }
        }
    }

    /// What a client has put here to describe a job.
    async fn described(&self, blob: BlobRef) -> Result<(JobSpec, Asked), NoAnswer> {
        self.fits(blob.size)?;
        let path = self.state.blobs.path_of(&blob.hash);
        let missing = |_: std::io::Error| {
            refuse(
                RefusalCode::Conflict,
                "the submission's content is not here",
                "submit again",
            )
        };

        // Its size there is the one that was looked at: what is read is never longer.
        let named = match self.only_own() {
            Some(user) => {
                self.read(move |reader| reader.may_name(&user, &blob.hash))
                    .await?
            }
            None => true,
        };
        if !named || !self.state.blobs.has(&blob) {
            return Err(missing(std::io::ErrorKind::NotFound.into()));
        }

        let bytes = tokio::fs::read(&path).await.map_err(missing)?;
        let broken = |e: postcard::Error| {
            refuse(
                RefusalCode::Invalid,
                format!("the submission is broken: {e}"),
                "",
            )
        };
        postcard::from_bytes(&bytes).map_err(broken)
    }

    /// Whether the spec of a job may be of this size.
    fn fits(&self, bytes: u64) -> Result<(), NoAnswer> {
        let most = self.state.config.limits.spec_bytes;
        if bytes <= most {
            return Ok(());
        }
        let what = format!("the job's description takes {bytes} bytes: this master takes {most}");
        Err(refuse(
            RefusalCode::Invalid,
            what,
            "submit it in parts, or ask the admin to raise limits.spec_bytes",
        ))
    }

    /// Whose jobs the client may see; none: everybody's.
    pub(super) fn only_own(&self) -> Option<String> {
        (self.role != Role::Admin).then(|| self.user.clone())
    }

    /// The jobs that are meant, of those that the client may see. Naming one that is not there is
    /// an error.
    pub(super) async fn pick(&self, jobs: &Selector) -> Result<IdSet, NoAnswer> {
        self.pick_of(jobs, true).await
    }

    /// The jobs that are meant, of the client's own (an admin's are all). Naming another is an
    /// error.
    pub(super) async fn pick_own(&self, jobs: &Selector) -> Result<IdSet, NoAnswer> {
        self.pick_of(jobs, false).await
    }

    async fn pick_of(&self, jobs: &Selector, shared: bool) -> Result<IdSet, NoAnswer> {
        let user = self.only_own();
        let named = jobs.clone();
        let there = self.read(move |reader| match named {
            Selector::Ids(ids) if ids.ranges().count() <= RANGES => {
                reader.job_ids_of(&ids, user.as_deref(), shared)
            }
            _ => reader.job_ids(user.as_deref(), shared),
        });
        let there = there.await?;
        for _ in 0..there.len() / NUMBERS {
            self.pace().await;
        }

        let picked = jobs.pick(&there);
        let missing = match jobs {
            Selector::Ids(ids) => {
                let mut missing = ids.clone();
                missing.subtract(&picked);
                missing.first()
            }
            Selector::All => None,
            Selector::Last if picked.is_empty() => {
                return Err(refuse(
                    RefusalCode::NotFound,
                    "there is no job yet",
                    "submit one: deskgrid submit -- COMMAND",
                ));
            }
            Selector::Last => None,
        };

        match missing {
            None => Ok(picked),
            Some(id) => Err(self.not_ones_own(JobId(id)).await?),
        }
    }

    /// Why a job is not one of the client's: it is shared with the client, or there is none, as far
    /// as the client can tell.
    async fn not_ones_own(&self, job: JobId) -> Result<NoAnswer, NoAnswer> {
        let user = self.only_own();
        let this = IdSet::from_range(job.0, job.0);
        let visible = !self
            .read(move |reader| reader.job_ids_of(&this, user.as_deref(), true))
            .await?
            .is_empty();
        if !visible && self.read(move |reader| reader.job(job)).await?.is_none() {
            return Ok(no_job(job));
        }

        self.refused("job", &format!("job {job}"), "it is another user's");
        if !visible {
            return Ok(no_job(job));
        }

        let what = format!("job {job} is shared with you to look at: it is not yours to change");
        Ok(refuse(
            RefusalCode::NotAuthorised,
            what,
            "ask its owner, or an admin",
        ))
    }

    async fn pick_one(&self, job: JobId) -> Result<(), NoAnswer> {
        self.pick(&Selector::Ids(IdSet::from_range(job.0, job.0)))
            .await
            .map(drop)
    }

    pub(super) async fn pick_own_one(&self, job: JobId) -> Result<(), NoAnswer> {
        self.pick_own(&Selector::Ids(IdSet::from_range(job.0, job.0)))
            .await
            .map(drop)
    }

    /// Those of these jobs that are not settled.
    pub(super) async fn open_of(&self, jobs: &IdSet) -> Result<IdSet, NoAnswer> {
        let jobs = jobs.clone();
        self.core(move |core| Ok(core.open_of(&jobs))).await
    }

    /// What is needed to list jobs, some at a time. An empty selection means those that are not
    /// settled.
    pub(super) async fn job_listing(
        &self,
        jobs: &Selector,
        states: Vec<JobState>,
    ) -> Result<JobListing, NoAnswer> {
        let rest = match jobs {
            Selector::Ids(ids) if ids.is_empty() => {
                let visible = match self.only_own() {
                    None => None,
                    Some(user) => {
                        let of = user.clone();
                        Some((
                            user,
                            self.read(move |reader| reader.shared_with(&of)).await?,
                        ))
                    }
                };
                self.core(move |core| Ok(core.open_ids(visible.as_ref())))
                    .await?
            }
            _ => self.pick(jobs).await?,
        };

        Ok(JobListing::new(rest, states))
    }

    /// The next jobs of a listing as they are now, with forecasts of the first of all; none after
    /// the last.
    pub(super) async fn next_jobs(
        &self,
        listing: &mut JobListing,
    ) -> Result<Option<Vec<JobView>>, NoAnswer> {
        if listing.rest.is_empty() {
            return Ok(None);
        }

        let picked: IdSet = listing.rest.iter().take(JOBS_A_TURN as usize).collect();
        listing.rest.subtract(&picked);

        let mut settled = picked.clone();
        let wanted = listing.states.clone();
        let most = listing.forecasts;
        let mut views = self
            .core(move |core| Ok(core.live_jobs(&picked, &wanted, most)))
            .await?;
        settled.subtract(&views.iter().map(|view| view.job.0).collect());
        listing.forecasts -= views
            .iter()
            .filter(|view| view.predicted.is_some())
            .count()
            .min(listing.forecasts);

        if !settled.is_empty() {
            let settled = self.read(move |reader| {
                settled
                    .iter()
                    .filter_map(|id| reader.job(JobId(id)).transpose())
                    .collect()
            });
            let settled: Vec<JobView> = settled.await?;
            views.extend(settled);
            views.sort_unstable_by_key(|view| view.job);
        }

        views.retain(|view| listing.states.is_empty() || listing.states.contains(&view.state));
        Ok(Some(views))
    }

    /// What is needed to list tasks of a job, portion by portion.
    pub(super) async fn listing(&self, job: JobId, tasks: &Selector) -> Result<Listing, NoAnswer> {
        self.pick_one(job).await?;
        let spec = self.spec(job).await?;
        let picked = tasks.pick(&spec.tasks.ids);
        if let (Selector::Ids(ids), true) = (tasks, picked.is_empty()) {
            return Err(no_task(job, ids));
        }
        let (live, names) = self
            .core(move |core| Ok((core.live_job(job), core.host_names())))
            .await?;
        let settled = self.read(move |reader| reader.settled(job)).await?;
        let disclosure = self.read(move |reader| reader.disclosure(job)).await?;
        Ok(Listing::new(job, spec, picked, live, settled, names).disclosed(disclosure))
    }

    /// The next tasks of a listing; none after the last.
    pub(super) async fn next_tasks(
        &self,
        listing: &mut Listing,
    ) -> Result<Option<Vec<TaskView>>, NoAnswer> {
        let Some(portion) = listing.next_portion() else {
            return Ok(None);
        };
        let job = listing.job();
        let rows = self
            .read(move |reader| {
                views::attempts_of(reader, job, &portion).map(|rows| (portion, rows))
            })
            .await?;

        Ok(Some(listing.tasks(&rows.0, rows.1)))
    }

    /// The next outputs of a listing; none after the last.
    pub(super) async fn next_outputs(
        &self,
        listing: &mut Listing,
    ) -> Result<Option<Vec<OutputView>>, NoAnswer> {
        let Some(portion) = listing.next_portion() else {
            return Ok(None);
        };
        let job = listing.job();
        let rows = self
            .read(move |reader| views::attempts_of(reader, job, &portion))
            .await?;
        Ok(Some(listing.outputs(rows)?))
    }

    /// Results that wait for a program of the user's.
    pub(super) async fn undecided(&self, job: JobId) -> Result<Vec<Undecided>, NoAnswer> {
        let listing = self.listing(job, &Selector::All).await?;
        let waiting = self
            .core(move |core| Ok(core.undecided(job, SHOWN_UNDECIDED)))
            .await?;
        let mut all = Vec::new();

        for (attempt, with) in waiting {
            let tasks = IdSet::from_range(attempt.task.index, attempt.task.index);
            let rows = self
                .read(move |reader| views::attempts_of(reader, job, &tasks))
                .await?;
            let rows = rows.into_values().flatten();
            let outputs: Vec<OutputView> = rows
                .map(|row| listing.output_of(row))
                .collect::<Result<_, StoreError>>()?;
            let of = |wanted: AttemptId| {
                outputs
                    .iter()
                    .find(|output| output.attempt == wanted)
                    .cloned()
            };
            if let Some(result) = of(attempt) {
                all.push(Undecided {
                    result,
                    others: with.into_iter().filter_map(of).collect(),
                });
            }
        }

        Ok(all)
    }

    pub(super) async fn judge(
        &self,
        attempt: AttemptId,
        agrees: Vec<u32>,
    ) -> Result<Reply, NoAnswer> {
        let job = attempt.task.job;
        self.pick_own_one(job).await?;
        let judged = self.core(move |core| core.judge(attempt, agrees)).await?;
        Ok(Reply::Changed(vec![(job, u64::from(judged))]))
    }

    pub(super) async fn cancel(
        &self,
        jobs: &Selector,
        tasks: Option<Selector>,
    ) -> Result<Reply, NoAnswer> {
        let picked = self.pick_own(jobs).await?;
        let open = self.open_of(&picked).await?;
        let mut which = BTreeMap::new();

        if let Some(tasks) = &tasks {
            // Of all jobs those are meant that have such tasks; one that is named has them, or
            // nothing is cancelled at all.
            let all = matches!(jobs, Selector::All);
            for id in if all { &open } else { &picked }.iter().map(JobId) {
                let spec = self.spec(id).await?;
                let chosen = if all {
                    tasks.pick(&spec.tasks.ids)
                } else {
                    chosen(id, tasks, &spec)?
                };
                which.insert(id, chosen);
            }
        }

        let mut changed = Vec::new();
        for id in picked.iter().map(JobId) {
            // Where everything is settled there is nothing to cancel.
            let count = match (open.contains(id.0), which.remove(&id)) {
                (true, of) => self.core(move |core| core.cancel(id, of)).await?,
                (false, _) => 0,
            };
            changed.push((id, count));
        }

        Ok(Reply::Changed(changed))
    }

    pub(super) async fn spec(&self, job: JobId) -> Result<JobSpec, NoAnswer> {
        self.read(move |reader| reader.spec(job))
            .await?
            .ok_or_else(|| no_job(job))
    }

    pub(super) async fn retry(
        &self,
        job: JobId,
        tasks: Selector,
        only_failed: bool,
    ) -> Result<Reply, NoAnswer> {
        self.pick_own_one(job).await?;
        let spec = self.spec(job).await?;
        if spec.work.ranks().is_some() {
            let what = format!(
                "no rank of job {job} is of use without the others: they cannot be tried again alone"
            );
            return Err(refuse(RefusalCode::Conflict, what, "submit it again"));
        }

        let tasks = chosen(job, &tasks, &spec)?;
        let count = self
            .core(move |core| core.retry(job, &tasks, only_failed))
            .await?;
        Ok(Reply::Changed(vec![(job, count)]))
    }

    pub(super) async fn forget(&self, jobs: &Selector) -> Result<Reply, NoAnswer> {
        let picked = self.pick_own(jobs).await?;
        // By number, a job that is not settled is an error; `all` means all that can be forgotten.
        let open = self.open_of(&picked).await?;
        if let (Some(job), false) = (open.first().map(JobId), matches!(jobs, Selector::All)) {
            let hint = format!("cancel it first: deskgrid job cancel {job}");
            return Err(refuse(
                RefusalCode::Conflict,
                format!("job {job} is not settled"),
                hint,
            ));
        }

        let mut changed = Vec::new();
        for id in picked.iter().map(JobId) {
            if self.core(move |core| core.forget(id)).await? {
                changed.push((id, 1));
            }
        }

        Ok(Reply::Changed(changed))
    }

    pub(super) async fn hosts_wait(&self, hosts: u32) -> Result<Reply, NoAnswer> {
        Ok(Reply::HostsWait(
            self.core(move |core| Ok(core.hosts_wait(hosts))).await?,
        ))
    }

    pub(super) async fn explain(&self, job: JobId) -> Result<Reply, NoAnswer> {
        self.pick_one(job).await?;
        if let Some((mut view, names)) = self
            .core(move |core| Ok(core.explain(job).zip(Some(core.host_names()))))
            .await?
        {
            let names: BTreeMap<HostId, String> = names.into_iter().collect();
            let named = |(attempt, host, why): (AttemptId, HostId, String)| {
                let host = names
                    .get(&host)
                    .cloned()
                    .unwrap_or_else(|| host.to_string());
                DuplicateView { attempt, host, why }
            };

            let live = self
                .read(move |reader| reader.live_duplicates(job, SHOWN_DUPLICATES))
                .await?;
            view.duplicates = live.into_iter().map(named).collect();
            return Ok(Reply::Explained(Box::new(view)));
        }

        let job = self
            .read(move |reader| reader.job(job))
            .await?
            .ok_or_else(|| no_job(job))?;
        let waiting = Vec::new();
        let hosts = Vec::new();
        let duplicates = Vec::new();

        Ok(Reply::Explained(Box::new(ExplainView {
            job,
            waiting,
            hosts,
            duplicates,
        })))
    }

    /// Whose account is looked at: the client's own, or for an admin this user's or, where none is
    /// named, everybody's.
    pub(super) fn account_of(&self, user: Option<String>) -> Result<Option<String>, NoAnswer> {
        match (self.only_own(), user) {
            (Some(own), Some(other)) if own != other => {
                self.only_admins("looking at another user's account")?;
                Ok(Some(other))
            }
            (own, wanted) => Ok(wanted.or(own)),
        }
    }

    /// How good estimates were: the client's own, or for an admin those of this user or of all.
    pub(super) async fn estimates(
        &self,
        user: Option<String>,
    ) -> Result<Vec<EstimatesView>, NoAnswer> {
        let user = self.account_of(user)?;
        self.core(move |core| Ok(core.estimates(user.as_deref())))
            .await
    }

    pub(super) async fn hosts(&self, names: Vec<String>) -> Result<Vec<HostView>, NoAnswer> {
        let user = self.only_own();
        let views = self.core(move |core| {
            Ok(core.host_views(&names).map(|mut views| {
                for view in &mut views {
                    if let Some(user) = &user {
                        core.only_own(view, user);
                    }
                }
                views
            }))
        });
        views.await?.map_err(|name| no_host(&name))
    }

    /// The hosts whose availability is asked for.
    pub(super) async fn recorded_hosts(
        &self,
        names: Vec<String>,
    ) -> Result<Vec<HostView>, NoAnswer> {
        self.only_admins("reading how hosts were available")?;
        self.hosts(names).await
    }

    /// Some of what is recorded of a host between two times, and from when on to ask for more.
    pub(super) async fn availability(
        &self,
        host: &HostView,
        since: Time,
        until: Time,
    ) -> Result<(AvailabilityView, Option<Time>), NoAnswer> {
        let id = host.id;
        let (known_since, stretches) = self
            .read(move |reader| reader.availability(id, since, until, RECORDED_PORTION))
            .await?;
        let next = stretches
            .last()
            .map(|last| last.end)
            .filter(|_| stretches.len() >= RECORDED_PORTION);
        let connected = host.cpu_availability.is_some();
        let (host, speed) = (host.facts.name.clone(), host.facts.speed);

        Ok((
            AvailabilityView {
                host,
                speed,
                known_since,
                connected,
                stretches,
            },
            next,
        ))
    }

    pub(super) async fn drain(
        &self,
        host: String,
        draining: bool,
    ) -> Result<Vec<HostView>, NoAnswer> {
        self.only_admins("draining a host")?;
        let drained = self.core(move |core| match core.find_host(&host) {
            None => Ok(Err(host)),
            Some(id) => {
                core.drain(id, draining)?;
                Ok(core.host_views(&[host]))
            }
        });
        drained.await?.map_err(|name| no_host(&name))
    }

    pub(super) async fn own(
        &self,
        host: String,
        owner: Option<String>,
    ) -> Result<Vec<HostView>, NoAnswer> {
        self.only_admins("saying whose a host is")?;
        if owner
            .as_ref()
            .is_some_and(|owner| owner.is_empty() || owner.len() > MAX_HOST_NAME)
        {
            return Err(refuse(
                RefusalCode::Invalid,
                format!("an owner's name has 1 to {MAX_HOST_NAME} bytes"),
                "",
            ));
        }

        let owned = self.core(move |core| match core.find_host(&host) {
            None => Ok(Err(host)),
            Some(id) => {
                core.own(id, owner)?;
                Ok(core.host_views(&[host]))
            }
        });
        owned.await?.map_err(|name| no_host(&name))
    }

    pub(super) async fn create_token(
        &self,
        (role, ttl, uses): (Role, Span, u32),
        name: String,
        approval: bool,
    ) -> Result<Reply, NoAnswer> {
        self.only_admins("making a join token")?;
        if uses == 0 || ttl == Span::ZERO {
            return Err(refuse(
                RefusalCode::Invalid,
                "a token needs at least one use and some time to live",
                "",
            ));
        }

        let hash = self.state.ca_key_hash;
        let by = self.user.clone();
        let made =
            self.core(move |core| core.create_token(&by, (role, ttl, uses), &name, approval, hash));
        let (token, view) = made.await?;
        Ok(Reply::Token(token, view, self.state.known_as.clone()))
    }

    pub(super) async fn tokens(&self) -> Result<Vec<TokenView>, NoAnswer> {
        self.only_admins("listing join tokens")?;
        self.core(|core| core.tokens()).await
    }

    pub(super) async fn revoke_token(&self, id: u32) -> Result<Reply, NoAnswer> {
        self.only_admins("revoking a join token")?;
        let by = self.user.clone();
        if !self.core(move |core| core.revoke_token(&by, id)).await? {
            return Err(refuse(
                RefusalCode::NotFound,
                format!("there is no token {id}"),
                "see `deskgrid token list`",
            ));
        }

        let tokens = self.tokens().await?;
        Ok(Reply::Tokens(
            tokens.into_iter().filter(|token| token.id == id).collect(),
        ))
    }
}

impl JobListing {
    pub(super) fn new(rest: IdSet, states: Vec<JobState>) -> Self {
        Self {
            rest,
            states,
            forecasts: FORECASTS,
        }
    }
}

impl Asker {
    pub(super) async fn identities(
        &self,
        names: Vec<String>,
    ) -> Result<Vec<IdentityView>, NoAnswer> {
        self.only_admins("listing identities")?;
        let found = self
            .core(move |core| core.identities(&names))
            .await?
            .map_err(|name| nobody(&name))?;
        let counted = |(id, view)| IdentityView {
            connections: self.state.live.count(id),
            ..view
        };

        Ok(found.into_iter().map(counted).collect())
    }

    pub(super) async fn approve(&self, name: String) -> Result<Vec<IdentityView>, NoAnswer> {
        self.only_admins("approving an identity")?;
        let by = self.user.clone();
        let of = name.clone();
        match self.core(move |core| core.approve(&by, &of)).await? {
            Judged::Done(_) => self.identities(vec![name]).await,
            Judged::Nobody => Err(nobody(&name)),
        }
    }

    /// Durable first, so that nobody comes in again; then whoever is in is put out.
    pub(super) async fn revoke(&self, name: String) -> Result<Vec<IdentityView>, NoAnswer> {
        self.only_admins("revoking an identity")?;
        if name == self.user {
            let hint = "another admin can: deskgrid token create --role admin";
            return Err(refuse(
                RefusalCode::Conflict,
                "nobody can revoke the identity that asks",
                hint,
            ));
        }

        let by = self.user.clone();
        let of = name.clone();
        match self.core(move |core| core.revoke(&by, &of)).await? {
            Judged::Done(peer) => {
                let closed = self.state.live.close(peer.id, "this identity was revoked");
                tracing::info!(name, closed, "connections closed");
                self.identities(vec![name]).await
            }
            Judged::Nobody => Err(nobody(&name)),
        }
    }

    pub(super) async fn share(
        &self,
        jobs: &Selector,
        user: String,
        on: bool,
    ) -> Result<Reply, NoAnswer> {
        let picked = self.pick_own(jobs).await?;
        let by = self.user.clone();
        let with = user.clone();
        let changed = self
            .core(move |core| core.share(&by, &picked, &with, on))
            .await?;
        let unknown = || {
            let hint = "a user's name is what `deskgrid login` answered there";
            refuse(
                RefusalCode::NotFound,
                format!("there is no user `{user}`"),
                hint,
            )
        };
        changed.map(Reply::Changed).ok_or_else(unknown)
    }

    pub(super) async fn audit_log(&self, most: u32) -> Result<Vec<AuditView>, NoAnswer> {
        self.only_admins("reading the audit log")?;
        let repeats = self.state.counters.repeats(self.state.clock.now());
        self.core(move |core| core.audit_all(&repeats)).await?;
        self.read(move |reader| reader.audit(most.min(MOST_AUDITED)))
            .await
    }
}

fn nobody(name: &str) -> NoAnswer {
    refuse(
        RefusalCode::NotFound,
        format!("nobody is called `{name}`"),
        "see `deskgrid identity list`",
    )
}

fn no_host(name: &str) -> NoAnswer {
    refuse(
        RefusalCode::NotFound,
        format!("there is no host `{name}`"),
        "see `deskgrid host list`",
    )
}
