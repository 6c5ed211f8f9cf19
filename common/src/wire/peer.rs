//! Content that hosts pass on to each other: what a worker and its master say of it, and what one
//! worker asks of another ([`super::ALPN_PEER`]).
//!
//! A host asks its master for content. The master may name another host that has it, and sends that
//! one a [`PeerTicket`]; the asker opens a stream there with a [`PeerGet`], which is answered by a
//! [`GetReply`](super::stream::GetReply) and the raw bytes.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::content::{BlobHash, BlobRef};
use crate::time::Span;

/// The least content that hosts pass on, in bytes. Parts of trees have twice as much and more.
pub const LEAST_SHARED: u64 = 1 << 20;

/// The most contents that a worker lists, and that the master remembers of a host.
pub const MAX_LISTED: usize = 1_024;

/// The most failures in one request for content.
pub const MAX_REPORTED: usize = 8;

/// The hash of a public key, as in join tokens.
pub type KeyHash = [u8; 32];

/// A worker that passes content on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharingOffer {
    /// The UDP port on which it listens.
    pub port: u16,
    /// Its own address in the network through which it reaches the master.
    pub address: IpAddr,
    /// The content that it has, of [`LEAST_SHARED`] bytes and more: at most [`MAX_LISTED`].
    pub holds: Vec<BlobHash>,
}

/// The right of one host to fetch one content from the worker that gets this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerTicket {
    /// The master's number for it, which only the two hosts learn.
    pub number: u64,
    /// The content.
    pub blob: BlobRef,
    /// The key of the host that may fetch it.
    pub fetcher: KeyHash,
    /// The time within which it has to ask.
    pub life: Span,
}

/// A host from which to fetch content with a [`PeerGet`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerSource {
    /// Its addresses, the most promising first.
    pub addresses: Vec<SocketAddr>,
    /// Its key.
    pub key: KeyHash,
    /// The number of the ticket that it was sent.
    pub ticket: u64,
}

/// A request to another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerGet {
    /// The number of the ticket.
    pub ticket: u64,
    /// The first byte to send.
    pub offset: u64,
}

/// The reason why content did not come from a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PeerFailure {
    /// No connection to the host with this key came about.
    Unreachable,
    /// It does not give the content (any more).
    Refused,
    /// It was silent or too slow, or vanished.
    Stalled,
    /// The bytes are not those of the hash.
    Damaged,
}

/// A host that did not give what it was to give, with its [`PeerFailure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerReport {
    /// The number of the ticket.
    pub ticket: u64,
    /// The failure.
    pub failure: PeerFailure,
}
