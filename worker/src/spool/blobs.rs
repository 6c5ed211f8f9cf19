//! The blobs of spooled completions, with a count of holders for each.
//!
//! Two attempts may leave the same content: it is removed only when both are acknowledged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::BlobRef;
use common::content::BlobHash;
use link::{BlobStore, Contents, LinkError};

use crate::blocking::{behind, yielded};
use crate::os;

/// A content store that counts the holders of each blob.
#[derive(Debug)]
pub(crate) struct Blobs<S = BlobStore> {
    store: S,
    holders: Mutex<BTreeMap<BlobHash, u32>>,
    /// Taken before `holders` wherever a blob may be removed or was just added, but at the start, and kept while the file
    /// goes.
    removing: Mutex<()>,
}

impl Blobs {
    /// Opens the store in `dir`, or begins one. Removes unfinished copies of a crash.
    pub(crate) fn open(dir: &Path) -> Result<Self, LinkError> {
        let store = BlobStore::open(dir)?;
        let incoming = dir.join("incoming");
        let left =
            std::fs::read_dir(&incoming).map_err(LinkError::file("cannot list", &incoming))?;
        for path in left.flatten().map(|left| left.path()) {
            if let Err(error) = os::remove_tree(&path) {
                tracing::warn!(path = %path.display(), %error, "this is no finished result, and cannot be removed: remove it by hand");
            }
        }
        Ok(Self::over(store))
    }

    /// Copies a file into the store, durably, and holds it.
    pub(crate) fn add(&self, file: &mut File) -> io::Result<BlobRef> {
        self.add_and_hold(|store| {
            file.rewind()?;
            store.add_reader(&mut *file)
        })
    }

    /// As [`add`](Self::add), for a task: the copying yields, and the books do not, since others wait for them.
    pub(crate) fn add_yielding(&self, file: &mut File) -> io::Result<BlobRef> {
        self.add_moving(file, |_, _| false)
    }

    /// The same, where the file may be moved instead: as [`BlobStore::add_moving`] has it.
    pub(crate) fn add_moving(
        &self,
        file: &mut File,
        moved: impl Fn(&File, &Path) -> bool + Sync,
    ) -> io::Result<BlobRef> {
        self.add_and_hold(|store| {
            yielded(|| {
                file.rewind()?;
                let file = &*file;
                store.add_moving(file, |to| moved(file, to))
            })
        })
    }

    fn add_and_hold(
        &self,
        mut add: impl FnMut(&BlobStore) -> io::Result<BlobRef>,
    ) -> io::Result<BlobRef> {
        loop {
            let blob = add(&self.store)?;

            let removing = lock(&self.removing);
            self.hold(&[blob.hash]);
            // Its last other holder may have released it just before.
            if self.store.has(&blob) {
                return Ok(blob);
            }
            drop(removing);
            self.release(&[blob.hash]);
        }
    }

    /// Returns the path of the blob.
    pub(crate) fn path_of(&self, blob: &BlobRef) -> PathBuf {
        self.store.path_of(&blob.hash)
    }
}

impl<S: Contents> Blobs<S> {
    /// Makes the counts for `store`; nothing is held yet.
    pub(crate) fn over(store: S) -> Self {
        Self {
            store,
            holders: Mutex::default(),
            removing: Mutex::default(),
        }
    }

    /// Whether the store has the blob.
    pub(crate) fn has(&self, blob: &BlobRef) -> bool {
        self.store.has(blob)
    }

    /// Whether some holder needs the blob, be it in the store or not.
    pub(crate) fn holds(&self, hash: &BlobHash) -> bool {
        lock(&self.holders).contains_key(hash)
    }

    /// Adds one holder to each blob.
    pub(crate) fn hold(&self, hashes: &[BlobHash]) {
        let mut holders = lock(&self.holders);
        for hash in hashes {
            *holders.entry(*hash).or_default() += 1;
        }
    }

    /// Removes one holder from each blob; a blob without holders is removed from the store, which may take a while.
    pub(crate) fn release(&self, hashes: &[BlobHash]) {
        for hash in hashes {
            let _removing = lock(&self.removing);
            if self.let_go(hash)
                && let Err(error) = self.store.remove(hash)
            {
                tracing::warn!(%hash, %error, "a delivered blob cannot be removed");
            }
        }
    }

    /// Removes one holder from the blob, and returns whether that was the last.
    fn let_go(&self, hash: &BlobHash) -> bool {
        let mut holders = lock(&self.holders);
        let left = holders.get_mut(hash).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            holders.remove(hash);
        }
        left == 0
    }

    /// Removes blobs without holders: a crash between a blob and its record left them. Only for the
    /// start.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let holders = lock(&self.holders);
        for (blob, _) in self.store.list()? {
            if !holders.contains_key(&blob.hash) {
                self.store.remove(&blob.hash)?;
            }
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies that need not survive a crash, and stay as long as this value.
#[derive(Debug)]
pub(crate) struct BlobHold {
    blobs: Arc<Blobs>,
    hashes: Vec<BlobHash>,
}

impl BlobHold {
    /// Makes an empty hold.
    pub(crate) fn new(blobs: &Arc<Blobs>) -> Self {
        Self {
            blobs: Arc::clone(blobs),
            hashes: Vec::new(),
        }
    }

    /// Copies a file into the store.
    pub(crate) fn add(&mut self, file: &mut File) -> io::Result<BlobRef> {
        let blob = self.blobs.add_and_hold(|store| {
            file.rewind()?;
            store.add_passing(&mut *file)
        })?;
        self.hashes.push(blob.hash);
        Ok(blob)
    }

    /// Copies bytes into the store.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) -> io::Result<BlobRef> {
        let blob = self.blobs.add_and_hold(|store| store.add_passing(bytes))?;
        self.hashes.push(blob.hash);
        Ok(blob)
    }
}

impl Drop for BlobHold {
    fn drop(&mut self) {
        let blobs = Arc::clone(&self.blobs);
        let hashes = std::mem::take(&mut self.hashes);
        behind(move || blobs.release(&hashes));
    }
}
