//! The tasks of a job that failed or were cancelled, as ranges in `settled`, and how they are opened again for
//! another try. What the ranges mean to the scheduler is in `restore`.

use common::view::TaskState;
use common::{IdSet, JobId};

use super::reader::{SettledRow, settled_rows, tasks_of};
use super::value::values;
use super::writer::Writer;
use super::{Reader, StoreResult};

/// Neighbouring rows of `settled` of which tasks are opened again: all of them go.
struct RowRun {
    /// The first task of the first row.
    first: u32,
    /// The first task of the last row.
    last: u32,
    /// The tasks that have such a row for themselves.
    alone: Vec<u32>,
}

/// Compares the `rows` of a job, in their order, with the `tasks` that are opened again. Returns the rows that
/// go, and those of which some tasks stay settled, each with these.
fn opened(rows: Vec<SettledRow>, tasks: &IdSet) -> (Vec<RowRun>, Vec<(SettledRow, IdSet)>) {
    let mut runs: Vec<RowRun> = Vec::new();
    let mut partly = Vec::new();
    let mut joins = false;

    for row in rows {
        let mut stay = IdSet::from_range(row.first, row.last);
        let before = stay.len();
        stay.subtract(tasks);
        let goes = stay.len() < before;
        let joined = std::mem::replace(&mut joins, goes);
        if !goes {
            continue;
        }

        let alone = (row.first == row.last).then_some(row.first);
        match runs.last_mut().filter(|_| joined) {
            Some(run) => {
                run.last = row.first;
                run.alone.extend(alone);
            }
            None => runs.push(RowRun {
                first: row.first,
                last: row.first,
                alone: alone.into_iter().collect(),
            }),
        }
        if !stay.is_empty() {
            partly.push((row, stay));
        }
    }

    (runs, partly)
}

impl Reader {
    /// The tasks of a job that failed and (unless `only_failed`) those that were cancelled.
    pub(crate) fn unsuccessful(&self, job: JobId, only_failed: bool) -> StoreResult<IdSet> {
        let rows = self.settled(job)?;
        Ok(tasks_of(&rows, |state| {
            !only_failed || state == TaskState::Failed
        }))
    }
}

impl Writer {
    /// Stores tasks that failed or were cancelled.
    pub(crate) fn settle(
        &mut self,
        job: JobId,
        tasks: &IdSet,
        state: TaskState,
        why: &str,
    ) -> StoreResult<()> {
        for (first, last) in tasks.ranges() {
            self.change(
                "INSERT INTO settled (job, first, last, state, why) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (job, first) DO UPDATE SET last = excluded.last, state = excluded.state, why = excluded.why",
                values![job.0, first, last, state.to_string(), why],
            )?;
        }

        Ok(())
    }

    /// Reopens tasks that had failed or were cancelled; their earlier failures and losses no longer
    /// count. Each task that fails has a row of its own, so rows beside each other go together.
    pub(crate) fn reopen(&mut self, job: JobId, tasks: &IdSet) -> StoreResult<()> {
        let (runs, partly) = opened(settled_rows(self.db(), job)?, tasks);

        let mut others = tasks.clone();
        for run in runs {
            // The tasks between them did not fail, and are not forgiven anything.
            let alone: IdSet = run.alone.into_iter().collect();
            if alone.ranges().len() > 1 {
                self.change(
                    "UPDATE attempt SET charged = FALSE WHERE job = $1 AND task IN
                     (SELECT first FROM settled WHERE job = $1 AND first BETWEEN $2 AND $3 AND first = last)",
                    values![job.0, run.first, run.last],
                )?;
                others.subtract(&alone);
            }
            self.change(
                "DELETE FROM settled WHERE job = $1 AND first BETWEEN $2 AND $3",
                values![job.0, run.first, run.last],
            )?;
        }

        for (row, stay) in partly {
            self.settle(job, &stay, row.state, &row.why)?;
        }
        for (first, last) in others.ranges() {
            self.change(
                "UPDATE attempt SET charged = FALSE WHERE job = $1 AND task BETWEEN $2 AND $3",
                values![job.0, first, last],
            )?;
        }

        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::tests::{add_job, attempt, open, spec, start};
    use super::*;

    /// The tasks of a store's rows, each with its state and the reason. No two rows have the same task.
    fn settled(store: &Writer, job: JobId) -> BTreeMap<u32, (TaskState, String)> {
        let mut tasks = BTreeMap::new();
        for row in settled_rows(store.db(), job).unwrap() {
            for task in row.first..=row.last {
                let twice = tasks.insert(task, (row.state, row.why.clone()));
                assert_eq!(twice, None, "task {task}");
            }
        }
        tasks
    }

    fn charged(store: &Writer, job: JobId) -> IdSet {
        let sql = "SELECT task FROM attempt WHERE job = $1 AND charged";
        let tasks: Vec<u32> = store
            .db()
            .all(sql, values![job.0], |row| row.get(0))
            .unwrap();
        tasks.into_iter().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn tasks_that_are_opened_again_lose_their_rows_and_all_others_keep_theirs(
            rows in prop::collection::vec((0..3_u8, prop_oneof![4 => Just(1_u32), 1 => 2..5_u32]), 1..14),
            opened in prop::collection::btree_set(1..=24_u32, 0..24)
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut store = open(&dir);
            let job = add_job(&mut store, 1, &spec(60));
            let mut left = BTreeMap::new();
            let mut next = 1;
            for (kind, length) in rows {
                let range = next..next + length;
                let tasks: IdSet = range.clone().collect();
                let state = if kind == 1 { TaskState::Failed } else { TaskState::Cancelled };
                let why = format!("as of {next}");
                if kind > 0 {
                    store.settle(job, &tasks, state, &why).unwrap();
                    left.extend(range.clone().map(|task| (task, (state, why.clone()))));
                }
                for task in range {
                    start(&mut store, attempt(job, task, 1));
                }
                next += length;
            }

            let opened: IdSet = opened.into_iter().collect();
            store.reopen(job, &opened).unwrap();
            left.retain(|task, _| !opened.contains(*task));
            prop_assert_eq!(settled(&store, job), left);
            let mut kept = IdSet::from_range(1, next - 1);
            kept.subtract(&opened);
            prop_assert_eq!(charged(&store, job), kept);
        }
    }
}
