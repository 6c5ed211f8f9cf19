//! Forgetting jobs. A job is gone for everybody at once. Its many rows, such as its attempts, are removed
//! in portions that others do not wait long for, and the removal goes on after a restart.
//!
//! The cost of each portion of attempts is added to the account of the job's user. The job's content is
//! swept once no row names it.

use common::{JobId, Time};
use scheduler::billing::Account;

use super::db::Db;
use super::speculation::{Disclosure, add_untried, requests, tried, wanted};
use super::uploads::UnusedBytes;
use super::value::{SqlValue, values};
use super::writer::Writer;
use super::{StoreResult, time};

/// The tables with a few rows of a job, which go at once: others are told of a job by them.
const FEW: [&str; 3] = ["share", "job_label", "job_after"];
/// The tables with many rows of a job, each with the column by which they are removed in order.
/// Rows that name others go before these; attempts are counted with the requests, which go last.
const MANY: [(&str, &str); 9] = [
    ("attempt", "task"),
    ("settled", "first"),
    ("blob_use", "hash"),
    ("checkpoint_blob", "task"),
    ("checkpoint", "task"),
    ("kept_blob", "task"),
    ("kept", "task"),
    ("addition", "number"),
    ("request", "first"),
];
/// The work for a job beside its rows, in rows.
const JOB_ITSELF: u32 = 20;
/// The most pages of a file that are given back at a time.
pub(super) const PAGES: u32 = 500;

/// A job that was forgotten, and of which there are rows.
#[derive(Debug)]
pub(super) struct ForgottenJob {
    job: JobId,
    pub(super) user: String,
    submitted: Time,
    disclosed: Option<Time>,
    /// The requested tasks that are not in the user's account.
    uncounted: u64,
}

/// The outcome of a portion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cleared {
    /// Whether there may be more to remove or to give back.
    pub(crate) more: bool,
    /// The counted bytes of content that users have sent, and that counts against them again.
    pub(crate) unused: UnusedBytes,
}

/// The forgotten jobs of `user`, or of all users with `None`, that have rows: at most so many.
pub(super) fn forgotten(db: &Db, user: Option<&str>, most: u32) -> StoreResult<Vec<ForgottenJob>> {
    let sql = "SELECT job, \"user\", submitted, disclosed, uncounted FROM forgotten
               WHERE CAST($1 AS TEXT) IS NULL OR \"user\" = $1 ORDER BY job LIMIT $2";
    db.all(sql, values![user, most], |row| {
        Ok(ForgottenJob {
            job: JobId(row.get(0)?),
            user: row.get(1)?,
            submitted: time(row.get(2)?),
            disclosed: row.get::<Option<i64>>(3)?.map(time),
            uncounted: row.get::<i64>(4)?.max(0) as u64,
        })
    })
}

impl ForgottenJob {
    /// Returns the cost of its attempts up to this task.
    fn tried(&self, db: &Db, last: u32) -> StoreResult<Account> {
        let disclosure = match self.disclosed {
            Some(at) => Some(Disclosure::new(at, requests(db, self.job)?)),
            None => None,
        };
        tried(db, self.job, self.submitted, disclosure.as_ref(), last)
    }

    /// Returns the cost that is not in its user's account yet.
    pub(super) fn rest(&self, db: &Db) -> StoreResult<Account> {
        let mut rest = self.tried(db, u32::MAX)?;
        let untried = self.uncounted.saturating_sub(rest.requested);
        add_untried(&mut rest, untried);
        Ok(rest)
    }
}

impl Writer {
    /// Forgets a job: from now on there is none. The rest of its rows goes by [`Self::clear_forgotten`].
    pub(crate) fn forget_job(&mut self, job: JobId) -> StoreResult<()> {
        let wanted = wanted(self.db(), job)?;
        self.forget_live(job);
        self.change(
            "INSERT INTO forgotten (job, \"user\", submitted, disclosed, uncounted)
             SELECT id, \"user\", submitted, disclosed, CAST($1 AS BIGINT) FROM job WHERE id = $2",
            values![wanted, job.0],
        )?;

        self.remove_all(job, &FEW)?;
        self.change("DELETE FROM job WHERE id = $1", values![job.0])
    }

    /// Removes rows of forgotten jobs, about `most`, and gives pages back to the file system.
    pub(crate) fn clear_forgotten(&mut self, now: Time, most: u32) -> StoreResult<Cleared> {
        let mut room = most;
        let mut unused = UnusedBytes::new();
        let jobs = forgotten(self.db(), None, most.div_ceil(JOB_ITSELF))?;
        let mut jobs = jobs.into_iter();
        while room > 0
            && let Some(job) = jobs.next()
        {
            let rows = self.rows_of(job.job, room)?;
            let bytes = match rows > room {
                true => self.clear_some(&job, room, now)?,
                false => self.clear_rest(&job, now)?,
            };
            if bytes > 0 {
                *unused.entry(job.user).or_default() += bytes;
            }
            room = room.saturating_sub(rows.saturating_add(JOB_ITSELF));
        }

        let more = room == 0 || jobs.next().is_some();
        let more = self.give_back(PAGES)? || more;
        Ok(Cleared { more, unused })
    }

    /// The rows of a forgotten job, counted up to one beyond `most` in each table.
    fn rows_of(&self, job: JobId, most: u32) -> StoreResult<u32> {
        let counts = MANY.map(|(table, _)| {
            format!("(SELECT COUNT(*) FROM (SELECT 1 FROM {table} WHERE job = $1 LIMIT $2) AS some_{table})")
        });
        let sql = format!("SELECT {}", counts.join(" + "));
        let most = most.saturating_add(1);
        let rows: i64 = self.db().one_value(&sql, values![job.0, most])?;
        Ok(u32::try_from(rows).unwrap_or(u32::MAX))
    }

    /// Removes all rows of a forgotten job. Returns the bytes of content that counts against its user again.
    fn clear_rest(&mut self, job: &ForgottenJob, now: Time) -> StoreResult<u64> {
        let rest = job.rest(self.db())?;
        self.add_to_account(&job.user, &rest)?;
        let unused = self.content_is_not_needed((job.job, &job.user), None, now)?;
        self.remove_all(job.job, &MANY.map(|(table, _)| table))?;
        self.change("DELETE FROM forgotten WHERE job = $1", values![job.job.0])?;
        Ok(unused)
    }

    /// Removes so many rows of a forgotten job that has more. Returns the bytes of content that counts against
    /// its user again.
    fn clear_some(&mut self, job: &ForgottenJob, most: u32, now: Time) -> StoreResult<u64> {
        let mut room = most;
        let mut unused = 0;
        for (table, column) in MANY {
            let keys = self.first_keys(job.job, (table, column), room)?;
            let Some(last) = keys.last() else { continue };
            match last {
                RowKey::Number(last) if table == "attempt" => self.count_up_to(job, *last)?,
                RowKey::Hash(last) => {
                    let content = (job.job, &*job.user);
                    unused = self.content_is_not_needed(content, Some(last), now)?;
                }
                RowKey::Number(_) => {}
            }

            self.change(
                &format!("DELETE FROM {table} WHERE job = $1 AND {column} <= $2"),
                &[SqlValue::Int(job.job.0.into()), last.value()],
            )?;
            room = room.saturating_sub(u32::try_from(keys.len()).unwrap_or(u32::MAX));
            if room == 0 {
                break;
            }
        }
        Ok(unused)
    }

    /// The keys of the first rows of a job in a table.
    fn first_keys(
        &self,
        job: JobId,
        (table, column): (&str, &str),
        most: u32,
    ) -> StoreResult<Vec<RowKey>> {
        let sql = format!("SELECT {column} FROM {table} WHERE job = $1 ORDER BY {column} LIMIT $2");
        self.db().all(&sql, values![job.0, most], |row| {
            Ok(match column {
                "hash" => RowKey::Hash(row.get(0)?),
                _ => RowKey::Number(row.get(0)?),
            })
        })
    }

    /// Adds what the tasks up to this one cost to the account of the job's user, before their attempts go.
    fn count_up_to(&mut self, job: &ForgottenJob, last: u32) -> StoreResult<()> {
        let cost = job.tried(self.db(), last)?;
        self.add_to_account(&job.user, &cost)?;
        let uncounted = job.uncounted.saturating_sub(cost.requested);
        self.change(
            "UPDATE forgotten SET uncounted = $1 WHERE job = $2",
            values![uncounted, job.job.0],
        )
    }

    fn remove_all(&mut self, job: JobId, tables: &[&str]) -> StoreResult<()> {
        tables.iter().try_for_each(|table| {
            let sql = format!("DELETE FROM {table} WHERE job = $1");
            self.change(&sql, values![job.0])
        })
    }
}

/// The key of a row among those of its job.
enum RowKey {
    Number(u32),
    Hash(Vec<u8>),
}

impl RowKey {
    fn value(&self) -> SqlValue<'_> {
        match self {
            Self::Number(number) => SqlValue::Int((*number).into()),
            Self::Hash(hash) => SqlValue::Bytes(hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use common::Span;
    use common::content::BlobHash;
    use common::view::AttemptState;

    use super::super::speculation::AccountRows;
    use super::super::tests::{add_job, attempt, completion, open, spec, start};
    use super::super::uploads::LEAST_COUNTED;
    use super::super::{Reader, look};
    use super::*;

    /// The tasks of the large job that were tried; each left a file of its own.
    const TRIED: u32 = 3_000;
    const PORTION: u32 = 1_000;

    fn hash_of(task: u32) -> BlobHash {
        BlobHash(*blake3::hash(&task.to_le_bytes()).as_bytes())
    }

    /// A store with a large job and a small one, whose task left the same file as the first of the large one.
    fn with_two_jobs(dir: &tempfile::TempDir) -> (Writer, JobId, JobId) {
        let mut store = open(dir);
        store
            .change("INSERT INTO host (id, name) VALUES (1, 'pc')", &[])
            .unwrap();
        let large = add_job(&mut store, 1, &spec(TRIED + 5));
        let small = add_job(&mut store, 2, &spec(1));
        let tasks = (1..=TRIED).map(|task| (large, task)).chain([(small, 1)]);
        for (job, task) in tasks {
            let id = attempt(job, task, 1);
            start(&mut store, id);
            let mut left = completion(id, 0);
            left.outputs[0].blob.hash = hash_of(task);
            left.cpu = Span::from_secs(1);
            let state = AttemptState::Finished;
            store.attempt_result(&left, state, Time(9)).unwrap();
            if task <= 2 {
                let blob = left.outputs[0].blob;
                store.content_came("ann", blob, Time(9)).unwrap();
            }
        }
        store.commit().unwrap();
        (store, large, small)
    }

    fn rows(store: &Writer, job: JobId) -> u32 {
        store.rows_of(job, 1_000_000).unwrap()
    }

    fn accounts(dir: &tempfile::TempDir) -> AccountRows {
        Reader::new(dir.path()).accounts(None, false).unwrap()
    }

    #[test]
    fn a_forgotten_job_is_gone_at_once_and_its_rows_go_in_portions_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, large, small) = with_two_jobs(&dir);
        let before = accounts(&dir);
        let all = rows(&store, large);
        assert_eq!(all, 2 * TRIED);
        store.forget_job(large).unwrap();
        store.commit().unwrap();

        let mut left = rows(&store, large);
        assert_eq!(left, all, "it costs nothing at once");
        let reader = Reader::new(dir.path());
        assert!(reader.job(large).unwrap().is_none() && reader.job(small).unwrap().is_some());
        assert!(!reader.may_read("ann", &hash_of(7)).unwrap());
        let mut portions = 0;
        let mut unused = 0;
        let mut more = true;
        while more {
            if portions == 2 {
                drop(store);
                store = open(&dir);
            }
            let cleared = store.clear_forgotten(Time(50), PORTION).unwrap();
            store.commit().unwrap();
            more = cleared.more;
            unused += cleared.unused.get("ann").copied().unwrap_or(0);
            portions += 1;

            let before_it = std::mem::replace(&mut left, rows(&store, large));
            assert!(before_it - left <= PORTION, "{before_it} rows, then {left}");
            let faults = look::of_tests(dir.path()).faults;
            assert_eq!(faults, Vec::<String>::new(), "after portion {portions}");
            assert_eq!(accounts(&dir)[0].1, before[0].1);
            let (now, then) = (&accounts(&dir)[0].2.0, &before[0].2.0);
            assert_eq!((now.tasks, now.requested), (then.tasks, then.requested));
            assert_eq!((now.finished, now.used_s), (then.finished, then.used_s));
        }

        assert!(portions >= 6, "{portions} portions");
        assert_eq!((left, rows(&store, small)), (0, 2));
        let needs = |task| store.needs_blob(&hash_of(task)).unwrap();
        assert_eq!([needs(1), needs(2)], [true, false]);
        let counted = store.unused_content().unwrap()["ann"];
        assert_eq!((unused, counted), (LEAST_COUNTED, LEAST_COUNTED));
        assert_eq!(forgotten(store.db(), None, 10).unwrap().len(), 0);
    }

    #[test]
    fn many_small_jobs_share_a_portion_and_the_rest_waits_for_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        for id in 1..=60 {
            let job = add_job(&mut store, id, &spec(1));
            start(&mut store, attempt(job, 1, 1));
            store.forget_job(job).unwrap();
        }
        let mut left = || {
            let more = store.clear_forgotten(Time(9), PORTION).unwrap().more;
            (more, forgotten(store.db(), None, 100).unwrap().len())
        };
        let (more, first) = left();
        assert!(more && (1..20).contains(&first), "{first} are left");
        while left().0 {}
        assert_eq!(left(), (false, 0));
    }

    #[test]
    fn pages_are_given_back_in_portions() {
        if super::super::pg::in_tests() {
            return; // There is no file.
        }
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let pages = |store: &Writer| -> u32 {
            let sql = "PRAGMA page_count";
            store.db().one(sql, &[], |row| row.get(0)).unwrap()
        };
        let long = vec![7; 5 * 4096 * PAGES as usize / 2];
        store.set_meta("long", &long).unwrap();
        store.commit().unwrap();
        let full = pages(&store);
        store.remove_meta("long").unwrap();
        let mut left = full;
        let mut portions = 0;
        loop {
            let more = store.clear_forgotten(Time(9), PORTION).unwrap().more;
            store.commit().unwrap();
            let before = std::mem::replace(&mut left, pages(&store));
            // With a page goes what says where it belongs, one for many.
            let most = PAGES + PAGES / 50;
            assert!(before - left <= most, "{before} pages, then {left}");
            portions += 1;
            if !more {
                break;
            }
        }
        assert!(
            portions >= 3 && full - left > 2 * PAGES,
            "{full} pages, then {left}"
        );
        assert!(!store.commit().unwrap(), "and then nothing is written");
    }
}
