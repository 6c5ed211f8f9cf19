//! The belief in results: verdicts on attempts, owners of hosts, and the trust in hosts. The rules
//! for them live in the scheduler.

use std::collections::BTreeSet;

use common::attempt::Stream;
use common::content::BlobHash;
use common::needs::Label;
use common::view::Belief;
use common::{AttemptId, Content, HostId, JobId, TaskId};
use scheduler::effect::Judgement;
use scheduler::event::RestoredProgress;

use super::db::Db;
use super::reader::{Reader, attempt_id, each_attempt};
use super::restore::tried;
use super::value::values;
use super::writer::Writer;
use super::{AttemptResult, StoreError, StoreResult, from_postcard, word};

impl Writer {
    /// Stores the verdict on an attempt's result, which counts from then on, also for a task that runs again.
    pub(crate) fn judged(&mut self, attempt: AttemptId, judgement: Judgement) -> StoreResult<()> {
        let TaskId { job, index } = attempt.task;
        let (belief, n) = judgement.word();
        let sql = "UPDATE attempt SET verdict = $1, charged = TRUE WHERE job = $2 AND task = $3 AND number = $4";
        self.change(
            sql,
            values![format!("{belief} {n}"), job.0, index, attempt.number],
        )
    }

    /// Stores the trust in a host: `valid` of its latest results in a row agreed with others'.
    pub(crate) fn host_valid(&mut self, host: HostId, valid: u32) -> StoreResult<()> {
        self.change(
            "UPDATE host SET valid = $1 WHERE id = $2",
            values![valid, host.0],
        )
    }

    /// Stores the owner of a host.
    pub(crate) fn host_owner(&mut self, host: HostId, owner: Option<&str>) -> StoreResult<()> {
        self.change(
            "UPDATE host SET owner = $1 WHERE id = $2",
            values![owner, host.0],
        )
    }

    /// Stores the labels that admins gave a host.
    pub(crate) fn host_labels(
        &mut self,
        host: HostId,
        labels: &BTreeSet<Label>,
    ) -> StoreResult<()> {
        let words: Vec<&str> = labels.iter().map(Label::as_str).collect();
        let words = words.join(",");
        self.change(
            "UPDATE host SET labels = $1 WHERE id = $2",
            values![words, host.0],
        )
    }

    /// Returns what an attempt left, as [`result_of`] reads it.
    pub(crate) fn result_of(&self, attempt: AttemptId) -> StoreResult<Option<AttemptResult>> {
        result_of(self.db(), attempt)
    }
}

impl Reader {
    /// Returns what an attempt left, as [`result_of`] reads it.
    pub(crate) fn result_of(&self, attempt: AttemptId) -> StoreResult<Option<AttemptResult>> {
        self.with(|db| result_of(db, attempt))
    }
}

/// The output of an attempt; `None` if there is no such attempt or its output was removed. A damaged
/// output is logged, and replaced by one that no real output equals.
fn result_of(db: &Db, attempt: AttemptId) -> StoreResult<Option<AttemptResult>> {
    let TaskId { job, index } = attempt.task;
    let sql = "SELECT result FROM attempt WHERE job = $1 AND task = $2 AND number = $3 AND removed IS NULL";
    let key = values![job.0, index, attempt.number];
    let Some(stored): Option<Option<Vec<u8>>> = db.value(sql, key)? else {
        return Ok(None);
    };

    // Of an attempt that left nothing, nothing is stored.
    let read = stored.map_or_else(
        || Ok(AttemptResult::default()),
        |bytes| from_postcard(&bytes),
    );
    match read {
        Err(error @ StoreError::Rotten { .. }) => {
            tracing::error!(%attempt, error = %error.of(|| format!("what attempt {attempt} left")), "cannot be compared");
            let stdout = Stream {
                dropped: u64::MAX,
                ..Stream::default()
            };
            Ok(Some(AttemptResult {
                stdout,
                ..AttemptResult::default()
            }))
        }
        read => read.map(Some),
    }
}

impl AttemptResult {
    /// A hash over everything that must be equal when results are compared byte by byte: standard
    /// output, and the files with their names. Standard error is left out.
    pub(crate) fn fingerprint(&self) -> BlobHash {
        let hash_of = |content: &Content| match content {
            Content::Inline(bytes) => *blake3::hash(bytes).as_bytes(),
            Content::Blob(blob) => blob.hash.0,
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&hash_of(&self.stdout.content));
        hasher.update(&self.stdout.dropped.to_le_bytes());

        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        for file in files {
            let path = file.path.as_str().as_bytes();
            hasher.update(&(path.len() as u64).to_le_bytes());
            hasher.update(path);
            hasher.update(&[u8::from(file.executable)]);
            hasher.update(&file.blob.hash.0);
        }

        BlobHash(*hasher.finalize().as_bytes())
    }
}

/// Parses a stored verdict, the `verdict` column.
pub(super) fn judgement(stored: Option<String>) -> StoreResult<Option<Judgement>> {
    let Some(text) = stored else { return Ok(None) };
    let broken = || StoreError::Content(format!("`{text}` is no verdict"));
    let (belief, n) = text.split_once(' ').ok_or_else(broken)?;
    let n: u32 = n.parse().map_err(|_| broken())?;
    Ok(Some((word::<Belief>(belief)?, n).into()))
}

/// Whether the result of the attempt of this number counts as its task's.
pub(super) fn counts(judgement: Option<Judgement>, number: u32) -> bool {
    match judgement {
        None | Some(Judgement::Alone(_)) => true,
        Some(Judgement::Agreed(of)) => of == number,
        Some(Judgement::Open(_) | Judgement::Differed(_)) => false,
    }
}

/// Adds to `progress` the results that wait for others to agree, and those that were believed
/// without a comparison; a retry that somebody asked for has dropped those that waited. A finished task of these that had
/// attempts of higher numbers is listed as tried, so that none of them is used again.
pub(super) fn restore(db: &Db, job: JobId, progress: &mut RestoredProgress) -> StoreResult<()> {
    let columns = ", incarnation, host, verdict, charged,
         (SELECT MAX(n.number) FROM attempt n WHERE n.job = attempt.job AND n.task = attempt.task)";
    each_attempt(db, job, (columns, "verdict IS NOT NULL"), |row| {
        let attempt = attempt_id(job, row)?;
        let host = HostId(row.get(3)?);

        match judgement(row.get(4)?)? {
            Some(Judgement::Open(_)) if row.get::<bool>(5)? => {
                progress.results.push((attempt, host));
            }
            Some(Judgement::Alone(_)) => {
                let highest: u32 = row.get(6)?;
                // One that is computed again, as its result was removed, is listed with its attempts.
                let finished = progress.finished.contains(attempt.task.index);
                if finished && highest > attempt.number {
                    progress.tried.push(tried(attempt.task.index, highest));
                }
                progress.alone.push((attempt, host));
            }
            _ => {}
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use common::Time;
    use common::job::{Compare, JobSpec, Quorum};
    use common::view::AttemptState;

    use super::super::tests::{add_job, attempt, completion, open, spec, start};
    use super::*;

    /// Describes a job of two tasks whose results are compared where their hosts are not trusted.
    fn compared() -> JobSpec {
        let mut compared = spec(2);
        compared.rules.quorum = Quorum {
            size: 2,
            adaptive: true,
            compare: Compare::Bytes,
        };
        compared
    }

    #[test]
    fn a_result_believed_alone_comes_back_with_the_highest_number_of_its_task() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let job = add_job(&mut store, 1, &compared());
        let started = [(1, 1), (1, 2), (2, 1)];
        for (index, number) in started {
            start(&mut store, attempt(job, index, number));
        }
        for index in 1..=2 {
            let first = attempt(job, index, 1);
            store
                .attempt_result(&completion(first, 7), AttemptState::Finished, Time(9))
                .unwrap();
            store.judged(first, Judgement::Alone(10)).unwrap();
        }
        store
            .attempt_ended(attempt(job, 1, 2), AttemptState::Killed, Time(9), "outrun")
            .unwrap();
        store.commit().unwrap();
        drop(store);

        let restored = open(&dir).restore_job(job).unwrap().unwrap();
        let progress = restored.progress;
        let host = HostId(1);
        assert_eq!(
            progress.alone,
            [(attempt(job, 1, 1), host), (attempt(job, 2, 1), host)]
        );
        let tried: Vec<_> = progress
            .tried
            .iter()
            .map(|tried| (tried.task, tried.attempts))
            .collect();
        assert_eq!(tried, [(1, 2)], "only where the numbers differ");
    }

    #[test]
    fn results_from_before_a_retry_do_not_come_back_but_a_doubted_one_does() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let job = add_job(&mut store, 1, &compared());
        for index in 1..=2 {
            let first = attempt(job, index, 1);
            start(&mut store, first);
            store
                .attempt_result(&completion(first, 7), AttemptState::Finished, Time(9))
                .unwrap();
        }
        let [retried, doubted] = [1, 2].map(|index| attempt(job, index, 1));
        store.judged(retried, Judgement::Open(2)).unwrap();
        store.judged(doubted, Judgement::Alone(10)).unwrap();
        store
            .reopen(
                job,
                &[retried.task.index, doubted.task.index]
                    .into_iter()
                    .collect(),
            )
            .unwrap();
        store.judged(doubted, Judgement::Open(2)).unwrap();
        store.commit().unwrap();
        drop(store);

        let restored = open(&dir).restore_job(job).unwrap().unwrap();
        assert_eq!(restored.progress.results, [(doubted, HostId(1))]);
    }

    #[test]
    fn a_task_that_is_computed_again_is_listed_once_with_its_live_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let job = add_job(&mut store, 1, &compared());
        for index in 1..=2 {
            let [first, again] = [1, 2].map(|number| attempt(job, index, number));
            start(&mut store, first);
            store
                .attempt_result(&completion(first, 7), AttemptState::Finished, Time(9))
                .unwrap();
            store.judged(first, Judgement::Alone(10)).unwrap();
            // What it left was removed, and somebody has asked for it.
            store
                .attempt_ended(first, AttemptState::Lost, Time(9), "removed")
                .unwrap();
            start(&mut store, again);
        }
        store.commit().unwrap();
        drop(store);

        let restored = open(&dir).restore_job(job).unwrap().unwrap();
        let tried: Vec<_> = restored
            .progress
            .tried
            .iter()
            .map(|tried| (tried.task, tried.attempts, tried.live.len()))
            .collect();
        assert_eq!(tried, [(1, 2, 1), (2, 2, 1)]);
    }
}
