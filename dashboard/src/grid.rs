//! The grid as pages see it: asks the master, and keeps what many viewers look at for a second, so
//! that their number costs the master nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use api::timeline::DrawnTasks;
use api::{Door, GridAccess, Who, collect};
use axum::http::StatusCode;
use common::selector::Selector;
use common::token::Role;
use common::view::{AccuracyView, HostView, JobState, JobView, WaitView};
use common::wire::RefusalCode;
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
/// The most viewers for whom hosts are kept.
const VIEWERS: usize = 50;
/// The number of the latest jobs.
const LATEST: u32 = 60;

/// A place for a value that viewers share.
type CachedValue<T> = Arc<CachedPlace<T>>;

/// A value with the time at which it was fetched.
struct CachedPlace<T> {
    fetching: Mutex<()>,
    value: std::sync::Mutex<Option<(Instant, Arc<T>)>>,
}

impl<T> Default for CachedPlace<T> {
    fn default() -> Self {
        Self {
            fetching: Mutex::default(),
            value: std::sync::Mutex::default(),
        }
    }
}

impl<T> CachedPlace<T> {
    /// Returns the value if it is not too old.
    fn young(&self) -> Option<Arc<T>> {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let young = value.as_ref().filter(|(at, _)| at.elapsed() < AGE);
        young.map(|(_, value)| Arc::clone(value))
    }

    fn put(&self, value: Arc<T>) {
        let mut place = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some((Instant::now(), value));
    }
}

/// A user with the rights of what let that user in: a token may give less than the user has.
type Viewer = (Uuid, Role);

/// The grid behind a door.
pub(crate) struct SharedGrid {
    door: Arc<dyn Door>,
    hosts: Mutex<BTreeMap<Viewer, CachedValue<Vec<HostView>>>>,
    waits: CachedValue<Vec<WaitView>>,
    accuracy: CachedValue<AccuracyView>,
    jobs: Mutex<BTreeMap<Viewer, JobsOfUser>>,
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
            hosts: Mutex::default(),
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

    /// Returns every host, by name. Of what it runs, users see their own attempts only.
    pub(crate) async fn hosts(&self, who: &Who) -> Result<Arc<Vec<HostView>>, PageError> {
        let kept = place(&self.hosts, (who.id, who.role), VIEWERS).await;
        fresh(&kept, || async {
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
        let kept = place(&self.jobs, (who.id, who.role), USERS).await;
        fresh(&kept.open, || async {
            let states = JobState::ALL.iter().copied();
            let open = states.filter(|state| !state.settled()).collect();
            self.jobs_of(who, Selector::All, open).await
        })
        .await
    }

    /// Returns the newest jobs that `who` may see, settled or not, by number.
    pub(crate) async fn latest_jobs(&self, who: &Who) -> Result<Arc<Vec<JobView>>, PageError> {
        let kept = place(&self.jobs, (who.id, who.role), USERS).await;
        fresh(&kept.latest, || async {
            let last = self.newest_job(who).await?;
            self.jobs_between(who, last.saturating_sub(LATEST - 1), last)
                .await
        })
        .await
    }

    /// Returns the tasks of a job of which its timeline is drawn. `who` was found to be one who may
    /// see the job.
    pub(crate) async fn drawn(
        &self,
        who: &Who,
        job: &JobView,
    ) -> Result<Arc<DrawnTasks>, PageError> {
        let kept = place(&self.drawn, job.job, DRAWN).await;
        fresh(&kept, || async {
            Ok(DrawnTasks::fetch(&self.of(who), job).await?)
        })
        .await
    }

    /// Returns the jobs with these numbers, the last one included, that are there and that `who`
    /// may see.
    pub(crate) async fn jobs_between(
        &self,
        who: &Who,
        first: u32,
        last: u32,
    ) -> Result<Vec<JobView>, PageError> {
        // Named one by one, a single job that is not there would be an error.
        let jobs = first.checked_sub(1).map_or(Selector::All, Selector::Beyond);
        let states = Vec::new();
        let mut replies = self.of(who).ask(Request::Jobs { jobs, states });
        let mut found = Vec::new();

        while let Some(reply) = replies.recv().await {
            match reply {
                Ok(Reply::Jobs(jobs)) => found.extend(jobs),
                Ok(_) => return Err(PageError::unexpected()),
                Err(refusal) if refusal.code == RefusalCode::NotFound => break,
                Err(refusal) => return Err(refusal.into()),
            }
            if found.last().is_some_and(|job: &JobView| job.job.0 >= last) {
                break;
            }
        }
        found.retain(|job| job.job.0 <= last);
        Ok(found)
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

/// Returns the place of this key, of which at most so many are kept.
async fn place<K: Ord, P: Default + Clone>(kept: &Mutex<BTreeMap<K, P>>, key: K, most: usize) -> P {
    let mut kept = kept.lock().await;
    if kept.len() >= most {
        kept.clear();
    }
    kept.entry(key).or_default().clone()
}

/// Returns a value that is at most [`AGE`] old. One viewer fetches it for all; the others wait, but
/// never for long: the one who fetches may have to wait for a turn of its own.
async fn fresh<T, F: Future<Output = Result<T, PageError>>>(
    kept: &CachedValue<T>,
    fetch: impl FnOnce() -> F,
) -> Result<Arc<T>, PageError> {
    let turn = tokio::time::timeout(AGE, kept.fetching.lock()).await;
    if let Some(value) = kept.young() {
        return Ok(value);
    }

    let value = Arc::new(fetch().await?);
    kept.put(Arc::clone(&value));
    drop(turn);
    Ok(value)
}
