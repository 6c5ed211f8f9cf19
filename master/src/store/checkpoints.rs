//! Checkpoints: the one from which each open task continues, and for each attempt the one it
//! started from and the newest one it saved.

use std::collections::BTreeSet;

use common::checkpoint::Saved;
use common::content::BlobHash;
use common::{AttemptId, BlobRef, HostId, IdSet, JobId, TaskId};

use super::db::Db;
use super::reader::Reader;
use super::value::values;
use super::writer::Writer;
use super::{StoreResult, to_postcard};

impl Writer {
    /// The checkpoint from which an open task continues.
    pub(crate) fn checkpoint(&self, task: TaskId) -> StoreResult<Option<Saved>> {
        let sql = "SELECT saved FROM checkpoint WHERE job = $1 AND task = $2";
        let key = values![task.job.0, task.index];
        self.db().first(sql, key, |row| row.decoded(0))
    }

    /// Whether a checkpoint of this attempt is still of use: the attempt was assigned to this host,
    /// and its task is open.
    pub(crate) fn wants_checkpoint(&self, attempt: AttemptId, host: HostId) -> StoreResult<bool> {
        let AttemptId {
            task: TaskId { job, index },
            number,
            incarnation,
        } = attempt;
        let given = "SELECT 1 FROM attempt WHERE job = $1 AND task = $2 AND number = $3 AND incarnation = $4 AND host = $5";
        let given = self
            .db()
            .exists(given, values![job.0, index, number, incarnation.0, host.0,])?;

        let done = "SELECT 1 FROM attempt WHERE job = $1 AND task = $2 AND state = 'finished'";
        let settled = self.db().exists(done, values![job.0, index])?
            || self.db().is_in_range("settled", attempt.task)?;
        Ok(given && !settled)
    }

    /// Stores a complete checkpoint as the newest of its attempt. It also becomes its task's
    /// checkpoint if the task has none or if `goes_further` prefers it. Returns whether the task
    /// now continues from it.
    pub(crate) fn keep_checkpoint(
        &mut self,
        attempt: AttemptId,
        saved: &Saved,
        blobs: &[BlobHash],
    ) -> StoreResult<bool> {
        let TaskId { job, index } = attempt.task;
        let bytes = to_postcard(saved)?;
        self.change(
            "UPDATE attempt SET saved = $1, checkpoint_problem = NULL WHERE job = $2 AND task = $3 AND number = $4",
            values![bytes, job.0, index, attempt.number],
        )?;
        if let Some(before) = self.checkpoint(attempt.task)?
            && !self.goes_further(attempt, saved, &before)?
        {
            return Ok(false);
        }
        self.change(
            "DELETE FROM checkpoint_blob WHERE job = $1 AND task = $2",
            values![job.0, index],
        )?;

        self.change(
            "INSERT INTO checkpoint (job, task, saved) VALUES ($1, $2, $3)
             ON CONFLICT (job, task) DO UPDATE SET saved = excluded.saved",
            values![job.0, index, bytes],
        )?;
        for hash in blobs.iter().chain([&saved.manifest.hash]) {
            self.change(
                "INSERT INTO checkpoint_blob (job, task, hash) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                values![job.0, index, hash.0],
            )?;
        }

        Ok(true)
    }

    /// Whether an attempt's checkpoint `saved` may replace the task's checkpoint `before`. It may
    /// if it is a later one of the same attempt, or if its attempt started from `before`. If the
    /// attempt that saved `before` has ended, a live attempt that started from any checkpoint of
    /// the task will do too. An attempt that started from scratch does not replace the checkpoint
    /// of another.
    fn goes_further(&self, attempt: AttemptId, saved: &Saved, before: &Saved) -> StoreResult<bool> {
        if before.number == saved.number {
            return Ok(before.sequence < saved.sequence);
        }

        let Some(from) = self.started_from(attempt)? else {
            return Ok(false);
        };
        let the_same = (from.number, from.sequence) == (before.number, before.sequence);
        Ok(the_same
            || (self.is_live(attempt.task, attempt.number)?
                && !self.is_live(attempt.task, before.number)?))
    }

    fn is_live(&self, TaskId { job, index }: TaskId, number: u32) -> StoreResult<bool> {
        let sql =
            "SELECT 1 FROM attempt WHERE job = $1 AND task = $2 AND number = $3 AND ended IS NULL";
        self.db().exists(sql, values![job.0, index, number])
    }

    /// Whether the checkpoint of an open task needs this content.
    pub(crate) fn state_needs(&self, task: TaskId, hash: &BlobHash) -> StoreResult<bool> {
        let sql = "SELECT 1 FROM checkpoint_blob WHERE job = $1 AND task = $2 AND hash = $3";
        self.db()
            .exists(sql, values![task.job.0, task.index, hash.0])
    }

    /// The checkpoint from which an attempt was to start.
    pub(crate) fn started_from(&self, attempt: AttemptId) -> StoreResult<Option<Saved>> {
        let TaskId { job, index } = attempt.task;
        let sql = "SELECT started_from FROM attempt WHERE job = $1 AND task = $2 AND number = $3";
        let key = values![job.0, index, attempt.number];
        let found = self.db().first(sql, key, |row| row.decoded_if_any(0))?;
        Ok(found.flatten())
    }

    /// Stores the checkpoint from which an attempt is to start.
    pub(crate) fn starts_from(&mut self, attempt: AttemptId, saved: &Saved) -> StoreResult<()> {
        let TaskId { job, index } = attempt.task;
        self.change(
            "UPDATE attempt SET started_from = $1 WHERE job = $2 AND task = $3 AND number = $4",
            values![to_postcard(saved)?, job.0, index, attempt.number],
        )
    }

    /// Stores the reason why an attempt's newest checkpoint was not saved.
    pub(crate) fn checkpoint_problem(&mut self, attempt: AttemptId, why: &str) -> StoreResult<()> {
        let TaskId { job, index } = attempt.task;
        let sql = "UPDATE attempt SET checkpoint_problem = $1 WHERE job = $2 AND task = $3 AND number = $4";
        self.change(sql, values![why, job.0, index, attempt.number])
    }

    /// Notes that an attempt did not start from its checkpoint, and adds `why` to the reason of its
    /// start. A second call changes nothing.
    pub(crate) fn started_from_scratch(
        &mut self,
        attempt: AttemptId,
        why: &str,
    ) -> StoreResult<()> {
        let TaskId { job, index } = attempt.task;
        self.change(
            "UPDATE attempt SET start_why = start_why || '; ' || $1, started_from = NULL
             WHERE job = $2 AND task = $3 AND number = $4 AND started_from IS NOT NULL",
            values![why, job.0, index, attempt.number],
        )
    }

    /// Removes the checkpoints of tasks that are settled. Their content is swept later.
    pub(crate) fn drop_checkpoints(&mut self, job: JobId, tasks: &IdSet) -> StoreResult<()> {
        for (first, last) in tasks.ranges() {
            for table in ["checkpoint", "checkpoint_blob"] {
                self.change(
                    &format!("DELETE FROM {table} WHERE job = $1 AND task BETWEEN $2 AND $3"),
                    values![job.0, first, last],
                )?;
            }
        }
        Ok(())
    }
}

/// Returns the lists of files of checkpoints from which attempts were to start that have neither ended nor
/// saved one of their own, where their tasks continue from later ones: `checkpoint_blob` has their content
/// no more. An attempt that has saved one has read the one that it started from.
pub(crate) fn earlier_starts(db: &Db) -> StoreResult<BTreeSet<BlobRef>> {
    let sql = "SELECT attempt.started_from FROM checkpoint
         JOIN attempt ON attempt.job = checkpoint.job AND attempt.task = checkpoint.task
         WHERE attempt.ended IS NULL AND attempt.saved IS NULL
             AND attempt.started_from <> checkpoint.saved";
    db.all(sql, &[], |row| Ok(row.decoded::<Saved>(0)?.manifest))
}

impl Reader {
    /// Returns what [`earlier_starts`] finds.
    pub(crate) fn earlier_starts(&self) -> StoreResult<BTreeSet<BlobRef>> {
        self.with(earlier_starts)
    }
}
