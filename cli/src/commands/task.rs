//! Executes `deskgrid task`.

use common::checkpoint::Saved;
use common::selector::Selector;
use common::text::plural;
use common::text::printable;
use common::units::Bytes;
use common::view::{AttemptState, AttemptView, TaskState, TaskView};
use common::{IdSet, TaskId, Time};

use super::Context;
use super::work::{expanded, missing_program, on_missing_program, values_of};
use crate::args::value::{OneJob, OneTask};
use crate::args::{OutputMode, TaskCommand};
use crate::failure::{Exit, Failure};
use crate::output::PagePlace;
use crate::output::json::{Json, List};
use crate::output::table::{Rows, bounded, facts};
use crate::output::when;
use crate::session::{Session, TaskPages, enter_again};

/// Executes one verb of `deskgrid task`.
pub(super) async fn run(context: &Context, command: TaskCommand) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    match command {
        TaskCommand::List { job, tasks, state } => list(context, &session, job, tasks, state).await,
        TaskCommand::Info { task } => info(context, &session, task).await,
        TaskCommand::Tail { task, stderr } => {
            super::tail::newest(context, &session, task, stderr).await
        }
    }
}

async fn list(
    context: &Context,
    session: &Session,
    job: OneJob,
    tasks: Selector,
    states: Vec<TaskState>,
) -> Result<Exit, Failure> {
    let job = session.job_id(job).await?;
    session.note_beyond(job, &tasks).await?;
    let pages = session.task_pages(job, tasks, states);
    show(context, pages).await
}

/// Prints tasks page by page.
pub(super) async fn show(context: &Context, mut pages: TaskPages) -> Result<Exit, Failure> {
    let again = || Box::pin(enter_again(&context.state));
    let mut page = pages.next_over(again()).await?;
    let mut table = TaskTable::new(&page, context.out.color());
    let mut first = true;

    loop {
        let next = pages.next_over(again()).await?;
        let last = next.is_empty();
        let ids = || page.iter().map(|task| task.task.to_string()).collect();
        context.out.show_page(
            &List("tasks", &page),
            || table.page(&page),
            ids,
            PagePlace { first, last },
        )?;
        if last {
            return Ok(Exit::Well);
        }
        page = next;
        first = false;
    }
}

/// The table of a list of tasks, made page by page.
struct TaskTable {
    rows: Rows,
    /// Whether the column is shown that says which tasks are requested.
    disclosed: bool,
}

impl TaskTable {
    /// Makes the table for a list that begins with these tasks.
    fn new(tasks: &[TaskView], color: bool) -> Self {
        Self {
            rows: Rows::new(&[], color),
            disclosed: tasks.iter().any(|task| task.speculation.is_some()),
        }
    }

    fn page(&mut self, tasks: &[TaskView]) -> String {
        if tasks.is_empty() {
            return "no such tasks".to_owned();
        }

        let disclosed = self.disclosed;
        let shown = |(heading, _): &(&str, String)| disclosed || *heading != "REQUESTED";
        let rows = tasks.iter().map(|task| row(task).into_iter().filter(shown));
        self.rows.add_all(rows);
        self.rows.page()
    }
}

fn row(task: &TaskView) -> [(&'static str, String); 9] {
    let main = task.main_attempt();
    let of_main =
        |what: fn(&AttemptView) -> Option<String>| main.and_then(what).unwrap_or_default();

    let why = task.reason.clone().or_else(|| {
        main.filter(|_| task.state != TaskState::Finished)?
            .reason
            .clone()
    });
    let exit = of_main(|attempt| attempt.exit_code.map(|code| code.to_string()));
    let requested = task.speculation.is_none_or(|life| life.requested.is_some());

    [
        ("TASK", task.task.to_string()),
        ("STATE", task.state.to_string()),
        ("REQUESTED", if requested { "yes" } else { "no" }.to_owned()),
        ("ATTEMPTS", task.attempts.len().to_string()),
        ("HOST", of_main(|attempt| Some(attempt.host.clone()))),
        ("RUN", of_main(AttemptView::run_in_words)),
        ("EXIT", exit),
        ("ITEM", bounded(task.item.as_deref().unwrap_or_default())),
        ("WHY", why.unwrap_or_default()),
    ]
}

async fn info(context: &Context, session: &Session, task: OneTask) -> Result<Exit, Failure> {
    let task = TaskId::new(session.job_id(task.job).await?, task.index);
    let only = Selector::Ids(IdSet::from_range(task.index, task.index));
    let view = session
        .tasks(task.job, only, Vec::new())
        .await?
        .pop()
        .ok_or_else(|| {
            let hint = format!(
                "deskgrid task list {} shows the tasks that there are",
                task.job
            );
            Failure::error("not-found", format!("there is no task {task}"), hint)
        })?;

    let failed = |attempt: &&AttemptView| attempt.state == AttemptState::Failed;
    let failed = view.attempts.iter().rfind(failed);
    let hint = match failed.filter(|_| context.out.mode() == OutputMode::Cli) {
        Some(attempt) => on_missing_program_of(session, &view, attempt).await,
        None => None,
    };
    let hint = hint.map_or_else(String::new, |hint| format!("hint: {hint}\n"));

    let color = context.out.color();
    context.show(
        &Json(&view),
        || describe(&view, color) + &hint,
        || vec![task.to_string()],
    )
}

/// Says more of an attempt whose program was missing; `None` of any other, and if the master does not tell more.
async fn on_missing_program_of(
    session: &Session,
    task: &TaskView,
    attempt: &AttemptView,
) -> Option<String> {
    let end = attempt.reason.as_deref()?;
    missing_program(end)?;
    let work = session.work(task.task.job).await.ok()??;
    let values = values_of(task, attempt);
    on_missing_program(end, &work, |name| expanded(name, &values))
}

pub(super) fn describe(task: &TaskView, color: bool) -> String {
    let now = when::now();
    let at = |time: Option<Time>| time.map(|time| when::relative(time, now));
    let life = task.speculation;
    let waited = life.and_then(|life| life.visible_response());
    let head = facts(&[
        ("task", Some(task.task.to_string())),
        ("item", task.item.clone()),
        ("state", Some(task.state.to_string())),
        ("why", task.reason.clone()),
        ("disclosed", at(life.map(|life| life.disclosed))),
        ("requested", at(life.and_then(|life| life.requested))),
        ("executed", at(life.and_then(|life| life.executed))),
        ("removed", at(life.and_then(|life| life.removed))),
        ("delivered", at(life.and_then(|life| life.delivered()))),
        ("waited for", waited.map(|span| span.to_string())),
    ]);

    let row = |attempt: &AttemptView| {
        let exit = attempt.exit_code.map(|code| code.to_string());
        [
            ("ATTEMPT", attempt.attempt.to_string()),
            ("HOST", attempt.host.clone()),
            ("STATE", attempt.state.to_string()),
            ("ASSIGNED", when::relative(attempt.assigned, now)),
            ("RUN", attempt.run_in_words().unwrap_or_default()),
            ("CPU", attempt.cpu.to_string()),
            ("SUSPENDED", attempt.suspended.to_string()),
            ("EXIT", exit.unwrap_or_default()),
            ("WHY", attempt.reason.clone().unwrap_or_default()),
        ]
    };
    let rows = Rows::of(task.attempts.iter().map(row), color);

    let states: String = task
        .attempts
        .iter()
        .filter_map(|attempt| states(attempt, now))
        .collect();
    format!("{head}\n{}{states}", rows.text("it has had no attempt yet"))
}

/// Describes the progress of an attempt, the suspension of it, the checkpoint it started from, the newest one and its
/// problem; `None` if there is nothing to say.
fn states(attempt: &AttemptView, now: Time) -> Option<String> {
    let state = |saved: &Saved| {
        let when = when::relative(saved.taken, now);
        let files = plural(u64::from(saved.files), "file");
        format!(
            "state {} of attempt {} (saved {when}, {files}, {})",
            saved.sequence,
            saved.number,
            Bytes(saved.bytes)
        )
    };
    let from = attempt.started_from.as_ref();
    let from = from.map(|saved| format!("started from {}", state(saved)));
    let newest = attempt.saved.as_ref();
    let newest = newest.map(|saved| format!("has saved {}", state(saved)));
    let problem = attempt.checkpoint_problem.as_deref().map(printable);
    let since = attempt.suspended_since;
    let suspended = since.map(|at| format!("suspended since {}", when::relative(at, now)));

    let words = attempt.words.as_deref().map(printable);
    let progress = match (attempt.progress, words) {
        (Some(part), Some(words)) if !words.is_empty() => {
            Some(format!("{:.0} % done: {words}", 100.0 * part))
        }
        (Some(part), _) => Some(format!("{:.0} % done", 100.0 * part)),
        (None, words) => words,
    };
    let all: Vec<String> = [progress, suspended, from, newest, problem]
        .into_iter()
        .flatten()
        .collect();

    (!all.is_empty()).then(|| format!("{} {}\n", attempt.attempt, all.join("; ")))
}
