//! `deskgrid job cat`: what tasks wrote, one after the other.

use common::attempt::Stream;
use common::content::Content;
use common::selector::Selector;
use common::view::OutputView;
use serde::Serialize;

use super::Context;
use crate::args::OutputMode;
use crate::args::job::StreamName;
use crate::args::value::OneJob;
use crate::failure::Failure;
use crate::output::note;
use crate::session::Session;

#[derive(Serialize)]
struct Streams {
    job: u32,
    stream: &'static str,
    tasks: Vec<TaskStream>,
}

#[derive(Serialize)]
struct TaskStream {
    task: String,
    attempt: String,
    host: String,
    text: String,
    dropped_bytes: u64,
}

/// Prints one stream of each task, in the order of the tasks.
pub(super) async fn run(
    context: &Context,
    session: &Session,
    job: OneJob,
    stream: StreamName,
    tasks: Selector,
) -> Result<(), Failure> {
    let job = session.job_id(job).await?;
    let mut outputs = session.outputs(job, tasks).await?;
    outputs.sort_by_key(|output| output.attempt.task);
    if outputs.is_empty() {
        note(&format!("no task of job {job} has left anything yet; deskgrid task list {job} shows how far they are"));
    }
    let mut all = Vec::new();
    for output in &outputs {
        let (bytes, dropped_bytes) = written(session, output, stream).await?;
        match context.out.mode() {
            OutputMode::Json => all.push(TaskStream {
                task: output.attempt.task.to_string(),
                attempt: output.attempt.to_string(),
                host: output.host.clone(),
                text: String::from_utf8_lossy(&bytes).into_owned(),
                dropped_bytes,
            }),
            OutputMode::Cli | OutputMode::Quiet => context.out.bytes(&bytes)?,
        }
    }
    if context.out.mode() == OutputMode::Json {
        let stream = if stream == StreamName::Stdout { "stdout" } else { "stderr" };
        context.out.show(&Streams { job: job.0, stream, tasks: all }, String::new, Vec::new)?;
    }
    Ok(())
}

/// What a task wrote, and how much more was dropped.
async fn written(session: &Session, output: &OutputView, stream: StreamName) -> Result<(Vec<u8>, u64), Failure> {
    let captured = choose(output, stream);
    note_removed(output);
    let bytes = content(session, &captured.content).await?;
    if captured.dropped > 0 {
        note(&format!("{}: {} more bytes were dropped at the limit", output.attempt.task, captured.dropped));
    }
    Ok((bytes, captured.dropped))
}

/// Says so where what a task left is there no more.
pub(super) fn note_removed(output: &OutputView) {
    if output.removed {
        let task = output.attempt.task;
        note(&format!(
            "{task}: what it left was removed, since nobody had requested it; deskgrid request {task} runs it again"
        ));
    }
}

/// Prints one stream of one task.
pub(super) async fn print_stream(
    context: &Context,
    session: &Session,
    output: &OutputView,
    stream: StreamName,
) -> Result<(), Failure> {
    let (bytes, _) = written(session, output, stream).await?;
    context.out.bytes(&bytes)
}

fn choose(output: &OutputView, stream: StreamName) -> &Stream {
    match stream {
        StreamName::Stdout => &output.stdout.0,
        StreamName::Stderr => &output.stderr.0,
    }
}

async fn content(session: &Session, content: &Content) -> Result<Vec<u8>, Failure> {
    let blob = match content {
        Content::Inline(bytes) => return Ok(bytes.clone()),
        Content::Blob(blob) => *blob,
    };
    let dir = tempfile::tempdir().map_err(|e| Failure::io("cannot make a temporary directory", &e))?;
    let path = dir.path().join("stream");
    session.client().fetch(blob, &path).await?;
    std::fs::read(&path).map_err(|e| Failure::io(format!("cannot read {}", path.display()), &e))
}
