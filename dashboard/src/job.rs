//! The page of a job: how far it is, when it should end, where it ran, why tasks failed, its tasks.

use api::GridAccess;
use api::failures::MOST_TASKS;
use api::timeline::{DrawnTasks, MOST_DRAWN};
use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::Response;
use common::selector::Selector;
use common::text::printable;
use common::view::{AttemptView, JobView, TaskState, TaskView};
use common::{JobId, TaskId};
use maud::{Markup, html};
use serde::Deserialize;

use crate::chart;
use crate::error::PageError;
use crate::jobs::end;
use crate::parts::{
    StateLook, action, badge, bar, count, done, grouped, host_link, legend, of_job, shortened,
    table, task_link,
};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};
use crate::timeline::timeline;
use crate::when::{clock, span};

/// The number of tasks on a page.
const PAGE: usize = 50;
/// The number of characters of an item that are shown: it can be as long as a task's command line.
const ITEM: usize = 200;
/// The bytes of standard error among which the last lines are looked for.
const LAST_BYTES: u64 = 64 * 1024;

/// The tasks that are to be listed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TaskFilter {
    /// A state.
    state: String,
    /// Only tasks with higher numbers.
    after: Option<u32>,
}

/// Reads the number of a job in a path.
pub(crate) fn number(text: &str) -> Result<JobId, PageError> {
    text.parse().map_err(|_| {
        let what = format!("`{}` is no number of a job", printable(text));
        PageError::not_found(what)
    })
}

pub(crate) async fn page(
    grid: Shared,
    who: LoggedIn,
    Path(job): Path<String>,
    Query(wanted): Query<TaskFilter>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let job = grid.job(&who, number(&job)?).await?;
    let drawn = grid.drawn(&who, &job).await?;
    let grid = grid.of(&who);
    let failures = failures(&grid, &job, &drawn).await?;
    let tasks = tasks(&grid, &job, &wanted).await?;

    let body = html! {
        h1 { (printable(&job.name)) " " span.number { "job " (job.job) } " " (badge(StateLook::of_job(job.state), &job.state)) }
        p.sentence { (sentence(&job)) }
        (bar(&job.tasks))
        (legend(&job.tasks))
        @if let Some(eta) = chart::eta(&job) { (eta) }
        (actions(&job))
        @if let Some(failures) = failures { (failures) }
        @if let Some(picture) = picture(&drawn) { (picture) }
        (facts(&job))
        (tasks)
    };
    let eta = job.predicted.filter(|_| !job.state.settled());
    let eta = eta.map(|end| format!(" · until {} UTC", &crate::when::iso(end.finish)[11..16]));
    Ok(HtmlPage {
        title: format!(
            "{} % {}{} · job {}",
            done(&job),
            job.state,
            eta.unwrap_or_default(),
            job.job
        ),
        who: &who,
        place: "/jobs",
        renewal: Renewal::Always,
        body,
    }
    .answer(&headers))
}

fn sentence(job: &JobView) -> Markup {
    html! {
        strong { (done(job)) " % done" } ": " (grouped(job.tasks.finished)) " of " (count(job.tasks.total, "task", "tasks")) " finished. "
        (end(job, "It should be done at"))
        @if let Some(reason) = &job.reason { span.quiet.reason { (printable(reason)) } }
    }
}

fn actions(job: &JobView) -> Markup {
    html! {
        p.actions {
            @if !job.state.settled() {
                a.action href=(of_job(job.job, "/why")) { "Why does it wait?" }
                (action(&of_job(job.job, "/cancel"), "Cancel", "Ends its tasks, those that run too"))
            }
            @if job.open { (action(&of_job(job.job, "/close"), "Close", "No more tasks can be added to it")) }
            @if job.tasks.failed > 0 { (action(&of_job(job.job, "/retry"), "Try failed tasks again", "They wait again")) }
            @if job.tasks.cancelled > 0 { (action(&of_job(job.job, "/again"), "Try cancelled tasks again", "They wait again, and those that failed with them")) }
            @if job.state.settled() { (action(&of_job(job.job, "/forget"), "Forget", "Removes it with its results")) }
        }
    }
}

/// Draws the timeline; `None` where nothing ran.
fn picture(drawn: &DrawnTasks) -> Option<Markup> {
    let picture = timeline(&drawn.tasks)?;
    Some(html! {
        section aria-labelledby="timeline" {
            h2 #timeline { "Where it ran" }
            (picture)
            @if let Some((first, last)) = drawn.part {
                p.quiet { "Of tasks " (first) " to " (last) ": the picture shows " (grouped(MOST_DRAWN)) " at most." }
            }
        }
    })
}

/// Returns the failed tasks of the job, which are fetched where they are not all drawn.
async fn failed_tasks(
    grid: &GridAccess,
    job: &JobView,
    drawn: &DrawnTasks,
) -> Result<Vec<TaskView>, PageError> {
    if (drawn.tasks.len() as u64) < job.tasks.total {
        let failed = vec![TaskState::Failed];
        return Ok(grid.tasks(job.job, Selector::All, failed).await?);
    }
    let failed = |task: &&TaskView| task.state == TaskState::Failed;
    Ok(drawn.tasks.iter().filter(failed).cloned().collect())
}

/// Says why tasks failed: attempts by cause and host, with the last lines of one of them.
async fn failures(
    grid: &GridAccess,
    job: &JobView,
    drawn: &DrawnTasks,
) -> Result<Option<Markup>, PageError> {
    if job.tasks.failed == 0 || job.tasks.failed > MOST_TASKS {
        return Ok(None);
    }
    let failed = failed_tasks(grid, job, drawn).await?;
    let causes = grid.failures(&failed, LAST_BYTES).await?;

    Ok(Some(html! {
        section aria-labelledby="failures" {
            h2 #failures { (count(job.tasks.failed, "task failed", "tasks failed")) }
            @for cause in &causes {
                article.failure {
                    h3 { (count(cause.attempts, "attempt", "attempts")) ": " (printable(&cause.cause)) }
                    @if !cause.stderr.is_empty() {
                        pre { @for line in &cause.stderr { (printable(line)) "\n" } }
                    }
                    p.quiet {
                        "for example "
                        @if let Ok(example) = cause.task.parse::<TaskId>() { (task_link(example)) }
                        "; on "
                        @for (place, on) in cause.hosts.iter().take(6).enumerate() {
                            @if place > 0 { ", " }
                            (host_link(&on.host)) " (" (grouped(on.attempts)) ")"
                        }
                        @if cause.hosts.len() > 6 { " and " (cause.hosts.len() - 6) " more" }
                    }
                }
            }
        }
    }))
}

fn facts(job: &JobView) -> Markup {
    let copies = count(job.duplicates, "copy", "copies");
    html! {
        details.facts {
            summary { "About this job" }
            dl {
                dt { "User" } dd { (printable(&job.user)) }
                dt { "Policy" } dd { (printable(&job.policy)) @if job.priority != 0 { ", priority " (job.priority) } }
                @if !job.needs.is_empty() { dt { "Needs" } dd { (printable(&job.needs)) } }
                dt { "Submitted" } dd { (clock(job.submitted)) }
                @if let Some(started) = job.started { dt { "Begun" } dd { (clock(started)) ", after " (span(started.since(job.submitted))) } }
                @if let Some(finished) = job.finished { dt { "Ended" } dd { (clock(finished)) } }
                dt { "Attempts" } dd { (grouped(job.attempts)) ", " (copies) " among them" }
                @if let Some(makespan) = job.predicted_makespan { dt { "Predicted at first" } dd { (span(makespan)) } }
                @for after in &job.after {
                    dt { "After" }
                    dd { a href=(of_job(after.job, "")) { "job " (after.job) } " (" (after.how) ")"
                        @if let Some(left) = after.left { ", " (count(left, "task", "tasks")) " left" } }
                }
            }
        }
    }
}

async fn tasks(grid: &GridAccess, job: &JobView, wanted: &TaskFilter) -> Result<Markup, PageError> {
    let states = wanted.state.parse::<TaskState>().into_iter().collect();
    let chosen = wanted.after.map_or(Selector::All, Selector::Beyond);
    let mut found = grid.first_tasks(job.job, chosen, states, PAGE + 1).await?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let next = found.last().filter(|_| more).map(|task| task.task.index);

    let base = of_job(job.job, "");
    Ok(html! {
        section aria-labelledby="tasks" {
            h2 #tasks { "Tasks" }
            p.filters {
                a href={ (base) "#tasks" } aria-current=[wanted.state.is_empty().then_some("true")] { "all" }
                @for state in TaskState::ALL {
                    @let word = state.to_string();
                    a href={ (base) "?state=" (word) "#tasks" } aria-current=[(wanted.state == word).then_some("true")] { (word) }
                }
            }
            @if found.is_empty() { p.quiet { "No such task." } }
            @else {
                (table(&["Task", "State", "Host", "Attempts", "Ran", "Why"], &html! { @for task in &found { (task_row(task)) } }))
            }
            @if let Some(next) = next {
                p.pages { a rel="next" href={ (base) "?state=" (wanted.state) "&after=" (next) "#tasks" } { "Next tasks" } }
            }
        }
    })
}

fn task_row(task: &TaskView) -> Markup {
    let main = task.main_attempt();
    let why = task.reason.as_deref();
    let why = why.or_else(|| main.and_then(|attempt| attempt.reason.as_deref()));
    html! {
        tr {
            td { (task_link(task.task)) @if let Some(item) = &task.item { " " span.quiet { (shortened(item, ITEM)) } } }
            td {
                (badge(StateLook::of_task(task.state), &task.state))
                @if let Some(part) = main.and_then(|attempt| attempt.progress) { " " ((part * 100.0) as u32) " %" }
            }
            td { @if let Some(attempt) = main { (host_link(&attempt.host)) } }
            td.number { (task.attempts.len()) }
            td.number { @if let Some(ran) = main.and_then(AttemptView::run_in_words) { (ran) } }
            td.why { @if let Some(why) = why { (printable(why)) } }
        }
    }
}
