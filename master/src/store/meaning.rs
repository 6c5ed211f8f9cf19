//! Checks that each column of each table holds a valid value: a flipped bit in a word or a number
//! leaves a file that SQLite finds sound. `look` checks how rows of several tables fit together,
//! and the values that it reads itself.

use std::fmt::Display;
use std::str::FromStr;

use common::checkpoint::Saved;
use common::event::GridEvent;
use common::host::HostFacts;
use common::needs::Label;
use common::site::SiteScope;
use common::token::Role;
use common::{EndCondition, TaskSet};
use scheduler::billing::Account;
use serde::Deserialize;

use super::db::Db;
use super::value::{SqlCell, quoted_list};
use super::{Attendance, Promised, StoreError, StoreResult, from_postcard, results};

/// The number of faults after which the check of a table stops.
const SHOWN: usize = 20;

/// The values that a column may hold. NULL is allowed for each: SQLite's own check covers it.
#[derive(Clone, Copy)]
enum ColumnKind {
    /// A number from 0 up that fits into 32 bits.
    Id,
    /// A number from 0 up: an amount, a time or a span.
    Count,
    /// Any integer.
    Number,
    /// A floating-point number.
    Real,
    /// A boolean: 0 or 1.
    Flag,
    /// Any UTF-8 text.
    Text,
    /// Text that this function can parse.
    Word(fn(&str) -> StoreResult<()>),
    /// Exactly this number of bytes.
    Bytes(usize),
    /// Bytes that another check covers.
    Blob,
    /// Bytes that this function can decode.
    Value(fn(&[u8]) -> StoreResult<()>),
}

use ColumnKind::{Blob, Bytes, Count, Flag, Id, Number, Real, Text, Value, Word};

type ColumnMeanings = &'static [(&'static str, ColumnKind)];

/// All columns of each table. The first column identifies a row in messages.
const TABLES: &[(&str, ColumnMeanings)] = &[
    ("meta", &[("key", Text), ("value", Blob)]),
    (
        "token",
        &[
            ("id", Id),
            ("secret_hash", Bytes(32)),
            ("role", Word(parsed::<Role>)),
            ("name", Text),
            ("uses_left", Id),
            ("expires", Count),
            ("revoked", Flag),
            ("approval", Flag),
            ("speaks_for", Text),
        ],
    ),
    (
        "peer",
        &[
            ("name", Text),
            ("uuid", Bytes(16)),
            ("role", Word(parsed::<Role>)),
            ("key_hash", Bytes(32)),
            ("host", Id),
            ("enrolled", Count),
            ("revoked", Flag),
            ("next_key_hash", Bytes(32)),
            ("former_key_hash", Bytes(32)),
            ("token", Id),
            ("approved", Flag),
            ("expires", Count),
        ],
    ),
    (
        "host",
        &[
            ("id", Id),
            ("name", Text),
            ("facts", Value(value::<HostFacts>)),
            ("draining", Flag),
            ("finished", Count),
            ("lost", Count),
            ("heard", Count),
            ("owner", Text),
            ("valid", Id),
            ("attendance", Word(attendance)),
            ("labels", Word(labels)),
        ],
    ),
    (
        "job",
        &[
            ("id", Id),
            ("request", Bytes(16)),
            ("body_hash", Bytes(32)),
            ("name", Text),
            ("user", Text),
            ("policy", Text),
            ("priority", Number),
            ("spec", Blob),
            ("total", Count),
            ("state", Text),
            ("reason", Text),
            ("submitted", Count),
            ("started", Count),
            ("ended", Count),
            ("predicted_makespan", Count),
            ("attempts", Count),
            ("duplicates", Count),
            ("finished", Count),
            ("failed", Count),
            ("cancelled", Count),
            ("promise", Value(value::<Promised>)),
            ("disclosed", Count),
            ("estimates", Blob),
            ("open", Flag),
            ("needs", Text),
        ],
    ),
    (
        "job_label",
        &[("job", Id), ("label", Word(parsed::<Label>))],
    ),
    (
        "job_after",
        &[
            ("job", Id),
            ("before", Id),
            ("how", Word(parsed::<EndCondition>)),
            ("met", Flag),
        ],
    ),
    (
        "addition",
        &[
            ("job", Id),
            ("number", Id),
            ("request", Bytes(16)),
            ("body_hash", Bytes(32)),
            ("user", Text),
            ("tasks", Value(value::<TaskSet>)),
            ("at", Count),
        ],
    ),
    (
        "settled",
        &[
            ("job", Id),
            ("first", Id),
            ("last", Id),
            ("state", Text),
            ("why", Text),
        ],
    ),
    (
        "attempt",
        &[
            ("job", Id),
            ("task", Id),
            ("number", Id),
            ("incarnation", Id),
            ("host", Id),
            ("state", Text),
            ("duplicate", Flag),
            ("assigned", Count),
            ("started", Count),
            ("ended", Count),
            ("ran", Count),
            ("cpu", Count),
            ("suspended", Count),
            ("exit_code", Number),
            ("charged", Flag),
            ("start_why", Text),
            ("end_why", Text),
            ("result", Blob),
            ("started_from", Value(value::<Saved>)),
            ("saved", Value(value::<Saved>)),
            ("checkpoint_problem", Text),
            ("verdict", Word(verdict)),
            ("removed", Count),
            ("policed", Count),
        ],
    ),
    ("blob_use", &[("job", Id), ("hash", Bytes(32))]),
    (
        "content_of",
        &[
            ("user", Text),
            ("hash", Bytes(32)),
            ("size", Count),
            ("at", Count),
            ("needed", Flag),
        ],
    ),
    (
        "content",
        &[
            ("hash", Bytes(32)),
            ("generation", Count),
            ("size", Count),
            ("counted_on", Count),
            ("condemned", Count),
        ],
    ),
    (
        "checkpoint",
        &[("job", Id), ("task", Id), ("saved", Value(value::<Saved>))],
    ),
    (
        "checkpoint_blob",
        &[("job", Id), ("task", Id), ("hash", Bytes(32))],
    ),
    (
        "availability",
        &[
            ("host", Id),
            ("start", Count),
            ("end", Count),
            ("cpu", Real),
            ("owner", Flag),
            ("reason", Text),
        ],
    ),
    ("share", &[("job", Id), ("user", Text)]),
    (
        "audit",
        &[
            ("number", Count),
            ("at", Count),
            ("who", Text),
            ("what", Text),
            ("subject", Text),
            ("allowed", Flag),
            ("why", Text),
            ("count", Id),
        ],
    ),
    (
        "request",
        &[("job", Id), ("first", Id), ("last", Id), ("at", Count)],
    ),
    (
        "account",
        &[("user", Text), ("sums", Value(value::<Account>))],
    ),
    (
        "foretold",
        &[
            ("job", Id),
            ("hosts", Id),
            ("at", Count),
            ("wait", Count),
            ("low", Count),
            ("high", Count),
            ("came", Count),
        ],
    ),
    (
        "kept",
        &[
            ("job", Id),
            ("task", Id),
            ("number", Id),
            ("user", Text),
            ("at", Count),
            ("bytes", Count),
        ],
    ),
    (
        "kept_blob",
        &[
            ("job", Id),
            ("task", Id),
            ("number", Id),
            ("hash", Bytes(32)),
        ],
    ),
    (
        "site_text",
        &[
            ("scope", Word(parsed::<SiteScope>)),
            ("body", Text),
            ("who", Text),
            ("at", Count),
        ],
    ),
    (
        "site_answer",
        &[
            ("host", Id),
            ("digest", Count),
            ("at", Count),
            ("refused", Text),
        ],
    ),
    (
        "rollout",
        &[
            ("platform", Text),
            ("body", Value(value::<super::StoredRollout>)),
        ],
    ),
    (
        "rollout_host",
        &[
            ("platform", Text),
            ("host", Id),
            ("body", Value(value::<super::StoredProgress>)),
        ],
    ),
    (
        "forgotten",
        &[
            ("job", Id),
            ("user", Text),
            ("submitted", Count),
            ("disclosed", Count),
            ("uncounted", Count),
        ],
    ),
    (
        "event",
        &[
            ("last", Count),
            ("at", Count),
            ("body", Value(value::<Vec<GridEvent>>)),
        ],
    ),
];

/// The keys of `meta` whose values have a fixed length, with that length in bytes.
const META: [(&str, usize); 10] = [
    ("grid", 16),
    ("quic seed", 32),
    ("audit seed", 8),
    ("numbers", 16),
    ("incarnation", 4),
    ("commits", 8),
    ("up", 8),
    ("copied", 8),
    ("ageing from", 8),
    ("update key", 32),
];

fn attendance(text: &str) -> StoreResult<()> {
    Attendance::of(text).map(drop)
}

fn labels(text: &str) -> StoreResult<()> {
    let words = text.split(',').filter(|word| !word.is_empty());
    words.into_iter().try_for_each(parsed::<Label>)
}

fn parsed<T: FromStr>(text: &str) -> StoreResult<()>
where
    T::Err: Display,
{
    let read: Result<T, _> = text.parse();
    read.map(drop)
        .map_err(|bad| StoreError::Content(bad.to_string()))
}

fn verdict(text: &str) -> StoreResult<()> {
    results::judgement(Some(text.to_owned())).map(drop)
}

fn value<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> StoreResult<()> {
    from_postcard::<T>(bytes).map(drop)
}

impl ColumnKind {
    /// The reason why a column of this kind cannot hold `found`, or `None` if it can.
    fn refuses(self, found: SqlCell<'_>) -> Option<String> {
        let fits = match (self, found) {
            (_, SqlCell::Null) => true,
            (Id, SqlCell::Int(n)) => u32::try_from(n).is_ok(),
            (Count, SqlCell::Int(n)) => n >= 0,
            (Number, SqlCell::Int(_)) | (Real, SqlCell::Real(_)) | (Flag, SqlCell::Flag(_)) => true,
            (Flag, SqlCell::Int(n)) => matches!(n, 0 | 1),
            (Text, SqlCell::Text(text)) => std::str::from_utf8(text).is_ok(),
            (Word(means), SqlCell::Text(text)) => {
                let Ok(text) = std::str::from_utf8(text) else {
                    return Some("it is not UTF-8".to_owned());
                };
                return means(text).err().map(said);
            }
            (Bytes(n), SqlCell::Bytes(bytes)) => bytes.len() == n,
            (Blob, SqlCell::Bytes(_)) => true,
            (Value(means), SqlCell::Bytes(bytes)) => return means(bytes).err().map(said),
            _ => false,
        };
        (!fits).then(|| "it holds what it cannot hold".to_owned())
    }
}

fn said(error: StoreError) -> String {
    match error {
        StoreError::Content(what) => what,
        StoreError::Rotten { .. } => "its checksum does not fit".to_owned(),
        other => other.to_string(),
    }
}

/// Reads all rows of all tables, and adds a fault for each value that is not valid. The check of a
/// table stops once it has `SHOWN` faults.
pub(super) fn look(db: &Db, faults: &mut Vec<String>) -> StoreResult<()> {
    for (table, columns) in TABLES {
        let names = quoted_list(columns.iter().map(|(name, _)| *name));
        let sql = format!("SELECT {names} FROM {table}");
        let mut told = 0;

        db.each(&sql, &[], |row| {
            if told >= SHOWN {
                return Ok(());
            }
            for (index, (name, kind)) in columns.iter().enumerate() {
                let found = row.cell(index)?;
                let why = kind.refuses(found).or_else(|| {
                    (*table == "meta" && *name == "value")
                        .then(|| of_meta(row.cell(0).ok()?, found))?
                });
                if let Some(why) = why {
                    let shown = shown(row.cell(0)?);
                    faults.push(format!("row {shown} of table {table}: {name}: {why}"));
                    told += 1;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The reason why the entry `key` of `meta` cannot hold `found`, or `None` if it can.
fn of_meta(key: SqlCell<'_>, found: SqlCell<'_>) -> Option<String> {
    let SqlCell::Text(key) = key else { return None };
    let (_, length) = META.iter().find(|(name, _)| name.as_bytes() == key)?;
    let bytes = match found {
        SqlCell::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    (bytes != *length).then(|| format!("it has {bytes} bytes, not {length}"))
}

/// The first column of a row, for messages to users.
fn shown(first: SqlCell<'_>) -> String {
    match first {
        SqlCell::Int(n) => n.to_string(),
        SqlCell::Text(text) => String::from_utf8_lossy(text)
            .chars()
            .filter(|c| !c.is_control())
            .take(80)
            .collect(),
        _ => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::value::SqlRow;
    use super::*;

    #[test]
    fn each_column_of_each_table_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let store = super::super::Writer::open(dir.path()).unwrap();
        let sql = if super::super::pg::in_tests() {
            "SELECT table_name, column_name FROM information_schema.columns
             WHERE table_schema = current_schema() AND table_name NOT IN ('lease', 'turn', 'member') AND table_name NOT LIKE 'people%'"
        } else {
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'"
        };
        let column = |row: &SqlRow<'_>| Ok((row.get(0)?, row.get(1)?));
        let there: BTreeSet<(String, String)> = store.db().all(sql, &[], column).unwrap();
        let looked: BTreeSet<(String, String)> = TABLES
            .iter()
            .flat_map(|(table, columns)| {
                columns
                    .iter()
                    .map(|(column, _)| ((*table).to_owned(), (*column).to_owned()))
            })
            .collect();
        assert_eq!(looked, there);
    }
}
