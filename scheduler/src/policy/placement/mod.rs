//! The policy's answer on placement: the ready host on which the next task starts, if any. One
//! module per answer; this one has the shared parts.

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

/// The rule that chooses among ready hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Placement {
    /// The host that has been ready for longest.
    Fcfs,
    /// The fastest host.
    PriCr,
    /// The fastest host, after a wait for more hosts.
    PriCrWait(PriCrWait),
    /// The fastest of the hosts that used to stay up for long enough.
    PriHistory,
    /// The fastest host, unless it is slow among all hosts.
    ExclS(ExclS),
    /// The fastest host, unless it would be done after the predicted end of the job.
    ExclPred(ExclPred),
    /// The host that is done soonest, unless a busy host would be done sooner.
    Lookahead,
    /// The fastest host; it gets the task that should make the most of its owner's absence.
    Windows,
    /// For jobs with a promise the host that the calendar names; for others the fastest one.
    Calendar,
}

/// The view of an answer: the present grid for one job, read-only.
pub(crate) trait View {
    /// The time of the step.
    fn now(&self) -> Time;

    /// Returns the time that starting a task takes beside its work.
    fn start_cost(&self) -> Span;

    /// Returns the number of the job's tasks that wait for a first or another attempt.
    fn waiting(&self) -> u64;

    /// Returns the number of the job's unsettled tasks.
    fn unsettled(&self) -> u64;

    /// Returns the number of the job's finished tasks.
    fn finished(&self) -> u64;

    /// Returns the work of one task, in seconds on a host of speed 1, where known.
    fn work_s(&self) -> Option<f64>;

    /// Returns the number of slots of all hosts that take work now.
    fn usable_slots(&self) -> u64;

    /// Returns the number of hosts with a free slot.
    fn ready(&self) -> u64;

    /// Returns the mean work per second of the known hosts.
    fn mean_rate(&self) -> Option<f64>;

    /// Returns the mean and standard deviation of the speeds of all known hosts.
    fn speed_mean_sd(&self) -> (f64, f64);

    /// Returns the highest speed of a host that could take work.
    fn fastest(&self) -> Option<Speed>;

    /// Returns the ready hosts that suit the job, the one ready for longest first.
    fn ready_by_since(&self) -> impl Iterator<Item = HostId>;

    /// Returns the same hosts, the fastest first.
    fn ready_by_speed(&self) -> impl Iterator<Item = (Speed, HostId)>;

    /// Returns a host's past, where known.
    fn past(&self, host: HostId) -> Option<Past>;

    /// Returns the time of a task on a free slot of this speed, the start included.
    fn duration_at(&self, work_s: f64, speed: Speed) -> Span {
        self.start_cost() + Span::from_secs_f64(work_s / speed.factor())
    }
}

/// A host's past, for answers that judge by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Past {
    pub(crate) speed: Speed,
    pub(crate) free_slots: usize,
    /// Its record of the day before, if any.
    pub(crate) record: Option<TrackRecord>,
    /// Its observed behaviour since then.
    pub(crate) habit: Habit,
}

impl Placement {
    /// Whether [`Self::prepare`] does anything.
    pub(crate) fn prepares(self) -> bool {
        matches!(self, Placement::PriCrWait(_) | Placement::ExclPred(_))
    }

    /// Updates the job's plan before hosts are proposed.
    pub(crate) fn prepare(self, view: &impl View, plan: &mut Plan) {
        match self {
            Placement::PriCrWait(answer) => answer.prepare(view, plan),
            Placement::ExclPred(answer) => answer.prepare(view, plan),
            _ => {}
        }
    }

    /// Returns the host to take next, among those that pass `fit`; `None` where the job had better
    /// wait.
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

    /// Returns the number of ready hosts that it would take, one after the other.
    pub(crate) fn eligible(self, view: &impl View, plan: &Plan) -> u64 {
        match self {
            Placement::PriCrWait(_) if !plan.waited => 0,
            Placement::ExclS(answer) => answer.fast(view).count() as u64,
            Placement::ExclPred(_) => ExclPred::in_time(view, plan).count() as u64,
            _ => view.ready(),
        }
    }

    /// Returns the free slots in the order in which it takes them, where computing that once for
    /// all pays.
    pub(crate) fn order(self, view: &impl View) -> Option<Vec<HostId>> {
        (self == Placement::PriHistory).then(|| pri_history::order(view))
    }

    /// Returns the reason why a ready host is not taken though tasks wait; `None` where it would
    /// be.
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
