//! Checkpoints: the state that a task keeps so that its next attempt can go on. A state is a list
//! of files, the [`Manifest`](crate::manifest::Manifest), and their content.

use serde::{Deserialize, Serialize};

use crate::content::BlobRef;
use crate::time::{Span, Time};

/// The shortest interval between two checkpoints that a task saves regularly
/// ([`Checkpointing::every`]).
pub const SHORTEST_INTERVAL: Span = Span::from_secs(1);
/// The longest encoded [`Manifest`](crate::manifest::Manifest) that is accepted, in bytes.
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
    /// The content that is the [`Manifest`](crate::manifest::Manifest) as postcard.
    pub manifest: BlobRef,
}

/// A worker's report on a checkpoint of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Saving {
    /// The state is saved: the master has all of its content, and this is its [`Manifest`](crate::manifest::Manifest).
    Complete(BlobRef),
    /// The state was not saved; says why. The attempt goes on.
    Refused(String),
    /// The state that the attempt was to start from was unusable, so it started from the beginning;
    /// says why.
    FromScratch(String),
}
