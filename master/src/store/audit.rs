//! The audit log: who came in, who did not and why, and what admins changed of that. Bounded: the
//! oldest entries go.

use common::Time;
use common::identity::AuditView;
use rusqlite::{Row, params};

use super::reader::Reader;
use super::writer::Writer;
use super::{StoreError, micros, time};

/// So many entries are kept.
const KEPT: i64 = 100_000;
/// The longest text in an entry, in characters: some of it comes from strangers.
const LONGEST: usize = 200;

/// Something to be remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When, or when first.
    pub at: Time,
    /// Who: a name in the grid, or an address.
    pub who: String,
    /// What was tried, in one word.
    pub what: &'static str,
    /// With whom or what.
    pub subject: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// Why not, or what more there is to say.
    pub why: String,
    /// How often.
    pub count: u32,
}

impl Writer {
    /// Adds an entry.
    pub(crate) fn add_audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.change(
            "INSERT INTO audit (at, who, what, subject, allowed, why, count) VALUES (?, ?, ?, ?, ?, ?, ?)",
            params![
                micros(entry.at),
                plain(&entry.who),
                entry.what,
                plain(&entry.subject),
                entry.allowed,
                plain(&entry.why),
                entry.count
            ],
        )?;

        let oldest = self.db().last_insert_rowid() - KEPT;
        self.change("DELETE FROM audit WHERE number <= ?", [oldest])
            .map(drop)
    }
}

/// What can be printed on one line.
fn plain(text: &str) -> String {
    text.chars()
        .take(LONGEST)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

impl Reader {
    /// The newest so many entries, the oldest of them first.
    pub(crate) fn audit(&self, most: u32) -> Result<Vec<AuditView>, StoreError> {
        self.with(|db| {
            let mut query = db.prepare_cached(
                "SELECT number, at, who, what, subject, allowed, why, count FROM audit ORDER BY number DESC LIMIT ?",
            )?;
            let rows = query.query_map([most], view)?;
            let mut entries = rows.collect::<Result<Vec<_>, _>>()?;
            entries.reverse();
            Ok(entries)
        })
    }
}

fn view(row: &Row<'_>) -> rusqlite::Result<AuditView> {
    Ok(AuditView {
        number: row.get::<_, i64>(0)?.max(0).unsigned_abs(),
        at: time(row.get(1)?),
        who: row.get(2)?,
        what: row.get(3)?,
        subject: row.get(4)?,
        allowed: row.get(5)?,
        why: row.get(6)?,
        count: row.get(7)?,
    })
}
