//! The directory with the copies of results that a program of the user's compares. It goes with the
//! comparison; what a judge that was killed has left goes when the next one begins.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// The beginning of the name of each such directory.
const PREFIX: &str = "deskgrid-judge-";
/// The file in it that is locked as long as its process lives.
const LOCK: &str = "lock";

/// A directory for copies that nobody else can look into.
#[derive(Debug)]
pub(super) struct CopiesDir {
    // Dropped first: Windows removes no file that is open.
    _held: File,
    dir: TempDir,
}

impl CopiesDir {
    /// Makes one in `place`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn make(place: &Path) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        // It has the name once it is locked: until then it would look as if its process were dead. Where there are no
        // locks it does not get the name, and nobody removes the directory.
        let begun = dir.path().join("begun");
        let held = File::create_new(&begun)?;
        if held.try_lock().is_ok() {
            let _ = fs::rename(&begun, dir.path().join(LOCK));
        }

        Ok(Self { _held: held, dir })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes from `place` the directories of this user's judges that are dead.
pub(super) fn remove_left(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_named && is_left(&path) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn is_left(dir: &Path) -> bool {
    let is_ours = fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && is_of_us(&meta));
    // The lock of a file on another machine takes the right to write it.
    let open = |path| OpenOptions::new().read(true).write(true).open(path);
    is_ours && open(dir.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(unix)]
fn is_of_us(meta: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    meta.uid() == rustix::process::geteuid().as_raw()
}

/// Each user has temporary files of their own.
#[cfg(not(unix))]
fn is_of_us(_: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test's panic is its message")]

    use super::*;

    #[test]
    fn what_a_dead_judge_has_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let living = CopiesDir::make(place.path()).unwrap();
        for name in ["deskgrid-judge-dead", "deskgrid-judge-begins", "other"] {
            fs::create_dir_all(at(name).join("new")).unwrap();
        }
        for name in ["deskgrid-judge-dead", "other"] {
            fs::write(at(name).join(LOCK), "").unwrap();
        }

        remove_left(place.path());
        assert!(living.path().join(LOCK).exists());
        assert!(!at("deskgrid-judge-dead").exists());
        assert!(at("deskgrid-judge-begins").exists() && at("other").exists());

        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
