//! The JSON of events, one document for each.

use common::Content;
use common::attempt::OutputFile;
use common::content::BlobHash;
use common::event::{EventView, GridEvent, ResultView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{IsoTime, Object, form, none};

/// An event, with the name of the host that it concerns.
#[derive(Debug)]
pub struct EventLine<'a> {
    /// The event.
    pub view: &'a EventView,
    /// The name of its host; `null` where there is none.
    pub host: Option<String>,
}

/// Events that are not kept any more.
#[derive(Debug, Clone, Copy)]
pub struct LostEvents {
    /// The number of the last event before them.
    pub after: u64,
    /// The number of the first event behind them.
    pub from: u64,
}

form! {
    /// Events that are not kept any more: `event` is `lagged`.
    pub struct LostJson of LostEvents as lost {
        /// Always `lagged`.
        pub event: &'static str = "lagged",
        /// The number of the last event before them.
        pub after: u64 = lost.after,
        /// The number of the first event behind them.
        pub from: u64 = lost.from,
    }
}

/// An event, as `events` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EventJson {
    /// Its number: rises by one from event to event, over restarts of the master too.
    pub seq: u64,
    /// The time of the change.
    pub at: IsoTime,
    /// The kind of change, such as `task-finished`.
    pub event: String,
    /// The job that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
    /// The task that it concerns, as `JOB.NUMBER`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The attempt that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// The name of the host that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The user who submitted the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The new state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The tasks that it concerns, if several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<String>,
    /// The number of tasks that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The result, if that was asked for and there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultJson>,
}

impl Object for EventLine<'_> {
    type Json = EventJson;

    fn json(&self) -> EventJson {
        let event = &self.view.event;
        let mut json = EventJson {
            seq: self.view.seq,
            at: IsoTime(self.view.at),
            event: event.name().to_owned(),
            job: event.job().map(|job| job.0),
            task: event.task().map(|task| task.to_string()),
            attempt: event.attempt().map(|id| id.to_string()),
            host: self.host.clone(),
            user: None,
            state: None,
            tasks: None,
            count: None,
            reason: event.why().map(str::to_owned),
            result: self.view.result.as_deref().map(Object::json),
        };

        match event {
            GridEvent::JobSubmitted { user, tasks, .. } => {
                json.user = Some(user.clone());
                json.count = Some(*tasks);
            }
            GridEvent::JobForgotten { user, .. } => json.user = Some(user.clone()),
            GridEvent::JobSettled { state, .. } => json.state = Some(state.to_string()),
            GridEvent::AttemptEnded { state, .. } => json.state = Some(state.to_string()),
            GridEvent::HostChanged { state, .. } => json.state = Some(state.to_string()),
            GridEvent::TasksCancelled { tasks, .. }
            | GridEvent::TasksReopened { tasks, .. }
            | GridEvent::TasksAdded { tasks, .. } => {
                json.tasks = Some(tasks.to_string());
                json.count = Some(tasks.len());
            }
            _ => {}
        }
        json
    }
}

form! {
    /// A result. Text that is longer than travels with an event, or no UTF-8, is left out.
    pub struct ResultJson of ResultView as view {
        /// The attempt, such as `7.3#1`.
        pub attempt: String = view.output.attempt.to_string(),
        /// Its host's name, such as `desk-3`.
        pub host: String = view.output.host.clone(),
        /// Its standard output.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stdout: Option<String> = text(view, &view.output.stdout.0.content),
        /// Its standard error.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stderr: Option<String> = text(view, &view.output.stderr.0.content),
        /// Its output files.
        pub files: Vec<FileJson> = view
            .output
            .files
            .iter()
            .map(|file| FileJson::of(file, text_of(view, file.blob.hash)))
            .collect(),
        /// The outputs that were not kept, in words.
        #[serde(skip_serializing_if = "none")]
        pub warnings: Vec<String> = view.output.warnings.clone(),
    }
}

/// Returns the text of the content with this hash, if it came with the result and is text.
fn text_of(view: &ResultView, hash: BlobHash) -> Option<String> {
    let (_, bytes) = view.contents.iter().find(|(name, _)| *name == hash)?;
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn text(view: &ResultView, content: &Content) -> Option<String> {
    match content {
        Content::Inline(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        Content::Blob(blob) => text_of(view, blob.hash),
    }
}

/// An output file of a result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileJson {
    /// Its path below the attempt's directory.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// The BLAKE3 hash of its content, in hexadecimal digits: `af1349b9…`.
    pub blake3: String,
    /// Its content, if it is short text that came with an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl FileJson {
    /// Returns the form of an output file, with its content if that came with it.
    pub(crate) fn of(file: &OutputFile, text: Option<String>) -> Self {
        Self {
            path: file.path.to_string(),
            bytes: file.blob.size,
            blake3: file.blob.hash.to_string(),
            text,
        }
    }
}
