//! What one run comes to.

use scheduler::Experience;
use scheduler::effect::Refused;

/// How a run went. Times are seconds since the job was submitted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// When the last task was done; none where that was not before the horizon.
    pub makespan_s: Option<f64>,
    /// When each task was done, in order of time.
    pub completions_s: Vec<f64>,
    /// Attempts started.
    pub launches: u32,
    /// Those of them that were started while another attempt of the same task was live, as far as
    /// the scheduler knew (Kondo et al. 2004, section 6: "replicated tasks").
    pub replicas: u32,
    /// Processor seconds that attempts had.
    pub cpu_s: f64,
    /// Those of them that attempts had which did not deliver their task.
    pub wasted_cpu_s: f64,
    /// Every attempt in the order of their starts, where that was asked for.
    pub story: Vec<AttemptStory>,
    /// When attempts stood still so that others had their slots, in the order in which they began
    /// to, where the story was asked for.
    pub still: Vec<Standstill>,
    /// When each job was settled, in the order in which they came; none where that was not before
    /// the horizon.
    pub settled_s: Vec<Option<f64>>,
    /// What was predicted while the job ran, where that was asked for: when it was submitted, when
    /// half of its tasks were done, and when nine tenths were.
    pub foretold: [Option<Foretold>; 3],
    /// What the scheduler knew in the end, of this run and of what it knew before, where that was
    /// asked for.
    pub learned: Option<Box<Experience>>,
}

/// A prediction of the makespan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Foretold {
    /// When it was made.
    pub at_s: f64,
    /// The makespan.
    pub makespan_s: f64,
    /// Its interval of 80 %.
    pub low_s: f64,
    /// See [`Foretold::low_s`].
    pub high_s: f64,
}

/// One attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttemptStory {
    /// Its job, from 1.
    pub job: u32,
    /// The task's index, from 1; that of a rank, from 0.
    pub task: u32,
    /// The attempt's number among those of its task, from 1.
    pub number: u32,
    /// The host's place in the trace, from 0.
    pub host: u32,
    /// When it was given to its host.
    pub began_s: f64,
    /// From when on it could compute; none where it ended before.
    pub computed_s: Option<f64>,
    /// When it ended on its host, whoever knew.
    pub ended_s: f64,
    /// How.
    pub fate: Fate,
    /// Whether another attempt of the task was live when it began.
    pub replica: bool,
}

/// A time in which an attempt stood still so that another had its slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standstill {
    /// The attempt's job, task and number, as in its story.
    pub job: u32,
    /// See `job`.
    pub task: u32,
    /// See `job`.
    pub number: u32,
    /// The host's place in the trace, from 0.
    pub host: u32,
    /// From when.
    pub from_s: f64,
    /// Until when: it went on, ended, or the run did.
    pub to_s: f64,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It delivered its task.
    Delivered,
    /// It was done after another one.
    Late,
    /// Its host went down.
    Lost,
    /// It was stopped, since another one was done or its task was started anew.
    Stopped,
    /// Its host's owner came before it had begun, and it was given back.
    Returned,
    /// It was still there when the run ended.
    Unended,
}

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The scheduler does not take the job.
    #[error("the scheduler refuses the job: {0}")]
    Refused(Refused),
}
