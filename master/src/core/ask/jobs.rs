//! Requests to the core about jobs and their tasks.

use common::attempt::StreamKind;
use common::content::BlobHash;
use common::view::JobState;
use common::wire::client::TailFrom;
use common::{AttemptId, BlobRef, IdSet, JobId, JobSpec, RequestId, SubmitOptions, TaskId};

use super::{Ask, CoreReply};
use crate::core::{Adding, Core};
use crate::store::StoreResult;

/// A submission.
#[derive(Debug, Clone)]
pub struct Submitting {
    /// The number of the request, for repetitions.
    pub request: RequestId,
    /// Its user.
    pub user: String,
    /// The job.
    pub spec: JobSpec,
    /// The content of `spec`, as [`JobSpec::content`] lists it.
    pub content: Vec<BlobRef>,
    /// The date and estimates that `spec` has no place for.
    pub asked: SubmitOptions,
    /// Those jobs that it is to come after which the user may not see, or which are not there.
    pub hidden: IdSet,
    /// Whether its tasks are only disclosed.
    pub disclosed: bool,
    /// Whether nothing is to be submitted.
    pub dry_run: bool,
}

/// A task whose output somebody looks at.
#[derive(Debug, Clone, Copy)]
pub struct TailAsk {
    /// The task.
    pub task: TaskId,
    /// The stream.
    pub stream: StreamKind,
    /// The place at which to begin.
    pub from: TailFrom,
    /// The number of whoever looks.
    pub ticket: u64,
}

/// A request about jobs. The sender has checked that the asker may name them.
#[derive(Debug, Clone)]
pub enum JobAsk {
    /// Takes a job whose spec was checked, or refuses it. Gives `Submitted`.
    Submit(Box<Submitting>),
    /// Requests these tasks of a disclosed job. Gives `Requested`.
    Request(JobId, IdSet),
    /// Drops the unrequested tasks of a disclosed job. Gives `Count`.
    DropUnrequested(JobId),
    /// Stops these tasks (none given: all) of a job, as the user with this name asked. Gives
    /// `Count`.
    Cancel(JobId, Option<IdSet>, String),
    /// Asks for the part of an open job against which added tasks are checked. Gives `OpenTo`.
    OpenTo(JobId),
    /// Adds tasks that were checked to an open job, or refuses them. Gives `Added`.
    Add(Box<Adding>),
    /// Closes an open job. Gives `Closed`.
    Close(JobId),
    /// Tries these failed and (unless `only_failed`) cancelled tasks again. Gives `Retried`.
    Retry {
        /// Their job.
        job: JobId,
        /// The tasks; those in another state are left alone.
        tasks: IdSet,
        /// Whether cancelled ones are left alone.
        only_failed: bool,
    },
    /// Computes these tasks again, since this content of their results is gone. Gives `Retried`.
    Recompute(JobId, IdSet, Vec<BlobHash>),
    /// Takes the verdict of the user's program: the attempts with which this result agrees. Gives
    /// `Whether`.
    Judge(AttemptId, Vec<u32>),
    /// Takes the verdict of a comparison beside the core. Gives `Done`.
    Compared(AttemptId, Vec<u32>),
    /// Removes a settled job. Gives `Whether`.
    Forget(JobId),
    /// Lets another user look at jobs, or ends that. Gives `Shared`.
    Share {
        /// The user who shares them.
        by: String,
        /// The jobs.
        jobs: IdSet,
        /// The user who is to see them.
        user: String,
        /// Whether sharing starts (`true`) or ends.
        on: bool,
    },
    /// Those of these jobs that are not settled. Gives `Ids`.
    Open(IdSet),
    /// Every job that is not settled, of all or of one user with those shared with that user. Gives
    /// `Ids`.
    OpenOf(Option<(String, IdSet)>),
    /// Those of these jobs that are not settled, as they are now. Gives `Jobs`.
    Views {
        /// The jobs.
        jobs: IdSet,
        /// The states of jobs that get forecasts (none given: any).
        states: Vec<JobState>,
        /// The most jobs that get a forecast of their end.
        forecasts: usize,
    },
    /// The present tasks and attempts of a job. Gives `Tasks`.
    Tasks(JobId),
    /// The reasons why a job's tasks wait. Gives `Explained`.
    Explain(JobId),
    /// The live attempts of a job. Gives `Running`.
    Running(JobId),
    /// The next results of a job that wait for the user's program, after this one, at most this many.
    /// Gives `Undecided`.
    Undecided(JobId, Option<AttemptId>, usize),
    /// Asks the host of a live attempt of a task for its output. Gives `Tailed`.
    Tail(TailAsk),
    /// The quality of estimates, of all users or of one. Gives `Estimates`.
    Estimates(Option<String>),
    /// The share of each user who has had tasks lately. Gives `UserShares`.
    UserShares,
}

impl From<JobAsk> for Ask {
    fn from(ask: JobAsk) -> Self {
        Ask::Job(ask)
    }
}

impl Core {
    pub(super) fn handle_job(&mut self, ask: JobAsk) -> StoreResult<CoreReply> {
        Ok(match ask {
            JobAsk::Submit(submitting) => Box::new(self.submit(*submitting)?).into(),
            JobAsk::Add(adding) => self.add(*adding)?.into(),
            JobAsk::OpenTo(job) => self.open_to(job).into(),
            JobAsk::Close(job) => self.close(job)?.into(),
            JobAsk::Request(job, tasks) => self.request(job, &tasks)?.into(),
            JobAsk::DropUnrequested(job) => self.drop_unrequested(job)?.into(),
            JobAsk::Cancel(job, tasks, user) => self.cancel(job, tasks, user)?.into(),
            JobAsk::Retry {
                job,
                tasks,
                only_failed,
            } => self.retry(job, &tasks, only_failed)?.into(),
            JobAsk::Recompute(job, tasks, gone) => self.recompute(job, &tasks, &gone)?.into(),
            JobAsk::Judge(attempt, agrees) => self.judge(attempt, agrees)?.into(),
            JobAsk::Compared(attempt, agrees) => self.on_compared(attempt, agrees)?.into(),
            JobAsk::Forget(job) => {
                let forgotten = self.forget(job)?;
                // A small job's content is of no use at once.
                self.clear_forgotten()?;
                forgotten.into()
            }
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
            JobAsk::Running(job) => self.running(job).into(),
            JobAsk::Undecided(job, after, most) => self.undecided(job, after, most).into(),
            JobAsk::Tail(ask) => self.tail(ask).into(),
            JobAsk::Estimates(user) => self.estimates(user.as_deref()).into(),
            JobAsk::UserShares => self.shares().into(),
        })
    }
}
