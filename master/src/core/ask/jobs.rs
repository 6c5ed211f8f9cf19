//! What is asked about jobs and their tasks.

use common::content::BlobHash;
use common::view::JobState;
use common::{Asked, AttemptId, IdSet, JobId, JobSpec, RequestId};

use super::{Ask, CoreReply};
use crate::core::Core;
use crate::store::StoreError;

/// A submission.
#[derive(Debug, Clone)]
pub struct Submitting {
    /// Its own number.
    pub request: RequestId,
    /// Its user.
    pub user: String,
    /// The job.
    pub spec: JobSpec,
    /// What is said beside it.
    pub asked: Asked,
    /// Whether its tasks are only disclosed.
    pub disclosed: bool,
    /// Whether nothing is to be submitted.
    pub dry_run: bool,
}

/// Something asked about jobs. Those named are the asker's to name.
#[derive(Debug, Clone)]
pub enum JobAsk {
    /// Take a job whose spec was checked, or say why not.
    Submit(Box<Submitting>),
    /// Somebody waits for these tasks of a disclosed job.
    Request(JobId, IdSet),
    /// Nobody needs what was not requested of a disclosed job.
    DropUnrequested(JobId),
    /// Stop these tasks (none given: all) of a job.
    Cancel(JobId, Option<IdSet>),
    /// Try these failed and (unless `only_failed`) cancelled tasks again.
    Retry {
        /// Their job.
        job: JobId,
        /// The tasks; those in another state are left alone.
        tasks: IdSet,
        /// Whether cancelled ones are left alone.
        only_failed: bool,
    },
    /// Compute these tasks again, of whose results this content is gone.
    Recompute(JobId, IdSet, Vec<BlobHash>),
    /// Take the verdict of the user's program: with which attempts this result agrees.
    Judge(AttemptId, Vec<u32>),
    /// The same, as found beside the core.
    Compared(AttemptId, Vec<u32>),
    /// Remove a settled job.
    Forget(JobId),
    /// Let another user look at jobs, or end that.
    Share {
        /// Who shares them.
        by: String,
        /// The jobs.
        jobs: IdSet,
        /// Whoever is to see them.
        user: String,
        /// Whether from now on or no more.
        on: bool,
    },
    /// Those of these jobs that are not settled.
    Open(IdSet),
    /// Every job that is not settled, of all or of one user with those shared with that user.
    OpenOf(Option<(String, IdSet)>),
    /// Those of these jobs that are not settled, as they are now.
    Views {
        /// The jobs.
        jobs: IdSet,
        /// Forecasts are made of jobs in these states (none given: any).
        states: Vec<JobState>,
        /// The most forecasts of an end.
        forecasts: usize,
    },
    /// The present state of a job's tasks.
    Tasks(JobId),
    /// The reasons why a job's tasks wait.
    Explain(JobId),
    /// The first results of a job that wait for the user's program, so many at most.
    Undecided(JobId, usize),
    /// The quality of estimates, of all users or of one.
    Estimates(Option<String>),
}

impl From<JobAsk> for Ask {
    fn from(ask: JobAsk) -> Self {
        Ask::Job(ask)
    }
}

impl Core {
    pub(super) fn handle_job(&mut self, ask: JobAsk) -> Result<CoreReply, StoreError> {
        Ok(match ask {
            JobAsk::Submit(submitting) => Box::new(self.submit(*submitting)?).into(),
            JobAsk::Request(job, tasks) => self.request(job, &tasks)?.into(),
            JobAsk::DropUnrequested(job) => self.drop_unrequested(job)?.into(),
            JobAsk::Cancel(job, tasks) => self.cancel(job, tasks)?.into(),
            JobAsk::Retry {
                job,
                tasks,
                only_failed,
            } => self.retry(job, &tasks, only_failed)?.into(),
            JobAsk::Recompute(job, tasks, gone) => self.recompute(job, &tasks, &gone)?.into(),
            JobAsk::Judge(attempt, agrees) => self.judge(attempt, agrees)?.into(),
            JobAsk::Compared(attempt, agrees) => self.on_compared(attempt, agrees)?.into(),
            JobAsk::Forget(job) => self.forget(job)?.into(),
            JobAsk::Share { by, jobs, user, on } => self.share(&by, &jobs, &user, on)?.into(),
            JobAsk::Open(jobs) => self.open_of(&jobs).into(),
            JobAsk::OpenOf(user) => self.open_ids(user.as_ref()).into(),
            JobAsk::Views {
                jobs,
                states,
                forecasts,
            } => self.live_jobs(&jobs, &states, forecasts).into(),
            JobAsk::Tasks(job) => (self.live_job(job), self.host_names()).into(),
            JobAsk::Explain(job) => {
                Box::new(self.explain(job).map(|view| (view, self.host_names()))).into()
            }
            JobAsk::Undecided(job, most) => self.undecided(job, most).into(),
            JobAsk::Estimates(user) => self.estimates(user.as_deref()).into(),
        })
    }
}
