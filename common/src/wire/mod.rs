//! The messages on the wire. Each is postcard behind a length of four bytes (little endian), at
//! most [`MAX_FRAME`].
//!
//! There are five ALPNs with a set of messages each: [`enrol`], [`worker`], [`client`] and [`gateway`] with the
//! master, and [`peer`] between two workers. With workers and clients, content travels on streams of its own, each opened with a [`stream::Open`]. A test
//! keeps the golden bytes of each message.

pub mod client;
pub mod enrol;
pub mod frame;
pub mod gateway;
pub mod peer;
pub mod stream;
pub mod worker;

use serde::{Deserialize, Serialize};

/// The ALPN of a joiner without a certificate.
pub const ALPN_ENROL: &[u8] = b"deskgrid-enrol/1";
/// The ALPN of a worker with its certificate.
pub const ALPN_WORKER: &[u8] = b"deskgrid-worker/1";
/// The ALPN of a client or admin with its certificate.
pub const ALPN_CLIENT: &[u8] = b"deskgrid-client/1";
/// The ALPN of a gateway with its certificate.
pub const ALPN_GATEWAY: &[u8] = b"deskgrid-gateway/1";
/// The ALPN between two workers, each with its certificate.
pub const ALPN_PEER: &[u8] = b"deskgrid-peer/1";

/// The message version that this program speaks. It is raised with every change to a message.
pub const WIRE_VERSION: u16 = 7;
/// The oldest message version that this program still understands.
pub const OLDEST_WIRE_VERSION: u16 = 1;
/// The message version from which on workers take settings from the master, and clients store them
/// there.
pub const SITE_VERSION: u16 = 2;
/// The message version from which on workers take new programs from the master, learn the key for them
/// as they join, and admins roll them out.
pub const UPDATE_VERSION: u16 = 3;
/// The message version from which on clients are told of each running attempt of a job.
pub const RUNNING_VERSION: u16 = 4;
/// The message version from which on clients are told what the tasks of a job run.
pub const WORK_VERSION: u16 = 5;
/// The message version from which on workers tell what attempts held that they give back for memory,
/// and say once more that a new program is ready as they leave for it.
pub const WEIGHING_VERSION: u16 = 6;
/// The message version from which on workers are told why they get no new tasks, and clients why a host computes no
/// more than it does.
pub const SERVICE_VERSION: u16 = 7;

/// The message versions that one end understands, and its program version.
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
    /// Returns the versions of this program.
    pub fn ours() -> Self {
        let program = crate::update::program_version().to_owned();
        Self {
            min: OLDEST_WIRE_VERSION,
            max: WIRE_VERSION,
            program,
        }
    }

    /// Returns the newest version that both ends understand.
    ///
    /// # Errors
    /// If there is none; the refusal says which end to upgrade.
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

/// The kind of a refusal, for scripts and exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalCode {
    /// The versions of the two programs do not overlap.
    Version,
    /// The identity may not do this.
    NotAuthorised,
    /// There is no such job, task, host or token.
    NotFound,
    /// The request is invalid.
    Invalid,
    /// The request is valid but conflicts with the present state.
    Conflict,
    /// The master cannot take it now (a full disk, shutting down).
    Unavailable,
    /// The job was not admitted.
    NotAdmitted,
}

/// A refusal: one end does not do what the other asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The kind of refusal.
    pub code: RefusalCode,
    /// The cause, for people.
    pub message: String,
    /// A remedy, for people; may be empty.
    pub hint: String,
}

impl Refusal {
    /// Makes a refusal with a hint.
    pub fn new(code: RefusalCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

pub use frame::{MAX_FRAME, decode, encode};
