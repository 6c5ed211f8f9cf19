//! The policy's answer on replication: the running tasks that get another copy. One module per
//! answer; this one has the shared parts. Copies go only to slots that no waiting task could use.

use common::{Speed, Time};

use crate::policy::plan::JobPlan;
use crate::policy::setting::{ExpectedValues, Parametric, name_of, one_of};
use crate::protocol::effect::CopyReason;

mod dup;
pub(crate) mod gain;
mod none;
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
    /// The names of the rules, and what they mean as a parameter.
    const NAMES: [(&str, Requeue); 3] = [
        ("any", Requeue::Any),
        ("primary", Requeue::Primary),
        ("never", Requeue::Never),
    ];
    const MEANING: &str = "which lost copies are started again at once while another one lives: `any`, the `primary`, or `never`";

    fn name(self) -> String {
        name_of(self, &Requeue::NAMES)
    }

    fn named(value: &str) -> Result<Requeue, ExpectedValues> {
        one_of(value, &Requeue::NAMES, "`any`, `primary` or `never`")
    }

    pub(crate) fn applies(self, primary: bool) -> bool {
        match self {
            Requeue::Any => true,
            Requeue::Primary => primary,
            Requeue::Never => false,
        }
    }
}

/// An answer on replication. What is not here is as of an answer that copies nothing.
pub(crate) trait Answer: Copy {
    /// Returns what it does, for users.
    fn describe(self) -> &'static str;

    /// Whether tasks none of whose live attempts can go on are copied.
    fn rescues(self) -> bool {
        false
    }

    /// Returns the rule for lost copies while another one lives.
    fn requeue(self) -> Requeue {
        Requeue::Never
    }

    /// Returns the time at which an attempt that starts now is to be copied if its task is not
    /// done.
    fn timeout(self, _now: Time, _plan: &JobPlan, _duplicate: bool) -> Option<Time> {
        None
    }

    /// Whether a job of `tasks` tasks that has started `copies` copies may start another one.
    fn may_copy(self, _copies: u64, _tasks: u64) -> bool {
        true
    }

    /// Returns the tasks that are copied when more slots are ready than tasks wait, if any are.
    fn overlap(self) -> Option<Replicated> {
        None
    }

    /// Returns the budget of copies by gain, if it searches for those.
    fn gain(self) -> Option<Gain> {
        None
    }
}

/// Calls the answer of a [`Replication`].
macro_rules! answer {
    ($replication:expr, $answer:ident => $call:expr) => {
        match $replication {
            Replication::None => {
                let $answer = none::NoCopies;
                $call
            }
            Replication::Rescue => {
                let $answer = rescue::Rescue;
                $call
            }
            Replication::Dup($answer) => $call,
            Replication::Timeout($answer) => $call,
            Replication::Gain($answer) => $call,
        }
    };
}

impl Replication {
    pub(super) fn parametric(&mut self) -> Option<&mut dyn Parametric> {
        match self {
            Replication::Dup(answer) => Some(answer),
            Replication::Timeout(answer) => Some(answer),
            Replication::Gain(answer) => Some(answer),
            Replication::None | Replication::Rescue => None,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        answer!(self, answer => answer.describe())
    }

    /// Returns the reason to copy a task whose live attempts are all held up like this, if any.
    pub(crate) fn rescue(
        self,
        hold_ups: impl Iterator<Item = Option<CopyReason>>,
    ) -> Option<CopyReason> {
        if self.rescues() {
            rescue::propose(hold_ups)
        } else {
            None
        }
    }

    /// Calls [`Answer::rescues`].
    pub(crate) fn rescues(self) -> bool {
        answer!(self, answer => answer.rescues())
    }

    /// Calls [`Answer::requeue`].
    pub(crate) fn requeue(self) -> Requeue {
        answer!(self, answer => answer.requeue())
    }

    /// Calls [`Answer::timeout`].
    pub(crate) fn timeout(self, now: Time, plan: &JobPlan, duplicate: bool) -> Option<Time> {
        answer!(self, answer => answer.timeout(now, plan, duplicate))
    }

    /// Calls [`Answer::may_copy`].
    pub(crate) fn may_copy(self, copies: u64, tasks: u64) -> bool {
        answer!(self, answer => answer.may_copy(copies, tasks))
    }

    /// Calls [`Answer::overlap`].
    pub(crate) fn overlap(self) -> Option<Replicated> {
        answer!(self, answer => answer.overlap())
    }

    /// Calls [`Answer::gain`].
    pub(crate) fn gain(self) -> Option<Gain> {
        answer!(self, answer => answer.gain())
    }
}

/// The urgency of a wanted copy, smaller first: lost primaries, then those of slow hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Urgency {
    pub(crate) class: CopyPurpose,
    /// The speed of the host to which the task was first assigned.
    pub(crate) speed: Speed,
}

/// The purpose of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CopyPurpose {
    /// It replaces a lost primary; goes before waiting tasks.
    Primary,
    /// It is added to running attempts; goes after all waiting tasks.
    Duplicate,
}
