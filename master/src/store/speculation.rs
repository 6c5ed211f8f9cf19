//! Disclosed jobs: the times at which they were disclosed and at which their tasks were requested,
//! and the CPU time spent on tasks. `scheduler::billing` computes the accounts.

use std::collections::BTreeMap;

use common::view::TaskState;
use common::{IdSet, JobId, Span, Time};
use scheduler::billing::{Account, LedgerEntry};

use super::db::Db;
use super::forgotten::forgotten;
use super::reader::{Reader, settled_rows, tasks_of};
use super::value::values;
use super::writer::Writer;
use super::{StoreResult, micros, span, time, to_postcard};

/// The disclosure of a job, with the requests for its tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Disclosure {
    /// The time at which the job was disclosed.
    pub(crate) at: Time,
    /// The requested ranges of tasks: the first task of each, with its last task and the time of
    /// the request.
    requests: BTreeMap<u32, (u32, Time)>,
}

impl Disclosure {
    /// A disclosure at this time, with its [`requests`].
    pub(super) fn new(at: Time, requests: BTreeMap<u32, (u32, Time)>) -> Self {
        Self { at, requests }
    }

    /// The time at which this task was requested, if it was.
    pub(crate) fn requested(&self, task: u32) -> Option<Time> {
        let found = self
            .requests
            .range(..=task)
            .next_back()
            .filter(|(_, (last, _))| *last >= task);
        found.map(|(_, (_, at))| *at)
    }

    /// All tasks that were requested.
    pub(crate) fn all(&self) -> IdSet {
        IdSet::from_ranges(
            self.requests
                .iter()
                .map(|(first, (last, _))| (*first, *last))
                .collect(),
        )
    }
}

pub(super) fn disclosure(db: &Db, job: JobId) -> StoreResult<Option<Disclosure>> {
    let sql = "SELECT disclosed FROM job WHERE id = $1";
    let at: Option<Option<i64>> = db.value(sql, values![job.0])?;
    let Some(at) = at.flatten() else {
        return Ok(None);
    };
    Ok(Some(Disclosure::new(time(at), requests(db, job)?)))
}

/// The requested ranges of tasks of a job: the first task of each, with its last one and the time of the
/// request.
pub(super) fn requests(db: &Db, job: JobId) -> StoreResult<BTreeMap<u32, (u32, Time)>> {
    let sql = "SELECT first, last, at FROM request WHERE job = $1";
    db.all(sql, values![job.0], |row| {
        Ok((row.get(0)?, (row.get(1)?, time(row.get(2)?))))
    })
}

/// The account of a job: the CPU time that its attempts used so far, with the users' waits for
/// results. Requested tasks are counted even if nothing was spent on them.
fn account(db: &Db, job: JobId, submitted: Time) -> StoreResult<Account> {
    let disclosure = disclosure(db, job)?;
    let mut account = tried(db, job, submitted, disclosure.as_ref(), u32::MAX)?;
    let untried = wanted(db, job)?.saturating_sub(account.requested);
    add_untried(&mut account, untried);
    Ok(account)
}

/// The sums over the attempts of each task: its CPU time; the end and the run time of a result that counts
/// by itself; the end of the last result that was compared, and the run time of the one that counts since
/// enough others agree. As in `reader::finished_tasks`, other results count for nothing.
const TRIED: &str = "SELECT task, CAST(SUM(cpu) AS BIGINT),
    MIN(CASE WHEN state = 'finished' AND (verdict IS NULL OR verdict LIKE 'alone %') THEN ended END),
    MIN(CASE WHEN state = 'finished' AND (verdict IS NULL OR verdict LIKE 'alone %') THEN ran END),
    MAX(CASE WHEN state = 'finished' AND (verdict LIKE 'agreed %' OR verdict LIKE 'differed %') THEN ended END),
    MAX(CASE WHEN state = 'finished' AND verdict = 'agreed ' || number THEN ran END)
    FROM attempt WHERE job = $1 AND task <= $2 GROUP BY task ORDER BY task";

/// The account of those tasks of a job that were tried, up to the task `last`. A task whose results were
/// compared was executed when the last of them came.
pub(super) fn tried(
    db: &Db,
    job: JobId,
    submitted: Time,
    disclosure: Option<&Disclosure>,
    last: u32,
) -> StoreResult<Account> {
    let mut account = Account::default();

    db.each(TRIED, values![job.0, last], |row| {
        let task: u32 = row.get(0)?;
        let agreed: Option<i64> = row.get(5)?;
        let [executed, service]: [Option<i64>; 2] = if agreed.is_some() {
            [row.get(4)?, agreed]
        } else {
            [row.get(2)?, row.get(3)?]
        };
        let requested = match disclosure {
            None => Some(submitted),
            Some(disclosure) => disclosure.requested(task),
        };
        account.add(&LedgerEntry {
            used: span(row.get(1)?),
            service: service.map_or(Span::ZERO, span),
            requested,
            executed: executed.map(time),
        });
        Ok(())
    })?;

    Ok(account)
}

/// The number of requested tasks of a job. All tasks of a job that is not disclosed count as
/// requested, except those of a refused job.
pub(super) fn wanted(db: &Db, job: JobId) -> StoreResult<u64> {
    if let Some(disclosure) = disclosure(db, job)? {
        return Ok(disclosure.all().len());
    }
    let total = "SELECT CASE state WHEN 'refused' THEN 0 ELSE total END FROM job WHERE id = $1";
    let total: Option<i64> = db.value(total, values![job.0])?;
    Ok(total.unwrap_or(0).max(0) as u64)
}

/// Adds requested tasks that were never tried.
pub(super) fn add_untried(account: &mut Account, tasks: u64) {
    account.tasks += tasks;
    account.requested += tasks;
}

/// The jobs of `user`, or of all users with `None`, each with its user and the time of its
/// submission.
fn jobs_of(db: &Db, user: Option<&str>) -> StoreResult<Vec<(String, JobId, Time)>> {
    let sql = "SELECT \"user\", id, submitted FROM job WHERE CAST($1 AS TEXT) IS NULL OR \"user\" = $1 ORDER BY \"user\", id";
    db.all(sql, values![user], |row| {
        Ok((row.get(0)?, JobId(row.get(1)?), time(row.get(2)?)))
    })
}

fn kept(db: &Db, user: Option<&str>) -> StoreResult<BTreeMap<String, Account>> {
    let sql = "SELECT \"user\", sums FROM account WHERE CAST($1 AS TEXT) IS NULL OR \"user\" = $1";
    db.all(sql, values![user], |row| Ok((row.get(0)?, row.decoded(1)?)))
}

/// The accounts of users and, if wanted, of their jobs. Each has the size of the kept unrequested
/// output, in bytes.
pub(crate) type AccountRows = Vec<(String, Option<JobId>, SpentRow)>;
/// An account, with the size of the kept unrequested output in bytes.
type SpentRow = (Account, u64);

impl Reader {
    /// The disclosure of a job; `None` if it was not disclosed.
    pub(crate) fn disclosure(&self, job: JobId) -> StoreResult<Option<Disclosure>> {
        self.with(|db| disclosure(db, job))
    }

    /// The accounts of `user`, or of all users with `None`, forgotten jobs included. With `jobs`,
    /// each user's account is followed by those of its jobs that are not forgotten.
    pub(crate) fn accounts(&self, user: Option<&str>, jobs: bool) -> StoreResult<AccountRows> {
        self.with_snapshot(|db| {
            // A job may be forgotten meanwhile, and its costs move.
            db.begin_to_read()?;
            let mut sums: BTreeMap<String, SpentRow> = kept(db, user)?
                .into_iter()
                .map(|(user, account)| (user, (account, 0)))
                .collect();
            let mut each: BTreeMap<String, Vec<(JobId, SpentRow)>> = BTreeMap::new();
            for (whose, job, submitted) in jobs_of(db, user)? {
                let spent = (account(db, job, submitted)?, super::kept::kept_of(db, job)?);
                let (sum, bytes) = sums.entry(whose.clone()).or_default();
                sum.merge(&spent.0);
                *bytes += spent.1;
                each.entry(whose).or_default().push((job, spent));
            }
            for job in forgotten(db, user, u32::MAX)? {
                let rest = job.rest(db)?;
                sums.entry(job.user).or_default().0.merge(&rest);
            }

            let mut all = AccountRows::new();
            for (whose, sum) in sums {
                let of = each.remove(&whose).unwrap_or_default();
                all.push((whose.clone(), None, sum));
                if jobs {
                    all.extend(
                        of.into_iter()
                            .map(|(job, account)| (whose.clone(), Some(job), account)),
                    );
                }
            }

            Ok(all)
        })
    }
}

impl Writer {
    /// Marks a job as disclosed: nobody waits for its tasks until they are requested.
    pub(crate) fn disclose(&mut self, job: JobId, now: Time) -> StoreResult<()> {
        self.change(
            "UPDATE job SET disclosed = $1 WHERE id = $2",
            values![micros(now), job.0],
        )
    }

    /// The disclosure of a job; `None` if it was not disclosed.
    pub(crate) fn disclosure(&self, job: JobId) -> StoreResult<Option<Disclosure>> {
        disclosure(self.db(), job)
    }

    /// The cancelled tasks of a job.
    pub(crate) fn cancelled(&self, job: JobId) -> StoreResult<IdSet> {
        let rows = settled_rows(self.db(), job)?;
        Ok(tasks_of(&rows, |state| state == TaskState::Cancelled))
    }

    /// Stores a request for tasks that were not requested before.
    pub(crate) fn request(&mut self, job: JobId, tasks: &IdSet, now: Time) -> StoreResult<()> {
        for (first, last) in tasks.ranges() {
            let sql = "INSERT INTO request (job, first, last, at) VALUES ($1, $2, $3, $4)";
            self.change(sql, values![job.0, first, last, micros(now)])?;
        }
        Ok(())
    }

    /// Adds what forgotten tasks cost to the account of their user.
    pub(super) fn add_to_account(&mut self, user: &str, cost: &Account) -> StoreResult<()> {
        let mut sum = kept(self.db(), Some(user))?
            .remove(user)
            .unwrap_or_default();
        sum.merge(cost);

        let sql = "INSERT INTO account (\"user\", sums) VALUES ($1, $2)
                   ON CONFLICT (\"user\") DO UPDATE SET sums = excluded.sums";
        self.change(sql, values![user, to_postcard(&sum)?])
    }
}

#[cfg(test)]
mod tests {
    use common::view::AttemptState;
    use scheduler::effect::Judgement;

    use super::super::tests::{add_job, attempt, completion, open, spec, start};
    use super::*;

    /// The results of the tasks, each with its number, the second at which it came, the seconds that it
    /// ran for, and what was thought of it.
    type Results<'a> = &'a [(u32, u64, u64, Option<Judgement>)];

    /// The account of a job, submitted at the start, of one task that has these results.
    fn account_of(results: Results<'_>) -> Account {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let job = add_job(&mut store, 1, &spec(1));
        for (number, came_s, ran_s, judgement) in results {
            let id = attempt(job, 1, *number);
            let mut left = completion(id, 7);
            left.ran = Span::from_secs(*ran_s);
            left.cpu = Span::from_secs(1);
            start(&mut store, id);
            let at = Time(Span::from_secs(*came_s).0);
            let finished = AttemptState::Finished;
            store.attempt_result(&left, finished, at).unwrap();
            if let Some(judgement) = judgement {
                store.judged(id, *judgement).unwrap();
            }
        }
        tried(store.db(), job, Time(0), None, u32::MAX).unwrap()
    }

    #[test]
    fn a_wait_for_results_that_are_compared_ends_with_the_last_of_them() {
        use Judgement::{Agreed, Differed};
        let results = [
            (1, 10, 2, Some(Differed(2))),
            (2, 20, 4, Some(Agreed(2))),
            (3, 40, 8, Some(Agreed(2))),
        ];
        let account = account_of(&results);
        assert_eq!((account.tasks, account.finished), (1, 1));
        assert!((account.response.sum - 40.0).abs() < 1e-6);
        assert!((account.slowdown.sum - 10.0).abs() < 1e-6);
        assert!((account.used_s - 3.0).abs() < 1e-6);
    }

    #[test]
    fn results_that_count_for_nothing_finish_no_task_in_its_account() {
        let open = Some(Judgement::Open(2));
        let account = account_of(&[(1, 10, 2, open), (2, 20, 4, open)]);
        assert_eq!((account.tasks, account.finished), (1, 0));
        assert!((account.used_s - 2.0).abs() < 1e-6);
        for judgement in [None, Some(Judgement::Alone(10))] {
            let account = account_of(&[(1, 10, 2, judgement)]);
            assert_eq!(account.finished, 1);
            assert!((account.response.sum - 10.0).abs() < 1e-6);
        }
    }
}
