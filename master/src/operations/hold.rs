//! Keeps content from being swept while somebody copies or checks it. The lock on `sweep-lock` ends
//! with the process.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use link::LinkError;

use super::OperationError;
use super::part::BreakOff;

/// The pause between two looks whether a sweep is over, and the looks after which it is said that one is waited for.
const LOOK: Duration = Duration::from_millis(100);
const SAID_AFTER: u32 = 20;

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
    /// of a sweep, unless it is to break off (`end`).
    pub(super) fn against_sweeping(home: &Path, end: &BreakOff) -> Result<Self, OperationError> {
        let cannot = |error| LinkError::file("cannot lock", home.join("sweep-lock"))(error);
        let file = open(home).map_err(cannot)?;
        let mut looks = 0;
        loop {
            match file.try_lock_shared() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(cannot(error).into()),
            }

            end.look()?;
            looks += 1;
            if looks == SAID_AFTER {
                tracing::warn!(
                    "the master removes content that nobody needs: this goes on once that is over"
                );
            }
            std::thread::sleep(LOOK);
        }
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
