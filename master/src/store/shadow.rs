//! A copy of a store in a database, for whoever drives an engine in a simulated world: each change is made there
//! as well, and after each group the tables that it changed are compared. A difference between the two engines is
//! found with the group that made it. No master keeps one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use common::Time;

use super::db::Db;
use super::pg::{Database, LeaseContender, MasterMember};
use super::transfer::{self, StoreTable};
use super::value::{SqlValue, values};
use super::{StoreError, StoreResult, Writer};
use crate::locked;

/// Every so many groups all tables are compared, also those that no change has named.
const COMPARE_ALL_EVERY: u64 = 64;

/// A handle to the copy of an `Engine`'s store; clones are of the same one.
#[derive(Clone)]
pub struct StoreShadow(Arc<Mutex<ShadowCopy>>);

/// The copy, and what was seen of it; [`StoreShadow`] locks it.
struct ShadowCopy {
    copy: Writer,
    tables: Vec<StoreTable>,
    /// The tables that the open group has changed.
    changed: BTreeSet<String>,
    /// Whether the open group has changes that no question has sent yet.
    unsent: bool,
    groups: u64,
    /// Whether the store could not be read: until it is opened again the copy is not its own.
    lost: bool,
    /// The first difference. Nothing is done after it.
    differs: Option<String>,
}

impl StoreShadow {
    /// Makes a copy in the database with this address, in a schema that only tests use.
    ///
    /// # Errors
    /// If the database does not answer, or another run has that schema.
    pub fn in_database(url: &str, schema: &str) -> StoreResult<Self> {
        let place = Database::with_schema(url, schema)?;
        let member = MasterMember::here("shadow".to_owned(), String::new());
        let mut contender = LeaseContender::new(&place, member);
        let taken = contender.once_left(|contender, seen| contender.take(seen, Time(0)))?;
        let copy = taken
            .ok_or_else(|| StoreError::Content(format!("another run has the schema {schema}")))?;

        Ok(Self(Arc::new(Mutex::new(ShadowCopy {
            copy,
            tables: StoreTable::all()?,
            changed: BTreeSet::new(),
            unsent: false,
            groups: 0,
            lost: true,
            differs: None,
        }))))
    }

    /// The number of groups after each of which `compare` found both the same, or the first difference.
    ///
    /// # Errors
    /// With the difference.
    pub fn verdict(&self) -> Result<u64, String> {
        let inside = locked(&self.0);
        match &inside.differs {
            Some(why) => Err(why.clone()),
            None => Ok(inside.groups),
        }
    }

    /// Does something with the copy while it is one. An error is a difference, unless the store cannot be
    /// read: disks of simulated worlds fail.
    fn with(&self, act: impl FnOnce(&mut ShadowCopy) -> StoreResult<()>) {
        let mut inside = locked(&self.0);
        if inside.lost || inside.differs.is_some() {
            return;
        }
        match act(&mut inside) {
            Ok(()) => {}
            Err(StoreError::Sqlite(_)) => inside.lost = true,
            Err(error) => inside.differs = Some(format!("group {}: {error}", inside.groups + 1)),
        }
    }

    /// Makes the copy that of this `Writer`'s store, whose changes follow. What a crash left of a group goes.
    pub(super) fn begin(&self, store: &Writer) {
        locked(&self.0).lost = false;
        self.with(|inside| {
            inside.changed.clear();
            inside.unsent = false;
            transfer::copy(store.db(), &mut inside.copy).map(drop)
        });
    }

    /// Makes a change of the store's, which has changed so many rows there if somebody asked.
    pub(super) fn change(&self, sql: &str, values: &[SqlValue<'_>], rows: Option<usize>) {
        self.with(|inside| {
            inside.changed.insert(table_of(sql).to_owned());
            let Some(rows) = rows else {
                inside.unsent = true;
                return inside.copy.change(sql, values);
            };

            inside.unsent = false;
            let copied = inside.copy.count(sql, values)?;
            if copied == rows {
                return Ok(());
            }
            let why = format!("{copied} rows, and {rows} in the file, were changed by: {sql}");
            Err(StoreError::Content(why))
        });
    }

    /// Asks the copy something, as the store is: what was changed before has to be sent for that.
    pub(super) fn ask(&self) {
        self.with(|inside| {
            if std::mem::take(&mut inside.unsent) {
                let sql = "SELECT 1 FROM meta WHERE key = $1";
                inside.copy.db().exists(sql, values![""])?;
            }
            Ok(())
        });
    }

    /// Commits as the store has, and compares both.
    pub(super) fn commit(&self, store: &Db) {
        self.with(|inside| {
            inside.copy.commit()?;
            inside.unsent = false;
            let changed = std::mem::take(&mut inside.changed);
            let all = inside.groups.is_multiple_of(COMPARE_ALL_EVERY);
            let of_group = |table: &&StoreTable| all || changed.contains(table.name());
            for table in inside.tables.iter().filter(of_group) {
                transfer::compare(table, store, inside.copy.db())?;
            }

            inside.groups += 1;
            Ok(())
        });
    }
}

/// The table that a statement changes.
fn table_of(sql: &str) -> &str {
    let mut words = sql.split_whitespace();
    let table =
        words.find(|word| !matches!(*word, "INSERT" | "INTO" | "UPDATE" | "DELETE" | "FROM"));
    table.unwrap_or_default().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_a_change_is_read_from_its_statement() {
        for (sql, table) in [
            ("INSERT INTO host (id, name) VALUES ($1, $2)", "host"),
            ("UPDATE \"task\"\n SET state = $1", "task"),
            ("DELETE FROM audit WHERE number <= $1", "audit"),
        ] {
            assert_eq!(table_of(sql), table);
        }
    }
}
