//! The seam between the store and its engine: one connection, to which the rest of the store gives
//! statements of one text that SQLite and PostgreSQL both understand. Parameters are `$1`, `$2` and
//! so on, and first appear in this order, since SQLite numbers them so.

use rusqlite::Connection;

use super::value::{Row, Value};
use super::{StoreError, lite};

/// A connection to the store's engine.
pub(crate) enum Db {
    /// SQLite.
    Lite(Connection),
}

impl Db {
    /// Executes a statement, and returns the number of rows that it changed.
    pub(super) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, StoreError> {
        match self {
            Db::Lite(db) => Ok(db.prepare_cached(sql)?.execute(parameters(values))?),
        }
    }

    /// Calls `each` for each row of the answer, in its order.
    pub(super) fn each(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut each: impl FnMut(&Row<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match self {
            Db::Lite(db) => {
                let mut query = db.prepare_cached(sql)?;
                let mut rows = query.query(parameters(values))?;
                while let Some(row) = rows.next()? {
                    each(&Row::Lite(row))?;
                }
                Ok(())
            }
        }
    }

    /// Reads each row of the answer into a collection.
    pub(super) fn all<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<C, StoreError> {
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
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self {
            Db::Lite(db) => {
                let mut query = db.prepare_cached(sql)?;
                let mut rows = query.query(parameters(values))?;
                rows.next()?.map(|row| read(&Row::Lite(row))).transpose()
            }
        }
    }

    /// Reads the one row that this question always has for an answer.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.first(sql, values, read)?
            .ok_or_else(|| StoreError::Content(format!("no answer to: {sql}")))
    }

    /// Whether the answer has any row.
    pub(super) fn exists(&self, sql: &str, values: &[Value<'_>]) -> Result<bool, StoreError> {
        self.first(sql, values, |_| Ok(())).map(|row| row.is_some())
    }

    /// Gives room that rows no longer need back to the file system, where the engine does not do so
    /// by itself.
    pub(super) fn give_back(&self) -> Result<(), StoreError> {
        match self {
            Db::Lite(db) => lite::give_back(db),
        }
    }

    /// Writes all that the engine's log holds into the store's file, where there is one.
    pub(super) fn empty_log(&self) -> Result<(), StoreError> {
        match self {
            Db::Lite(db) => lite::empty_log(db),
        }
    }

    /// Writes all that is committed, as of one moment, to a new file of SQLite's.
    pub(super) fn copy_to(&self, path: &str) -> Result<(), StoreError> {
        match self {
            Db::Lite(db) => lite::copy_to(db, path),
        }
    }

    /// Whether there is a table of this name.
    pub(super) fn has_table(&self, name: &str) -> Result<bool, StoreError> {
        match self {
            Db::Lite(db) => lite::has_table(db, name),
        }
    }

    /// Lets all further questions see one state. The transaction lasts as long as the connection.
    pub(super) fn begin_to_read(&self) -> Result<(), StoreError> {
        match self {
            Db::Lite(db) => Ok(db.execute_batch("BEGIN")?),
        }
    }

    /// Begins a transaction that writes.
    pub(super) fn begin(&self) -> Result<(), StoreError> {
        match self {
            Db::Lite(db) => Ok(db
                .prepare_cached("BEGIN IMMEDIATE")?
                .execute([])
                .map(drop)?),
        }
    }

    /// Makes the transaction durable.
    pub(super) fn commit(&self) -> Result<(), StoreError> {
        match self {
            Db::Lite(db) => Ok(db.execute_batch("COMMIT")?),
        }
    }
}

fn parameters<'a>(values: &'a [Value<'a>]) -> impl rusqlite::Params + 'a {
    rusqlite::params_from_iter(values)
}
