//! Between a client and the master: each request on a stream of its own, answered by one or more
//! replies; the stream's end is the end of the answer.

use serde::{Deserialize, Serialize};

use super::stream::TailPart;
use super::{Refusal, Versions};
use crate::additions::NewTasks;
use crate::attempt::StreamKind;
use crate::content::BlobRef;
use crate::event::{EventPage, Following};
use crate::identity::{AuditView, IdentityView};
use crate::ids::{AttemptId, HostId, Incarnation, JobId, RequestId, TaskId};
use crate::job::{JobSpec, SubmitOptions};
use crate::needs::Label;
use crate::selector::Selector;
use crate::site::{HostSiteView, SiteScope, SiteTextView};
use crate::time::{Span, Time};
use crate::token::{JoinToken, Role};
use crate::update::{UpdateOrder, UpdatesView};
use crate::view::{
    AccountView, AccuracyView, AvailabilityView, CounterView, EstimatesView, ExplainView, Forecast,
    HostExplainView, HostView, JobState, JobView, LimitsView, MastersView, OutputView, PromiseView,
    RunningView, TaskState, TaskView, TokenView, Undecided, WaitView, WidthView, WorkView,
};

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// First request of every connection. Answered by [`Reply::Welcome`].
    Hello(Versions),
    /// Answered by [`Reply::Submitted`], or by [`Reply::NotPromised`].
    Submit {
        /// The client's id for this submission, the same in repeats.
        id: RequestId,
        /// The job; the tasks of a disclosed one are in order of their likelihood.
        spec: Submission,
        /// Whether the tasks are disclosed: nobody waits for them until they are requested.
        disclosed: bool,
        /// Whether only to report what would happen.
        dry_run: bool,
    },
    /// Lists jobs. Answered by [`Reply::Jobs`]. Without ids: the unsettled ones, or with
    /// `Selector::All` every one.
    Jobs {
        /// The jobs.
        jobs: Selector,
        /// Only those in these states; empty: any.
        states: Vec<JobState>,
    },
    /// Follows jobs. Answered by a [`Reply::Jobs`] at once, one whenever something changes (a few
    /// times a second at most), and the last when all are settled or the time is over.
    Watch {
        /// The jobs; fixed when the request arrives.
        jobs: Selector,
        /// Whether only the first and the last answer are sent.
        quiet: bool,
        /// The longest time to follow them.
        timeout: Option<Span>,
    },
    /// Lists tasks of a job. Answered by [`Reply::Tasks`].
    Tasks {
        /// The job.
        job: JobId,
        /// The tasks.
        tasks: Selector,
        /// Only those in these states; empty: any.
        states: Vec<TaskState>,
    },
    /// Lists the outputs of tasks. Answered by [`Reply::Outputs`]: one entry for each task that
    /// left something.
    Outputs {
        /// The job.
        job: JobId,
        /// The tasks.
        tasks: Selector,
    },
    /// Cancels jobs, or tasks of theirs. Answered by [`Reply::Changed`].
    Cancel {
        /// The jobs.
        jobs: Selector,
        /// The tasks of these jobs; `None`: all.
        tasks: Option<Selector>,
    },
    /// Makes failed and cancelled tasks wait again. Answered by [`Reply::Changed`].
    Retry {
        /// The job.
        job: JobId,
        /// The tasks; of these only the failed (and, unless `only_failed`, the cancelled) ones
        /// count.
        tasks: Selector,
        /// Whether cancelled tasks stay cancelled.
        only_failed: bool,
    },
    /// Computes finished tasks again whose results the master has lost or finds damaged. Answered
    /// by [`Reply::Changed`].
    Recompute {
        /// The job.
        job: JobId,
        /// The tasks to check.
        tasks: Selector,
    },
    /// Removes settled jobs with their results. Answered by [`Reply::Changed`].
    Forget {
        /// The jobs.
        jobs: Selector,
    },
    /// Fetches results that wait for the user's program to compare them. Answered by a
    /// [`Reply::Undecided`] for each, up to some number.
    Undecided {
        /// The job.
        job: JobId,
    },
    /// Reports the verdict of that program. Answered by [`Reply::Changed`].
    Judge {
        /// The attempt with the new result.
        attempt: AttemptId,
        /// The numbers of the attempts whose results agree with it.
        agrees: Vec<u32>,
    },
    /// Asks why a job's tasks wait. Answered by [`Reply::Explained`].
    Explain {
        /// The job.
        job: JobId,
    },
    /// Lists hosts. Answered by [`Reply::Hosts`].
    Hosts {
        /// The hosts, by name or `host-N`; empty: all.
        names: Vec<String>,
    },
    /// Drains a host: it gets no new attempts. Answered by [`Reply::Hosts`]. Admins only.
    Drain {
        /// The host, by name or `host-N`.
        host: String,
    },
    /// Ends a drain. Answered by [`Reply::Hosts`]. Admins only.
    Undrain {
        /// The host, by name or `host-N`.
        host: String,
    },
    /// Sets the owner of a host: results of hosts of one owner never confirm each other. Answered
    /// by [`Reply::Hosts`]. Admins only.
    HostOwner {
        /// The host, by name or `host-N`.
        host: String,
        /// The owner, in the admin's words; `None`: the host is an owner of its own.
        owner: Option<String>,
    },
    /// Changes the labels that admins give a host. Answered by [`Reply::Hosts`]. Admins only.
    HostLabels {
        /// The host, by name or `host-N`.
        host: String,
        /// Labels that it gets.
        add: Vec<Label>,
        /// Labels that it has no more.
        remove: Vec<Label>,
    },
    /// Makes a join token. Answered by [`Reply::Token`]. Admins only.
    TokenCreate {
        /// The role of its holder.
        role: Role,
        /// The time until it expires.
        ttl: Span,
        /// The number of times that it can be used.
        uses: u32,
        /// A name for lists and logs.
        name: String,
        /// Whether a joiner must wait until an admin approves.
        approval: bool,
        /// The user for whom it speaks over HTTP, with at most this role; `None`: it is a join
        /// token.
        speaks_for: Option<String>,
    },
    /// Lists the join tokens. Answered by [`Reply::Tokens`]. Admins only.
    TokenList,
    /// Revokes a join token. Answered by [`Reply::Tokens`] with that token. Admins only.
    TokenRevoke {
        /// The token's number.
        id: u32,
    },
    /// Fetches the recorded availability of hosts. Answered by one [`Reply::Availability`] or more
    /// for each. Admins only: it shows when people were at their desks.
    Availability {
        /// The hosts, by name or `host-N`; empty: all.
        hosts: Vec<String>,
        /// The start of the period, in microseconds since the Unix epoch.
        since: Time,
        /// The end of the period.
        until: Time,
    },
    /// Lists identities. Answered by [`Reply::Identities`]. Admins only.
    Identities {
        /// The names; empty: all.
        names: Vec<String>,
    },
    /// Approves an identity that waits for it. Answered by [`Reply::Identities`]. Admins only.
    Approve {
        /// The identity's name.
        name: String,
    },
    /// Revokes an identity for good: closes its connections, and has the attempts of a host run
    /// elsewhere. Answered by [`Reply::Identities`]. Admins only.
    Revoke {
        /// The identity's name.
        name: String,
    },
    /// Lets another user look at jobs and take their results, or ends that. Answered by
    /// [`Reply::Changed`].
    Share {
        /// The jobs.
        jobs: Selector,
        /// The other user.
        user: String,
        /// Whether to share or to end it.
        on: bool,
    },
    /// Fetches the newest entries of the audit log. Answered by [`Reply::Audit`], the oldest first.
    /// Admins only.
    Audit {
        /// The largest number of entries.
        most: u32,
    },
    /// Reports the quality of estimates: the user's own, or for an admin those of `user` or of all.
    /// Answered by [`Reply::Estimates`].
    Estimates {
        /// The user; `None`: all that the asker may see.
        user: Option<String>,
    },
    /// Requests disclosed tasks: somebody now waits for them. Answered by [`Reply::Changed`].
    RequestTasks {
        /// The job.
        job: JobId,
        /// The tasks.
        tasks: Selector,
    },
    /// Cancels disclosed tasks that were not requested. Answered by [`Reply::Changed`].
    CancelUnrequested {
        /// The jobs.
        jobs: Selector,
    },
    /// Reports the resources spent on a user's tasks. Answered by [`Reply::Accounts`].
    Account {
        /// The user; `None`: the asker, or for an admin everybody.
        user: Option<String>,
        /// Whether to report each job as well, except forgotten ones.
        jobs: bool,
    },
    /// Predicts when this many hosts are free together. Answered by [`Reply::HostsWait`].
    HostsWait {
        /// The number of hosts.
        hosts: u32,
    },
    /// Reports the accuracy of predicted waits. Answered by [`Reply::Accuracy`].
    Accuracy,
    /// Leaves a host whose identity was revoked out of all lists from now on. Answered by
    /// [`Reply::Hosts`] with that host. Admins only.
    HostForget {
        /// The host, by name or `host-N`.
        host: String,
    },
    /// Follows events. Answered by a [`Reply::Events`] at once, one whenever something happens (a
    /// few times a second at most), and a [`Reply::Lagged`] where events are gone.
    Follow(Following),
    /// Looks at the output of a task while it runs. Answered by [`Reply::Tail`]s until the task is
    /// settled.
    Tail {
        /// The task.
        task: TaskId,
        /// The stream.
        stream: StreamKind,
        /// The place in the output at which to begin.
        from: TailFrom,
    },
    /// Adds tasks to an open job. Answered by [`Reply::Added`].
    AddTasks {
        /// The client's id for this addition, the same in repeats.
        id: RequestId,
        /// The job.
        job: JobId,
        /// The tasks.
        tasks: Addition,
        /// Whether only to report what would happen.
        dry_run: bool,
    },
    /// Closes open jobs: no task can be added any more. Answered by [`Reply::Changed`], with the
    /// number of tasks that are left.
    Close {
        /// The jobs.
        jobs: Selector,
    },
    /// Asks which masters there are. Answered by [`Reply::Masters`].
    Masters,
    /// Gives the store to a master that stands by. Answered by [`Reply::Masters`], as of before; the
    /// connection may end before the answer.
    HandOver,
    /// Shows the settings that workers get from the master, and which hosts have them. Answered by
    /// [`Reply::Site`]. Admins only. From [`SITE_VERSION`](super::SITE_VERSION) on.
    Site,
    /// Stores settings for workers, or withdraws them. Answered as [`Request::Site`], without hosts.
    /// Admins only. From [`SITE_VERSION`](super::SITE_VERSION) on.
    SiteChange {
        /// The hosts for which they hold.
        scope: SiteScope,
        /// The settings, as TOML; `None`: these hosts have none.
        text: Option<String>,
    },
    /// Shows or changes what hosts get as new programs. Answered by [`Reply::Updates`]. Admins only.
    /// From [`UPDATE_VERSION`](super::UPDATE_VERSION) on.
    Update(Box<UpdateOrder>),
    /// Asks about the live attempts of a job. Answered by [`Reply::Running`]. From
    /// [`RUNNING_VERSION`](super::RUNNING_VERSION) on.
    Running {
        /// The job.
        job: JobId,
    },
    /// Asks what a job's tasks run, and by which rules. Answered by [`Reply::Work`]. From
    /// [`WORK_VERSION`](super::WORK_VERSION) on.
    Work {
        /// The job.
        job: JobId,
    },
    /// Asks why a host takes no more tasks of the asker's jobs. Answered by [`Reply::HostExplained`]. From
    /// [`SERVICE_VERSION`](super::SERVICE_VERSION) on.
    HostExplain {
        /// The host's name, or `host-N`.
        host: String,
    },
}

/// The place at which a [`Request::Tail`] begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TailFrom {
    /// Its beginning.
    Start,
    /// The newest bytes that its host has in memory, at most 64 KiB.
    Newest,
    /// This byte of this attempt; another attempt is shown from its beginning.
    Byte(AttemptId, u64),
}

/// News of a task whose output somebody looks at with [`Request::Tail`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TailNews {
    /// The output of this attempt follows.
    Begins {
        /// The attempt.
        attempt: AttemptId,
        /// The name of its host.
        host: String,
    },
    /// A part of the output.
    Part(TailPart),
    /// There is nothing to show for now, for this reason.
    Waits(String),
    /// The task is settled: what is left of its output is stored.
    Settled,
}

/// A job's spec and the [`SubmitOptions`] beside it: in the request itself where it is short, else as
/// content that was put before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Submission {
    /// Spec and `SubmitOptions`, in the request.
    Inline(Box<JobSpec>, SubmitOptions),
    /// A reference to content that is the pair of both as postcard.
    Blob(BlobRef),
}

impl From<JobSpec> for Submission {
    fn from(spec: JobSpec) -> Self {
        Self::Inline(Box::new(spec), SubmitOptions::default())
    }
}

/// New tasks of an open job: in the request itself where they are few, else as content that was put
/// before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Addition {
    /// The tasks, in the request.
    Inline(NewTasks),
    /// A reference to content that is a [`NewTasks`] as postcard.
    Blob(BlobRef),
}

/// A reply of the master.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Answers `Hello`: the client is connected.
    Welcome {
        /// The version that both will speak.
        version: u16,
        /// The client's rights.
        role: Role,
        /// The client's name.
        user: String,
        /// The master's incarnation.
        incarnation: Incarnation,
        /// The master's clock, for people.
        now: Time,
    },
    /// The request was not carried out, and nothing has changed.
    Refused(Refusal),
    /// The job is durable (or, of a dry run, would be taken).
    Submitted {
        /// The job's number; `None` for a dry run.
        job: Option<JobId>,
        /// The number of its tasks.
        tasks: u64,
        /// Whether this request id had been seen before.
        again: bool,
        /// The forecast of its end, where one can be given.
        predicted: Option<Forecast>,
        /// Its promise, if it has a deadline.
        promise: Option<PromiseView>,
        /// The run-time limits of its attempts, where they are learned.
        limits: Option<LimitsView>,
        /// The width of a gang.
        width: Option<Box<WidthView>>,
        /// The reasons, in words, why the known hosts could never do its tasks: none qualifies, or
        /// their owners are too few for its quorum. `None` if they could, or no host is known.
        nowhere: Option<String>,
    },
    /// Some of the jobs; more may follow.
    Jobs(Vec<JobView>),
    /// Some of the tasks; more may follow.
    Tasks(Vec<TaskView>),
    /// Some of the outputs; more may follow.
    Outputs(Vec<OutputView>),
    /// The change was made; the number of affected tasks for each job.
    Changed(Vec<(JobId, u64)>),
    /// Answers `Explain`.
    Explained(Box<ExplainView>),
    /// Some of the hosts; more may follow.
    Hosts(Vec<HostView>),
    /// A new token: this is the only time that its secret is shown. With it the addresses of the masters; of a token that
    /// speaks over HTTP the URL of the master's server, empty where it has none (masters before that told theirs, too).
    Token(JoinToken, TokenView, String),
    /// The tokens.
    Tokens(Vec<TokenView>),
    /// Answers `Undecided`: one such result; more may follow.
    Undecided(Box<Undecided>),
    /// Answers `Availability`: some of the intervals recorded of a host; more may follow.
    Availability(AvailabilityView),
    /// Some of the identities; more may follow.
    Identities(Vec<IdentityView>),
    /// Some entries of the audit log; more may follow.
    Audit(Vec<AuditView>),
    /// The job's deadline cannot be promised; nothing was submitted.
    NotPromised(Box<CounterView>),
    /// The quality of some estimates; more may follow.
    Estimates(Vec<EstimatesView>),
    /// Some accounts; more may follow.
    Accounts(Vec<AccountView>),
    /// Answers `HostsWait`.
    HostsWait(WaitView),
    /// Answers `Accuracy`.
    Accuracy(AccuracyView),
    /// Some events; more may follow.
    Events(EventPage),
    /// Events are not kept any more that the follower has not had. The next ones follow.
    Lagged {
        /// The number of the last event that the follower had.
        after: u64,
        /// The number of the first event that is left. What it missed, lists tell.
        from: u64,
    },
    /// News of the task of a [`Request::Tail`]; more may follow.
    Tail(TailNews),
    /// The tasks are in the job, durably (or, of a dry run, would be).
    Added {
        /// The job.
        job: JobId,
        /// The lowest and the highest number of the new tasks.
        range: (u32, u32),
        /// The count of the new tasks.
        tasks: u64,
        /// The count of all tasks of the job.
        total: u64,
        /// Whether this request id had been seen before.
        again: bool,
    },
    /// Answers `Masters`.
    Masters(Box<MastersView>),
    /// Some of the settings for workers, and some of the hosts for which any hold; more may follow.
    Site(Vec<SiteTextView>, Vec<HostSiteView>),
    /// The rollouts of new programs; of their hosts the first [`MOST_HOSTS`](crate::update::MOST_HOSTS).
    Updates(Box<UpdatesView>),
    /// Some of the live attempts of a job; more may follow.
    Running(Vec<RunningView>),
    /// Answers `Work`.
    Work(Box<WorkView>),
    /// Answers `HostExplain`.
    HostExplained(Box<HostExplainView>),
}

/// Returns the number in a host's name of the form `host-N`; `None` for any other name.
pub fn host_number(name: &str) -> Option<HostId> {
    name.strip_prefix("host-")
        .and_then(|n| n.parse().ok())
        .map(HostId)
}
