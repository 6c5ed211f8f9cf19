//! The content of a store that lies in a bucket: whether it is there and whole. It is in no backup: an
//! object is never written twice, and is deleted only where no store needs it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use common::content::BlobHash;
use common::wire::Refusal;
use tokio::sync::mpsc::Receiver;

use super::check::Fault;
use crate::content_place::{BucketError, BucketPlace, CONTENT, Objects, block, name_of};
use crate::store::{LiveObject, ObjectName};

/// The times that an object is read whose bytes break off.
const TRIES: u32 = 2;

/// The findings of [`look`] in a bucket.
#[derive(Debug, Default)]
pub(super) struct LookedBucket {
    /// The content that is missing or damaged, each in words.
    pub(super) bad: Vec<(BlobHash, String)>,
    /// The files of content that are there, and their bytes.
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// The reason why not all of it was read, if so.
    pub(super) unread: Option<Fault>,
    /// Remarks about content that went meanwhile.
    pub(super) notes: Vec<String>,
}

/// The state of an object that was listed, once it was read.
#[derive(Debug, PartialEq, Eq)]
enum ReadObject {
    /// It has the hash of its name.
    Whole,
    /// It has this hash instead.
    Damaged(BlobHash),
    /// The storage lists it, and says that it has none of this name.
    Withheld,
    /// It was deleted after it was listed.
    Gone,
}

/// Returns the named content that the store has no object for.
pub(super) fn unknown(
    named: &BTreeSet<BlobHash>,
    live: &[(BlobHash, LiveObject)],
) -> Vec<BlobHash> {
    let known: BTreeSet<BlobHash> = live.iter().map(|(hash, _)| *hash).collect();
    named.difference(&known).copied().collect()
}

/// Looks whether the bucket has all content that a store names, and (with `read`) whether it is whole.
///
/// # Errors
/// If the bucket cannot be looked at.
pub(super) fn look(
    place: &BucketPlace,
    (named, live): (&BTreeSet<BlobHash>, &[(BlobHash, LiveObject)]),
    read: bool,
) -> Result<LookedBucket, BucketError> {
    let objects = Objects::open(place)?;
    let mut looked = LookedBucket::default();
    for hash in unknown(named, live) {
        looked
            .bad
            .push((hash, format!("content {hash} is missing")));
    }

    let needed = live.iter().filter(|(hash, _)| named.contains(hash));
    let needed: Vec<(BlobHash, LiveObject)> = needed.copied().collect();
    block(async {
        let listed = objects.list(CONTENT, usize::MAX).await?;
        let sizes: BTreeMap<String, u64> = listed
            .into_iter()
            .map(|object| (object.name, object.size))
            .collect();
        for (hash, object) in needed {
            let generation = object.generation;
            let name = name_of(ObjectName { hash, generation });
            if sizes.get(&name) != Some(&object.size) {
                looked.bad.push((
                    hash,
                    format!("content {hash} is missing: {place} has no {name} of its length"),
                ));
                continue;
            }
            looked.files += 1;
            looked.bytes += object.size;
            if !read {
                continue;
            }
            match read_object(&objects, &name, hash).await {
                Ok(ReadObject::Whole) => {}
                Ok(ReadObject::Damaged(found)) => {
                    let what = format!("content {hash} is damaged: {name} hashes to {found}");
                    looked.bad.push((hash, what));
                }
                Ok(ReadObject::Withheld) => {
                    let what = format!("content {hash} is missing: {place} lists {name}, and does not have it");
                    looked.bad.push((hash, what));
                }
                Ok(ReadObject::Gone) => looked.notes.push(format!(
                    "content {hash} went from {place} after this had begun, as that of a job does which is forgotten: check again"
                )),
                // What says nothing about this one would say nothing about the others.
                Err(unread) => {
                    looked.unread = Some(unread);
                    break;
                }
            }
        }
        Ok(looked)
    })
}

/// Reads the object `name`, which was listed, and compares it with its `hash`. The fault is the storage's: it says nothing
/// about the object.
async fn read_object(objects: &Objects, name: &str, hash: BlobHash) -> Result<ReadObject, Fault> {
    let mut broken = None;
    for _ in 0..TRIES {
        let found = objects.fetch(name).await.map_err(|error| away(&error))?;
        let Some(pieces) = found else {
            return match is_listed(objects, name).await {
                Ok(true) => Ok(ReadObject::Withheld),
                Ok(false) => Ok(ReadObject::Gone),
                Err(error) => Err(away(&error)),
            };
        };
        match hash_of(pieces).await {
            Ok(found) if found == hash => return Ok(ReadObject::Whole),
            Ok(found) => return Ok(ReadObject::Damaged(found)),
            Err(why) => broken = Some(why),
        }
    }

    let place = objects.place();
    let why = broken.map_or_else(String::new, |broken| format!(": {}", broken.message));
    Err(Fault {
        what: format!("content in {place} was not read to its end, {name} broke off{why}"),
        hint: "see whether the storage runs and can be reached from here (s3.endpoint), then check again".to_owned(),
    })
}

/// Whether the bucket has an object of this name, as a list says.
async fn is_listed(objects: &Objects, name: &str) -> Result<bool, BucketError> {
    let (under, _) = name.rsplit_once('/').unwrap_or((name, ""));
    let listed = objects.list(under, usize::MAX).await?;
    Ok(listed.iter().any(|object| object.name == name))
}

/// The hash of all pieces, or why they broke off.
async fn hash_of(mut pieces: Receiver<Result<Bytes, Refusal>>) -> Result<BlobHash, Refusal> {
    let mut hasher = blake3::Hasher::new();
    while let Some(piece) = pieces.recv().await {
        hasher.update(&piece?);
    }
    Ok(BlobHash(*hasher.finalize().as_bytes()))
}

/// Returns the fault of a bucket that does not answer as it should.
fn away(error: &BucketError) -> Fault {
    let hint = error.fault.hint().to_owned();
    let what = error.to_string();
    Fault { what, hint }
}

/// Tries a bucket out (`content_place::try_out`), and returns what is wrong with it.
pub(super) fn fault_of(place: &BucketPlace) -> Option<Fault> {
    let error = match Objects::open(place) {
        Ok(objects) => block(crate::content_place::try_out(&objects)).err()?,
        Err(error) => error,
    };
    Some(away(&error))
}

#[cfg(test)]
mod tests {
    use common::wire::RefusalCode;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn an_object_that_breaks_off_has_no_hash() {
        let whole = [Ok("an "), Ok("object")];
        let stopped = Refusal::new(RefusalCode::Unavailable, "the storage has stopped", "");
        let broken = [Ok("an "), Err(stopped.clone())];

        let read = async |pieces: Vec<Result<&'static str, Refusal>>| {
            let (tx, rx) = mpsc::channel(pieces.len());
            for piece in pieces {
                let piece = piece.map(|text| Bytes::from_static(text.as_bytes()));
                tx.send(piece).await.unwrap();
            }
            drop(tx);
            hash_of(rx).await
        };
        let hash = BlobHash(*blake3::hash(b"an object").as_bytes());
        assert_eq!(read(whole.to_vec()).await, Ok(hash));
        assert_eq!(read(broken.to_vec()).await, Err(stopped));
    }
}
