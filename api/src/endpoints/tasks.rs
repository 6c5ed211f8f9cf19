//! Tasks of a job: lists, one task, and what it wrote and left.

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use common::attempt::StreamKind;
use common::selector::Selector;
use common::view::{OutputView, TaskState};
use common::wire::client::{Reply, Request, TailFrom, TailNews};
use common::wire::{Refusal, RefusalCode};
use common::{AttemptId, BlobRef, Content, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::list::{Commas, ListPage, PageLimit};
use crate::answer::{JsonAnswer, JsonDocument, PieceFlow, Raw};
use crate::call::Call;
use crate::content::send;
use crate::cursor::PageStart;
use crate::json::{FileJson, Object, TaskJson};
use crate::problem::Problem;
use crate::table::{NoBody, NoQuery, Table};

pub(super) fn add(table: &mut Table) {
    table
        .get("/jobs/{job}/tasks", "listTasks")
        .about("Lists the tasks of a job.")
        .serve(list);
    table
        .get("/jobs/{job}/tasks/{task}", "task")
        .about("Shows a task with its attempts.")
        .serve(info);
    table
        .get("/jobs/{job}/tasks/{task}/stdout", "stdout")
        .about("Sends what a task wrote to its standard output.")
        .serve(|call, query, body| written(call, query, body, StreamKind::Stdout));
    table
        .get("/jobs/{job}/tasks/{task}/stderr", "stderr")
        .about("Sends what a task wrote to its standard error.")
        .serve(|call, query, body| written(call, query, body, StreamKind::Stderr));
    table
        .get("/jobs/{job}/tasks/{task}/files", "listFiles")
        .about("Lists the files that a task left.")
        .serve(files);

    table
        .get("/jobs/{job}/tasks/{task}/files/{*path}", "file")
        .about("Sends a file that a task left.")
        .serve(file);
}

/// The tasks that are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TasksQuery {
    /// Only tasks in these states, with commas between them.
    #[serde(default)]
    state: Commas<TaskState>,
    /// The most tasks of the page: `100` if nothing is said.
    #[serde(default)]
    limit: PageLimit,
    /// The `next` of the page before.
    after: Option<PageStart>,
}

/// A page of tasks.
#[derive(Debug, Serialize, JsonSchema)]
struct TasksPage {
    /// The tasks, by number.
    tasks: Vec<TaskJson>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

async fn list(call: Call, query: TasksQuery, _: NoBody) -> JsonAnswer<TasksPage> {
    let after = query.after.as_ref().map(PageStart::after).transpose()?;
    let request = Request::Tasks {
        job: call.job().await?,
        tasks: after.map_or(Selector::All, Selector::Beyond),
        states: query.state.0,
    };

    let mut replies = call.grid.ask(request);
    let mut page = ListPage::new(query.limit);
    while !page.more
        && let Some(reply) = replies.recv().await
    {
        let Reply::Tasks(views) = reply? else {
            return Err(Problem::unexpected());
        };
        page.extend(views.iter().map(|view| (view.task.index, view.json())));
    }

    let next = page.next();
    let tasks = page.entries;
    Ok(JsonDocument(TasksPage { tasks, next }))
}

async fn info(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<TaskJson> {
    Ok(JsonDocument(call.this_task().await?.json()))
}

/// The part of a task's output that is sent, and whether it is followed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenQuery {
    /// Whether to go on with what a running task writes (`1`), until it is settled.
    #[serde(default)]
    follow: Follow,
    /// The place at which to begin with that.
    #[serde(default)]
    from: Beginning,
}

/// Whether a running task is followed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
enum Follow {
    /// Only what is stored.
    #[default]
    #[serde(rename = "0")]
    No,
    /// The output of a running task as well.
    #[serde(rename = "1")]
    Yes,
}

/// The place at which one begins to follow a running task.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Beginning {
    /// The beginning.
    #[default]
    Start,
    /// The newest bytes, at most 64 KiB.
    Newest,
}

async fn written(
    call: Call,
    query: WrittenQuery,
    _: NoBody,
    stream: StreamKind,
) -> Result<Raw, Problem> {
    let task = call.this_task().await?;
    let word = match stream {
        StreamKind::Stdout => "stdout",
        StreamKind::Stderr => "stderr",
    };
    let name = format!("{}.{word}.txt", task.task);
    let settled = matches!(
        task.state,
        TaskState::Finished | TaskState::Failed | TaskState::Cancelled
    );
    if query.follow == Follow::Yes && !settled {
        return Ok(follow(call, task.task, stream, (query.from, name)));
    }

    match call.grid.output(task.task).await? {
        Some(output) if output.removed => Err(removed(task.task)),
        Some(output) => send(&call, captured(&output, stream), (name, true)).await,
        None => {
            let title = format!("{} has left nothing yet: it is {}", task.task, task.state);
            let hint = "with ?follow=1 you see what it writes while it runs";
            Err(Problem::not_found(title, hint))
        }
    }
}

fn captured(output: &OutputView, stream: StreamKind) -> &Content {
    match stream {
        StreamKind::Stdout => &output.stdout.0.content,
        StreamKind::Stderr => &output.stderr.0.content,
    }
}

fn removed(task: TaskId) -> Problem {
    Problem::new(
        StatusCode::GONE,
        "removed",
        format!("{task}: what it left was removed, since nobody had requested it"),
        "request the task, and it runs again",
    )
}

/// Shows what a running task writes until it is settled, and then the rest of its result.
fn follow(call: Call, task: TaskId, stream: StreamKind, (from, name): (Beginning, String)) -> Raw {
    let (tx, rx) = mpsc::channel(4);
    let shown = Shown {
        task,
        stream,
        from: match from {
            Beginning::Start => TailFrom::Start,
            Beginning::Newest => TailFrom::Newest,
        },
        begun: None,
        tx,
    };
    tokio::spawn(async move {
        let gone = shown.tx.clone();
        tokio::select! {
            () = shown.run(&call) => {}
            () = gone.closed() => {}
        }
    });

    Raw {
        name,
        body: Body::new(PieceFlow(rx)),
        size: None,
        part: None,
        text: true,
    }
}

/// The output of a running task on its way to one reader.
struct Shown {
    task: TaskId,
    stream: StreamKind,
    from: TailFrom,
    /// The attempt that is shown, and its next byte.
    begun: Option<(AttemptId, u64)>,
    tx: mpsc::Sender<Result<Bytes, Refusal>>,
}

impl Shown {
    async fn run(mut self, call: &Call) {
        let mut replies = call.grid.ask(Request::Tail {
            task: self.task,
            stream: self.stream,
            from: self.from,
        });

        while let Some(reply) = replies.recv().await {
            let sent = match reply {
                Ok(Reply::Tail(TailNews::Begins { attempt, host })) => {
                    self.begins(attempt, &host).await
                }
                Ok(Reply::Tail(TailNews::Part(part))) => {
                    let next = part.offset.saturating_add(part.bytes.len() as u64);
                    if let Some((_, at)) = &mut self.begun {
                        *at = next;
                    }
                    self.send(part.bytes).await
                }
                Ok(Reply::Tail(TailNews::Waits(_))) => true,
                Ok(Reply::Tail(TailNews::Settled)) => return self.rest(call).await,
                Ok(_) => return self.break_off(Problem::unexpected()).await,
                Err(refusal) => return self.break_off(refusal.into()).await,
            };
            if !sent {
                return;
            }
        }

        let what = "the answer ended before the task was settled";
        let refusal = Refusal::new(RefusalCode::Unavailable, what, "ask again");
        self.break_off(refusal.into()).await;
    }

    /// Ends the answer so that its reader learns that something is missing: it breaks off.
    async fn break_off(&self, why: Problem) {
        let refusal = Refusal::new(RefusalCode::Unavailable, why.title, why.hint);
        let _ = self.tx.send(Err(refusal)).await;
    }

    /// Returns whether there is still somebody to send to.
    async fn send(&self, bytes: Vec<u8>) -> bool {
        self.tx.send(Ok(bytes.into())).await.is_ok()
    }

    /// Another attempt is shown from its beginning, below a line that says so.
    async fn begins(&mut self, attempt: AttemptId, host: &str) -> bool {
        let before = self.begun.replace((attempt, 0));
        match before {
            Some((before, _)) if before != attempt => {
                let line = format!("\n--- {before} is over; {attempt} on {host} begins ---\n");
                self.send(line.into_bytes()).await
            }
            _ => true,
        }
    }

    /// Sends what the result has beyond what was shown.
    async fn rest(&mut self, call: &Call) {
        let output = match call.grid.output(self.task).await {
            Ok(Some(output)) if output.removed => return self.break_off(removed(self.task)).await,
            Ok(Some(output)) => output,
            // It was cancelled, and left nothing.
            Ok(None) => return,
            Err(problem) => return self.break_off(problem).await,
        };
        let same = self
            .begun
            .is_some_and(|(attempt, _)| attempt == output.attempt);
        if !same && !self.begins(output.attempt, &output.host).await {
            return;
        }

        let shown = self.begun.map_or(0, |(_, next)| next);
        match captured(&output, self.stream) {
            Content::Inline(bytes) => {
                let skip = usize::try_from(shown).unwrap_or(usize::MAX);
                if let Some(rest) = bytes.get(skip..).filter(|rest| !rest.is_empty()) {
                    self.send(rest.to_vec()).await;
                }
            }
            Content::Blob(blob) if shown < blob.size => self.send_from(call, blob, shown).await,
            Content::Blob(_) => {}
        }
    }

    /// Sends kept content from this byte on.
    async fn send_from(&self, call: &Call, blob: &BlobRef, from: u64) {
        match call.grid.door.get(&call.grid.who, blob.hash, from).await {
            Ok(mut found) => {
                while let Some(piece) = found.pieces.recv().await {
                    let broken = piece.is_err();
                    if self.tx.send(piece).await.is_err() || broken {
                        return;
                    }
                }
            }
            Err(refusal) => self.break_off(refusal.into()).await,
        }
    }
}

/// The files that a task left.
#[derive(Debug, Serialize, JsonSchema)]
struct FilesJson {
    /// The task, such as `7.3`.
    task: String,
    /// The attempt that left them.
    attempt: String,
    /// Its host's name, such as `desk-3`.
    host: String,
    /// The files.
    files: Vec<FileJson>,
    /// The outputs that were not kept, in words.
    warnings: Vec<String>,
}

/// The files that a task has left.
async fn left(call: &Call) -> Result<OutputView, Problem> {
    let task = call.this_task().await?;
    match call.grid.output(task.task).await? {
        Some(output) if output.removed => Err(removed(task.task)),
        Some(output) => Ok(output),
        None => {
            let title = format!("{} has left nothing yet: it is {}", task.task, task.state);
            Err(Problem::not_found(title, "wait until it is settled"))
        }
    }
}

async fn files(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<FilesJson> {
    let output = left(&call).await?;
    let files = output.files.iter().map(|file| FileJson::of(file, None));
    Ok(JsonDocument(FilesJson {
        task: output.attempt.task.to_string(),
        attempt: output.attempt.to_string(),
        host: output.host.clone(),
        files: files.collect(),
        warnings: output.warnings.clone(),
    }))
}

async fn file(call: Call, _: NoQuery, _: NoBody) -> Result<Raw, Problem> {
    let output = left(&call).await?;
    let path = call.param("path");
    let found = output.files.iter().find(|file| file.path.as_str() == path);
    let Some(file) = found else {
        let title = format!("{} left no such file", output.attempt.task);
        return Err(Problem::not_found(title, "its files are listed at …/files"));
    };
    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
    send(&call, &Content::Blob(file.blob), (name, false)).await
}

#[cfg(test)]
mod tests;
