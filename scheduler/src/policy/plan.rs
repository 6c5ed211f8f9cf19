//! The memory of a job's policy between steps. Each policy uses the fields that it needs.

use common::{HostId, Span, Time};

use crate::prediction::experience::{JobKind, JobStage};
use crate::prediction::predict::Prediction;

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
    /// The time before which the job has no use for idle hosts, if nothing happens to it.
    pub(crate) rests: Option<Time>,
    /// The time by which all hosts together could complete the waiting tasks, and the time until
    /// which that is taken to hold.
    pub(crate) queue_end: Option<(Time, Time)>,
    /// The time, and the number of ready hosts' `arrivals`, until which lookahead declines the
    /// ready hosts.
    pub(crate) declined: Option<(Time, u64)>,
    /// The hosts that were the best ones for copies, where they are remembered.
    pub(crate) candidates: Option<Candidates>,
    /// The busy hosts that should be free soon, where they are remembered.
    pub(crate) ending: Option<EndingSoon>,
    /// Predicted completions on the way, at most one of each stage.
    pub(crate) predicted: Vec<NotedPrediction>,
    /// The stage of the latest of them, also if it is forgotten since.
    pub(crate) noted: Option<JobStage>,
    /// The kind of the job, once it had hosts.
    pub(crate) kind: Option<JobKind>,
}

/// The idle hosts that were the best ones for copies.
#[derive(Debug, Clone)]
pub(crate) struct Candidates {
    /// The time at which all idle hosts were ranked.
    pub(crate) at: Time,
    /// The best first.
    pub(crate) best: Vec<HostId>,
}

/// The hosts on which an attempt should end soon.
#[derive(Debug, Clone)]
pub(crate) struct EndingSoon {
    /// The time until which no other host should become one of them.
    pub(crate) until: Time,
    pub(crate) hosts: Vec<HostId>,
}

/// A prediction of a job's completion, to be compared with the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotedPrediction {
    pub(crate) stage: JobStage,
    /// The time at which it was made.
    pub(crate) at: Time,
    pub(crate) prediction: Prediction,
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

impl JobPlan {
    /// Notes a prediction made `at` this time.
    pub(crate) fn note(&mut self, stage: JobStage, at: Time, prediction: Prediction) {
        self.noted = Some(stage);
        self.predicted.push(NotedPrediction {
            stage,
            at,
            prediction,
        });
    }

    /// Forgets the noted predictions, since the user changed what there is to do: their outcome would
    /// say nothing about them. The next one is that of the next stage.
    pub(crate) fn forget_predictions(&mut self) {
        self.predicted.clear();
    }
}
