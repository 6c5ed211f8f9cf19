//! What an admin does with the files of a master beside it, whether it runs or not: back them up,
//! look whether they are sound, and put them in place on another machine. What is not here: the
//! master itself, and words for people.

mod archive;
mod backup;
mod check;
mod hold;
mod restore;
mod source;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use link::LinkError;

use crate::StoreError;

pub use backup::{BackedUp, backup};
pub use check::{Checked, Fault, check};
pub(crate) use hold::SweepHold;
pub use restore::{Restored, restore};

/// Why a backup, a look or a restoration did not come about.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// There is no master's state.
    #[error("there is no master's state in {dir}", dir = dir.display())]
    NoMaster {
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// Something would be overwritten.
    #[error("{path} is there already", path = path.display())]
    Exists {
        /// What.
        path: PathBuf,
    },
    /// It would not fit.
    #[error("{needed} bytes are needed in {dir}, and {free} are free", dir = dir.display())]
    Space {
        /// Where.
        dir: PathBuf,
        /// How many bytes would be written.
        needed: u64,
        /// How many can be.
        free: u64,
    },
    /// What should be a backup is none, or is damaged.
    #[error("{path} is no whole backup: {why}", path = path.display())]
    NoBackup {
        /// Which file or directory.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// What was written does not read back as it should.
    #[error("{path} does not read back as it was written: {why}", path = path.display())]
    NotVerified {
        /// Which file or directory.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file.
    #[error(transparent)]
    File(#[from] LinkError),
}

/// The master's files within a state directory.
const HOME: &str = "master";
/// The store's file within them.
const STORE: &str = "store.sqlite";
/// The directory of content within them.
const CONTENT: &str = "content";
