//! Takes what a worker says of an attempt's state: only a state whose list of files and whose every file are here counts.

use common::checkpoint::{MAX_FILES, MAX_MANIFEST, Manifest, Saved, Saving};
use common::{AttemptId, BlobRef, HostId, Time};
use link::BlobStore;

use crate::run::State;

/// The longest reason that is kept, in bytes.
const MAX_REASON: usize = 1_000;

/// Considers it. What is incomplete is left out with a word in the log: the worker's next one may be whole.
pub(super) async fn take(state: &State, host: HostId, attempt: AttemptId, sequence: u32, saving: Saving) {
    match saving {
        Saving::Complete(manifest) => {
            let blobs = state.blobs.clone();
            let looked = tokio::task::spawn_blocking(move || look(&blobs, manifest)).await;
            match looked.map_err(|panic| panic.to_string()).flatten() {
                Ok(files) => keep(state, host, attempt, sequence, manifest, &files),
                Err(why) => tracing::warn!(%host, %attempt, why, "a state is incomplete, and not used"),
            }
        }
        Saving::Refused(why) => note(state, host, attempt, why, false),
        Saving::FromScratch(why) => note(state, host, attempt, why, true),
    }
}

/// The list of files, if it and all of them are here.
fn look(blobs: &BlobStore, manifest: BlobRef) -> Result<Manifest, String> {
    if manifest.size > MAX_MANIFEST {
        return Err(format!("its list of files has {} bytes", manifest.size));
    }
    let bytes = std::fs::read(blobs.path_of(&manifest.hash)).map_err(|e| format!("its list of files: {e}"))?;
    if link::content::hash_bytes(&bytes) != manifest {
        return Err("its list of files is damaged".to_owned());
    }
    let files = Manifest::from_bytes(&bytes).map_err(|bad| bad.to_string())?;
    if files.files.len() > MAX_FILES as usize {
        return Err(format!("it has {} files", files.files.len()));
    }
    match files.files.iter().find(|file| !blobs.has(&file.blob)) {
        Some(missing) => Err(format!("the content of `{}` is not here", missing.path)),
        None => Ok(files),
    }
}

fn keep(state: &State, host: HostId, attempt: AttemptId, sequence: u32, manifest: BlobRef, list: &Manifest) {
    let saved = Saved {
        number: attempt.number,
        sequence,
        taken: Time::default(),
        files: u32::try_from(list.files.len()).unwrap_or(u32::MAX),
        bytes: list.bytes(),
        manifest,
    };
    let blobs: Vec<_> = list.files.iter().map(|file| file.blob.hash).collect();
    state.core.tell(move |core| core.on_saved(host, attempt, saved, &blobs));
}

fn note(state: &State, host: HostId, attempt: AttemptId, mut why: String, from_scratch: bool) {
    while why.len() > MAX_REASON {
        why.pop();
    }
    let what =
        if from_scratch { "started from scratch, since its saved state could not be used" } else { "state not saved" };
    let why = format!("{what}: {why}");
    state.core.tell(move |core| core.on_not_saved(host, attempt, &why, from_scratch));
}
