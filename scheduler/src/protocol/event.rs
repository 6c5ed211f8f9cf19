//! The [`Event`]s, everything that can happen to the scheduler. Closed: nothing else can influence
//! a decision.

use common::attempt::{HeldAttempt, Outcome};
use common::host::{Loan, OwnerState, Status};
use common::job::Rules;
use common::needs::Offers;
use common::{After, AttemptId, HostId, IdSet, JobId, Ranks, Span, Speed, Time};
use serde::{Deserialize, Serialize};

use crate::prediction::estimates::Estimator;
use crate::prediction::experience::{Experience, Habit, TrackRecord};
use crate::prediction::reservation::Windows;
use crate::prediction::silence::Parting;
use crate::protocol::effect::Offer;

/// An event. The scheduler is total over events: one that fits no state is answered or ignored,
/// never a panic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A bag of tasks asks for admission.
    JobSubmitted {
        /// Its number, never used before.
        job: JobId,
        /// The bag to schedule.
        bag: Box<Bag>,
        /// The outcome of [`crate::Scheduler::would_admit`] for this bag, if it was asked just
        /// before: it is not computed again. Not part of a recording, since it is the same there.
        #[serde(skip)]
        tested: Option<Box<Tested>>,
    },
    /// A bag from before a restart of the master, as the store knew it. Comes before any host of
    /// this incarnation, and in the order of the line: a bag whose deadline was promised anew
    /// comes after those that were admitted before that.
    JobRestored {
        /// Its number.
        job: JobId,
        /// The bag to schedule.
        bag: Box<Bag>,
        /// The job's progress before the restart.
        progress: Box<RestoredProgress>,
    },
    /// A user cancels these tasks of a job (none given: all).
    JobCancelled {
        /// The job of the tasks.
        job: JobId,
        /// The tasks to cancel.
        tasks: Option<IdSet>,
    },
    /// A user retries these failed or cancelled tasks, with their retries renewed.
    JobRetried {
        /// The job of the tasks.
        job: JobId,
        /// The tasks to retry; those in another state are left alone.
        tasks: IdSet,
    },
    /// A settled job may be forgotten.
    JobForgotten {
        /// The settled job.
        job: JobId,
    },
    /// The records of a host from earlier days; it need not be connected. Comes before it joins.
    HostKnown {
        /// Its number.
        host: HostId,
        /// The speed of one slot.
        speed: Speed,
        /// Its availability, where known.
        record: Option<TrackRecord>,
        /// Its recent behaviour.
        habit: Habit,
    },
    /// The resources of a host for jobs that need them; without this event it offers everything.
    /// Comes before it joins, and whenever they change. Nothing starts before the next event, which
    /// may be a [`Event::Tick`].
    HostOffers {
        /// Its number.
        host: HostId,
        /// The resources.
        offers: Box<Offers>,
    },
    /// The owner of a host, and the number of its results in a row that agreed with others'. Comes
    /// before it joins, and whenever the owner changes. Without this event each host is its own party
    /// and has no such results. Nothing starts before the next event, which may be a [`Event::Tick`]:
    /// one change of owner may give other hosts another party too.
    HostStanding {
        /// Its number.
        host: HostId,
        /// One host of the same owner, the same one for all of them.
        party: HostId,
        /// The number of results in a row.
        valid: u32,
    },
    /// A result was compared, as [`crate::Effect::Compare`] asked.
    ResultCompared {
        /// The attempt with the result.
        attempt: AttemptId,
        /// The numbers of the attempts with whose results it agrees.
        agrees: Vec<u32>,
    },
    /// The experience with hosts in general on earlier days, to go on from. Comes before any other
    /// event.
    Learned(Box<Experience>),
    /// A worker connected (again), with a list of the attempts it holds.
    HostJoined {
        /// Its number.
        host: HostId,
        /// The number of tasks that it runs at a time.
        slots: u32,
        /// The speed of one slot.
        speed: Speed,
        /// Its present status.
        status: Status,
        /// All attempts it holds. Those on the scheduler's books that are not listed are lost.
        held: Vec<HeldAttempt>,
    },
    /// A heartbeat.
    HostHeard {
        /// The host that sent it.
        host: HostId,
        /// Its present status.
        status: Status,
        /// All attempts it holds. Unlike in `HostJoined`, an attempt assigned a moment ago may
        /// still be on its way.
        held: Vec<HeldAttempt>,
    },
    /// Attempts whose phase changed.
    AttemptsMoved {
        /// The host that holds them.
        host: HostId,
        /// The attempts with their new phases.
        held: Vec<HeldAttempt>,
    },
    /// The owner came or went.
    OwnerChanged {
        /// The host.
        host: HostId,
        /// The new state, which says whether the owner lets tasks run.
        owner: OwnerState,
    },
    /// The connection was lost. The attempts may go on; no new work can be sent until the host
    /// joins again.
    HostDisconnected {
        /// The disconnected host.
        host: HostId,
        /// How the connection ended.
        how: Parting,
    },
    /// The worker was asked to end: it gets no work until it joins again, and gives back the
    /// attempts that it holds.
    HostClosing {
        /// The closing host.
        host: HostId,
    },
    /// The worker shut down in order; nothing runs there any more.
    HostLeft {
        /// The host that left.
        host: HostId,
    },
    /// The host is to get no new work.
    HostDrained {
        /// The drained host.
        host: HostId,
    },
    /// The end of a drain.
    HostUndrained {
        /// The host that may get work again.
        host: HostId,
    },
    /// An attempt ended, and its worker has delivered the completion.
    AttemptEnded {
        /// The host that delivered it.
        host: HostId,
        /// The ended attempt.
        attempt: AttemptId,
        /// Its outcome.
        outcome: Outcome,
        /// Its run time without suspensions.
        ran: Span,
    },
    /// A worker gives attempts back, unexecuted or because its owner wants the host. This is no
    /// failure of their tasks.
    AttemptsReturned {
        /// The host that held them.
        host: HostId,
        /// The returned attempts.
        attempts: Vec<AttemptId>,
    },
    /// The master itself was paused for this long (suspended, or starved of processor time): no
    /// host is to blame for the silence, and no attempt counts as older for it until its host's next report.
    MasterPaused {
        /// The length of the pause.
        span: Span,
    },
    /// The time returned by [`crate::Scheduler::next_wakeup`] has come.
    Tick,
    /// The host is revoked: nothing from it counts from now on.
    HostRevoked {
        /// The revoked host.
        host: HostId,
    },
    /// The law of the host's idle windows, from its records.
    HostWindows {
        /// The host.
        host: HostId,
        /// The law of their lengths.
        windows: Box<Windows>,
    },
    /// A user requests these tasks of a job (none given: all), and waits for them from now on.
    TasksRequested {
        /// The job of the tasks.
        job: JobId,
        /// The tasks; those that were requested already are left alone.
        tasks: Option<IdSet>,
    },
    /// The unrequested tasks of a job are not needed any more.
    UnrequestedCancelled {
        /// The job.
        job: JobId,
    },
    /// The results of these finished tasks of a job have been removed, and are wanted again.
    ResultsGone {
        /// The job of the tasks.
        job: JobId,
        /// The indices of the tasks, each with the highest number of its attempts.
        tasks: Vec<(u32, u32)>,
    },
    /// The stored output of a user's disclosed tasks fills his share, or there is room again.
    ShareFull {
        /// The name of the user.
        user: String,
        /// Whether the share is full.
        full: bool,
    },
    /// The host's loan from now on, by its owner's hours.
    HostLent {
        /// The host.
        host: HostId,
        /// The loan; `None` where no end is known.
        loan: Option<Loan>,
    },
    /// Tasks are added to an open job. Others, and jobs with a deadline or several ranks, take none.
    TasksAdded {
        /// The open job.
        job: JobId,
        /// The new tasks.
        tasks: IdSet,
    },
    /// A user closes an open job: it takes no more tasks.
    JobClosed {
        /// The open job.
        job: JobId,
    },
    /// A user requested another result of a job that is settled and forgotten, or dropped its
    /// unrequested tasks.
    RestDecided {
        /// The user of the job.
        user: String,
        /// Whether the rest was dropped, and not gone on with; `None` where this is the first
        /// request.
        dropped: Option<bool>,
    },
    /// The processor time of an attempt that has ended. Comes just before its
    /// [`Event::AttemptEnded`]; without it the attempt counts as one that computed all the time.
    AttemptUsed {
        /// The host that ran it.
        host: HostId,
        /// The ended attempt.
        attempt: AttemptId,
        /// The processor time of its whole process tree.
        cpu: Span,
    },
    /// An attempt is given back next, since memory was short while it was suspended: its
    /// [`Event::AttemptsReturned`] follows.
    AttemptWeighed {
        /// The host that holds it.
        host: HostId,
        /// The attempt.
        attempt: AttemptId,
        /// The bytes of memory that it held; `None` where that could not be told.
        bytes: Option<u64>,
    },
}

/// A job, as far as the scheduler needs to know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bag {
    /// The tasks.
    pub tasks: IdSet,
    /// The scheduling rules. The policy's name must be in the catalogue, or the bag is refused.
    pub rules: Rules,
    /// The deadline and the estimates.
    pub terms: Terms,
    /// Whether the tasks are disclosed until they are requested: the user names tasks that may be
    /// needed, the likeliest first. Policies that do not use this take them as requested.
    pub disclosed: bool,
    /// The number of hosts on which its tasks run at once, if the job is a gang. Ranks are counted
    /// from 0; until it starts, `tasks` holds the fewest.
    pub ranks: Option<Ranks>,
    /// The jobs that have to end before any of its tasks starts. One that the scheduler does not
    /// know has ended, but at a [`Event::JobRestored`] it is yet to be restored.
    pub after: Vec<After>,
    /// Whether tasks can be added to it, until it is closed.
    pub open: bool,
}

/// A bag's deadline and its user's estimates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The time by which every task is to be done; the bag is admitted only if that can be
    /// promised. Without one there is no promise.
    pub deadline: Option<Time>,
    /// An estimate for each task, in the order of the indices, as a run time on a host of speed 1.
    /// If empty, the estimate in the rules holds for all.
    pub estimates: Vec<Span>,
    /// The user who estimates, and the program.
    pub estimator: Estimator,
}

impl Bag {
    /// Creates a bag without a deadline.
    pub fn new(tasks: IdSet, rules: Rules) -> Self {
        Self {
            tasks,
            rules,
            terms: Terms::default(),
            disclosed: false,
            ranks: None,
            after: Vec::new(),
            open: false,
        }
    }
}

/// The outcome of the admission test of a bag that passed. It holds until the next event.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// The offer; `None` where the bag has no deadline.
    pub offer: Option<Offer>,
    /// The attempts to kill for the bag.
    pub(crate) victims: Vec<Victim>,
    /// The time of the test.
    pub(crate) at: Time,
    /// The number of events before the test.
    pub(crate) events: u64,
}

/// An attempt that is beyond its estimate, and may be killed for a bag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Victim {
    pub(crate) host: HostId,
    pub(crate) attempt: AttemptId,
    pub(crate) estimate: Span,
    pub(crate) elapsed: Span,
}

/// The progress of a restored job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RestoredProgress {
    /// Tasks that finished.
    pub finished: IdSet,
    /// Tasks that failed.
    pub failed: IdSet,
    /// Tasks that were cancelled.
    pub cancelled: IdSet,
    /// Unsettled tasks that have had attempts. Failed and cancelled ones may be listed too: then a
    /// retry continues from their highest attempt number, and all else is ignored. So may finished ones
    /// of `alone`, which are numbered on from there if they are doubted.
    pub tried: Vec<Tried>,
    /// Results of unsettled tasks that wait for others to agree with them, with their hosts.
    pub results: Vec<(AttemptId, HostId)>,
    /// Results of finished tasks that were believed alone, with their hosts.
    pub alone: Vec<(AttemptId, HostId)>,
    /// The number of attempts started so far, of all tasks.
    pub attempts: u64,
    /// The number of those that were duplicates.
    pub duplicates: u64,
    /// The requested tasks, of a disclosed bag.
    pub requested: IdSet,
    /// The hosts on which ranks have finished, if the job is a gang.
    pub done_on: Vec<HostId>,
    /// The time at which the bag's deadline was promised, or promised anew, and the completion
    /// predicted then; `None` where that is not known.
    pub promised: Option<(Time, Time)>,
    /// The run times of finished tasks: of the last ones only, where more finished than are of use for a mean.
    pub runs: Vec<EarlierRun>,
}

/// An attempt that finished its task before a restart, and did all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierRun {
    /// The index of the task.
    pub task: u32,
    /// The host that ran it.
    pub host: HostId,
    /// The run time.
    pub ran: Span,
    /// The processor time of its whole process tree; zero where it was not measured.
    pub cpu: Span,
}

/// An unsettled task of a restored job that has had attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Its index.
    pub task: u32,
    /// The highest attempt number used.
    pub attempts: u32,
    /// Failed attempts, as far as they count against its retries.
    pub failures: u32,
    /// Executing attempts that were lost.
    pub losses: u32,
    /// Attempts that were live, each with its host and whether its command had been started.
    pub live: Vec<(AttemptId, HostId, bool)>,
    /// Attempts that were given up as lost, each with its host and whether it counts as a loss. A
    /// result of one still counts if its host returns with it.
    pub lost: Vec<(AttemptId, HostId, bool)>,
    /// Attempts that were to end for another reason, each with its host, which may not have heard
    /// of it and must not go on with them. A result of one still counts if it was finished by then.
    pub ended: Vec<(AttemptId, HostId)>,
    /// The run times of attempts that were killed through no fault of the task, with their hosts:
    /// the task takes longer.
    pub outlived: Vec<(HostId, Span)>,
    /// The most work, as a run time on a host of speed 1, that an attempt had done which ran longer
    /// than its estimate and was killed to make room ([`EndReason::Policed`]). Zero where none was.
    ///
    /// [`EndReason::Policed`]: crate::effect::EndReason::Policed
    pub policed: Span,
}
