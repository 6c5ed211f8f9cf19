//! The errors that stop a worker, in words for the person who started it.

use std::io;
use std::path::{Path, PathBuf};

use link::LinkError;

/// The reason why a worker stopped, or did not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Another worker uses this directory.
    #[error("another worker is using {dir}: stop it, or give this one a directory of its own with --dir", dir = .0.display())]
    InUse(PathBuf),
    /// An operation on one of the worker's files or directories failed.
    #[error("{what} {path}", path = path.display())]
    File {
        /// The attempted operation, such as `cannot read`.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The configuration file cannot be read.
    #[error("cannot read the settings in {path}", path = path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The configuration file does not parse.
    #[error("the configuration {path} is invalid", path = path.display())]
    Config {
        /// The path of the file.
        path: PathBuf,
        /// The parser's error, with its place in the file.
        source: Box<toml::de::Error>,
    },
    /// The spawner, the process that starts the tasks, cannot be started.
    #[error("the worker's helper process cannot be started")]
    Spawner(#[source] io::Error),
    /// Not even a command that does nothing runs as a task on this host, for this reason.
    #[error("no task can run on this host, not even one that does nothing: {0}")]
    NoTask(String),
    /// The configuration demands something that this host cannot do.
    #[error(
        "the configuration says {key} = \"{wish}\", but {why}: change that, or say {key} = \"auto\" to take what this \
         host can do"
    )]
    Unavailable {
        /// The key of the configuration.
        key: &'static str,
        /// The value that it is set to.
        wish: String,
        /// The reason why this host cannot do it.
        why: String,
    },
    /// The spool cannot keep finished results.
    #[error(
        "finished results cannot be kept in the spool: check the disk, then start the worker again"
    )]
    Spool(#[source] io::Error),
    /// The worker's content store failed.
    #[error(transparent)]
    Content(#[from] LinkError),
}

impl WorkerError {
    /// Returns a function that wraps the error of a failed operation on `path` as
    /// [`WorkerError::File`].
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
