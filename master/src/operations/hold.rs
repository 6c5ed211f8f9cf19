//! Keeps content from being swept while somebody copies or checks it. The lock on `sweep-lock` ends
//! with the process.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// A lock on `sweep-lock`: shared, it keeps content from being swept; exclusive, it lets its holder
/// sweep.
#[derive(Debug)]
pub(crate) struct SweepHold(#[expect(dead_code, reason = "the lock ends with the file")] File);

fn open(home: &Path) -> io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(home.join("sweep-lock"))
}

impl SweepHold {
    /// Takes the shared lock, for those who rely on content that the store names. Waits for the end
    /// of a sweep.
    pub(crate) fn against_sweeping(home: &Path) -> io::Result<Self> {
        let file = open(home)?;
        file.lock_shared()?;
        Ok(Self(file))
    }

    /// Takes the exclusive lock, for a sweep; `None` while somebody relies on content.
    pub(crate) fn for_sweeping(home: &Path) -> io::Result<Option<Self>> {
        let file = open(home)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
