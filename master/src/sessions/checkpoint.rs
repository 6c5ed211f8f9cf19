//! Takes the checkpoints that workers report. A checkpoint counts only once its list of files and
//! every file in it are here.

use common::checkpoint::{MAX_FILES, MAX_MANIFEST, Saved, Saving};
use common::manifest::Manifest;
use common::{AttemptId, BlobRef, HostId, Time};
use link::Contents;
use tokio::sync::OwnedSemaphorePermit;

use crate::content_place::ContentPlace;
use crate::core::ask::HostAsk;
use crate::run::SessionContext;

/// The longest reason that is kept, in bytes.
const MAX_REASON: usize = 1_000;

/// Takes a reported checkpoint, and gives `turn` back once the core has heard of it. An incomplete one
/// is logged and left out: the worker's next one may be whole.
pub(super) async fn take(
    state: &SessionContext,
    host: HostId,
    attempt: AttemptId,
    sequence: u32,
    saving: Saving,
    turn: OwnedSemaphorePermit,
) {
    match saving {
        Saving::Complete(manifest) => {
            // Nothing is read for a worker that does not run this attempt.
            let takes = state.core.ask(HostAsk::TakesState(host, attempt)).await;
            if !takes.unwrap_or(false) {
                return tracing::debug!(%host, %attempt, "a state is of no use");
            }

            // If it cannot be brought, it is not found below.
            let held = state.blobs.bring(&state.core, manifest.hash).await;
            let blobs = state.blobs.clone();
            let looked = tokio::task::spawn_blocking(move || look(&blobs, manifest)).await;
            drop(held);
            let looked = looked.map_err(|panic| panic.to_string()).flatten();

            match looked.and_then(|files| brought(state, host, manifest, files)) {
                Ok(files) => keep(state, host, attempt, sequence, manifest, &files, turn),
                Err(why) => {
                    tracing::warn!(%host, %attempt, why, "a state is incomplete, and not used");
                }
            }
        }
        Saving::Refused(why) => note(state, host, attempt, why, false, turn),
        Saving::FromScratch(why) => note(state, host, attempt, why, true, turn),
    }
}

/// The `Manifest` of a checkpoint, if the host has uploaded it and all files in it.
fn brought(
    state: &SessionContext,
    host: HostId,
    manifest: BlobRef,
    files: Manifest,
) -> Result<Manifest, String> {
    let own = |blob: &BlobRef| state.uploads.brought(host, blob);
    if own(&manifest) && files.files.iter().all(|file| own(&file.blob)) {
        return Ok(files);
    }
    Err("some of it was not brought by this host".to_owned())
}

/// The `Manifest`, if it and all files in it are here.
fn look(blobs: &ContentPlace, manifest: BlobRef) -> Result<Manifest, String> {
    let files = read_list(blobs, manifest)?;
    match files.files.iter().find(|file| !blobs.has(&file.blob)) {
        Some(missing) => Err(format!("the content of `{}` is not here", missing.path)),
        None => Ok(files),
    }
}

/// Reads a `Manifest` of at most `MAX_MANIFEST` bytes, if it is here and whole.
pub(crate) fn read_list(blobs: &ContentPlace, manifest: BlobRef) -> Result<Manifest, String> {
    if manifest.size > MAX_MANIFEST {
        return Err(format!("its list of files has {} bytes", manifest.size));
    }

    // `has` also compares the length with the one checked above: what is read is not longer.
    if !blobs.has(&manifest) {
        return Err(format!(
            "its list of files, {} of {} bytes, is not here",
            manifest.hash, manifest.size
        ));
    }

    let bytes = std::fs::read(blobs.local().path_of(&manifest.hash))
        .map_err(|e| format!("its list of files: {e}"))?;
    if link::content::hash_bytes(&bytes) != manifest {
        return Err("its list of files is damaged".to_owned());
    }

    let files = Manifest::of_state(&bytes).map_err(|bad| bad.to_string())?;
    if files.files.len() > MAX_FILES as usize {
        return Err(format!("it has {} files", files.files.len()));
    }

    Ok(files)
}

fn keep(
    state: &SessionContext,
    host: HostId,
    attempt: AttemptId,
    sequence: u32,
    manifest: BlobRef,
    list: &Manifest,
    turn: OwnedSemaphorePermit,
) {
    let saved = Saved {
        number: attempt.number,
        sequence,
        taken: Time::default(),
        files: u32::try_from(list.files.len()).unwrap_or(u32::MAX),
        bytes: list.bytes(),
        manifest,
    };

    let blobs: Vec<_> = list.files.iter().map(|file| file.blob.hash).collect();
    let saved = HostAsk::Saved(host, attempt, saved, blobs);
    state.core.tell_in_turn(saved, turn);
    let files = list.files.iter().map(|file| file.blob);
    state.uploads.named(host, files.chain([manifest]));
}

fn note(
    state: &SessionContext,
    host: HostId,
    attempt: AttemptId,
    mut why: String,
    from_scratch: bool,
    turn: OwnedSemaphorePermit,
) {
    while why.len() > MAX_REASON {
        why.pop();
    }

    let what = if from_scratch {
        "started from scratch, since its saved state could not be used"
    } else {
        "state not saved"
    };
    let why = format!("{what}: {why}");
    let not_saved = HostAsk::NotSaved {
        host,
        attempt,
        why,
        from_scratch,
    };
    state.core.tell_in_turn(not_saved, turn);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_of_another_length_than_was_said_is_not_read_as_a_list_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let local = link::BlobStore::open(dir.path()).unwrap();
        let blobs = ContentPlace::Directory(local.clone());
        let list = local
            .add_reader(&Manifest::default().to_bytes().unwrap()[..])
            .unwrap();
        assert_eq!(look(&blobs, list), Ok(Manifest::default()));

        let large = local
            .add_reader(std::io::Read::take(std::io::repeat(7), MAX_MANIFEST + 1))
            .unwrap();
        assert!(look(&blobs, large).unwrap_err().contains("4194305 bytes"));

        // Only a file that is read can be found damaged.
        for claimed in [1, MAX_MANIFEST] {
            let why = look(
                &blobs,
                BlobRef {
                    size: claimed,
                    ..large
                },
            )
            .unwrap_err();
            assert!(why.contains("is not here"), "{why}");
        }
    }
}
