//! Content in a bucket: it is uploaded under a name that was never used, told to the core once the
//! storage has it, and read through the cache. An object that is missing or damaged is condemned, so
//! that its content can be sent again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::BlobRef;
use common::content::BlobHash;
use common::wire::Refusal;
use link::{LinkError, content};

use super::Objects;
use super::cache::{CacheHold, DiskCache};
use super::fault::BucketError;
use super::index::ContentIndex;
use super::mark::{self, ContentMark};
use super::trouble::StorageTrouble;
use crate::clock::Clock;
use crate::core::ask::UpkeepAsk;
use crate::core::{CoreHandle, NoReply};
use crate::store::{LiveObject, ObjectName};

/// The directory of the names of content within a bucket.
pub(crate) const CONTENT: &str = "content";
/// The times that an object that does not come whole is read before it counts as damaged.
const TRIES: u32 = 2;

/// The name of an object within its bucket, below `CONTENT`.
pub(crate) fn name_of(name: ObjectName) -> String {
    let hash = name.hash.to_string();
    format!(
        "{CONTENT}/{}/{}/{:016x}",
        &hash[..2],
        &hash[2..],
        name.generation
    )
}

/// The [`ObjectName`] that `name_of` made this of; `None` for a name of something else.
pub(crate) fn object_of(name: &str) -> Option<ObjectName> {
    let mut parts = name.strip_prefix(CONTENT)?.strip_prefix('/')?.split('/');
    let start = parts.next()?;
    let rest = parts.next()?;
    let number = parts.next()?;
    let object = ObjectName {
        hash: format!("{start}{rest}").parse().ok()?,
        generation: i64::from_str_radix(number, 16).ok()?,
    };
    (name_of(object) == name).then_some(object)
}

/// An object as [`Objects::list`] finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedObject {
    /// Its name, without the prefix.
    pub(crate) name: String,
    /// Its bytes.
    pub(crate) size: u64,
    /// The time at which it was written, by the storage's clock.
    pub(crate) written: SystemTime,
}

/// The [`Objects`] of a grid's content, with their [`ContentIndex`] and [`DiskCache`].
#[derive(Debug)]
pub(crate) struct BucketContent {
    pub(super) objects: Objects,
    pub(super) index: Arc<ContentIndex>,
    pub(super) cache: DiskCache,
    pub(super) mark: ContentMark,
    pub(super) clock: Clock,
    pub(super) trouble: StorageTrouble,
    /// The age of the last note that somebody counts on content, from which it is noted again.
    pub(super) note_again: Duration,
}

impl BucketContent {
    /// Uploads content that has come into the cache, and tells the core (`UpkeepAsk::ContentStored`).
    pub(super) async fn keep(&self, core: &CoreHandle, blob: BlobRef) -> Result<(), Refusal> {
        let Some(_held) = self.cache.hold(&blob) else {
            return Err(gone_again(blob.hash));
        };
        let begun = self.clock.now();
        // Drawn for each upload: a name is used once.
        let generation = i64::try_from(rand::random::<u64>() >> 1).unwrap_or_default();
        let name = name_of(ObjectName {
            hash: blob.hash,
            generation,
        });
        let file = self.cache.files().path_of(&blob.hash);
        let sent = self.objects.send(&name, file, blob).await;
        if !self.answered(sent)? {
            self.drop_file(blob.hash);
            return Err(gone_again(blob.hash));
        }

        let stored = UpkeepAsk::ContentStored {
            blob,
            generation,
            begun,
        };
        match core.ask(stored).await? {
            true => Ok(()),
            false => Err(gone_again(blob.hash)),
        }
    }

    /// Notes that somebody counts on content from now on, unless that was noted lately.
    pub(super) async fn count_on(
        &self,
        core: &CoreHandle,
        blob: &BlobRef,
    ) -> Result<bool, NoReply> {
        let now = self.clock.now();
        match self.index.get(&blob.hash) {
            Some(live) if now < live.counted_on + self.note_again.into() => Ok(true),
            Some(_) => core.ask(UpkeepAsk::ContentCounts(blob.hash)).await,
            None => Ok(false),
        }
    }

    /// Holds content in the cache, into which it is fetched if it is not there.
    pub(super) async fn bring(
        self: &Arc<Self>,
        core: &CoreHandle,
        hash: BlobHash,
    ) -> Result<CacheHold, Refusal> {
        let Some(live) = self.index.get(&hash) else {
            return Err(content::not_here(hash));
        };
        let blob = BlobRef {
            hash,
            size: live.size,
        };
        if let Some(held) = self.cache.hold(&blob) {
            return Ok(held);
        }

        // It goes on when the one who wants it has gone: the next one finds it here.
        let bucket = self.clone();
        let core = core.clone();
        let fetching = tokio::spawn(async move { bucket.fetch(&core, blob, live).await });
        fetching
            .await
            .unwrap_or_else(|_| Err(NoReply::Stopped.into()))
    }

    /// Fetches content into the cache. Whoever wants the same meanwhile waits for this.
    async fn fetch(
        &self,
        core: &CoreHandle,
        blob: BlobRef,
        live: LiveObject,
    ) -> Result<CacheHold, Refusal> {
        let files = self.cache.files();
        let turn = files.turn(blob.hash, "storage").await;
        if let Some(held) = self.cache.hold(&blob) {
            return Ok(held);
        }
        self.cache.make_room(blob.size);

        let name = ObjectName {
            hash: blob.hash,
            generation: live.generation,
        };
        for _ in 0..TRIES {
            let found = self.objects.fetch(&name_of(name)).await;
            let Some(mut pieces) = self.answered(found)? else {
                break;
            };
            match content::receive_whole(files, &mut pieces, blob, &turn).await {
                Ok(()) => {
                    let held = self.cache.hold(&blob);
                    return held.ok_or_else(|| gone_again(blob.hash));
                }
                Err(LinkError::Damaged { .. }) => {
                    tracing::warn!(hash = %blob.hash, "content of the storage came damaged");
                }
                // It ended before its end: as damaged as with other bytes.
                Err(LinkError::Closed(why)) => {
                    tracing::warn!(hash = %blob.hash, why, "content of the storage did not come whole");
                }
                Err(LinkError::Refused(refusal)) => return Err(refusal),
                Err(error) => {
                    return Err(
                        content::refusal_of(&error).unwrap_or_else(|| gone_again(blob.hash))
                    );
                }
            }
        }
        self.lost(core, name).await
    }

    /// Whether the bucket still has the mark of this grid.
    pub(super) async fn is_ours(&self) -> Result<bool, BucketError> {
        Ok(mark::in_bucket(&self.objects).await? == Some(self.mark))
    }

    /// Has the core condemn (`UpkeepAsk::ContentLost`) an object that is missing or damaged, if this still is the grid's bucket.
    async fn lost(&self, core: &CoreHandle, name: ObjectName) -> Result<CacheHold, Refusal> {
        let is_ours = self.is_ours().await;
        if !self.answered(is_ours)? {
            tracing::error!("the bucket has not the mark of this grid: its content counts as away");
            return Err(gone_again(name.hash));
        }

        tracing::error!(hash = %name.hash, "content is missing or damaged in the storage: it is put aside, and can be sent again");
        self.drop_file(name.hash);
        core.ask::<()>(UpkeepAsk::ContentLost(name)).await?;
        Err(content::not_here(name.hash))
    }

    /// Looks for an object that the storage did not list, and condemns it if it is missing.
    pub(super) async fn look_for(
        &self,
        core: &CoreHandle,
        name: ObjectName,
    ) -> Result<(), Refusal> {
        let found = self.objects.fetch(&name_of(name)).await;
        match self.answered(found)? {
            Some(_) => Ok(()),
            None => self.lost(core, name).await.map(drop),
        }
    }

    /// The storage's answer; notes whether it was one.
    fn answered<T>(&self, asked: Result<T, BucketError>) -> Result<T, Refusal> {
        match asked {
            Ok(answer) => {
                self.trouble.is_over();
                Ok(answer)
            }
            Err(error) => {
                self.trouble.note(&error, self.clock.now());
                Err(error.refusal())
            }
        }
    }

    /// Removes a file from the `cache`.
    pub(super) fn drop_file(&self, hash: BlobHash) {
        self.cache.forget(&hash);
        if let Err(error) = self.cache.files().remove(&hash) {
            tracing::warn!(%hash, %error, "a file stays in the cache");
        }
    }

    /// Reads content, and says whether it is whole. A damaged file of the cache is fetched again.
    pub(super) async fn look_at(
        self: &Arc<Self>,
        core: &CoreHandle,
        blob: BlobRef,
    ) -> Result<bool, Refusal> {
        for _ in 0..TRIES {
            let held = match self.bring(core, blob.hash).await {
                Ok(held) => held,
                Err(missing) if missing == content::not_here(blob.hash) => return Ok(false),
                Err(refusal) => return Err(refusal),
            };

            let files = self.cache.files().clone();
            let looked = tokio::task::spawn_blocking(move || files.verify(&blob));
            if matches!(looked.await, Ok(Ok(true))) {
                return Ok(true);
            }
            drop(held);
            self.drop_file(blob.hash);
        }
        Err(gone_again(blob.hash))
    }
}

/// The refusal where trying again is all that helps.
fn gone_again(hash: BlobHash) -> Refusal {
    let what = format!("content {hash} cannot be had or kept now");
    Refusal::new(
        common::wire::RefusalCode::Unavailable,
        what,
        "try again; the master's log says more",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_content_and_which_upload_it_is() {
        let object = ObjectName {
            hash: BlobHash([0xAB; 32]),
            generation: 0x1234,
        };
        let name = name_of(object);
        assert!(name.starts_with("content/ab/abab") && name.ends_with("/0000000000001234"));
        assert_eq!(object_of(&name), Some(object));
        for other in [
            "grid",
            "content/ab",
            "content/ab/cd/0000000000000001",
            &format!("{name}/x"),
            &name.to_uppercase(),
        ] {
            assert_eq!(object_of(other), None, "{other}");
        }
    }
}
