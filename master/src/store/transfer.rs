//! Copies a whole store from one engine to the other, table by table, and compares both. The note of
//! the grid comes last: a store without it is none, so what broke off is begun anew.

use super::db::Db;
use super::lite::{self, LiteColumn};
use super::pg::KeptValue;
use super::value::{SqlCell, SqlValue, ToValue, numbered, quoted, quoted_list};
use super::{StoreError, StoreResult, Writer};

/// The rows that are read, and committed, at a time.
const PAGE: usize = 2_000;
/// The table with single values, and the key in it that only SQLite has (`Db::commits`).
const META: &str = "meta";
const COMMITS: &str = "commits";

/// A table of the store.
pub(super) struct StoreTable {
    name: String,
    columns: Vec<StoreColumn>,
    /// The columns of its primary key, in their order.
    key: Vec<usize>,
}

struct StoreColumn {
    name: String,
    /// Whether its values are true and false: its type is `BOOLEAN`.
    flag: bool,
}

impl StoreColumn {
    /// The value of this column, the same for both engines.
    fn value_of(&self, cell: SqlCell<'_>) -> KeptValue {
        match cell {
            SqlCell::Null => KeptValue::Null,
            SqlCell::Flag(flag) => KeptValue::Flag(flag),
            SqlCell::Int(n) if self.flag => KeptValue::Flag(n != 0),
            SqlCell::Int(n) => KeptValue::Int(n),
            SqlCell::Real(n) => KeptValue::Real(n),
            // PostgreSQL has no place for a NUL in a text.
            SqlCell::Text(text) => {
                let text = String::from_utf8_lossy(text).replace('\0', "\u{fffd}");
                KeptValue::Text(text.into())
            }
            SqlCell::Bytes(bytes) => KeptValue::Bytes(bytes.into()),
        }
    }
}

/// The columns and indexes of all tables and the views, each in words.
pub(super) fn parts() -> StoreResult<Vec<String>> {
    let mut parts = lite::parts()?;
    for StoreTable { name, columns, .. } in StoreTable::all()? {
        parts.push(format!("the index {name}_pkey"));
        let columns = columns.iter();
        parts.extend(columns.map(|column| format!("the column {name}.{}", column.name)));
    }
    Ok(parts)
}

impl StoreTable {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns all tables, `meta` with the note of the grid last.
    pub(super) fn all() -> StoreResult<Vec<Self>> {
        let mut all: Vec<Self> = lite::tables()?
            .into_iter()
            .map(|(name, columns)| Self::of(name, columns))
            .collect();
        all.sort_by_key(|table| table.name == META);
        Ok(all)
    }

    fn of(name: String, columns: Vec<LiteColumn>) -> Self {
        let mut key: Vec<(i64, usize)> = columns
            .iter()
            .enumerate()
            .filter_map(|(at, column)| Some((column.key?, at)))
            .collect();
        key.sort_unstable();
        let columns = columns.into_iter().map(|column| StoreColumn {
            name: column.name,
            flag: column.kind == "BOOLEAN",
        });
        Self {
            name,
            columns: columns.collect(),
            key: key.into_iter().map(|(_, at)| at).collect(),
        }
    }

    fn names(&self) -> String {
        quoted_list(self.columns.iter().map(|column| &*column.name))
    }

    /// The next rows of it after this one, in the order of its key.
    fn page(&self, db: &Db, after: Option<&[KeptValue]>) -> StoreResult<Vec<Vec<KeptValue>>> {
        let key = self.key.iter().filter_map(|at| self.columns.get(*at));
        let key = quoted_list(key.map(|column| &*column.name));
        let start = after.map_or_else(String::new, |_| {
            format!("WHERE ({key}) > ({})", numbered(1..=self.key.len()))
        });
        let sql = format!(
            "SELECT {} FROM {} {start} ORDER BY {key} LIMIT {PAGE}",
            self.names(),
            quoted(&self.name)
        );

        let after = after.map(|row| self.key.iter().filter_map(|at| row.get(*at)));
        let values: Vec<SqlValue<'_>> =
            after.map_or_else(Vec::new, |row| row.map(KeptValue::to_value).collect());
        let row = |row: &super::value::SqlRow<'_>| {
            let columns = self.columns.iter().enumerate();
            columns
                .map(|(at, column)| Ok(column.value_of(row.cell(at)?)))
                .collect::<StoreResult<Vec<_>>>()
        };
        db.all(&sql, &values, row)
    }

    /// Whether the engine keeps this row for itself: `COMMITS`.
    fn is_engines(&self, row: &[KeptValue]) -> bool {
        self.name == META && row.first() == Some(&KeptValue::Text(COMMITS.into()))
    }

    /// Calls `each` for the rows, a page at a time.
    fn pages(
        &self,
        db: &Db,
        mut each: impl FnMut(Vec<Vec<KeptValue>>) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let mut after: Option<Vec<KeptValue>> = None;
        loop {
            let mut rows = self.page(db, after.as_deref())?;
            let whole = rows.len() == PAGE;
            after = rows.last().cloned();
            rows.retain(|row| !self.is_engines(row));
            each(rows)?;
            if !whole {
                return Ok(());
            }
        }
    }
}

/// Copies all of a store into one that has no grid yet, and compares both. Returns the number of rows.
///
/// # Errors
/// If a store fails, or the copy is not what was copied.
pub(crate) fn copy(from: &Db, to: &mut Writer) -> StoreResult<u64> {
    let tables = StoreTable::all()?;
    for table in &tables {
        to.change(&format!("DELETE FROM {}", quoted(&table.name)), &[])?;
    }
    to.counts_on_from(from.commits()?)?;
    to.commit()?;

    let mut count = 0;
    for table in &tables {
        let insert = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            quoted(&table.name),
            table.names(),
            numbered(1..=table.columns.len())
        );
        table.pages(from, |rows| {
            count += rows.len() as u64;
            for row in rows {
                let values: Vec<SqlValue<'_>> = row.iter().map(KeptValue::to_value).collect();
                to.change(&insert, &values)?;
            }
            to.commit().map(drop)
        })?;
    }

    same(from, to.db())?;
    Ok(count)
}

/// Fails if a table of one store is not the same in the other.
pub(super) fn same(from: &Db, to: &Db) -> StoreResult<()> {
    let tables = StoreTable::all()?;
    tables.iter().try_for_each(|table| compare(table, from, to))
}

/// Fails if the table is not the same in both.
pub(super) fn compare(table: &StoreTable, from: &Db, to: &Db) -> StoreResult<()> {
    let mut at: Option<Vec<KeptValue>> = None;
    let mut rest: Vec<Vec<KeptValue>> = Vec::new();
    let mut ended = false;
    let mut next = || -> StoreResult<Option<Vec<KeptValue>>> {
        while rest.is_empty() && !ended {
            rest = table.page(to, at.as_deref())?;
            ended = rest.len() < PAGE;
            at = rest.last().cloned().or_else(|| at.take());
            rest.retain(|row| !table.is_engines(row));
            rest.reverse();
        }
        Ok(rest.pop())
    };

    let differs = || StoreError::Content(format!("the copy of `{}` differs", table.name));
    table.pages(from, |rows| {
        for row in rows {
            if next()? != Some(row) {
                return Err(differs());
            }
        }
        Ok(())
    })?;
    match next()? {
        None => Ok(()),
        Some(_) => Err(differs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::value::values;

    #[test]
    fn all_tables_are_known_with_their_keys_and_the_notes_come_last() {
        let tables = StoreTable::all().unwrap();
        assert!(tables.iter().all(|table| !table.key.is_empty()));
        assert_eq!(tables.last().map(|table| table.name.as_str()), Some(META));
        let attempt = tables.iter().find(|table| table.name == "attempt").unwrap();
        let key: Vec<&str> = attempt
            .key
            .iter()
            .map(|at| attempt.columns[*at].name.as_str())
            .collect();
        assert_eq!(key, ["job", "task", "number"]);
    }

    fn store(dir: &std::path::Path) -> Writer {
        Writer::open_beside(dir, &super::super::log::FileLogs).unwrap()
    }

    /// A store with more hosts than are read at a time, and odd values.
    fn full(dir: &std::path::Path) -> Writer {
        let mut full = store(dir);
        let sql = "INSERT INTO host (id, name, facts, draining, owner) VALUES ($1, $2, $3, $4, $5)";
        for id in 1..=(2 * PAGE as i64 + 1) {
            let facts = id.to_le_bytes();
            let owner = (id % 3 == 0).then(|| format!("o\u{0}{id}"));
            let (name, draining) = (format!("h{id}"), id % 2 == 0);
            full.change(sql, values![id, name, facts, draining, owner])
                .unwrap();
        }
        full.set_meta("grid", &[7; 16]).unwrap();
        full.commit().unwrap();
        full
    }

    #[test]
    fn a_copy_has_every_row_and_counts_on_and_another_try_begins_anew() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let from = full(one.path());
        let mut to = Writer::open(other.path()).unwrap();
        to.change("INSERT INTO host (id, name) VALUES (9, 'left')", &[])
            .unwrap();
        to.commit().unwrap();

        let rows = copy(from.db(), &mut to).unwrap();
        assert_eq!(rows, 2 * PAGE as u64 + 2);
        assert!(to.commits() > from.commits());
        assert!(to.db().commits().unwrap() >= to.commits());

        to.change("UPDATE host SET draining = TRUE WHERE id = 4001", &[])
            .unwrap();
        to.commit().unwrap();
        let tables = StoreTable::all().unwrap();
        let host = tables.iter().find(|table| table.name == "host").unwrap();
        let differs = compare(host, from.db(), to.db()).unwrap_err().to_string();
        assert!(differs.contains("`host` differs"), "{differs}");
    }
}
