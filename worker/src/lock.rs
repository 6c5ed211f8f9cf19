//! The lock on the worker's directory: two workers never share one.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::WorkerError;

/// The longest time to wait for another worker that leaves the same directory.
const LOCKED: Duration = Duration::from_secs(3);
/// The pause between two tries to lock the directory.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// Locks the worker's directory. A worker that was just killed leaves it locked for a moment: until
/// the system has ended the processes that it was starting.
pub(crate) async fn take(dir: &Path) -> Result<File, WorkerError> {
    link::files::private_dir(dir).map_err(WorkerError::file("cannot make", dir))?;
    let path = dir.join("lock");
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);

    let file = file.map_err(WorkerError::file("cannot open", &path))?;
    let until = Instant::now() + LOCKED;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < until => {
                tokio::time::sleep(LOCK_RETRY).await;
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(WorkerError::InUse(dir.to_owned()));
            }
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(WorkerError::file("cannot lock", path)(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_that_another_worker_is_leaving_is_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = take(dir.path()).await.expect("nobody has it");

        // The second is asked first, and finds the directory locked.
        let leaves = async { drop(held) };
        let (next, ()) = tokio::join!(take(dir.path()), leaves);
        next.expect("it was let go");
    }
}
