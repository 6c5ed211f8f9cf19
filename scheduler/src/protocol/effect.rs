//! Everything that the scheduler can want done. Closed; each effect that refuses, ends or delays
//! something says why.

use std::fmt;

use common::attempt::Outcome;
use common::host::YieldReason;
use common::view::{Belief, HostState, JobState};
use common::{AttemptId, HostId, IdSet, JobId, Span, TaskId, Time};
use serde::{Deserialize, Serialize};

/// Something to be done, in the order in which the step gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// The job is in.
    JobAdmitted {
        /// Which.
        job: JobId,
    },
    /// The job's deadline should be kept. Follows its admission.
    Promised {
        /// Which.
        job: JobId,
        /// What is promised.
        offer: Offer,
    },
    /// The job is not let in, and forgotten.
    JobRefused {
        /// Which.
        job: JobId,
        /// Why.
        why: Refused,
    },
    /// Give this attempt to this host.
    Start {
        /// Which host.
        host: HostId,
        /// Which attempt.
        attempt: AttemptId,
        /// The longest that it may run.
        limit: Option<Span>,
        /// How often its host is to report while it holds this attempt, where the policy wants that
        /// to be sooner than usual.
        report_every: Option<Span>,
        /// Why now and why there.
        why: StartReason,
    },
    /// The job of several ranks has so many from now on; they start now. Comes before they do.
    Formed {
        /// Which.
        job: JobId,
        /// How many ranks.
        ranks: u32,
        /// How many hosts were free for it together.
        free: u32,
    },
    /// All ranks are ready: tell the host to start this one's command.
    Begin {
        /// Which host.
        host: HostId,
        /// Which attempt.
        attempt: AttemptId,
    },
    /// A job holds out until so many hosts are free together, which should be in this time.
    Foretold {
        /// Which job.
        job: JobId,
        /// How many hosts.
        hosts: u32,
        /// In how long.
        wait: Span,
        /// Between which times that lies with a probability of 80 %.
        low: Span,
        /// See `low`.
        high: Span,
    },
    /// Tell the host to end this attempt. It is off the books already.
    Stop {
        /// Which host.
        host: HostId,
        /// Which attempt.
        attempt: AttemptId,
        /// Why.
        why: EndReason,
    },
    /// Let the host freeze this attempt, so that another has its slot. It stays on the books.
    Freeze {
        /// Which host.
        host: HostId,
        /// Which attempt.
        attempt: AttemptId,
        /// For which task; none where its host is only told again.
        by: Option<TaskId>,
    },
    /// Let a frozen attempt go on: there is a slot for it.
    Thaw {
        /// Which host.
        host: HostId,
        /// Which attempt.
        attempt: AttemptId,
    },
    /// The attempt's command was started, as far as its host says.
    Executing {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// The attempt is off the books, live no more.
    Ended {
        /// Its host.
        host: HostId,
        /// Which attempt.
        attempt: AttemptId,
        /// Why.
        why: EndReason,
    },
    /// The completion that a host delivered has been considered: it may go from the worker's spool.
    Acknowledge {
        /// Which host.
        host: HostId,
        /// Which attempt.
        attempt: AttemptId,
        /// What became of it.
        verdict: Verdict,
    },
    /// This result is to be compared with those of the others, and [`crate::Event::ResultCompared`]
    /// to say with which it agrees.
    Compare {
        /// The attempt whose result is new.
        attempt: AttemptId,
        /// The others of its task, oldest first.
        with: Vec<AttemptId>,
    },
    /// How far the result of an attempt is believed now.
    Judged {
        /// Its host.
        host: HostId,
        /// Which attempt.
        attempt: AttemptId,
        /// How far.
        judgement: Judgement,
    },
    /// How many results of a host in a row agreed with others' now.
    HostTrusted {
        /// Which host.
        host: HostId,
        /// Results in a row.
        valid: u32,
    },
    /// The host holds these attempts for nothing: let it drop them without a delivery.
    Abandon {
        /// Which host.
        host: HostId,
        /// Which attempts.
        attempts: Vec<AttemptId>,
    },
    /// The task is settled: nothing more happens to it unless somebody retries it.
    TaskSettled {
        /// Which task.
        task: TaskId,
        /// How.
        settled: Settled,
    },
    /// These tasks of a job are cancelled, all at once.
    TasksCancelled {
        /// Which job.
        job: JobId,
        /// Which tasks.
        tasks: common::IdSet,
        /// Why.
        why: CancelReason,
    },
    /// These settled tasks of a job wait again.
    TasksReopened {
        /// Which job.
        job: JobId,
        /// Which tasks.
        tasks: common::IdSet,
    },
    /// Every task is settled.
    JobSettled {
        /// Which.
        job: JobId,
        /// `Finished`, `Failed` or `Cancelled`.
        state: JobState,
    },
    /// The host is in another state than before.
    HostChanged {
        /// Which.
        host: HostId,
        /// Its state now.
        state: HostState,
        /// Why, where the owner is why.
        owner: Option<YieldReason>,
    },
}

/// Why a job is not let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refused {
    /// The catalogue has no policy of this name.
    UnknownPolicy(String),
    /// A job of this number is there already.
    NumberTaken,
    /// It has no tasks.
    Empty,
    /// It has a deadline, and this policy promises none.
    NoPromises(String),
    /// It does not have an estimate for each task.
    Estimates {
        /// Its tasks.
        tasks: u64,
        /// Its estimates.
        given: u64,
    },
    /// It has a deadline, and nothing is known of how long its tasks take.
    NoEstimate,
    /// It has a deadline, and no host takes work now that would do.
    NoHost,
    /// It cannot be expected to be done by its deadline.
    TooLate {
        /// When it should be done: the earliest deadline that could be promised now.
        earliest: Time,
        /// The most of its tasks that should be done in time if the others were not there.
        fits: IdSet,
    },
}

/// What a bag with a deadline is told when it is let in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// When its last task should be done.
    pub finish: Time,
    /// The probability that it is done by its deadline, by how earlier promises were kept.
    pub probability: f64,
    /// Whether nothing is known yet of how good its user's estimates are, so that it was let in to
    /// find out.
    pub probation: bool,
}

/// Why an attempt is started.
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
    /// So many results are there, and do not agree or are too few.
    AnotherResult(u32),
    /// A copy of a live attempt (of this number).
    Duplicate(u32, CopyReason),
    /// It may not be done before its host's time is over, but is expected to make the most of that
    /// time.
    Gap(Gap),
}

/// Time on a host that is over before an attempt has to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// In how long it should be over.
    pub left: Span,
    /// How probable it is that the attempt is done by then, in per cent; none where it keeps its
    /// state and loses nothing.
    pub done: Option<u8>,
    /// For which job of several ranks the host is kept; none where its owner lends it for no
    /// longer.
    pub kept_for: Option<JobId>,
}

/// Why a task is copied while an attempt of it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopyReason {
    /// Its host's owner needs the host.
    Suspended(YieldReason),
    /// It was frozen, so that another task has its slot.
    Frozen,
    /// Its host is not connected, or its heartbeats are missing.
    Suspect,
    /// It is a copy itself, whose original was lost.
    PrimaryLost,
    /// More hosts are ready than tasks wait.
    Spare,
    /// The task was not done by the predicted end of its job.
    TimedOut,
    /// It runs for much longer than any of its kind did.
    Overdue {
        /// For how long it has run.
        ran: Span,
        /// The longest that was seen, or estimated where nothing was, in seconds on a host of speed
        /// 1.
        longest: Span,
    },
    /// Its host holds it for so long, has a slot for it, and has not begun it.
    NotBegun(Span),
    /// That is expected to bring the end of the job forward by so much.
    Gain(Span),
    /// So many results of the task must agree, from hosts of different owners.
    Quorum(u32),
}

/// How far a result is believed, of a job whose results are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Judgement {
    /// It waits for others to agree with it, so many in all.
    Open(u32),
    /// It counts without a comparison, since so many of its host's results in a row have agreed
    /// with others'.
    Alone(u32),
    /// It agrees with the result of this attempt (perhaps itself), which counts.
    Agreed(u32),
    /// It differs from the result of this attempt, which counts.
    Differed(u32),
}

/// Why an attempt is live no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// It ended by itself like this.
    Delivered(Outcome),
    /// Another attempt (of this number) finished the task first.
    Outrun(u32),
    /// The task was cancelled.
    Cancelled(CancelReason),
    /// The host was not heard of beyond its lease.
    LeaseExpired(Span),
    /// The worker came back (restarted) without it.
    Forgotten,
    /// The worker shut down in order.
    HostLeft,
    /// The worker gave it back, begun or not, or is asked to, since it waits there behind longer
    /// tasks than expected.
    Returned,
    /// It ran for longer than was estimated, and made room for another job's bag.
    Policed {
        /// What had been estimated, as a run time on a host of speed 1.
        estimate: Span,
        /// What it had run for, likewise.
        elapsed: Span,
        /// For which job.
        by: JobId,
    },
    /// Its host is let in no more.
    Revoked,
    /// It made room for a task that goes before it.
    Preempted {
        /// For which task.
        by: TaskId,
        /// Whether its own task keeps its state, and so goes on where it was.
        kept: bool,
    },
    /// It was a rank of a job that lacked a host for long, and there are not so many: all of its
    /// ranks start again together.
    Disbanded,
}

/// Why tasks are cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelReason {
    /// Somebody asked for it.
    Asked,
    /// More tasks of the job failed than its `max_fails` allows.
    TooManyFailures(u64),
    /// Nobody had requested them, and their user needs no more of the job.
    Unrequested,
}

/// How a task was settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settled {
    /// This attempt finished it.
    Finished(AttemptId),
    /// Its retries are used up; this was its last attempt, and how that ended.
    Failed(AttemptId, EndReason),
    /// More executing attempts were lost with their hosts than the job allows.
    LostTooOften(u32),
    /// So many results are there, and too few of them agree.
    NoQuorum(u32),
}

/// What became of a delivered completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It counts: its outputs are the attempt's record.
    Taken,
    /// The task is settled already; the completion is discarded.
    Late,
    /// No such attempt was ever given to this host; the completion is discarded.
    Unknown,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::UnknownPolicy(name) => write!(f, "there is no policy `{name}`"),
            Refused::NumberTaken => write!(f, "a job of this number is there already"),
            Refused::Empty => write!(f, "the job has no tasks"),
            Refused::NoPromises(policy) => {
                write!(f, "the policy {policy} promises no deadlines; PROMISE does")
            }
            Refused::Estimates { tasks, given } => {
                write!(f, "the job has {tasks} tasks and {given} estimates")
            }
            Refused::NoEstimate => {
                write!(
                    f,
                    "nothing is known of how long its tasks take: say so, or let some be done without a deadline"
                )
            }
            Refused::NoHost => write!(f, "no host takes work now that would do for it"),
            Refused::TooLate { fits, .. } => {
                write!(
                    f,
                    "its deadline cannot be kept; {} of its tasks could be done in time",
                    fits.len()
                )
            }
        }
    }
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
    /// In one word, with the number that goes with it.
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
    /// Whether its host is not to go on with it, though its task can still use a result.
    pub(crate) fn gives_back(&self) -> bool {
        matches!(
            self,
            EndReason::Returned | EndReason::Preempted { .. } | EndReason::Disbanded
        )
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndReason::Delivered(outcome) => outcome.fmt(f),
            EndReason::Outrun(n) => write!(f, "attempt {n} finished first"),
            EndReason::Cancelled(why) => write!(f, "cancelled: {why}"),
            EndReason::LeaseExpired(lease) => write!(f, "host not heard of for {lease}"),
            EndReason::Forgotten => write!(f, "worker restarted without it"),
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
            CancelReason::Asked => write!(f, "asked for"),
            CancelReason::TooManyFailures(limit) => {
                write!(f, "more than {limit} tasks of the job failed")
            }
            CancelReason::Unrequested => write!(f, "not requested, and needed no more"),
        }
    }
}
