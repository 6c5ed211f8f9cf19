//! A connection that sees one state of the database for as long as it lasts, beside the master that
//! writes. Long answers are read in portions. Where the connection breaks it is not made anew: another
//! one would see another state.

use super::cells::DbRow;
use super::error::DbError;
use super::{Database, DbSession, Inside, Pg, tables};
use crate::store::value::SqlValue;
use crate::store::{StoreError, StoreResult};

/// The rows that are read at a time.
const PORTION: usize = 1_000;
/// Begins the one transaction, whose first question decides which state it sees. Between questions it may
/// wait for as long as a disk takes.
const BEGIN: &str =
    "SET idle_in_transaction_session_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

impl Pg {
    /// A connection that sees the state of this moment from now on.
    pub(in crate::store) fn snapshot(place: &Database) -> StoreResult<Self> {
        let session = DbSession::to_read(place)?;
        place.answered(session.execute(BEGIN.to_owned()))?;
        let pg = Self::with(place.clone(), Inside::Sees(session));
        pg.has_table("lease")?;
        Ok(pg)
    }

    /// Calls `each` for each row of the answer.
    pub(in crate::store) fn each(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        mut each: impl FnMut(&DbRow) -> StoreResult<()>,
    ) -> StoreResult<()> {
        if !matches!(&*self.inside.borrow(), Inside::Sees(_)) {
            return self.rows(sql, values)?.iter().try_for_each(each);
        }

        let depth = self.cursors.get();
        let open = format!("DECLARE rows_{depth} NO SCROLL CURSOR FOR {sql}");
        self.rows(&open, values)?;
        self.cursors.set(depth + 1);
        let read = self.read_portions(depth, &mut each);
        self.cursors.set(depth);

        let closed = self.see(|session| session.execute(format!("CLOSE rows_{depth}")));
        read.and(closed)
    }

    fn read_portions(
        &self,
        depth: usize,
        each: &mut impl FnMut(&DbRow) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let next = format!("FETCH FORWARD {PORTION} FROM rows_{depth}");
        loop {
            let rows = self.see(|session| session.portion(&next))?;
            rows.iter().try_for_each(&mut *each)?;
            if rows.len() < PORTION {
                return Ok(());
            }
        }
    }

    /// Asks within the transaction.
    fn see<T>(&self, ask: impl FnOnce(&DbSession) -> Result<T, DbError>) -> StoreResult<T> {
        match &*self.inside.borrow() {
            Inside::Sees(session) => Ok(self.place.answered(ask(session))?),
            _ => Err(StoreError::Content("it sees no one state".to_owned())),
        }
    }

    /// The tables' columns, the indexes and the views that there are, each in words, and whether the
    /// server keeps checksums of its pages.
    pub(in crate::store) fn layout(&self) -> StoreResult<(Vec<String>, bool)> {
        let parts = self.rows(tables::PARTS, &[])?;
        let parts = parts.iter().map(|row| row.get(0)).collect();
        let sums = self.rows(tables::CHECKSUMS, &[])?;
        Ok((parts, sums.first().is_some_and(|row| row.get(0))))
    }
}
