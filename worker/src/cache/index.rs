//! The books of the cache: its entries, their users, and the order in which they are evicted.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use common::content::BlobHash;
use link::BlobStore;

use super::tree::UnpackedTree;
use crate::os::FileStamp;

/// The books of the cache.
#[derive(Debug, Default)]
pub(super) struct CacheIndex {
    pub entries: BTreeMap<CacheKey, CacheEntry>,
    /// The entries that nobody uses, by the number of their last use.
    idle: BTreeSet<(u64, CacheKey)>,
    pub total: u64,
    /// The number of uses so far: the entry with the lowest number was used longest ago.
    uses: u64,
}

/// Something in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CacheKey {
    /// A file by its content.
    File(BlobHash),
    /// A tree by its list.
    Tree(BlobHash),
    /// The part of a file that is not whole.
    Part(BlobHash),
}

#[derive(Debug)]
pub(super) struct CacheEntry {
    pub size: u64,
    pub used: u64,
    pub users: u32,
    /// The file as it was when it was last found to be whole.
    pub whole: Option<FileStamp>,
    /// The tree, if it is one.
    pub tree: Option<Arc<UnpackedTree>>,
}

impl CacheIndex {
    /// Makes the books of the files in a store and of what has come of others, by their age.
    pub(super) fn of(store: &BlobStore) -> io::Result<Self> {
        let files = store.list()?.into_iter();
        let files = files.map(|(blob, at)| (at, CacheKey::File(blob.hash), blob.size));
        let parts = store.fetched_parts()?.into_iter();
        let parts = parts.map(|(hash, size, at)| (at, CacheKey::Part(hash), size));
        let mut found: Vec<_> = files.chain(parts).collect();
        found.sort_unstable();

        let mut books = Self::default();
        for (_, key, size) in found {
            books.enter(key, size, 0);
        }
        Ok(books)
    }

    /// Records that a file or tree of this size is here, was used now, and has so many more users from now on.
    pub(super) fn enter(&mut self, key: CacheKey, size: u64, users: u32) -> &mut CacheEntry {
        self.uses += 1;
        let entry = self.entries.entry(key).or_insert_with(|| {
            self.total += size;
            CacheEntry {
                size,
                used: 0,
                users: 0,
                whole: None,
                tree: None,
            }
        });

        self.idle.remove(&(entry.used, key));
        entry.used = self.uses;
        entry.users += users;
        if entry.users == 0 {
            self.idle.insert((entry.used, key));
        }
        entry
    }

    /// Records that somebody has let go of this.
    pub(super) fn let_go(&mut self, key: CacheKey) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.users = entry.users.saturating_sub(1);
            if entry.users == 0 {
                self.idle.insert((entry.used, key));
            }
        }
    }

    /// Records that this [`CacheKey`] has another size now.
    pub(super) fn resize(&mut self, key: CacheKey, size: u64) {
        if let Some(entry) = self.entries.get_mut(&key) {
            self.total = self.total - entry.size + size;
            entry.size = size;
        }
    }

    /// Records that somebody has let go of a part of which so many bytes are here. It stays if there are some, or if
    /// somebody else goes on with it.
    pub(super) fn let_go_part(&mut self, key: CacheKey, size: u64) {
        self.let_go(key);
        let Some(entry) = self.entries.get(&key).filter(|entry| entry.users == 0) else {
            return;
        };
        let used = entry.used;
        self.resize(key, size);
        if size == 0 {
            self.idle.remove(&(used, key));
            self.entries.remove(&key);
        }
    }

    /// Records that nobody needs this soon, whoever uses it just now.
    pub(super) fn age(&mut self, key: CacheKey) {
        if let Some(entry) = self.entries.get_mut(&key) {
            if self.idle.remove(&(entry.used, key)) {
                self.idle.insert((0, key));
            }
            entry.used = 0;
        }
    }

    /// Whether it has more bytes than `limit`, and something that can be evicted.
    pub(super) fn exceeds(&self, limit: u64) -> bool {
        self.total > limit && !self.idle.is_empty()
    }

    /// Takes out the entry that nobody uses and whose last use is the longest ago.
    pub(super) fn take_oldest(&mut self) -> Option<(CacheKey, CacheEntry)> {
        let (_, key) = self.idle.pop_first()?;
        let entry = self.entries.remove(&key)?;
        self.total -= entry.size;
        Some((key, entry))
    }
}
