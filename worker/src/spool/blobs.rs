//! The blobs of spooled completions, counted by who needs them.
//!
//! Two attempts may leave the same content: it goes only when both are acknowledged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use common::BlobRef;
use common::content::BlobHash;
use link::{BlobStore, Contents, LinkError};

/// A content store in which each blob counts its holders.
#[derive(Debug)]
pub(crate) struct Blobs<S = BlobStore> {
    store: S,
    holders: Mutex<BTreeMap<BlobHash, u32>>,
}

impl Blobs {
    /// Opens the store in `dir`, or begins one. Copies that a crash broke off go.
    pub(crate) fn open(dir: &Path) -> Result<Self, LinkError> {
        let store = BlobStore::open(dir)?;
        let incoming = dir.join("incoming");
        let empty = || {
            std::fs::read_dir(&incoming)?.try_for_each(|left| std::fs::remove_file(left?.path()))
        };
        empty().map_err(LinkError::file("cannot empty", &incoming))?;
        Ok(Self::over(store))
    }

    /// Copies a file in, durably, and holds it.
    pub(crate) fn add(&self, file: &mut File) -> io::Result<BlobRef> {
        self.add_and_hold(|store| {
            file.rewind()?;
            store.add_reader(&mut *file)
        })
    }

    fn add_and_hold(
        &self,
        mut add: impl FnMut(&BlobStore) -> io::Result<BlobRef>,
    ) -> io::Result<BlobRef> {
        loop {
            let blob = add(&self.store)?;
            self.hold(&[blob.hash]);
            // Its last other holder may have let go of it just before.
            if self.store.has(&blob) {
                return Ok(blob);
            }
            self.release(&[blob.hash]);
        }
    }

    /// Where the blob lies.
    pub(crate) fn path_of(&self, blob: &BlobRef) -> PathBuf {
        self.store.path_of(&blob.hash)
    }
}

impl<S: Contents> Blobs<S> {
    /// Nothing is held yet.
    pub(crate) fn over(store: S) -> Self {
        Self {
            store,
            holders: Mutex::default(),
        }
    }

    /// Whether the blob is there.
    pub(crate) fn has(&self, blob: &BlobRef) -> bool {
        self.store.has(blob)
    }

    /// Whether somebody counts on the blob, be it there or not.
    pub(crate) fn holds(&self, hash: &BlobHash) -> bool {
        self.holders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(hash)
    }

    /// One more holder for each.
    pub(crate) fn hold(&self, hashes: &[BlobHash]) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        for hash in hashes {
            *holders.entry(*hash).or_default() += 1;
        }
    }

    /// One holder less for each; what nobody holds goes.
    pub(crate) fn release(&self, hashes: &[BlobHash]) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        for hash in hashes {
            let left = holders.get_mut(hash).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                holders.remove(hash);
                if let Err(error) = self.store.remove(hash) {
                    tracing::warn!(%hash, %error, "a delivered blob cannot be removed");
                }
            }
        }
    }

    /// Removes what nobody holds: left by a crash between a blob and its record. For the start
    /// only.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        for (blob, _) in self.store.list()? {
            if !holders.contains_key(&blob.hash) {
                self.store.remove(&blob.hash)?;
            }
        }
        Ok(())
    }
}

/// Copies that need not survive a crash, and stay as long as this.
#[derive(Debug)]
pub(crate) struct Hold {
    blobs: Arc<Blobs>,
    hashes: Vec<BlobHash>,
}

impl Hold {
    /// Holds nothing yet.
    pub(crate) fn new(blobs: &Arc<Blobs>) -> Self {
        Self {
            blobs: Arc::clone(blobs),
            hashes: Vec::new(),
        }
    }

    /// Copies a file in.
    pub(crate) fn add(&mut self, file: &mut File) -> io::Result<BlobRef> {
        let blob = self.blobs.add_and_hold(|store| {
            file.rewind()?;
            store.add_passing(&mut *file)
        })?;
        self.hashes.push(blob.hash);
        Ok(blob)
    }

    /// Copies bytes in.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) -> io::Result<BlobRef> {
        let blob = self.blobs.add_and_hold(|store| store.add_passing(bytes))?;
        self.hashes.push(blob.hash);
        Ok(blob)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.blobs.release(&self.hashes);
    }
}
