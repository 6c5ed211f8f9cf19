//! Requests to the core about admission: identities, join tokens and the audit log.

use common::token::Role;
use common::wire::enrol::WantedRole;
use common::{Span, Time};
use uuid::Uuid;

use super::{Ask, CoreReply};
use crate::core::Core;
use crate::store::{AuditEntry, Issued, Peer, StoreResult};

/// A join token to be made.
#[derive(Debug, Clone)]
pub struct TokenWish {
    /// The admin who makes it.
    pub by: String,
    /// The role of its holder.
    pub role: Role,
    /// Its time to live.
    pub ttl: Span,
    /// The number of its uses.
    pub uses: u32,
    /// Its name in lists.
    pub name: String,
    /// Whether its holder must wait for an admin's approval.
    pub approval: bool,
    /// The hash of the master's key.
    pub ca_key_hash: [u8; 32],
    /// The user for whom it speaks over HTTP, if nobody is to join with it.
    pub speaks_for: Option<String>,
}

/// A peer that joins with a token.
#[derive(Debug, Clone)]
pub struct Redeeming {
    /// The address that it comes from.
    pub from: String,
    /// The token's number.
    pub token: u32,
    /// The token's secret.
    pub secret: [u8; 16],
    /// The name to go by.
    pub name: String,
    /// The hash of its key.
    pub key_hash: [u8; 32],
    /// The kind of peer that it wants to be.
    pub wanted: WantedRole,
    /// The expiry of its certificate.
    pub expires: Time,
}

/// A request about admission.
#[derive(Debug, Clone)]
pub enum PeerAsk {
    /// The standing of the identity with this number and key. The times are those of the certificate, if its holder
    /// has shown it to this master itself. Gives `Standing`.
    Authenticate(Uuid, [u8; 32], Option<Issued>),
    /// Makes a join token. Gives `Token`.
    CreateToken(TokenWish),
    /// Every token. Gives `Tokens`.
    Tokens,
    /// Revokes a token. Gives `Whether`.
    RevokeToken {
        /// The admin who revokes it.
        by: String,
        /// Its number.
        id: u32,
    },
    /// Admits a peer with a token. Gives `Redeemed`.
    Redeem(Redeeming),
    /// Notes the key of a renewed certificate, and its expiry. Gives `Whether`.
    Renew(Box<Peer>, [u8; 32], Time),
    /// The expiry of the newest certificate of an identity. Gives `Expiry`.
    ExpiryOf(Uuid),
    /// Approves a peer that waits for it. Gives `Judged`.
    Approve {
        /// The admin who approves it.
        by: String,
        /// The name of the identity.
        name: String,
    },
    /// Revokes an identity. Gives `Judged`.
    Revoke {
        /// The admin who revokes it.
        by: String,
        /// The name of the identity.
        name: String,
    },
    /// The identities of these names (none given: all). Gives `Identities`.
    Identities(Vec<String>),
    /// Puts these entries into the audit log. Gives `Done`.
    Audit(Vec<AuditEntry>),
}

impl From<PeerAsk> for Ask {
    fn from(ask: PeerAsk) -> Self {
        Ask::Peer(ask)
    }
}

impl Core {
    pub(super) fn handle_peer(&mut self, ask: PeerAsk) -> StoreResult<CoreReply> {
        Ok(match ask {
            PeerAsk::Authenticate(id, key_hash, issued) => {
                self.authenticate(id, key_hash, issued)?.into()
            }
            PeerAsk::CreateToken(wish) => self.create_token(&wish)?.into(),
            PeerAsk::Tokens => self.store.tokens()?.into(),
            PeerAsk::RevokeToken { by, id } => self.revoke_token(&by, id)?.into(),
            PeerAsk::Redeem(redeeming) => self.redeem(&redeeming)?.into(),
            PeerAsk::Renew(peer, key_hash, expires) => self.renew(&peer, key_hash, expires)?.into(),
            PeerAsk::ExpiryOf(id) => self.store.expiry_of(id)?.into(),
            PeerAsk::Approve { by, name } => self.approve(&by, &name)?.into(),
            PeerAsk::Revoke { by, name } => self.revoke(&by, &name)?.into(),
            PeerAsk::Identities(names) => self.identities(&names)?.into(),
            PeerAsk::Audit(entries) => entries
                .iter()
                .try_for_each(|entry| self.store.add_audit(entry))?
                .into(),
        })
    }
}
