//! The [`Effect`]s, everything that the scheduler can ask for. Closed; each effect that refuses,
//! ends or delays something carries its reason.

use std::fmt;

use common::attempt::Outcome;
use common::host::YieldReason;
use common::text::plural;
use common::view::{Belief, COUNTS, HostState, JobState};
use common::{AttemptId, HostId, IdSet, JobId, Span, TaskId, Time};
use serde::{Deserialize, Serialize};

/// An action for the caller to take, in the order in which the step emitted it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// The job is admitted.
    JobAdmitted {
        /// The admitted job.
        job: JobId,
    },
    /// The job's deadline is promised. Follows its `JobAdmitted`.
    Promised {
        /// The job with the deadline.
        job: JobId,
        /// The promise.
        offer: Offer,
    },
    /// Tasks of a job with a promise wait again, by hand, since their results are gone or since their
    /// attempts were killed to make room: what waits of it stands at the end of the line now, and its
    /// deadline is promised anew.
    PromiseRenewed {
        /// The job with the deadline.
        job: JobId,
        /// The time of the new promise.
        made: Time,
        /// The completion predicted now.
        finish: Time,
    },
    /// Tasks of a job with a promise wait again, and its deadline cannot be met from the end of the
    /// line: it goes on without a promise.
    PromiseWithdrawn {
        /// The job with the deadline.
        job: JobId,
    },
    /// The job is refused, and forgotten.
    JobRefused {
        /// The refused job.
        job: JobId,
        /// The reason, shown to its user.
        why: Refused,
    },
    /// Assigns this attempt to this host.
    Start {
        /// The host that is to run the attempt.
        host: HostId,
        /// The new attempt.
        attempt: AttemptId,
        /// The longest run time that it may have.
        limit: Option<Span>,
        /// The interval at which its host is to report while it holds this attempt, where the
        /// policy wants it shorter than usual.
        report_every: Option<Span>,
        /// The reason why it starts now and there.
        why: StartReason,
    },
    /// The gang has its hosts and its number of ranks; its ranks start now. Precedes their
    /// `Start`s.
    Formed {
        /// The gang.
        job: JobId,
        /// The number of its ranks.
        ranks: u32,
        /// The number of hosts that were free for it at once.
        free: u32,
    },
    /// All ranks are ready: the host is to start this one's command.
    Begin {
        /// The host of the rank.
        host: HostId,
        /// The rank's attempt.
        attempt: AttemptId,
    },
    /// A gang waits for this many free hosts, which is predicted to take this long.
    Foretold {
        /// The gang.
        job: JobId,
        /// The number of hosts it waits for.
        hosts: u32,
        /// The predicted wait.
        wait: Span,
        /// The lower end of the interval that contains the wait with a probability of 80 %.
        low: Span,
        /// The upper end of that interval.
        high: Span,
    },
    /// The host is to end this attempt, which is off the books already.
    Stop {
        /// The host that runs the attempt.
        host: HostId,
        /// The attempt to end.
        attempt: AttemptId,
        /// The reason, shown to users.
        why: EndReason,
    },
    /// The host is to freeze this attempt, so that another gets its slot. It stays on the books.
    Freeze {
        /// The host that runs the attempt.
        host: HostId,
        /// The attempt to freeze.
        attempt: AttemptId,
        /// The task that gets its slot; `None` where the host is only told again.
        by: Option<TaskId>,
    },
    /// The host is to thaw a frozen attempt: there is a slot for it.
    Thaw {
        /// The host that holds the attempt.
        host: HostId,
        /// The frozen attempt.
        attempt: AttemptId,
    },
    /// The attempt's command was started, by its host's report.
    Executing {
        /// The started attempt.
        attempt: AttemptId,
    },
    /// The attempt is off the books, and no longer live.
    Ended {
        /// Its host.
        host: HostId,
        /// The ended attempt.
        attempt: AttemptId,
        /// The reason, shown to users.
        why: EndReason,
    },
    /// The completion that a host delivered has been handled: the worker may remove it from its
    /// spool.
    Acknowledge {
        /// The host that delivered it.
        host: HostId,
        /// The attempt that it completes.
        attempt: AttemptId,
        /// The use made of the completion.
        verdict: Verdict,
    },
    /// This result is to be compared with the others of its task; [`crate::Event::ResultCompared`]
    /// is the answer.
    Compare {
        /// The attempt with the new result.
        attempt: AttemptId,
        /// The attempts with the task's other results, oldest first.
        with: Vec<AttemptId>,
    },
    /// The present belief in an attempt's result.
    Judged {
        /// Its host.
        host: HostId,
        /// The attempt with the result.
        attempt: AttemptId,
        /// The belief in it.
        judgement: Judgement,
    },
    /// The number of the host's results in a row that agreed with others' has changed.
    HostTrusted {
        /// The host.
        host: HostId,
        /// The number of results in a row.
        valid: u32,
    },
    /// The host holds these attempts in vain: it is to drop them without a delivery.
    Abandon {
        /// The host that holds them.
        host: HostId,
        /// The attempts to drop.
        attempts: Vec<AttemptId>,
    },
    /// The task is settled: it does not run again unless it is retried.
    TaskSettled {
        /// The settled task.
        task: TaskId,
        /// Its outcome.
        settled: Settled,
    },
    /// These tasks of a job are cancelled, all at once.
    TasksCancelled {
        /// The job of the tasks.
        job: JobId,
        /// The indices of the cancelled tasks.
        tasks: common::IdSet,
        /// The reason, shown to users.
        why: CancelReason,
    },
    /// These settled tasks of a job wait again.
    TasksReopened {
        /// The job of the tasks.
        job: JobId,
        /// The indices of the reopened tasks.
        tasks: common::IdSet,
    },
    /// Every task of the job is settled.
    JobSettled {
        /// The settled job.
        job: JobId,
        /// `Finished`, `Failed` or `Cancelled`.
        state: JobState,
    },
    /// The host's state has changed.
    HostChanged {
        /// The host.
        host: HostId,
        /// Its state now.
        state: HostState,
        /// The owner's reason, if the owner is the cause.
        owner: Option<YieldReason>,
    },
}

/// The reason why a job is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refused {
    /// The catalogue has no policy of this name.
    #[error("there is no policy `{0}`")]
    UnknownPolicy(String),
    /// A job with this number exists already.
    #[error("a job of this number is there already")]
    NumberTaken,
    /// It has no tasks.
    #[error("the job has no tasks")]
    Empty,
    /// It has a deadline, and this policy promises none.
    #[error("the policy {0} promises no deadlines; PROMISE does")]
    NoPromises(String),
    /// It does not have one estimate for each task.
    #[error("the job has {tasks} tasks and {given} estimates")]
    Estimates {
        /// The number of its tasks.
        tasks: u64,
        /// The number of its estimates.
        given: u64,
    },
    /// It has a deadline, and its tasks' run times are unknown.
    #[error(
        "nothing is known of how long its tasks take: say so, or let some be done without a deadline"
    )]
    NoEstimate,
    /// It has a deadline, and more tasks than one is promised for.
    #[error(
        "the job has a deadline and {tasks} tasks (each counted as often as results of it are wanted), \
         and deadlines are promised for at most {most}"
    )]
    TooMany {
        /// The number of its tasks, each counted as often as results of it are wanted.
        tasks: u64,
        /// The most tasks of a bag with a deadline.
        most: u64,
    },
    /// It has a deadline, and no suitable host takes work now.
    #[error("no host takes work now that would do for it")]
    NoHost,
    /// It has a deadline and waits for this job, which has not ended.
    #[error(
        "it has a deadline and is to start after job {0}, and nobody can promise when that ends"
    )]
    Waits(JobId),
    /// It cannot be expected to be done by its deadline.
    #[error("its deadline cannot be kept; {} of its tasks could be done in time", .fits.len())]
    TooLate {
        /// The earliest deadline that could be promised now, be it on probation.
        earliest: Time,
        /// The largest set of its tasks that should be done in time without the others.
        fits: IdSet,
    },
}

/// The answer to a bag with a deadline that is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The predicted completion time of its last task.
    pub finish: Time,
    /// The probability that it meets its deadline, by how earlier promises were kept.
    pub probability: f64,
    /// Whether the quality of its user's estimates is still unknown, so that it is admitted on
    /// probation.
    pub probation: bool,
}

/// The reason why an attempt is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartReason {
    /// The task has had no attempt.
    First,
    /// The attempt of this number failed, and the task has retries left.
    Retry(u32),
    /// The attempt of this number was lost, returned or killed without the task's fault.
    Requeued(u32),
    /// The attempt of this number reached its learned limit; this one has the next.
    NextLimit(u32),
    /// The task has this many results, which do not agree or are too few.
    AnotherResult(u32),
    /// A copy of the live attempt of this number, or its replacement ([`Self::is_duplicate`]).
    Duplicate(u32, CopyReason),
    /// It may not be done before its host's time is over, but is expected to make the most of that
    /// time.
    Gap(Gap),
}

impl StartReason {
    /// Whether the attempt counts as a duplicate: one that takes the place of attempts of whose hosts
    /// nothing is heard (`CopyReason::Suspect`) does not, unless one of them comes back; nor does one
    /// that is to bring another result ([`Self::is_another_result`]).
    pub fn is_duplicate(&self) -> bool {
        let suspect = matches!(self, StartReason::Duplicate(_, CopyReason::Suspect));
        matches!(self, StartReason::Duplicate(..)) && !suspect && !self.is_another_result()
    }

    /// Whether the attempt is to bring another result of a job whose results are compared.
    pub fn is_another_result(&self) -> bool {
        matches!(
            self,
            StartReason::AnotherResult(_) | StartReason::Duplicate(_, CopyReason::Quorum(_))
        )
    }
}

/// An interval on a host that may end before an attempt is done (backfill).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The time until its predicted end.
    pub left: Span,
    /// The probability that the attempt is done by then, in per cent; `None` where it keeps its
    /// state and loses nothing.
    pub done: Option<u8>,
    /// The gang for which the host is reserved; `None` where the interval is the rest of the
    /// owner's loan.
    pub kept_for: Option<JobId>,
}

/// The reason why a running task is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopyReason {
    /// Its host's owner uses the host.
    Suspended(YieldReason),
    /// It is frozen, so that another task has its slot.
    Frozen,
    /// Its host is disconnected, or its heartbeats are missing.
    Suspect,
    /// It is itself a copy, and the original was lost.
    PrimaryLost,
    /// More hosts are ready than tasks wait.
    Spare,
    /// The task was not done by the predicted completion time of its job.
    TimedOut,
    /// It has run much longer than any task of its kind.
    Overdue {
        /// Its run time so far.
        ran: Span,
        /// The longest run time seen, or estimated where none was seen, in seconds on a host of
        /// speed 1.
        longest: Span,
    },
    /// Its host has held it for this long with a free slot, and has not begun it.
    NotBegun(Span),
    /// The copy is expected to bring the completion of the job forward by this much.
    Gain(Span),
    /// This many results of the task must agree, from hosts of different owners.
    Quorum(u32),
    /// Its host has fetched its inputs for this long, which is much longer than such starts took.
    NotStaged(Span),
}

/// The belief in a result, of a job whose results are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Judgement {
    /// It waits until this many results agree, itself counted.
    Open(u32),
    /// It counts without a comparison, since this many of its host's results in a row agreed with
    /// others'.
    Alone(u32),
    /// It agrees with the result of the attempt of this number (perhaps its own), which counts.
    Agreed(u32),
    /// It differs from the result of the attempt of this number, which counts.
    Differed(u32),
}

/// The reason why an attempt is no longer live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// It ended by itself, with this outcome.
    Delivered(Outcome),
    /// Another attempt, of this number, finished the task first.
    Outrun(u32),
    /// The task was cancelled.
    Cancelled(CancelReason),
    /// The host was silent for this long: its lease, or less where a rank is expected to be done sooner elsewhere.
    LeaseExpired(Span),
    /// The worker reconnected, after a restart, without it.
    Forgotten,
    /// The worker shut down in order.
    HostLeft,
    /// The worker gave it back, begun or not, or is asked to, since it waits there behind longer
    /// tasks than expected.
    Returned,
    /// It ran longer than its estimate, and was killed to make room for another job's bag.
    Policed {
        /// The estimate, as a run time on a host of speed 1.
        estimate: Span,
        /// Its run time so far, on a host of speed 1 too.
        elapsed: Span,
        /// The job that gets the room.
        by: JobId,
    },
    /// Its host was revoked.
    Revoked,
    /// It was preempted for a task that goes before it.
    Preempted {
        /// The task that gets its slot.
        by: TaskId,
        /// Whether its own task keeps its state, and goes on from there.
        kept: bool,
    },
    /// It was a rank of a gang that lacked a host for long, and there are not enough hosts: all
    /// ranks start again together.
    Disbanded,
    /// Its host's owner is there, and its task, which keeps its state, goes on elsewhere.
    Moved,
}

/// The reason why tasks are cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelReason {
    /// A user asked for it.
    Asked,
    /// More tasks of the job failed than its `max_fails` allows.
    TooManyFailures(u64),
    /// They were unrequested, and their user dropped the rest of the job.
    Unrequested,
    /// Their job was to start once this one had succeeded, which it has not.
    After(JobId),
}

/// The outcome of a settled task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settled {
    /// This attempt finished it.
    Finished(AttemptId),
    /// This attempt failed, and its retries are used up; with the reason why that ended.
    Failed(AttemptId, EndReason),
    /// This many executing attempts were lost with their hosts, more than the job allows.
    LostTooOften(u32),
    /// It has this many results, and too few of them agree.
    NoQuorum(u32),
    /// This many attempts were given back since memory was short, and nothing was learned from them: more than the
    /// losses that the job allows.
    CrowdedOut(u32),
    /// This many attempts of it failed, more than its retries allow, and those that went on beside
    /// them did not finish it.
    FailedTooOften(u32),
}

/// The use made of a delivered completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It counts: its outputs are the attempt's record.
    Taken,
    /// The task is settled already; the completion is discarded.
    Late,
    /// No such attempt was ever given to this host; the completion is discarded.
    Unknown,
}

impl fmt::Display for StartReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartReason::First => write!(f, "first attempt"),
            StartReason::Retry(n) => write!(f, "retry after attempt {n} failed"),
            StartReason::Requeued(n) => write!(f, "requeued after attempt {n}"),
            StartReason::NextLimit(n) => write!(
                f,
                "again with the next limit, after attempt {n} reached its own"
            ),
            StartReason::AnotherResult(1) => {
                write!(f, "another result, since one alone is not believed")
            }
            StartReason::AnotherResult(n) => {
                write!(f, "another result, since too few of {n} agree")
            }
            StartReason::Duplicate(n, why @ CopyReason::Quorum(_)) => {
                write!(f, "beside attempt {n}, {why}")
            }
            StartReason::Duplicate(n, why) if !self.is_duplicate() => {
                write!(f, "in place of attempt {n}, {why}")
            }
            StartReason::Duplicate(n, why) => write!(f, "duplicate of attempt {n}, {why}"),
            StartReason::Gap(gap) => gap.fmt(f),
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gap {
            left,
            done,
            kept_for,
        } = self;
        match kept_for {
            None => write!(
                f,
                "makes the most of the {left} for which the owner's hours still lend the host"
            )?,
            Some(job) => {
                write!(
                    f,
                    "makes the most of a host that is kept for job {job}, which should start in {left}"
                )?;
            }
        }

        match done {
            Some(done) => write!(f, "; done by then with {done} %, else tried again"),
            None => write!(f, "; its state is kept"),
        }
    }
}

impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyReason::Suspended(reason) => write!(f, "which is suspended ({reason})"),
            CopyReason::Frozen => write!(f, "which is frozen, since another task has its slot"),
            CopyReason::Suspect => write!(f, "of whose host nothing is heard"),
            CopyReason::PrimaryLost => write!(f, "in place of a lost one"),
            CopyReason::Spare => write!(f, "since more hosts are ready than tasks wait"),
            CopyReason::TimedOut => write!(f, "which was not done by the predicted end of the job"),
            CopyReason::Overdue { ran, longest } => {
                write!(
                    f,
                    "which has run for {ran}, where the longest of its kind took {longest} on a host of speed 1"
                )
            }
            CopyReason::NotBegun(span) => {
                write!(
                    f,
                    "which its host has not begun for {span}, though it has a slot for it"
                )
            }
            CopyReason::NotStaged(span) => {
                write!(
                    f,
                    "whose inputs its host has been fetching for {span}, much longer than usual"
                )
            }
            CopyReason::Quorum(n) => {
                write!(f, "since {n} results of different owners' hosts must agree")
            }
            CopyReason::Gain(span) => {
                write!(f, "which should bring the end of the job {span} forward")
            }
        }
    }
}

impl Judgement {
    /// Returns the judgement in words, as said of the attempt with this number. The result that
    /// counts is noted as agreeing with itself.
    pub fn words_for(self, number: u32) -> String {
        match self {
            Judgement::Agreed(counting) if counting == number => COUNTS.to_owned(),
            judgement => judgement.to_string(),
        }
    }

    /// Returns the belief as a [`Belief`], with the number that goes with it.
    pub fn word(self) -> (Belief, u32) {
        match self {
            Judgement::Open(n) => (Belief::Open, n),
            Judgement::Alone(n) => (Belief::Alone, n),
            Judgement::Agreed(n) => (Belief::Agreed, n),
            Judgement::Differed(n) => (Belief::Differed, n),
        }
    }
}

impl From<(Belief, u32)> for Judgement {
    fn from((belief, n): (Belief, u32)) -> Self {
        match belief {
            Belief::Open => Judgement::Open(n),
            Belief::Alone => Judgement::Alone(n),
            Belief::Agreed => Judgement::Agreed(n),
            Belief::Differed => Judgement::Differed(n),
        }
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Judgement::Open(n) => write!(f, "its result waits until {n} agree"),
            Judgement::Alone(n) => {
                write!(
                    f,
                    "its result was believed alone, after {n} of its host in a row that agreed"
                )
            }
            Judgement::Agreed(n) => write!(
                f,
                "its result agrees with that of attempt {n}, which counts"
            ),
            Judgement::Differed(n) => write!(
                f,
                "its result differs from that of attempt {n}, which counts"
            ),
        }
    }
}

impl EndReason {
    /// Whether its host must not go on with it, though its task can still use a result.
    pub(crate) fn gives_back(&self) -> bool {
        matches!(
            self,
            EndReason::Returned
                | EndReason::Preempted { .. }
                | EndReason::Disbanded
                | EndReason::Moved
                | EndReason::Policed { .. }
        )
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndReason::Delivered(outcome) => outcome.fmt(f),
            EndReason::Outrun(n) => write!(f, "attempt {n} finished first"),
            EndReason::Cancelled(CancelReason::Asked) => {
                write!(f, "cancelled {}", CancelReason::Asked)
            }
            EndReason::Cancelled(why) => write!(f, "cancelled: {why}"),
            EndReason::LeaseExpired(lease) => write!(f, "host not heard of for {lease}"),
            EndReason::Forgotten => write!(f, "its worker came back without it"),
            EndReason::HostLeft => write!(f, "worker shut down"),
            EndReason::Returned => write!(f, "given back by its host"),
            EndReason::Policed {
                estimate,
                elapsed,
                by,
            } => {
                write!(
                    f,
                    "did what takes {elapsed} on a host of speed 1, which is beyond its estimate of {estimate}; killed to \
                     make room for job {by}"
                )
            }
            EndReason::Revoked => write!(f, "its host was revoked"),
            EndReason::Disbanded => {
                write!(
                    f,
                    "given up with the other ranks, since there were not enough hosts for all"
                )
            }
            EndReason::Moved => {
                write!(
                    f,
                    "the owner uses its host; its task goes on elsewhere from its saved state"
                )
            }
            EndReason::Preempted { by, kept: true } => {
                write!(f, "made room for task {by}, its state being kept")
            }
            EndReason::Preempted { by, kept: false } => {
                write!(f, "made room for task {by}, and begins anew")
            }
        }
    }
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CancelReason::Asked => write!(f, "at a user's request"),
            CancelReason::TooManyFailures(limit) => {
                write!(f, "more than {} of the job failed", plural(*limit, "task"))
            }
            CancelReason::Unrequested => write!(f, "not requested, and needed no more"),
            CancelReason::After(job) => {
                write!(f, "it was to start after job {job}, which did not succeed")
            }
        }
    }
}
