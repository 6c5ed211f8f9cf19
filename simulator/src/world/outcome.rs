//! The results of one run.

use scheduler::Experience;
use scheduler::effect::Refused;

/// The results of a run. Times are seconds since the job was submitted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunOutcome {
    /// The time at which the last task was done; `None` if that was not before the horizon.
    pub makespan_s: Option<f64>,
    /// The time at which each task was done, in order of time.
    pub completions_s: Vec<f64>,
    /// The number of attempts started.
    pub launches: u32,
    /// The number of attempts that were started while another attempt of the same task was live, as
    /// far as the scheduler knew (Kondo et al. 2004, section 6: "replicated tasks").
    pub replicas: u32,
    /// Processor seconds that all attempts had.
    pub cpu_s: f64,
    /// Processor seconds of the attempts that did not deliver their task.
    pub wasted_cpu_s: f64,
    /// Every attempt in the order of their starts, if `Run::story` is set.
    pub story: Vec<AttemptStory>,
    /// The intervals in which attempts were frozen, in the order of their beginnings, if
    /// `Run::story` is set.
    pub still: Vec<Standstill>,
    /// The time at which each job was settled, in the order in which the jobs came; `None` if that
    /// was not before the horizon.
    pub settled_s: Vec<Option<f64>>,
    /// The predictions made when the job was submitted, when half of its tasks were done, and when
    /// nine tenths were, if `Run::foretell` is set.
    pub foretold: [Option<MakespanPrediction>; 3],
    /// The scheduler's experience at the end, from this run and from before, if `Run::learn` is
    /// set.
    pub learned: Option<Box<Experience>>,
}

/// A prediction of the makespan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MakespanPrediction {
    /// The time at which it was made.
    pub at_s: f64,
    /// The predicted makespan.
    pub makespan_s: f64,
    /// The lower end of its interval of 80 %.
    pub low_s: f64,
    /// The upper end of its interval of 80 %; see [`MakespanPrediction::low_s`].
    pub high_s: f64,
}

/// One attempt of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttemptStory {
    /// The number of its job, from 1.
    pub job: u32,
    /// The task's index, from 1; for a rank, from 0.
    pub task: u32,
    /// The attempt's number among those of its task, from 1.
    pub number: u32,
    /// The host's place in the trace, from 0.
    pub host: u32,
    /// The time at which it was given to its host, and had a slot there.
    pub began_s: f64,
    /// The time at which it could begin to compute; `None` if it ended before.
    pub computed_s: Option<f64>,
    /// The time at which it ended on its host, whether the scheduler knew or not.
    pub ended_s: f64,
    /// The way in which the attempt ended.
    pub fate: AttemptFate,
    /// Whether another attempt of the task was live when it began.
    pub replica: bool,
}

/// An interval in which an attempt was frozen and another had its slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standstill {
    /// The number of the attempt's job, as in [`AttemptStory`].
    pub job: u32,
    /// The task's index, as in [`AttemptStory`].
    pub task: u32,
    /// The attempt's number, as in [`AttemptStory`].
    pub number: u32,
    /// The host's place in the trace, from 0.
    pub host: u32,
    /// The beginning.
    pub from_s: f64,
    /// The end: the attempt was thawed or ended, or the run ended.
    pub to_s: f64,
}

/// The ways an attempt can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptFate {
    /// The attempt delivered the result of its task.
    Delivered,
    /// The attempt was done after another one had delivered the task.
    Late,
    /// The attempt's host went down.
    Lost,
    /// The scheduler stopped the attempt (`Effect::Stop`), because another one was done or the task
    /// was started anew.
    Stopped,
    /// The attempt was given back, because its host's owner came before it had begun.
    Returned,
    /// The attempt was still running when the run ended.
    Unended,
}

/// The reasons why a run has no [`RunOutcome`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The scheduler refused the job.
    #[error("the scheduler refuses the job: {0}")]
    Refused(Refused),
}
