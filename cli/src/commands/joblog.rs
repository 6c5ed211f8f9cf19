//! Executes `deskgrid job list --joblog`: prints the attempts of a job as tab-separated values. The
//! first nine columns are those of GNU parallel's joblog, so that tools for one read the other.

use common::selector::Selector;
use common::view::{AttemptView, TaskView, WorkView};
use common::{AttemptId, Time};

use super::work::{command_of, values_of};
use super::{Context, task};
use crate::args::OutputMode;
use crate::args::value::OneJob;
use crate::failure::{Exit, Failure};
use crate::session::Session;

const HEADINGS: &str = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\t\
                        Task\tAttempt\tState\tSuspended\tCpu\tReason\tItem";

/// Prints the attempts of one job, in the order in which they were assigned.
pub(super) async fn run(
    context: &Context,
    session: &Session,
    job: OneJob,
) -> Result<Exit, Failure> {
    let job = session.job(job).await?;
    let mut pages = session.task_pages(job.job, Selector::All, Vec::new());
    if context.out.mode() == OutputMode::Json {
        return task::show(context, pages).await;
    }

    let work = session.work(job.job).await?;
    let mut all: Vec<AttemptLine> = Vec::new();
    while let Some(page) = pages.page().await? {
        all.extend(rows(&page, &job.name, work.as_ref()));
    }
    all.sort_unstable();
    let attempts = || all.iter().map(|(_, id, _)| id.to_string()).collect();
    context.show(&(), || text(&all), attempts)
}

/// An attempt with the time at which it was assigned, by which rows are sorted, and its row without the number.
type AttemptLine = (Time, AttemptId, String);

fn rows(
    tasks: &[TaskView],
    name: &str,
    work: Option<&WorkView>,
) -> impl Iterator<Item = AttemptLine> {
    let all = tasks
        .iter()
        .flat_map(|task| task.attempts.iter().map(move |a| (task, a)));

    all.map(move |(task, attempt)| {
        let command = work.and_then(|work| command_of(work, &values_of(task, attempt)));
        let command = command.or_else(|| task.item.clone());
        let row = row(task, attempt, command.unwrap_or_else(|| name.to_owned()));
        (attempt.assigned, attempt.attempt, row)
    })
}

/// Returns the headings and the rows, which are sorted, with their numbers.
fn text(rows: &[AttemptLine]) -> String {
    let lines = (1..)
        .zip(rows)
        .map(|(n, (.., row))| format!("{n}\t{row}\n"));
    format!("{HEADINGS}\n") + &lines.collect::<String>()
}

fn row(task: &TaskView, attempt: &AttemptView, command: String) -> String {
    let start = attempt.started.unwrap_or(attempt.assigned);
    let exit = attempt.exit_code.map_or_else(
        || if attempt.state.live() { "" } else { "-1" }.to_owned(),
        |c| c.to_string(),
    );

    let cells = [
        attempt.host.clone(),
        format!("{:.3}", start.secs()),
        format!("{:.3}", attempt.ran.secs()),
        "0".to_owned(),
        "0".to_owned(),
        exit,
        signal(attempt).unwrap_or("0").to_owned(),
        command,
        task.task.to_string(),
        attempt.attempt.number.to_string(),
        attempt.state.to_string(),
        format!("{:.3}", attempt.suspended.secs()),
        format!("{:.3}", attempt.cpu.secs()),
        attempt.reason.clone().unwrap_or_default(),
        task.item.clone().unwrap_or_default(),
    ];
    cells
        .map(|cell| cell.replace(['\t', '\n', '\r'], " "))
        .join("\t")
}

/// Returns the number of the signal that ended the attempt; only the words of its outcome have it.
fn signal(attempt: &AttemptView) -> Option<&str> {
    let parts = attempt.reason.as_deref()?.split("; ");
    let mut ends = parts.filter_map(|part| part.strip_prefix("ended by signal "));
    ends.next()?.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::attempt::Outcome;
    use common::job::Rules;
    use common::view::{AttemptState, TaskState};
    use common::{Incarnation, JobId, Span, TaskId};

    #[test]
    fn the_joblog_has_a_row_for_each_attempt_in_order_of_time() {
        let task = TaskId::new(JobId(7), 3);
        let attempt = |number, assigned| AttemptView {
            attempt: AttemptId {
                task,
                number,
                incarnation: Incarnation(1),
            },
            host: "desk-1".into(),
            state: AttemptState::Finished,
            duplicate: false,
            assigned: Time(assigned),
            started: Some(Time(assigned + 500_000)),
            finished: None,
            ran: Span::from_millis(1_250),
            cpu: Span::from_millis(1_000),
            suspended: Span::ZERO,
            suspended_since: None,
            exit_code: Some(0),
            reason: Some("first\tattempt".into()),
            started_from: None,
            saved: None,
            checkpoint_problem: None,
            belief: None,
            progress: None,
            words: None,
        };
        let ended = Outcome::Signalled(11).to_string();
        let segfault = AttemptView {
            state: AttemptState::Failed,
            exit_code: None,
            reason: Some(format!("tried again; {ended}")),
            ..attempt(2, 9_000_000)
        };
        let attempts = vec![segfault, attempt(1, 5_000_000)];
        let view = TaskView {
            task,
            item: None,
            state: TaskState::Finished,
            reason: None,
            attempts,
            speculation: None,
        };
        let sorted = |work: Option<&WorkView>, item: Option<&str>| {
            let item = item.map(str::to_owned);
            let tasks = [TaskView {
                item,
                ..view.clone()
            }];
            let mut rows: Vec<AttemptLine> = rows(&tasks, "render", work).collect();
            rows.sort_unstable();
            text(&rows)
        };
        let text = sorted(None, None);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0].split('\t').take(9).last(), Some("Command"));

        assert_eq!(
            lines[1],
            "1\tdesk-1\t5.500\t1.250\t0\t0\t0\t0\trender\t7.3\t1\tfinished\t0.000\t1.000\tfirst attempt\t"
        );
        assert!(lines[2].contains("\t-1\t11\trender\t7.3\t2\tfailed\t") && lines.len() == 3);

        let words = ["./draw", "%{HOST}", "part %{TASK_ID}", "%{RANK}", "%{ITEM}"];
        let more = std::iter::repeat_n("x", 59);
        let work = WorkView {
            command: words.into_iter().chain(more).map(str::to_owned).collect(),
            cut: 1,
            stdin: Some("in-%{TASK_ID}".into()),
            ..WorkView::empty(Rules::default())
        };
        let text = sorted(Some(&work), Some("{a,b}"));
        let words = "\t./draw desk-1 'part 3' %{RANK} '{a,b}' x ";
        for told in [words, " x ... < in-3\t7.3\t1\t", "\tfirst attempt\t{a,b}\n"] {
            assert!(text.contains(told), "{text}");
        }
    }
}
