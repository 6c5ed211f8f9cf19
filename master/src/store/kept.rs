//! The output of executed tasks that nobody has requested. It is kept for a while, and the oldest
//! is evicted first if it takes too much space; requested output is not evicted. The core sets the
//! limit on the space. The content itself is swept once no row names it.

use std::collections::BTreeMap;

use common::view::AttemptState;
use common::{AttemptId, Completion, IdSet, Incarnation, JobId, TaskId, Time};

use super::db::Db;
use super::value::{SqlRow, values};
use super::writer::Writer;
use super::{StoreResult, micros};

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
pub(super) fn kept_of(db: &Db, job: JobId) -> StoreResult<u64> {
    let sql = "SELECT COALESCE(CAST(SUM(bytes) AS BIGINT), 0) FROM kept WHERE job = $1";
    let bytes: i64 = db.one_value(sql, values![job.0])?;
    Ok(bytes.max(0) as u64)
}

impl Writer {
    /// Whether this task of a disclosed job has no request.
    pub(crate) fn is_unrequested(&self, task: TaskId) -> StoreResult<bool> {
        Ok(!self.db().is_in_range("request", task)?)
    }

    /// Stores the end of a completed attempt whose task is not requested, with its result. Its output can be
    /// evicted until somebody requests the task. Returns the size of the output in bytes.
    pub(crate) fn keep_back(
        &mut self,
        completion: &Completion,
        state: AttemptState,
        ended: Time,
        user: &str,
        now: Time,
    ) -> StoreResult<u64> {
        self.attempt_left(completion, state, ended)?;
        let AttemptId {
            task: TaskId { job, index },
            number,
            ..
        } = completion.attempt;
        let bytes = bytes_left(completion);
        if bytes == 0 && completion.blobs().next().is_none() {
            return Ok(0);
        }

        self.change(
            "INSERT INTO kept (job, task, number, \"user\", at, bytes) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (job, task, number) DO UPDATE SET \"user\" = excluded.\"user\", at = excluded.at,
             bytes = excluded.bytes",
            values![job.0, index, number, user, micros(now), bytes],
        )?;
        for blob in completion.blobs() {
            let sql = "INSERT INTO kept_blob (job, task, number, hash) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            self.change(sql, values![job.0, index, number, blob.hash.0])?;
        }

        Ok(bytes)
    }

    /// The size of the kept unrequested output of each user, in bytes.
    pub(crate) fn kept_by_user(&self) -> StoreResult<BTreeMap<String, u64>> {
        let sql = "SELECT \"user\", CAST(SUM(bytes) AS BIGINT) FROM kept
                   WHERE job NOT IN (SELECT job FROM forgotten) GROUP BY \"user\"";
        self.db().all(sql, &[], |row| {
            Ok((row.get(0)?, row.get::<i64>(1)?.max(0) as u64))
        })
    }

    /// The size of a job's kept unrequested output, in bytes.
    pub(crate) fn kept_of(&self, job: JobId) -> StoreResult<u64> {
        kept_of(self.db(), job)
    }

    /// Protects the output of these tasks from eviction, since they were requested: their content
    /// moves from `kept_blob` to `blob_use`. Returns its size in bytes.
    pub(crate) fn release(&mut self, job: JobId, tasks: &IdSet) -> StoreResult<u64> {
        let mut bytes = 0;
        for (first, last) in tasks.ranges() {
            let key = values![job.0, first, last];
            let sql = "SELECT COALESCE(CAST(SUM(bytes) AS BIGINT), 0) FROM kept WHERE job = $1 AND task BETWEEN $2 AND $3";
            let kept: i64 = self.db().one_value(sql, key)?;
            bytes += kept.max(0) as u64;

            let needed = "INSERT INTO blob_use (hash, job)
                          SELECT hash, job FROM kept_blob WHERE job = $1 AND task BETWEEN $2 AND $3 ON CONFLICT DO NOTHING";
            self.change(needed, key)?;
            self.change(
                "DELETE FROM kept_blob WHERE job = $1 AND task BETWEEN $2 AND $3",
                key,
            )?;
            self.change(
                "DELETE FROM kept WHERE job = $1 AND task BETWEEN $2 AND $3",
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
    ) -> StoreResult<Option<Removed>> {
        let oldest = match user {
            Some(_) => {
                "SELECT job, task, number, \"user\", bytes FROM kept WHERE \"user\" = $1
                 AND job NOT IN (SELECT job FROM forgotten) ORDER BY at, job, task, number"
            }
            None => {
                "SELECT job, task, number, \"user\", bytes FROM kept WHERE CAST($1 AS TEXT) IS NULL
                 AND job NOT IN (SELECT job FROM forgotten) ORDER BY at, job, task, number"
            }
        };

        let read = |row: &SqlRow<'_>| {
            let task = TaskId::new(JobId(row.get(0)?), row.get(1)?);
            let attempt = AttemptId {
                task,
                number: row.get(2)?,
                incarnation: Incarnation(0),
            };
            Ok(Removed {
                attempt,
                user: row.get(3)?,
                bytes: row.get::<i64>(4)?.max(0) as u64,
            })
        };

        let oldest = format!("{oldest} LIMIT 1");
        let Some(found) = self.db().first(&oldest, values![user], read)? else {
            return Ok(None);
        };
        let AttemptId { task, number, .. } = found.attempt;
        let key = values![task.job.0, task.index, number];
        self.change(
            "UPDATE attempt SET result = NULL, removed = $1 WHERE job = $2 AND task = $3 AND number = $4",
            values![micros(now), task.job.0, task.index, number],
        )?;
        self.change(
            "DELETE FROM kept_blob WHERE job = $1 AND task = $2 AND number = $3",
            key,
        )?;
        self.change(
            "DELETE FROM kept WHERE job = $1 AND task = $2 AND number = $3",
            key,
        )?;

        Ok(Some(found))
    }

    /// The finished tasks among `tasks` whose results were evicted, each with its highest attempt
    /// number.
    pub(crate) fn removed(&self, job: JobId, tasks: &IdSet) -> StoreResult<Vec<(u32, u32)>> {
        let mut all = Vec::new();
        let sql =
            "SELECT task, (SELECT MAX(number) FROM attempt n WHERE n.job = a.job AND n.task = a.task) FROM attempt a
             WHERE job = $1 AND task BETWEEN $2 AND $3 AND state = 'finished' AND removed IS NOT NULL ORDER BY task";
        for (first, last) in tasks.ranges() {
            self.db().each(sql, values![job.0, first, last], |row| {
                all.push((row.get(0)?, row.get(1)?));
                Ok(())
            })?;
        }
        Ok(all)
    }

    /// Reopens a task whose result was evicted. Its attempt becomes lost, without counting against
    /// the task.
    pub(crate) fn result_is_gone(&mut self, job: JobId, task: u32) -> StoreResult<()> {
        self.change(
            "UPDATE attempt SET state = 'lost', charged = FALSE WHERE job = $1 AND task = $2 AND state = 'finished'
             AND removed IS NOT NULL",
            values![job.0, task],
        )
    }
}
