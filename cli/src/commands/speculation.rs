//! `deskgrid request` and `deskgrid account`. What is not here: how jobs are disclosed (`submit`).

use common::selector::Selector;
use common::view::{AccountView, SpreadView, TaskState, TaskView};
use common::wire::client::{Reply, Request};
use common::{IdSet, JobId};
use link::client::unexpected;
use serde::Serialize;

use super::Context;
use super::cat::print_stream;
use super::job::counted;
use crate::args::OutputMode;
use crate::args::job::StreamName;
use crate::args::speculation::{AccountArgs, RequestArgs};
use crate::failure::{Exit, Failure};
use crate::output::table::Rows;
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

/// What was spent on tasks.
pub(super) async fn account(context: &Context, args: AccountArgs) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let mut accounts = Vec::new();
    for reply in session.client().ask(&Request::Account { user: args.user, jobs: args.jobs }).await? {
        match reply {
            Reply::Accounts(some) => accounts.extend(some),
            other => return Err(unexpected(Some(&other)).into()),
        }
    }
    let users = || accounts.iter().filter(|account| account.job.is_none()).map(|account| account.user.clone());
    let text = || {
        let headings = ["USER", "JOB", "TASKS", "FINISHED", "USED", "BILLED", "FREE", "WAITED", "P90", "SLOWDOWN"];
        let mut rows = Rows::new(&headings, context.out.color());
        accounts.iter().for_each(|account| rows.add(row(account)));
        rows.text("nothing was spent yet")
    };
    context.out.show(&Accounts::from(&accounts[..]), text, || users().collect())?;
    session.close().await;
    Ok(Exit::Well)
}

fn row(account: &AccountView) -> [String; 10] {
    let seconds = |s: f64| format!("{s:.1}s");
    let of = |spread: Option<SpreadView>, pick: fn(&SpreadView) -> f64| spread.as_ref().map(pick);
    let some = |value: Option<f64>| value.map(seconds).unwrap_or_default();
    [
        account.user.clone(),
        account.job.map_or_else(|| "all".to_owned(), |job| job.to_string()),
        account.tasks.to_string(),
        account.finished.to_string(),
        seconds(account.used_s),
        seconds(account.billed_s),
        seconds(account.free_s),
        some(of(account.response_s, |spread| spread.mean)),
        some(of(account.response_s, |spread| spread.p90)),
        of(account.slowdown, |spread| spread.mean).map(|slowdown| format!("{slowdown:.2}")).unwrap_or_default(),
    ]
}

/// Accounts for scripts.
#[derive(Serialize)]
struct Accounts {
    accounts: Vec<Account>,
}

#[derive(Serialize)]
struct Account {
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<u32>,
    tasks: u64,
    requested: u64,
    finished: u64,
    used_s: f64,
    billed_s: f64,
    free_s: f64,
    scaled_if_all_billed: Option<f64>,
    scaled_by_waited_for: Option<f64>,
    visible_response_s: Option<Spread>,
    visible_slowdown: Option<Spread>,
}

#[derive(Serialize)]
struct Spread {
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
}

impl From<SpreadView> for Spread {
    fn from(SpreadView { mean, p50, p90, p99 }: SpreadView) -> Self {
        Spread { mean, p50, p90, p99 }
    }
}

impl From<&[AccountView]> for Accounts {
    fn from(views: &[AccountView]) -> Self {
        let one = |view: &AccountView| Account {
            user: view.user.clone(),
            job: view.job.map(|job| job.0),
            tasks: view.tasks,
            requested: view.requested,
            finished: view.finished,
            used_s: view.used_s,
            billed_s: view.billed_s,
            free_s: view.free_s,
            scaled_if_all_billed: view.scaled_if_all_billed,
            scaled_by_waited_for: view.scaled_by_waited_for,
            visible_response_s: view.response_s.map(Spread::from),
            visible_slowdown: view.slowdown.map(Spread::from),
        };
        Accounts { accounts: views.iter().map(one).collect() }
    }
}
