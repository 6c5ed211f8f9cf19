//! The errors of connections, streams and files, in words that say what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::wire::frame::{BadFrame, MAX_FRAME};
use common::wire::{Refusal, RefusalCode};

/// The code with which the master closes the connection of a peer that it does not let in. Any
/// other code tells the peer that it may try again.
pub const NOT_LET_IN: quinn::VarInt = quinn::VarInt::from_u32(1);

/// The code with which a connection is closed whose peer may try again after a while.
pub const NOT_NOW: quinn::VarInt = quinn::VarInt::from_u32(2);

/// The lowest code with which a master closes its connections when it goes away in order. What a code has above it is the
/// time over which the workers come back, in milliseconds.
const AWAY: u64 = 1 << 16;
/// The longest such time that is believed.
const LONGEST_SPREAD: Duration = Duration::from_secs(60);

/// Returns the code for a master that goes away in order, whose workers are to come back spread over `within`.
pub fn away_code(within: Duration) -> quinn::VarInt {
    let within = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
    quinn::VarInt::from_u64(AWAY + u64::from(within)).unwrap_or(quinn::VarInt::MAX)
}

/// Returns the time of [`away_code`] that is in the end of a connection; none if it ended otherwise.
pub fn spread_of(end: &quinn::ConnectionError) -> Duration {
    let quinn::ConnectionError::ApplicationClosed(close) = end else {
        return Duration::ZERO;
    };
    let within = close.error_code.into_inner().saturating_sub(AWAY);
    Duration::from_millis(within).min(LONGEST_SPREAD)
}

/// The master's answer to a client whose certificate has expired by its clock, and may be renewed.
pub const ONLY_A_RENEWAL: &str = "its certificate has expired: only a renewal is answered";

/// The answer of somebody who offers no connection of the kind that was asked for. A master that stands
/// by is one.
pub(crate) const OFFERS_NOTHING: &str =
    "it offers nothing that we ask for (is it an old version, or not deskgrid?)";

/// The answer of somebody who takes no connection: about to begin or to end, or with too much to do.
const TAKES_NONE: &str = "it takes no connection at the moment";

/// The failure of a connection, a stream or a file.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No master answers at the address.
    #[error("the master at {master} does not answer: {why}")]
    Unreachable {
        /// Its address as configured.
        master: String,
        /// The attempts that failed.
        why: String,
    },
    /// A master answers, and leaves the work to another one at present.
    #[error(
        "the master at {master} stands by{}",
        active.as_ref().map_or_else(String::new, |active| format!(": the active one was last seen at {active}"))
    )]
    StandsBy {
        /// Its address as configured.
        master: String,
        /// The address of the active one, if it knows that.
        active: Option<String>,
    },
    /// Something answers there, but it is not the master whose CA we know.
    #[error(
        "what answers at {master} is not the master that this identity or token belongs to: {why}"
    )]
    WrongMaster {
        /// Its address as configured.
        master: String,
        /// The mismatch.
        why: String,
    },
    /// The master does not accept our certificate (expired, revoked, of another grid).
    #[error("the master does not accept this identity: {0}")]
    NotAccepted(String),
    /// The other end refused the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The connection ended in the middle of something.
    #[error("the connection to the master ended: {0}")]
    Closed(String),
    /// The other end asked for something and does not read it.
    #[error("the other end does not read what it asked for")]
    Unread,
    /// A request that is longer than any message may be. Nothing of it was sent.
    #[error("the request does not fit into a message, which has at most {MAX_FRAME} bytes")]
    TooLong,
    /// The other end sent something that is no message of ours.
    #[error("the other end does not speak deskgrid's protocol: {0}")]
    Protocol(String),
    /// Content that arrived does not hash to its name.
    #[error("content {expected} arrived damaged (it hashes to {found}); it was thrown away")]
    Damaged {
        /// The hash that names the content.
        expected: String,
        /// The hash of the bytes that arrived.
        found: String,
    },
    /// A file could not be read or written.
    #[error("{what} {path}: {source}", path = path.display())]
    File {
        /// The attempted operation, such as `cannot read`.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// No identity where one is needed.
    #[error("there is no identity in {dir}", dir = dir.display())]
    NoIdentity {
        /// The directory that was searched.
        dir: PathBuf,
    },
    /// The directory cannot be searched for an identity.
    #[error("cannot look into {dir}: {source}", dir = dir.display())]
    HiddenIdentity {
        /// The directory that was searched.
        dir: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// An identity or token has parts that make no sense.
    #[error("bad identity: {0}")]
    BadIdentity(String),
}

impl LinkError {
    /// Wraps a failed operation on a file.
    pub fn file(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> LinkError {
        move |source| LinkError::File {
            what,
            path: path.as_ref().to_owned(),
            source,
        }
    }

    /// Makes the error of an answer that fits another question.
    pub(crate) fn other_answer() -> LinkError {
        LinkError::Protocol("an answer to another question".to_owned())
    }

    /// Whether a disk has no room for a file.
    pub fn is_full(&self) -> bool {
        matches!(self, LinkError::File { source, .. } if is_full(source))
    }

    /// Whether whoever was called has answered that it takes no connection at the moment, so that neither patience
    /// nor TCP would help.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, LinkError::Unreachable { why, .. } if why.contains(TAKES_NONE))
    }

    /// Whether a later try, with nothing else changed, may succeed.
    pub fn passing(&self) -> bool {
        match self {
            LinkError::Unreachable { .. }
            | LinkError::StandsBy { .. }
            | LinkError::Closed(_)
            | LinkError::Damaged { .. } => true,
            LinkError::Refused(refusal) => refusal.code == RefusalCode::Unavailable,
            _ => false,
        }
    }
}

/// Makes the error of an identity, or of what is made of it, that is of no use.
pub(crate) fn bad_identity(why: impl std::fmt::Display) -> LinkError {
    LinkError::BadIdentity(why.to_string())
}

/// Whether an operation failed because a disk, or a user's quota on it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl From<BadFrame> for LinkError {
    fn from(bad: BadFrame) -> Self {
        LinkError::Protocol(bad.to_string())
    }
}

impl From<quinn::ConnectionError> for LinkError {
    fn from(error: quinn::ConnectionError) -> Self {
        match &error {
            // TLS alerts travel as transport errors 0x100 + alert.
            quinn::ConnectionError::ConnectionClosed(close) if is_tls_alert(close.error_code) => {
                LinkError::NotAccepted(tls_alert(close.error_code))
            }
            quinn::ConnectionError::ConnectionClosed(close)
                if close.error_code == quinn::TransportErrorCode::CONNECTION_REFUSED =>
            {
                LinkError::Closed(TAKES_NONE.to_owned())
            }
            quinn::ConnectionError::ApplicationClosed(close) if close.error_code == NOT_LET_IN => {
                LinkError::NotAccepted(String::from_utf8_lossy(&close.reason).into_owned())
            }
            quinn::ConnectionError::ApplicationClosed(close) => {
                LinkError::Closed(String::from_utf8_lossy(&close.reason).into_owned())
            }
            _ => LinkError::Closed(error.to_string()),
        }
    }
}

fn is_tls_alert(code: quinn::TransportErrorCode) -> bool {
    (0x100..0x200).contains(&u64::from(code))
}

fn tls_alert(code: quinn::TransportErrorCode) -> String {
    match u64::from(code) - 0x100 {
        42 => "its certificate is damaged".to_owned(),
        44 => "its certificate was revoked".to_owned(),
        45 => "its certificate has expired".to_owned(),
        48 => "its certificate is of another grid".to_owned(),
        116 => "no certificate was shown".to_owned(),
        120 => OFFERS_NOTHING.to_owned(),
        alert => format!("TLS alert {alert}"),
    }
}

impl From<quinn::WriteError> for LinkError {
    fn from(error: quinn::WriteError) -> Self {
        match error {
            quinn::WriteError::ConnectionLost(lost) => lost.into(),
            other => LinkError::Closed(other.to_string()),
        }
    }
}

impl From<quinn::ReadError> for LinkError {
    fn from(error: quinn::ReadError) -> Self {
        match error {
            quinn::ReadError::Reset(code) if code == crate::content::WITHDRAWN => {
                let what = "the host does not serve this any more";
                Refusal::new(RefusalCode::Unavailable, what, "").into()
            }
            quinn::ReadError::ConnectionLost(lost) => lost.into(),
            other => LinkError::Closed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed_with(code: quinn::VarInt) -> quinn::ConnectionError {
        quinn::ConnectionError::ApplicationClosed(quinn::ApplicationClose {
            error_code: code,
            reason: "the master shuts down".into(),
        })
    }

    #[test]
    fn the_time_to_come_back_over_is_in_the_code_of_the_end() {
        for within in [0, 2, 2_000, 60_000].map(Duration::from_millis) {
            assert_eq!(spread_of(&closed_with(away_code(within))), within);
        }
        let hour = Duration::from_secs(3_600);
        assert_eq!(spread_of(&closed_with(away_code(hour))), LONGEST_SPREAD);
        for other in [quinn::VarInt::from_u32(0), NOT_LET_IN, NOT_NOW] {
            assert_eq!(spread_of(&closed_with(other)), Duration::ZERO);
        }
        assert_eq!(spread_of(&quinn::ConnectionError::TimedOut), Duration::ZERO);
    }
}
