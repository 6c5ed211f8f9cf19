//! `deskgrid task`.

use common::IdSet;
use common::TaskId;
use common::selector::Selector;
use common::view::{AttemptView, TaskState, TaskView};

use super::Context;
use crate::args::TaskCommand;
use crate::args::value::OneJob;
use crate::failure::{Exit, Failure};
use crate::output::table::{Rows, facts};
use crate::output::{json, when};
use crate::session::Session;

/// Does what was asked for.
pub(super) async fn run(context: &Context, command: TaskCommand) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    match command {
        TaskCommand::List { job, tasks, state } => list(context, &session, job, tasks, state).await?,
        TaskCommand::Info { task } => info(context, &session, task).await?,
    }
    session.close().await;
    Ok(Exit::Well)
}

async fn list(
    context: &Context,
    session: &Session,
    job: OneJob,
    tasks: Selector,
    states: Vec<TaskState>,
) -> Result<(), Failure> {
    let job = session.job_id(job).await?;
    let tasks = session.tasks(job, tasks, states).await?;
    let text = || {
        let headings = ["TASK", "STATE", "ATTEMPTS", "HOST", "RUN", "EXIT", "ITEM", "WHY"];
        let mut rows = Rows::new(&headings, context.out.color());
        tasks.iter().for_each(|task| rows.add(row(task)));
        rows.text("no such tasks")
    };
    let ids = || tasks.iter().map(|task| task.task.to_string()).collect();
    context.out.show(&json::Tasks::from(&tasks[..]), text, ids)
}

fn row(task: &TaskView) -> [String; 8] {
    let last = task.attempts.last();
    let of_last = |what: fn(&AttemptView) -> Option<String>| last.and_then(what).unwrap_or_default();
    let why = task.reason.clone().or_else(|| last.filter(|_| task.state != TaskState::Finished)?.reason.clone());
    [
        task.task.to_string(),
        task.state.to_string(),
        task.attempts.len().to_string(),
        of_last(|attempt| Some(attempt.host.clone())),
        of_last(|attempt| attempt.started.map(|_| attempt.ran.to_string())),
        of_last(|attempt| attempt.exit_code.map(|code| code.to_string())),
        task.item.clone().unwrap_or_default(),
        why.unwrap_or_default(),
    ]
}

async fn info(context: &Context, session: &Session, task: TaskId) -> Result<(), Failure> {
    let only = Selector::Ids(IdSet::from_range(task.index, task.index));
    let view = session.tasks(task.job, only, Vec::new()).await?.pop().ok_or_else(|| {
        let hint = format!("deskgrid task list {} shows the tasks that there are", task.job);
        Failure::new(Exit::Error, "not-found", format!("there is no task {task}"), hint)
    })?;
    let color = context.out.color();
    context.out.show(&json::Task::from(&view), || describe(&view, color), || vec![task.to_string()])
}

fn describe(task: &TaskView, color: bool) -> String {
    let head = facts(&[
        ("task", Some(task.task.to_string())),
        ("item", task.item.clone()),
        ("state", Some(task.state.to_string())),
        ("why", task.reason.clone()),
    ]);
    let headings = ["ATTEMPT", "HOST", "STATE", "ASSIGNED", "RUN", "CPU", "SUSPENDED", "EXIT", "WHY"];
    let mut rows = Rows::new(&headings, color);
    let now = when::now();
    for attempt in &task.attempts {
        rows.add([
            attempt.attempt.to_string(),
            attempt.host.clone(),
            attempt.state.to_string(),
            when::relative(attempt.assigned, now),
            attempt.ran.to_string(),
            attempt.cpu.to_string(),
            attempt.suspended.to_string(),
            attempt.exit_code.map(|code| code.to_string()).unwrap_or_default(),
            attempt.reason.clone().unwrap_or_default(),
        ]);
    }
    format!("{head}\n{}", rows.text("it has had no attempt yet"))
}
