//! Reads lists for clients, beside the writer. With WAL each query sees the state as of some
//! commit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use common::content::BlobHash;
use common::view::{
    AttemptState, AttemptView, JobState, JobView, StandbyView, TaskCounts, TaskState,
};
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, JobSpec, TaskId, Time};

use rusqlite::OpenFlags;
use scheduler::effect::Judgement;

use super::db::Db;
use super::lite::connect;
use super::pg::{Database, Pg};
use super::restore::labels_of;
use super::value::{SqlRow, SqlValue, values};
use super::{
    AttemptResult, Promised, StoreError, StoreResult, from_postcard, order, span, time, word,
};
use crate::locked;

/// A handle to read the store from any thread. A clone shares the pool of idle connections.
#[derive(Clone)]
pub(crate) struct Reader {
    place: Arc<StorePlace>,
    pool: Arc<(Mutex<ReaderPool>, Condvar)>,
    specs: Arc<Mutex<SpecsInUse>>,
    /// The most connections at a time.
    most: usize,
}

/// The connections of readers.
#[derive(Default)]
struct ReaderPool {
    idle: Vec<Db>,
    /// The number of those in use.
    out: usize,
}

/// The place of a question among the connections in use, which is free again once this is dropped.
struct PlaceInPool<'a>(&'a (Mutex<ReaderPool>, Condvar));

impl Drop for PlaceInPool<'_> {
    fn drop(&mut self) {
        let (pool, given_back) = self.0;
        locked(pool).out -= 1;
        given_back.notify_one();
    }
}

/// The specs that somebody still uses, each with the number of the job's tasks when it was read: only that
/// changes them. One that many use is in memory once.
type SpecsInUse = BTreeMap<JobId, (i64, Weak<JobSpec>)>;

/// The most connections of readers to a database: each is a process there.
const DATABASE_READERS: usize = 8;

/// The most attempts that one question reads.
const ATTEMPTS: usize = 10_000;

/// The question for attempts of a job, as [`attempt_row`] reads them.
const ATTEMPT_ROWS: &str = "SELECT task, number, incarnation, host, state, duplicate, assigned, started, ended, ran, cpu,
     suspended, exit_code, start_why, end_why, result, started_from, saved, checkpoint_problem, verdict, removed, charged
     FROM attempt WHERE job = $1 AND";

/// Where a store is.
enum StorePlace {
    /// In this file.
    File(PathBuf),
    /// In this database.
    Postgres(Database),
}

/// Tasks that were settled without success, for one reason.
pub(crate) struct SettledRow {
    /// The first of them.
    pub(crate) first: u32,
    /// The last of them.
    pub(crate) last: u32,
    /// `Failed` or `Cancelled`.
    pub(crate) state: TaskState,
    /// The reason, shown to users.
    pub(crate) why: String,
}

/// An attempt as the store has it.
pub(crate) struct AttemptRow {
    /// The host that it was assigned to.
    pub(crate) host: HostId,
    /// The attempt as clients see it; the host's name is left empty, and its reason is without the
    /// judgement.
    pub(crate) view: AttemptView,
    /// The judgement on its result, where results are compared.
    pub(crate) judgement: Option<Judgement>,
    /// Whether no retry that somebody asked for has come after it.
    pub(crate) charged: bool,
    /// The output of the attempt, if it has any; an error if the stored value is damaged.
    pub(crate) result: StoreResult<Option<AttemptResult>>,
    /// Whether the store has an output of it, also where `result` was let go.
    pub(crate) has_result: bool,
    /// Whether its result, if it has one, is the task's: others agree with it, or results are not
    /// compared.
    pub(crate) counts: bool,
    /// The time at which its output was evicted to make room, if it was.
    pub(crate) removed: Option<Time>,
}

/// The size of what the attempts of a task left.
pub(crate) struct ResultSize {
    /// The task's index.
    pub(crate) task: u32,
    /// The bytes that all of it takes in the store.
    pub(crate) bytes: u64,
    /// The number of its latest attempt.
    pub(crate) attempts: u32,
}

/// Returns the job's spec, where somebody uses it and it has not changed since.
fn same_spec(specs: &SpecsInUse, job: JobId, total: i64) -> Option<Arc<JobSpec>> {
    let (before, spec) = specs.get(&job)?;
    spec.upgrade().filter(|_| *before == total)
}

/// Reads a job's spec with all that was added to the job.
fn spec_as_grown(db: &Db, job: JobId) -> StoreResult<Option<JobSpec>> {
    let sql = "SELECT spec FROM job WHERE id = $1";
    let Some(mut spec) = db.first(sql, values![job.0], |row| row.decoded(0))? else {
        return Ok(None);
    };
    order::grown(db, job, &mut spec)?;
    Ok(Some(spec))
}

/// The columns that [`read_job`] reads, before those of `order::COLUMNS`.
pub(super) const JOB_COLUMNS: &str = "id, name, \"user\", state, policy, priority, total, finished, \
    failed, cancelled, attempts, duplicates, submitted, started, ended, predicted_makespan, reason, promise, ";

impl Reader {
    /// Makes a reader of the store in `dir`. It connects at the first query.
    pub(crate) fn new(dir: &Path) -> Self {
        #[cfg(test)]
        if let Some(place) = super::pg::of_tests(dir) {
            return Self::of(place);
        }
        let file = StorePlace::File(dir.join(super::lite::FILE));
        Self::at(file, usize::MAX)
    }

    /// Makes a reader of the store in a database. It connects at the first query.
    pub(crate) fn of(place: Database) -> Self {
        Self::at(StorePlace::Postgres(place), DATABASE_READERS)
    }

    /// The masters that stand by, where masters take the store from each other.
    pub(crate) fn standbys(&self) -> StoreResult<Option<Vec<StandbyView>>> {
        self.with(Db::standbys)
    }

    /// The bytes that the database of the store takes, with whatever else is in it; `None` of a file.
    pub(crate) fn database_bytes(&self) -> StoreResult<Option<u64>> {
        match &*self.place {
            StorePlace::File(_) => Ok(None),
            StorePlace::Postgres(_) => self.with(|db| {
                let sql = "SELECT pg_database_size(current_database())";
                let bytes: i64 = db.one_value(sql, &[])?;
                Ok(Some(bytes.max(0) as u64))
            }),
        }
    }

    fn at(place: StorePlace, most: usize) -> Self {
        Self {
            place: Arc::new(place),
            pool: Arc::default(),
            specs: Arc::default(),
            most,
        }
    }

    pub(super) fn with<T>(&self, query: impl FnOnce(&Db) -> StoreResult<T>) -> StoreResult<T> {
        let (pool, given_back) = &*self.pool;
        let pooled = {
            let full = |pool: &mut ReaderPool| pool.idle.is_empty() && pool.out >= self.most;
            let mut pool = given_back
                .wait_while(locked(pool), full)
                .unwrap_or_else(PoisonError::into_inner);
            pool.out += 1;
            pool.idle.pop()
        };

        let _place = PlaceInPool(&self.pool);
        let db = pooled.map_or_else(|| self.connect(), Ok)?;
        let answer = query(&db);
        locked(pool).idle.push(db);
        answer
    }

    /// The jobs that need this content.
    pub(crate) fn jobs_with(&self, hash: &BlobHash) -> StoreResult<IdSet> {
        self.with(|db| super::look::jobs_with(db, hash))
    }

    /// Asks on a connection of its own, for which all questions see one state.
    pub(super) fn with_snapshot<T>(
        &self,
        query: impl FnOnce(&Db) -> StoreResult<T>,
    ) -> StoreResult<T> {
        query(&match &*self.place {
            StorePlace::File(_) => self.connect()?,
            StorePlace::Postgres(place) => Db::Pg(Pg::snapshot(place)?),
        })
    }

    fn connect(&self) -> StoreResult<Db> {
        match &*self.place {
            StorePlace::File(path) => connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map(Db::Lite),
            StorePlace::Postgres(place) => Ok(Db::Pg(Pg::reader(place.clone()))),
        }
    }

    /// The jobs of `user`, or all jobs with `None`. With `shared` the jobs that are shared with
    /// that user are included.
    pub(crate) fn job_ids(&self, user: Option<&str>, shared: bool) -> StoreResult<IdSet> {
        self.with(|db| match user {
            None => ids(db, "SELECT id FROM job", &[]),
            Some(user) if shared => ids(
                db,
                "SELECT id FROM job WHERE \"user\" = $1 UNION SELECT job FROM share WHERE \"user\" = $1",
                values![user],
            ),
            Some(user) => ids(db, "SELECT id FROM job WHERE \"user\" = $1", values![user]),
        })
    }

    /// The same as `job_ids`, but only those among `jobs`. The cost does not depend on the number
    /// of other jobs.
    pub(crate) fn job_ids_of(
        &self,
        jobs: &IdSet,
        user: Option<&str>,
        shared: bool,
    ) -> StoreResult<IdSet> {
        let sql = "SELECT id FROM job WHERE id BETWEEN $1 AND $2 AND (CAST($3 AS TEXT) IS NULL OR \"user\" = $3 OR
                   ($4 AND EXISTS (SELECT 1 FROM share WHERE share.job = job.id AND share.\"user\" = $3)))";
        self.with(|db| {
            let mut found = IdSet::default();
            for (first, last) in jobs.ranges() {
                found.union_with(&ids(db, sql, values![first, last, user, shared])?);
            }
            Ok(found)
        })
    }

    /// The jobs that are shared with a user.
    pub(crate) fn shared_with(&self, user: &str) -> StoreResult<IdSet> {
        self.with(|db| {
            ids(
                db,
                "SELECT job FROM share WHERE \"user\" = $1",
                values![user],
            )
        })
    }

    /// The job as the store has it. If it is not settled, its counts are not up to date.
    pub(crate) fn job(&self, job: JobId) -> StoreResult<Option<JobView>> {
        self.with(|db| job_view(db, job))
    }

    /// The job's spec, as submitted, with the tasks added since.
    pub(crate) fn spec(&self, job: JobId) -> StoreResult<Option<Arc<JobSpec>>> {
        self.with(|db| {
            let sql = "SELECT total FROM job WHERE id = $1";
            let Some(total) = db.value(sql, values![job.0])? else {
                return Ok(None);
            };
            let in_use = |specs: &SpecsInUse| same_spec(specs, job, total);
            if let Some(spec) = in_use(&locked(&self.specs)) {
                return Ok(Some(spec));
            }

            let read = spec_as_grown(db, job);
            let read =
                read.map_err(|error| error.of(|| format!("what was submitted as job {job}")))?;
            let mut specs = locked(&self.specs);
            // Another one may have read it meanwhile.
            let spec = in_use(&specs).or_else(|| read.map(Arc::new));
            specs.retain(|_, (_, spec)| spec.strong_count() > 0);
            if let Some(spec) = &spec {
                specs.insert(job, (total, Arc::downgrade(spec)));
            }
            Ok(spec)
        })
    }

    /// Tasks that were settled without success.
    pub(crate) fn settled(&self, job: JobId) -> StoreResult<Vec<SettledRow>> {
        self.with(|db| settled_rows(db, job))
    }

    /// The first `most` live attempts of the job that were started as copies, each with its host
    /// and the reason of its start.
    pub(crate) fn live_duplicates(
        &self,
        job: JobId,
        most: u32,
    ) -> StoreResult<Vec<(AttemptId, HostId, String)>> {
        self.with(|db| {
            let sql = "SELECT task, number, incarnation, host, start_why FROM attempt
                       WHERE job = $1 AND duplicate AND ended IS NULL ORDER BY task, number LIMIT $2";
            db.all(sql, values![job.0, most], |row| {
                let attempt = attempt_id(job, row)?;
                Ok((attempt, HostId(row.get(3)?), row.get(4)?))
            })
        })
    }

    /// Calls `each` for every attempt of a range of tasks (first and last index), in the order of
    /// tasks and attempt numbers.
    pub(crate) fn attempts(
        &self,
        job: JobId,
        tasks: (u32, u32),
        mut each: impl FnMut(AttemptRow),
    ) -> StoreResult<()> {
        self.with(|db| {
            let sql = format!("{ATTEMPT_ROWS} task BETWEEN $2 AND $3 ORDER BY task, number");
            db.each(&sql, values![job.0, tasks.0, tasks.1], |row| {
                each(attempt_row(job, row)?);
                Ok(())
            })
        })
    }

    /// Calls `each` for every attempt of one task whose number is in this range, in their order.
    pub(crate) fn attempts_of(
        &self,
        task: TaskId,
        numbers: (u32, u32),
        mut each: impl FnMut(AttemptRow),
    ) -> StoreResult<()> {
        let TaskId { job, index } = task;
        self.with(|db| {
            let sql =
                format!("{ATTEMPT_ROWS} task = $2 AND number BETWEEN $3 AND $4 ORDER BY number");
            db.each(&sql, values![job.0, index, numbers.0, numbers.1], |row| {
                each(attempt_row(job, row)?);
                Ok(())
            })
        })
    }

    /// Returns the sizes of what a range of tasks (first and last index) left, for those that have attempts.
    pub(crate) fn result_sizes(
        &self,
        job: JobId,
        tasks: (u32, u32),
    ) -> StoreResult<Vec<ResultSize>> {
        let sql = "SELECT task, SUM(LENGTH(result)), MAX(number) FROM attempt
                   WHERE job = $1 AND task BETWEEN $2 AND $3 GROUP BY task ORDER BY task";
        self.with(|db| {
            db.all(sql, values![job.0, tasks.0, tasks.1], |row| {
                let bytes = row.get::<Option<i64>>(1)?.unwrap_or_default();
                Ok(ResultSize {
                    task: row.get(0)?,
                    bytes: bytes.max(0) as u64,
                    attempts: row.get(2)?,
                })
            })
        })
    }
}

/// Reads an [`AttemptId`] of a job from the first three columns of a row.
pub(super) fn attempt_id(job: JobId, row: &SqlRow<'_>) -> StoreResult<AttemptId> {
    Ok(AttemptId {
        task: TaskId::new(job, row.get(0)?),
        number: row.get(1)?,
        incarnation: Incarnation(row.get(2)?),
    })
}

fn attempt_row(job: JobId, row: &SqlRow<'_>) -> StoreResult<AttemptRow> {
    let attempt = attempt_id(job, row)?;
    let (start_why, end_why): (String, Option<String>) = (row.get(13)?, row.get(14)?);
    let judgement = super::results::judgement(row.get(19)?)?;
    let removed = row.get::<Option<i64>>(20)?.map(time);
    let gone =
        removed.map(|_| "what it left was removed before anybody had requested it".to_owned());
    let stored = row.get::<Option<Vec<u8>>>(15)?;
    let has_result = stored.is_some();
    let result = stored.map(|bytes| from_postcard(&bytes)).transpose();
    let result =
        result.map_err(|error: StoreError| error.of(|| format!("what attempt {attempt} left")));

    let left = result
        .as_ref()
        .ok()
        .and_then(|result: &Option<AttemptResult>| result.as_ref());
    let confined = left.and_then(|result| result.confined);
    let warned = left.map(|result| result.warnings.join("; "));
    // Beside the start, not the end: by that failures are summed up.
    let start_why = match confined {
        Some(confined) => format!("{start_why}, {confined}"),
        None => start_why,
    };
    let said = [
        Some(start_why),
        end_why,
        warned.filter(|warned| !warned.is_empty()),
        gone,
    ];

    let view = AttemptView {
        attempt,
        host: String::new(),
        state: word::<AttemptState>(&row.get::<String>(4)?)?,
        duplicate: row.get(5)?,
        assigned: time(row.get(6)?),
        started: row.get::<Option<i64>>(7)?.map(time),
        finished: row.get::<Option<i64>>(8)?.map(time),
        ran: span(row.get(9)?),
        cpu: span(row.get(10)?),
        suspended: span(row.get(11)?),
        suspended_since: None,
        exit_code: row.get(12)?,
        reason: Some(said.into_iter().flatten().collect::<Vec<_>>().join("; ")),
        started_from: row.decoded_if_any(16)?,
        saved: row.decoded_if_any(17)?,
        checkpoint_problem: row.get(18)?,
        belief: judgement.map(|judgement| judgement.word().0),
        progress: None,
        words: None,
    };

    let counts = super::results::counts(judgement, attempt.number);
    Ok(AttemptRow {
        host: HostId(row.get(3)?),
        view,
        judgement,
        charged: row.get(21)?,
        result,
        has_result,
        counts,
        removed,
    })
}

pub(super) fn settled_rows(db: &Db, job: JobId) -> StoreResult<Vec<SettledRow>> {
    let sql = "SELECT first, last, state, why FROM settled WHERE job = $1 ORDER BY first";
    db.all(sql, values![job.0], |row| {
        Ok(SettledRow {
            first: row.get(0)?,
            last: row.get(1)?,
            state: word(&row.get::<String>(2)?)?,
            why: row.get(3)?,
        })
    })
}

/// Returns those tasks of these rows whose state is a wanted one.
pub(super) fn tasks_of(rows: &[SettledRow], wanted: impl Fn(TaskState) -> bool) -> IdSet {
    let rows = rows.iter().filter(|row| wanted(row.state));
    IdSet::from_ranges(rows.map(|row| (row.first, row.last)).collect())
}

pub(super) fn ids(db: &Db, sql: &str, values: &[SqlValue<'_>]) -> StoreResult<IdSet> {
    db.all(sql, values, |row| row.get::<u32>(0))
}

/// Calls `each` for the attempts of a job to which `filter` applies, by task and number, which are the
/// first two columns of the row; `columns` follow. They are read in portions, between which a master whose
/// store is a database shows that it lives.
pub(super) fn each_attempt(
    db: &Db,
    job: JobId,
    (columns, filter): (&str, &str),
    mut each: impl FnMut(&SqlRow<'_>) -> StoreResult<()>,
) -> StoreResult<()> {
    let sql = format!(
        "SELECT task, number{columns} FROM attempt WHERE job = $1 AND (task, number) > ($2, $3) AND {filter}
         ORDER BY task, number LIMIT {ATTEMPTS}"
    );

    let mut last = (-1_i64, -1_i64);
    loop {
        let mut read = 0;
        let (task, number) = last;
        db.each(&sql, values![job.0, task, number], |row| {
            read += 1;
            last = (row.get(0)?, row.get(1)?);
            each(row)
        })?;
        if read < ATTEMPTS {
            return Ok(());
        }
    }
}

pub(super) fn finished_tasks(db: &Db, job: JobId) -> StoreResult<IdSet> {
    let filter = "state = 'finished' AND (verdict IS NULL OR verdict LIKE 'alone %' OR verdict = 'agreed ' || number)";
    let mut finished = Vec::new();
    each_attempt(db, job, ("", filter), |row| {
        finished.push(row.get::<u32>(0)?);
        Ok(())
    })?;
    Ok(finished.into_iter().collect())
}

pub(super) fn job_view(db: &Db, job: JobId) -> StoreResult<Option<JobView>> {
    let sql = format!(
        "SELECT {JOB_COLUMNS}{} FROM job WHERE id = $1",
        order::COLUMNS
    );
    db.first(&sql, values![job.0], read_job)
}

pub(super) fn read_job(row: &SqlRow<'_>) -> StoreResult<JobView> {
    let count = |i: usize| row.get::<i64>(i).map(|n| n.max(0) as u64);
    let mut tasks = TaskCounts {
        total: count(6)?,
        finished: count(7)?,
        failed: count(8)?,
        cancelled: count(9)?,
        ..TaskCounts::default()
    };
    tasks.waiting = tasks.total.saturating_sub(tasks.settled());

    let state = word::<JobState>(&row.get::<String>(3)?)?;
    let finished = row.get::<Option<i64>>(14)?.map(time);
    let promised: Option<Promised> = row.decoded_if_any(17)?;
    let promise = promised
        .as_ref()
        .zip(finished)
        .map(|(promised, ended)| promised.settled(state, ended, &tasks));
    Ok(JobView {
        job: JobId(row.get(0)?),
        name: row.get(1)?,
        user: row.get(2)?,
        state,
        policy: row.get(4)?,
        priority: row.get(5)?,
        tasks,
        attempts: count(10)?,
        duplicates: count(11)?,
        submitted: time(row.get(12)?),
        started: row.get::<Option<i64>>(13)?.map(time),
        finished,
        predicted: None,
        predicted_makespan: row.get::<Option<i64>>(15)?.map(span),
        reason: row.get(16)?,
        promise,
        limits: promised.and_then(|promised| promised.limits),
        starts: None,
        width: None,
        progress: None,
        labels: labels_of(&row.get::<Option<String>>(18)?.unwrap_or_default()),
        after: order::after_of(row.get(19)?)?,
        open: row.get(20)?,
        needs: row.get(21)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::open;
    use super::*;

    #[test]
    fn a_question_that_panics_keeps_no_place() {
        let dir = tempfile::tempdir().unwrap();
        let _store = open(&dir);
        let reader = Reader {
            most: 1,
            ..Reader::new(dir.path())
        };
        let asked = reader.clone();
        let asking =
            std::thread::spawn(move || asked.with::<()>(|_| panic!("a question of a test")));
        assert!(asking.join().is_err());

        assert_eq!(locked(&reader.pool.0).out, 0);
        assert!(reader.with(|_| Ok(())).is_ok(), "the next one is answered");
    }
}
