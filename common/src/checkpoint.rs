//! The state that a task keeps so that its next attempt can go on: which files, and where their
//! content is.
//!
//! The list of files is content itself, so that what travels in messages is short however many
//! files there are.

use serde::{Deserialize, Serialize};

use crate::content::BlobRef;
use crate::path::{PortablePath, collision};
use crate::time::{Span, Time};

/// The shortest time between two states of a task that are saved because it is time.
pub const SHORTEST_INTERVAL: Span = Span::from_secs(1);
/// The longest list of files that anybody takes, in bytes.
pub const MAX_MANIFEST: u64 = 4 << 20;

/// The most files that anybody takes, whatever a worker's owner allows.
pub const MAX_FILES: u32 = 20_000;

/// How a task's state is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpointing {
    /// How often its state is saved while it runs.
    pub every: Span,
    /// What it starts from; nothing where none was ever saved.
    pub from: Option<Saved>,
}

/// A saved state: complete at the master, with all of its content.
///
/// Of one attempt's states the later has more in it. Of two attempts' neither need have: the
/// younger may have begun from scratch, or from less than the older has saved since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The number of the attempt whose state it is.
    pub number: u32,
    /// Counts the states that this attempt saved, from 1.
    pub sequence: u32,
    /// When the master had all of it.
    pub taken: Time,
    /// How many files.
    pub files: u32,
    /// Their length together, in bytes.
    pub bytes: u64,
    /// The content that is the [`Manifest`] as postcard.
    pub manifest: BlobRef,
}

/// The files of a saved state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Each once, in the order of their paths.
    pub files: Vec<SavedFile>,
}

/// A file of a saved state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    /// Where it lay below the task's checkpoint directory.
    pub path: PortablePath,
    /// Its content.
    pub blob: BlobRef,
}

/// Bytes that are no list of files that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadManifest {
    /// They are not a manifest.
    #[error("its list of files does not decode: {0}")]
    Malformed(#[from] crate::wire::frame::BadFrame),
    /// Two files would lie at one place.
    #[error("`{0}` is in it twice, or differs from another file only in upper and lower case")]
    Collision(PortablePath),
}

impl Manifest {
    /// As content.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(self)
    }

    /// What content says.
    ///
    /// # Errors
    /// If it is not exactly one manifest, or one whose files cannot lie beside each other.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadManifest> {
        let manifest: Manifest = crate::wire::decode(bytes)?;
        match collision(manifest.files.iter().map(|file| &file.path)) {
            Some(path) => Err(BadManifest::Collision(path.clone())),
            None => Ok(manifest),
        }
    }

    /// The length of its files together, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files
            .iter()
            .fold(0, |sum, file| sum.saturating_add(file.blob.size))
    }
}

/// What a worker says of the state of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Saving {
    /// The master has all of its content; this is the manifest.
    Complete(BlobRef),
    /// It is not saved; says why. The attempt goes on.
    Refused(String),
    /// What the attempt was to start from could not be used, so it started from the beginning; says
    /// why.
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
