//! The JSON of tasks, attempts and checkpoints.

use common::checkpoint::Saved;
use common::view::{AttemptState, AttemptView, Belief, SpeculationView, TaskState, TaskView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{IsoTime, Object, Seconds, Word, all};

/// A task with its attempts, as `task info` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TaskJson {
    /// The task, as `JOB.NUMBER`.
    pub task: String,
    /// Its item, if the job was made from a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Its state, such as `running`.
    pub state: Word<TaskState>,
    /// The reason of its state, where there is more to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether somebody waits for it.
    pub requested: bool,
    /// Its attempts, the oldest first.
    pub attempts: Vec<AttemptJson>,
    /// Its history, if it was disclosed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speculation: Option<SpeculationJson>,
}

impl Object for TaskView {
    type Json = TaskJson;

    fn json(&self) -> TaskJson {
        let life = self.speculation.as_ref();
        TaskJson {
            task: self.task.to_string(),
            item: self.item.clone(),
            state: Word(self.state),
            reason: self.reason.clone(),
            requested: life.is_none_or(|life| life.requested.is_some()),
            attempts: all(&self.attempts),
            speculation: life.map(Object::json),
        }
    }
}

/// The history of a disclosed task.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SpeculationJson {
    /// The time at which it was disclosed.
    pub disclosed: IsoTime,
    /// The time at which it was requested; `null` where there is none.
    pub requested: Option<IsoTime>,
    /// The time at which it was executed; `null` where there is none.
    pub executed: Option<IsoTime>,
    /// The time at which its output was removed; `null` where there is none.
    pub removed: Option<IsoTime>,
    /// The time at which its user had the result; `null` where there is none.
    pub delivered: Option<IsoTime>,
    /// The time that its user waited for the result; `null` where there is none.
    pub visible_response_s: Option<Seconds>,
}

impl Object for SpeculationView {
    type Json = SpeculationJson;

    fn json(&self) -> SpeculationJson {
        SpeculationJson {
            disclosed: IsoTime(self.disclosed),
            requested: self.requested.map(IsoTime),
            executed: self.executed.map(IsoTime),
            removed: self.removed.map(IsoTime),
            delivered: self.delivered().map(IsoTime),
            visible_response_s: self.visible_response().map(Seconds),
        }
    }
}

/// An attempt of a task, as `task info` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AttemptJson {
    /// The attempt, as `JOB.TASK#NUMBER`, such as `7.3#2`.
    pub attempt: String,
    /// Its host's name, such as `desk-3`.
    pub host: String,
    /// Its state, such as `running`.
    pub state: Word<AttemptState>,
    /// Whether it was started while another attempt of its task was alive.
    pub duplicate: bool,
    /// The time at which it was assigned to its host.
    pub assigned: IsoTime,
    /// The time at which its command was started; `null` where there is none.
    pub started: Option<IsoTime>,
    /// The time at which it ended; `null` where there is none.
    pub finished: Option<IsoTime>,
    /// Run time without suspensions.
    pub run_s: Seconds,
    /// Processor time.
    pub cpu_s: Seconds,
    /// Time suspended.
    pub suspended_s: Seconds,
    /// The start of the present suspension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended_since: Option<IsoTime>,
    /// Its command's exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The reason why it was started, and why it ended as it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The checkpoint that it was given to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_from: Option<CheckpointJson>,
    /// The newest checkpoint that it has saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointJson>,
    /// The reason why a checkpoint was not saved, or not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_problem: Option<String>,
    /// The credibility of its result, if its job compares results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub belief: Option<Word<Belief>>,
    /// The part done, from 0 to 1, while its program reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f32>,
    /// The words of the program about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_words: Option<String>,
}

impl Object for AttemptView {
    type Json = AttemptJson;

    fn json(&self) -> AttemptJson {
        AttemptJson {
            attempt: self.attempt.to_string(),
            host: self.host.clone(),
            state: Word(self.state),
            duplicate: self.duplicate,
            assigned: IsoTime(self.assigned),
            started: self.started.map(IsoTime),
            finished: self.finished.map(IsoTime),
            run_s: Seconds(self.ran),
            cpu_s: Seconds(self.cpu),
            suspended_s: Seconds(self.suspended),
            suspended_since: self.suspended_since.map(IsoTime),
            exit_code: self.exit_code,
            reason: self.reason.clone(),
            started_from: self.started_from.as_ref().map(Object::json),
            checkpoint: self.saved.as_ref().map(Object::json),
            checkpoint_problem: self.checkpoint_problem.clone(),
            belief: self.belief.map(Word),
            progress: self.progress,
            progress_words: self.words.clone(),
        }
    }
}

/// A checkpoint of a task.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckpointJson {
    /// The number of the attempt that saved it.
    pub attempt: u32,
    /// Its number among those of the task.
    pub sequence: u32,
    /// The time at which it was taken.
    pub saved: IsoTime,
    /// The number of its files.
    pub files: u32,
    /// The bytes of its files.
    pub bytes: u64,
}

impl Object for Saved {
    type Json = CheckpointJson;

    fn json(&self) -> CheckpointJson {
        CheckpointJson {
            attempt: self.number,
            sequence: self.sequence,
            saved: IsoTime(self.taken),
            files: self.files,
            bytes: self.bytes,
        }
    }
}
