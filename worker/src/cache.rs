//! The cache of input files by their content: each is fetched once, verified, and kept for the next
//! attempts while there is room.
//!
//! The least recently used file is evicted first; one that an attempt is copying stays.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::BlobRef;
use common::content::BlobHash;
use link::{BlobStore, Connection, LinkError};
use tokio::sync::watch;

use crate::os::{FileStamp, stamp_of};

/// The pause before fetching again over a connection that is still there.
const RETRY: Duration = Duration::from_millis(500);

/// The number of times that content may arrive damaged before the fetch fails: it is then damaged
/// at the other end, too.
const DAMAGED: u32 = 3;

/// The cache of input files.
#[derive(Debug)]
pub(crate) struct Cache {
    store: BlobStore,
    limit: u64,
    books: Mutex<CacheIndex>,
    master: watch::Receiver<Option<Connection>>,
}

#[derive(Debug, Default)]
struct CacheIndex {
    entries: BTreeMap<BlobHash, CacheEntry>,
    total: u64,
    /// The number of uses so far: the entry with the lowest number was used longest ago.
    uses: u64,
}

#[derive(Debug)]
struct CacheEntry {
    size: u64,
    used: u64,
    users: u32,
    /// The file as it was when it was last found to be whole.
    whole: Option<FileStamp>,
}

/// A cached file that is not evicted while this value exists.
#[derive(Debug)]
pub(crate) struct Pinned {
    cache: Arc<Cache>,
    blob: BlobRef,
}

impl Cache {
    /// Opens the cache in `dir`, bounded to `limit` bytes. `master` is the connection, while there
    /// is one.
    pub(crate) fn open(
        dir: &Path,
        limit: u64,
        master: watch::Receiver<Option<Connection>>,
    ) -> Result<Self, LinkError> {
        let store = BlobStore::open(dir)?;
        let mut found = store.list().map_err(LinkError::file("cannot list", dir))?;
        found.sort_by_key(|(_, written)| *written);

        let mut books = CacheIndex::default();
        for (blob, _) in found {
            books.enter(blob);
        }

        let cache = Self {
            store,
            limit,
            books: Mutex::new(books),
            master,
        };
        cache.evict(&mut cache.lock());

        Ok(cache)
    }

    /// Returns the content, and fetches it first if it is not here, however long the master is
    /// away. The error is for people, and final.
    pub(crate) async fn fetch(self: &Arc<Self>, blob: BlobRef) -> Result<Pinned, LinkError> {
        let mut master = self.master.clone();
        let mut damaged = 0;
        loop {
            if let Some(pinned) = self.pin(blob) {
                return Ok(pinned);
            }

            let connection = match master.wait_for(Option::is_some).await {
                Ok(connection) => connection.clone(),
                Err(_) => return Err(LinkError::Closed("the worker ends".to_owned())),
            };
            let Some(connection) = connection else {
                continue;
            };
            match link::content::get(&connection, &self.store, blob).await {
                Ok(()) => {}
                Err(error) if error.is_full() && self.make_room() => {}
                Err(error @ LinkError::Damaged { .. }) if damaged >= DAMAGED => return Err(error),
                Err(error) if error.passing() => {
                    damaged += u32::from(matches!(error, LinkError::Damaged { .. }));
                    tracing::debug!(hash = %blob.hash, %error, "fetching an input again");
                    let _ = tokio::time::timeout(RETRY, master.changed()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes content that was found damaged; a later `fetch` brings it again.
    pub(crate) fn discard(&self, hash: &BlobHash) {
        // The entry stays: somebody may hold the content, and it comes back with the same size.
        let _books = self.lock();
        tracing::error!(%hash, "a cached input was damaged: it is fetched again; see this host's disk");
        if let Err(error) = self.store.remove(hash) {
            tracing::warn!(%hash, %error, "a damaged cached input cannot be removed");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CacheIndex> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins the content, if it is here.
    fn pin(self: &Arc<Self>, blob: BlobRef) -> Option<Pinned> {
        // Under the lock, so that it is not evicted between the check and the entry.
        let mut books = self.lock();
        if !self.store.has(&blob) {
            return None;
        }
        books.enter(blob).users += 1;
        self.evict(&mut books);
        Some(Pinned {
            cache: Arc::clone(self),
            blob,
        })
    }

    /// Evicts everything that no attempt uses, for a disk that is full before the cache has reached
    /// its limit. Returns whether anything was removed.
    fn make_room(&self) -> bool {
        let mut books = self.lock();
        let before = books.total;
        self.evict_to(&mut books, 0);
        books.total < before
    }

    /// Evicts down to `limit`, the oldest use first.
    fn evict(&self, books: &mut CacheIndex) {
        self.evict_to(books, self.limit);
    }

    fn evict_to(&self, books: &mut CacheIndex, limit: u64) {
        while books.total > limit {
            let unused = books.entries.iter().filter(|(_, entry)| entry.users == 0);
            let Some(oldest) = unused
                .min_by_key(|(_, entry)| entry.used)
                .map(|(hash, _)| *hash)
            else {
                return;
            };
            if let Some(entry) = books.entries.remove(&oldest) {
                books.total -= entry.size;
            }
            if let Err(error) = self.store.remove(&oldest) {
                tracing::warn!(hash = %oldest, %error, "a cached input cannot be removed");
            }
        }
    }
}

impl CacheIndex {
    /// Records that the blob is here and was used now.
    fn enter(&mut self, blob: BlobRef) -> &mut CacheEntry {
        self.uses += 1;
        let entry = self.entries.entry(blob.hash).or_insert_with(|| {
            self.total += blob.size;
            CacheEntry {
                size: blob.size,
                used: 0,
                users: 0,
                whole: None,
            }
        });
        entry.used = self.uses;
        entry
    }
}

impl Pinned {
    /// Returns the path of the content.
    pub(crate) fn path(&self) -> PathBuf {
        self.cache.store.path_of(&self.blob.hash)
    }

    /// Removes the content from the cache because it is damaged.
    pub(crate) fn discard(&self) {
        self.cache.discard(&self.blob.hash);
    }

    /// Whether the content is intact, which is looked at again once its file has changed. Damaged
    /// content is removed from the cache.
    ///
    /// # Errors
    /// If the content cannot be read.
    pub(crate) fn is_whole(&self) -> io::Result<bool> {
        let path = self.path();
        let stamp = match std::fs::metadata(&path) {
            Ok(meta) => stamp_of(&meta),
            // Another attempt has found it damaged and removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let entry = |index: &CacheIndex| index.entries.get(&self.blob.hash)?.whole;
        if entry(&self.cache.lock()) == Some(stamp) {
            return Ok(true);
        }

        let found = link::content::copy_hashing(&mut File::open(&path)?, &mut io::sink())?;
        if found != self.blob {
            self.discard();
            return Ok(false);
        }
        if let Some(entry) = self.cache.lock().entries.get_mut(&self.blob.hash) {
            entry.whole = Some(stamp);
        }
        Ok(true)
    }

    /// Copies the content to `to`, a new file, and returns whether it is intact. Damaged content is
    /// removed from the cache.
    ///
    /// If `to` cannot be written, or the content cannot be read.
    pub(crate) fn copy_to(&self, to: &mut File) -> io::Result<bool> {
        let mut from = match File::open(self.path()) {
            Ok(from) => from,
            // Another attempt has found it damaged and removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let whole = link::content::copy_hashing(&mut from, to)? == self.blob;
        if !whole {
            self.discard();
        }
        Ok(whole)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut books = self.cache.lock();
        if let Some(entry) = books.entries.get_mut(&self.blob.hash) {
            entry.users = entry.users.saturating_sub(1);
        }
        self.cache.evict(&mut books);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(dir: &Path, limit: u64) -> (Arc<Cache>, watch::Sender<Option<Connection>>) {
        let (tx, master) = watch::channel(None);
        (Arc::new(Cache::open(dir, limit, master).unwrap()), tx)
    }

    fn put(cache: &Arc<Cache>, bytes: &[u8]) -> Pinned {
        cache.pin(cache.store.add_reader(bytes).unwrap()).unwrap()
    }

    #[test]
    fn the_cache_evicts_the_least_recently_used_and_keeps_pinned_content() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 20);
        let used = put(&cache, b"0123456789");
        let first = put(&cache, b"abcdefghij").path();
        assert!(first.exists());
        let second = put(&cache, b"ABCDEFGHIJ").path();
        assert!(!first.exists() && second.exists() && used.path().exists());
        let kept = used.path();
        drop(used);
        let third = put(&cache, b"0987654321").path();
        assert!(!kept.exists() && second.exists() && third.exists());
    }

    #[test]
    fn the_limit_holds_over_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = put(&cache(dir.path(), 100).0, b"0123456789").path();
        let (_again, _tx) = cache(dir.path(), 100);
        assert!(path.exists());
        let (_smaller, _tx) = cache(dir.path(), 5);
        assert!(!path.exists());
    }

    #[test]
    fn damaged_cache_content_is_dropped_instead_of_copied() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 100);
        let one = put(&cache, b"0123456789");
        let other = put(&cache, b"0123456789");

        std::fs::write(one.path(), b"0123456780").unwrap();
        let copy = |pinned: &Pinned| pinned.copy_to(&mut tempfile::tempfile().unwrap()).unwrap();
        assert_eq!(
            (copy(&one), copy(&other), one.path().exists()),
            (false, false, false)
        );

        let again = put(&cache, b"0123456789");
        drop((one, other));
        assert!(copy(&again) && cache.lock().total == 10);
        put(&cache, &[7; 95]);
        assert!(
            again.path().exists(),
            "it is held, whoever let go of what was damaged"
        );
    }

    #[tokio::test]
    async fn cached_content_is_found_without_a_master() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 100);
        let blob = cache.store.add_reader(&b"here"[..]).unwrap();
        let pinned = cache.fetch(blob).await.unwrap();
        assert_eq!(std::fs::read(pinned.path()).unwrap(), b"here");
    }
}
