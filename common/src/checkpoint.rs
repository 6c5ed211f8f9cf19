//! Checkpoints: the state that a task keeps so that its next attempt can go on. A state is a list
//! of files, the [`Manifest`], and their content.
//!
//! The manifest is itself stored as content, so that messages stay short however many files there
//! are.

use serde::{Deserialize, Serialize};

use crate::content::BlobRef;
use crate::path::{PortablePath, collision};
use crate::time::{Span, Time};

/// The shortest interval between two checkpoints that a task saves regularly
/// ([`Checkpointing::every`]).
pub const SHORTEST_INTERVAL: Span = Span::from_secs(1);
/// The longest encoded [`Manifest`] that is accepted, in bytes.
pub const MAX_MANIFEST: u64 = 4 << 20;

/// The most files of a state, whatever a worker's owner allows.
pub const MAX_FILES: u32 = 20_000;

/// The checkpoint settings of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpointing {
    /// The interval between checkpoints while the task runs.
    pub every: Span,
    /// The state that the attempt starts from; `None` if none was ever saved.
    pub from: Option<Saved>,
}

/// A saved state that is complete at the master, with all of its content.
///
/// Among one attempt's states the later one is further. Between two attempts that is open: the
/// younger may have begun from scratch, or from less than the older has saved since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The number of the attempt that saved it (`AttemptId::number`).
    pub number: u32,
    /// The number of this state among those of its attempt, from 1.
    pub sequence: u32,
    /// The time at which the master had all of it.
    pub taken: Time,
    /// The number of files.
    pub files: u32,
    /// The sum of the files' lengths, in bytes.
    pub bytes: u64,
    /// The content that is the [`Manifest`] as postcard.
    pub manifest: BlobRef,
}

/// The files of a saved state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The files, each path once, in the order of their paths.
    pub files: Vec<SavedFile>,
}

/// A file of a saved state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    /// The path below the task's checkpoint directory.
    pub path: PortablePath,
    /// Its content.
    pub blob: BlobRef,
}

/// The error for bytes that are no usable [`Manifest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadManifest {
    /// The bytes are not a manifest.
    #[error("its list of files does not decode: {0}")]
    Malformed(#[from] crate::wire::frame::BadFrame),
    /// Two files would have the same path on a system that ignores case.
    #[error("`{0}` is in it twice, or differs from another file only in upper and lower case")]
    Collision(PortablePath),
}

impl Manifest {
    /// Encodes the manifest as postcard.
    ///
    /// # Errors
    /// If postcard cannot encode it.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(self)
    }

    /// Decodes a manifest and checks its paths.
    ///
    /// # Errors
    /// If the bytes are not exactly one manifest, or two of its paths collide.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadManifest> {
        let manifest: Manifest = crate::wire::decode(bytes)?;
        match collision(manifest.files.iter().map(|file| &file.path)) {
            Some(path) => Err(BadManifest::Collision(path.clone())),
            None => Ok(manifest),
        }
    }

    /// Returns the sum of the files' lengths in bytes.
    pub fn bytes(&self) -> u64 {
        self.files
            .iter()
            .fold(0, |sum, file| sum.saturating_add(file.blob.size))
    }
}

/// A worker's report on a checkpoint of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Saving {
    /// The state is saved: the master has all of its content, and this is its [`Manifest`].
    Complete(BlobRef),
    /// The state was not saved; says why. The attempt goes on.
    Refused(String),
    /// The state that the attempt was to start from was unusable, so it started from the beginning;
    /// says why.
    FromScratch(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::BlobHash;

    fn manifest(paths: &[&str]) -> Manifest {
        let blob = BlobRef {
            hash: BlobHash([3; 32]),
            size: 10,
        };
        Manifest {
            files: paths
                .iter()
                .map(|path| SavedFile {
                    path: path.parse().unwrap(),
                    blob,
                })
                .collect(),
        }
    }

    #[test]
    fn a_manifest_reads_back_and_says_how_much_it_is() {
        let two = manifest(&["a/state", "b"]);
        assert_eq!(
            Manifest::from_bytes(&two.to_bytes().unwrap()),
            Ok(two.clone())
        );
        assert_eq!(two.bytes(), 20);
    }

    #[test]
    fn torn_and_colliding_manifests_are_refused() {
        let bytes = manifest(&["a", "b"]).to_bytes().unwrap();
        assert!((0..bytes.len()).all(|cut| Manifest::from_bytes(&bytes[..cut]).is_err()));
        assert!(matches!(
            Manifest::from_bytes(&[&bytes[..], &[0]].concat()),
            Err(BadManifest::Malformed(_))
        ));

        let twice = manifest(&["a", "A"]).to_bytes().unwrap();
        assert!(matches!(
            Manifest::from_bytes(&twice),
            Err(BadManifest::Collision(_))
        ));

        // A path that leaves the directory does not even decode.
        let up = bytes
            .iter()
            .map(|byte| if *byte == b'a' { b'/' } else { *byte })
            .collect::<Vec<_>>();
        assert!(matches!(
            Manifest::from_bytes(&up),
            Err(BadManifest::Malformed(_))
        ));
    }
}
