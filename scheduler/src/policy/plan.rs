//! What a policy remembers of a job between steps. Which parts are used is the policy's business.

use common::{Span, Time};

use crate::prediction::experience::{JobKind, Stage};

/// A job's plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    /// When the job was let in.
    pub(crate) entered: Time,
    /// Whether the wait for more hosts is over.
    pub(crate) waited: bool,
    /// The end that was predicted last.
    pub(crate) forecast: Option<Forecast>,
    /// When placement is to be looked at again though nothing happened.
    pub(crate) review: Option<Time>,
    /// From when on copies are to be looked for again.
    pub(crate) search: Time,
    /// When running attempts are to be looked at again for those that are overdue.
    pub(crate) overdue: Option<Time>,
    /// By when all hosts together could complete the waiting tasks, and up to when that is taken
    /// for granted.
    pub(crate) queue_end: Option<(Time, Time)>,
    /// Up to when, and up to which ready host, lookahead wants none of the ready hosts.
    pub(crate) declined: Option<(Time, u64)>,
    /// Ends that were predicted on the way, each with its stage and its time.
    pub(crate) predicted: Vec<(Stage, Time, Time)>,
    /// What kind of job it is, once hosts were there for it.
    pub(crate) kind: Option<JobKind>,
}

/// A predicted end (Kondo et al. 2004, section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forecast {
    /// When the job should be through.
    pub(crate) finish: Time,
    /// From when on slow hosts are taken too.
    pub(crate) reverts: Time,
    /// A task's time on a mean host, the start included.
    pub(crate) task: Span,
    /// How many finished tasks call for another prediction.
    pub(crate) next: u64,
}
