//! Sums up why tasks of a job failed, for `deskgrid job info`: failed attempts by cause and host,
//! with the last lines that one of them wrote to its standard error.

use api::failures::{MOST_TASKS, causes, last_lines, states_that_tell};
use common::attempt::StreamKind;
use common::selector::Selector;
use common::text::{plural, printable};
use common::view::{JobView, WorkView};
use common::{IdSet, TaskId};

use super::cat;
use super::work::on_missing_program;
use crate::failure::Failure;
use crate::output::json::FailureCause;
use crate::session::Session;

/// The number of hosts that are named for a cause.
const SHOWN_HOSTS: usize = 4;

/// Returns the causes of the job's failed attempts, the most frequent first; none if nothing failed, or
/// more than `MOST_TASKS` did.
///
/// # Errors
/// If the master refuses or the connection is gone.
pub(super) async fn of(session: &Session, job: &JobView) -> Result<Vec<FailureCause>, Failure> {
    let Some(states) = states_that_tell(job) else {
        return Ok(Vec::new());
    };
    let tasks = session.tasks(job.job, Selector::All, states).await?;
    let mut found = Vec::new();
    for (cause, example) in causes(&tasks) {
        let stderr = match example {
            Some(task) => written(session, task).await?,
            None => Vec::new(),
        };
        found.push(FailureCause { stderr, ..cause });
    }
    Ok(found)
}

/// Returns the last lines that a task wrote to its standard error.
async fn written(session: &Session, task: TaskId) -> Result<Vec<String>, Failure> {
    let tasks = Selector::Ids(IdSet::from_range(task.index, task.index));
    let outputs = session.outputs(task.job, tasks).await?;
    let Some(output) = outputs.first() else {
        return Ok(Vec::new());
    };
    let (bytes, _) = cat::written(session, output, StreamKind::Stderr).await?;
    Ok(last_lines(&bytes))
}

/// Describes the causes in text, to stand before the facts of a job of this work; empty if there are none.
pub(super) fn in_words(job: &JobView, causes: &[FailureCause], work: Option<&WorkView>) -> String {
    if job.tasks.failed > MOST_TASKS {
        return format!(
            "{} tasks failed; deskgrid task list {} --state failed shows why\n\n",
            job.tasks.failed, job.job
        );
    }

    let mut text = String::new();
    for FailureCause {
        cause,
        attempts,
        hosts,
        task,
        stderr,
    } in causes
    {
        let on: Vec<String> = hosts
            .iter()
            .take(SHOWN_HOSTS)
            .map(|on| format!("{} on {}", on.attempts, on.host))
            .collect();
        let more = if hosts.len() > SHOWN_HOSTS {
            ", ..."
        } else {
            ""
        };

        let what = plural(*attempts, "attempt");
        let retried = if job.tasks.failed == 0 {
            " that failed, and tried again"
        } else {
            ""
        };
        text += &format!(
            "{what}{retried}: {} ({}{more}), as task {task}\n",
            printable(cause),
            printable(&on.join(", "))
        );
        if let Some(more) = work.and_then(|work| on_missing_program(cause, work, str::to_owned)) {
            text += &format!("    hint: {more}\n");
        }
        for line in stderr {
            text += &format!("    {}\n", printable(line));
        }
    }

    if !text.is_empty() {
        text.push('\n');
    }

    text
}
