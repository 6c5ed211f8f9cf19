//! Sums up why tasks of a job failed, for `deskgrid job info`: failed attempts by cause and host,
//! with the last lines that one of them wrote to its standard error.

use std::collections::BTreeMap;

use common::selector::Selector;
use common::view::{AttemptState, AttemptView, JobView, TaskState, TaskView};
use common::{IdSet, TaskId};

use super::cat;
use crate::args::job::StreamName;
use crate::failure::Failure;
use crate::output::json::{FailureCause, FailuresOnHost};
use crate::output::table::printable;
use crate::session::Session;

/// The number of failed tasks up to which they are summed up: a longer list would take too much
/// memory.
const MOST_TASKS: u64 = 20_000;
/// The number of causes that are shown, the most frequent first.
const SHOWN: usize = 5;
/// The number of hosts that are named for a cause.
const SHOWN_HOSTS: usize = 4;
/// The number of lines of standard error that are shown, and the length of each at most, in
/// characters.
const LAST_LINES: usize = 5;
const LINE: usize = 200;

/// The count of failed attempts of one cause.
struct Counted {
    attempts: u64,
    hosts: BTreeMap<String, u64>,
    example: TaskId,
}

/// Returns the causes of the job's failed attempts, the most frequent first; none if no task
/// failed, or more than `MOST_TASKS`.
///
/// # Errors
/// If the master refuses or the connection is gone.
pub(super) async fn of(session: &Session, job: &JobView) -> Result<Vec<FailureCause>, Failure> {
    if job.tasks.failed == 0 || job.tasks.failed > MOST_TASKS {
        return Ok(Vec::new());
    }

    let tasks = session
        .tasks(job.job, Selector::All, vec![TaskState::Failed])
        .await?;
    let mut counted: Vec<(String, Counted)> = count(&tasks).into_iter().collect();
    counted.sort_by(|a, b| b.1.attempts.cmp(&a.1.attempts).then_with(|| a.0.cmp(&b.0)));
    counted.truncate(SHOWN);

    let mut causes = Vec::with_capacity(counted.len());
    for (
        cause,
        Counted {
            attempts,
            hosts,
            example,
        },
    ) in counted
    {
        let mut hosts: Vec<FailuresOnHost> = hosts
            .into_iter()
            .map(|(host, attempts)| FailuresOnHost { host, attempts })
            .collect();
        hosts.sort_by_key(|on| std::cmp::Reverse(on.attempts));

        let stderr = last_lines(session, example).await?;
        causes.push(FailureCause {
            cause,
            attempts,
            hosts,
            task: example.to_string(),
            stderr,
        });
    }

    Ok(causes)
}

/// Counts the failed attempts of these tasks by cause.
fn count(tasks: &[TaskView]) -> BTreeMap<String, Counted> {
    let mut causes: BTreeMap<String, Counted> = BTreeMap::new();
    for task in tasks {
        let failed = task
            .attempts
            .iter()
            .filter(|attempt| attempt.state == AttemptState::Failed);
        for attempt in failed {
            let counted = causes.entry(cause(attempt)).or_insert_with(|| Counted {
                attempts: 0,
                hosts: BTreeMap::new(),
                example: task.task,
            });
            counted.attempts += 1;
            *counted.hosts.entry(attempt.host.clone()).or_default() += 1;
        }
    }

    causes
}

/// Returns how an attempt ended: its `reason` without the first part, which says why it was
/// started.
fn cause(attempt: &AttemptView) -> String {
    let said = attempt.reason.as_deref().unwrap_or_default();
    said.split_once("; ")
        .map_or(said, |(_, end)| end)
        .to_owned()
}

/// Returns the last lines that a task wrote to its standard error.
async fn last_lines(session: &Session, task: TaskId) -> Result<Vec<String>, Failure> {
    let tasks = Selector::Ids(IdSet::from_range(task.index, task.index));
    let outputs = session.outputs(task.job, tasks).await?;
    let Some(output) = outputs.first() else {
        return Ok(Vec::new());
    };
    let (bytes, _) = cat::written(session, output, StreamName::Stderr).await?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];

    Ok(last
        .iter()
        .map(|line| line.chars().take(LINE).collect())
        .collect())
}

/// Describes the causes in text, to stand before a job's facts; empty if there are none.
pub(super) fn in_words(job: &JobView, causes: &[FailureCause]) -> String {
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

        let what = if *attempts == 1 {
            "1 attempt".to_owned()
        } else {
            format!("{attempts} attempts")
        };
        text += &format!(
            "{what}: {} ({}{more}), as task {task}\n",
            printable(cause),
            printable(&on.join(", "))
        );
        for line in stderr {
            text += &format!("    {}\n", printable(line));
        }
    }

    if !text.is_empty() {
        text.push('\n');
    }

    text
}
