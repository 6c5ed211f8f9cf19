//! The store's write-ahead log, before SQLite looks at it. After a failed sync the system shows
//! bytes of it that the disk does not have and does not try to write again; a later sync succeeds
//! without them. SQLite would take them for durable, and copy them into the store: a loss of power
//! in the middle of that leaves pages of two times, and no log to mend them with. So what is there
//! is written again and synced first. The same bytes in the same places harm nothing, however much
//! of it arrives.
//!
//! What is not here: what is in the log.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// Where logs lie.
pub trait Logs {
    /// All of a log.
    ///
    /// # Errors
    /// If it cannot be read; [`io::ErrorKind::NotFound`] where there is none.
    fn read(&self, log: &Path) -> io::Result<Vec<u8>>;

    /// Writes these bytes over those of a log from its beginning, durably.
    ///
    /// # Errors
    /// If that fails, or may have.
    fn write(&self, log: &Path, bytes: &[u8]) -> io::Result<()>;
}

/// Logs in the file system.
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

/// Makes durable what can be read of the log, if there is one.
pub(super) fn write_again(logs: &dyn Logs, log: &Path) -> io::Result<()> {
    match logs.read(log) {
        Ok(bytes) if bytes.is_empty() => Ok(()),
        Ok(bytes) => logs.write(log, &bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
