//! The timeline of a job: on which hosts its attempts ran, and how that went, in a fixed number of
//! columns. So it costs the same to draw for ten tasks and for ten thousand.

use std::collections::BTreeMap;

use common::Time;
use common::selector::Selector;
use common::view::{AttemptState, AttemptView, JobView, TaskState, TaskView};
use schemars::JsonSchema;
use serde::Serialize;

use crate::access::GridAccess;
use crate::problem::Problem;

/// The most columns of a timeline.
pub const MOST_COLUMNS: usize = 1_000;

/// The state of a host's work for a job in one column; of several the last one here counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Did {
    /// Nothing of the job was there.
    Nothing,
    /// Inputs were fetched and placed.
    #[serde(rename = "staging")]
    Staged,
    /// An attempt ran that succeeded later.
    Finished,
    /// An attempt runs.
    #[serde(rename = "running")]
    Ran,
    /// An attempt was suspended by the owner.
    #[serde(rename = "suspended")]
    WasSuspended,
    /// An attempt ran that was ended since nobody needed it any more.
    Killed,
    /// An attempt ran that failed.
    Failed,
    /// An attempt ran that was lost with its host.
    Lost,
}

/// The row of one host.
#[derive(Debug)]
pub struct TimelineHost<'a> {
    /// The host's name.
    pub host: &'a str,
    /// The number of its attempts.
    pub attempts: u64,
    /// The work in each column.
    pub columns: Vec<Did>,
}

/// The timeline of some tasks.
#[derive(Debug)]
pub struct Timeline<'a> {
    /// The begin of the first column.
    pub begin: Time,
    /// The end of the last column.
    pub end: Time,
    /// The hosts, those with the most attempts first.
    pub rows: Vec<TimelineHost<'a>>,
}

impl<'a> Timeline<'a> {
    /// Sorts the attempts of `tasks` by host into `columns` columns from `begin` to `end`; without
    /// these from the first assignment to the last end, or `now`. `None` where nothing ran.
    pub fn of(
        tasks: &'a [TaskView],
        columns: usize,
        (begin, end): (Option<Time>, Option<Time>),
        now: Time,
    ) -> Option<Self> {
        let attempts = || tasks.iter().flat_map(|task| &task.attempts);
        let first = attempts().map(|attempt| attempt.assigned).min()?;
        let last = attempts().map(|attempt| attempt.finished.unwrap_or(now));
        let begin = begin.unwrap_or(first);
        let end = end.or(last.max()).unwrap_or(begin);
        if end < begin {
            let rows = Vec::new();
            return Some(Self { begin, end, rows });
        }

        let columns = columns.clamp(1, MOST_COLUMNS);
        let length = end.since(begin).secs().max(1e-6);
        let column = |at: Time| {
            let part = at.since(begin).secs() / length * columns as f64;
            (part as usize).min(columns - 1)
        };
        let mut rows: BTreeMap<&str, TimelineHost<'a>> = BTreeMap::new();
        for attempt in attempts() {
            let ends = attempt.finished.unwrap_or(now);
            if ends < begin || attempt.assigned > end {
                continue;
            }
            let row = rows.entry(&attempt.host).or_insert_with(|| TimelineHost {
                host: &attempt.host,
                attempts: 0,
                columns: vec![Did::Nothing; columns],
            });
            row.add(attempt, ends, column);
        }

        let mut rows: Vec<TimelineHost<'a>> = rows.into_values().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.attempts), row.host));
        Some(Self { begin, end, rows })
    }
}

impl TimelineHost<'_> {
    fn add(&mut self, attempt: &AttemptView, ends: Time, column: impl Fn(Time) -> usize) {
        self.attempts += 1;
        let starts = attempt.started.unwrap_or(ends).min(ends);
        self.mark(column(attempt.assigned), column(starts), Did::Staged);
        if attempt.started.is_some() {
            self.mark(column(starts), column(ends), did(attempt));
        }
        if let Some(since) = attempt.suspended_since {
            self.mark(column(since), column(ends), Did::WasSuspended);
        }
    }

    fn mark(&mut self, from: usize, to: usize, did: Did) {
        for column in &mut self.columns[from..=to.max(from)] {
            *column = (*column).max(did);
        }
    }

    /// Its equal neighbours, merged: the first column, the one behind the last, and the work.
    pub fn spans(&self) -> impl Iterator<Item = (usize, usize, Did)> {
        let mut from = 0;
        self.columns
            .chunk_by(|a, b| a == b)
            .map(move |same| {
                let begin = from;
                from += same.len();
                (begin, from, same[0])
            })
            .filter(|(_, _, did)| *did != Did::Nothing)
    }
}

fn did(attempt: &AttemptView) -> Did {
    match attempt.state {
        AttemptState::Assigned | AttemptState::Staging => Did::Staged,
        AttemptState::Running => Did::Ran,
        AttemptState::Suspended => Did::WasSuspended,
        AttemptState::Finished => Did::Finished,
        AttemptState::Failed => Did::Failed,
        AttemptState::Lost => Did::Lost,
        AttemptState::Killed => Did::Killed,
    }
}

/// The most tasks whose attempts are drawn.
pub const MOST_DRAWN: u64 = 5_000;

/// The states of tasks that have begun, unless they were cancelled.
const BEGUN: [TaskState; 4] = [
    TaskState::Running,
    TaskState::Suspended,
    TaskState::Finished,
    TaskState::Failed,
];

/// The tasks of which a timeline is drawn.
#[derive(Debug)]
pub struct DrawnTasks {
    /// The tasks.
    pub tasks: Vec<TaskView>,
    /// The first and the last of them, where they are not all of the job's.
    pub part: Option<(u32, u32)>,
}

impl DrawnTasks {
    /// Fetches all tasks of a [`JobView`], or of a large job those that began last, as far as its numbers
    /// say which they are.
    ///
    /// # Errors
    /// If the master refuses.
    pub async fn fetch(grid: &GridAccess, job: &JobView) -> Result<Self, Problem> {
        let large = job.tasks.total > MOST_DRAWN;
        let tasks = match job.attempts {
            0 => Vec::new(),
            _ if large => begun_last(grid, job).await?,
            _ => grid.tasks(job.job, Selector::All, Vec::new()).await?,
        };

        let ends = tasks.first().zip(tasks.last());
        let part = ends.map(|(first, last)| (first.task.index, last.task.index));
        Ok(Self {
            tasks,
            part: part.filter(|_| large),
        })
    }
}

/// Fetches those tasks of a large job that began last. Tasks begin in the order of their numbers, of
/// which the job's view says only how many there are.
async fn begun_last(grid: &GridAccess, job: &JobView) -> Result<Vec<TaskView>, Problem> {
    let begun = job.tasks.total - job.tasks.waiting - job.tasks.disclosed;
    let skipped = begun.saturating_sub(MOST_DRAWN);
    let most = MOST_DRAWN as usize;

    // Most jobs have the numbers from 1 on.
    let usual = u32::try_from(skipped + 1).unwrap_or(u32::MAX);
    let mut found = grid
        .first_tasks(job.job, from(usual), Vec::new(), most)
        .await?;
    if skipped > 0 && !is_run_from(usual, &found) {
        let place = place_of(grid, job, skipped).await?;
        found = grid
            .first_tasks(job.job, from(place), Vec::new(), most)
            .await?;
    }

    // Where the numbers follow no rule, or the last ones were cancelled, the first ones that began are
    // better than none.
    if found.iter().all(|task| task.attempts.is_empty()) {
        let all = Selector::All;
        found = grid.first_tasks(job.job, all, BEGUN.to_vec(), most).await?;
    }
    Ok(found)
}

/// Chooses the tasks from this number on.
fn from(number: u32) -> Selector {
    number
        .checked_sub(1)
        .map_or(Selector::All, Selector::Beyond)
}

/// Whether these are tasks with the numbers from `first` on, and none is left out.
fn is_run_from(first: u32, tasks: &[TaskView]) -> bool {
    let mut places = (first..).zip(tasks);
    !tasks.is_empty() && places.all(|(number, task)| task.task.index == number)
}

/// Returns about the number of the task before which there are so many others: exactly where the numbers
/// of the job lie at the same distances.
async fn place_of(grid: &GridAccess, job: &JobView, skipped: u64) -> Result<u32, Problem> {
    let all = Selector::All;
    let first = grid.first_tasks(job.job, all, Vec::new(), 1).await?;
    let last = grid.tasks(job.job, Selector::Last, Vec::new()).await?;
    let number = |tasks: &[TaskView]| tasks.first().map_or(0, |task| task.task.index);
    let lowest = number(&first);
    let highest = number(&last);

    let width = u64::from(highest.saturating_sub(lowest));
    let place = u64::from(lowest) + skipped * width / (job.tasks.total - 1).max(1);
    Ok(u32::try_from(place).unwrap_or(highest))
}
