//! Makes every change to the store. Changes collect in one transaction until [`Writer::commit`].

use std::collections::HashMap;
use std::path::Path;

use common::attempt::Spent;
use common::host::HostFacts;
use common::view::{AttemptState, JobState, JobView};
use common::{
    AttemptId, BlobRef, Completion, HostId, JobId, JobSpec, RequestId, Span, TaskId, Time,
};

use super::db::{Db, SET_META};
use super::lite;
use super::log::{FileLogs, Logs};
use super::numbers::{LastNumbers, Numbered};
#[cfg(test)]
use super::pg::Database;
use super::reader::Reader;
use super::shadow::StoreShadow;
use super::value::{SqlRow, SqlValue, values};
use super::wait::StoreWait;
use super::{AttemptResult, Attendance, Mark, StoreError, StoreResult, micros, to_postcard};
use crate::laws::SafetyRules;

/// The one connection to the store that writes.
pub(crate) struct Writer {
    db: Db,
    open: bool,
    /// The number of transactions that were ever committed.
    commits: u64,
    /// The sequence number of the newest event.
    pub(super) newest_event: u64,
    /// The numbers that were given out.
    pub(super) numbers: LastNumbers,
    /// The hosts of attempts that were assigned in this run and have not ended, with when: each
    /// completion asks for them.
    live: HashMap<AttemptId, (HostId, Time)>,
    /// The mark that repeats this number beside the store, if one is kept.
    mark: Option<Mark>,
    /// The copy in which each change is made as well, in a simulated world.
    shadow: Option<StoreShadow>,
}

/// The most warnings of one attempt that are kept: a worker of ours sends fewer.
const MOST_WARNINGS: usize = 16;

/// The properties of a new job.
pub(crate) struct NewJob<'a> {
    /// The client's id for the submission.
    pub(crate) request: RequestId,
    /// BLAKE3 of the spec.
    pub(crate) body_hash: [u8; 32],
    /// The user that submits it.
    pub(crate) user: &'a str,
    /// The spec, as submitted.
    pub(crate) spec: &'a JobSpec,
    /// The content of the spec, as [`JobSpec::content`] lists it.
    pub(crate) content: &'a [BlobRef],
    /// The user's run time estimates in the order of the task indices; empty without estimates.
    pub(crate) estimates: &'a [Span],
    /// The time of the submission.
    pub(crate) now: Time,
}

/// The job that an earlier request with the same id made.
pub(crate) struct RequestKey {
    /// Its number.
    pub(crate) job: JobId,
    /// BLAKE3 of its spec.
    pub(crate) body_hash: [u8; 32],
    /// The user that submitted it.
    pub(crate) user: String,
}

/// The properties of a new attempt.
pub(crate) struct NewAttempt<'a> {
    /// The attempt.
    pub(crate) attempt: AttemptId,
    /// The host that is to run it.
    pub(crate) host: HostId,
    /// Whether another attempt of its task is live.
    pub(crate) duplicate: bool,
    /// The time at which it is assigned.
    pub(crate) now: Time,
    /// The reason of its start, shown to users.
    pub(crate) why: &'a str,
}

impl Writer {
    /// Opens the store in `dir`, creates or migrates its tables, and checks it.
    pub(crate) fn open(dir: &Path) -> StoreResult<Self> {
        #[cfg(test)]
        if let Some(place) = super::pg::of_tests(dir) {
            return Self::take(&place);
        }
        Self::open_beside(dir, &FileLogs)
    }

    /// Takes the store in a database, which no other master may have.
    #[cfg(test)]
    pub(crate) fn take(place: &Database) -> StoreResult<Self> {
        super::pg::take_in_tests(place).map(|store| store.expect("nobody else has it"))
    }

    /// The same as `open`, with the log in `logs` instead of the file system.
    pub(crate) fn open_beside(dir: &Path, logs: &dyn Logs) -> StoreResult<Self> {
        Self::on(lite::open(dir, logs)?).map_err(|error| error.on_disk_of(&dir.join(lite::FILE)))
    }

    /// A writer on an open store.
    pub(super) fn on(db: Db) -> StoreResult<Self> {
        let commits = db.commits()?;
        let newest_event = super::events::newest(&db)?;
        let numbers = LastNumbers::read(&db)?;
        Ok(Self {
            db,
            open: false,
            commits,
            newest_event,
            numbers,
            live: HashMap::new(),
            mark: None,
            shadow: None,
        })
    }

    /// Makes each later change in a copy of this store as well.
    pub(crate) fn shadowed(&mut self, shadow: StoreShadow) {
        shadow.begin(self);
        self.shadow = Some(shadow);
    }

    /// Writes each later commit to `mark`.
    pub(crate) fn keep(&mut self, mark: Mark) {
        self.mark = Some(mark);
    }

    /// The number of transactions that were ever committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits
    }

    /// Counts further commits on from those of the store that this one is a copy of.
    pub(super) fn counts_on_from(&mut self, commits: u64) -> StoreResult<()> {
        self.transact()?;
        self.db.counts_on_from(commits)?;
        self.commits = self.commits.max(commits);
        Ok(())
    }

    /// Ends writing in order, after the last commit. Of a file the log is emptied, unless a reader of
    /// an older state prevents that; then a warning is logged. A database is free for another master.
    pub(crate) fn finish(&mut self) -> StoreResult<()> {
        self.db.finish()
    }

    /// Commits all changes since the last commit, durably. Returns false if there were none; the store
    /// is this master's all the same.
    pub(crate) fn commit(&mut self) -> StoreResult<bool> {
        if !self.open {
            if self.db.be_sure()? {
                self.committed(self.commits + 1);
            }
            return Ok(false);
        }

        let commits = self.commits + 1;
        self.db.count_commit(commits)?;
        self.note_numbers()?;
        self.open = false;
        self.db.commit()?;
        self.committed(commits);
        if let Some(shadow) = &self.shadow {
            shadow.commit(&self.db);
        }
        Ok(true)
    }

    fn committed(&mut self, commits: u64) {
        // A database has more turns than changes: those that only say that the master lives.
        let commits = self.db.reached().unwrap_or(commits);
        self.commits = commits;
        // Only now: the mark must not be ahead of the durable state.
        if let Some(mark) = &mut self.mark {
            mark.note(commits);
        }
    }

    /// Fails if another master has taken the store; else none can take it before the next commit. For
    /// what is done beside the store because of it.
    pub(crate) fn hold(&mut self) -> StoreResult<()> {
        if self.is_shared() {
            self.transact()?;
            self.db.hold()?;
        }
        Ok(())
    }

    /// The wait of this writer for its database, as a [`StoreWait`].
    pub(crate) fn wait(&self) -> StoreWait {
        self.db.wait()
    }

    /// A `Reader` of this store, which is in `home` if it is in a file.
    pub(crate) fn reader(&self, home: &Path) -> Reader {
        match &self.db {
            Db::Lite(_) => Reader::new(home),
            Db::Pg(pg) => Reader::of(pg.place().clone()),
        }
    }

    /// The rules that are kept with it.
    pub(super) fn db_laws(&self) -> SafetyRules {
        match &self.db {
            Db::Lite(_) => SafetyRules::KEPT,
            Db::Pg(pg) => pg.place().laws(),
        }
    }

    /// Whether other masters can take the store.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.db, Db::Pg(_))
    }

    pub(crate) fn db(&self) -> &Db {
        if let Some(shadow) = &self.shadow {
            shadow.ask();
        }
        &self.db
    }

    /// Makes a change, in a transaction that ends with [`Self::commit`].
    pub(super) fn change(&mut self, sql: &str, values: &[SqlValue<'_>]) -> StoreResult<()> {
        self.transact()?;
        if let Some(shadow) = &self.shadow {
            shadow.change(sql, values, None);
        }
        self.db.change(sql, values)
    }

    /// The same as `change`, and returns the number of rows that it changed.
    pub(super) fn count(&mut self, sql: &str, values: &[SqlValue<'_>]) -> StoreResult<usize> {
        self.transact()?;
        let rows = self.db.count(sql, values)?;
        if let Some(shadow) = &self.shadow {
            shadow.change(sql, values, Some(rows));
        }
        Ok(rows)
    }

    fn transact(&mut self) -> StoreResult<()> {
        if !self.open {
            self.db.begin()?;
            self.open = true;
        }
        Ok(())
    }

    /// The value of a key in `meta`; `make` gives it the first time.
    pub(crate) fn meta<const N: usize>(
        &mut self,
        key: &str,
        make: impl FnOnce() -> [u8; N],
    ) -> StoreResult<[u8; N]> {
        match self.note(key)? {
            Some(bytes) => bytes
                .try_into()
                .map_err(|_| StoreError::Content(format!("meta `{key}` has a wrong length"))),
            None => {
                let value = make();
                self.set_meta(key, &value)?;
                Ok(value)
            }
        }
    }

    /// The value of a key in `meta`, of any length, if there is one.
    pub(crate) fn note(&self, key: &str) -> StoreResult<Option<Vec<u8>>> {
        self.db().meta(key)
    }

    /// Sets the value of a key in `meta`, also if there was none.
    pub(crate) fn set_meta(&mut self, key: &str, value: &[u8]) -> StoreResult<()> {
        self.change(SET_META, values![key, value])
    }

    /// Removes a key from `meta`.
    pub(crate) fn remove_meta(&mut self, key: &str) -> StoreResult<()> {
        match self.note(key)? {
            Some(_) => self.change("DELETE FROM meta WHERE key = $1", values![key]),
            None => Ok(()),
        }
    }

    /// The job that a request with this id made before, if any.
    pub(crate) fn job_of_request(&self, request: RequestId) -> StoreResult<Option<RequestKey>> {
        let read = |row: &SqlRow<'_>| {
            Ok(RequestKey {
                job: JobId(row.get(0)?),
                body_hash: row.get(1)?,
                user: row.get(2)?,
            })
        };

        let sql = "SELECT id, body_hash, \"user\" FROM job WHERE request = $1";
        self.db().first(sql, values![request.0.as_bytes()], read)
    }

    /// Adds a job, and the blobs that it needs to `blob_use`.
    pub(crate) fn add_job(&mut self, new: &NewJob<'_>) -> StoreResult<JobId> {
        let spec = new.spec;
        let rules = &new.spec.rules;
        let estimates = if new.estimates.is_empty() {
            None
        } else {
            Some(to_postcard(&new.estimates)?)
        };
        let job = JobId(self.number(Numbered::Job)?);
        self.change(
            "INSERT INTO job (id, request, body_hash, name, \"user\", policy, priority, spec, total, state, submitted,
                              estimates, needs)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            values![
                job.0,
                new.request.0.as_bytes(),
                new.body_hash,
                spec.name,
                new.user,
                rules.policy,
                rules.priority,
                to_postcard(spec)?,
                spec.tasks.ids.len(),
                JobState::Waiting.to_string(),
                micros(new.now),
                estimates,
                rules.needs.to_string()
            ])?;

        self.use_blobs(job, new.content.iter().copied())?;
        Ok(job)
    }

    /// Stores the first prediction of a job's makespan.
    pub(crate) fn note_makespan(&mut self, job: JobId, predicted: Span) -> StoreResult<()> {
        self.change(
            "UPDATE job SET predicted_makespan = $1 WHERE id = $2",
            values![predicted.0, job.0],
        )
    }

    /// Stores a gang's number of ranks once it is fixed, with its new `spec`.
    pub(crate) fn settle_width(&mut self, job: JobId, spec: &JobSpec) -> StoreResult<()> {
        self.change(
            "UPDATE job SET spec = $1, total = $2 WHERE id = $3",
            values![to_postcard(spec)?, spec.tasks.ids.len(), job.0],
        )
    }

    fn use_blobs(&mut self, job: JobId, blobs: impl Iterator<Item = BlobRef>) -> StoreResult<()> {
        for blob in blobs {
            self.change(
                "INSERT INTO blob_use (hash, job) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                values![blob.hash.0, job.0],
            )?;
        }
        Ok(())
    }

    /// Writes those fields of a job that change over its life.
    pub(crate) fn update_job(&mut self, job: &JobView) -> StoreResult<()> {
        self.change(
            "UPDATE job SET state = $1, reason = $2, started = $3, ended = $4, predicted_makespan = $5, attempts = $6,
             duplicates = $7, finished = $8, failed = $9, cancelled = $10 WHERE id = $11",
            values![
                job.state.to_string(),
                job.reason,
                job.started.map(micros),
                job.finished.map(micros),
                job.predicted_makespan.map(|predicted| predicted.0),
                job.attempts,
                job.duplicates,
                job.tasks.finished,
                job.tasks.failed,
                job.tasks.cancelled,
                job.job.0
            ],
        )
    }

    /// Forgets the hosts of a job's live attempts.
    pub(super) fn forget_live(&mut self, job: JobId) {
        self.live.retain(|id, _| id.task.job != job);
    }

    /// Gives freed pages back to the file system, at most so many. Returns whether there may be more.
    pub(super) fn give_back(&mut self, most: u32) -> StoreResult<bool> {
        // Only a change opens a transaction, which costs a sync.
        if !self.db.has_free_pages()? {
            return Ok(false);
        }
        self.transact()?;
        self.db.give_back(most)
    }

    /// Adds an attempt, before it is started.
    pub(crate) fn add_attempt(&mut self, new: &NewAttempt<'_>) -> StoreResult<()> {
        let id = new.attempt;
        self.live.insert(id, (new.host, new.now));
        self.change(
            "INSERT INTO attempt (job, task, number, incarnation, host, state, duplicate, assigned, start_why)
             VALUES ($1, $2, $3, $4, $5, 'assigned', $6, $7, $8)",
            values![
                id.task.job.0,
                id.task.index,
                id.number,
                id.incarnation.0,
                new.host.0,
                new.duplicate,
                micros(new.now),
                new.why
            ],
        )
    }

    /// The time at which this attempt was assigned to this host, if it was, and that of its end, if it has ended.
    pub(crate) fn assigned(
        &self,
        id: AttemptId,
        host: HostId,
    ) -> StoreResult<Option<(Time, Option<Time>)>> {
        if let Some((given, at)) = self.live.get(&id) {
            return Ok((*given == host).then_some((*at, None)));
        }

        let sql = "SELECT assigned, ended FROM attempt
                   WHERE job = $1 AND task = $2 AND number = $3 AND incarnation = $4 AND host = $5";
        let key = values![
            id.task.job.0,
            id.task.index,
            id.number,
            id.incarnation.0,
            host.0,
        ];
        self.db().first(sql, key, |row| {
            let ended: Option<i64> = row.get(1)?;
            Ok((super::time(row.get(0)?), ended.map(super::time)))
        })
    }

    /// Notes that an attempt's command was started.
    pub(crate) fn attempt_started(&mut self, id: AttemptId, now: Time) -> StoreResult<()> {
        self.change(
            "UPDATE attempt SET state = 'running', started = $1 WHERE job = $2 AND task = $3 AND number = $4
             AND started IS NULL AND ended IS NULL",
            values![micros(now), id.task.job.0, id.task.index, id.number],
        )
    }

    /// Stores the end of an attempt, with its state and the reason.
    pub(crate) fn attempt_ended(
        &mut self,
        id: AttemptId,
        state: AttemptState,
        now: Time,
        why: &str,
    ) -> StoreResult<()> {
        self.live.remove(&id);
        self.change(
            "UPDATE attempt SET state = $1, ended = $2, end_why = $3 WHERE job = $4 AND task = $5 AND number = $6",
            values![state.to_string(), micros(now), why, id.task.job.0, id.task.index, id.number],
        )
    }

    /// Stores that an attempt ran longer than its estimate and was killed to make room, after this
    /// much work as a run time on a host of speed 1.
    pub(crate) fn attempt_policed(&mut self, id: AttemptId, work: Span) -> StoreResult<()> {
        self.change(
            "UPDATE attempt SET policed = $1 WHERE job = $2 AND task = $3 AND number = $4",
            values![work.0 as i64, id.task.job.0, id.task.index, id.number],
        )
    }

    /// Makes the end of an attempt not count against its task.
    pub(crate) fn attempt_not_charged(&mut self, id: AttemptId) -> StoreResult<()> {
        self.change(
            "UPDATE attempt SET charged = FALSE WHERE job = $1 AND task = $2 AND number = $3",
            values![id.task.job.0, id.task.index, id.number],
        )
    }

    /// Stores the end of a completed attempt in this state with its result, and the content that its
    /// output needs.
    pub(crate) fn attempt_result(
        &mut self,
        completion: &Completion,
        state: AttemptState,
        ended: Time,
    ) -> StoreResult<()> {
        self.attempt_left(completion, state, ended)?;
        self.use_blobs(completion.attempt.task.job, completion.blobs())
    }

    /// The same as `attempt_result`, without the content.
    pub(super) fn attempt_left(
        &mut self,
        completion: &Completion,
        state: AttemptState,
        ended: Time,
    ) -> StoreResult<()> {
        let id = completion.attempt;
        let result = AttemptResult {
            stdout: completion.stdout.clone(),
            stderr: completion.stderr.clone(),
            files: completion.outputs.clone(),
            warnings: completion
                .warnings
                .iter()
                .take(MOST_WARNINGS)
                .cloned()
                .collect(),
            confined: completion.confined,
        };

        let started = ended - (completion.ran + completion.suspended);
        let result = if result == AttemptResult::default() {
            None
        } else {
            Some(to_postcard(&result)?)
        };

        self.live.remove(&id);
        self.change(
            "UPDATE attempt SET state = $1, end_why = $2, started = $3, ended = $4, ran = $5, cpu = $6, suspended = $7,
             exit_code = $8, result = $9 WHERE job = $10 AND task = $11 AND number = $12",
            values![
                state.to_string(),
                completion.outcome.to_string(),
                micros(started),
                micros(ended),
                completion.ran.0 as i64,
                completion.cpu.0 as i64,
                completion.suspended.0 as i64,
                completion.outcome.exit_code(),
                result,
                id.task.job.0,
                id.task.index,
                id.number
            ],
        )
    }

    /// Notes that an attempt was frozen for task `by`. Only the newest such notes are kept.
    pub(crate) fn attempt_frozen(&mut self, id: AttemptId, by: TaskId) -> StoreResult<()> {
        let TaskId { job, index } = id.task;
        let sql = "SELECT start_why FROM attempt WHERE job = $1 AND task = $2 AND number = $3";
        let key = values![job.0, index, id.number];
        let Some(before): Option<String> = self.db().value(sql, key)? else {
            return Ok(());
        };

        self.change(
            "UPDATE attempt SET start_why = $1 WHERE job = $2 AND task = $3 AND number = $4",
            values![
                super::notes::with_frozen(&before, by),
                job.0,
                index,
                id.number
            ],
        )
    }

    /// Stores the CPU time, run time and suspended time of an attempt that the master ended, or
    /// that was lost or given back, as its host reports them afterwards. A later report changes
    /// nothing once the CPU time is stored.
    pub(crate) fn attempt_spent(
        &mut self,
        host: HostId,
        spent: &Spent,
        ended: Time,
    ) -> StoreResult<()> {
        let AttemptId {
            task,
            number,
            incarnation,
        } = spent.attempt;
        let started = (spent.ran > Span::ZERO).then(|| ended - (spent.ran + spent.suspended));

        self.change(
            "UPDATE attempt SET cpu = $1, ran = $2, suspended = $3, started = COALESCE(started, $4)
             WHERE job = $5 AND task = $6 AND number = $7 AND incarnation = $8 AND host = $9
             AND state IN ('killed', 'lost') AND cpu = 0",
            values![
                spent.cpu.0 as i64,
                spent.ran.0 as i64,
                spent.suspended.0 as i64,
                started.map(micros),
                task.job.0,
                task.index,
                number,
                incarnation.0,
                host.0
            ],
        )
    }

    /// Stores the facts that a host's worker reports.
    pub(crate) fn host_facts(&mut self, host: HostId, facts: &HostFacts) -> StoreResult<()> {
        self.change(
            "UPDATE host SET facts = $1 WHERE id = $2",
            values![to_postcard(facts)?, host.0],
        )
    }

    /// Stores whether a host gets no new work.
    pub(crate) fn host_draining(&mut self, host: HostId, draining: bool) -> StoreResult<()> {
        self.change(
            "UPDATE host SET draining = $1 WHERE id = $2",
            values![draining, host.0],
        )
    }

    /// Stores whether a host is expected back.
    pub(crate) fn host_attendance(
        &mut self,
        host: HostId,
        attendance: Attendance,
    ) -> StoreResult<()> {
        self.change(
            "UPDATE host SET attendance = $1 WHERE id = $2",
            values![attendance.word(), host.0],
        )
    }

    /// Stores the numbers of finished and lost attempts of a host, and the time at which it was
    /// last heard of.
    pub(crate) fn host_counts(
        &mut self,
        host: HostId,
        finished: u64,
        lost: u64,
        heard: Time,
    ) -> StoreResult<()> {
        self.change(
            "UPDATE host SET finished = $1, lost = $2, heard = $3 WHERE id = $4",
            values![finished as i64, lost as i64, micros(heard), host.0],
        )
    }
}
