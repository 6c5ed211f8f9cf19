//! The numbers of jobs, hosts, join tokens and entries of the audit log. They are given out here and
//! not by the engine, so that a change can be sent without waiting for its answer, and sent again.
//! The last ones are noted with each commit: a number is never used twice, not even where its row was
//! removed.

use super::db::Db;
use super::value::values;
use super::writer::Writer;
use super::{StoreError, StoreResult};

/// The key in `meta` for the last numbers of each kind, each as four bytes, in the order of
/// [`Numbered`].
const NUMBERS: &str = "numbers";
/// The kinds of numbers.
const KINDS: usize = 4;

/// The largest numbers in use, in the order of [`Numbered`].
const LARGEST: &str =
    "SELECT COALESCE((SELECT MAX(id) FROM job), 0), COALESCE((SELECT MAX(id) FROM host), 0),
    COALESCE((SELECT MAX(id) FROM token), 0), COALESCE((SELECT MAX(number) FROM audit), 0)";

/// Something that gets a number of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numbered {
    /// A job.
    Job,
    /// A host.
    Host,
    /// A join token.
    Token,
    /// An entry of the audit log.
    Audit,
}

/// The numbers that were given out last.
#[derive(Debug)]
pub(super) struct LastNumbers {
    last: [u32; KINDS],
    /// Whether some were given out since they were noted.
    new: bool,
}

impl LastNumbers {
    /// Reads the last numbers from a store.
    pub(super) fn read(db: &Db) -> StoreResult<Self> {
        let mut last = db.one(LARGEST, &[], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
        })?;
        let sql = "SELECT value FROM meta WHERE key = $1";
        let noted: Option<[u8; 4 * KINDS]> = db.first(sql, values![NUMBERS], |row| row.get(0))?;

        let noted = noted.unwrap_or_default();
        for (last, noted) in last.iter_mut().zip(noted.chunks_exact(4)) {
            let noted = noted.try_into().map_or(0, u32::from_le_bytes);
            *last = noted.max(*last);
        }
        Ok(Self { last, new: false })
    }
}

impl Writer {
    /// The next number of this kind.
    pub(super) fn number(&mut self, of: Numbered) -> StoreResult<u32> {
        let last = &mut self.numbers.last[of as usize];
        let next = last
            .checked_add(1)
            .ok_or_else(|| StoreError::Content(format!("no number is left for a new {of:?}")))?;
        *last = next;
        self.numbers.new = true;
        Ok(next)
    }

    /// Leaves out so many numbers of each kind.
    pub(super) fn skip_numbers(&mut self, count: u32) {
        for last in &mut self.numbers.last {
            *last = last.saturating_add(count);
        }
        self.numbers.new = true;
    }

    /// Notes the last numbers in `meta`, if some were given out since.
    pub(super) fn note_numbers(&mut self) -> StoreResult<()> {
        if std::mem::take(&mut self.numbers.new) && self.db_laws().numbers_by_core {
            let noted = self.numbers.last.map(u32::to_le_bytes).concat();
            self.set_meta(NUMBERS, &noted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_used_again_where_its_row_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        assert_eq!(store.number(Numbered::Token).unwrap(), 1);
        assert_eq!(store.number(Numbered::Token).unwrap(), 2);
        assert_eq!(store.number(Numbered::Host).unwrap(), 1);
        store.set_meta("x", &[]).unwrap();
        store.commit().unwrap();
        drop(store);

        let mut store = Writer::open(dir.path()).unwrap();
        assert_eq!(store.number(Numbered::Token).unwrap(), 3);
        assert_eq!(store.number(Numbered::Host).unwrap(), 2);
        assert_eq!(store.number(Numbered::Job).unwrap(), 1);
    }

    #[test]
    fn numbers_go_on_behind_the_rows_of_a_store_that_has_none_noted() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        store
            .change("INSERT INTO host (id, name) VALUES (7, 'desk-7')", &[])
            .unwrap();
        store.commit().unwrap();
        drop(store);
        let mut store = Writer::open(dir.path()).unwrap();
        assert_eq!(store.number(Numbered::Host).unwrap(), 8);
    }
}
