//! What the columns of each table may hold, and a look whether they do: a bit that flips in a word
//! or a number leaves a file that SQLite finds sound. What is not here: how rows of several tables
//! fit together, and the values that `look` reads itself.

use common::attempt::Spent;
use common::checkpoint::Saved;
use common::host::HostFacts;
use common::token::Role;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde::Deserialize;

use super::{Promised, StoreError, from_postcard, results, word};

/// No more than so many rows of one table are told one by one.
const SHOWN: usize = 20;

/// What a column may hold beside NULL, of which SQLite's own check knows.
#[derive(Clone, Copy)]
enum ColumnKind {
    /// A number from 0 on that fits into 32 bits.
    Id,
    /// A number from 0 on: an amount, a time, a span.
    Count,
    /// Any whole number.
    Number,
    /// A number with a point.
    Real,
    /// Yes or no.
    Flag,
    /// Text.
    Text,
    /// Text that means something.
    Word(fn(&str) -> Result<(), StoreError>),
    /// So many bytes.
    Bytes(usize),
    /// Bytes that somebody else looks at.
    Blob,
    /// Bytes that mean something.
    Value(fn(&[u8]) -> Result<(), StoreError>),
}

use ColumnKind::{Blob, Bytes, Count, Flag, Id, Number, Real, Text, Value, Word};

type ColumnMeanings = &'static [(&'static str, ColumnKind)];

/// Each column of each table; the first ones of a table name a row.
const TABLES: &[(&str, ColumnMeanings)] = &[
    ("meta", &[("key", Text), ("value", Blob)]),
    (
        "token",
        &[
            ("id", Id),
            ("secret_hash", Bytes(32)),
            ("role", Word(role)),
            ("name", Text),
            ("uses_left", Id),
            ("expires", Count),
            ("revoked", Flag),
            ("approval", Flag),
        ],
    ),
    (
        "peer",
        &[
            ("name", Text),
            ("uuid", Bytes(16)),
            ("role", Word(role)),
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
        &[("user", Text), ("sums", Value(value::<Spent>))],
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
];

/// Values of `meta` that have a length.
const META: [(&str, usize); 8] = [
    ("grid", 16),
    ("quic seed", 32),
    ("audit seed", 8),
    ("incarnation", 4),
    ("commits", 8),
    ("up", 8),
    ("copied", 8),
    ("ageing from", 8),
];

fn role(text: &str) -> Result<(), StoreError> {
    word::<Role>(text).map(drop)
}

fn verdict(text: &str) -> Result<(), StoreError> {
    results::judgement(Some(text.to_owned())).map(drop)
}

fn value<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<(), StoreError> {
    from_postcard::<T>(bytes).map(drop)
}

impl ColumnKind {
    /// Why this cannot be in such a column, if so.
    fn refuses(self, found: ValueRef<'_>) -> Option<String> {
        let fits = match (self, found) {
            (_, ValueRef::Null) => true,
            (Id, ValueRef::Integer(n)) => u32::try_from(n).is_ok(),
            (Count, ValueRef::Integer(n)) => n >= 0,
            (Number, ValueRef::Integer(_)) | (Real, ValueRef::Real(_)) => true,
            (Flag, ValueRef::Integer(n)) => matches!(n, 0 | 1),
            (Text, ValueRef::Text(text)) => std::str::from_utf8(text).is_ok(),
            (Word(means), ValueRef::Text(text)) => {
                let Ok(text) = std::str::from_utf8(text) else {
                    return Some("it is not UTF-8".to_owned());
                };
                return means(text).err().map(said);
            }
            (Bytes(n), ValueRef::Blob(bytes)) => bytes.len() == n,
            (Blob, ValueRef::Blob(_)) => true,
            (Value(means), ValueRef::Blob(bytes)) => return means(bytes).err().map(said),
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

/// Reads each row of each table, and says what in them means nothing.
pub(super) fn look(db: &Connection, faults: &mut Vec<String>) -> Result<(), StoreError> {
    for (table, columns) in TABLES {
        let names: Vec<String> = columns
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let mut query = db.prepare(&format!("SELECT {} FROM {table}", names.join(", ")))?;
        let mut rows = query.query([])?;
        let mut told = 0;

        while let Some(row) = rows.next()? {
            for (index, (name, kind)) in columns.iter().enumerate() {
                let found = row.get_ref(index)?;
                let why = kind.refuses(found).or_else(|| {
                    (*table == "meta" && *name == "value")
                        .then(|| of_meta(row.get_ref(0).ok()?, found))?
                });
                if let Some(why) = why {
                    let shown = shown(row.get_ref(0)?);
                    faults.push(format!("row {shown} of table {table}: {name}: {why}"));
                    told += 1;
                }
            }
            if told >= SHOWN {
                break;
            }
        }
    }
    Ok(())
}

/// Why this value of `meta` cannot be, if so.
fn of_meta(key: ValueRef<'_>, found: ValueRef<'_>) -> Option<String> {
    let key = key.as_str().ok()?;
    let (_, length) = META.iter().find(|(name, _)| *name == key)?;
    let bytes = found.as_blob().map_or(0, <[u8]>::len);
    (bytes != *length).then(|| format!("it has {bytes} bytes, not {length}"))
}

/// What names a row, for people.
fn shown(first: ValueRef<'_>) -> String {
    match first {
        ValueRef::Integer(n) => n.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text)
            .chars()
            .filter(|c| !c.is_control())
            .take(80)
            .collect(),
        _ => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_column_of_each_table_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let store = super::super::Writer::open(dir.path()).unwrap();
        let sql = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
                   WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'";
        let mut query = store.db().prepare(sql).unwrap();
        let there: BTreeSet<(String, String)> = query
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
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
