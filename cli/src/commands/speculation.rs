//! `deskgrid request`. What is not here: how jobs are disclosed (`submit`), and the ledger (`account`).

use common::selector::Selector;
use common::view::{TaskState, TaskView};
use common::wire::client::{Reply, Request};
use common::{IdSet, JobId};
use link::client::unexpected;
use serde::Serialize;

use super::Context;
use super::cat::print_stream;
use super::job::counted;
use crate::args::OutputMode;
use crate::args::job::StreamName;
use crate::args::speculation::RequestArgs;
use crate::failure::{Exit, Failure};
use crate::output::{json, note};
use crate::session::Session;

/// What was requested, and where it was waited for what came.
#[derive(Serialize)]
struct Requested {
    job: u32,
    requested: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<Vec<json::Task>>,
}

/// Somebody waits for tasks from now on.
pub(super) async fn request(context: &Context, args: RequestArgs) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let job = session.job_id(args.what.job).await?;
    let tasks = args.what.tasks;
    let changed = session.changed(&Request::RequestTasks { job, tasks: tasks.clone() }).await?;
    let count = changed.first().map_or(0, |(_, count)| *count);
    let quiet = || vec![job.to_string()];
    let said = || format!("job {job}: {} requested\n", counted(count));
    if !args.wait {
        context.out.show(&Requested { job: job.0, requested: count, tasks: None }, said, quiet)?;
        session.close().await;
        return Ok(Exit::Well);
    }
    if context.out.mode() == OutputMode::Cli {
        note(said().trim_end());
    }
    let views = results(context, &session, job, tasks).await?;
    let well = views.iter().all(|view| view.state == TaskState::Finished);
    if context.out.mode() != OutputMode::Cli {
        let tasks = Some(views.iter().map(json::Task::from).collect());
        let ids = || views.iter().map(|view| view.task.to_string()).collect();
        context.out.show(&Requested { job: job.0, requested: count, tasks }, String::new, ids)?;
    }
    session.close().await;
    Ok(if well { Exit::Well } else { Exit::TasksFailed })
}

/// Waits until all these tasks are settled, and prints what each has written once it is.
async fn results(context: &Context, session: &Session, job: JobId, tasks: Selector) -> Result<Vec<TaskView>, Failure> {
    let mut left: IdSet = session.tasks(job, tasks, Vec::new()).await?.iter().map(|view| view.task.index).collect();
    let one = Selector::Ids(IdSet::from_range(job.0, job.0));
    let mut changes = session.client().stream(&Request::Watch { jobs: one, quiet: false, timeout: None }).await?;
    let settled = [TaskState::Finished, TaskState::Failed, TaskState::Cancelled];
    let mut all = Vec::new();
    while let Some(reply) = changes.next().await? {
        let Reply::Jobs(_) = reply else { return Err(unexpected(Some(&reply)).into()) };
        let come = session.tasks(job, Selector::Ids(left.clone()), settled.to_vec()).await?;
        for view in come {
            left.remove(view.task.index);
            show(context, session, &view).await?;
            all.push(view);
        }
        if left.is_empty() {
            break;
        }
    }
    all.sort_by_key(|view| view.task);
    Ok(all)
}

async fn show(context: &Context, session: &Session, view: &TaskView) -> Result<(), Failure> {
    if context.out.mode() != OutputMode::Cli {
        return Ok(());
    }
    let waited = view.speculation.and_then(|speculation| speculation.visible_response());
    let waited = waited.map_or_else(String::new, |span| format!(", {span} after the request"));
    note(&format!("task {} is {}{waited}", view.task, view.state));
    let task = IdSet::from_range(view.task.index, view.task.index);
    for output in session.outputs(view.task.job, Selector::Ids(task)).await? {
        print_stream(context, session, &output, StreamName::Stdout).await?;
    }
    Ok(())
}
