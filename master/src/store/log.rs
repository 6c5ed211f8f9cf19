//! Repairs the store's write-ahead log before SQLite reads it. After a failed sync the system shows
//! bytes of the log that the disk does not have, and does not try to write them again; a later sync
//! succeeds without them. SQLite would take them for durable and copy them into the store. A power
//! failure during that copy leaves pages of two states, and no log to restore either. So the log's
//! bytes are first written again and synced. The same bytes in the same places do no harm, however
//! many of them arrive.
//!
//! The content of the log is left to SQLite.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// A place that holds write-ahead logs, such as the file system.
pub trait Logs {
    /// Reads the whole log.
    ///
    /// # Errors
    /// If it cannot be read; [`io::ErrorKind::NotFound`] where there is none.
    fn read(&self, log: &Path) -> io::Result<Vec<u8>>;

    /// Overwrites a log from its beginning with `bytes`, durably.
    ///
    /// # Errors
    /// If that fails, or may have.
    fn write(&self, log: &Path, bytes: &[u8]) -> io::Result<()>;
}

/// The logs in the file system.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileLogs;

impl Logs for FileLogs {
    fn read(&self, log: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(log)
    }

    fn write(&self, log: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(log)?;
        file.write_all(bytes)?;
        file.sync_all()
    }
}

/// Writes the readable bytes of the log again, durably, if there is a log.
pub(super) fn write_again(logs: &dyn Logs, log: &Path) -> io::Result<()> {
    match link::files::unless_gone(logs.read(log))? {
        Some(bytes) if !bytes.is_empty() => logs.write(log, &bytes),
        _ => Ok(()),
    }
}
