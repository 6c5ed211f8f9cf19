//! Questions to the grid on somebody's behalf, with their replies collected.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use common::content::{BlobHash, Content};
use common::selector::Selector;
use common::site::{HostSiteView, SiteTextView};
use common::update::{UpdateOrder, UpdatesView};
use common::view::{JobState, JobView, OutputView, RunningView, TaskState, TaskView, WorkView};
use common::wire::client::{Reply, Request, Submission};
use common::{BlobRef, IdSet, JobId, JobSpec, SubmitOptions, TaskId};
use tokio::sync::mpsc;

use crate::body::BodyTurn;
use crate::door::{Door, Replies, Who};
use crate::failures::{causes, last_lines};
use crate::json::FailureCause;
use crate::problem::Problem;

/// The longest job, or addition to one, that travels inside a request, in bytes.
pub(crate) const SHORT: usize = 128 * 1024;
/// The time in which the grid has to take content that lies in memory here, which few at a time may have.
const KEPT_WITHIN: Duration = Duration::from_secs(120);

/// The grid, and the one who asks it.
#[derive(Clone)]
pub struct GridAccess {
    /// The grid.
    pub door: Arc<dyn Door>,
    /// The one who asks.
    pub who: Who,
}

/// Asks for replies of one kind, and collects what is in them: `collect!(grid, request, kind)`.
#[macro_export]
macro_rules! collect {
    ($grid:expr, $request:expr, $kind:path) => {{
        let mut replies = $grid.ask($request);
        let mut all = Vec::new();
        while let Some(reply) = replies.recv().await {
            match reply.map_err($crate::Problem::from)? {
                $kind(some) => all.extend(some),
                _ => return Err($crate::Problem::unexpected().into()),
            }
        }
        all
    }};
}
pub(crate) use collect;

impl GridAccess {
    /// Asks the grid, and returns its [`Replies`].
    pub fn ask(&self, request: Request) -> Replies {
        self.door.ask(&self.who, request)
    }

    /// Asks the grid for one [`Reply`].
    ///
    /// # Errors
    /// If the master refuses, or does not reply.
    pub async fn one(&self, request: Request) -> Result<Reply, Problem> {
        let reply = self.ask(request).recv().await;
        Ok(reply.ok_or_else(Problem::unexpected)??)
    }

    /// Returns the settings that admins keep for workers, and the hosts for which any hold.
    ///
    /// # Errors
    /// If the master refuses, or does not reply.
    pub async fn site(&self) -> Result<(Vec<SiteTextView>, Vec<HostSiteView>), Problem> {
        let mut replies = self.ask(Request::Site);
        let mut settings = Vec::new();
        let mut hosts = Vec::new();

        while let Some(reply) = replies.recv().await {
            let Reply::Site(some, of_hosts) = reply? else {
                return Err(Problem::unexpected());
            };
            settings.extend(some);
            hosts.extend(of_hosts);
        }
        Ok((settings, hosts))
    }

    /// Returns how new programs for workers stand.
    ///
    /// # Errors
    /// If the master refuses, or does not reply.
    pub async fn updates(&self) -> Result<UpdatesView, Problem> {
        let show = Request::Update(Box::new(UpdateOrder::Show));
        match self.one(show).await? {
            Reply::Updates(updates) => Ok(*updates),
            _ => Err(Problem::unexpected()),
        }
    }

    /// Returns a [`JobView`] of each of these jobs, of these states if some are named.
    ///
    /// # Errors
    /// If the master refuses, also where there is none of the jobs.
    pub async fn jobs(
        &self,
        jobs: Selector,
        states: Vec<JobState>,
    ) -> Result<Vec<JobView>, Problem> {
        Ok(collect!(self, Request::Jobs { jobs, states }, Reply::Jobs))
    }

    /// Returns a [`TaskView`] of each of these tasks, of these states if some are named.
    ///
    /// # Errors
    /// If the master refuses.
    pub async fn tasks(
        &self,
        job: JobId,
        tasks: Selector,
        states: Vec<TaskState>,
    ) -> Result<Vec<TaskView>, Problem> {
        let request = Request::Tasks { job, tasks, states };
        Ok(collect!(self, request, Reply::Tasks))
    }

    /// Returns a [`TaskView`] of the first of these tasks, at most `most`; the answer is given up then.
    ///
    /// # Errors
    /// If the master refuses.
    pub async fn first_tasks(
        &self,
        job: JobId,
        tasks: Selector,
        states: Vec<TaskState>,
        most: usize,
    ) -> Result<Vec<TaskView>, Problem> {
        let mut replies = self.ask(Request::Tasks { job, tasks, states });
        let mut found = Vec::new();

        while found.len() < most
            && let Some(reply) = replies.recv().await
        {
            match reply? {
                Reply::Tasks(some) => found.extend(some),
                _ => return Err(Problem::unexpected()),
            }
        }

        found.truncate(most);
        Ok(found)
    }

    /// Returns the live attempts of a job.
    ///
    /// # Errors
    /// If the master refuses.
    pub async fn running(&self, job: JobId) -> Result<Vec<RunningView>, Problem> {
        Ok(collect!(self, Request::Running { job }, Reply::Running))
    }

    /// Returns what the tasks of a job run.
    ///
    /// # Errors
    /// If the master refuses.
    pub async fn work(&self, job: JobId) -> Result<WorkView, Problem> {
        match self.one(Request::Work { job }).await? {
            Reply::Work(work) => Ok(*work),
            _ => Err(Problem::unexpected()),
        }
    }

    /// Returns the [`OutputView`] of a task; `None` if it has left nothing yet.
    ///
    /// # Errors
    /// If the master refuses.
    pub async fn output(&self, task: TaskId) -> Result<Option<OutputView>, Problem> {
        let TaskId { job, index } = task;
        let tasks = Selector::Ids(IdSet::from_range(index, index));
        let mut found = collect!(self, Request::Outputs { job, tasks }, Reply::Outputs);
        Ok(found.pop())
    }

    /// Makes the [`Submission`] of a job. One that is too long for a request is sent before it, as content.
    ///
    /// # Errors
    /// If the master refuses it.
    pub async fn submission(
        &self,
        spec: JobSpec,
        asked: SubmitOptions,
    ) -> Result<Submission, Problem> {
        self.submission_in_turn(spec, asked, None).await
    }

    /// Makes the [`Submission`] of a job that came in a body with this turn, which is given back: what is left of a large
    /// one is the name of its content, and the master may take its time.
    pub(crate) async fn submission_in_turn(
        &self,
        spec: JobSpec,
        asked: SubmitOptions,
        turn: Option<BodyTurn>,
    ) -> Result<Submission, Problem> {
        let bytes = postcard::to_stdvec(&(&spec, &asked));
        let bytes =
            bytes.map_err(|bad| Problem::invalid(bad.to_string(), "nothing was submitted"))?;
        if bytes.len() <= SHORT {
            return Ok(Submission::Inline(Box::new(spec), asked));
        }
        drop((spec, asked));
        let _kept = turn.map(BodyTurn::only_bytes);
        Ok(Submission::Blob(self.put(bytes.into()).await?))
    }

    /// Sends bytes as content, and returns its [`BlobRef`].
    pub(crate) async fn put(&self, bytes: bytes::Bytes) -> Result<BlobRef, Problem> {
        let blob = BlobRef {
            hash: BlobHash(*blake3::hash(&bytes).as_bytes()),
            size: bytes.len() as u64,
        };
        let (tx, rx) = mpsc::channel(1);
        // The channel has room for it.
        let _ = tx.try_send(Ok(bytes));
        drop(tx);

        let put = self.door.put(&self.who, blob, rx);
        let late = |_| {
            let what = format!("{} bytes were not taken within {KEPT_WITHIN:?}", blob.size);
            let hint = "try again once less content is on its way";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", what, hint)
        };
        tokio::time::timeout(KEPT_WITHIN, put)
            .await
            .map_err(late)??;
        Ok(blob)
    }

    /// Returns the end of a [`Content`], at most `most` bytes of what is not inline, and whether
    /// something is left out before it.
    ///
    /// # Errors
    /// If the master refuses, or has lost it.
    pub async fn end_of(&self, content: &Content, most: u64) -> Result<(Vec<u8>, bool), Problem> {
        let blob = match content {
            Content::Inline(bytes) => return Ok((bytes.clone(), false)),
            Content::Blob(blob) => blob,
        };

        let from = blob.size.saturating_sub(most);
        let mut found = self.door.get(&self.who, blob.hash, from).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = found.pieces.recv().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok((bytes, from > 0))
    }

    /// Returns a [`FailureCause`] for each of the most frequent causes for which these tasks
    /// failed, with the last lines of one of them, read from the last `most` bytes.
    ///
    /// # Errors
    /// If the master refuses.
    pub async fn failures(
        &self,
        failed: &[TaskView],
        most: u64,
    ) -> Result<Vec<FailureCause>, Problem> {
        let mut found = Vec::new();
        for (cause, example) in causes(failed) {
            let output = match example {
                Some(task) => self.output(task).await?,
                None => None,
            };
            let stderr = match output {
                Some(output) => last_lines(&self.end_of(&output.stderr.0.content, most).await?.0),
                None => Vec::new(),
            };
            found.push(FailureCause { stderr, ..cause });
        }
        Ok(found)
    }
}
