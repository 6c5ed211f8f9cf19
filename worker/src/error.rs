//! Why a worker cannot go on, in words for whoever started it.

use std::io;
use std::path::{Path, PathBuf};

use link::LinkError;

/// A worker stopped, or did not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Another worker has the directory.
    #[error("another worker is using {dir}: stop it, or give this one a directory of its own with --dir", dir = .0.display())]
    InUse(PathBuf),
    /// A file or directory of the worker's does not do.
    #[error("{what} {path}", path = path.display())]
    File {
        /// What was attempted, such as `cannot read`.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A configuration file that does not parse.
    #[error("the configuration {path} makes no sense", path = path.display())]
    Config {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it, and where.
        source: Box<toml::de::Error>,
    },
    /// The process that starts the tasks cannot be started.
    #[error("the worker's helper process cannot be started")]
    Spawner(#[source] io::Error),
    /// The owner demands what this host cannot do.
    #[error(
        "the configuration says {key} = \"{wish}\", but {why}: change that, or say {key} = \"auto\" to take what this \
         host can do"
    )]
    Unavailable {
        /// The key of the configuration.
        key: &'static str,
        /// What it says.
        wish: String,
        /// Why this host cannot do it.
        why: String,
    },
    /// Finished results cannot be kept.
    #[error(
        "finished results cannot be kept in the spool: check the disk, then start the worker again"
    )]
    Spool(#[source] io::Error),
    /// The content store of the worker does not do.
    #[error(transparent)]
    Content(#[from] LinkError),
}

impl WorkerError {
    /// Wraps a failed operation on a file.
    pub(crate) fn file(
        what: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            what,
            path: path.as_ref().to_owned(),
            source,
        }
    }
}
