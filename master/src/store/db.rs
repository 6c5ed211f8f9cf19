//! The seam between the store and its engine: one connection, to which the rest of the store gives
//! statements of one text that SQLite and PostgreSQL both understand. Parameters are `$1`, `$2` and
//! so on, and first appear in this order, since SQLite numbers them so.

use common::TaskId;
use common::view::StandbyView;
use rusqlite::Connection;

use super::pg::Pg;
use super::value::{FromCell, SqlRow, SqlValue, values};
use super::wait::StoreWait;
use super::{StoreError, StoreResult, lite, schema};

/// The key in `meta` for the number of transactions that were committed.
const COMMITS: &str = "commits";
/// Sets the value of a key in `meta`.
pub(super) const SET_META: &str = "INSERT INTO meta (key, value) VALUES ($1, $2)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// A connection to the store's engine.
pub(crate) enum Db {
    /// SQLite.
    Lite(Connection),
    /// PostgreSQL.
    Pg(Pg),
}

impl Db {
    /// Makes a change, of which nobody waits for the number of rows.
    pub(super) fn change(&self, sql: &str, values: &[SqlValue<'_>]) -> StoreResult<()> {
        match self {
            Db::Lite(_) => self.count(sql, values).map(drop),
            Db::Pg(db) => db.change(sql, values),
        }
    }

    /// Makes a change, and returns the number of rows that it changed.
    pub(super) fn count(&self, sql: &str, values: &[SqlValue<'_>]) -> StoreResult<usize> {
        match self {
            Db::Lite(db) => Ok(db.prepare_cached(sql)?.execute(parameters(values))?),
            Db::Pg(db) => db.count(sql, values),
        }
    }

    /// Calls `each` for each row of the answer, in its order.
    pub(super) fn each(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        mut each: impl FnMut(&SqlRow<'_>) -> StoreResult<()>,
    ) -> StoreResult<()> {
        match self {
            Db::Lite(db) => {
                let mut query = db.prepare_cached(sql)?;
                let mut rows = query.query(parameters(values))?;

                while let Some(row) = rows.next()? {
                    each(&SqlRow::Lite(row))?;
                }
                Ok(())
            }
            Db::Pg(db) => db.each(sql, values, |row| each(&SqlRow::Pg(row))),
        }
    }

    /// Reads each row of the answer into a collection.
    pub(super) fn all<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        mut read: impl FnMut(&SqlRow<'_>) -> StoreResult<T>,
    ) -> StoreResult<C> {
        let mut all = Vec::new();
        self.each(sql, values, |row| {
            all.push(read(row)?);
            Ok(())
        })?;
        Ok(all.into_iter().collect())
    }

    /// Reads the first row of the answer, if it has one.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        read: impl FnOnce(&SqlRow<'_>) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        match self {
            Db::Lite(db) => {
                let mut query = db.prepare_cached(sql)?;
                let mut rows = query.query(parameters(values))?;
                rows.next()?.map(|row| read(&SqlRow::Lite(row))).transpose()
            }
            Db::Pg(db) => {
                let rows = db.rows(sql, values)?;
                rows.first().map(|row| read(&SqlRow::Pg(row))).transpose()
            }
        }
    }

    /// Reads the one row that this question always has for an answer.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        read: impl FnOnce(&SqlRow<'_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.first(sql, values, read)?
            .ok_or_else(|| StoreError::Content(format!("no answer to: {sql}")))
    }

    /// Reads the first column of the first row of the answer, if it has one.
    pub(super) fn value<T: FromCell>(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
    ) -> StoreResult<Option<T>> {
        self.first(sql, values, |row| row.get(0))
    }

    /// Reads the one value that this question always has for an answer.
    pub(super) fn one_value<T: FromCell>(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
    ) -> StoreResult<T> {
        self.one(sql, values, |row| row.get(0))
    }

    /// The value of a key in `meta`, if there is one.
    pub(super) fn meta(&self, key: &str) -> StoreResult<Option<Vec<u8>>> {
        self.value("SELECT value FROM meta WHERE key = $1", values![key])
    }

    /// The value of a key in `meta`, if there is one of this length.
    pub(super) fn meta_of<const N: usize>(&self, key: &str) -> StoreResult<Option<[u8; N]>> {
        Ok(self.meta(key)?.and_then(|bytes| bytes.try_into().ok()))
    }

    /// Whether the answer has any row.
    pub(super) fn exists(&self, sql: &str, values: &[SqlValue<'_>]) -> StoreResult<bool> {
        self.first(sql, values, |_| Ok(())).map(|row| row.is_some())
    }

    /// Whether the task is in one of the ranges of this table, of which no two of a job overlap.
    pub(super) fn is_in_range(&self, table: &str, task: TaskId) -> StoreResult<bool> {
        let sql = format!(
            "SELECT last FROM {table} WHERE job = $1 AND first <= $2 ORDER BY first DESC LIMIT 1"
        );
        let last: Option<u32> = self.value(&sql, values![task.job.0, task.index])?;
        Ok(last.is_some_and(|last| last >= task.index))
    }

    /// Whether there is room that rows no longer need, and that [`Self::give_back`] is for.
    pub(super) fn has_free_pages(&self) -> StoreResult<bool> {
        match self {
            Db::Lite(db) => lite::has_free_pages(db),
            Db::Pg(_) => Ok(false),
        }
    }

    /// Gives room that rows no longer need back to the file system, where the engine does not do so
    /// by itself: at most so many pages. Returns whether there may be more.
    pub(super) fn give_back(&self, most: u32) -> StoreResult<bool> {
        match self {
            Db::Lite(db) => lite::give_back(db, most),
            Db::Pg(_) => Ok(false),
        }
    }

    /// Ends writing in order: writes all that the engine's log holds into the store's file, or gives
    /// the database to whoever waits for it.
    pub(super) fn finish(&self) -> StoreResult<()> {
        match self {
            Db::Lite(db) => lite::empty_log(db),
            Db::Pg(db) => db.resign(),
        }
    }

    /// From here to the commit the store is this master's, where another one could take it.
    pub(super) fn hold(&self) -> StoreResult<()> {
        match self {
            Db::Lite(_) => Ok(()),
            Db::Pg(db) => db.hold(),
        }
    }

    /// Makes sure that the store is still this master's, where another one could have taken it.
    /// Returns whether that took a commit.
    pub(super) fn be_sure(&self) -> StoreResult<bool> {
        match self {
            Db::Lite(_) => Ok(false),
            Db::Pg(db) => db.be_sure(),
        }
    }

    /// The wait of the writer for a database; a file is not waited for.
    pub(super) fn wait(&self) -> StoreWait {
        match self {
            Db::Lite(_) => StoreWait::default(),
            Db::Pg(db) => db.wait(),
        }
    }

    /// The number of commits so far, where the engine counts them itself.
    pub(super) fn reached(&self) -> Option<u64> {
        match self {
            Db::Lite(_) => None,
            Db::Pg(db) => db.reached(),
        }
    }

    /// The incarnation that this master drew when it took the store, where masters take it from each
    /// other.
    pub(super) fn token(&self) -> Option<u32> {
        match self {
            Db::Lite(_) => None,
            Db::Pg(db) => db.token(),
        }
    }

    /// The masters that stand by, where masters take the store from each other.
    pub(super) fn standbys(&self) -> StoreResult<Option<Vec<StandbyView>>> {
        match self {
            Db::Lite(_) => Ok(None),
            Db::Pg(db) => db.standbys().map(Some),
        }
    }

    /// The version of the tables; 0 if there are none.
    pub(super) fn version(&self) -> StoreResult<usize> {
        match self {
            Db::Lite(db) => schema::version(db),
            Db::Pg(db) => db.version(),
        }
    }

    /// Whether some master has the store at this moment, as far as the engine shows that.
    pub(super) fn is_held(&self) -> StoreResult<bool> {
        match self {
            Db::Lite(_) => Ok(false),
            Db::Pg(db) => db.is_held(),
        }
    }

    /// Whether there is a table of this name.
    pub(super) fn has_table(&self, name: &str) -> StoreResult<bool> {
        match self {
            Db::Lite(db) => lite::has_table(db, name),
            Db::Pg(db) => db.has_table(name),
        }
    }

    /// Lets all further questions see one state. The transaction lasts as long as the connection.
    pub(super) fn begin_to_read(&self) -> StoreResult<()> {
        match self {
            Db::Lite(db) => Ok(db.execute_batch("BEGIN")?),
            Db::Pg(_) => Ok(()),
        }
    }

    /// Begins a transaction that writes.
    pub(super) fn begin(&self) -> StoreResult<()> {
        match self {
            Db::Lite(db) => Ok(db
                .prepare_cached("BEGIN IMMEDIATE")?
                .execute([])
                .map(drop)?),
            // It begins with the flight that it needs first.
            Db::Pg(_) => Ok(()),
        }
    }

    /// Makes the transaction durable.
    pub(super) fn commit(&self) -> StoreResult<()> {
        match self {
            Db::Lite(db) => Ok(db.execute_batch("COMMIT")?),
            Db::Pg(db) => db.commit(),
        }
    }

    /// Counts this commit in the transaction that it ends.
    pub(super) fn count_commit(&self, commits: u64) -> StoreResult<()> {
        match self {
            Db::Lite(_) => self.change(SET_META, values![COMMITS, commits.to_le_bytes()]),
            // Its turns are the count.
            Db::Pg(_) => Ok(()),
        }
    }

    /// Counts further commits on from so many.
    pub(super) fn counts_on_from(&self, commits: u64) -> StoreResult<()> {
        match self {
            // The next commit notes its own number.
            Db::Lite(_) => Ok(()),
            Db::Pg(db) => db.counts_on_from(commits),
        }
    }

    /// The number of commits so far; 0 if there is none.
    pub(super) fn commits(&self) -> StoreResult<u64> {
        if let Db::Pg(db) = self {
            return db.commits();
        }
        Ok(self.meta_of(COMMITS)?.map_or(0, u64::from_le_bytes))
    }
}

fn parameters<'a>(values: &'a [SqlValue<'a>]) -> impl rusqlite::Params + 'a {
    rusqlite::params_from_iter(values)
}
