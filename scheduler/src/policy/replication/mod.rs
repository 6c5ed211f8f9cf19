//! Which running task deserves another copy, now? One file per answer; this one has what they
//! share. Copies go only to slots that no waiting task could use.

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

/// Who is copied while it lives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Replication {
    /// Nobody.
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

/// a failed task "must be restarted from scratch on another host" and does not say what holds while
/// a duplicate runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Each one.
    Any,
    /// The original one, or whatever was started in its place.
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
    /// Why a task should be copied whose live attempts are held up like this, each of them.
    pub(crate) fn rescue(
        self,
        hold_ups: impl Iterator<Item = Option<CopyReason>>,
    ) -> Option<CopyReason> {
        match self {
            Replication::Rescue | Replication::Gain(_) => rescue::propose(hold_ups),
            _ => None,
        }
    }

    /// Whether [`Self::rescue`] may ever have a reason.
    pub(crate) fn rescues(self) -> bool {
        matches!(self, Replication::Rescue | Replication::Gain(_))
    }

    /// Which lost copies are started again while another one lives.
    pub(crate) fn requeue(self) -> Requeue {
        match self {
            Replication::Dup(answer) => answer.requeue,
            Replication::Timeout(answer) => answer.requeue,
            _ => Requeue::Never,
        }
    }

    /// When an attempt that starts now is to be copied if its task is not done.
    pub(crate) fn timeout(self, now: Time, plan: &Plan, duplicate: bool) -> Option<Time> {
        match self {
            Replication::Timeout(answer) => answer.at(now, plan, duplicate),
            _ => None,
        }
    }

    /// Whether a job with so many tasks that has started so many copies may start another one.
    pub(crate) fn may_copy(self, copies: u64, tasks: u64) -> bool {
        match self {
            Replication::Dup(answer) => answer.may_copy(copies, tasks),
            _ => true,
        }
    }

    /// Whether tasks are copied when more slots are ready than tasks wait; then, which.
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

/// How urgent the copies that are wanted are, smaller first: lost primaries, then those of slow
/// hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Urgency {
    pub(crate) class: Class,
    /// Speed of the host that the task was first given to.
    pub(crate) speed: Speed,
}

impl Urgency {
    /// The first one of those in addition to attempts of which nothing is heard: all of them are
    /// alike.
    pub(crate) const LEAST_UNHEARD: Self = Self {
        class: Class::Unheard,
        speed: Speed::REFERENCE,
    };
}

/// What a copy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// In place of a lost primary; goes before waiting tasks.
    Primary,
    /// In addition to attempts of whose hosts nothing is heard; goes after all waiting tasks.
    Unheard,
    /// In addition; goes after all waiting tasks.
    Duplicate,
}
