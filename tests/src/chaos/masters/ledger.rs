//! What must be true, whatever happens to the masters: who has lost the store says nothing any more, what was
//! acknowledged is in the store of whoever has it then, and no number is used twice.

use std::collections::{BTreeMap, BTreeSet};

use ::master::engine::ObjectName;
use common::content::BlobHash;
use common::wire::worker::ToWorker;
use common::{AttemptId, JobId, RequestId, TaskId};
use rusqlite::Connection;
use uuid::Uuid;

/// All that was ever said.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The acknowledged jobs, by their requests, and the other way round.
    jobs: BTreeMap<RequestId, JobId>,
    requests: BTreeMap<JobId, RequestId>,
    /// Somebody has wanted them to be forgotten, and nobody has said for sure that they are kept.
    forgettable: BTreeSet<JobId>,
    /// They were forgotten, and somebody was told so ([`Ledger::on_forgotten`]).
    forgotten: BTreeSet<JobId>,
    /// Each attempt with the worker that it was given to.
    given: BTreeMap<AttemptId, usize>,
    /// The successes that workers have delivered, and those of them that a master has acknowledged.
    done: BTreeSet<AttemptId>,
    acknowledged: BTreeSet<TaskId>,
}

impl Ledger {
    /// A master acknowledges a submission.
    pub(super) fn on_submitted(&mut self, request: RequestId, job: JobId) -> Result<(), String> {
        match self.requests.insert(job, request) {
            Some(other) if other != request => {
                return Err(format!(
                    "job {job} is that of {other}, and then that of {request}"
                ));
            }
            _ => {}
        }
        match self.jobs.insert(request, job) {
            Some(other) if other != job && !self.forgettable.contains(&other) => {
                Err(format!("{request} is job {other}, and then job {job}"))
            }
            _ => Ok(()),
        }
    }

    /// Somebody wants a job to be forgotten.
    pub(super) fn on_forget(&mut self, job: JobId) {
        self.forgettable.insert(job);
    }

    /// A master says whether it has forgotten a job. Where it was asked for the first time, a job that it has not
    /// forgotten is kept; later it may say so of one that is gone, since the first answer was lost.
    pub(super) fn on_forgotten(&mut self, job: JobId, forgotten: bool, first: bool) {
        if forgotten {
            self.forgotten.insert(job);
        } else if first {
            self.forgettable.remove(&job);
        }
    }

    /// A worker has done an attempt.
    pub(super) fn on_done(&mut self, attempt: AttemptId) {
        self.done.insert(attempt);
    }

    /// A master says something to a worker.
    pub(super) fn on_said(&mut self, worker: usize, message: &ToWorker) -> Result<(), String> {
        match message {
            ToWorker::Assign(work) => {
                for attempt in work.iter().map(|work| work.attempt) {
                    match self.given.insert(attempt, worker) {
                        Some(other) if other != worker => {
                            return Err(format!(
                                "attempt {attempt:?} was given to worker {other}, and then to worker {worker}"
                            ));
                        }
                        _ => {}
                    }
                }
            }
            ToWorker::Acknowledged(attempts) => {
                let done = attempts
                    .iter()
                    .filter(|attempt| self.done.contains(attempt));
                self.acknowledged.extend(done.map(|attempt| attempt.task));
            }
            _ => {}
        }
        Ok(())
    }

    /// Looks through the store: what was acknowledged is there.
    pub(super) fn look(
        &self,
        store: &Connection,
        is_there: &dyn Fn(ObjectName) -> bool,
    ) -> Result<(), String> {
        look_at_content(store, is_there)?;
        let failed = |error: rusqlite::Error| format!("the store cannot be read: {error}");
        let mut by_request = store
            .prepare_cached("SELECT id FROM job WHERE request = $1")
            .map_err(failed)?;
        for (request, job) in &self.jobs {
            if self.forgettable.contains(job) {
                continue;
            }
            let request: &Uuid = &request.0;
            let found = by_request.query_row([request.as_bytes()], |row| row.get::<_, u32>(0));
            match found {
                Ok(found) if found == job.0 => {}
                Ok(found) => return Err(format!("job {job} was acknowledged, and is {found}")),
                Err(rusqlite::Error::QueryReturnedNoRows) => {
                    return Err(format!("job {job} was acknowledged, and is not there"));
                }
                Err(error) => return Err(failed(error)),
            }
        }

        let mut by_number = store
            .prepare_cached("SELECT count(*) FROM job WHERE id = $1")
            .map_err(failed)?;
        for job in &self.forgotten {
            let found = by_number.query_row([job.0], |row| row.get::<_, u32>(0));
            if found.map_err(failed)? > 0 {
                return Err(format!("job {job} was forgotten, and is there"));
            }
        }

        let mut results = store
            .prepare_cached(
                "SELECT count(*) FROM attempt WHERE job = $1 AND task = $2 AND state = 'finished'",
            )
            .map_err(failed)?;
        for task in &self.acknowledged {
            if self.forgettable.contains(&task.job) {
                continue;
            }
            let found = results.query_row([task.job.0, task.index], |row| row.get::<_, u32>(0));
            match found.map_err(failed)? {
                1 => {}
                0 => {
                    return Err(format!(
                        "the result of task {task} was acknowledged, and is not there"
                    ));
                }
                n => return Err(format!("task {task} has {n} results")),
            }
        }
        Ok(())
    }
}

/// The content that jobs need is in the bucket.
fn look_at_content(
    store: &Connection,
    is_there: &dyn Fn(ObjectName) -> bool,
) -> Result<(), String> {
    let failed = |error: rusqlite::Error| format!("the store cannot be read: {error}");
    let sql = "SELECT DISTINCT b.job, b.hash, c.generation FROM blob_use b
        LEFT JOIN content c ON c.hash = b.hash AND c.condemned IS NULL";
    let mut needed = store.prepare_cached(sql).map_err(failed)?;
    let mut rows = needed.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let read = || Ok((row.get::<_, u32>(0)?, row.get(1)?, row.get(2)?));
        let (job, hash, generation): (u32, [u8; 32], Option<i64>) = read().map_err(failed)?;
        let hash = BlobHash(hash);
        let generation = generation.unwrap_or_default();
        if !is_there(ObjectName { hash, generation }) {
            return Err(format!(
                "job {job} needs content that was deleted: {hash} {generation}"
            ));
        }
    }
    Ok(())
}
