//! Copies of the store: [`Reader::copy_to`] makes one beside a running master, and
//! [`Writer::begin`] prepares a copy on which a master is started.

use std::path::Path;

use common::{Incarnation, Time};
use rusqlite::OpenFlags;

use super::db::{Db, SET_META};
use super::lite::{self, connect};
use super::log::FileLogs;
use super::reader::Reader;
use super::value::values;
use super::writer::Writer;
use super::{StoreError, StoreResult, micros, schema};

/// The key in `meta` for the time at which this copy was made. The entry is removed when a master
/// is started on the copy.
const COPIED: &str = "copied";
/// The count of job, host and token numbers that are skipped when a master is started on a copy.
/// The master of the original store may have used them since.
const LEFT_OUT: u32 = 10_000;

/// The start of the count of seconds for incarnations: the beginning of 2020, so that 32 bits last
/// for more than a century.
const ERA: Time = Time(1_577_836_800_000_000);

/// A report of what [`Writer::begin`] did because the store is a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakenUp {
    /// The time at which the copy was made.
    pub(crate) copied: Time,
    /// The number of join tokens that were revoked.
    pub(crate) tokens: usize,
}

impl Reader {
    /// Writes the committed state of the store, as of one moment, to a new file at `path`, and
    /// marks that file as a copy made at `now`. Of a database every row is copied and compared. With
    /// `with_content` its content is copied, too, and may lie in any directory.
    pub(crate) fn copy_to(&self, path: &Path, now: Time, with_content: bool) -> StoreResult<()> {
        let name = path
            .to_str()
            .ok_or_else(|| StoreError::Content(format!("{} is not UTF-8", path.display())))?;
        let copied = self.with_snapshot(|db| match db {
            Db::Lite(db) => lite::copy_to(db, name),
            Db::Pg(_) => copy_rows(db, path),
        });
        copied.map_err(|error| error.on_disk_of(path))?;

        let copy = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        copy.execute(SET_META, (COPIED, micros(now).to_le_bytes()))?;
        if with_content {
            let forget = "DELETE FROM meta WHERE key = $1";
            copy.execute(forget, [crate::content_place::NOTE])?;
        }
        copy.pragma_update(None, "journal_mode", "DELETE")?;
        copy.close().map_err(|(_, error)| error)?;
        Ok(())
    }
}

/// Copies all tables of a store into a new file.
fn copy_rows(from: &Db, path: &Path) -> StoreResult<()> {
    let found = from.version()?;
    if found != schema::VERSION {
        return Err(other_layout(found));
    }
    let mut to = Writer::on(lite::open_at(path, &FileLogs)?)?;
    super::transfer::copy(from, &mut to)?;
    to.finish()
}

/// The error of tables of another version than this program's, in a database.
fn other_layout(found: usize) -> StoreError {
    let known = schema::VERSION;
    match found {
        0 => StoreError::Content("there are no tables of a store in the database".to_owned()),
        _ if found > known => StoreError::Newer { found, known },
        _ => StoreError::Content(format!(
            "its tables have version {found}, and are copied only at version {known}: start a master of this deskgrid first, which \
             brings them there, or use the deskgrid that wrote them"
        )),
    }
}

impl Writer {
    /// Marks this store as a copy made at `now`: it lacks later changes of its master.
    pub(crate) fn is_a_copy(&mut self, now: Time) -> StoreResult<()> {
        self.set_meta(COPIED, &micros(now).to_le_bytes())
    }

    /// Begins a start of the master and returns its incarnation, which is at least the number of
    /// seconds since `ERA`. So if somebody puts back an older store by hand, the incarnations that
    /// it does not know of are not given out again.
    ///
    /// If the store is a copy, the master of the original may have run on and used further numbers.
    /// So the incarnation jumps beyond any that it can have reached, the numbers of jobs, hosts and
    /// tokens skip `LEFT_OUT`, and tokens that can still be used are revoked. Certificates that it
    /// renewed meanwhile count ([`Writer::standing_of_lost`]). The result then has a [`TakenUp`].
    pub(crate) fn begin(&mut self, now: Time) -> StoreResult<(Incarnation, Option<TakenUp>)> {
        let last = u32::from_le_bytes(self.meta("incarnation", || [0; 4])?);
        let copied = self.note(COPIED)?;
        let next = match copied {
            None => {
                // Whoever took the store from another master has drawn it with the lease.
                let drawn = self.db().token().unwrap_or_else(|| seconds_of_era(now));
                last.saturating_add(1).max(drawn)
            }
            Some(_) => beyond(last, now),
        };
        self.set_meta("incarnation", &next.to_le_bytes())?;

        let Some(copied) = copied else {
            return Ok((Incarnation(next), None));
        };
        self.change("DELETE FROM meta WHERE key = $1", values![COPIED])?;
        self.skip_numbers(LEFT_OUT);

        let tokens = self.count(
            "UPDATE token SET revoked = TRUE WHERE uses_left > 0 AND NOT revoked",
            &[],
        )?;
        let copied = copied
            .try_into()
            .map_or(Time(0), |bytes| super::time(i64::from_le_bytes(bytes)));
        self.note_lost_renewals(copied, now)?;

        Ok((Incarnation(next), Some(TakenUp { copied, tokens })))
    }
}

/// The seconds since `ERA`: the least incarnation of a master that starts at `now`.
pub(super) fn seconds_of_era(now: Time) -> u32 {
    u32::try_from(now.since(ERA).0 / 1_000_000).unwrap_or(0)
}

/// An incarnation beyond those of the original store's master and of masters that were started on
/// other copies: the Unix time in seconds, since masters start less often than once a second.
fn beyond(last: u32, now: Time) -> u32 {
    let seconds = u32::try_from(now.0 / 1_000_000).unwrap_or(u32::MAX);
    last.saturating_add(1).max(seconds)
}

/// The time at which the store was copied, if it is a copy on which no master was started yet.
pub(crate) fn copied(db: &Db) -> StoreResult<Option<Time>> {
    let copied = db.meta_of(COPIED)?;
    Ok(copied.map(|bytes| super::time(i64::from_le_bytes(bytes))))
}
