//! The directories of attempts. One that an attempt leaves as it got it is kept for the next one: making and
//! removing a directory costs a short task as much as a tenth of starting its program.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::os::{self, files};

/// The most directories that are kept.
const MOST: usize = 64;

/// The directories that the next attempts can have: empty, private, and without anything of the one before.
#[derive(Debug, Default)]
pub(super) struct SpareDirs(Mutex<Vec<PathBuf>>);

impl SpareDirs {
    /// Makes a directory that is as new.
    pub(super) fn make(&self, dir: &Path) -> io::Result<()> {
        match self.kept().pop() {
            Some(spare) => std::fs::rename(spare, dir).or_else(|_| files::make_private_dir(dir)),
            None => files::make_private_dir(dir),
        }
    }

    /// Keeps or removes the directory of an attempt of which no process is left.
    pub(super) async fn clear(&self, dir: PathBuf) {
        if matches!(files::renew_dir(&dir), Ok(true)) {
            let mut kept = self.kept();
            if kept.len() < MOST {
                kept.push(dir);
                return;
            }
        }

        // Most of the others are empty, too: not worth another thread.
        if std::fs::remove_dir(&dir).is_ok() {
            return;
        }
        let path = dir.clone();
        let cleared = tokio::task::spawn_blocking(move || os::remove_tree(&path));
        if let Ok(Err(error)) = cleared.await {
            tracing::warn!(dir = %dir.display(), %error, "an attempt's directory cannot be removed");
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SpareDirs {
    fn drop(&mut self) {
        for dir in self.kept().drain(..) {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    /// An attempt has a directory, does this in it, and the next one gets the directory of that name.
    async fn after(deed: impl FnOnce(&Path)) -> (tempfile::TempDir, PathBuf, bool) {
        let root = tempfile::tempdir().unwrap();
        let first = root.path().join("1");
        let second = root.path().join("2");
        let spares = SpareDirs::default();
        spares.make(&first).unwrap();
        let inode = fs::metadata(&first).unwrap().ino();
        deed(&first);
        spares.clear(first).await;

        spares.make(&second).unwrap();
        let left: Vec<_> = fs::read_dir(root.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        let again = fs::metadata(&second).unwrap().ino() == inode;
        (root, second, again)
    }

    fn assert_new(dir: &Path) {
        let meta = fs::metadata(dir).unwrap();
        assert_eq!(meta.mode() & 0o7777, 0o700);
        assert_eq!(meta.uid(), rustix::process::geteuid().as_raw());
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_directory_that_an_attempt_left_as_it_was_is_the_next_ones() {
        let (_root, dir, again) = after(|_| ()).await;
        assert_new(&dir);
        assert!(again);
    }

    #[tokio::test]
    async fn nothing_of_an_attempt_is_in_the_directory_of_the_next() {
        type Deed = fn(&Path);
        let deeds: [Deed; 4] = [
            |dir| fs::write(dir.join("file"), "left").unwrap(),
            |dir| fs::create_dir(dir.join("sub")).unwrap(),
            |dir| fs::set_permissions(dir, fs::Permissions::from_mode(0o1777)).unwrap(),
            |dir| fs::remove_dir(dir).unwrap(),
        ];
        for deed in deeds {
            let (_root, dir, _) = after(deed).await;
            assert_new(&dir);
        }

        let named = |dir: &Path| {
            let flags = rustix::fs::XattrFlags::empty();
            let _ = rustix::fs::setxattr(dir, "user.note", b"to the next one", flags);
        };
        let (_root, dir, _) = after(named).await;
        let mut none = [0; 64];
        let name = rustix::fs::getxattr(&dir, "user.note", &mut none[..]);
        assert!(name.is_err(), "{none:?}");
    }

    #[tokio::test]
    async fn a_link_in_the_place_of_a_directory_is_not_followed() {
        let target = tempfile::tempdir().unwrap();
        let at = target.path().to_owned();
        let link = move |dir: &Path| {
            fs::remove_dir(dir).unwrap();
            std::os::unix::fs::symlink(&at, dir).unwrap();
        };
        let (_root, dir, _) = after(link).await;
        assert!(fs::symlink_metadata(&dir).unwrap().is_dir());
        assert_new(&dir);
        assert!(target.path().exists());
    }
}
