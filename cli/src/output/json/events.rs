//! The JSON of events, one document for each.

use common::Content;
use common::content::BlobHash;
use common::event::{EventView, GridEvent, ResultView};
use serde::ser::SerializeMap;

use super::{Fields, Json, Object};
use crate::output::when::iso;

/// An event, with the name of the host that it concerns.
pub(crate) struct EventLine<'a> {
    /// The event.
    pub(crate) view: &'a EventView,
    /// The name of its host.
    pub(crate) host: Option<String>,
}

/// Events that are not kept any more.
pub(crate) struct LostEvents {
    /// The number of the last event before them.
    pub(crate) after: u64,
    /// The number of the first event behind them.
    pub(crate) from: u64,
}

impl Object for LostEvents {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("event", "lagged");
        to.field("after", self.after);
        to.field("from", self.from);
    }
}

impl Object for EventLine<'_> {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        let event = &self.view.event;
        to.field("seq", self.view.seq);
        to.field("at", iso(self.view.at));
        to.field("event", event.name());
        to.some("job", event.job().map(|job| job.0));
        to.some("task", event.task().map(|task| task.to_string()));
        to.some("attempt", event.attempt().map(|id| id.to_string()));
        to.some("host", self.host.as_ref());

        match event {
            GridEvent::JobSubmitted { user, tasks, .. } => {
                to.field("user", user);
                to.field("count", tasks);
            }
            GridEvent::JobForgotten { user, .. } => to.field("user", user),
            GridEvent::JobSettled { state, .. } => to.text("state", state),
            GridEvent::AttemptEnded { state, .. } => to.text("state", state),
            GridEvent::HostChanged { state, .. } => to.text("state", state),
            GridEvent::TasksCancelled { tasks, .. }
            | GridEvent::TasksReopened { tasks, .. }
            | GridEvent::TasksAdded { tasks, .. } => {
                to.text("tasks", tasks);
                to.field("count", tasks.len());
            }
            _ => {}
        }
        to.some("reason", event.why());
        to.some("result", self.view.result.as_deref().map(Json));
    }
}

/// A result. Text that is longer than travels with an event, or no UTF-8, is left out.
impl Object for ResultView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        let output = &self.output;
        to.text("attempt", output.attempt);
        to.field("host", &output.host);
        to.some("stdout", self.text(&output.stdout.0.content));
        to.some("stderr", self.text(&output.stderr.0.content));
        let file = |file: &common::view::FileView| FileLine {
            path: file.path.to_string(),
            bytes: file.blob.size,
            hash: file.blob.hash,
            text: self.blob(file.blob.hash).map(str::to_owned),
        };
        let files: Vec<FileLine> = output.files.iter().map(file).collect();
        to.field("files", super::all(&files));
        to.some(
            "warnings",
            (!output.warnings.is_empty()).then_some(&output.warnings),
        );
    }
}

/// The text of some content, if it is here and is text.
trait Texts {
    fn blob(&self, hash: BlobHash) -> Option<&str>;
    fn text<'a>(&'a self, content: &'a Content) -> Option<&'a str>;
}

impl Texts for ResultView {
    fn blob(&self, hash: BlobHash) -> Option<&str> {
        let (_, bytes) = self.contents.iter().find(|(name, _)| *name == hash)?;
        std::str::from_utf8(bytes).ok()
    }

    fn text<'a>(&'a self, content: &'a Content) -> Option<&'a str> {
        match content {
            Content::Inline(bytes) => std::str::from_utf8(bytes).ok(),
            Content::Blob(blob) => self.blob(blob.hash),
        }
    }
}

/// An output file of a result.
struct FileLine {
    path: String,
    bytes: u64,
    hash: BlobHash,
    text: Option<String>,
}

impl Object for FileLine {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("path", &self.path);
        to.field("bytes", self.bytes);
        to.text("blake3", self.hash);
        to.some("text", self.text.as_ref());
    }
}
