//! The content that a bucket has, as the store knows it, in memory: the core changes both together, and
//! sessions ask only here.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::content::BlobHash;
use common::{BlobRef, Time};

use crate::locked;
use crate::store::LiveObject;

/// Each [`LiveObject`], by its content.
#[derive(Debug, Default)]
pub(crate) struct ContentIndex(Mutex<BTreeMap<BlobHash, LiveObject>>);

impl ContentIndex {
    /// An index of what `Writer::live_objects` gave.
    pub(crate) fn of(live: Vec<(BlobHash, LiveObject)>) -> Self {
        Self(Mutex::new(live.into_iter().collect()))
    }

    /// The object with this content, if there is one.
    pub(crate) fn get(&self, hash: &BlobHash) -> Option<LiveObject> {
        locked(&self.0).get(hash).copied()
    }

    pub(crate) fn has(&self, blob: &BlobRef) -> bool {
        self.get(&blob.hash)
            .is_some_and(|live| live.size == blob.size)
    }

    /// Adds an object.
    pub(crate) fn add(&self, hash: BlobHash, live: LiveObject) {
        locked(&self.0).insert(hash, live);
    }

    /// Notes that somebody counts on this content from now on. False if it is not there.
    pub(crate) fn counts(&self, hash: &BlobHash, now: Time) -> bool {
        let mut all = locked(&self.0);
        let live = all.get_mut(hash);
        live.map(|live| live.counted_on = live.counted_on.max(now))
            .is_some()
    }

    /// Removes the object with this content.
    pub(crate) fn remove(&self, hash: &BlobHash) {
        locked(&self.0).remove(hash);
    }

    /// Each object whose content's hash starts with this byte.
    pub(crate) fn starting_with(&self, byte: u8) -> Vec<(BlobHash, LiveObject)> {
        let mut first = [0; 32];
        first[0] = byte;
        let mut last = [u8::MAX; 32];
        last[0] = byte;
        let all = locked(&self.0);
        let found = all.range(BlobHash(first)..=BlobHash(last));
        found.map(|(hash, live)| (*hash, *live)).collect()
    }

    /// All of it, each with the time at which somebody last counted on it.
    pub(crate) fn list(&self) -> Vec<(BlobRef, SystemTime)> {
        let all = locked(&self.0);
        let of = |(hash, live): (&BlobHash, &LiveObject)| {
            let blob = BlobRef {
                hash: *hash,
                size: live.size,
            };
            (blob, as_system_time(live.counted_on))
        };
        all.iter().map(of).collect()
    }
}

/// The time as `SystemTime`.
pub(crate) fn as_system_time(time: Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(time.0)
}
