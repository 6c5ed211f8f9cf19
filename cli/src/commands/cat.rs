//! Executes `deskgrid job cat`: prints the standard output or standard error of tasks, one after
//! the other.

use common::attempt::{Stream, StreamKind};
use common::content::Content;
use common::selector::Selector;
use common::text::ShownOutput;
use common::units::Bytes;
use common::view::{JobState, OutputView, TaskState};
use common::{IdSet, JobId, TaskId};
use link::LinkError;
use serde::Serialize;

use super::Context;
use super::unconfirmed::UnconfirmedResults;
use crate::args::OutputMode;
use crate::args::job::CatArgs;
use crate::args::value::OneJob;
use crate::failure::{Exit, Failure};
use crate::output::{PagePlace, note};
use crate::session::{Session, enter_again};

#[derive(Serialize)]
struct Streams {
    job: u32,
    stream: &'static str,
    /// The last field: it comes page by page.
    tasks: Vec<TaskStream>,
}

#[derive(Serialize)]
struct TaskStream {
    task: String,
    attempt: String,
    host: String,
    text: String,
    dropped_bytes: u64,
    /// Whether it is one of several results, which have not agreed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unconfirmed: bool,
}

/// Prints one stream of each task, in the order of the tasks.
pub(super) async fn run(
    context: &Context,
    session: &Session,
    args: CatArgs,
) -> Result<Exit, Failure> {
    let CatArgs {
        job,
        stream,
        tasks,
        follow,
    } = args;
    let stream = StreamKind::from(stream);
    if follow {
        return super::tail::each(context, session, job, stream, tasks).await;
    }

    let job = session.job_id(job).await?;
    session.note_beyond(job, &tasks).await?;
    // Before the outputs: what is confirmed after this look may be shown, but is not promised.
    let unconfirmed = UnconfirmedResults::of(session, job, &tasks).await?;
    let mut shown = ShownStreams {
        context,
        session: session.clone(),
        job,
        stream,
        unconfirmed,
    };
    let again = || Box::pin(enter_again(&context.state));
    let mut pages = session.output_pages(job, tasks);
    let mut page = pages.next().await?;
    if page.is_empty() {
        let view = session.job(OneJob::Id(job)).await?;
        note(&nothing_of(job, view.state));
    }

    let mut first = true;
    loop {
        let next = pages.next_over(again()).await?;
        let last = next.is_empty();
        shown.page(page, PagePlace { first, last }).await?;
        if last {
            return Ok(Exit::Well);
        }
        page = next;
        first = false;
    }
}

/// The streams that are printed, page by page: of many tasks, they are more than what should be in memory. While the
/// reader of what is printed stands still, a connection may be lost: then another one is made.
struct ShownStreams<'a> {
    context: &'a Context,
    session: Session,
    job: JobId,
    stream: StreamKind,
    unconfirmed: UnconfirmedResults,
}

impl ShownStreams<'_> {
    /// Prints a page.
    async fn page(&mut self, mut outputs: Vec<OutputView>, at: PagePlace) -> Result<(), Failure> {
        let out = self.context.out;
        outputs.sort_by_key(|output| output.attempt.task);
        if let Err(failure) = note_removed(&self.session, &outputs).await {
            self.connect_after(failure).await?;
            note_removed(&self.session, &outputs).await?;
        }
        let shown = outputs.iter().map(|output| output.attempt.task.index);
        for line in self.unconfirmed.notes(self.job, &shown.collect()) {
            note(&line);
        }

        let mut all = Vec::new();
        for output in &outputs {
            let mut read = written(&self.session, output, self.stream).await;
            if let Err(failure) = read {
                self.connect_after(failure).await?;
                read = written(&self.session, output, self.stream).await;
            }
            let (bytes, dropped_bytes) = read?;
            match out.mode() {
                OutputMode::Json => all.push(TaskStream {
                    task: output.attempt.task.to_string(),
                    attempt: output.attempt.to_string(),
                    host: output.host.clone(),
                    text: String::from_utf8_lossy(&bytes).into_owned(),
                    dropped_bytes,
                    unconfirmed: self.unconfirmed.contains(output.attempt.task),
                }),
                OutputMode::Cli | OutputMode::Quiet => {
                    out.of_task(&mut ShownOutput::default(), &bytes)?;
                }
            }
        }
        if out.mode() != OutputMode::Json {
            return Ok(());
        }

        let streams = Streams {
            job: self.job.0,
            stream: name_of(self.stream),
            tasks: all,
        };
        out.show_page(&streams, String::new, Vec::new, at)
    }

    /// Connects again after a failure, unless it is one that another connection does not mend.
    async fn connect_after(&mut self, failure: Failure) -> Result<(), Failure> {
        if !failure.is_away() {
            return Err(failure);
        }
        let client = Box::pin(enter_again(&self.context.state)).await?;
        self.session = self.session.over(client);
        Ok(())
    }
}

/// Says that no task of a job has left anything.
fn nothing_of(job: JobId, state: JobState) -> String {
    if state.settled() {
        return format!(
            "no task of job {job} has left anything, and none runs any more; deskgrid task list {job} shows how they ended"
        );
    }
    format!(
        "no task of job {job} has left anything yet: with --follow this shows what running tasks print; deskgrid task list {job} shows how \
         far they are"
    )
}

/// Returns the stream of a task, and the number of further bytes that were dropped.
pub(super) async fn written(
    session: &Session,
    output: &OutputView,
    stream: StreamKind,
) -> Result<(Vec<u8>, u64), Failure> {
    let captured = captured(output, stream);
    let bytes = content(session, &captured.content).await?;
    if captured.dropped > 0 {
        note(&format!(
            "{}: {} more were dropped at the limit",
            output.attempt.task,
            Bytes(captured.dropped)
        ));
    }

    Ok((bytes, captured.dropped))
}

/// Names the tasks whose outputs were removed, and how to run them again.
pub(super) async fn note_removed(session: &Session, outputs: &[OutputView]) -> Result<(), Failure> {
    let removed: Vec<TaskId> = outputs
        .iter()
        .filter(|output| output.removed)
        .map(|output| output.attempt.task)
        .collect();
    let Some(TaskId { job, .. }) = removed.first().copied() else {
        return Ok(());
    };
    let tasks: IdSet = removed.iter().map(|task| task.index).collect();
    for view in session.tasks(job, Selector::Ids(tasks), Vec::new()).await? {
        note(&removed_in_words(view.task, view.state));
    }

    Ok(())
}

/// Says that the outputs of a task were removed, and how to run it again.
pub(super) fn removed_in_words(task: TaskId, state: TaskState) -> String {
    let again = match state {
        TaskState::Finished => format!("deskgrid request {task} runs it again"),
        TaskState::Failed | TaskState::Cancelled => {
            format!(
                "deskgrid job retry {} --tasks {} runs it again",
                task.job, task.index
            )
        }
        _ => "it is to run again".to_owned(),
    };
    format!("{task}: what it left was removed, since nobody had requested it; {again}")
}

/// Returns what an attempt wrote to this stream.
pub(super) fn captured(output: &OutputView, stream: StreamKind) -> &Stream {
    match stream {
        StreamKind::Stdout => &output.stdout.0,
        StreamKind::Stderr => &output.stderr.0,
    }
}

/// Returns the name of a stream.
pub(super) fn name_of(stream: StreamKind) -> &'static str {
    match stream {
        StreamKind::Stdout => "stdout",
        StreamKind::Stderr => "stderr",
    }
}

async fn content(session: &Session, content: &Content) -> Result<Vec<u8>, Failure> {
    let blob = match content {
        Content::Inline(bytes) => return Ok(bytes.clone()),
        Content::Blob(blob) => *blob,
    };

    // Without a file, which an interruption would leave behind.
    let mut reader = session.client().content(blob.hash, 0).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await? {
        bytes.extend(piece);
        if bytes.len() as u64 > blob.size {
            break;
        }
    }

    // A lost connection is an error above; fewer bytes mean that the master's file is short.
    let found = link::content::hash_bytes(&bytes);
    if found != blob {
        return Err(Failure::from(LinkError::Damaged {
            expected: blob.hash.to_string(),
            found: found.hash.to_string(),
        }));
    }
    Ok(bytes)
}
