//! Operations on the files of a master, whether it runs or not: back them up, check whether they
//! are sound, and restore them on another machine.

mod archive;
mod backup;
mod bucket;
mod check;
mod hold;
mod part;
mod places;
mod restore;
mod source;
#[cfg(test)]
mod tests;

use common::units::Bytes;
use std::path::PathBuf;

use link::LinkError;

use crate::{MasterError, StoreError};

pub use backup::{BackedUp, backup};
pub use check::{Checked, Fault, bucket_fault, check, database, database_of, surroundings};
pub(crate) use hold::SweepHold;
pub use part::BreakOff;
pub use restore::{Restored, restore};

/// The reason why a backup, a check or a restoration failed.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// There is no master's state.
    #[error("there is no master's state in {dir}", dir = dir.display())]
    NoMaster {
        /// The state directory that was looked at.
        dir: PathBuf,
    },
    /// Store or content are not where the settings say, or are not looked at.
    #[error(transparent)]
    Master(#[from] MasterError),
    /// A file or directory would be overwritten.
    #[error("{path} is there already", path = path.display())]
    Exists {
        /// The existing file or directory.
        path: PathBuf,
    },
    /// The files do not fit on the disk.
    #[error("{} are needed in {dir}, and {} are free", Bytes(*needed), Bytes(*free), dir = dir.display())]
    Space {
        /// The directory they would be written to.
        dir: PathBuf,
        /// The bytes that would be written.
        needed: u64,
        /// The bytes that are free.
        free: u64,
    },
    /// The source is no backup, or is damaged.
    #[error("{path} is no whole backup: {why}", path = path.display())]
    NoBackup {
        /// The file or directory that was to be restored.
        path: PathBuf,
        /// The reason, shown to the admin.
        why: String,
    },
    /// The written backup does not read back as it was written.
    #[error("{path} does not read back as it was written: {why}", path = path.display())]
    NotVerified {
        /// The file or directory that was written.
        path: PathBuf,
        /// The reason, shown to the admin.
        why: String,
    },
    /// It was told to break off ([`BreakOff::say`]).
    #[error("it was interrupted, and what it had written is removed")]
    Interrupted,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] LinkError),
}

/// The directory of the master's files, within a state directory.
const HOME: &str = "master";
/// The store's file, within `HOME`.
const STORE: &str = "store.sqlite";
/// The directory of content, within `HOME`.
pub(crate) const CONTENT: &str = "content";
