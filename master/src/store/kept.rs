//! The output of executed tasks that nobody has requested. It is kept for a while, and the oldest
//! is evicted first if it takes too much space; requested output is not evicted. The core sets the
//! limit on the space. The content itself is swept once no row names it.

use std::collections::BTreeMap;

use common::{AttemptId, Completion, IdSet, Incarnation, JobId, TaskId, Time};
use rusqlite::{Connection, OptionalExtension, params};

use super::writer::Writer;
use super::{StoreError, micros};

/// The output of one attempt that [`Writer::remove_oldest`] evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Removed {
    /// The attempt.
    pub(crate) attempt: AttemptId,
    /// The attempt's user.
    pub(crate) user: String,
    /// The size of the output, in bytes.
    pub(crate) bytes: u64,
}

/// The size of an attempt's output, in bytes. Content that several attempts left counts for each.
pub(crate) fn bytes_left(completion: &Completion) -> u64 {
    let streams = [&completion.stdout, &completion.stderr]
        .into_iter()
        .map(|stream| stream.content.size());
    streams
        .chain(completion.outputs.iter().map(|file| file.blob.size))
        .fold(0, u64::saturating_add)
}

/// The size of a job's output that is kept though nobody has requested it, in bytes.
pub(super) fn kept_of(db: &Connection, job: JobId) -> Result<u64, StoreError> {
    let sql = "SELECT COALESCE(SUM(bytes), 0) FROM kept WHERE job = ?";
    Ok(db
        .prepare_cached(sql)?
        .query_row([job.0], |row| row.get::<_, i64>(0))?
        .max(0) as u64)
}

impl Writer {
    /// Whether this task of a disclosed job has no request.
    pub(crate) fn is_unrequested(&self, task: TaskId) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM request WHERE job = ?1 AND ?2 BETWEEN first AND last";
        Ok(!self
            .db()
            .prepare_cached(sql)?
            .exists((task.job.0, task.index))?)
    }

    /// Stores the result of a completed attempt whose task is not requested. Its output can be
    /// evicted until somebody requests the task. Returns the size of the output in bytes.
    pub(crate) fn keep_back(
        &mut self,
        completion: &Completion,
        ended: Time,
        user: &str,
        now: Time,
    ) -> Result<u64, StoreError> {
        self.attempt_left(completion, ended)?;
        let AttemptId {
            task: TaskId { job, index },
            number,
            ..
        } = completion.attempt;
        let bytes = bytes_left(completion);
        if bytes == 0 && completion.blobs().next().is_none() {
            return Ok(0);
        }

        let count = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.change(
            "INSERT OR REPLACE INTO kept (job, task, number, user, at, bytes) VALUES (?, ?, ?, ?, ?, ?)",
            params![job.0, index, number, user, micros(now), count],
        )?;
        for blob in completion.blobs() {
            let sql =
                "INSERT OR IGNORE INTO kept_blob (job, task, number, hash) VALUES (?, ?, ?, ?)";
            self.change(sql, params![job.0, index, number, blob.hash.0])?;
        }

        Ok(bytes)
    }

    /// The size of the kept unrequested output of each user, in bytes.
    pub(crate) fn kept_by_user(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let mut query = self
            .db()
            .prepare("SELECT user, SUM(bytes) FROM kept GROUP BY user")?;
        let sums = query.query_map([], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.max(0) as u64))
        })?;
        Ok(sums.collect::<Result<_, _>>()?)
    }

    /// The size of a job's kept unrequested output, in bytes.
    pub(crate) fn kept_of(&self, job: JobId) -> Result<u64, StoreError> {
        kept_of(self.db(), job)
    }

    /// Protects the output of these tasks from eviction, since they were requested: their content
    /// moves from `kept_blob` to `blob_use`. Returns its size in bytes.
    pub(crate) fn release(&mut self, job: JobId, tasks: &IdSet) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for (first, last) in tasks.ranges() {
            let key = (job.0, first, last);
            let sql =
                "SELECT COALESCE(SUM(bytes), 0) FROM kept WHERE job = ? AND task BETWEEN ? AND ?";
            bytes += self
                .db()
                .prepare_cached(sql)?
                .query_row(key, |row| row.get::<_, i64>(0))?
                .max(0) as u64;

            let needed = "INSERT OR IGNORE INTO blob_use (hash, job)
                          SELECT hash, job FROM kept_blob WHERE job = ? AND task BETWEEN ? AND ?";
            self.change(needed, key)?;
            self.change(
                "DELETE FROM kept_blob WHERE job = ? AND task BETWEEN ? AND ?",
                key,
            )?;
            self.change(
                "DELETE FROM kept WHERE job = ? AND task BETWEEN ? AND ?",
                key,
            )?;
        }

        Ok(bytes)
    }

    /// Evicts the unrequested output that has been kept longest, of `user` or, with `None`, of all
    /// users. Returns `None` if nothing is kept. Its content is swept once the eviction is durable.
    pub(crate) fn remove_oldest(
        &mut self,
        user: Option<&str>,
        now: Time,
    ) -> Result<Option<Removed>, StoreError> {
        let oldest = match user {
            Some(_) => {
                "SELECT job, task, number, user, bytes FROM kept WHERE user = ? ORDER BY at, job, task, number"
            }
            None => {
                "SELECT job, task, number, user, bytes FROM kept WHERE ?1 IS NULL ORDER BY at, job, task, number"
            }
        };

        let read = |row: &rusqlite::Row<'_>| {
            let task = TaskId::new(JobId(row.get(0)?), row.get(1)?);
            let attempt = AttemptId {
                task,
                number: row.get(2)?,
                incarnation: Incarnation(0),
            };
            Ok(Removed {
                attempt,
                user: row.get(3)?,
                bytes: row.get::<_, i64>(4)?.max(0) as u64,
            })
        };

        let oldest = format!("{oldest} LIMIT 1");
        let Some(found) = self
            .db()
            .prepare_cached(&oldest)?
            .query_row([user], read)
            .optional()?
        else {
            return Ok(None);
        };
        let key = (
            found.attempt.task.job.0,
            found.attempt.task.index,
            found.attempt.number,
        );
        self.change(
            "UPDATE attempt SET result = NULL, removed = ? WHERE job = ? AND task = ? AND number = ?",
            params![micros(now), key.0, key.1, key.2],
        )?;
        self.change(
            "DELETE FROM kept_blob WHERE job = ? AND task = ? AND number = ?",
            key,
        )?;
        self.change(
            "DELETE FROM kept WHERE job = ? AND task = ? AND number = ?",
            key,
        )?;

        Ok(Some(found))
    }

    /// The finished tasks among `tasks` whose results were evicted, each with its highest attempt
    /// number.
    pub(crate) fn removed(&self, job: JobId, tasks: &IdSet) -> Result<Vec<(u32, u32)>, StoreError> {
        let mut all = Vec::new();
        let mut query = self.db().prepare_cached(
            "SELECT task, (SELECT MAX(number) FROM attempt n WHERE n.job = a.job AND n.task = a.task) FROM attempt a
             WHERE job = ? AND task BETWEEN ? AND ? AND state = 'finished' AND removed IS NOT NULL ORDER BY task",
        )?;
        for (first, last) in tasks.ranges() {
            let rows =
                query.query_map((job.0, first, last), |row| Ok((row.get(0)?, row.get(1)?)))?;
            all.extend(rows.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(all)
    }

    /// Reopens a task whose result was evicted. Its attempt becomes lost, without counting against
    /// the task.
    pub(crate) fn result_is_gone(&mut self, job: JobId, task: u32) -> Result<(), StoreError> {
        self.change(
            "UPDATE attempt SET state = 'lost', charged = 0 WHERE job = ? AND task = ? AND state = 'finished'
             AND removed IS NOT NULL",
            (job.0, task),
        )
        .map(drop)
    }
}
