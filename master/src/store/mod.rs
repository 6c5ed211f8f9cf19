//! The master's durable state, in one SQLite file: `store.sqlite`, in WAL mode with
//! synchronous=FULL. The core owns the one [`Writer`], which commits changes in whole groups;
//! [`Reader`]s serve lists to clients beside it.
//!
//! The content of files lives in [`link::BlobStore`]. Rules about the meaning of a change are not
//! here.

mod audit;
mod availability;
mod checkpoints;
mod copies;
mod db;
mod events;
mod foretold;
mod forgotten;
mod kept;
mod lite;
mod log;
mod look;
mod lost;
mod mark;
mod meaning;
mod needs;
mod notes;
mod numbers;
mod objects;
mod order;
mod peers;
mod pg;
mod promise;
mod reader;
mod restore;
mod results;
mod retention;
mod schema;
mod settled;
mod shadow;
mod site;
mod speculation;
#[cfg(test)]
pub(crate) mod tests;
mod transfer;
mod updates;
mod uploads;
mod value;
mod wait;
mod writer;
#[cfg(test)]
mod year;

use std::path::{Path, PathBuf};

use common::attempt::{Confined, OutputFile, Stream};
use common::token::Role;
use common::{HostId, Span, Time};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(crate) use audit::AuditEntry;
pub(crate) use checkpoints::earlier_starts;
pub(crate) use copies::TakenUp;
use copies::seconds_of_era;
pub(crate) use events::EventRow;
pub(crate) use foretold::{Awaited, WaitPrediction};
pub(crate) use kept::{Removed, bytes_left};
pub use log::Logs;
pub(crate) use look::{Looked, StoreFacts, look, look_in, named, open as open_to_look};
pub(crate) use lost::Issued;
pub(crate) use mark::{Mark, Marked};
pub use objects::ObjectName;
pub(crate) use objects::{LiveObject, live_objects};
pub(crate) use order::{NewAddition, StoredAfter};
pub(crate) use peers::NewToken;
pub use peers::PeerStatus;
pub use peers::Redeemed;
pub(crate) use pg::Simulation;
pub(crate) use pg::{Database, LeaseContender, LeaseSeen, MasterMember};
pub use pg::{DatabaseHealth, DatabaseSight, PgError};
pub use pg::{
    LEASE_TABLES, SimulatedAnswer, SimulatedDatabase, SimulatedFault, SimulatedStatement,
    SimulatedValue,
};
pub(crate) use pg::{look as look_at_database, put_aside};
pub(crate) use promise::Promised;
pub(crate) use reader::{AttemptRow, Reader, SettledRow};
pub(crate) use restore::{Attendance, RestoredHost, RestoredJob};
pub(crate) use schema::VERSION;
pub use shadow::StoreShadow;
pub(crate) use site::StoredAnswer;
pub(crate) use speculation::Disclosure;
pub(crate) use transfer::copy as copy_store;
pub(crate) use updates::{HostProgress, RolloutState, StoredProgress, StoredRollout};
pub(crate) use uploads::{UnusedBytes, counted};
pub(crate) use wait::StoreWait;
pub(crate) use writer::{NewAttempt, NewJob, RequestKey, Writer};

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite reports an error.
    #[error("the store failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The database does not do what it must, or cannot be reached.
    #[error(transparent)]
    Postgres(#[from] pg::PgError),
    /// The write-ahead log may not be on the disk, and writing it again failed.
    #[error(
        "the store's log could not be written again: {0}. Nothing else was changed; see to the disk, then start the master again"
    )]
    Log(#[source] std::io::Error),
    /// The disk is full, so that the store cannot be opened or written.
    #[error(
        "the disk of {dir} is full: at least {mib} MiB are needed there to open the store. Nothing is damaged, and nothing was \
         changed",
        dir = dir.display()
    )]
    Full {
        /// The directory that has the store.
        dir: PathBuf,
        /// The free space that is needed there, in MiB.
        mib: u64,
    },
    /// The store was written by a newer program.
    #[error(
        "the store has version {found}, and this deskgrid knows up to {known}: one that knows version {found} is needed. Nothing was changed"
    )]
    Newer {
        /// The version of the store.
        found: usize,
        /// The newest version that this program knows.
        known: usize,
    },
    /// SQLite finds the file damaged.
    #[error("the store {path} is damaged: {what}. Nothing was changed; restore it from a backup", path = path.display())]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// The damage that SQLite reports.
        what: String,
    },
    /// The checksum of a value in the store does not match.
    #[error(
        "{what} is damaged in the master's store: its checksum does not fit, so it is not shown"
    )]
    Rotten {
        /// A description of the value.
        what: String,
    },
    /// A value in the store cannot be decoded by this program.
    #[error("the store holds something that cannot be read: {0}")]
    Content(String),
}

/// The outcome of work with the store.
pub type StoreResult<T> = Result<T, StoreError>;

/// The output of one attempt, as the `result` column holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptResult {
    /// The standard output.
    pub(crate) stdout: Stream,
    /// The standard error.
    pub(crate) stderr: Stream,
    /// The collected output files.
    pub(crate) files: Vec<OutputFile>,
    /// The outputs that were not kept as they were, in words.
    pub(crate) warnings: Vec<String>,
    /// The confinement of the command, where that may be why it failed.
    pub(crate) confined: Option<Confined>,
}

/// An identity: a worker, user or admin that has a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its number, as in the certificate.
    pub id: Uuid,
    /// Its [`Role`], which decides what it may do.
    pub role: Role,
    /// The unique name of the host or user.
    pub name: String,
    /// BLAKE3 of its public key.
    pub key_hash: [u8; 32],
    /// Its host, if it is a worker.
    pub host: Option<HostId>,
}

/// Parses a stored word, such as a state or a role.
fn word<T: std::str::FromStr<Err = String>>(text: &str) -> StoreResult<T> {
    text.parse().map_err(StoreError::Content)
}

/// The length of the checksum behind each value, in bytes: enough to detect flipped bits. It does
/// not protect against somebody who may write here.
const SUM: usize = 8;

fn sum(bytes: &[u8]) -> [u8; SUM] {
    let mut sum = [0; SUM];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..SUM]);
    sum
}

/// Encodes a value for a column: postcard, followed by its checksum.
fn to_postcard<T: Serialize>(value: &T) -> StoreResult<Vec<u8>> {
    let mut bytes = postcard::to_stdvec(value).map_err(|e| StoreError::Content(e.to_string()))?;
    bytes.extend(sum(&bytes));
    Ok(bytes)
}

fn from_postcard<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> StoreResult<T> {
    let rotten = || StoreError::Rotten {
        what: "a value".to_owned(),
    };
    let (value, found) = bytes.split_last_chunk::<SUM>().ok_or_else(rotten)?;
    if sum(value) != *found {
        return Err(rotten());
    }
    postcard::from_bytes(value).map_err(|e| StoreError::Content(e.to_string()))
}

impl StoreError {
    /// Adds the description of the damaged value to [`StoreError::Rotten`].
    fn of(self, what: impl FnOnce() -> String) -> Self {
        match self {
            StoreError::Rotten { .. } => StoreError::Rotten { what: what() },
            other => other,
        }
    }

    /// Replaces the error by [`StoreError::Full`] if the disk of this file is full and that is the
    /// cause.
    fn on_disk_of(self, path: &Path) -> Self {
        use rusqlite::ErrorCode;
        let dir = path.parent().unwrap_or(Path::new("."));
        let code = match &self {
            StoreError::Sqlite(error) => error.sqlite_error_code(),
            _ => None,
        };
        let full = match code {
            Some(ErrorCode::DiskFull) => true,
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => crate::room::is_full(dir),
            _ => false,
        };

        if full {
            StoreError::Full {
                dir: dir.to_owned(),
                mib: 1,
            }
        } else {
            self
        }
    }

    /// Replaces the error by [`StoreError::Damaged`] for this file, unless its disk is full.
    fn damages(self, path: &Path) -> Self {
        match self.on_disk_of(path) {
            full @ StoreError::Full { .. } => full,
            other => StoreError::Damaged {
                path: path.to_owned(),
                what: other.to_string(),
            },
        }
    }
}

fn time(micros: i64) -> Time {
    Time(micros.max(0) as u64)
}

fn span(micros: i64) -> Span {
    Span(micros.max(0) as u64)
}

fn micros(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
