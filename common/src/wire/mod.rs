//! The messages on the wire. Each is postcard behind a length of four bytes (little endian), at
//! most [`MAX_FRAME`].
//!
//! Three ALPNs, three sets of messages: [`enrol`], [`worker`], [`client`]; on the last two, content
//! travels on streams of its own, opened with a [`stream::Open`]. The golden bytes of each message
//! are kept by a test.

pub mod client;
pub mod enrol;
pub mod frame;
pub mod stream;
pub mod worker;

use serde::{Deserialize, Serialize};

/// A joiner without a certificate.
pub const ALPN_ENROL: &[u8] = b"deskgrid-enrol/1";
/// A worker with its certificate.
pub const ALPN_WORKER: &[u8] = b"deskgrid-worker/1";
/// A client or admin with its certificate.
pub const ALPN_CLIENT: &[u8] = b"deskgrid-client/1";

/// The version of the messages that this program speaks. Raised with every change to a message
/// after a release.
pub const WIRE_VERSION: u16 = 1;
/// The oldest version that it still understands.
pub const OLDEST_WIRE_VERSION: u16 = 1;

/// The versions that one end understands, and what it calls itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Oldest version understood.
    pub min: u16,
    /// Newest version understood.
    pub max: u16,
    /// The program's own version, for people.
    pub program: String,
}

impl Versions {
    /// Those of this program.
    pub fn ours() -> Self {
        let program = env!("CARGO_PKG_VERSION").to_owned();
        Self {
            min: OLDEST_WIRE_VERSION,
            max: WIRE_VERSION,
            program,
        }
    }

    /// The newest version that both ends understand.
    ///
    /// # Errors
    /// If there is none: says which end to upgrade.
    pub fn agree(&self, other: &Versions) -> Result<u16, Refusal> {
        let version = self.max.min(other.max);
        if version >= self.min.max(other.min) {
            return Ok(version);
        }

        let (old, new) = if self.max < other.max {
            (self, other)
        } else {
            (other, self)
        };

        Err(Refusal {
            code: RefusalCode::Version,
            message: format!(
                "deskgrid {} and deskgrid {} do not understand each other",
                self.program, other.program
            ),
            hint: format!("upgrade the one that is {} to {}", old.program, new.program),
        })
    }
}

/// What kind of refusal, for scripts and exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalCode {
    /// The two programs' versions do not fit.
    Version,
    /// The identity may not do this.
    NotAuthorised,
    /// There is no such job, task, host or token.
    NotFound,
    /// The request makes no sense.
    Invalid,
    /// The request is fine but not in this state of things.
    Conflict,
    /// The master cannot take it now (a full disk, shutting down).
    Unavailable,
    /// The job was not admitted.
    NotAdmitted,
}

/// Why one end does not do what the other asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind.
    pub code: RefusalCode,
    /// What happened.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

impl Refusal {
    /// A refusal with a hint.
    pub fn new(code: RefusalCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

pub use frame::{MAX_FRAME, decode, encode};
