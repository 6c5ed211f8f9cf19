//! Executes `deskgrid submit --into`: adds tasks to an open job.

use common::text::plural;
use common::wire::client::{Addition, Request};
use common::{JobId, NewTasks, RequestId};

use super::Context;
use super::submit::new_request;
use crate::args::SubmitArgs;
use crate::args::value::OneJob;
use crate::failure::{Exit, Failure};
use crate::output::json::AddJson;
use crate::session::Session;
use crate::submit::{new_tasks, send};

/// Adds the tasks that the options name to a job.
pub(super) async fn run(
    context: &Context,
    args: &SubmitArgs,
    into: OneJob,
) -> Result<Exit, Failure> {
    let tasks = new_tasks(&args.job)?;
    let session = Session::open(&context.state).await?;
    let id = args.request_id.unwrap_or_else(new_request);

    let job = session.job_id(into).await?;
    let added = add(&session, id, job, tasks, args.dry_run).await;
    let answer = added.map_err(|failure| {
        failure.of_request(id, "if the tasks were added, they are not added twice")
    })?;
    let AddJson {
        first, last, tasks, ..
    } = answer;
    let added = plural(answer.added, "task");
    let which = match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    };
    let done = match (answer.dry_run, answer.again) {
        (true, _) => "would be added",
        (_, true) => "added (they were added before)",
        _ => "added",
    };

    let text = || format!("job {job}: {added} {done}, numbered {which}; it has {tasks}\n");
    context
        .show(&answer, text, || vec![job.to_string()])
        .map_err(|failure| match answer.dry_run {
            true => failure,
            false => untold(failure, job),
        })
}

/// Adds to the failure of printing the answer that the tasks are there: a script would add them again.
fn untold(failure: Failure, job: JobId) -> Failure {
    Failure {
        what: format!("the tasks were added to job {job}, but: {}", failure.what),
        hint: format!("do not add them again: deskgrid task list {job} shows them"),
        ..failure
    }
}

async fn add(
    session: &Session,
    id: RequestId,
    job: JobId,
    tasks: NewTasks,
    dry_run: bool,
) -> Result<AddJson, Failure> {
    let tasks = match send::content(session.client(), &tasks).await? {
        Some(blob) => Addition::Blob(blob),
        None => Addition::Inline(tasks),
    };
    let request = Request::AddTasks {
        id,
        job,
        tasks,
        dry_run,
    };

    let reply = session.one(&request).await?;
    AddJson::of(reply, dry_run).map_err(|other| link::client::unexpected(Some(&other)).into())
}
