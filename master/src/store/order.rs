//! Labels of jobs, the order between jobs, and what was added to open jobs.

use std::collections::BTreeSet;

use common::needs::Label;
use common::view::{AfterView, JobState};
use common::{After, IdSet, JobId, JobSpec, RequestId, TaskSet, Time};

use super::db::Db;
use super::value::{SqlRow, values};
use super::writer::Writer;
use super::{Reader, StoreError, StoreResult, from_postcard, micros, reader, to_postcard, word};

/// The columns of a job's view with its labels and what `after_of` reads, whether it is open, and its needs.
pub(super) const COLUMNS: &str = "(SELECT string_agg(label, ',') FROM job_label WHERE job_label.job = job.id), \
    (SELECT string_agg(before || ':' || how || ':' || CASE WHEN met THEN 1 ELSE 0 END, ',') FROM job_after \
     WHERE job_after.job = job.id), open, needs";

/// Tasks that were added to an open job.
pub(crate) struct NewAddition<'a> {
    /// The client's id for the addition.
    pub(crate) request: RequestId,
    /// BLAKE3 of the request.
    pub(crate) body_hash: [u8; 32],
    /// The user who adds them.
    pub(crate) user: &'a str,
    /// The job.
    pub(crate) job: JobId,
    /// The new tasks.
    pub(crate) tasks: &'a TaskSet,
    /// The time of the addition.
    pub(crate) now: Time,
}

/// The addition that an earlier request with the same id made.
pub(crate) struct KnownAddition {
    /// The job.
    pub(crate) job: JobId,
    /// BLAKE3 of the request.
    pub(crate) body_hash: [u8; 32],
    /// The user who made it.
    pub(crate) user: String,
    /// The indices of the tasks that it added.
    pub(crate) ids: IdSet,
}

/// A job that has to end before another one, as the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredAfter {
    /// The job that goes first, and the way in which it has to end.
    pub(crate) after: After,
    /// Whether it has ended since the other one was submitted.
    pub(crate) met: bool,
}

impl StoredAfter {
    /// Returns the view; `left` is filled in when it is shown.
    pub(crate) fn view(&self) -> AfterView {
        AfterView {
            job: self.after.job,
            how: self.after.how,
            left: None,
        }
    }
}

/// Reads the jobs before a job from their column.
pub(super) fn stored_after(column: Option<String>) -> StoreResult<Vec<StoredAfter>> {
    let text = column.unwrap_or_default();
    let one = |part: &str| {
        let (after, met) = part.rsplit_once(':')?;
        let after = after.parse().ok()?;
        Some(StoredAfter {
            after,
            met: met == "1",
        })
    };

    let parts = text.split(',').filter(|part| !part.is_empty());
    let read: Option<Vec<StoredAfter>> = parts.map(one).collect();
    let mut read = read.ok_or_else(|| StoreError::Content(format!("order `{text}`")))?;
    read.sort_unstable_by_key(|stored| stored.after);
    Ok(read)
}

/// The view of the jobs before a job, none of which is waited for.
pub(super) fn after_of(column: Option<String>) -> StoreResult<Vec<AfterView>> {
    let stored = stored_after(column)?;
    Ok(stored.iter().map(StoredAfter::view).collect())
}

/// Adds to a spec as it was submitted what was added to the job since. Returns the bytes of that.
pub(super) fn grown(db: &Db, job: JobId, spec: &mut JobSpec) -> StoreResult<u64> {
    let sql = "SELECT tasks FROM addition WHERE job = $1 ORDER BY number";
    let mut size = 0;
    db.each(sql, values![job.0], |row| {
        let bytes: Vec<u8> = row.get(0)?;
        size += bytes.len() as u64;
        spec.tasks.add(from_postcard(&bytes)?);
        Ok(())
    })?;
    Ok(size)
}

impl Writer {
    /// The state of a job and the number of its tasks, which is all that is read of it.
    pub(crate) fn state_of(&self, job: JobId) -> StoreResult<Option<(JobState, u64)>> {
        let sql = "SELECT state, total FROM job WHERE id = $1";
        self.db().first(sql, values![job.0], |row| {
            let total: i64 = row.get(1)?;
            Ok((word(&row.get::<String>(0)?)?, total.max(0) as u64))
        })
    }

    /// Stores a new job's labels, the jobs before it, and whether it is open.
    pub(crate) fn order_job(
        &mut self,
        job: JobId,
        labels: &BTreeSet<Label>,
        after: &[StoredAfter],
        open: bool,
    ) -> StoreResult<()> {
        for label in labels {
            self.change(
                "INSERT INTO job_label (label, job) VALUES ($1, $2)",
                values![label.as_str(), job.0],
            )?;
        }

        for StoredAfter { after, met } in after {
            self.change(
                "INSERT INTO job_after (job, before, how, met) VALUES ($1, $2, $3, $4)",
                values![job.0, after.job.0, after.how.to_string(), met],
            )?;
        }
        if open {
            self.set_open(job, true)
        } else {
            Ok(())
        }
    }

    /// Stores whether a job is open.
    pub(crate) fn set_open(&mut self, job: JobId, open: bool) -> StoreResult<()> {
        self.change(
            "UPDATE job SET open = $1 WHERE id = $2 AND open <> $1",
            values![open, job.0],
        )
    }

    /// Notes that a job has ended: no other one waits for it any more.
    pub(crate) fn job_ended(&mut self, before: JobId) -> StoreResult<()> {
        self.change(
            "UPDATE job_after SET met = TRUE WHERE before = $1 AND NOT met",
            values![before.0],
        )
    }

    /// Notes that a job waits for another one anew.
    pub(crate) fn wait_again(&mut self, job: JobId, before: JobId) -> StoreResult<()> {
        self.change(
            "UPDATE job_after SET met = FALSE WHERE job = $1 AND before = $2",
            values![job.0, before.0],
        )
    }

    /// The addition that a request with this id made before, if any.
    pub(crate) fn addition_of_request(
        &self,
        request: RequestId,
    ) -> StoreResult<Option<KnownAddition>> {
        let sql = "SELECT job, body_hash, \"user\", tasks FROM addition WHERE request = $1";
        let read = |row: &SqlRow<'_>| {
            Ok(KnownAddition {
                job: JobId(row.get(0)?),
                body_hash: row.get(1)?,
                user: row.get(2)?,
                ids: row.decoded::<TaskSet>(3)?.ids,
            })
        };
        self.db().first(sql, values![request.0.as_bytes()], read)
    }

    /// Adds tasks to a job. Returns the bytes that they take.
    pub(crate) fn add_tasks(&mut self, new: &NewAddition<'_>) -> StoreResult<u64> {
        let tasks = to_postcard(new.tasks)?;
        let size = tasks.len() as u64;
        self.change(
            "INSERT INTO addition (job, number, request, body_hash, \"user\", tasks, at)
             VALUES ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM addition WHERE job = $1), $2, $3, $4, $5, $6)",
            values![
                new.job.0,
                new.request.0.as_bytes(),
                new.body_hash,
                new.user,
                tasks,
                micros(new.now)
            ],
        )?;

        self.change(
            "UPDATE job SET total = total + $1 WHERE id = $2",
            values![new.tasks.ids.len(), new.job.0],
        )?;
        Ok(size)
    }
}

impl Reader {
    /// The jobs that have all of these labels and are the user's (`None`: anybody's), with those
    /// `shared` with that user where that is asked for.
    pub(crate) fn labelled(
        &self,
        labels: &BTreeSet<Label>,
        user: Option<&str>,
        shared: bool,
    ) -> StoreResult<IdSet> {
        let sql = "SELECT job.id FROM job_label JOIN job ON job.id = job_label.job WHERE label = $1 AND (CAST($2 AS TEXT) IS NULL OR
                   \"user\" = $2 OR ($3 AND EXISTS (SELECT 1 FROM share WHERE share.job = job.id AND share.\"user\" = $2)))";

        self.with(|db| {
            let mut found: Option<IdSet> = None;
            for label in labels {
                let with = reader::ids(db, sql, values![label.as_str(), user, shared])?;
                found = Some(found.map_or_else(|| with.clone(), |found| found.intersection(&with)));
            }
            Ok(found.unwrap_or_default())
        })
    }

    /// Those of `jobs` that have all of these labels.
    pub(crate) fn labelled_of(&self, jobs: &IdSet, labels: &BTreeSet<Label>) -> StoreResult<IdSet> {
        self.with(|db| {
            let sql = "SELECT label FROM job_label WHERE job = $1";
            let mut found = IdSet::new();

            for job in jobs.iter() {
                let there: BTreeSet<String> = db.all(sql, values![job], |row| row.get(0))?;
                if labels.iter().all(|label| there.contains(label.as_str())) {
                    found.insert(job);
                }
            }
            Ok(found)
        })
    }
}
