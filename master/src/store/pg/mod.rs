//! PostgreSQL as the engine. The core's changes are collected and sent in one flight with their
//! fence, their turn and the commit (`group`); how a session begins and what a database must be like
//! is in `session`, and what `deskgrid doctor` says of one in `health`. The statements are those of the whole
//! store.

mod cells;
mod error;
mod group;
mod health;
mod lease;
mod recent;
mod runs;
mod session;
mod simulated;
mod snapshot;
mod tables;
mod takeover;
#[cfg(test)]
mod tests;
mod tls;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::LazyLock;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use common::view::StandbyView;
use common::{Span, Time};
use tokio::runtime::Runtime;

use super::db::Db;
use super::value::{SqlRow, SqlValue};
use super::wait::StoreWait;
use super::{StoreError, StoreResult, Writer};
pub(super) use cells::{DbRow, KeptValue, cell};
use group::Group;
pub(crate) use health::look;
pub use health::{DatabaseHealth, DatabaseSight};
pub(crate) use lease::{LeaseContender, LeaseSeen, MasterMember};
pub(crate) use session::Database;
use session::DbSession;
pub(crate) use simulated::Simulation;
pub use simulated::{
    SimulatedAnswer, SimulatedDatabase, SimulatedFault, SimulatedStatement, SimulatedValue,
};
pub use tables::LEASE_TABLES;

/// The time after which it is said that the database does not answer.
const WORD_AFTER: Duration = Duration::from_secs(10);

/// An error of the server's, or of the way to it.
#[derive(Debug, thiserror::Error)]
pub enum PgError {
    /// The address of the database is invalid.
    #[error("the address of the store is invalid: {0}")]
    Address(String),
    /// The database does not answer, and has not for so long that it was given up.
    #[error("PostgreSQL at {place} cannot be reached: {why}")]
    Away {
        /// The database.
        place: String,
        /// The last answer.
        why: String,
    },
    /// Each commit takes as long as the lease, so that a master can tell nobody anything.
    #[error(
        "PostgreSQL took {0} to answer a commit, as it has for minutes: nothing can be told within the lease (find out what slows it down, or raise takeover_after on all masters)"
    )]
    TooSlow(Span),
    /// The database is not one that a store can be in.
    #[error("PostgreSQL at {place} cannot have the store: {why}")]
    Unfit {
        /// The database.
        place: String,
        /// The reason, with what to do.
        why: String,
    },
    /// Another master has taken the store over.
    #[error(
        "another master ({0}) has taken the store over: nothing that this one had not answered counts, and what it goes on saying is refused"
    )]
    TakenOver(String),
    /// The database lacks groups that were durable in it, and not all of them are remembered here.
    #[error(
        "PostgreSQL lacks the last {0} groups of changes, which it had confirmed, and this master does not have all of them to write \
         them again: it was restored, or a replica that was far behind took over. The master ends, so that nothing is built upon that"
    )]
    WentBack(u64),
    /// The server refuses a statement.
    #[error("PostgreSQL refuses a statement: {0}")]
    Refused(String),
}

impl PgError {
    /// Whether a database may be fit again later, with nothing changed here.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, PgError::Away { .. } | PgError::Unfit { .. })
    }
}

/// The runtime on which connections to databases live: the core's thread and those of readers wait
/// for them, and must not be those that serve them.
fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("store")
            .enable_all()
            .build();
        threads.expect("a thread for the store's connections")
    });
    &RUNTIME
}

/// Waits for something on that runtime, from a thread that may wait.
fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (done, answer) = sync_channel(1);
    runtime().spawn(async move {
        let _ = done.send(work.await);
    });

    let since = Instant::now();
    loop {
        match answer.recv_timeout(WORD_AFTER) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!(
                    seconds = since.elapsed().as_secs(),
                    "PostgreSQL has not answered yet"
                );
            }
            // Its thread panicked, which is in the log.
            Err(RecvTimeoutError::Disconnected) => panic!("a connection to PostgreSQL failed"),
        }
    }
}

/// A connection to a store in PostgreSQL: of the one writer, or of a reader.
pub(crate) struct Pg {
    place: Database,
    inside: RefCell<Inside>,
    /// The writer's wait.
    wait: StoreWait,
    /// The number of answers that are being read in portions, each within the one before.
    cursors: Cell<usize>,
}

enum Inside {
    Reads(Option<DbSession>),
    Sees(DbSession),
    Writes(Box<Group>),
}

impl Pg {
    /// A connection for reading. It is made with the first question.
    pub(super) fn reader(place: Database) -> Self {
        Self::with(place, Inside::Reads(None))
    }

    /// The connection of the master that has the store.
    fn of(place: Database, group: Group) -> Self {
        Self::with(place, Inside::Writes(Box::new(group)))
    }

    fn with(place: Database, inside: Inside) -> Self {
        Self {
            place,
            inside: RefCell::new(inside),
            wait: StoreWait::default(),
            cursors: Cell::new(0),
        }
    }

    /// The database.
    pub(super) fn place(&self) -> &Database {
        &self.place
    }

    /// The wait of the writer for the database. A reader's is not counted.
    pub(super) fn wait(&self) -> StoreWait {
        self.wait.clone()
    }

    /// The incarnation that was drawn with the lease; `None` of a reader.
    pub(super) fn token(&self) -> Option<u32> {
        match &*self.inside.borrow() {
            Inside::Writes(group) => Some(u32::try_from(group.token()).unwrap_or(u32::MAX)),
            Inside::Reads(_) | Inside::Sees(_) => None,
        }
    }

    /// The commits that this master knows to be durable, of all that ever were; `None` of a reader.
    pub(super) fn reached(&self) -> Option<u64> {
        match &*self.inside.borrow() {
            Inside::Writes(group) => Some(group.reached()),
            Inside::Reads(_) | Inside::Sees(_) => None,
        }
    }

    /// The masters that stand by, or did so lately.
    pub(super) fn standbys(&self) -> StoreResult<Vec<StandbyView>> {
        Ok(lease::standbys(&self.rows(tables::MEMBERS, &[])?))
    }

    /// Makes sure that the store is still this master's, if that was long ago. Returns whether that
    /// took a turn.
    pub(super) fn be_sure(&self) -> StoreResult<bool> {
        self.group_answered(Group::be_sure)
    }

    /// From here to the commit the store is this master's.
    pub(super) fn hold(&self) -> StoreResult<()> {
        self.group_answered(Group::hold)
    }

    /// Gives the store up, after the last commit.
    pub(super) fn resign(&self) -> StoreResult<()> {
        self.group_answered(|group, _| group.resign())
    }

    /// The commits that were ever made durable.
    pub(super) fn commits(&self) -> StoreResult<u64> {
        let rows = self.rows(tables::COMMITS, &[])?;
        let commits = rows.first().map(|row| SqlRow::Pg(row).get::<i64>(0));
        Ok(commits.transpose()?.unwrap_or(0).max(0) as u64)
    }

    /// The version of the tables; 0 if there are none.
    pub(super) fn version(&self) -> StoreResult<usize> {
        if !self.has_table("lease")? {
            return Ok(0);
        }
        let rows = self.rows(tables::VERSION, &[])?;
        let version = rows.first().map_or(0, |row| row.get::<i64>(0));
        Ok(usize::try_from(version).unwrap_or(usize::MAX))
    }

    /// Whether some master has the store, and its connection lives.
    pub(super) fn is_held(&self) -> StoreResult<bool> {
        let rows = self.rows(tables::LEASE, &[])?;
        Ok(rows
            .first()
            .is_some_and(|row| lease::LeaseSeen::of(row).is_held()))
    }

    /// Counts further commits on from so many.
    pub(super) fn counts_on_from(&self, commits: u64) -> StoreResult<()> {
        self.group(|group, _| {
            group.counts_on_from(commits);
            Ok(())
        })
    }

    /// Whether there is a table of this name.
    pub(super) fn has_table(&self, name: &str) -> StoreResult<bool> {
        let rows = self.rows(tables::HAS_TABLE, &[SqlValue::Text(name)])?;
        let there = rows.first().map(|row| SqlRow::Pg(row).get(0));
        Ok(there.transpose()?.unwrap_or(false))
    }

    /// The rows of the answer.
    pub(super) fn rows(&self, sql: &str, values: &[SqlValue<'_>]) -> StoreResult<Vec<DbRow>> {
        match &mut *self.inside.borrow_mut() {
            Inside::Writes(group) => {
                let _wait = self.wait.begin();
                group.rows(&self.place, sql, values)
            }
            Inside::Reads(session) => read(&self.place, session, sql, values),
            Inside::Sees(session) => Ok(self.place.answered(session.rows(sql, values))?),
        }
    }

    /// Notes a change for the next commit.
    pub(super) fn change(&self, sql: &str, values: &[SqlValue<'_>]) -> StoreResult<()> {
        self.group(|group, _| {
            group.note(sql, values);
            Ok(())
        })
    }

    /// Makes a change, and waits for the number of rows that it changed.
    pub(super) fn count(&self, sql: &str, values: &[SqlValue<'_>]) -> StoreResult<usize> {
        self.group_answered(|group, place| group.count(place, sql, values))
    }

    /// Makes all changes since the last commit durable.
    pub(super) fn commit(&self) -> StoreResult<()> {
        self.group_answered(Group::commit)
    }

    /// Acts on the open group, which waits for the database.
    fn group_answered<T>(
        &self,
        act: impl FnOnce(&mut Group, &Database) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let _wait = self.wait.begin();
        self.group(act)
    }

    fn group<T>(
        &self,
        act: impl FnOnce(&mut Group, &Database) -> StoreResult<T>,
    ) -> StoreResult<T> {
        match &mut *self.inside.borrow_mut() {
            Inside::Writes(group) => act(group, &self.place),
            Inside::Reads(_) | Inside::Sees(_) => {
                Err(StoreError::Content("a reader does not write".to_owned()))
            }
        }
    }
}

/// The place of a test's store that is named by a directory: a schema of its own in the database that
/// DESKGRID_TEST_PG names, if it names one.
#[cfg(test)]
pub(super) fn of_tests(dir: &std::path::Path) -> Option<Database> {
    let url = std::env::var("DESKGRID_TEST_PG").ok()?;
    let hash = blake3::hash(dir.as_os_str().as_encoded_bytes());
    let schema = format!("test_{}", &hash.to_hex()[..24]);
    Some(Database::with_schema(&url, &schema).expect("DESKGRID_TEST_PG is an address"))
}

/// Takes the store as a start on always the same directory does; `None` if another run there has it.
#[cfg(test)]
pub(super) fn take_in_tests(place: &Database) -> StoreResult<Option<super::Writer>> {
    let member = MasterMember::here("test".to_owned(), "127.0.0.1:7411".to_owned());
    LeaseContender::new(place, member).once_left(|contender, seen| contender.take(seen, Time(0)))
}

/// Whether the tests run on a database.
#[cfg(test)]
pub(super) fn in_tests() -> bool {
    std::env::var_os("DESKGRID_TEST_PG").is_some()
}

/// Gives the tables of this master's store another name, by which no master takes them up, and returns it. The
/// store is left by that, and no other master can have it in between.
pub(crate) fn put_aside(store: &Writer, now: Time) -> StoreResult<String> {
    let Db::Pg(pg) = store.db() else {
        return Err(StoreError::Content("the store is in a file".to_owned()));
    };
    let name = format!("{}_moved_{}", pg.place().schema(), now.0 / 1_000_000);
    pg.group_answered(|group, place| group.put_aside(place, &name))?;
    Ok(name)
}

/// Asks as a reader; where the connection was lost, once more on a new one.
fn read(
    place: &Database,
    session: &mut Option<DbSession>,
    sql: &str,
    values: &[SqlValue<'_>],
) -> StoreResult<Vec<DbRow>> {
    for last in [false, true] {
        let connected = match session.take().filter(DbSession::is_open) {
            Some(connected) => connected,
            None => DbSession::to_read(place)?,
        };

        match connected.rows(sql, values) {
            Err(error) if error.passes() && !last => {}
            asked => {
                let rows = place.answered(asked)?;
                *session = Some(connected);
                return Ok(rows);
            }
        }
    }
    Err(StoreError::Content("the store does not answer".to_owned()))
}
