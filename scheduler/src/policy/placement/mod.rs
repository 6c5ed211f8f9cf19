//! The policy's answer on placement: the ready host on which the next task starts, if any. One
//! module per answer; this one has the shared parts.

use common::{HostId, Span, Speed, Time};

use crate::policy::plan::JobPlan;
use crate::policy::setting::Parametric;
use crate::prediction::experience::{Habit, TrackRecord};

mod calendar;
mod excl_pred;
mod excl_s;
mod fcfs;
pub(crate) mod lookahead;
mod pri_cr;
mod pri_cr_wait;
mod pri_history;
mod windows;

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
pub(crate) trait PlacementView {
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

    /// Returns the highest speed of a host that takes work and may run the job's, busy or not.
    fn fastest(&self) -> Option<Speed>;

    /// Returns the ready hosts that suit the job, the one ready for longest first.
    fn ready_by_since(&self) -> impl Iterator<Item = HostId>;

    /// Returns the same hosts, the fastest first.
    fn ready_by_speed(&self) -> impl Iterator<Item = (Speed, HostId)>;

    /// Returns a host's past, where known.
    fn past(&self, host: HostId) -> Option<HostPast>;

    /// Returns the time of a task on a free slot of this speed, the start included.
    fn duration_at(&self, work_s: f64, speed: Speed) -> Span {
        self.start_cost() + Span::from_secs_f64(work_s / speed.factor())
    }
}

/// A host's past, for answers that judge by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostPast {
    pub(crate) speed: Speed,
    pub(crate) free_slots: usize,
    /// Its record of the day before, if any.
    pub(crate) record: Option<TrackRecord>,
    /// Its observed behaviour since then.
    pub(crate) habit: Habit,
}

/// An answer on placement. What is not here is as of PRI-CR: every ready host is taken, one after
/// the other.
pub(crate) trait Answer: Copy {
    /// Returns what it does, for users.
    fn describe(self) -> &'static str;

    /// Returns the ready hosts that it would take, the next one first; none where the job had better
    /// wait.
    fn candidates(self, view: &impl PlacementView, _: &JobPlan) -> impl Iterator<Item = HostId> {
        view.ready_by_speed().map(|(_, host)| host)
    }

    /// Whether [`Self::prepare`] does anything.
    fn prepares(self) -> bool {
        false
    }

    /// Updates the job's plan before hosts are proposed.
    fn prepare(self, _: &impl PlacementView, _: &mut JobPlan) {}

    /// Returns the number of ready hosts that it would take, one after the other.
    fn eligible(self, view: &impl PlacementView, _: &JobPlan) -> u64 {
        view.ready()
    }

    /// Returns the free slots in the order in which it takes them, where computing that once for
    /// all pays.
    fn order(self, _: &impl PlacementView) -> Option<Vec<HostId>> {
        None
    }

    /// Returns the reason why a ready host is not taken though tasks wait; `None` where it would
    /// be.
    fn objection(self, _: &impl PlacementView, _: &JobPlan, _: Speed) -> Option<String> {
        None
    }

    /// Whether tasks may wait for busy hosts.
    fn looks_ahead(self) -> bool {
        false
    }

    /// Whether the host that is proposed gets the task that should make the most of its window.
    fn fills_windows(self) -> bool {
        false
    }
}

/// Calls the answer of a [`Placement`].
macro_rules! answer {
    ($placement:expr, $answer:ident => $call:expr) => {
        match $placement {
            Placement::Fcfs => {
                let $answer = fcfs::Fcfs;
                $call
            }
            Placement::PriCr => {
                let $answer = pri_cr::PriCr;
                $call
            }
            Placement::PriCrWait($answer) => $call,
            Placement::PriHistory => {
                let $answer = pri_history::PriHistory;
                $call
            }
            Placement::ExclS($answer) => $call,
            Placement::ExclPred($answer) => $call,
            Placement::Lookahead => {
                let $answer = lookahead::Lookahead;
                $call
            }
            Placement::Windows => {
                let $answer = windows::FillWindows;
                $call
            }
            Placement::Calendar => {
                let $answer = calendar::ByCalendar;
                $call
            }
        }
    };
}

impl Placement {
    pub(super) fn parametric(&mut self) -> Option<&mut dyn Parametric> {
        match self {
            Placement::PriCrWait(answer) => Some(answer),
            Placement::ExclS(answer) => Some(answer),
            Placement::ExclPred(answer) => Some(answer),
            _ => None,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        answer!(self, answer => answer.describe())
    }

    /// Returns the first of [`Answer::candidates`] that passes `fit`.
    pub(crate) fn propose(
        self,
        view: &impl PlacementView,
        plan: &JobPlan,
        fit: impl Fn(HostId) -> bool,
    ) -> Option<HostId> {
        answer!(self, answer => answer.candidates(view, plan).find(|host| fit(*host)))
    }

    /// Calls [`Answer::prepares`].
    pub(crate) fn prepares(self) -> bool {
        answer!(self, answer => answer.prepares())
    }

    /// Calls [`Answer::prepare`].
    pub(crate) fn prepare(self, view: &impl PlacementView, plan: &mut JobPlan) {
        answer!(self, answer => answer.prepare(view, plan));
    }

    /// Calls [`Answer::eligible`].
    pub(crate) fn eligible(self, view: &impl PlacementView, plan: &JobPlan) -> u64 {
        answer!(self, answer => answer.eligible(view, plan))
    }

    /// Calls [`Answer::order`].
    pub(crate) fn order(self, view: &impl PlacementView) -> Option<Vec<HostId>> {
        answer!(self, answer => answer.order(view))
    }

    /// Calls [`Answer::objection`].
    pub(crate) fn objection(
        self,
        view: &impl PlacementView,
        plan: &JobPlan,
        speed: Speed,
    ) -> Option<String> {
        answer!(self, answer => answer.objection(view, plan, speed))
    }

    /// Calls [`Answer::looks_ahead`].
    pub(crate) fn looks_ahead(self) -> bool {
        answer!(self, answer => answer.looks_ahead())
    }

    /// Calls [`Answer::fills_windows`].
    pub(crate) fn fills_windows(self) -> bool {
        answer!(self, answer => answer.fills_windows())
    }
}
