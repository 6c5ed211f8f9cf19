//! Everything that can happen to the scheduler. Closed: what is not here cannot influence a
//! decision.

use common::attempt::{Held, Outcome};
use common::host::{Loan, Offers, OwnerState, Status};
use common::job::Rules;
use common::{AttemptId, HostId, IdSet, JobId, Ranks, Span, Speed, Time};
use serde::{Deserialize, Serialize};

use crate::prediction::estimates::Estimator;
use crate::prediction::experience::{Experience, Habit, TrackRecord};
use crate::prediction::reservation::Windows;

/// Something that happened. The scheduler is total over events: one that fits no state is answered
/// (or ignored), never a panic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A bag of tasks asks to be let in.
    JobSubmitted {
        /// Its number, never used before.
        job: JobId,
        /// What is to be scheduled.
        bag: Box<Bag>,
    },
    /// A bag from before a restart of the master, as the store knew it. Comes before any host of
    /// this incarnation.
    JobRestored {
        /// Its number.
        job: JobId,
        /// What is to be scheduled.
        bag: Box<Bag>,
        /// How far it was.
        progress: Box<Progress>,
    },
    /// Somebody wants these tasks (none given: all) of a job not to run any more.
    JobCancelled {
        /// Which job.
        job: JobId,
        /// Which tasks.
        tasks: Option<IdSet>,
    },
    /// These failed or cancelled tasks are to be tried again, with their retries renewed.
    JobRetried {
        /// Which job.
        job: JobId,
        /// Which tasks; those in another state are left alone.
        tasks: IdSet,
    },
    /// A settled job is of no interest any more.
    JobForgotten {
        /// Which.
        job: JobId,
    },
    /// What earlier days say of a host, which need not be there now. Comes before it joins.
    HostKnown {
        /// Its number.
        host: HostId,
        /// Speed of one slot.
        speed: Speed,
        /// How it was available, where that is known.
        record: Option<TrackRecord>,
        /// What it did lately.
        habit: Habit,
    },
    /// What the host has for jobs that ask for it; everything where nothing is said. Comes before
    /// it joins.
    HostOffers {
        /// Its number.
        host: HostId,
        /// What.
        offers: Offers,
    },
    /// Whose the host is, and how many of its results in a row agreed with others'. Comes before it
    /// joins; where nothing is said, each host is its own party and has no such results.
    HostStanding {
        /// Its number.
        host: HostId,
        /// One host of the same owner, the same one for all of them.
        party: HostId,
        /// Results in a row.
        valid: u32,
    },
    /// A result was compared, as [`crate::Effect::Compare`] asked.
    ResultCompared {
        /// Whose.
        attempt: AttemptId,
        /// Numbers of the attempts with whose results it agrees.
        agrees: Vec<u32>,
    },
    /// What was learned of hosts in general on earlier days, to go on from. Comes before anything
    /// else.
    Learned(Box<Experience>),
    /// A worker connected (again) and says what it holds.
    HostJoined {
        /// Its number.
        host: HostId,
        /// How many tasks it runs at a time.
        slots: u32,
        /// Speed of one slot.
        speed: Speed,
        /// How it can be used now.
        status: Status,
        /// Everything it holds. What the scheduler thought it held and is not listed is lost.
        held: Vec<Held>,
    },
    /// A heartbeat.
    HostHeard {
        /// Which host.
        host: HostId,
        /// How it can be used now.
        status: Status,
        /// Everything it holds. Unlike at joining, an attempt assigned a moment ago may still be on
        /// its way.
        held: Vec<Held>,
    },
    /// Attempts whose phase changed.
    AttemptsMoved {
        /// Which host.
        host: HostId,
        /// Their phases now.
        held: Vec<Held>,
    },
    /// The owner came or went.
    OwnerChanged {
        /// Which host.
        host: HostId,
        /// Whether the owner lets tasks run.
        owner: OwnerState,
    },
    /// The connection is gone. Says nothing about the attempts; no new work can be sent until it
    /// joins again.
    HostDisconnected {
        /// Which host.
        host: HostId,
    },
    /// The worker was asked to end: it gets nothing any more until it joins again, and what it
    /// holds is given back.
    HostClosing {
        /// Which host.
        host: HostId,
    },
    /// The worker shut down in order; nothing runs there any more.
    HostLeft {
        /// Which host.
        host: HostId,
    },
    /// The host is to get no new work.
    HostDrained {
        /// Which host.
        host: HostId,
    },
    /// The end of a drain.
    HostUndrained {
        /// Which host.
        host: HostId,
    },
    /// An attempt ended, and its worker has delivered the completion.
    AttemptEnded {
        /// Which host says so.
        host: HostId,
        /// Which attempt.
        attempt: AttemptId,
        /// How.
        outcome: Outcome,
        /// Run time, suspensions not counted.
        ran: Span,
    },
    /// A worker gives attempts back, unexecuted or because its owner wants the host: no failure of
    /// their tasks.
    AttemptsReturned {
        /// Which host.
        host: HostId,
        /// Which attempts.
        attempts: Vec<AttemptId>,
    },
    /// The master itself stood still for this long (it was suspended, or starved): nobody else is
    /// to blame.
    MasterPaused {
        /// For how long.
        span: Span,
    },
    /// The time that [`crate::Scheduler::next_wakeup`] named has come.
    Tick,
    /// The host is let in no more: nothing of it counts from now on.
    HostRevoked {
        /// Which host.
        host: HostId,
    },
    /// How long the host's idle windows last, by what is recorded of it.
    HostWindows {
        /// Which host.
        host: HostId,
        /// How long.
        windows: Box<Windows>,
    },
    /// Somebody waits for these tasks (none given: all) of a job from now on.
    TasksRequested {
        /// Which job.
        job: JobId,
        /// Which tasks; those that were requested already are left alone.
        tasks: Option<IdSet>,
    },
    /// What nobody has requested of a job is not needed any more.
    UnrequestedCancelled {
        /// Which job.
        job: JobId,
    },
    /// The results of these finished tasks of a job are there no more, and somebody wants them.
    ResultsGone {
        /// Which job.
        job: JobId,
        /// Which tasks, each with the highest number of its attempts.
        tasks: Vec<(u32, u32)>,
    },
    /// As much is kept of what a user's disclosed tasks left as may be, or there is room again.
    ShareFull {
        /// Which user.
        user: String,
        /// Whether nothing more fits.
        full: bool,
    },
    /// For how long the host's owner lends it from now on, by the hours that are set there.
    HostLent {
        /// Which host.
        host: HostId,
        /// How long; none where no end is known.
        loan: Option<Loan>,
    },
    /// Of a job that is over and forgotten a user asked for another result, or dropped what was not
    /// asked for.
    RestDecided {
        /// Whose job it was.
        user: String,
        /// Whether the rest was dropped, and not gone on with; none where this is the first that
        /// was asked for.
        dropped: Option<bool>,
    },
}

/// What of a job concerns the scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bag {
    /// The tasks.
    pub tasks: IdSet,
    /// How they are to be scheduled. The policy's name must be in the catalogue, or the bag is
    /// refused.
    pub rules: Rules,
    /// By when they are to be done, and what is said of how long they take.
    pub terms: Terms,
    /// Whether nobody waits for them until they are requested: the user only says what may be
    /// needed, the likeliest first. Policies that do not ask for this take them as requested.
    pub disclosed: bool,
    /// On how many hosts its tasks run at once, where they are ranks; those are counted from 0, and
    /// there are the fewest of them until it starts.
    pub ranks: Option<Ranks>,
}

/// What a bag's user wants to be promised, and says for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// When every task is to be done; the bag enters only if that can be promised. No promise where
    /// there is none.
    pub deadline: Option<Time>,
    /// An estimate for each task, in the order of the indices, as run times on a host of speed 1;
    /// that of the rules for all of them where this is empty.
    pub estimates: Vec<Span>,
    /// Who estimates, and of what.
    pub estimator: Estimator,
}

impl Bag {
    /// A bag of which nothing is promised.
    pub fn new(tasks: IdSet, rules: Rules) -> Self {
        Self {
            tasks,
            rules,
            terms: Terms::default(),
            disclosed: false,
            ranks: None,
        }
    }
}

/// How far a restored job was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Tasks that are settled with success.
    pub finished: IdSet,
    /// Tasks that are settled without.
    pub failed: IdSet,
    /// Tasks that are cancelled.
    pub cancelled: IdSet,
    /// Unsettled tasks that have had attempts. Failed and cancelled ones may be listed too: then a
    /// retry goes on from their highest attempt number, and all else is ignored.
    pub tried: Vec<Tried>,
    /// Results of unsettled tasks that wait for others to agree with them, with their hosts.
    pub results: Vec<(AttemptId, HostId)>,
    /// Results of finished tasks that were believed alone, with their hosts.
    pub alone: Vec<(AttemptId, HostId)>,
    /// Attempts started so far, of all tasks.
    pub attempts: u64,
    /// Those of them that were duplicates.
    pub duplicates: u64,
    /// Tasks that were requested, of a bag that was disclosed.
    pub requested: IdSet,
    /// The hosts on which ranks are done, of a job of ranks.
    pub done_on: Vec<HostId>,
}

/// An unsettled task of a restored job that has had attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Its index.
    pub task: u32,
    /// The highest attempt number used.
    pub attempts: u32,
    /// Attempts that failed, so far as they count against its retries.
    pub failures: u32,
    /// Executing attempts that were lost.
    pub losses: u32,
    /// Attempts that were live, each with its host and whether its command had been started.
    pub live: Vec<(AttemptId, HostId, bool)>,
    /// Attempts that were given up as lost, each with its host and whether it is among the losses.
    /// A result of one still counts, should its host come back with it.
    pub lost: Vec<(AttemptId, HostId, bool)>,
    /// Attempts that were to end for another reason, each with its host, which may not have heard
    /// of it: it is not to go on with them. A result of one still counts, should it have come that
    /// far.
    pub ended: Vec<(AttemptId, HostId)>,
    /// How long attempts had run, and where, when they were killed through no fault of the task: it
    /// takes longer.
    pub outlived: Vec<(HostId, Span)>,
}
