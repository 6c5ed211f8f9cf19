//! Answers about jobs and their tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::needs::{BadNeeds, Label, MAX_LABELS};
use common::selector::{Selector, beyond};
use common::token::Role;
use common::units::Bytes;
use common::view::{JobState, JobView};
use common::wire::RefusalCode;
use common::wire::client::{Addition, Reply, Submission};
use common::{AttemptId, BlobRef, IdSet, JobId, JobSpec, RequestId, SubmitOptions};

use api::Turn;
use serde::de::DeserializeOwned;

use crate::core::ask::{HostAsk, JobAsk, Submitting};
use crate::core::{
    AddReply, Adding, NoReply, SubmitReply, check_addition, check_spec, content_is_missing,
};

use super::super::rights::Right;
use super::super::views::Listing;
use super::{Answered, Asker, JOBS_A_TURN, NoAnswer, no_job, refuse};

/// The most jobs in a listing that get a forecast of their end. Each forecast walks over all slots
/// and over the jobs ahead of it.
const FORECASTS: usize = 32;
/// The count of job numbers whose lookup costs as much as one request.
const NUMBERS: u64 = 1_000;
/// The most ranges of numbers that are looked up one by one; for more, all of a user's jobs are
/// read.
const RANGES: usize = 100;

/// A listing of jobs on its way to a client.
pub(in crate::sessions) struct JobListing {
    /// Jobs still to come.
    rest: IdSet,
    /// The states to show; empty means all.
    states: Vec<JobState>,
    forecasts: usize,
}

/// The refusal for labels that no job has all of.
fn no_label(labels: &BTreeSet<Label>) -> NoAnswer {
    let names: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    let what = match &names[..] {
        [one] => format!("there is no job with the label {one}"),
        all => format!("there is no job with all of the labels {}", all.join(", ")),
    };
    refuse(RefusalCode::NotFound, what, "see `deskgrid job list --all`")
}

/// Refuses more labels than a job can have.
pub(in crate::sessions) fn few_labels(jobs: &Selector) -> Answered<()> {
    match jobs {
        Selector::Labelled(labels) if labels.len() > MAX_LABELS => {
            let what = BadNeeds::TooManyLabels(labels.len()).to_string();
            Err(refuse(RefusalCode::Invalid, what, "no job has so many"))
        }
        _ => Ok(()),
    }
}

/// The refusal for a task number that the job does not have.
fn no_task(job: JobId, number: impl std::fmt::Display) -> NoAnswer {
    let hint = format!("see `deskgrid task list {job}`");
    refuse(
        RefusalCode::NotFound,
        format!("job {job} has no task {number}"),
        hint,
    )
}

/// The tasks of a job that are to be changed. If one that is named does not exist, none is changed.
pub(in crate::sessions) fn chosen(job: JobId, tasks: &Selector, spec: &JobSpec) -> Answered<IdSet> {
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
    /// Takes a job. The tasks of a disclosed one are submitted, but nobody waits for them yet.
    pub(in crate::sessions) async fn submit(
        &self,
        id: RequestId,
        spec: Submission,
        disclosed: bool,
        dry_run: bool,
    ) -> Answered<Reply> {
        let ((spec, asked), turn) = match spec {
            Submission::Inline(spec, asked) => ((*spec, asked), None),
            Submission::Blob(blob) => {
                let (described, turn) = self.described(blob).await?;
                (described, Some(turn))
            }
        };

        // A long list takes long to check, so that happens off the core's thread. It goes on where the
        // client is gone, and keeps its turn meanwhile.
        let looked = tokio::task::spawn_blocking(move || {
            check_spec(&spec, &asked)?;
            let content = spec.content();
            Ok((spec, content, asked, turn))
        });
        let (spec, content, asked, _turn) = looked
            .await
            .map_err(|_| NoReply::Stopped)?
            .map_err(NoAnswer::Refused)?;
        let content = self.names_only_ones_own(content).await?;
        let hidden = self.hidden(&asked).await?;
        let tasks = spec.tasks.ids.len();
        let submitted: Box<Result<_, _>> = self
            .core(JobAsk::Submit(Box::new(Submitting {
                request: id,
                user: self.user.clone(),
                spec,
                content,
                asked,
                hidden,
                disclosed,
                dry_run,
            })))
            .await?;
        let SubmitReply {
            job,
            again,
            predicted,
            promise,
            limits,
            width,
            nowhere,
        } = submitted.map_err(NoAnswer::Refused)?;

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
                    nowhere,
                }
            }
            Err(counter) => Reply::NotPromised(counter),
        })
    }

    /// The jobs among those that a submission is to come after which the client may not see.
    async fn hidden(&self, asked: &SubmitOptions) -> Answered<IdSet> {
        let named: IdSet = asked.after.iter().map(|after| after.job.0).collect();
        let Some(user) = self.only_own().filter(|_| !named.is_empty()) else {
            return Ok(IdSet::new());
        };
        let mut hidden = named.clone();
        let visible = self.read(move |reader| reader.job_ids_of(&named, Some(&user), true));
        hidden.subtract(&visible.await?);
        Ok(hidden)
    }

    /// Adds tasks to an open job of the client's.
    pub(in crate::sessions) async fn add_tasks(
        &self,
        id: RequestId,
        job: JobId,
        tasks: Addition,
        dry_run: bool,
    ) -> Answered<Reply> {
        self.pick_one(job).await?;
        let (tasks, turn) = match tasks {
            Addition::Inline(tasks) => (tasks, None),
            Addition::Blob(blob) => {
                let (tasks, turn) = self.described(blob).await?;
                (tasks, Some(turn))
            }
        };

        // Off the core's thread, as with a submission. A job that takes no tasks is refused by the core,
        // which knows whether this request was made before.
        let open: Option<Box<JobSpec>> = self.core(JobAsk::OpenTo(job)).await?;
        let checked = tokio::task::spawn_blocking(move || {
            let checked = open.map_or(Ok(()), |spec| check_addition(&spec, &tasks));
            checked.map(|()| (tasks, turn))
        });
        let (tasks, _turn) = checked
            .await
            .map_err(|_| NoReply::Stopped)?
            .map_err(NoAnswer::Refused)?;

        let added: Result<AddReply, _> = self
            .core(JobAsk::Add(Box::new(Adding {
                request: id,
                user: self.user.clone(),
                job,
                tasks,
                dry_run,
            })))
            .await?;
        let AddReply { ids, total, again } = added.map_err(NoAnswer::Refused)?;
        let first = ids.first().unwrap_or_default();
        let last = ids.ranges().last().map_or(first, |(_, last)| last);
        Ok(Reply::Added {
            job,
            range: (first, last),
            tasks: ids.len(),
            total,
            again,
        })
    }

    /// Closes open jobs of the client's.
    pub(in crate::sessions) async fn close(&self, jobs: &Selector) -> Answered<Reply> {
        let picked = self.pick(jobs).await?;
        let mut changed = Vec::new();
        for job in picked.iter().map(JobId) {
            let left: Option<u64> = self.core(JobAsk::Close(job)).await?;
            changed.extend(left.map(|left| (job, left)));
        }

        if let (true, Selector::Ids(_) | Selector::Last) = (changed.is_empty(), jobs) {
            let what = match picked.first().filter(|_| picked.len() == 1) {
                Some(job) => format!("job {job} is not open"),
                None => "none of these jobs is open".to_owned(),
            };
            let hint = "only a job that was submitted with --open can be closed, once";
            return Err(refuse(RefusalCode::Conflict, what, hint));
        }
        Ok(Reply::Changed(changed))
    }

    /// Returns the content of a job if all of it was sent by its user, or is in a job that the user may
    /// see.
    async fn names_only_ones_own(&self, content: Vec<BlobRef>) -> Answered<Vec<BlobRef>> {
        let Some(user) = self.only_own().filter(|_| !content.is_empty()) else {
            return Ok(content);
        };

        let looked = self.read(move |reader| {
            let other = reader.not_to_name(&user, content.iter().copied())?;
            Ok((content, other))
        });
        match looked.await? {
            (content, None) => Ok(content),
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

    /// Reads a job's description, or what is added to one, that a client has uploaded as a blob. Its
    /// memory is taken for as long as the turn that is returned with it.
    async fn described<T>(&self, blob: BlobRef) -> Answered<(T, Turn)>
    where
        T: DeserializeOwned + Send + 'static,
    {
        self.fits(blob.size)?;
        let missing = || {
            let what = "the submission's content is not here";
            refuse(RefusalCode::Conflict, what, "submit again")
        };

        let named = match self.only_own() {
            Some(user) => {
                self.read(move |reader| reader.may_name(&user, &blob.hash))
                    .await?
            }
            None => true,
        };
        if !named {
            return Err(missing());
        }

        let turn = self.state.counters.descriptions.enter(self.id).await;
        let brought = self.state.blobs.bring(&self.state.core, blob.hash).await;
        let held = brought.map_err(NoAnswer::Refused)?;
        let path = self.state.blobs.local().path_of(&blob.hash);
        let read = tokio::task::spawn_blocking(move || {
            let _held = held;
            // What is read is not longer than the size that was checked.
            let there = std::fs::metadata(&path).is_ok_and(|meta| meta.len() == blob.size);
            let bytes = if there {
                std::fs::read(&path).ok()
            } else {
                None
            };
            bytes.map(|bytes| (postcard::from_bytes(&bytes), turn))
        });

        let (described, turn) = read
            .await
            .map_err(|_| NoReply::Stopped)?
            .ok_or_else(missing)?;
        let broken = |e: postcard::Error| {
            let what = format!("the submission is broken: {e}");
            refuse(RefusalCode::Invalid, what, "")
        };
        Ok((described.map_err(broken)?, turn))
    }

    /// Refuses a job spec of more than `Limits::spec_bytes`.
    fn fits(&self, bytes: u64) -> Answered<()> {
        let most = self.state.config.limits.spec_bytes;
        if bytes <= most {
            return Ok(());
        }
        let [bytes, most] = [bytes, most].map(Bytes);
        let what = format!("the job's description takes {bytes}: this master takes {most}");
        Err(refuse(
            RefusalCode::Invalid,
            what,
            "submit it in parts, or ask the admin to raise limits.spec_bytes",
        ))
    }

    /// The user to whose jobs the client is limited; `None` for an admin, who sees all.
    pub(in crate::sessions) fn only_own(&self) -> Option<String> {
        (self.role != Role::Admin).then(|| self.user.clone())
    }

    /// The jobs selected by `jobs`. A request that changes them selects from the client's own (an
    /// admin's are all); another one from all that the client may see. Naming a job outside these
    /// is an error.
    pub(in crate::sessions) async fn pick(&self, jobs: &Selector) -> Answered<IdSet> {
        few_labels(jobs)?;
        let shared = self.right != Right::Change;
        let user = self.only_own();
        let named = jobs.clone();
        let there = self.read(move |reader| match named {
            Selector::Ids(ids) if ids.ranges().count() <= RANGES => {
                reader.job_ids_of(&ids, user.as_deref(), shared)
            }
            Selector::Labelled(labels) => reader.labelled(&labels, user.as_deref(), shared),
            Selector::Beyond(number) => reader.job_ids_of(&beyond(number), user.as_deref(), shared),
            _ => reader.job_ids(user.as_deref(), shared),
        });
        let there = there.await?;
        for _ in 0..there.len() / NUMBERS {
            self.pace().await;
        }

        let picked = match jobs {
            Selector::Labelled(_) => there,
            _ => jobs.pick(&there),
        };
        let missing = match jobs {
            Selector::Ids(ids) => {
                let mut missing = ids.clone();
                missing.subtract(&picked);
                missing.first()
            }
            Selector::Labelled(labels) if picked.is_empty() => return Err(no_label(labels)),
            Selector::All | Selector::Labelled(_) | Selector::Beyond(_) => None,
            Selector::Last if picked.is_empty() => {
                let none = match self.role {
                    Role::Admin => "there is no job yet",
                    _ => "you have no job yet",
                };
                let hint = "submit one: deskgrid submit -- COMMAND";
                return Err(refuse(RefusalCode::NotFound, none, hint));
            }
            Selector::Last => None,
        };

        match missing {
            None => Ok(picked),
            Some(id) => Err(self.not_ones_own(JobId(id)).await?),
        }
    }

    /// The reason why a job is not the client's to change: it is shared with the client, or the
    /// client is told that it does not exist.
    async fn not_ones_own(&self, job: JobId) -> Answered<NoAnswer> {
        let user = self.only_own();
        let this = IdSet::from_range(job.0, job.0);
        let visible = !self
            .read(move |reader| reader.job_ids_of(&this, user.as_deref(), true))
            .await?
            .is_empty();
        if !visible && self.read(move |reader| reader.job(job)).await?.is_none() {
            return Ok(no_job(job));
        }

        // The refusal itself is in the audit log where it says why; an answer that denies the job is not.
        if !visible {
            self.refused("job", &format!("job {job}"), "it is another user's");
            return Ok(no_job(job));
        }

        let what = format!("job {job} is shared with you to look at: it is not yours to change");
        Ok(refuse(
            RefusalCode::NotAuthorised,
            what,
            "ask its owner, or an admin",
        ))
    }

    pub(in crate::sessions) async fn pick_one(&self, job: JobId) -> Answered<()> {
        self.pick(&Selector::Ids(IdSet::from_range(job.0, job.0)))
            .await
            .map(drop)
    }

    /// Those of these jobs that the asker may still see, where the share of those that are `concerned` has
    /// ended. It is an error if there is none left; as the asker saw them a moment before, it may tell of them.
    pub(in crate::sessions) async fn still_seen(
        &self,
        mut jobs: IdSet,
        concerned: IdSet,
    ) -> Answered<IdSet> {
        let (Some(user), Some(first)) = (self.only_own(), jobs.first()) else {
            return Ok(jobs);
        };
        jobs.subtract(&concerned);
        let seen = self.read(move |reader| {
            if concerned.ranges().count() <= RANGES {
                return reader.job_ids_of(&concerned, Some(&user), true);
            }
            let all = reader.job_ids(Some(&user), true)?;
            Ok(all.intersection(&concerned))
        });
        jobs.union_with(&seen.await?);

        if !jobs.is_empty() {
            return Ok(jobs);
        }

        let first = JobId(first);
        if self.read(move |reader| reader.job(first)).await?.is_none() {
            return Err(no_job(first));
        }
        let what = format!("job {first} is not shared with you any more");
        Err(refuse(
            RefusalCode::NotFound,
            what,
            "ask its owner, or an admin",
        ))
    }

    /// The unsettled ones of these jobs.
    pub(in crate::sessions) async fn open_of(&self, jobs: &IdSet) -> Answered<IdSet> {
        self.core(JobAsk::Open(jobs.clone())).await
    }

    /// Starts a listing of jobs. An empty selection means all unsettled jobs. In any other one, settled jobs are left
    /// out at once where no settled state is asked for.
    pub(in crate::sessions) async fn job_listing(
        &self,
        jobs: &Selector,
        states: Vec<JobState>,
    ) -> Answered<JobListing> {
        let of_open = !states.is_empty() && states.iter().all(|state| !state.settled());
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
                let open = self.core(JobAsk::OpenOf(visible)).await?;
                return Ok(JobListing::new(open, states));
            }
            // A list of none is a list, too.
            Selector::Labelled(labels) => {
                few_labels(jobs)?;
                let (labels, user) = (labels.clone(), self.only_own());
                self.read(move |reader| reader.labelled(&labels, user.as_deref(), true))
                    .await?
            }
            _ => self.pick(jobs).await?,
        };

        let rest = match of_open {
            true => self.open_of(&rest).await?,
            false => rest,
        };
        Ok(JobListing::new(rest, states))
    }

    /// The next jobs of a listing as they are now, the first ones with forecasts; `None` after the
    /// last.
    pub(in crate::sessions) async fn next_jobs(
        &self,
        listing: &mut JobListing,
    ) -> Answered<Option<Vec<JobView>>> {
        if listing.rest.is_empty() {
            return Ok(None);
        }

        let picked: IdSet = listing.rest.iter().take(JOBS_A_TURN as usize).collect();
        listing.rest.subtract(&picked);

        let mut settled = picked.clone();
        let mut views: Vec<JobView> = self
            .core(JobAsk::Views {
                jobs: picked,
                states: listing.states.clone(),
                forecasts: listing.forecasts,
            })
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

    /// Picks these tasks of a job that the asker may see; its spec comes with them.
    async fn pick_tasks(&self, job: JobId, tasks: &Selector) -> Answered<(Arc<JobSpec>, IdSet)> {
        self.pick_one(job).await?;
        let spec = self.spec(job).await?;
        let picked = tasks.pick(&spec.tasks.ids);

        match tasks {
            Selector::Ids(ids) if picked.is_empty() => Err(no_task(job, ids)),
            _ => Ok((spec, picked)),
        }
    }

    /// Starts a listing of a job's tasks, read portion by portion.
    pub(in crate::sessions) async fn listing(
        &self,
        job: JobId,
        tasks: &Selector,
    ) -> Answered<Listing> {
        let (spec, picked) = self.pick_tasks(job, tasks).await?;
        let (live, names) = self.core(JobAsk::Tasks(job)).await?;
        let settled = self.read(move |reader| reader.settled(job)).await?;
        let disclosure = self.read(move |reader| reader.disclosure(job)).await?;
        Ok(Listing::new(job, spec, picked, live, settled, names).disclosed(disclosure))
    }

    /// Starts a listing of what a job's tasks have left, for which the job's present state is not asked.
    pub(in crate::sessions) async fn listing_of_outputs(
        &self,
        job: JobId,
        tasks: &Selector,
    ) -> Answered<Listing> {
        let (spec, picked) = self.pick_tasks(job, tasks).await?;
        let names = self.core(HostAsk::Names).await?;
        Ok(Listing::new(job, spec, picked, None, Vec::new(), names))
    }

    pub(in crate::sessions) async fn judge(
        &self,
        attempt: AttemptId,
        agrees: Vec<u32>,
    ) -> Answered<Reply> {
        let job = attempt.task.job;
        self.pick_one(job).await?;
        let judged: bool = self.core(JobAsk::Judge(attempt, agrees)).await?;
        Ok(Reply::Changed(vec![(job, u64::from(judged))]))
    }

    pub(in crate::sessions) async fn cancel(
        &self,
        jobs: &Selector,
        tasks: Option<Selector>,
    ) -> Answered<Reply> {
        let picked = self.pick(jobs).await?;
        let open = self.open_of(&picked).await?;
        let mut which = BTreeMap::new();

        if let Some(tasks) = &tasks {
            // With `all` or a label, the jobs that have such tasks are meant. A job that is named
            // must have them, or nothing is cancelled at all.
            let all = matches!(
                jobs,
                Selector::All | Selector::Labelled(_) | Selector::Beyond(_)
            );
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
            // A settled job has nothing to cancel.
            let count = match (open.contains(id.0), which.remove(&id)) {
                (true, of) => {
                    let ask = JobAsk::Cancel(id, of, self.user.clone());
                    self.core(ask).await?
                }
                (false, _) => 0,
            };
            changed.push((id, count));
        }

        Ok(Reply::Changed(changed))
    }

    pub(in crate::sessions) async fn spec(&self, job: JobId) -> Answered<Arc<JobSpec>> {
        self.read(move |reader| reader.spec(job))
            .await?
            .ok_or_else(|| no_job(job))
    }

    pub(in crate::sessions) async fn retry(
        &self,
        job: JobId,
        tasks: Selector,
        only_failed: bool,
    ) -> Answered<Reply> {
        self.pick_one(job).await?;
        let spec = self.spec(job).await?;
        if spec.work.ranks().is_some() {
            let what = format!(
                "no rank of job {job} is of use without the others: they cannot be tried again alone"
            );
            return Err(refuse(RefusalCode::Conflict, what, "submit it again"));
        }

        let tasks = chosen(job, &tasks, &spec)?;
        // The core would load all of a settled job to find that out.
        let there = self.read(move |reader| reader.unsuccessful(job, only_failed));
        if there.await?.intersection(&tasks).is_empty() {
            return Ok(Reply::Changed(vec![(job, 0)]));
        }

        let count: Result<u64, _> = self
            .core(JobAsk::Retry {
                job,
                tasks,
                only_failed,
            })
            .await?;
        let count = count.map_err(NoAnswer::Refused)?;
        Ok(Reply::Changed(vec![(job, count)]))
    }

    pub(in crate::sessions) async fn forget(&self, jobs: &Selector) -> Answered<Reply> {
        let picked = self.pick(jobs).await?;
        // Naming an unsettled job is an error; `all`, or a label, means every job that can be
        // forgotten.
        let open = self.open_of(&picked).await?;
        let named = !matches!(
            jobs,
            Selector::All | Selector::Labelled(_) | Selector::Beyond(_)
        );
        if let (Some(job), true) = (open.first().map(JobId), named) {
            let hint = format!("cancel it first: deskgrid job cancel {job}");
            return Err(refuse(
                RefusalCode::Conflict,
                format!("job {job} is not settled"),
                hint,
            ));
        }

        let mut changed = Vec::new();
        for id in picked.iter().map(JobId) {
            if self.core(JobAsk::Forget(id)).await? {
                changed.push((id, 1));
            }
        }

        Ok(Reply::Changed(changed))
    }
}

impl JobListing {
    pub(in crate::sessions) fn new(rest: IdSet, states: Vec<JobState>) -> Self {
        Self {
            rest,
            states,
            forecasts: FORECASTS,
        }
    }
}
