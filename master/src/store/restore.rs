//! Restores the state of a restarted master from the store: the jobs that are not settled, and the
//! hosts.

use std::collections::BTreeSet;

use common::host::HostFacts;
use common::identity::IdentityState;
use common::needs::Label;
use common::view::{JobView, TaskState};
use common::{HostId, IdSet, JobId, JobSpec, Span, Time};
use scheduler::event::{EarlierRun, RestoredProgress, Tried};

use super::db::Db;
use super::peers::identity_state;
use super::value::{SqlRow, values};
use super::writer::Writer;
use super::{
    Promised, StoreError, StoreResult, StoredAfter, from_postcard, order, reader, span, time,
};

/// The most finished tasks of a job of which it is told what they took: more of them change no mean.
const MOST_RUNS: usize = 500;

/// A job with its progress, as the store has it.
pub(crate) struct RestoredJob {
    /// The job as clients see it, as of its last update.
    pub(crate) view: JobView,
    /// The spec, as submitted, with the tasks added since.
    pub(crate) spec: JobSpec,
    /// The user's run time estimates in the order of the task indices; empty without estimates.
    pub(crate) estimates: Vec<Span>,
    /// The jobs that have to end before it.
    pub(crate) after: Vec<StoredAfter>,
    /// Whether it was disclosed.
    pub(crate) disclosed: bool,
    /// The size of `spec` and `estimates` as stored, in bytes.
    pub(crate) bytes: u64,
    /// The state of its tasks and attempts.
    pub(crate) progress: RestoredProgress,
    /// Its promise, if it has one.
    pub(crate) promised: Option<Promised>,
}

/// Whether a host that is not connected is expected back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attendance {
    /// Its worker runs as far as known, or was never heard of.
    Expected,
    /// Its worker shut down in order.
    Left,
    /// Its identity was revoked, and an admin wants to see it in no list any more.
    Forgotten,
}

impl Attendance {
    /// The word in the store.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Expected => "expected",
            Self::Left => "left",
            Self::Forgotten => "forgotten",
        }
    }

    pub(super) fn of(word: &str) -> StoreResult<Self> {
        match word {
            "expected" => Ok(Self::Expected),
            "left" => Ok(Self::Left),
            "forgotten" => Ok(Self::Forgotten),
            other => Err(StoreError::Content(format!("attendance `{other}`"))),
        }
    }
}

/// A host that has enrolled once.
pub(crate) struct RestoredHost {
    /// Its number.
    pub(crate) id: HostId,
    /// Its name, which is unique.
    pub(crate) name: String,
    /// The facts that its worker reported last.
    pub(crate) facts: Option<HostFacts>,
    /// Whether it gets no new work.
    pub(crate) draining: bool,
    /// The number of attempts that finished there.
    pub(crate) finished: u64,
    /// The number of attempts that were lost there.
    pub(crate) lost: u64,
    /// The time at which its worker was last heard of.
    pub(crate) heard: Option<Time>,
    /// Whether its identity is let in.
    pub(crate) identity: IdentityState,
    /// Its owner, as an admin names them.
    pub(crate) owner: Option<String>,
    /// The number of its latest results in a row that agreed with others'.
    pub(crate) valid: u32,
    /// Whether it is expected back.
    pub(crate) attendance: Attendance,
    /// The labels from admins.
    pub(crate) labels: BTreeSet<Label>,
}

/// Reads labels as they are stored; what is none is left out.
pub(super) fn labels_of(text: &str) -> BTreeSet<Label> {
    text.split(',')
        .filter_map(|word| word.parse().ok())
        .collect()
}

impl Writer {
    /// All jobs that are not settled, in the order of the queue.
    pub(crate) fn restore_jobs(&self) -> StoreResult<Vec<RestoredJob>> {
        let sql = "SELECT id FROM job WHERE state IN ('waiting', 'running') ORDER BY id";
        let open: Vec<u32> = self.db().all(sql, &[], |row| row.get(0))?;
        let restored = open
            .into_iter()
            .filter_map(|id| self.restore_job(JobId(id)).transpose());
        Ok(in_line(restored.collect::<Result<_, _>>()?))
    }

    /// One job with its progress, settled or not.
    pub(crate) fn restore_job(&self, job: JobId) -> StoreResult<Option<RestoredJob>> {
        let sql = format!(
            "SELECT {}{}, spec, estimates, disclosed IS NOT NULL FROM job WHERE id = $1",
            reader::JOB_COLUMNS,
            order::COLUMNS
        );
        let found = self.db().first(&sql, values![job.0], |row| {
            let (spec, said): (Vec<u8>, Option<Vec<u8>>) = (row.get(22)?, row.get(23)?);
            Ok(RestoredJob {
                view: reader::read_job(row)?,
                bytes: (spec.len() + said.as_ref().map_or(0, Vec::len)) as u64,
                spec: from_postcard(&spec)?,
                estimates: said.map_or(Ok(Vec::new()), |said| from_postcard(&said))?,
                after: order::stored_after(row.get(19)?)?,
                disclosed: row.get(24)?,
                promised: row.decoded_if_any(17)?,
                progress: RestoredProgress::default(),
            })
        })?;
        let Some(mut restored) = found else {
            return Ok(None);
        };

        restored.bytes += order::grown(self.db(), job, &mut restored.spec)?;
        restored.progress = progress(self.db(), job, &restored)?;
        Ok(Some(restored))
    }

    /// The user of a job and its [`RestoredJob::bytes`], which are not read for that.
    pub(crate) fn weight(&self, job: JobId) -> StoreResult<Option<(String, u64)>> {
        let sql = "SELECT \"user\", CAST(length(spec) + COALESCE(length(estimates), 0) AS BIGINT), (SELECT
             COALESCE(CAST(SUM(length(tasks)) AS BIGINT), 0) FROM addition WHERE addition.job = job.id)
             FROM job WHERE id = $1";
        self.db().first(sql, values![job.0], |row| {
            let (submitted, added): (i64, i64) = (row.get(1)?, row.get(2)?);
            let bytes = submitted.saturating_add(added);
            Ok((row.get(0)?, bytes.max(0) as u64))
        })
    }

    /// All hosts that have enrolled, in the order of their numbers.
    pub(crate) fn restore_hosts(&self) -> StoreResult<Vec<RestoredHost>> {
        let sql = "SELECT id, name, facts, draining, finished, lost, heard,
             EXISTS (SELECT 1 FROM peer WHERE peer.name = host.name AND revoked), owner, valid,
             attendance, labels, EXISTS (SELECT 1 FROM peer WHERE peer.name = host.name AND NOT approved)
             FROM host ORDER BY id";

        self.db().all(sql, &[], |row| {
            Ok(RestoredHost {
                id: HostId(row.get(0)?),
                name: row.get(1)?,
                // Facts of an older layout are dropped: the worker reports them again when it
                // joins.
                facts: row
                    .get::<Option<Vec<u8>>>(2)?
                    .and_then(|bytes| from_postcard(&bytes).ok()),
                draining: row.get(3)?,
                finished: row.get::<i64>(4)?.max(0) as u64,
                lost: row.get::<i64>(5)?.max(0) as u64,
                heard: row.get::<Option<i64>>(6)?.map(time),
                identity: identity_state(!row.get::<bool>(12)?, row.get(7)?),
                owner: row.get(8)?,
                valid: row.get(9)?,
                attendance: Attendance::of(&row.get::<String>(10)?)?,
                labels: labels_of(&row.get::<String>(11)?),
            })
        })
    }
}

/// Sorts jobs into the order of the queue; `jobs` are in the order of their numbers. A job whose
/// promise was renewed moved to the end of the queue at that time. The others stay in the order of
/// their numbers, even if the clock was set back between their submissions.
fn in_line(jobs: Vec<RestoredJob>) -> Vec<RestoredJob> {
    let mut latest = Time(0);
    let place = |job: RestoredJob| {
        let renewed = job
            .promised
            .as_ref()
            .filter(|promised| !promised.withdrawn)
            .map(|promised| promised.made);
        if let Some(made) = renewed.filter(|made| *made > job.view.submitted) {
            return (made, job);
        }
        latest = latest.max(job.view.submitted);
        (latest, job)
    };
    let mut placed: Vec<(Time, RestoredJob)> = jobs.into_iter().map(place).collect();
    placed.sort_by_key(|(at, job)| (*at, job.view.job));

    placed.into_iter().map(|(_, job)| job).collect()
}

/// A task with attempts up to this number, of which nothing else is known yet.
pub(super) fn tried(task: u32, attempts: u32) -> Tried {
    Tried {
        task,
        attempts,
        failures: 0,
        losses: 0,
        live: Vec::new(),
        lost: Vec::new(),
        ended: Vec::new(),
        outlived: Vec::new(),
        policed: Span::ZERO,
    }
}

fn progress(db: &Db, job: JobId, of: &RestoredJob) -> StoreResult<RestoredProgress> {
    let ranks = of.spec.work.ranks().is_some();
    let mut progress = RestoredProgress {
        finished: reader::finished_tasks(db, job)?,
        ..RestoredProgress::default()
    };
    if of.disclosed {
        let requests = super::speculation::requests(db, job)?.into_iter();
        progress.requested =
            IdSet::from_ranges(requests.map(|(first, (last, _))| (first, last)).collect());
    }

    let settled = reader::settled_rows(db, job)?;
    progress.failed = reader::tasks_of(&settled, |state| state == TaskState::Failed);
    progress.cancelled = reader::tasks_of(&settled, |state| state != TaskState::Failed);
    if of.spec.rules.quorum.compares() {
        super::results::restore(db, job, &mut progress)?;
    }

    let columns = ", incarnation, host, state, started IS NOT NULL, duplicate, charged, ran, policed, cpu, started_from IS NULL";
    reader::each_attempt(db, job, (columns, "TRUE"), |row| {
        let (task, number, state): (u32, u32, String) = (row.get(0)?, row.get(1)?, row.get(4)?);
        progress.attempts += 1;
        progress.duplicates += u64::from(row.get::<bool>(6)?);

        // Failed and cancelled tasks are listed too: a retry continues from their highest attempt
        // number.
        if progress.finished.contains(task) {
            if state == "finished" {
                note_end(&mut progress, ranks, row)?;
            }
            return Ok(());
        }

        if progress.tried.last().is_none_or(|last| last.task != task) {
            progress.tried.push(tried(task, 0));
        }

        let Some(tried) = progress.tried.last_mut() else {
            return Ok(());
        };
        let (executed, charged): (bool, bool) = (row.get(5)?, row.get(7)?);
        tried.attempts = tried.attempts.max(number);

        let id = reader::attempt_id(job, row)?;
        let host = HostId(row.get(3)?);
        if let Some(work) = row.get::<Option<i64>>(9)?.filter(|_| charged) {
            // It counts as a failure, though it was killed.
            tried.failures += 1;
            tried.policed = tried.policed.max(span(work));
        }
        match state.as_str() {
            "failed" if charged => tried.failures += 1,
            // A loss that a retry has forgiven is left out, so that its result cannot come back.
            "lost" if charged => {
                tried.losses += u32::from(executed);
                tried.lost.push((id, host, executed));
            }
            "killed" => {
                let ran = row.get::<i64>(8)?;
                tried
                    .outlived
                    .extend((ran > 0).then_some((host, Span(ran as u64))));
                tried.ended.extend(charged.then_some((id, host)));
            }
            "assigned" | "running" => tried.live.push((id, host, executed)),
            _ => {}
        }
        Ok(())
    })?;

    let beyond = progress.runs.len().saturating_sub(MOST_RUNS);
    progress.runs.drain(..beyond);
    Ok(progress)
}

/// Notes an attempt that finished its task: its host, if it was a rank; else what it took, if that was a whole
/// task.
fn note_end(progress: &mut RestoredProgress, ranks: bool, row: &SqlRow<'_>) -> StoreResult<()> {
    let host = HostId(row.get(3)?);
    if ranks {
        progress.done_on.push(host);
        return Ok(());
    }

    let whole: bool = row.get(11)?;
    if whole {
        // Only the last ones are kept, however many there are.
        if progress.runs.len() == 2 * MOST_RUNS {
            progress.runs.drain(..MOST_RUNS);
        }
        progress.runs.push(EarlierRun {
            task: row.get(0)?,
            host,
            ran: span(row.get(8)?),
            cpu: span(row.get(10)?),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use common::view::AttemptState;
    use common::{RequestId, TaskSet};

    use super::super::NewAddition;
    use super::super::tests::{add_job, attempt, completion, open, spec, start};
    use super::*;

    #[test]
    fn what_the_last_finished_tasks_took_comes_back_with_their_job() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let tasks = 2 * MOST_RUNS as u32 + 7;
        let job = add_job(&mut store, 1, &spec(tasks));
        for index in 1..tasks {
            let id = attempt(job, index, 1);
            start(&mut store, id);
            let finished = AttemptState::Finished;
            let taken = completion(id, 1);
            store.attempt_result(&taken, finished, Time(9)).unwrap();
        }
        start(&mut store, attempt(job, tasks, 1));
        store.commit().unwrap();

        let runs = store.restore_job(job).unwrap().unwrap().progress.runs;
        assert_eq!(runs.len(), MOST_RUNS);
        let last = EarlierRun {
            task: tasks - 1,
            host: HostId(1),
            ran: Span(5),
            cpu: Span(4),
        };
        assert_eq!(runs.last(), Some(&last));
        let all = IdSet::from_range(tasks - MOST_RUNS as u32, tasks - 1);
        assert_eq!(runs.iter().map(|run| run.task).collect::<IdSet>(), all);
    }

    #[test]
    fn a_job_weighs_as_much_unread_as_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let job = add_job(&mut store, 1, &spec(60));
        let before = store.weight(job).unwrap().unwrap();
        let more = NewAddition {
            request: RequestId(uuid::Uuid::from_u128(2)),
            body_hash: [0; 32],
            user: "ann",
            job,
            tasks: &TaskSet {
                ids: IdSet::from_range(61, 70),
                items: Vec::new(),
            },
            now: Time(0),
        };
        let added = store.add_tasks(&more).unwrap();

        let read = store.restore_job(job).unwrap().unwrap();
        assert_eq!(read.bytes, before.1 + added);
        let weight = store.weight(job).unwrap();
        assert_eq!(weight, Some((read.view.user, read.bytes)));
        assert_eq!(store.weight(JobId(99)).unwrap(), None);
    }
}
