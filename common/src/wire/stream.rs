//! The opening of each stream of a worker's or client's connection, and the transfer of content on
//! a stream of its own.
//!
//! The opener sends one [`Open`]. `Control` and `Request` go on with the messages of their own
//! modules. `Get` is answered by [`GetReply`]s and then the raw bytes from the offset to the end;
//! `Put` by a [`PutReply`], after `Resume` the opener sends the raw bytes from there and finishes,
//! and gets a second reply.

use serde::{Deserialize, Serialize};

use super::Refusal;
use super::peer::{PeerReport, PeerSource};
use crate::content::{BlobHash, BlobRef};

/// The purpose of a stream, its first message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Open {
    /// The worker's one long-lived stream ([`super::worker`]).
    Control,
    /// One request of a client and its replies ([`super::client`]).
    Request,
    /// Fetches content from the other end. Answered by a [`GetReply`].
    Get {
        /// The hash of the content.
        hash: BlobHash,
        /// The first byte to send.
        offset: u64,
        /// Whether the opener, a worker, would rather wait or be sent to another host than cost
        /// the master's line a copy.
        peers: bool,
        /// The hosts that did not give the content, at most
        /// [`MAX_REPORTED`](super::peer::MAX_REPORTED).
        failed: Vec<PeerReport>,
    },
    /// Offers content that the opener has. Answered by a [`PutReply`].
    Put(BlobRef),
    /// The opener wants a new certificate, for a new key. Answered by an
    /// [`EnrolReply`](super::enrol::EnrolReply).
    Renew {
        /// A certificate signing request (DER). Only its public key, and the proof that the opener
        /// holds it, count.
        csr: Vec<u8>,
    },
    /// The output of a running attempt, as the master asked for it with `ToWorker::Tail`. The
    /// opener sends [`TailPart`]s until the attempt ends or the master stops the stream.
    Tail {
        /// The master's number for whoever looks.
        ticket: u64,
    },
    /// [`Open::Renew`] through a gateway, which has shown its own certificate on the connection: the
    /// asker proves that it holds the key of the certificate that is to be replaced.
    RenewProved {
        /// A certificate signing request (DER), as in [`Open::Renew`].
        csr: Vec<u8>,
        /// The proof.
        proof: RenewalProof,
    },
}

/// The proof that whoever asks for a new certificate holds the key of the present one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewalProof {
    /// The present certificate (DER). Only its key counts.
    pub certificate: Vec<u8>,
    /// The signature of the request by that key (ECDSA on P-256 with SHA-256, DER).
    pub signature: Vec<u8>,
}

/// A part of the output of a running attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailPart {
    /// The number of bytes before it, those that are left out included.
    pub offset: u64,
    /// The bytes, at most 64 KiB.
    pub bytes: Vec<u8>,
}

/// Answer to [`Open::Get`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GetReply {
    /// The content has this length; the bytes from the requested offset follow.
    Found(u64),
    /// The content is not available.
    Refused(Refusal),
    /// Another answer follows, once something has happened; with what is waited for.
    Waits(String),
    /// This host has the content and expects the opener. Nothing follows.
    At(PeerSource),
}

/// Answer to [`Open::Put`], before and after the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PutReply {
    /// The bytes from this offset are needed: the ones before it are stored already.
    Resume(u64),
    /// The content is verified and durable; nothing more needs to be sent.
    Stored,
    /// The content is not accepted.
    Refused(Refusal),
}
