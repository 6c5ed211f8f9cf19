//! The errors that stop a bridge, in words for the person who started it.

use std::io;
use std::path::PathBuf;

use link::LinkError;
use worker::WorkerError;

/// The reason why a bridge stopped, or did not start.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// Another bridge uses this directory.
    #[error("another bridge is using {dir}: stop it, or give this one a directory of its own with --dir", dir = .0.display())]
    InUse(PathBuf),
    /// Both identities are of the same grid.
    #[error(
        "both identities are of the same grid: a bridge is a worker of one grid and a user of another one"
    )]
    SameGrid,
    /// The notes of what runs in the other grid cannot be read or written.
    #[error("the notes in {dir} cannot be used: {source}", dir = dir.display())]
    Journal {
        /// Their directory.
        dir: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A connection or a file.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The half that is a worker.
    #[error(transparent)]
    Worker(WorkerError),
}

impl From<WorkerError> for BridgeError {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::InUse(dir) => Self::InUse(dir),
            WorkerError::Content(error) => Self::Link(error),
            error => Self::Worker(error),
        }
    }
}
