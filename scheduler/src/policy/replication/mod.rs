//! The policy's answer on replication: the running tasks that get another copy. One module per
//! answer; this one has the shared parts. Copies go only to slots that no waiting task could use.

use common::{Speed, Time};

use crate::policy::plan::Plan;
use crate::protocol::effect::CopyReason;

mod dup;
pub(crate) mod gain;
mod rescue;
mod timeout;

pub use dup::{Dup, Replicated};
pub use gain::Gain;
pub use timeout::Timeout;

/// The rule that chooses running tasks for copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Replication {
    /// No task.
    None,
    /// A task none of whose live attempts can go on now.
    Rescue,
    /// Each task, once more hosts are ready than tasks wait.
    Dup(Dup),
    /// A task that is not done by the predicted end of its job.
    Timeout(Timeout),
    /// The task whose copy brings the expected end of its job forward the most.
    Gain(Gain),
}

/// The lost copies that are started again while another one lives. The paper says that a failed
/// task "must be restarted from scratch on another host" and does not say what holds while a
/// duplicate runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Every lost copy.
    Any,
    /// The original, or the copy that was started in its place.
    Primary,
    /// None: the live copy is waited for.
    Never,
}

impl Requeue {
    pub(crate) fn applies(self, primary: bool) -> bool {
        match self {
            Requeue::Any => true,
            Requeue::Primary => primary,
            Requeue::Never => false,
        }
    }
}

impl Replication {
    /// Returns the reason to copy a task whose live attempts are all held up like this, if any.
    pub(crate) fn rescue(
        self,
        hold_ups: impl Iterator<Item = Option<CopyReason>>,
    ) -> Option<CopyReason> {
        match self {
            Replication::Rescue | Replication::Gain(_) => rescue::propose(hold_ups),
            _ => None,
        }
    }

    /// Whether [`Self::rescue`] may ever return a reason.
    pub(crate) fn rescues(self) -> bool {
        matches!(self, Replication::Rescue | Replication::Gain(_))
    }

    /// Returns the rule for lost copies while another one lives.
    pub(crate) fn requeue(self) -> Requeue {
        match self {
            Replication::Dup(answer) => answer.requeue,
            Replication::Timeout(answer) => answer.requeue,
            _ => Requeue::Never,
        }
    }

    /// Returns the time at which an attempt that starts now is to be copied if its task is not
    /// done.
    pub(crate) fn timeout(self, now: Time, plan: &Plan, duplicate: bool) -> Option<Time> {
        match self {
            Replication::Timeout(answer) => answer.at(now, plan, duplicate),
            _ => None,
        }
    }

    /// Whether a job of `tasks` tasks that has started `copies` copies may start another one.
    pub(crate) fn may_copy(self, copies: u64, tasks: u64) -> bool {
        match self {
            Replication::Dup(answer) => answer.may_copy(copies, tasks),
            _ => true,
        }
    }

    /// Returns the tasks that are copied when more slots are ready than tasks wait, if any are.
    pub(crate) fn overlap(self) -> Option<Replicated> {
        match self {
            Replication::Dup(answer) => Some(answer.which),
            _ => None,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Replication::None => "none",
            Replication::Rescue => {
                "a task whose attempts are all on suspended or silent hosts, by slots left over"
            }
            Replication::Dup(_) => {
                "each task that starts while more hosts are ready than tasks wait, those on slow hosts first"
            }
            Replication::Gain(_) => {
                "the task whose copy brings the expected end of the job forward the most, where that is worth its price"
            }
            Replication::Timeout(_) => {
                "a task that is not done by the predicted end of its job, those on slow hosts first"
            }
        }
    }
}

/// The urgency of a wanted copy, smaller first: lost primaries, then those of slow hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Urgency {
    pub(crate) class: Class,
    /// The speed of the host to which the task was first assigned.
    pub(crate) speed: Speed,
}

impl Urgency {
    /// The first one of class [`Class::Unheard`]: all of that class are equally urgent.
    pub(crate) const LEAST_UNHEARD: Self = Self {
        class: Class::Unheard,
        speed: Speed::REFERENCE,
    };
}

/// The purpose of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// It replaces a lost primary; goes before waiting tasks.
    Primary,
    /// It is added to attempts on silent hosts; goes after all waiting tasks.
    Unheard,
    /// It is added to running attempts; goes after all waiting tasks.
    Duplicate,
}
