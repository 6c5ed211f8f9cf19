//! Messages between a gateway, which ends the connections of workers, and the master. One
//! connection; each stream that the gateway opens begins with a [`FromGateway`].
//!
//! A worker's stream goes on as the worker wrote it, with an [`Open`](super::stream::Open) first, and the
//! master answers it as on a connection of the worker's own.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::peer::KeyHash;
use super::{Refusal, Versions};
use crate::content::BlobHash;
use crate::ids::Incarnation;

/// The purpose of a stream that a gateway opens, its first message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromGateway {
    /// The one long-lived stream, on which [`ToGateway`] messages come.
    Control {
        /// The versions that the gateway understands.
        versions: Versions,
    },
    /// A stream that a worker opened at the gateway. Its own bytes follow.
    Pass(GatewaySession),
    /// Whether a worker may have content. Answered by a [`NeedsReply`].
    Needs(GatewaySession, BlobHash),
    /// A joiner, or somebody who asks who is there, came to the gateway. Its
    /// [`Enrol`](super::enrol::Enrol) follows.
    Enrol {
        /// Its address as the gateway sees it.
        from: IpAddr,
        /// The name of the CA under which it wants to be let in.
        wanted: Option<String>,
    },
    /// The gateway wants a new certificate: the bytes of [`Open::Renew`](super::stream::Open::Renew), as
    /// of any other peer.
    Renew {
        /// A certificate signing request (DER).
        csr: Vec<u8>,
    },
}

/// A worker's connection at a gateway, as its verified certificate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewaySession {
    /// The gateway's number of the connection.
    pub number: u64,
    /// The identity in the certificate.
    pub peer: Uuid,
    /// The hash of the certificate's key.
    pub key: KeyHash,
    /// The certificate's end, in seconds since 1970.
    pub until_s: i64,
    /// The address of the worker as the gateway sees it.
    pub from: IpAddr,
}

/// A message of the master to a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGateway {
    /// The gateway is let in.
    Welcome {
        /// The gateway's name.
        name: String,
        /// The master's incarnation.
        incarnation: Incarnation,
    },
    /// The gateway is not let in, and should not try again before the cause is gone.
    Refused(Refusal),
    /// A worker's connection is to be closed with this code and reason.
    Close {
        /// The number of [`GatewaySession`].
        session: u64,
        /// The QUIC code.
        code: u32,
        /// The reason, in words.
        why: String,
    },
}

/// Answer to [`FromGateway::Needs`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NeedsReply {
    /// The worker may have it; the content has this length.
    Yes(u64),
    /// It may not, or the content is not there.
    No(Refusal),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::encode;
    use crate::wire::stream::Open;

    #[test]
    fn a_gateway_asks_for_a_new_certificate_as_others_do() {
        let csr = vec![1, 2, 3];
        let ours = encode(&FromGateway::Renew { csr: csr.clone() }).unwrap();
        assert_eq!(ours, encode(&Open::Renew { csr }).unwrap());
    }
}
