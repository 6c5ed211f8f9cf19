//! On which ready host does the next task start, or on none yet? One file per answer; this one has
//! what they share.

use common::{HostId, Span, Speed, Time};

use crate::policy::plan::Plan;
use crate::prediction::experience::{Habit, TrackRecord};

mod excl_pred;
mod excl_s;
mod fcfs;
pub(crate) mod lookahead;
mod pri_cr;
mod pri_cr_wait;
mod pri_history;

pub use excl_pred::ExclPred;
pub use excl_s::ExclS;
pub use pri_cr_wait::PriCrWait;

/// Which ready host is best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Placement {
    /// The one that has been ready for longest.
    Fcfs,
    /// The fastest one.
    PriCr,
    /// The fastest one, after a wait for more hosts.
    PriCrWait(PriCrWait),
    /// The fastest of those that used to stay for long enough.
    PriHistory,
    /// The fastest one, unless it is slow among all hosts.
    ExclS(ExclS),
    /// The fastest one, unless it would be done after the predicted end of the job.
    ExclPred(ExclPred),
    /// The one that is done soonest, unless a busy host would be done sooner.
    Lookahead,
    /// The fastest one; there the task starts that should make the most of its owner's absence.
    Windows,
    /// Of promised jobs the one that the calendar names; of others the fastest one.
    Calendar,
}

/// What an answer sees: the grid as it is for one job, to be read only.
pub(crate) trait View {
    /// The time of the step.
    fn now(&self) -> Time;

    /// What starting a task costs beside its work.
    fn start_cost(&self) -> Span;

    /// Tasks of the job that wait for a first or another attempt.
    fn waiting(&self) -> u64;

    /// Tasks of the job that are not settled.
    fn unsettled(&self) -> u64;

    /// Tasks of the job that are finished.
    fn finished(&self) -> u64;

    /// Work of one task, in seconds on a host of speed 1, where it is known.
    fn work_s(&self) -> Option<f64>;

    /// Slots of all hosts that take work now.
    fn usable_slots(&self) -> u64;

    /// Hosts with a free slot.
    fn ready(&self) -> u64;

    /// Mean work per second of the hosts that are known.
    fn mean_rate(&self) -> Option<f64>;

    /// Mean and standard deviation of the speeds of all known hosts.
    fn speed_mean_sd(&self) -> (f64, f64);

    /// The highest speed of a host that could take work.
    fn fastest(&self) -> Option<Speed>;

    /// The ready hosts that do for the job, the one ready for longest first.
    fn ready_by_since(&self) -> impl Iterator<Item = HostId>;

    /// The same, the fastest first.
    fn ready_by_speed(&self) -> impl Iterator<Item = (Speed, HostId)>;

    /// What is known of a host's past.
    fn past(&self, host: HostId) -> Option<Past>;

    /// How long a task takes on a free slot of this speed, the start included.
    fn duration_at(&self, work_s: f64, speed: Speed) -> Span {
        self.start_cost() + Span::from_secs_f64(work_s / speed.factor())
    }
}

/// A host's past, for answers that judge by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Past {
    pub(crate) speed: Speed,
    pub(crate) free_slots: usize,
    /// What it did on the day before, where that was recorded.
    pub(crate) record: Option<TrackRecord>,
    /// What was seen of it since.
    pub(crate) habit: Habit,
}

impl Placement {
    /// Whether [`Self::prepare`] does anything.
    pub(crate) fn prepares(self) -> bool {
        matches!(self, Placement::PriCrWait(_) | Placement::ExclPred(_))
    }

    /// Brings the job's plan up to date before hosts are proposed.
    pub(crate) fn prepare(self, view: &impl View, plan: &mut Plan) {
        match self {
            Placement::PriCrWait(answer) => answer.prepare(view, plan),
            Placement::ExclPred(answer) => answer.prepare(view, plan),
            _ => {}
        }
    }

    /// The host to take next, if `fit` has nothing against it; none where the job had better wait.
    pub(crate) fn propose(
        self,
        view: &impl View,
        plan: &Plan,
        fit: impl Fn(HostId) -> bool,
    ) -> Option<HostId> {
        match self {
            Placement::Fcfs => fcfs::propose(view, fit),
            Placement::PriCr | Placement::Lookahead | Placement::Windows | Placement::Calendar => {
                pri_cr::propose(view, fit)
            }
            Placement::PriCrWait(_) if !plan.waited => None,
            Placement::PriCrWait(_) => pri_cr::propose(view, fit),
            Placement::PriHistory => pri_history::propose(view, fit),
            Placement::ExclS(answer) => answer.propose(view, fit),
            Placement::ExclPred(answer) => answer.propose(view, plan, fit),
        }
    }

    /// How many ready hosts it would take, one after the other.
    pub(crate) fn eligible(self, view: &impl View, plan: &Plan) -> u64 {
        match self {
            Placement::PriCrWait(_) if !plan.waited => 0,
            Placement::ExclS(answer) => answer.fast(view).count() as u64,
            Placement::ExclPred(_) => ExclPred::in_time(view, plan).count() as u64,
            _ => view.ready(),
        }
    }

    /// The free slots in the order in which it takes them, where that is worth finding out for all
    /// of them at once.
    pub(crate) fn order(self, view: &impl View) -> Option<Vec<HostId>> {
        (self == Placement::PriHistory).then(|| pri_history::order(view))
    }

    /// Why a ready host is not taken though tasks wait; none where it would be.
    pub(crate) fn objection(self, view: &impl View, plan: &Plan, speed: Speed) -> Option<String> {
        match self {
            Placement::PriCrWait(answer) => answer.objection(view, plan),
            Placement::ExclS(answer) => answer.objection(view, speed),
            Placement::ExclPred(answer) => answer.objection(view, plan, speed),
            Placement::Lookahead => plan.declined.filter(|(until, _)| view.now() < *until).map(|(until, _)| {
                let left = until.since(view.now());
                format!("a busy host should be done sooner than this one; looked at again in {left} at the latest")
            }),
            _ => None,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Placement::Fcfs => "the host that has been ready for longest",
            Placement::PriCr => {
                "the fastest ready host; of equals the one that has been ready for longest"
            }
            Placement::Windows => {
                "the fastest ready host; there the waiting task that should make the most of the time for which the host was \
                 recorded to stay idle"
            }
            Placement::PriCrWait(_) => {
                "none until enough hosts are ready or the wait is over, then the fastest"
            }
            Placement::PriHistory => {
                "first hosts whose availability intervals used to hold a whole task, then the others, by the work that \
                 they did per second"
            }
            Placement::ExclS(_) => {
                "the fastest ready host, never one that is too slow among all hosts"
            }
            Placement::Lookahead => {
                "the host expected to be done soonest, failures and suspensions counted; none where a busy host will \
                 be done sooner"
            }
            Placement::Calendar => {
                "of promised jobs the host on which the calendar has the task done first, none while that one is busy; of \
                 others the fastest ready host"
            }
            Placement::ExclPred(_) => {
                "the fastest ready host, unless it would be done after the predicted end of the job; from that end on \
                 any"
            }
        }
    }
}
