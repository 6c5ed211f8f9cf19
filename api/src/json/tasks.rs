//! The JSON of tasks, attempts and checkpoints.

use common::checkpoint::Saved;
use common::view::{AttemptState, AttemptView, Belief, SpeculationView, TaskState, TaskView};

use super::{IsoTime, Object, Seconds, Word, all, form};

form! {
    /// A task with its attempts, as `task info` prints it.
    pub struct TaskJson of TaskView as view {
        /// The task, as `JOB.NUMBER`.
        pub task: String = view.task.to_string(),
        /// Its item, if the job was made from a list.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub item: Option<String> = view.item.clone(),
        /// Its state, such as `running`.
        pub state: Word<TaskState> = Word(view.state),
        /// The reason of its state, where there is more to say.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reason: Option<String> = view.reason.clone(),
        /// Whether somebody waits for it.
        pub requested: bool = view.speculation.as_ref().is_none_or(|life| life.requested.is_some()),
        /// Its attempts, the oldest first.
        pub attempts: Vec<AttemptJson> = all(&view.attempts),
        /// Its history, if it was disclosed first.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub speculation: Option<SpeculationJson> = view.speculation.as_ref().map(Object::json),
    }
}

form! {
    /// The history of a disclosed task.
    pub struct SpeculationJson of SpeculationView as view {
        /// The time at which it was disclosed.
        pub disclosed: IsoTime = IsoTime(view.disclosed),
        /// The time at which it was requested; `null` where there is none.
        pub requested: Option<IsoTime> = view.requested.map(IsoTime),
        /// The time at which it was executed; `null` where there is none.
        pub executed: Option<IsoTime> = view.executed.map(IsoTime),
        /// The time at which its output was removed; `null` where there is none.
        pub removed: Option<IsoTime> = view.removed.map(IsoTime),
        /// The time at which its user had the result; `null` where there is none.
        pub delivered: Option<IsoTime> = view.delivered().map(IsoTime),
        /// The time that its user waited for the result; `null` where there is none.
        pub visible_response_s: Option<Seconds> = view.visible_response().map(Seconds),
    }
}

form! {
    /// An attempt of a task, as `task info` prints it.
    pub struct AttemptJson of AttemptView as view {
        /// The attempt, as `JOB.TASK#NUMBER`, such as `7.3#2`.
        pub attempt: String = view.attempt.to_string(),
        /// Its host's name, such as `desk-3`.
        pub host: String = view.host.clone(),
        /// Its state, such as `running`.
        pub state: Word<AttemptState> = Word(view.state),
        /// Whether it was started while another attempt of its task was alive.
        pub duplicate: bool = view.duplicate,
        /// The time at which it was assigned to its host.
        pub assigned: IsoTime = IsoTime(view.assigned),
        /// The time at which its command was started; `null` where there is none.
        pub started: Option<IsoTime> = view.started.map(IsoTime),
        /// The time at which it ended; `null` where there is none.
        pub finished: Option<IsoTime> = view.finished.map(IsoTime),
        /// Run time without suspensions.
        pub run_s: Seconds = Seconds(view.ran),
        /// Processor time.
        pub cpu_s: Seconds = Seconds(view.cpu),
        /// Time suspended.
        pub suspended_s: Seconds = Seconds(view.suspended),
        /// The start of the present suspension.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub suspended_since: Option<IsoTime> = view.suspended_since.map(IsoTime),
        /// Its command's exit code.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub exit_code: Option<i32> = view.exit_code,
        /// The reason why it was started, and why it ended as it did.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reason: Option<String> = view.reason.clone(),
        /// The checkpoint that it was given to start from.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub started_from: Option<CheckpointJson> = view.started_from.as_ref().map(Object::json),
        /// The newest checkpoint that it has saved.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub checkpoint: Option<CheckpointJson> = view.saved.as_ref().map(Object::json),
        /// The reason why a checkpoint was not saved, or not used.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub checkpoint_problem: Option<String> = view.checkpoint_problem.clone(),
        /// The credibility of its result, if its job compares results.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub belief: Option<Word<Belief>> = view.belief.map(Word),
        /// The part done, from 0 to 1, while its program reports it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub progress: Option<f32> = view.progress,
        /// The words of the program about that.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub progress_words: Option<String> = view.words.clone(),
    }
}

form! {
    /// A checkpoint of a task.
    pub struct CheckpointJson of Saved as saved {
        /// The number of the attempt that saved it.
        pub attempt: u32 = saved.number,
        /// Its number among those of the task.
        pub sequence: u32 = saved.sequence,
        /// The time at which it was taken.
        pub saved: IsoTime = IsoTime(saved.taken),
        /// The number of its files.
        pub files: u32 = saved.files,
        /// The bytes of its files.
        pub bytes: u64 = saved.bytes,
    }
}
