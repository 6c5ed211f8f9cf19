//! Keeps content from being swept while somebody copies it or looks through it. Held by a lock on a
//! file, which the system lets go of with the process.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// While it is there, content is not swept, or nobody else counts on that.
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
    /// For those who count on content that the store names. Waits while it is swept.
    pub(crate) fn against_sweeping(home: &Path) -> io::Result<Self> {
        let file = open(home)?;
        file.lock_shared()?;
        Ok(Self(file))
    }

    /// For the one who sweeps; none while somebody counts on content.
    pub(crate) fn for_sweeping(home: &Path) -> io::Result<Option<Self>> {
        let file = open(home)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
