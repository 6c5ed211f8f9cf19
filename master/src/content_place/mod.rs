//! The place of the content of files: a directory, or a bucket of S3-compatible storage. What sessions
//! read or take lies among the files of this machine; [`ContentPlace::bring`] makes sure of that
//! before, [`ContentPlace::keep`] puts it where it stays.
//!
//! The core decides which content there is, and what may be deleted.

mod bucket;
mod cache;
#[cfg(feature = "s3")]
mod dial;
mod fault;
mod index;
mod mark;
#[cfg(feature = "s3")]
mod remote;
#[cfg(not(feature = "s3"))]
#[path = "without.rs"]
mod remote;
mod setting;
mod trouble;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use common::BlobRef;
use common::content::BlobHash;
use common::wire::{Refusal, RefusalCode};
use link::{BlobStore, Contents, LinkError};
use uuid::Uuid;

use crate::clock::Clock;
use crate::core::{CoreHandle, NoReply};
use crate::store::{ObjectName, Writer};
use crate::{Config, MasterError};

use bucket::BucketContent;
pub(crate) use bucket::{CONTENT, ListedObject, name_of, object_of};
use cache::{CacheHold, DiskCache};
pub use fault::{BucketError, BucketFault};
pub(crate) use index::{ContentIndex, as_system_time};
pub use mark::ContentFault;
use mark::ContentMark;
pub(crate) use mark::{NOTE, check, check_in_home, is_there, try_out};
pub(crate) use remote::Objects;
pub use setting::S3Settings;
pub(crate) use setting::{BucketPlace, ContentSetting};
use trouble::StorageTrouble;

/// The directory of the cache, in the master's.
const CACHE: &str = "cache";

/// The right to read a blob from the local files, where it stays meanwhile.
#[derive(Debug)]
pub(crate) struct HeldContent(
    #[expect(dead_code, reason = "it lets go when it is dropped")] Option<CacheHold>,
);

/// The place of the content. Cloning gives another handle.
#[derive(Debug, Clone)]
pub(crate) enum ContentPlace {
    /// A directory that has all of it.
    Directory(BlobStore),
    /// A bucket, before which files of this machine are a cache.
    Bucket(Arc<BucketContent>),
}

/// Opens the place for the grid, and marks it as the one that the store notes.
///
/// # Errors
/// If it cannot be used, or has the mark of another grid.
pub(crate) async fn open(
    (home, config): (&Path, &Config),
    grid: Uuid,
    store: &mut Writer,
    clock: Clock,
) -> Result<ContentPlace, MasterError> {
    let setting = config.content_in(home)?;
    let place = match &setting {
        ContentSetting::Directory(dir) => {
            // Shared ones are mounted as a rule: one that is not there may be a mistake.
            let made = config.content.is_some() && !dir.exists();
            let files = mark::open(dir, grid, store)?;
            if made {
                tracing::warn!(dir = %dir.display(), "the directory for content was not there, and was made");
            }
            ContentPlace::Directory(files)
        }
        ContentSetting::Bucket(place) => {
            let objects = Objects::open(place)?;
            let marked = mark::mark_bucket(&objects, grid, store).await?;

            let dir = home.join(CACHE);
            link::files::private_dir(&dir).map_err(LinkError::file("cannot make", &dir))?;
            let files = BlobStore::open(&dir)?;
            let cache = DiskCache::open(files, place.s3.cache_bytes);
            ContentPlace::Bucket(Arc::new(BucketContent {
                objects,
                index: Arc::new(ContentIndex::of(store.live_objects()?)),
                cache: cache.map_err(LinkError::file("cannot read", dir))?,
                mark: ContentMark {
                    grid,
                    place: marked,
                },
                clock,
                trouble: StorageTrouble::default(),
                note_again: config.content_grace.0 / 4,
            }))
        }
    };
    setting.note(home)?;
    Ok(place)
}

impl ContentPlace {
    /// The files that are served, and those into which uploads come.
    pub(crate) fn local(&self) -> &BlobStore {
        match self {
            Self::Directory(local) => local,
            Self::Bucket(bucket) => bucket.cache.files(),
        }
    }

    fn bucket(&self) -> Option<&BucketContent> {
        match self {
            Self::Directory(_) => None,
            Self::Bucket(bucket) => Some(bucket),
        }
    }

    /// The content that the bucket has, for the core to keep up with; `None` for a directory.
    pub(crate) fn index(&self) -> Option<Arc<ContentIndex>> {
        self.bucket().map(|bucket| bucket.index.clone())
    }

    /// The objects of the bucket; `None` for a directory.
    pub(crate) fn objects(&self) -> Option<&Objects> {
        self.bucket().map(|bucket| &bucket.objects)
    }

    /// Returns the words for people where files wait for the storage; `None` if none do.
    pub(crate) fn trouble(&self) -> Option<String> {
        let bucket = self.bucket()?;
        bucket.trouble.words(bucket.clock.now())
    }

    /// Brings a blob among the local files, where it stays for as long as the result is held. The
    /// refusal says whether it is nowhere, or may come later.
    pub(crate) async fn bring(
        &self,
        core: &CoreHandle,
        hash: BlobHash,
    ) -> Result<HeldContent, Refusal> {
        match self {
            Self::Directory(_) => Ok(HeldContent(None)),
            Self::Bucket(bucket) => bucket
                .bring(core, hash)
                .await
                .map(|held| HeldContent(Some(held))),
        }
    }

    /// Makes room among the local files for a blob that is to come.
    pub(crate) fn make_room(&self, blob: &BlobRef) {
        if let Self::Bucket(bucket) = self {
            bucket.cache.make_room(blob.size);
        }
    }

    /// Keeps a blob that has come among the local files. Once this returns it is durable.
    pub(crate) async fn keep(&self, core: &CoreHandle, blob: BlobRef) -> Result<(), Refusal> {
        match self {
            Self::Directory(_) => Ok(()),
            Self::Bucket(bucket) => bucket.keep(core, blob).await,
        }
    }

    /// Counts on a blob from now on, so that it is not removed for its age. False if it is not there.
    pub(crate) async fn count_on(
        &self,
        core: &CoreHandle,
        blob: &BlobRef,
    ) -> Result<bool, NoReply> {
        match self {
            Self::Directory(local) => {
                // A sweep looks at the time once more just before it removes something.
                local.touch(blob);
                Ok(local.has(blob))
            }
            Self::Bucket(bucket) => bucket.count_on(core, blob).await,
        }
    }

    /// Reads a blob, and says whether it is whole. If not, it is not here any more and can be sent
    /// again. One that cannot be read now is refused: it may be whole.
    pub(crate) async fn look_at(&self, core: &CoreHandle, blob: BlobRef) -> Result<bool, Refusal> {
        let local = match self {
            Self::Directory(local) => local.clone(),
            Self::Bucket(bucket) => return bucket.look_at(core, blob).await,
        };
        let looked = tokio::task::spawn_blocking(move || {
            if local.verify(&blob)? {
                return Ok(true);
            }
            local.set_aside(&blob.hash).map(|()| false)
        });

        let looked = looked.await.map_err(io::Error::other).flatten();
        looked.map_err(|error| {
            tracing::error!(hash = %blob.hash, %error, "content cannot be read or put aside");
            unreadable(blob.hash, &error)
        })
    }

    /// Looks for an object of the bucket that the storage did not list. If it is missing, its content can
    /// be sent again.
    pub(crate) async fn look_for(&self, core: &CoreHandle, name: ObjectName) {
        if let Self::Bucket(bucket) = self {
            // What could not be looked for is looked for with the next list.
            let _ = bucket.look_for(core, name).await;
        }
    }

    /// The size of a blob, if it is there.
    pub(crate) async fn size_of(&self, hash: &BlobHash) -> Option<u64> {
        match self {
            Self::Directory(local) => {
                let meta = tokio::fs::metadata(local.path_of(hash)).await;
                meta.ok().map(|meta| meta.len())
            }
            Self::Bucket(bucket) => bucket.index.get(hash).map(|live| live.size),
        }
    }

    /// Whether the place still is the one that was marked for this grid.
    pub(crate) async fn is_ours(&self, grid: Uuid) -> bool {
        match self {
            Self::Directory(local) => is_there(local.root(), grid),
            Self::Bucket(bucket) => match bucket.is_ours().await {
                Ok(ours) => ours,
                Err(error) => {
                    tracing::warn!(%error, hint = error.fault.hint(), "the bucket cannot be looked at");
                    false
                }
            },
        }
    }
}

impl Contents for ContentPlace {
    fn has(&self, blob: &BlobRef) -> bool {
        match self {
            Self::Directory(local) => local.has(blob),
            Self::Bucket(bucket) => bucket.index.has(blob),
        }
    }

    fn modified(&self, hash: &BlobHash) -> Option<SystemTime> {
        match self {
            Self::Directory(local) => local.modified(hash),
            Self::Bucket(bucket) => {
                let live = bucket.index.get(hash)?;
                Some(index::as_system_time(live.counted_on))
            }
        }
    }

    /// From a bucket it is removed by being condemned.
    fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        match self {
            Self::Directory(local) => local.remove(hash),
            Self::Bucket(bucket) => {
                bucket.index.remove(hash);
                Ok(())
            }
        }
    }

    fn list(&self) -> io::Result<Vec<(BlobRef, SystemTime)>> {
        match self {
            Self::Directory(local) => local.list(),
            Self::Bucket(bucket) => Ok(bucket.index.list()),
        }
    }
}

/// The refusal of a look at content that may be whole.
fn unreadable(hash: BlobHash, error: &io::Error) -> Refusal {
    let what = format!("content {hash} cannot be read or put aside by the master: {error}");
    let hint = "try again; if that does not help, the admin has to see to the master's disk";
    Refusal::new(RefusalCode::Unavailable, what, hint)
}

/// Does this on a thread of its own and waits for it, also where the caller is asynchronous.
pub(crate) fn block<T: Send>(work: impl Future<Output = T> + Send) -> T {
    let on_a_thread = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime can be made").block_on(work)
    };
    std::thread::scope(|scope| scope.spawn(on_a_thread).join().expect("it does not panic"))
}
