//! The grid as pages see it: asks the master, and keeps what many viewers look at for a second, so
//! that their number costs the master nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::timeline::DrawnTasks;
use api::{Door, GridAccess, Who, collect};
use axum::http::StatusCode;
use common::selector::Selector;
use common::view::{AccuracyView, HostView, JobState, JobView, WaitView};
use common::wire::client::{Reply, Request};
use common::{IdSet, JobId};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::error::PageError;

/// The greatest age of something that is shown.
const AGE: Duration = Duration::from_secs(1);
/// The most users whose jobs are kept, and the most jobs whose tasks are.
const USERS: usize = 1_000;
const DRAWN: usize = 20;
/// The number of the latest jobs.
const LATEST: u32 = 60;

/// A value with the time at which it was fetched.
type CachedValue<T> = Arc<Mutex<Option<(Instant, Arc<T>)>>>;

/// The grid behind a door.
pub(crate) struct SharedGrid {
    door: Arc<dyn Door>,
    hosts: CachedValue<Vec<HostView>>,
    waits: CachedValue<Vec<WaitView>>,
    accuracy: CachedValue<AccuracyView>,
    jobs: Mutex<BTreeMap<Uuid, JobsOfUser>>,
    drawn: Mutex<BTreeMap<JobId, CachedValue<DrawnTasks>>>,
}

/// The jobs that a user may see.
#[derive(Clone, Default)]
struct JobsOfUser {
    /// Those that are not settled.
    open: CachedValue<Vec<JobView>>,
    /// The newest ones.
    latest: CachedValue<Vec<JobView>>,
}

impl SharedGrid {
    pub(crate) fn new(door: Arc<dyn Door>) -> Self {
        Self {
            door,
            hosts: CachedValue::default(),
            waits: CachedValue::default(),
            accuracy: CachedValue::default(),
            jobs: Mutex::default(),
            drawn: Mutex::default(),
        }
    }

    /// The grid as `who` asks it.
    pub(crate) fn of(&self, who: &Who) -> GridAccess {
        GridAccess {
            door: Arc::clone(&self.door),
            who: who.clone(),
        }
    }

    /// Returns every host, by name. All users see the same.
    pub(crate) async fn hosts(&self, who: &Who) -> Result<Arc<Vec<HostView>>, PageError> {
        fresh(&self.hosts, || async {
            let names = Vec::new();
            let mut hosts = collect!(self.of(who), Request::Hosts { names }, Reply::Hosts);
            hosts.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
            Ok(hosts)
        })
        .await
    }

    /// Returns when so many hosts should be free together, for each number. All users see the same.
    pub(crate) async fn waits(
        &self,
        who: &Who,
        numbers: impl Iterator<Item = u32>,
    ) -> Result<Arc<Vec<WaitView>>, PageError> {
        fresh(&self.waits, || async {
            let mut waits = Vec::new();
            for hosts in numbers {
                match self.of(who).one(Request::HostsWait { hosts }).await? {
                    Reply::HostsWait(wait) => waits.push(wait),
                    _ => return Err(api::Problem::unexpected().into()),
                }
            }
            Ok(waits)
        })
        .await
    }

    /// Returns the master's predictions beside what came. All users see the same.
    pub(crate) async fn accuracy(&self, who: &Who) -> Result<Arc<AccuracyView>, PageError> {
        fresh(&self.accuracy, || async {
            match self.of(who).one(Request::Accuracy).await? {
                Reply::Accuracy(accuracy) => Ok(accuracy),
                _ => Err(api::Problem::unexpected().into()),
            }
        })
        .await
    }

    /// Returns the jobs that are not settled and that `who` may see, by number.
    pub(crate) async fn open_jobs(&self, who: &Who) -> Result<Arc<Vec<JobView>>, PageError> {
        let kept = self.kept_jobs(who).await;
        fresh(&kept.open, || async {
            let states = JobState::ALL.iter().copied();
            let open = states.filter(|state| !state.settled()).collect();
            self.jobs_of(who, Selector::All, open).await
        })
        .await
    }

    /// Returns the newest jobs that `who` may see, settled or not, by number.
    pub(crate) async fn latest_jobs(&self, who: &Who) -> Result<Arc<Vec<JobView>>, PageError> {
        let kept = self.kept_jobs(who).await;
        fresh(&kept.latest, || async {
            let last = self.newest_job(who).await?.max(1);
            let first = last.saturating_sub(LATEST - 1).max(1);
            let latest = Selector::Ids(IdSet::from_range(first, last));
            self.jobs_of(who, latest, Vec::new()).await
        })
        .await
    }

    /// The place where the jobs of a user are kept.
    async fn kept_jobs(&self, who: &Who) -> JobsOfUser {
        let mut jobs = self.jobs.lock().await;
        if jobs.len() >= USERS {
            jobs.clear();
        }
        jobs.entry(who.id).or_default().clone()
    }

    /// Returns the tasks of a job of which its timeline is drawn. `who` was found to be one who may
    /// see the job.
    pub(crate) async fn drawn(
        &self,
        who: &Who,
        job: &JobView,
    ) -> Result<Arc<DrawnTasks>, PageError> {
        let kept = {
            let mut drawn = self.drawn.lock().await;
            if drawn.len() >= DRAWN {
                drawn.clear();
            }
            Arc::clone(drawn.entry(job.job).or_default())
        };
        fresh(&kept, || async {
            Ok(DrawnTasks::fetch(&self.of(who), job).await?)
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
        match self.of(who).jobs(jobs, states).await {
            Err(problem) if problem.status == StatusCode::NOT_FOUND => Ok(Vec::new()),
            found => Ok(found?),
        }
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
