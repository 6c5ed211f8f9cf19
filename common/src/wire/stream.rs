//! How each stream of a worker's or client's connection begins, and how content travels on one of
//! its own.
//!
//! The opener sends one [`Open`]. `Control` and `Request` go on with the messages of their own
//! modules. `Get` is answered by a [`GetReply`] and then the raw bytes from the offset to the end;
//! `Put` by a [`PutReply`], after `Resume` the opener sends the raw bytes from there and finishes,
//! and gets a second reply.

use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::content::{BlobHash, BlobRef};

/// What a stream is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Open {
    /// The worker's one long-lived stream ([`super::worker`]).
    Control,
    /// One request of a client and its replies ([`super::client`]).
    Request,
    /// Content to be sent to the opener.
    Get {
        /// Which.
        hash: BlobHash,
        /// From which byte on.
        offset: u64,
    },
    /// Content that the opener has.
    Put(BlobRef),
    /// The opener wants a new certificate, for a new key. Answered by an
    /// [`EnrolReply`](super::enrol::EnrolReply).
    Renew {
        /// A certificate signing request (DER). Only its public key, and the proof that the opener
        /// holds it, count.
        csr: Vec<u8>,
    },
}

/// Answer to [`Open::Get`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GetReply {
    /// The content is this long; the bytes from the asked offset follow.
    Found(u64),
    /// Not to be had.
    Refused(Refusal),
}

/// Answer to [`Open::Put`], before and after the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PutReply {
    /// Send the bytes from this offset on: what came before is here already.
    Resume(u64),
    /// Verified and durable; nothing needs to be sent (again).
    Stored,
    /// Not taken.
    Refused(Refusal),
}
