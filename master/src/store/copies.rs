//! Copies of the store: how one is made beside a master that runs, and what a master does first
//! with a store that is one.

use std::path::Path;

use common::{Incarnation, Time};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::reader::Reader;
use super::writer::Writer;
use super::{StoreError, connect, micros};

/// In `meta`: when this copy was made, until a master has been started on it.
const COPIED: &str = "copied";
/// So many numbers of jobs, hosts and tokens are left out after a copy was taken up: the master
/// that the copy is of may have given them to others since.
const LEFT_OUT: i64 = 10_000;

/// From when seconds are counted: the beginning of 2020, so that they fit for more than a century.
const ERA: Time = Time(1_577_836_800_000_000);

/// What was done because the store is a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakenUp {
    /// When the copy was made.
    pub(crate) copied: Time,
    /// How many join tokens were revoked.
    pub(crate) tokens: usize,
}

impl Reader {
    /// Writes all that is committed, as of one moment, to a file that is not there yet, and marks
    /// it as a copy.
    pub(crate) fn copy_to(&self, path: &Path, now: Time) -> Result<(), StoreError> {
        let name = path
            .to_str()
            .ok_or_else(|| StoreError::Content(format!("{} is not UTF-8", path.display())))?;
        self.with(|db| Ok(db.execute("VACUUM INTO ?", [name]).map(drop)?))
            .map_err(|error| error.on_disk_of(path))?;
        let copy = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mark = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)";
        copy.execute(mark, params![COPIED, micros(now).to_le_bytes()])?;
        copy.close().map_err(|(_, error)| error)?;
        Ok(())
    }
}

impl Writer {
    /// Marks this store as a copy: it lacks what its master did later.
    pub(crate) fn is_a_copy(&mut self, now: Time) -> Result<(), StoreError> {
        self.set_meta(COPIED, &micros(now).to_le_bytes())
    }

    /// Counts this start of the master. The count is at least the present second of this era:
    /// should this store be that of an earlier day, put back by hand, the starts that it does not
    /// know of are not counted again. If it is a copy, the master that it is of may have gone on
    /// for a while: nothing that it gave out since may be mistaken for something that this one
    /// gives out. So numbers go on further up, and tokens that were good then, and may have been
    /// used since, are good no more.
    pub(crate) fn begin(
        &mut self,
        now: Time,
    ) -> Result<(Incarnation, Option<TakenUp>), StoreError> {
        let last = u32::from_le_bytes(self.meta("incarnation", || [0; 4])?);
        let copied = self.note(COPIED)?;
        let next = match copied {
            None => last
                .saturating_add(1)
                .max(u32::try_from(now.since(ERA).0 / 1_000_000).unwrap_or(0)),
            Some(_) => beyond(last, now),
        };
        self.set_meta("incarnation", &next.to_le_bytes())?;

        let Some(copied) = copied else {
            return Ok((Incarnation(next), None));
        };
        self.change("DELETE FROM meta WHERE key = ?", [COPIED])?;
        self.change("UPDATE sqlite_sequence SET seq = seq + ?", [LEFT_OUT])?;

        let tokens = self.change(
            "UPDATE token SET revoked = 1 WHERE uses_left > 0 AND NOT revoked",
            [],
        )?;
        let copied = copied
            .try_into()
            .map_or(Time(0), |bytes| super::time(i64::from_le_bytes(bytes)));

        Ok((Incarnation(next), Some(TakenUp { copied, tokens })))
    }
}

/// An incarnation beyond those that the master whose copy this is can have reached, and beyond
/// those of other masters that were started on a copy: masters start less often than once a second.
fn beyond(last: u32, now: Time) -> u32 {
    let seconds = u32::try_from(now.0 / 1_000_000).unwrap_or(u32::MAX);
    last.saturating_add(1).max(seconds)
}

/// When the store was copied, if it is a copy on which no master was started yet.
pub(crate) fn copied(db: &Connection) -> Result<Option<Time>, StoreError> {
    let value: Option<Vec<u8>> = db
        .query_row("SELECT value FROM meta WHERE key = ?", [COPIED], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(value
        .and_then(|bytes| bytes.try_into().ok())
        .map(|bytes| super::time(i64::from_le_bytes(bytes))))
}
