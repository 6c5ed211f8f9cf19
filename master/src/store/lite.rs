//! SQLite as the engine: one file in WAL mode with `synchronous=FULL`. How it is opened, checked and
//! given back to the file system is here; the statements are those of the whole store.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::db::Db;
use super::log::{Logs, write_again};
use super::{StoreError, StoreResult, schema};

/// The most memory that the writer keeps pages in: so many KiB, as SQLite wants it said.
const CACHE_KIB: i32 = -32 * 1_024;

/// The name of the store's file.
pub(super) const FILE: &str = "store.sqlite";
/// The size, in bytes, to which a larger write-ahead log is cut once its content is no longer
/// needed.
const WAL_KEEPS: i64 = 16 << 20;

/// Opens a file. Fails if it is not there, unless `flags` say that it is made.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> StoreResult<Connection> {
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(std::time::Duration::from_secs(10))?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

/// Opens the store in `dir` to write, creates or migrates its tables, and checks it. Its log is in
/// `logs`.
pub(super) fn open(dir: &Path, logs: &dyn Logs) -> StoreResult<Db> {
    open_at(&dir.join(FILE), logs)
}

/// The same of the file at `path`.
pub(super) fn open_at(path: &Path, logs: &dyn Logs) -> StoreResult<Db> {
    open_file(path, logs)
        .map(Db::Lite)
        .map_err(|error| error.on_disk_of(path))
}

fn open_file(path: &Path, logs: &dyn Logs) -> StoreResult<Connection> {
    write_again(logs, &path.with_extension("sqlite-wal")).map_err(StoreError::Log)?;

    let mut db = connect(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    let health: String = db
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|e| StoreError::from(e).damages(path))?;
    if health != "ok" {
        return Err(StoreError::Damaged {
            path: path.to_owned(),
            what: health,
        });
    }

    schema::check_known(schema::version(&db)?)?;
    rewrite(&db)?;
    // Takes effect only before the first table is made.
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;

    // After a burst of changes the log is cut back to this size.
    // Rows that are found by a hash lie anywhere: SQLite's two megabytes are soon too few for them.
    db.pragma_update(None, "cache_size", CACHE_KIB)?;
    db.pragma_update(None, "journal_size_limit", WAL_KEEPS)?;
    schema::migrate(&mut db)?;

    // After a failed sync the system shows bytes that the disk does not have. So all that is
    // read now is written again before anything is built on it.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(db)
}

/// Writes all that the log holds into the store's file, durably, and begins a new log. Changes that
/// an earlier run could not sync may lie in the system's memory, readable, and not come to the
/// disk, so they are written again before anything is built on them. If somebody else reads the
/// store, this is left out with a warning.
fn rewrite(db: &Connection) -> StoreResult<()> {
    match db.pragma_update(None, "journal_mode", "DELETE") {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            tracing::warn!("somebody else reads the store: what it holds is not written again");
            Ok(())
        }
        done => Ok(done?),
    }
}

/// Writes all that the log holds into the store's file and empties the log. A reader of an older
/// state prevents that; then a warning is logged.
pub(super) fn empty_log(db: &Connection) -> StoreResult<()> {
    let busy: bool = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy {
        tracing::warn!("somebody reads the store: its log stays beside it");
    }
    Ok(())
}

/// Whether there are freed pages.
pub(super) fn has_free_pages(db: &Connection) -> StoreResult<bool> {
    let pages: i64 = db
        .prepare_cached("PRAGMA freelist_count")?
        .query_row([], |row| row.get(0))?;
    Ok(pages > 0)
}

/// Gives freed pages back to the file system, at most so many. Returns whether there may be more.
pub(super) fn give_back(db: &Connection, most: u32) -> StoreResult<bool> {
    // Each step frees one page.
    let mut vacuum = db.prepare_cached("PRAGMA incremental_vacuum")?;
    let mut steps = vacuum.query([])?;
    for _ in 0..most {
        if steps.next()?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The faults of the file itself, page by page and index by index, `most` of them.
pub(super) fn faults(db: &Connection, most: usize) -> StoreResult<Vec<String>> {
    let mut check = db.prepare(&format!("PRAGMA integrity_check({most})"))?;
    let told = check.query_map([], |row| row.get(0))?;
    let mut told: Vec<String> = told.collect::<Result<_, _>>()?;
    told.retain(|line| line != "ok");
    Ok(told)
}

/// Writes all that is committed, as of one moment, to a new file.
pub(super) fn copy_to(db: &Connection, path: &str) -> StoreResult<()> {
    Ok(db.execute("VACUUM INTO ?", [path]).map(drop)?)
}

/// Whether there is a table of this name.
pub(super) fn has_table(db: &Connection, name: &str) -> StoreResult<bool> {
    let there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?";
    Ok(db.prepare(there)?.exists([name])?)
}

/// The indexes and views that a store of this version has beside its keys, each in words.
pub(super) fn parts() -> StoreResult<Vec<String>> {
    let mut empty = Connection::open_in_memory()?;
    schema::migrate(&mut empty)?;
    let sql = "SELECT 'the ' || type || ' ' || name FROM sqlite_master WHERE type <> 'table' AND sql IS NOT NULL";
    let mut parts = empty.prepare(sql)?;
    let found = parts.query_map([], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// A column of a table.
pub(super) struct LiteColumn {
    pub(super) name: String,
    pub(super) kind: String,
    /// Its place in the primary key, if it is part of that.
    pub(super) key: Option<i64>,
}

/// The tables that a store of this version has, in the order of their names, with their columns.
pub(super) fn tables() -> StoreResult<Vec<(String, Vec<LiteColumn>)>> {
    let mut empty = Connection::open_in_memory()?;
    schema::migrate(&mut empty)?;
    let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let names: Vec<String> = empty
        .prepare(names)?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;

    let mut columns =
        empty.prepare("SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid")?;
    let mut tables = Vec::new();
    for name in names {
        let found = columns.query_map([&name], |row| {
            let place: i64 = row.get(2)?;
            Ok(LiteColumn {
                name: row.get(0)?,
                kind: row.get(1)?,
                key: (place > 0).then_some(place),
            })
        })?;
        let found = found.collect::<Result<_, _>>()?;
        tables.push((name, found));
    }
    Ok(tables)
}
