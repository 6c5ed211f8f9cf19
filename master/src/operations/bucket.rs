//! The content of a store that lies in a bucket: whether it is there and whole. It is in no backup: an
//! object is never written twice, and is deleted only where no store needs it.

use std::collections::{BTreeMap, BTreeSet};

use common::content::BlobHash;
use link::LinkError;

use super::check::Fault;
use crate::content_place::{BucketError, BucketPlace, CONTENT, Objects, block, name_of};
use crate::store::{LiveObject, ObjectName};

/// The findings of [`look`] in a bucket.
#[derive(Debug, Default)]
pub(super) struct LookedBucket {
    /// The content that is missing or damaged, each in words.
    pub(super) bad: Vec<(BlobHash, String)>,
    /// The files of content that are there, and their bytes.
    pub(super) files: u64,
    pub(super) bytes: u64,
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
            if read && let Some(found) = differs(&objects, &name, hash).await? {
                looked.bad.push((
                    hash,
                    format!("content {hash} is damaged: {name} hashes to {found}"),
                ));
            }
        }
        Ok(looked)
    })
}

/// Reads an object, and returns what it hashes to if that is not its name.
async fn differs(
    objects: &Objects,
    name: &str,
    hash: BlobHash,
) -> Result<Option<BlobHash>, BucketError> {
    let mut hasher = blake3::Hasher::new();
    let Some(mut pieces) = objects.fetch(name).await? else {
        return Ok(Some(BlobHash(*hasher.finalize().as_bytes())));
    };

    while let Some(Ok(piece)) = pieces.recv().await {
        hasher.update(&piece);
    }
    let found = BlobHash(*hasher.finalize().as_bytes());
    Ok((found != hash).then_some(found))
}

/// Tries a bucket out (`content_place::try_out`), and returns what is wrong with it.
pub(super) fn fault_of(place: &BucketPlace) -> Option<Fault> {
    let error = match Objects::open(place) {
        Ok(objects) => block(crate::content_place::try_out(&objects)).err()?,
        Err(error) => error,
    };
    let hint = error.fault.hint().to_owned();
    let what = error.to_string();
    Some(Fault { what, hint })
}

/// Reads which [`BucketPlace`] has the content of the master in `home`.
pub(super) fn of(home: &std::path::Path) -> Result<Option<BucketPlace>, LinkError> {
    BucketPlace::of_master(home)
}
