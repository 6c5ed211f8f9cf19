//! Content stores of the simulated world. As with the real one, a blob is durable before anybody is
//! told that it is there.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use common::content::BlobHash;
use common::{BlobRef, Time};
use link::Contents;

type Blobs = BTreeMap<BlobHash, (u64, Time)>;

/// Which blobs are there, with their sizes and when somebody last counted on them. Cloning gives
/// another handle.
#[derive(Debug, Clone, Default)]
pub(super) struct Shelves(Arc<Mutex<Blobs>>);

impl Shelves {
    fn with<T>(&self, act: impl FnOnce(&mut Blobs) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings a blob in, or counts on it.
    pub(super) fn put(&self, blob: BlobRef, now: Time) {
        self.with(|blobs| blobs.insert(blob.hash, (blob.size, now)));
    }

    /// All of it, for another time.
    pub(super) fn copy(&self) -> Blobs {
        self.with(|blobs| blobs.clone())
    }

    /// Puts a copy in the place of all.
    pub(super) fn restore(&self, copy: Blobs) {
        self.with(|blobs| *blobs = copy);
    }

    /// What nobody has counted on for so long.
    pub(super) fn older_than(&self, age: Duration, now: Time) -> Vec<(BlobRef, SystemTime)> {
        let old = |at: &Time| Duration::from(now.since(*at)) >= age;
        self.with(|blobs| {
            let all = blobs.iter().filter(|(_, (_, at))| old(at));
            all.map(|(hash, (size, at))| {
                (
                    BlobRef {
                        hash: *hash,
                        size: *size,
                    },
                    wall(*at),
                )
            })
            .collect()
        })
    }
}

fn wall(at: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(at.0)
}

impl Contents for Shelves {
    fn has(&self, blob: &BlobRef) -> bool {
        self.with(|blobs| {
            blobs
                .get(&blob.hash)
                .is_some_and(|(size, _)| *size == blob.size)
        })
    }

    fn modified(&self, hash: &BlobHash) -> Option<SystemTime> {
        self.with(|blobs| blobs.get(hash).map(|(_, at)| wall(*at)))
    }

    fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        self.with(|blobs| blobs.remove(hash));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<(BlobRef, SystemTime)>> {
        let all = |blobs: &mut Blobs| {
            blobs
                .iter()
                .map(|(hash, (size, at))| {
                    (
                        BlobRef {
                            hash: *hash,
                            size: *size,
                        },
                        wall(*at),
                    )
                })
                .collect()
        };
        Ok(self.with(all))
    }
}
