//! The memory of a job's policy between steps. Each policy uses the fields that it needs.

use common::{Span, Time};

use crate::prediction::experience::{JobKind, JobStage};

/// A job's plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobPlan {
    /// The time at which the job was admitted.
    pub(crate) entered: Time,
    /// Whether the wait for more hosts is over.
    pub(crate) waited: bool,
    /// The last predicted completion.
    pub(crate) forecast: Option<PredictedCompletion>,
    /// The time at which placement is to be tried again even if nothing happens.
    pub(crate) review: Option<Time>,
    /// The time from which on copies are to be searched for again.
    pub(crate) search: Time,
    /// The time at which running attempts are to be checked again for overdue ones.
    pub(crate) overdue: Option<Time>,
    /// The time by which all hosts together could complete the waiting tasks, and the time until
    /// which that is taken to hold.
    pub(crate) queue_end: Option<(Time, Time)>,
    /// The time, and the number of ready hosts' `arrivals`, until which lookahead declines the
    /// ready hosts.
    pub(crate) declined: Option<(Time, u64)>,
    /// Predicted completions on the way, each with its stage and the time of the prediction.
    pub(crate) predicted: Vec<(JobStage, Time, Time)>,
    /// The kind of the job, once it had hosts.
    pub(crate) kind: Option<JobKind>,
}

/// A predicted completion (Kondo et al. 2004, section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PredictedCompletion {
    /// The predicted completion of the job.
    pub(crate) finish: Time,
    /// The time from which on slow hosts are taken too.
    pub(crate) reverts: Time,
    /// A task's time on a mean host, the start included.
    pub(crate) task: Span,
    /// The number of finished tasks at which the prediction is made anew.
    pub(crate) next: u64,
}
