//! The farewell of a peer that dies without closing its connection: stateless resets (RFC 9000,
//! section 10.3). They are made while it lives, and sent in its place by a process that outlives
//! it, so that the other end notices within moments instead of at its idle timeout.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

use quinn_proto::crypto::{CryptoError, HmacKey};
use serde::{Deserialize, Serialize};

use crate::endpoint::any_like;

/// The length of a reset token, in bytes.
const TOKEN: usize = 16;
/// The bytes before the token: as many as those of a short packet.
const DISGUISE: usize = 27;
/// The two highest bits of a short packet's first byte, and their values.
const FORM: u8 = 0b1100_0000;
const SHORT: u8 = 0b0100_0000;
/// The tokens that are kept. A connection has five identifiers at a time; it gets others when its
/// address changes.
const KEPT: usize = 32;

/// The datagrams that end a connection for the other end, and their way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Farewell {
    /// The UDP port of the connection at this end: only resets from there count.
    from: u16,
    to: SocketAddr,
    datagrams: Vec<Vec<u8>>,
}

impl Farewell {
    /// Makes the farewell of a connection between the port and `to`.
    pub(crate) fn new(from: u16, to: SocketAddr, tokens: &ResetTokens) -> Self {
        let made = tokens.made.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            from,
            to,
            datagrams: made.iter().map(datagram).collect(),
        }
    }

    /// Sends the resets. The port must be free, so the peer must be dead.
    ///
    /// # Errors
    /// If the port is not free (yet), or nothing can be sent.
    pub fn send(&self) -> io::Result<()> {
        let mut from = any_like(self.to);
        from.set_port(self.from);
        let socket = UdpSocket::bind(from)?;

        for datagram in &self.datagrams {
            socket.send_to(datagram, self.to)?;
        }
        Ok(())
    }
}

/// Returns a reset with this token. It looks like any short packet.
fn datagram(token: &[u8; TOKEN]) -> Vec<u8> {
    let mut bytes = blake3::derive_key("deskgrid 2026 reset disguise", token)[..DISGUISE].to_vec();
    bytes[0] = bytes[0] & !FORM | SHORT;
    bytes.extend(token);
    bytes
}

/// A key for reset tokens that remembers the newest tokens that were made with it.
#[derive(Clone)]
pub(crate) struct ResetTokens {
    key: Arc<ring::hmac::Key>,
    made: Arc<Mutex<VecDeque<[u8; TOKEN]>>>,
}

impl ResetTokens {
    /// Makes a random key.
    pub(crate) fn random() -> Self {
        let seed: [u8; 32] = rand::random();
        Self {
            key: Arc::new(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &seed)),
            made: Arc::default(),
        }
    }
}

impl std::fmt::Debug for ResetTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResetTokens").finish_non_exhaustive()
    }
}

impl HmacKey for ResetTokens {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        HmacKey::sign(&*self.key, data, signature_out);
        let Some(token) = signature_out.first_chunk::<TOKEN>() else {
            return;
        };

        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.contains(token) {
            return;
        }
        if made.len() == KEPT {
            made.pop_front();
        }
        made.push_back(*token);
    }

    fn signature_len(&self) -> usize {
        self.key.signature_len()
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        HmacKey::verify(&*self.key, data, signature)
    }
}
