//! The audit log: enrolments, refusals with their reasons, and the changes that admins or the
//! master made, such as to tokens and identities. It keeps the newest `KEPT` entries.

use common::Time;
use common::identity::AuditView;
use common::text::acts;

use super::numbers::Numbered;
use super::reader::Reader;
use super::value::{SqlRow, values};
use super::writer::Writer;
use super::{StoreResult, micros, time};

/// The number of entries that are kept.
const KEPT: i64 = 100_000;
/// The longest text in an entry, in characters. It bounds text that comes from strangers.
const LONGEST: usize = 200;

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The time, or the first time if `count` is more than 1.
    pub at: Time,
    /// The name in the grid, or the address, of the one who acted.
    pub who: String,
    /// The action that was tried, in one word.
    pub what: &'static str,
    /// The object of the action, such as the name of an identity.
    pub subject: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// The reason of a refusal, or a further detail.
    pub why: String,
    /// The number of times that it happened.
    pub count: u32,
}

impl Writer {
    /// Adds an entry and removes those beyond the newest `KEPT`.
    pub(crate) fn add_audit(&mut self, entry: &AuditEntry) -> StoreResult<()> {
        let number = self.number(Numbered::Audit)?;
        self.change(
            "INSERT INTO audit (number, at, who, what, subject, allowed, why, count)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            values![
                number,
                micros(entry.at),
                plain(&entry.who),
                entry.what,
                plain(&entry.subject),
                entry.allowed,
                plain(&entry.why),
                entry.count
            ],
        )?;

        let oldest = i64::from(number) - KEPT;
        self.change("DELETE FROM audit WHERE number <= $1", values![oldest])
    }
}

/// Makes a text fit for one line: control characters become blanks, and it is cut at `LONGEST`
/// characters.
fn plain(text: &str) -> String {
    text.chars()
        .take(LONGEST)
        .map(|c| if acts(c) { ' ' } else { c })
        .collect()
}

/// Adds the count of repeats to the entry of the first: it is stored apart, once their minute is over, with the
/// first one's time.
fn with_repeats(entries: Vec<AuditView>) -> Vec<AuditView> {
    let mut merged: Vec<AuditView> = Vec::new();
    for entry in entries {
        let at_once = merged.iter_mut().rev();
        let mut at_once = at_once.take_while(|first| first.at == entry.at);
        match at_once.find(|first| repeats(first, &entry)) {
            Some(first) => first.count = first.count.saturating_add(entry.count),
            None => merged.push(entry),
        }
    }
    merged
}

/// Whether this is the same refusal as the first one.
fn repeats(first: &AuditView, entry: &AuditView) -> bool {
    fn words(entry: &AuditView) -> (bool, &str, &str, &str, &str) {
        let AuditView {
            who, what, subject, ..
        } = entry;
        (entry.allowed, who, what, subject, &entry.why)
    }
    !entry.allowed && words(first) == words(entry)
}

impl Reader {
    /// The `most` entries that were added last, in order of time.
    pub(crate) fn audit(&self, most: u32) -> StoreResult<Vec<AuditView>> {
        self.with(|db| {
            let sql = "SELECT number, at, who, what, subject, allowed, why, count FROM audit ORDER BY number DESC LIMIT $1";
            let mut entries: Vec<AuditView> = db.all(sql, values![most], view)?;
            // What is counted for a while is added after what happened meanwhile.
            entries.sort_by_key(|entry| (entry.at, entry.number));
            Ok(with_repeats(entries))
        })
    }
}

fn view(row: &SqlRow<'_>) -> StoreResult<AuditView> {
    Ok(AuditView {
        number: row.get::<i64>(0)?.max(0).unsigned_abs(),
        at: time(row.get(1)?),
        who: row.get(2)?,
        what: row.get(3)?,
        subject: row.get(4)?,
        allowed: row.get(5)?,
        why: row.get(6)?,
        count: row.get(7)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_of_time_also_where_they_were_added_late() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        for (at, who) in [(5, "first"), (9, "last"), (7, "counted meanwhile")] {
            let entry = AuditEntry {
                at: Time(at),
                who: who.to_owned(),
                what: "connect",
                subject: String::new(),
                allowed: false,
                why: String::new(),
                count: 1,
            };
            store.add_audit(&entry).unwrap();
        }
        store.commit().unwrap();

        let entries = Reader::new(dir.path()).audit(10).unwrap();
        let names: Vec<_> = entries.iter().map(|entry| entry.who.as_str()).collect();
        assert_eq!(names, ["first", "counted meanwhile", "last"]);
    }

    #[test]
    fn a_refusal_and_its_repeats_are_one_entry_and_actions_at_one_time_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        for (who, allowed, count) in [
            ("pc", false, 1),
            ("ann", true, 1),
            ("ann", true, 1),
            ("pc", false, 6),
        ] {
            let entry = AuditEntry {
                at: Time(7),
                who: who.to_owned(),
                what: "connect",
                subject: String::new(),
                allowed,
                why: "waits".to_owned(),
                count,
            };
            store.add_audit(&entry).unwrap();
        }
        store.commit().unwrap();

        let entries = Reader::new(dir.path()).audit(10).unwrap();
        let counts: Vec<_> = entries.iter().map(|e| (e.who.as_str(), e.count)).collect();
        assert_eq!(counts, [("pc", 7), ("ann", 1), ("ann", 1)]);
    }
}
