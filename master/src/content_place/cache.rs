//! Content of a bucket in files of this machine, each verified when it came. Those that were not read
//! for the longest time go first. What somebody reads stays.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex};

use common::BlobRef;
use common::content::BlobHash;
use link::BlobStore;

use crate::locked;

/// The bytes of the disk that a `DiskCache` leaves to others.
const LEFT: u64 = 128 << 20;

/// The files of a [`super::ContentPlace::Bucket`], with who reads them. Cloning gives another handle.
#[derive(Debug, Clone)]
pub(crate) struct DiskCache {
    files: BlobStore,
    most: u64,
    book: Arc<Mutex<CacheBook>>,
}

#[derive(Debug, Default)]
struct CacheBook {
    entries: HashMap<BlobHash, CachedFile>,
    /// The files that nobody reads, the one that was read first at the front.
    by_use: BTreeMap<u64, BlobHash>,
    bytes: u64,
    uses: u64,
}

#[derive(Debug)]
struct CachedFile {
    size: u64,
    /// When it was last used, as a place in `by_use`.
    used: u64,
    readers: u32,
}

/// Keeps a file in a [`DiskCache`] for as long as it is held.
#[derive(Debug)]
pub(crate) struct CacheHold {
    cache: DiskCache,
    hash: BlobHash,
}

impl Drop for CacheHold {
    fn drop(&mut self) {
        let mut book = locked(&self.cache.book);
        let Some(entry) = book.entries.get_mut(&self.hash) else {
            return;
        };
        entry.readers = entry.readers.saturating_sub(1);
        if entry.readers == 0 {
            let used = entry.used;
            book.by_use.insert(used, self.hash);
        }
    }
}

impl DiskCache {
    /// A cache in these files, of at most so many bytes, and of half of what the disk can have for it.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn open(files: BlobStore, most: u64) -> io::Result<Self> {
        let mut found = files.list()?;
        found.sort_by_key(|(_, read)| *read);
        let mut book = CacheBook::default();
        for (blob, _) in found {
            book.enter(blob, 0);
        }

        let free = files.free_bytes().unwrap_or(u64::MAX);
        let cache = Self {
            files,
            most: most.min(free.saturating_add(book.bytes) / 2),
            book: Arc::new(Mutex::new(book)),
        };
        cache.make_room(0);
        Ok(cache)
    }

    /// The files.
    pub(crate) fn files(&self) -> &BlobStore {
        &self.files
    }

    /// Holds a file until the [`CacheHold`] is dropped, if it is there.
    pub(crate) fn hold(&self, blob: &BlobRef) -> Option<CacheHold> {
        if !self.files.has(blob) {
            self.forget(&blob.hash);
            return None;
        }
        // The order of use survives a restart.
        self.files.touch(blob);
        locked(&self.book).enter(*blob, 1);
        let cache = self.clone();
        Some(CacheHold {
            cache,
            hash: blob.hash,
        })
    }

    /// Makes room for a file of this size, as far as files that nobody reads give it.
    pub(crate) fn make_room(&self, size: u64) {
        let free = self.files.free_bytes().unwrap_or(u64::MAX);
        let missing = size.saturating_add(LEFT).saturating_sub(free);

        let mut book = locked(&self.book);
        let most = self.most.saturating_sub(size);
        let most = most.min(book.bytes.saturating_sub(missing));
        while book.bytes > most
            && let Some((_, hash)) = book.by_use.pop_first()
        {
            if let Some(entry) = book.entries.remove(&hash) {
                book.bytes -= entry.size;
            }
            if let Err(error) = self.files.remove(&hash) {
                tracing::warn!(%hash, %error, "a file stays in the cache");
            }
        }
    }

    /// Forgets a file that is not there, or not what it was.
    pub(crate) fn forget(&self, hash: &BlobHash) {
        let mut book = locked(&self.book);
        if let Some(entry) = book.entries.remove(hash) {
            book.bytes -= entry.size;
            book.by_use.remove(&entry.used);
        }
    }
}

impl CacheBook {
    /// Notes that a file is there and used now, by so many more readers.
    fn enter(&mut self, blob: BlobRef, readers: u32) {
        self.uses += 1;
        let used = self.uses;
        let new = CachedFile {
            size: blob.size,
            used,
            readers: 0,
        };
        let entry = self.entries.entry(blob.hash).or_insert_with(|| {
            self.bytes += blob.size;
            new
        });

        self.by_use.remove(&entry.used);
        entry.used = used;
        entry.readers += readers;
        if entry.readers == 0 {
            self.by_use.insert(used, blob.hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(dir: &tempfile::TempDir, most: u64) -> DiskCache {
        DiskCache::open(BlobStore::open(dir.path()).unwrap(), most).unwrap()
    }

    fn add(cache: &DiskCache, byte: u8) -> BlobRef {
        cache.make_room(1_000);
        let blob = cache.files.add_reader(&[byte; 1_000][..]).unwrap();
        drop(cache.hold(&blob).expect("it has come"));
        blob
    }

    #[test]
    fn the_file_that_was_not_read_for_the_longest_time_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir, 3_000);
        let blobs: Vec<BlobRef> = (0..3).map(|byte| add(&cache, byte)).collect();
        drop(cache.hold(&blobs[0]));
        let new = add(&cache, 3);

        let there = |blob: &BlobRef| cache.files.has(blob);
        assert!(there(&blobs[0]) && !there(&blobs[1]) && there(&blobs[2]) && there(&new));
        assert!(cache.hold(&blobs[1]).is_none());
        assert_eq!(locked(&cache.book).bytes, 3_000);
    }

    #[test]
    fn what_is_read_stays_and_a_restart_counts_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let first = cache(&dir, 2_000);
        let read = add(&first, 0);
        let held = first.hold(&read).unwrap();
        let again = first.hold(&read).unwrap();
        drop(again);
        for byte in 1..5 {
            add(&first, byte);
        }
        assert!(first.files.has(&read), "somebody reads it");
        assert_eq!(locked(&first.book).bytes, 2_000);
        drop(held);
        add(&first, 9);
        assert!(!first.files.has(&read));

        let smaller = cache(&dir, 1_000);
        assert_eq!(locked(&smaller.book).bytes, 1_000);
        assert_eq!(smaller.files.list().unwrap().len(), 1);
    }
}
