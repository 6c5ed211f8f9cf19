//! The content that each user has sent. A user may name content only after sending it, or if a job
//! that the user may see has it. Content that no job of its sender needs counts against the sender.
//! The limit on that, and the content itself, live elsewhere.

use std::collections::BTreeMap;

use common::content::BlobHash;
use common::{BlobRef, IdSet, JobId, Time};

use super::db::Db;
use super::needs::portions;
use super::reader::Reader;
use super::value::{SqlRow, SqlValue, numbered, values};
use super::writer::Writer;
use super::{StoreResult, micros};

/// The least that one file counts against its sender, in bytes: file systems have an inode for about so
/// many, and without inodes a disk takes no more however much of it is free.
pub(super) const LEAST_COUNTED: u64 = 16 << 10;

/// Returns the bytes that content counts for which nobody needs.
pub(crate) fn counted(size: u64) -> u64 {
    size.max(LEAST_COUNTED)
}

const MAY_READ: &str = "SELECT 1 FROM (SELECT job FROM blob_use WHERE hash = $1
        UNION ALL SELECT job FROM kept_blob WHERE hash = $1) AS needed
    JOIN job ON job.id = needed.job
    WHERE job.\"user\" = $2 OR EXISTS (SELECT 1 FROM share WHERE share.job = job.id AND share.\"user\" = $2)";

fn may_read(db: &Db, user: &str, hash: &BlobHash) -> StoreResult<bool> {
    db.exists(MAY_READ, values![hash.0, user])
}

fn may_name(db: &Db, user: &str, hash: &BlobHash) -> StoreResult<bool> {
    let sent = "SELECT 1 FROM content_of WHERE \"user\" = $1 AND hash = $2";
    Ok(db.exists(sent, values![user, hash.0])? || may_read(db, user, hash)?)
}

impl Reader {
    /// Whether this content is needed by a job of the user's, or by one that is shared with the
    /// user.
    pub(crate) fn may_read(&self, user: &str, hash: &BlobHash) -> StoreResult<bool> {
        self.with(|db| may_read(db, user, hash))
    }

    /// Whether the user has sent this content, or may read it.
    pub(crate) fn may_name(&self, user: &str, hash: &BlobHash) -> StoreResult<bool> {
        self.with(|db| may_name(db, user, hash))
    }

    /// The first of `blobs` that the user may not name.
    pub(crate) fn not_to_name(
        &self,
        user: &str,
        mut blobs: impl Iterator<Item = BlobRef>,
    ) -> StoreResult<Option<BlobRef>> {
        self.with(|db| {
            blobs
                .find_map(|blob| {
                    may_name(db, user, &blob.hash)
                        .map(|may| (!may).then_some(blob))
                        .transpose()
                })
                .transpose()
        })
    }
}

/// The text that reads a portion of what users have sent, behind a user and a hash.
const SENT: &str =
    "SELECT \"user\", hash, at, needed FROM content_of WHERE (\"user\", hash) > ($1, $2)
    ORDER BY \"user\", hash LIMIT $3";

/// Returns the text that counts what no job of its sender needs among so many hashes.
fn unused_question(count: usize) -> String {
    let asked = numbered(3..=count + 2);
    format!(
        "SELECT \"user\", CAST(SUM(CASE WHEN size < $1 THEN $1 ELSE size END) AS BIGINT)
         FROM content_of WHERE NOT needed AND at < $2 AND hash IN ({asked}) GROUP BY \"user\""
    )
}

/// The counted bytes, by user.
pub(crate) type UnusedBytes = BTreeMap<String, u64>;

fn counted_bytes(row: &SqlRow<'_>) -> StoreResult<(String, u64)> {
    Ok((row.get(0)?, row.get::<i64>(1)?.max(0) as u64))
}

/// A portion of what users have sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SentContent {
    /// The content in it that was sent long enough ago, and that no job of its sender needs.
    pub(crate) old: Vec<BlobHash>,
    /// The place behind which the next portion begins; `None` if there is none.
    pub(crate) next: Option<(String, BlobHash)>,
}

impl Reader {
    /// Looks through the content that users have sent, at most so many rows behind the place `after`, for what was
    /// sent before `before`.
    pub(crate) fn sent_before(
        &self,
        before: Time,
        after: Option<&(String, BlobHash)>,
        most: u32,
    ) -> StoreResult<SentContent> {
        // No user has no name.
        let start = (String::new(), BlobHash([0; 32]));
        let (user, hash) = after.unwrap_or(&start);
        self.with(|db| {
            let mut portion = SentContent::default();
            let mut rows = 0;
            db.each(SENT, values![user, hash.0, most], |row| {
                rows += 1;
                let place = (row.get(0)?, BlobHash(row.get(1)?));
                let at: i64 = row.get(2)?;
                let needed: bool = row.get(3)?;
                if !needed && at < micros(before) {
                    portion.old.push(place.1);
                }
                portion.next = Some(place);
                Ok(())
            })?;

            portion.next = portion.next.filter(|_| rows == most);
            Ok(portion)
        })
    }
}

impl Writer {
    /// Notes that a user has sent this content. Returns the bytes that it adds to the content that
    /// no job of that user needs, as they are counted; 0 if the user had sent it before.
    pub(crate) fn content_came(
        &mut self,
        user: &str,
        blob: BlobRef,
        now: Time,
    ) -> StoreResult<u64> {
        let known = "SELECT 1 FROM content_of WHERE \"user\" = $1 AND hash = $2";
        if self.db().exists(known, values![user, blob.hash.0])? {
            let sql = "UPDATE content_of SET at = $1 WHERE \"user\" = $2 AND hash = $3";
            return self
                .change(sql, values![micros(now), user, blob.hash.0])
                .map(|_| 0);
        }

        let needed = "SELECT 1 FROM blob_use JOIN job ON job.id = blob_use.job WHERE hash = $1 AND job.\"user\" = $2";
        let needed = self.db().exists(needed, values![blob.hash.0, user])?;
        self.change(
            "INSERT INTO content_of (\"user\", hash, size, at, needed) VALUES ($1, $2, $3, $4, $5)",
            values![user, blob.hash.0, blob.size, micros(now), needed],
        )?;

        Ok(if needed { 0 } else { counted(blob.size) })
    }

    /// Marks the content as needed that a new job of this user needs, as `blob_use` says. Returns the
    /// counted bytes of that which the user had sent and which was not needed before. It is one
    /// question, however many files there are: a master that waits for long is taken for dead.
    pub(crate) fn content_is_needed(&mut self, job: JobId, user: &str) -> StoreResult<u64> {
        // By the job's rows: the user may have sent a million files.
        let sql = "SELECT CAST(COALESCE(SUM((SELECT CASE WHEN size < $1 THEN $1 ELSE size END FROM content_of
                WHERE \"user\" = $2 AND content_of.hash = blob_use.hash AND NOT needed)), 0) AS BIGINT)
            FROM blob_use WHERE job = $3";
        let key = values![LEAST_COUNTED, user, job.0];
        let bytes: i64 = self.db().one_value(sql, key)?;
        if bytes <= 0 {
            return Ok(0);
        }

        self.change(
            "UPDATE content_of SET needed = TRUE WHERE \"user\" = $1 AND NOT needed
             AND hash IN (SELECT hash FROM blob_use WHERE job = $2)",
            values![user, job.0],
        )?;
        Ok(bytes as u64)
    }

    /// Prepares to remove what says that a forgotten job of this user needs content, all of it or up to the
    /// hash `last`: what the user sent and no job of that user needs counts against the user again. Returns
    /// its counted bytes.
    pub(super) fn content_is_not_needed(
        &mut self,
        (job, user): (JobId, &str),
        last: Option<&[u8]>,
        now: Time,
    ) -> StoreResult<u64> {
        let last = last.unwrap_or(&[0xFF; 32]);
        let sql =
            "SELECT CAST(COALESCE(SUM(CASE WHEN size < $1 THEN $1 ELSE size END), 0) AS BIGINT)
             FROM content_of WHERE needed AND \"user\" = $2
             AND hash IN (SELECT hash FROM blob_use WHERE job = $3 AND hash <= $4)
             AND NOT EXISTS (SELECT 1 FROM blob_use b JOIN job j ON j.id = b.job
                             WHERE b.hash = content_of.hash AND j.\"user\" = content_of.\"user\")";
        let key = values![LEAST_COUNTED, user, job.0, last];
        let bytes: i64 = self.db().one_value(sql, key)?;
        if bytes <= 0 {
            return Ok(0);
        }

        self.change(
            "UPDATE content_of SET needed = FALSE, at = $1 WHERE needed AND \"user\" = $2
             AND hash IN (SELECT hash FROM blob_use WHERE job = $3 AND hash <= $4)
             AND NOT EXISTS (SELECT 1 FROM blob_use b JOIN job j ON j.id = b.job
                             WHERE b.hash = content_of.hash AND j.\"user\" = content_of.\"user\")",
            values![micros(now), user, job.0, last],
        )?;
        Ok(bytes as u64)
    }

    /// Forgets who sent this content, since it was removed. Returns what was counted for it.
    pub(crate) fn content_went(&mut self, gone: &[BlobHash]) -> StoreResult<UnusedBytes> {
        let counted = self.unused_among(gone, Time(u64::MAX))?;
        for hash in gone {
            self.change("DELETE FROM content_of WHERE hash = $1", values![hash.0])?;
        }
        Ok(counted)
    }

    /// Forgets who sent this content, where that was before `before` and no job of the sender needs it: the sender
    /// has to send it again. Returns what was counted for it.
    pub(crate) fn trim_content_of(
        &mut self,
        old: &[BlobHash],
        before: Time,
    ) -> StoreResult<UnusedBytes> {
        let counted = self.unused_among(old, before)?;
        if counted.is_empty() {
            return Ok(counted);
        }
        for hash in old {
            self.change(
                "DELETE FROM content_of WHERE hash = $1 AND NOT needed AND at < $2",
                values![hash.0, micros(before)],
            )?;
        }
        Ok(counted)
    }

    /// The counted bytes of this content for those who sent it before `before` and have no job that needs it.
    fn unused_among(&self, hashes: &[BlobHash], before: Time) -> StoreResult<UnusedBytes> {
        let mut counted = UnusedBytes::new();
        for portion in portions(hashes) {
            let question = unused_question(portion.len());
            let least = SqlValue::Int(LEAST_COUNTED as i64);
            let mut values = vec![least, SqlValue::Int(micros(before))];
            values.extend(portion);

            self.db().each(&question, &values, |row| {
                let (user, bytes) = counted_bytes(row)?;
                *counted.entry(user).or_default() += bytes;
                Ok(())
            })?;
        }
        Ok(counted)
    }

    /// The counted bytes of the sent content that no job of its sender needs, by user. It reads all that was ever sent,
    /// and is asked when a master starts.
    pub(crate) fn unused_content(&self) -> StoreResult<UnusedBytes> {
        let sql = "SELECT \"user\", CAST(SUM(CASE WHEN size < $1 THEN $1 ELSE size END) AS BIGINT)
            FROM content_of WHERE NOT needed GROUP BY \"user\"";
        self.db()
            .all(sql, values![LEAST_COUNTED as i64], counted_bytes)
    }

    /// Discards the results of those `tasks` that are finished and were requested. If there are
    /// any, the `gone` content is removed from that which the job needs. Returns these tasks.
    pub(crate) fn lose_results(
        &mut self,
        job: JobId,
        tasks: &IdSet,
        gone: &[BlobHash],
        now: Time,
    ) -> StoreResult<IdSet> {
        let mut lost = IdSet::new();
        for index in super::reader::finished_tasks(self.db(), job)?
            .intersection(tasks)
            .iter()
        {
            let kept = "SELECT 1 FROM kept WHERE job = $1 AND task = $2";
            if self.db().exists(kept, values![job.0, index])? {
                continue;
            }

            self.change(
                "UPDATE attempt SET result = NULL, verdict = NULL, removed = $1 WHERE job = $2 AND task = $3
                 AND state = 'finished'",
                values![micros(now), job.0, index],
            )?;
            lost.insert(index);
        }

        if !lost.is_empty() {
            for hash in gone {
                self.change(
                    "DELETE FROM blob_use WHERE hash = $1 AND job = $2",
                    values![hash.0, job.0],
                )?;
            }
        }

        Ok(lost)
    }

    /// Notes that the results of these tasks were damaged or lost on the master.
    pub(crate) fn results_were_damaged(&mut self, job: JobId, tasks: &IdSet) -> StoreResult<()> {
        for (first, last) in tasks.ranges() {
            self.change(
                "UPDATE attempt SET removed = NULL,
                 end_why = COALESCE(end_why || '; ', '') || 'what it left was damaged or lost on the master'
                 WHERE job = $1 AND task BETWEEN $2 AND $3 AND state = 'lost' AND removed IS NOT NULL",
                values![job.0, first, last],
            )?;
        }

        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{add_job_with, clear, file, open, spec};
    use super::*;

    fn unused(store: &Writer, user: &str) -> u64 {
        let unused = store.unused_content().unwrap();
        unused.get(user).copied().unwrap_or(0)
    }

    #[test]
    fn a_new_job_takes_what_its_user_has_sent_for_it_off_the_unused_bytes_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let files: Vec<BlobRef> = (0..6).map(|n| file(n, u64::from(n) * 10_000)).collect();
        for sent in &files[..5] {
            store.content_came("ann", *sent, Time(1)).unwrap();
        }
        for sent in &files[2..] {
            store.content_came("bob", *sent, Time(1)).unwrap();
        }
        assert_eq!(unused(&store, "ann"), 2 * LEAST_COUNTED + 90_000);
        assert_eq!(unused(&store, "bob"), 140_000);

        let job = add_job_with(&mut store, 1, (&spec(1), &files[1..4]), "ann");
        let taken_off = store.content_is_needed(job, "ann").unwrap();
        assert_eq!(taken_off, LEAST_COUNTED + 50_000);
        assert_eq!(store.content_is_needed(job, "ann").unwrap(), 0);
        assert_eq!(unused(&store, "ann"), LEAST_COUNTED + 40_000);
        assert_eq!(unused(&store, "bob"), 140_000);

        // The last file ann has not sent, and others were needed before.
        let next = add_job_with(&mut store, 2, (&spec(1), &files), "ann");
        let taken_off = store.content_is_needed(next, "ann").unwrap();
        assert_eq!(taken_off, LEAST_COUNTED + 40_000);
        assert_eq!(unused(&store, "ann"), 0);
        let none = add_job_with(&mut store, 3, (&spec(1), &[]), "bob");
        assert_eq!(store.content_is_needed(none, "bob").unwrap(), 0);
        assert_eq!(unused(&store, "bob"), 140_000);
    }

    #[test]
    fn each_change_tells_by_how_much_a_count_of_all_unused_content_would_differ() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let mut kept = UnusedBytes::new();
        let files: Vec<BlobRef> = (0..8).map(|n| file(n, u64::from(n) * 10_000)).collect();
        let hashes: Vec<BlobHash> = files.iter().map(|file| file.hash).collect();
        let agree = |store: &Writer, kept: &UnusedBytes| {
            let kept = kept.iter().filter(|(_, bytes)| **bytes > 0);
            let all = store.unused_content().unwrap();
            assert!(kept.eq(all.iter()), "{all:?}");
        };

        for (user, sent) in [("ann", 0..6), ("bob", 3..8)] {
            for n in sent {
                let at = Time(n as u64 + 1);
                let bytes = store.content_came(user, files[n], at).unwrap();
                *kept.entry(user.to_owned()).or_default() += bytes;
            }
        }
        agree(&store, &kept);

        let job = add_job_with(&mut store, 1, (&spec(1), &files[..5]), "ann");
        let other = add_job_with(&mut store, 2, (&spec(1), &files[4..7]), "ann");
        for job in [job, other] {
            *kept.get_mut("ann").unwrap() -= store.content_is_needed(job, "ann").unwrap();
            agree(&store, &kept);
        }

        // What the other job needs stays needed.
        store.forget_job(job).unwrap();
        let again = store.clear_forgotten(Time(5), 1_000).unwrap().unused;
        assert_eq!(again["ann"], 2 * LEAST_COUNTED + 50_000);
        *kept.get_mut("ann").unwrap() += again["ann"];
        agree(&store, &kept);

        // Ann's since the job was forgotten at 5, bob's since he sent them.
        let trimmed = store.trim_content_of(&hashes, Time(6)).unwrap();
        let went = store.content_went(&hashes[5..]).unwrap();
        for (user, bytes) in trimmed.iter().chain(&went) {
            *kept.get_mut(user).unwrap() -= bytes;
        }
        assert!(trimmed.contains_key("ann") && trimmed.contains_key("bob"));
        assert_eq!(went.keys().collect::<Vec<_>>(), ["bob"]);
        agree(&store, &kept);
        clear(&mut store);
        agree(&store, &kept);
    }

    #[test]
    fn what_users_have_sent_is_looked_through_in_portions_and_old_is_what_no_job_needs() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let files: Vec<BlobRef> = (0..5).map(|n| file(n, 9)).collect();
        for (user, at) in [("ann", 1), ("bob", 2), ("zoe", 7)] {
            for sent in &files {
                store.content_came(user, *sent, Time(at)).unwrap();
            }
        }
        let job = add_job_with(&mut store, 1, (&spec(1), &files[..2]), "bob");
        store.content_is_needed(job, "bob").unwrap();
        store.commit().unwrap();

        let reader = store.reader(dir.path());
        for most in [1, 4, 5, 15, 100] {
            let mut old = Vec::new();
            let mut portions = 0;
            let mut after = None;
            loop {
                let portion = reader.sent_before(Time(7), after.as_ref(), most).unwrap();
                old.extend(portion.old);
                portions += 1;
                after = portion.next;
                if after.is_none() {
                    break;
                }
            }

            let count = |of: &BlobRef| old.iter().filter(|hash| **hash == of.hash).count();
            let found: Vec<usize> = files.iter().map(count).collect();
            assert_eq!(found, [1, 1, 2, 2, 2], "{most} at a time");
            assert_eq!(portions, 15 / most + 1, "{most} at a time");
        }
    }

    #[test]
    fn no_upkeep_of_what_users_have_sent_reads_all_of_it() {
        if super::super::pg::in_tests() {
            return; // Its plans depend on what is there.
        }
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        let number = SqlValue::Int(1);
        let hash = SqlValue::Bytes(&[7; 32]);
        for (sql, values) in [
            (SENT.to_owned(), vec![SqlValue::Text("ann"), hash, number]),
            (unused_question(2), vec![number, number, hash, hash]),
        ] {
            let plan = format!("EXPLAIN QUERY PLAN {sql}");
            let steps: Vec<String> = store.db().all(&plan, &values, |row| row.get(3)).unwrap();
            assert!(
                steps
                    .iter()
                    .any(|step| step.starts_with("SEARCH content_of"))
                    && !steps.iter().any(|step| step.starts_with("SCAN")),
                "{sql}: {steps:?}"
            );
        }
    }
}
