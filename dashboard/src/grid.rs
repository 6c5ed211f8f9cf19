//! The grid as pages see it: asks the master, and keeps what many viewers look at for a second, so
//! that their number costs the master nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{Door, Replies, Who};
use common::content::Content;
use common::selector::Selector;
use common::view::{HostView, JobState, JobView, OutputView, TaskState, TaskView};
use common::wire::RefusalCode;
use common::wire::client::{Reply, Request};
use common::{IdSet, JobId, TaskId};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::error::PageError;

/// How old something may be that is shown.
const AGE: Duration = Duration::from_secs(1);
/// The most users whose jobs are kept.
const USERS: usize = 1_000;
/// The most bytes of stored output that are looked at.
const OUTPUT: u64 = 64 * 1024;

/// A value with the time at which it was fetched.
type CachedValue<T> = Arc<Mutex<Option<(Instant, Arc<T>)>>>;

/// The grid behind a door.
pub(crate) struct SharedGrid {
    door: Arc<dyn Door>,
    hosts: CachedValue<Vec<HostView>>,
    jobs: Mutex<BTreeMap<Uuid, CachedValue<Vec<JobView>>>>,
}

/// Collects the replies of one kind.
macro_rules! collect {
    ($replies:expr, $kind:path) => {{
        let mut replies = $replies;
        let mut all = Vec::new();
        while let Some(reply) = replies.recv().await {
            match reply? {
                $kind(some) => all.extend(some),
                _ => return Err($crate::error::PageError::unexpected()),
            }
        }
        all
    }};
}
pub(crate) use collect;

impl SharedGrid {
    pub(crate) fn new(door: Arc<dyn Door>) -> Self {
        Self {
            door,
            hosts: CachedValue::default(),
            jobs: Mutex::default(),
        }
    }

    /// Asks the master.
    pub(crate) fn ask(&self, who: &Who, request: Request) -> Replies {
        self.door.ask(who, request)
    }

    /// Asks the master for one reply.
    pub(crate) async fn one(&self, who: &Who, request: Request) -> Result<Reply, PageError> {
        let reply = self.ask(who, request).recv().await;
        Ok(reply.ok_or_else(PageError::unexpected)??)
    }

    /// Returns every host, by name. All users see the same.
    pub(crate) async fn hosts(&self, who: &Who) -> Result<Arc<Vec<HostView>>, PageError> {
        fresh(&self.hosts, || async {
            let names = Vec::new();
            let mut hosts = collect!(self.ask(who, Request::Hosts { names }), Reply::Hosts);
            hosts.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
            Ok(hosts)
        })
        .await
    }

    /// Returns the jobs that are not settled and that `who` may see, by number.
    pub(crate) async fn open_jobs(&self, who: &Who) -> Result<Arc<Vec<JobView>>, PageError> {
        let kept = {
            let mut jobs = self.jobs.lock().await;
            if jobs.len() >= USERS {
                jobs.clear();
            }
            Arc::clone(jobs.entry(who.id).or_default())
        };
        fresh(&kept, || async {
            let states = JobState::ALL.iter().copied();
            let open = states.filter(|state| !state.settled()).collect();
            self.jobs_of(who, Selector::All, open).await
        })
        .await
    }

    /// Returns these jobs, of these states if some are named; none where there is none.
    pub(crate) async fn jobs_of(
        &self,
        who: &Who,
        jobs: Selector,
        states: Vec<JobState>,
    ) -> Result<Vec<JobView>, PageError> {
        let mut replies = self.ask(who, Request::Jobs { jobs, states });
        let mut all = Vec::new();
        while let Some(reply) = replies.recv().await {
            match reply {
                Ok(Reply::Jobs(some)) => all.extend(some),
                Ok(_) => return Err(PageError::unexpected()),
                Err(refusal) if refusal.code == RefusalCode::NotFound => return Ok(Vec::new()),
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Ok(all)
    }

    /// Returns the number of the newest job that `who` may see; 0 if there is none.
    pub(crate) async fn newest_job(&self, who: &Who) -> Result<u32, PageError> {
        let last = self.jobs_of(who, Selector::Last, Vec::new()).await?;
        Ok(last.last().map_or(0, |job| job.job.0))
    }

    /// Returns the job with this number.
    pub(crate) async fn job(&self, who: &Who, job: JobId) -> Result<JobView, PageError> {
        let this = Selector::Ids(IdSet::from_range(job.0, job.0));
        let found = self.jobs_of(who, this, Vec::new()).await?.pop();
        found.ok_or_else(|| PageError::not_found(format!("there is no job {job} that you may see")))
    }

    /// Returns these tasks of a job.
    pub(crate) async fn tasks(
        &self,
        who: &Who,
        job: JobId,
        tasks: Selector,
        states: Vec<TaskState>,
    ) -> Result<Vec<TaskView>, PageError> {
        let request = Request::Tasks { job, tasks, states };
        Ok(collect!(self.ask(who, request), Reply::Tasks))
    }

    /// Returns what a task left, if it has left something.
    pub(crate) async fn output(
        &self,
        who: &Who,
        TaskId { job, index }: TaskId,
    ) -> Result<Option<OutputView>, PageError> {
        let tasks = Selector::Ids(IdSet::from_range(index, index));
        let request = Request::Outputs { job, tasks };
        Ok(collect!(self.ask(who, request), Reply::Outputs).pop())
    }

    /// Returns the end of stored output, at most [`OUTPUT`] bytes, and whether something is missing
    /// before it.
    pub(crate) async fn end_of(
        &self,
        who: &Who,
        content: &Content,
    ) -> Result<(Vec<u8>, bool), PageError> {
        let blob = match content {
            Content::Inline(bytes) => return Ok((bytes.clone(), false)),
            Content::Blob(blob) => blob,
        };
        let from = blob.size.saturating_sub(OUTPUT);
        let mut found = self.door.get(who, blob.hash, from).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = found.pieces.recv().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok((bytes, from > 0))
    }
}

/// Returns what is kept, fetched anew where it is too old. Several who want it wait for one answer.
async fn fresh<T, F: Future<Output = Result<T, PageError>>>(
    kept: &CachedValue<T>,
    fetch: impl FnOnce() -> F,
) -> Result<Arc<T>, PageError> {
    let mut kept = kept.lock().await;
    if let Some((at, value)) = &*kept
        && at.elapsed() < AGE
    {
        return Ok(Arc::clone(value));
    }

    let value = Arc::new(fetch().await?);
    *kept = Some((Instant::now(), Arc::clone(&value)));
    Ok(value)
}
