//! A command's session with the master: connects with this machine's identity, sends requests and
//! collects the replies.

mod pages;

use std::sync::{Arc, Mutex, PoisonError};

use common::JobId;
use common::identity::AuditView;
use common::selector::{Selector, beyond};
use common::token::{JoinToken, Role};
use common::view::{
    AccountView, EstimatesView, ExplainView, HostExplainView, HostView, JobState, JobView,
    OutputView, RunningView, TaskState, TaskView, TokenView, Undecided, WorkView,
};
use common::wire::client::{Reply, Request};
use common::wire::{RUNNING_VERSION, SERVICE_VERSION, WORK_VERSION};
use link::client::unexpected;
use link::{Client, Connection, Identity, LinkError, Purpose};
pub(crate) use pages::{OutputPages, TaskPages};
use tokio::task::JoinHandle;

use crate::args::value::OneJob;
use crate::failure::Failure;
use crate::output::note;
use crate::state::StateDir;

/// The open connections of this process. The master is told of their end however a command ends: a
/// connection whose end it has to detect counts against the user for some more seconds.
static OPEN: Mutex<Vec<Connection>> = Mutex::new(Vec::new());

/// Connects to the master; `goodbye` ends the connection at the latest.
///
/// # Errors
/// Those of `Client::connect`.
pub(crate) async fn connect(identity: &Identity) -> Result<Client, LinkError> {
    Ok(kept_in_mind(Client::connect(identity).await?))
}

/// Notes the connection for [`goodbye`].
fn kept_in_mind(client: Client) -> Client {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|connection| connection.quic().close_reason().is_none());
    open.push(client.connection().clone());
    client
}

/// Connects with the identity in the state directory (`StateDir::client`), which is renewed first if that is due. Returns the
/// identity, too.
///
/// # Errors
/// If there is none, or the master is out of reach or does not accept it.
pub(crate) async fn enter(state: &StateDir) -> Result<(Client, Identity), LinkError> {
    let (client, identity) = Client::enter(&state.client()).await?;
    Ok((kept_in_mind(client), identity))
}

/// Connects with the identity in the state directory as it is; see [`Client::enter_again`].
///
/// # Errors
/// Those of [`enter`].
pub(crate) async fn enter_again(state: &StateDir) -> Result<Client, LinkError> {
    let client = Client::enter_again(&state.client()).await?;
    Ok(kept_in_mind(client))
}

/// Closes every connection that a command has left open.
pub(crate) async fn goodbye() {
    let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    for connection in open
        .iter()
        .filter(|connection| connection.quic().close_reason().is_none())
    {
        connection.close("done").await;
    }
}

/// A connection to the master as this machine's user.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    client: Client,
    master: String,
    name: String,
    role: Role,
    /// Ends with the last copy of the session.
    _renewals: Arc<Renewals>,
}

/// The task that renews the identity while a session lasts: whoever waits or looks on may be connected for longer than a
/// certificate holds, and one that has expired in a user's hands is not renewed any more.
#[derive(Debug)]
struct Renewals(JoinHandle<()>);

impl Renewals {
    fn of(state: &StateDir, identity: &Identity) -> Self {
        let dir = state.client();
        let known = identity.certificate.clone();
        Self(tokio::spawn(async move {
            link::renewal::keep_fresh(&dir, Purpose::Client, &known).await;
        }))
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the failure of a command that names jobs of which there is none.
pub(crate) fn no_such_job(what: String) -> Failure {
    let hint = "deskgrid job list --all shows the jobs that there are";
    Failure::error("not-found", what, hint)
}

/// Returns the answer in a reply of this kind, or the error for a [`Reply`] of another kind.
macro_rules! answer {
    ($reply:expr, $kind:path) => {
        match $reply {
            $kind(answer) => Ok(answer),
            other => Err(link::client::unexpected(Some(&other))),
        }
    };
}

/// Collects the answers in replies of one kind into one `Vec`.
macro_rules! answers {
    ($replies:expr, $kind:path) => {{
        let mut all = Vec::new();
        for reply in $replies {
            all.extend($crate::session::answer!(reply, $kind)?);
        }
        all
    }};
}

pub(crate) use {answer, answers};

impl Session {
    /// Connects as [`enter`] does, and keeps the identity fresh for as long as the session and its clones last.
    ///
    /// # Errors
    /// Those of [`enter`].
    pub(crate) async fn open(state: &StateDir) -> Result<Self, Failure> {
        let (client, identity) = enter(state).await?;
        let renewals = Arc::new(Renewals::of(state, &identity));
        Ok(Self {
            client,
            master: identity.link.master,
            name: identity.link.name,
            role: identity.link.role,
            _renewals: renewals,
        })
    }

    /// Continues the session over a new connection.
    pub(crate) fn over(&self, client: Client) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    /// The open connection to the master, as a `Client`.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The master's address.
    pub(crate) fn master(&self) -> &str {
        &self.master
    }

    /// The name of this machine's user.
    pub(crate) fn user(&self) -> &str {
        &self.name
    }

    /// Whether this machine's user is an admin.
    pub(crate) fn of_admin(&self) -> bool {
        self.role == Role::Admin
    }

    /// Sends a request and returns its one reply.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn one(&self, request: &Request) -> Result<Reply, Failure> {
        let reply = self.client.ask(request).await?.pop();
        reply.ok_or_else(|| unexpected(None).into())
    }

    /// Returns the selected jobs that are in one of `states` (empty: any).
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn jobs(
        &self,
        jobs: Selector,
        states: Vec<JobState>,
    ) -> Result<Vec<JobView>, Failure> {
        let mut all = Vec::new();
        for jobs in pages::portions(jobs) {
            let states = states.clone();
            let request = Request::Jobs { jobs, states };
            all.extend(answers!(self.client.ask(&request).await?, Reply::Jobs));
        }
        Ok(all)
    }

    /// Returns the live attempts of a job; `None` if the master is too old to tell.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn running(&self, job: JobId) -> Result<Option<Vec<RunningView>>, Failure> {
        if self.client.version() < RUNNING_VERSION {
            return Ok(None);
        }
        let replies = self.client.ask(&Request::Running { job }).await?;
        Ok(Some(answers!(replies, Reply::Running)))
    }

    /// Returns what the tasks of a job run; `None` if the master is too old to tell.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn work(&self, job: JobId) -> Result<Option<WorkView>, Failure> {
        if self.client.version() < WORK_VERSION {
            return Ok(None);
        }
        let reply = self.one(&Request::Work { job }).await?;
        Ok(Some(*answer!(reply, Reply::Work)?))
    }

    /// Returns why the tasks of a job wait, and why each host was passed over.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn explained(&self, job: JobId) -> Result<Box<ExplainView>, Failure> {
        let reply = self.one(&Request::Explain { job }).await?;
        Ok(answer!(reply, Reply::Explained)?)
    }

    /// Returns why a host takes no more tasks.
    ///
    /// # Errors
    /// If there is no such host, if the master is too old to tell, or the connection is gone.
    pub(crate) async fn host_explained(&self, host: String) -> Result<HostExplainView, Failure> {
        if self.client.version() < SERVICE_VERSION {
            let what = "the master's program is too old to explain a host";
            let hint = "ask for the reasons of one job: deskgrid job explain JOB";
            return Err(Failure::error("too-old", what, hint));
        }
        let reply = self.one(&Request::HostExplain { host }).await?;
        Ok(*answer!(reply, Reply::HostExplained)?)
    }

    /// Returns exactly one job.
    ///
    /// # Errors
    /// If there is no such job, or the connection is gone.
    pub(crate) async fn job(&self, job: OneJob) -> Result<JobView, Failure> {
        let found = self.jobs(job.into(), Vec::new()).await?.pop();
        found.ok_or_else(|| {
            no_such_job(match job {
                OneJob::Id(id) => format!("there is no job {id}"),
                OneJob::Last => "there are no jobs".to_owned(),
            })
        })
    }

    /// Returns the number of a job; asks the master only for `last`.
    ///
    /// # Errors
    /// If there is no job at all, or the connection is gone.
    pub(crate) async fn job_id(&self, job: OneJob) -> Result<JobId, Failure> {
        match job {
            OneJob::Id(id) => Ok(id),
            OneJob::Last => Ok(self.job(job).await?.job),
        }
    }

    /// Returns tasks of a job.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn tasks(
        &self,
        job: JobId,
        tasks: Selector,
        states: Vec<TaskState>,
    ) -> Result<Vec<TaskView>, Failure> {
        self.task_pages(job, tasks, states).all().await
    }

    /// Notes the numbers among `tasks` that lie beyond the last task of the job.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn note_beyond(&self, job: JobId, tasks: &Selector) -> Result<(), Failure> {
        let Selector::Ids(ids) = tasks else {
            return Ok(());
        };
        let last = self.tasks(job, Selector::Last, Vec::new()).await?.pop();
        let Some(last) = last.map(|view| view.task.index) else {
            return Ok(());
        };

        let missing = ids.intersection(&beyond(last));
        if !missing.is_empty() && missing != *ids {
            note(&format!(
                "job {job} has no task {}: its last is {last}",
                missing.in_brief()
            ));
        }
        Ok(())
    }

    /// Asks for tasks of a job, to be read page by page.
    pub(crate) fn task_pages(
        &self,
        job: JobId,
        tasks: Selector,
        states: Vec<TaskState>,
    ) -> TaskPages {
        TaskPages::of_tasks(&self.client, job, tasks, move |tasks| {
            let states = states.clone();
            Request::Tasks { job, tasks, states }
        })
    }

    /// Returns the outputs of tasks of a job.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn outputs(
        &self,
        job: JobId,
        tasks: Selector,
    ) -> Result<Vec<OutputView>, Failure> {
        self.output_pages(job, tasks).all().await
    }

    /// Asks for the outputs of tasks of a job, to be read page by page.
    pub(crate) fn output_pages(&self, job: JobId, tasks: Selector) -> OutputPages {
        OutputPages::of_outputs(&self.client, job, tasks)
    }

    /// Returns the results of a job that wait for a comparison by a program of the user's.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn undecided(&self, job: JobId) -> Result<Vec<Undecided>, Failure> {
        let replies = self.client.ask(&Request::Undecided { job }).await?;
        (replies.into_iter())
            .map(|reply| Ok(*answer!(reply, Reply::Undecided)?))
            .collect()
    }

    /// Returns the hosts with which the master answers `request`.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn hosts(&self, request: &Request) -> Result<Vec<HostView>, Failure> {
        Ok(answers!(self.client.ask(request).await?, Reply::Hosts))
    }

    /// Returns the tokens with which the master answers `request`.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn tokens(&self, request: &Request) -> Result<Vec<TokenView>, Failure> {
        Ok(answers!(self.client.ask(request).await?, Reply::Tokens))
    }

    /// Returns a new token, with its secret, and where it is used, as `request` asks for it: see [`Reply::Token`].
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn new_token(
        &self,
        request: &Request,
    ) -> Result<(JoinToken, TokenView, String), Failure> {
        match self.one(request).await? {
            Reply::Token(token, view, place) => Ok((token, view, place)),
            other => Err(unexpected(Some(&other)).into()),
        }
    }

    /// Returns the newest entries of the audit log, `most` at most, in order of time.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn audit(&self, most: u32) -> Result<Vec<AuditView>, Failure> {
        let request = Request::Audit { most };
        Ok(answers!(self.client.ask(&request).await?, Reply::Audit))
    }

    /// Returns the accounts with which the master answers `request`.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn accounts(&self, request: &Request) -> Result<Vec<AccountView>, Failure> {
        Ok(answers!(self.client.ask(request).await?, Reply::Accounts))
    }

    /// Returns the quality of estimates with which the master answers `request`.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn estimates(&self, request: &Request) -> Result<Vec<EstimatesView>, Failure> {
        Ok(answers!(self.client.ask(request).await?, Reply::Estimates))
    }

    /// Returns the jobs that `request` changed, each with the number of changed tasks.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn changed(&self, request: &Request) -> Result<Vec<(JobId, u64)>, Failure> {
        Ok(answers!(self.client.ask(request).await?, Reply::Changed))
    }

    /// Closes the connection.
    pub(crate) async fn close(self) {
        self.client.close().await;
    }
}
