//! The books of the cache: its entries, their users, and the order in which they are evicted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::content::BlobHash;

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
