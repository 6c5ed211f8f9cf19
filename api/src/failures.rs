//! Sums up why tasks of a job failed: failed attempts by cause and host.

use std::collections::BTreeMap;

use common::TaskId;
use common::view::{AttemptState, AttemptView, JobView, TaskCounts, TaskState, TaskView};

use crate::json::{FailureCause, FailuresOnHost};

/// The number of failed tasks up to which they are summed up: a longer list would take too much
/// memory.
pub const MOST_TASKS: u64 = 20_000;
/// The number of causes that are shown, the most frequent first.
const SHOWN: usize = 5;
/// The number of lines of standard error that are shown, and the length of each at most, in
/// characters.
const LAST_LINES: usize = 5;
const LINE: usize = 200;

/// Returns the states of the tasks whose failed attempts tell why tasks of this job failed: of failed
/// ones, or of all where none failed but some were tried again. `None` where there is nothing to tell, or
/// too much.
pub fn states_that_tell(job: &JobView) -> Option<Vec<TaskState>> {
    let TaskCounts {
        total,
        failed,
        finished,
        running,
        ..
    } = job.tasks;
    if failed > 0 {
        return (failed <= MOST_TASKS).then(|| vec![TaskState::Failed]);
    }

    let again = job.attempts.saturating_sub(job.duplicates) > finished + running;
    (again && total <= MOST_TASKS).then(Vec::new)
}

/// The count of failed attempts of one cause.
struct Counted {
    attempts: u64,
    hosts: BTreeMap<String, u64>,
    example: TaskId,
    /// A task that failed in the end.
    failed: Option<TaskId>,
}

/// Returns the causes of these tasks' failed attempts, the most frequent first, each with a task
/// whose standard error shows more, if one failed for good.
pub fn causes(tasks: &[TaskView]) -> Vec<(FailureCause, Option<TaskId>)> {
    let mut counted: Vec<(String, Counted)> = count(tasks).into_iter().collect();
    counted.sort_by(|a, b| b.1.attempts.cmp(&a.1.attempts).then_with(|| a.0.cmp(&b.0)));
    counted.truncate(SHOWN);

    let shown = |(cause, counted): (String, Counted)| {
        let on = |(host, attempts)| FailuresOnHost { host, attempts };
        let mut hosts: Vec<FailuresOnHost> = counted.hosts.into_iter().map(on).collect();
        hosts.sort_by_key(|on| std::cmp::Reverse(on.attempts));
        let cause = FailureCause {
            cause,
            attempts: counted.attempts,
            hosts,
            task: counted.example.to_string(),
            stderr: Vec::new(),
        };
        (cause, counted.failed)
    };
    counted.into_iter().map(shown).collect()
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
                failed: None,
            });
            counted.attempts += 1;
            if counted.failed.is_none() && task.state == TaskState::Failed {
                counted.example = task.task;
                counted.failed = Some(task.task);
            }
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

/// Returns the last lines of what a task wrote.
pub fn last_lines(written: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(written);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];

    last.iter()
        .map(|line| line.chars().take(LINE).collect())
        .collect()
}
