//! Inputs that workers fetch: each comes from the master once, is verified, and is served to all workers
//! that may have it. Whether one may is asked of the master each time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::BlobRef;
use common::content::BlobHash;
use common::wire::gateway::{FromGateway, NeedsReply};
use common::wire::stream::{GetReply, Open};
use link::content::{SendPace, refuse_get, serve_get};
use link::{BlobStore, Channel, FrameSender, LinkError};

use crate::door;
use crate::session::{self, WorkerSession};

/// The time after which one who waits for content is told that it is on its way.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The time after which the part of an input is removed to which nothing was added.
const PART_LIFE: Duration = Duration::from_secs(600);

/// Verified inputs in a directory, at most so many bytes: those that were used last.
#[derive(Debug)]
pub(crate) struct ContentCache {
    store: BlobStore,
    most: u64,
    inner: Mutex<CachedInputs>,
}

#[derive(Debug, Default)]
struct CachedInputs {
    /// Counts uses.
    now: u64,
    /// The bytes for which room was made, and which are on their way.
    expected: u64,
    files: BTreeMap<BlobHash, CachedInput>,
}

#[derive(Debug)]
struct CachedInput {
    size: u64,
    /// The value of `now` when it was last used.
    used: u64,
    /// The number of those who read it at present.
    readers: u32,
}

/// A file that [`ContentCache::make_room`] does not remove while this exists.
struct HeldFile<'a>(&'a ContentCache, BlobHash);

impl CachedInputs {
    /// Counts a reader of a file. Returns whether it is here.
    fn count(&mut self, hash: &BlobHash) -> bool {
        self.now += 1;
        let now = self.now;
        self.files.get_mut(hash).is_some_and(|file| {
            file.used = now;
            file.readers += 1;
            true
        })
    }
}

/// The room for a file that is on its way, until this is dropped.
struct ReservedRoom<'a>(&'a ContentCache, u64);

impl Drop for ReservedRoom<'_> {
    fn drop(&mut self) {
        self.0.lock().expected -= self.1;
    }
}

impl Drop for HeldFile<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.0.lock().files.get_mut(&self.1) {
            file.readers -= 1;
        }
    }
}

impl ContentCache {
    /// Opens the directory, with what is in it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn open(dir: &Path, most: u64) -> Result<Self, LinkError> {
        let store = BlobStore::open(dir)?;
        let read = || {
            store.drop_parts(Duration::ZERO)?;
            store.list()
        };
        let mut listed = read().map_err(LinkError::file("cannot read", dir))?;
        listed.sort_by_key(|(blob, at)| (*at, *blob));

        let cache = Self {
            store,
            most,
            inner: Mutex::default(),
        };
        for (blob, _) in listed {
            drop(cache.hold(blob));
        }
        drop(cache.make_room(0));
        Ok(cache)
    }

    fn lock(&self) -> MutexGuard<'_, CachedInputs> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a file is here and is read, until the [`HeldFile`] is dropped.
    fn hold(&self, blob: BlobRef) -> HeldFile<'_> {
        let mut inner = self.lock();
        inner.files.entry(blob.hash).or_insert(CachedInput {
            size: blob.size,
            used: 0,
            readers: 0,
        });
        inner.count(&blob.hash);
        HeldFile(self, blob.hash)
    }

    /// The same of a file that is known to be here.
    fn hold_known(&self, hash: &BlobHash) -> Option<HeldFile<'_>> {
        let known = self.lock().count(hash);
        known.then(|| HeldFile(self, *hash))
    }

    /// Removes parts of files that did not come whole, and to which nothing was added for a while.
    pub(crate) fn tidy(&self) {
        if let Err(error) = self.store.drop_parts(PART_LIFE) {
            tracing::warn!(%error, "parts of inputs cannot be removed");
        }
    }

    /// Makes room for so many more bytes, where files that were not used for the longest are removed. Returns nothing if
    /// what is read or on its way leaves too little.
    fn make_room(&self, more: u64) -> Option<ReservedRoom<'_>> {
        let mut inner = self.lock();
        let mut bytes: u64 = inner.files.values().map(|file| file.size).sum();
        bytes = bytes.saturating_add(inner.expected);
        while bytes.saturating_add(more) > self.most {
            let idle = inner.files.iter().filter(|(_, file)| file.readers == 0);
            let (hash, size) = idle
                .min_by_key(|(hash, file)| (file.used, **hash))
                .map(|(hash, file)| (*hash, file.size))?;
            inner.files.remove(&hash);
            bytes -= size;
            if let Err(error) = self.store.remove(&hash) {
                tracing::warn!(%hash, %error, "a file of the cache cannot be removed");
            }
        }
        inner.expected += more;
        Some(ReservedRoom(self, more))
    }
}

/// Gives a worker content from this byte on, if the master answers [`NeedsReply::Yes`].
pub(crate) async fn give(
    session: &WorkerSession,
    (hash, offset): (BlobHash, u64),
    mut tx: FrameSender,
) -> Result<(), LinkError> {
    let size = match may_have(session, hash).await {
        Ok(NeedsReply::Yes(size)) => size,
        Ok(NeedsReply::No(refusal)) => return refuse_get(tx, refusal).await,
        Err(_) => return refuse_get(tx, door::away()).await,
    };
    let cache = &session.gateway.cache;
    let blob = BlobRef { hash, size };
    let fetching = fetch(session, blob);
    tokio::pin!(fetching);
    let held = loop {
        tokio::select! {
            held = &mut fetching => break held,
            () = tokio::time::sleep(TELL_EVERY) => {
                let why = "the gateway fetches it from the master".to_owned();
                tx.send(&GetReply::Waits(why)).await?;
            }
        }
    };
    match held {
        Ok(Some(_held)) => serve_get(&cache.store, tx, hash, offset, &SendPace::default()).await,
        Ok(None) => pass_on(session, blob, offset, tx).await,
        Err(error @ LinkError::File { .. }) => {
            tracing::warn!(%hash, %error, "an input cannot be kept here, and is passed on");
            pass_on(session, blob, offset, tx).await
        }
        // The worker asks again, and may have gone elsewhere.
        Err(error) => {
            tracing::warn!(%hash, %error, "an input does not come from the master");
            refuse_get(tx, door::away()).await
        }
    }
}

async fn may_have(session: &WorkerSession, hash: BlobHash) -> Result<NeedsReply, LinkError> {
    let mut asked = session
        .stream(&FromGateway::Needs(session.shown, hash))
        .await?;
    asked.tx.finish();
    asked.rx.expect::<NeedsReply>().await
}

/// Brings an input into the [`ContentCache`], unless it is here; whoever wants the same waits for the same.
/// Returns nothing if there is no room for it.
async fn fetch(session: &WorkerSession, blob: BlobRef) -> Result<Option<HeldFile<'_>>, LinkError> {
    let cache = &session.gateway.cache;
    if blob.size > cache.most {
        return Ok(None);
    }
    // What is held is not removed meanwhile.
    let known = cache.hold_known(&blob.hash);
    let Some(fetching) = cache.store.fetching(blob).await else {
        return Ok(Some(known.unwrap_or_else(|| cache.hold(blob))));
    };
    let Some(_room) = cache.make_room(blob.size) else {
        return Ok(None);
    };

    let stream = session.pass_bare().await?;
    let fetched = fetching.ask_on(stream, false, Vec::new(), |_| ()).await;
    if let Err(LinkError::File { .. }) = &fetched {
        // A full disk is not to stay full of this.
        if let Err(error) = cache.store.drop_part(&blob.hash, "master") {
            tracing::warn!(%error, "a part of an input cannot be removed");
        }
    }
    fetched?;
    Ok(Some(cache.hold(blob)))
}

/// Passes an input on that the [`ContentCache`] has no room for.
async fn pass_on(
    session: &WorkerSession,
    blob: BlobRef,
    offset: u64,
    tx: FrameSender,
) -> Result<(), LinkError> {
    let get = Open::Get {
        hash: blob.hash,
        offset,
        peers: false,
        failed: Vec::new(),
    };
    let Channel { tx: mut asked, rx } = session.pass(&get).await?;
    asked.finish();
    session::copy(rx, tx, session::STALL).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_was_not_used_for_the_longest_goes_first_and_one_that_is_read_stays() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::open(dir.path()).unwrap();
        let blobs = [1u8, 2, 3].map(|fill| store.add_reader(&[fill; 1_000][..]).unwrap());
        let here = || blobs.map(|blob| store.has(&blob));
        let cache = ContentCache::open(dir.path(), 3_000).unwrap();
        assert_eq!(here(), [true; 3]);

        let read = cache.hold(blobs[0]);
        drop(cache.hold(blobs[2]));
        drop(cache.hold(blobs[1]));
        let reserved = cache.make_room(1_000);
        assert!(reserved.is_some());
        assert_eq!(here(), [true, true, false]);
        drop(reserved);
        assert!(cache.make_room(3_000).is_none());
        assert_eq!(here(), [true, false, false], "it is being read");
        drop(read);
        assert!(cache.make_room(3_000).is_some());
        assert_eq!(here(), [false; 3]);
    }

    #[test]
    fn files_on_their_way_have_their_room_and_the_next_one_is_not_kept_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ContentCache::open(dir.path(), 3_000).unwrap();
        let first = cache.make_room(2_000);
        assert!(first.is_some() && cache.make_room(2_000).is_none());
        let second = cache.make_room(1_000);
        assert!(second.is_some());
        drop(first);
        assert!(cache.make_room(2_000).is_some());
    }

    #[test]
    fn a_restart_keeps_what_is_there_as_far_as_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::open(dir.path()).unwrap();
        for fill in [1u8, 2, 3] {
            store.add_reader(&[fill; 1_000][..]).unwrap();
        }
        drop(ContentCache::open(dir.path(), 2_000).unwrap());
        assert_eq!(store.list().unwrap().len(), 2);
    }
}
