//! Between a client and the master: each request on a stream of its own, answered by one or more
//! replies; the stream's end is the end of the answer.

use serde::{Deserialize, Serialize};

use super::{Refusal, Versions};
use crate::content::BlobRef;
use crate::identity::{AuditView, IdentityView};
use crate::ids::{AttemptId, HostId, Incarnation, JobId, RequestId};
use crate::job::{Asked, JobSpec};
use crate::selector::Selector;
use crate::time::{Span, Time};
use crate::token::{JoinToken, Role};
use crate::view::{
    AccountView, AccuracyView, AvailabilityView, CounterView, EstimatesView, ExplainView, Forecast,
    HostView, JobState, JobView, LimitsView, OutputView, PromiseView, TaskState, TaskView,
    TokenView, Undecided, WaitView, WidthView,
};

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// First request of every connection. Answered by [`Reply::Welcome`].
    Hello(Versions),
    /// Answered by [`Reply::Submitted`], or by [`Reply::NotPromised`].
    Submit {
        /// Chosen by the client, kept over its repeats.
        id: RequestId,
        /// What to do; of a disclosed job the likeliest first.
        spec: Submission,
        /// Nobody waits for the tasks until they are requested.
        disclosed: bool,
        /// Only say what would happen.
        dry_run: bool,
    },
    /// Answered by [`Reply::Jobs`]. Without ids: the unsettled ones, or with `Selector::All` every
    /// one.
    Jobs {
        /// Which.
        jobs: Selector,
        /// Only those in these states; empty: any.
        states: Vec<JobState>,
    },
    /// Answered by a [`Reply::Jobs`] at once, one whenever something changes (a few times a second
    /// at most), and the last when all are settled or the time is over.
    Watch {
        /// Which; fixed when the request arrives.
        jobs: Selector,
        /// Only the first and the last answer are wanted.
        quiet: bool,
        /// For how long at most.
        timeout: Option<Span>,
    },
    /// Answered by [`Reply::Tasks`].
    Tasks {
        /// Of which job.
        job: JobId,
        /// Which.
        tasks: Selector,
        /// Only those in these states; empty: any.
        states: Vec<TaskState>,
    },
    /// Answered by [`Reply::Outputs`]: one entry for each task that left something.
    Outputs {
        /// Of which job.
        job: JobId,
        /// Of which tasks.
        tasks: Selector,
    },
    /// Answered by [`Reply::Changed`].
    Cancel {
        /// Which jobs.
        jobs: Selector,
        /// Only these tasks of them.
        tasks: Option<Selector>,
    },
    /// Makes failed and cancelled tasks wait again. Answered by [`Reply::Changed`].
    Retry {
        /// Of which job.
        job: JobId,
        /// Which tasks; of these only the failed (and, unless `only_failed`, the cancelled) ones
        /// count.
        tasks: Selector,
        /// Leave the cancelled ones.
        only_failed: bool,
    },
    /// Has finished tasks computed again whose results the master has lost or finds damaged.
    /// Answered by [`Reply::Changed`].
    Recompute {
        /// Of which job.
        job: JobId,
        /// Which tasks are looked at.
        tasks: Selector,
    },
    /// Removes settled jobs with their results. Answered by [`Reply::Changed`].
    Forget {
        /// Which.
        jobs: Selector,
    },
    /// Results that wait for a program of the user's. Answered by a [`Reply::Undecided`] for each,
    /// up to some.
    Undecided {
        /// Of which job.
        job: JobId,
    },
    /// What that program says. Answered by [`Reply::Changed`].
    Judge {
        /// Whose result is new.
        attempt: AttemptId,
        /// Numbers of the attempts with whose results it agrees.
        agrees: Vec<u32>,
    },
    /// Answered by [`Reply::Explained`].
    Explain {
        /// Which.
        job: JobId,
    },
    /// Answered by [`Reply::Hosts`].
    Hosts {
        /// By name or `host-N`; empty: all.
        names: Vec<String>,
    },
    /// No new work for the host. Answered by [`Reply::Hosts`]. Admins only.
    Drain {
        /// By name or `host-N`.
        host: String,
    },
    /// The end of a drain. Answered by [`Reply::Hosts`]. Admins only.
    Undrain {
        /// By name or `host-N`.
        host: String,
    },
    /// Says whose a host is: results of hosts of one owner never confirm each other. Answered by
    /// [`Reply::Hosts`]. Admins only.
    HostOwner {
        /// By name or `host-N`.
        host: String,
        /// In the admin's words; none: nobody's but its own.
        owner: Option<String>,
    },
    /// Answered by [`Reply::Token`]. Admins only.
    TokenCreate {
        /// What its holder becomes.
        role: Role,
        /// For how long it works.
        ttl: Span,
        /// How often it works.
        uses: u32,
        /// For lists and logs.
        name: String,
        /// Whether who joins with it waits until an admin approves.
        approval: bool,
    },
    /// Answered by [`Reply::Tokens`]. Admins only.
    TokenList,
    /// Answered by [`Reply::Tokens`] with that token. Admins only.
    TokenRevoke {
        /// Its number.
        id: u32,
    },
    /// How hosts were available. Answered by a [`Reply::Availability`] or more for each. Admins
    /// only: it says when people were at their desks.
    Availability {
        /// By name or `host-N`; empty: all.
        hosts: Vec<String>,
        /// From then on, in microseconds since the Unix epoch.
        since: Time,
        /// Until then.
        until: Time,
    },
    /// Who has joined. Answered by [`Reply::Identities`]. Admins only.
    Identities {
        /// Only these; empty: all.
        names: Vec<String>,
    },
    /// Lets somebody in who waits for it. Answered by [`Reply::Identities`]. Admins only.
    Approve {
        /// Whom.
        name: String,
    },
    /// Lets somebody in no more, closes their connections, and has what a host held run elsewhere.
    /// For good. Answered by [`Reply::Identities`]. Admins only.
    Revoke {
        /// Whom.
        name: String,
    },
    /// Lets another user look at jobs and take their results, or ends that. Answered by
    /// [`Reply::Changed`].
    Share {
        /// Which jobs.
        jobs: Selector,
        /// With whom.
        user: String,
        /// Whether to share or to end it.
        on: bool,
    },
    /// The newest entries of the audit log. Answered by [`Reply::Audit`], the oldest first. Admins
    /// only.
    Audit {
        /// So many at most.
        most: u32,
    },
    /// How good estimates were: the user's own, or for an admin those of this user or of all.
    /// Answered by [`Reply::Estimates`].
    Estimates {
        /// Only those of this user.
        user: Option<String>,
    },
    /// Somebody waits for tasks that were only disclosed. Answered by [`Reply::Changed`].
    RequestTasks {
        /// Of which job.
        job: JobId,
        /// Which.
        tasks: Selector,
    },
    /// Drops what was disclosed and not requested. Answered by [`Reply::Changed`].
    CancelUnrequested {
        /// Of which jobs.
        jobs: Selector,
    },
    /// What was spent on somebody's tasks. Answered by [`Reply::Accounts`].
    Account {
        /// Whose; one's own where nothing is said, and everybody's of an admin.
        user: Option<String>,
        /// Job by job as well, as far as they are not forgotten.
        jobs: bool,
    },
    /// When so many hosts should be free together. Answered by [`Reply::HostsWait`].
    HostsWait {
        /// How many.
        hosts: u32,
    },
    /// How good predictions of waits were. Answered by [`Reply::Accuracy`].
    Accuracy,
}

/// A job's spec with what is asked beside it: in the request where it is short, else as content
/// that was put before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Submission {
    /// Both, in the request.
    Inline(Box<JobSpec>, Asked),
    /// Content that is the pair of both as postcard.
    Blob(BlobRef),
}

impl From<JobSpec> for Submission {
    fn from(spec: JobSpec) -> Self {
        Self::Inline(Box::new(spec), Asked::default())
    }
}

/// What the master answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To `Hello`.
    Welcome {
        /// The version that both will speak.
        version: u16,
        /// What the client may do.
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
        /// Its number; none of a dry run.
        job: Option<JobId>,
        /// How many tasks.
        tasks: u64,
        /// Whether this request id had been seen before.
        again: bool,
        /// When it would be finished, where that can be said.
        predicted: Option<Forecast>,
        /// What it is promised, where it has a deadline.
        promise: Option<PromiseView>,
        /// The limits of its attempts, where they are learned.
        limits: Option<LimitsView>,
        /// On how many hosts it runs, of a job of several ranks.
        width: Option<Box<WidthView>>,
    },
    /// Some of the jobs; more may follow.
    Jobs(Vec<JobView>),
    /// Some of the tasks; more may follow.
    Tasks(Vec<TaskView>),
    /// Some of the outputs; more may follow.
    Outputs(Vec<OutputView>),
    /// What was done, per job: how many of its tasks were affected.
    Changed(Vec<(JobId, u64)>),
    /// To `Explain`.
    Explained(Box<ExplainView>),
    /// Some of the hosts; more may follow.
    Hosts(Vec<HostView>),
    /// A new token: the only time that its secret is shown.
    Token(JoinToken, TokenView, String),
    /// The tokens.
    Tokens(Vec<TokenView>),
    /// To `Undecided`: one of them; more may follow.
    Undecided(Box<Undecided>),
    /// To `Availability`: some of what is recorded of a host; more may follow.
    Availability(AvailabilityView),
    /// Some of those who have joined; more may follow.
    Identities(Vec<IdentityView>),
    /// Some of the audit log; more may follow.
    Audit(Vec<AuditView>),
    /// The job's deadline cannot be promised; nothing was submitted.
    NotPromised(Box<CounterView>),
    /// How good estimates were; more may follow.
    Estimates(Vec<EstimatesView>),
    /// Some accounts; more may follow.
    Accounts(Vec<AccountView>),
    /// To `HostsWait`.
    HostsWait(WaitView),
    /// To `Accuracy`.
    Accuracy(AccuracyView),
}

/// How people may name a host: its name, or `host-N`.
pub fn host_number(name: &str) -> Option<HostId> {
    name.strip_prefix("host-")
        .and_then(|n| n.parse().ok())
        .map(HostId)
}
