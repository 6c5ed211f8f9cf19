//! What is asked about who is let in: identities, join tokens and the audit log.

use common::token::Role;
use common::wire::enrol::Wanted;
use common::{Span, Time};
use uuid::Uuid;

use super::{Ask, CoreReply};
use crate::core::Core;
use crate::store::{Entry, Peer, StoreError};

/// Something asked about who is let in.
#[derive(Debug, Clone)]
pub enum PeerAsk {
    /// The standing of the identity with this number and key.
    Authenticate(Uuid, [u8; 32]),
    /// Make a join token.
    CreateToken {
        /// Who makes it.
        by: String,
        /// What its holder becomes.
        role: Role,
        /// How long it works.
        ttl: Span,
        /// How often.
        uses: u32,
        /// Its name in lists.
        name: String,
        /// Whether who joins with it waits for an admin.
        approval: bool,
        /// The hash of the master's key.
        ca_key_hash: [u8; 32],
    },
    /// Every token.
    Tokens,
    /// Make a token useless.
    RevokeToken {
        /// Who does.
        by: String,
        /// Its number.
        id: u32,
    },
    /// Let in somebody with a token.
    Redeem {
        /// The address that it comes from.
        from: String,
        /// The token's number.
        token: u32,
        /// The token's secret.
        secret: [u8; 16],
        /// The name to go by.
        name: String,
        /// The hash of its key.
        key_hash: [u8; 32],
        /// What it wants to be.
        wanted: Wanted,
        /// The expiry of its certificate.
        expires: Time,
    },
    /// Note the key of a renewed certificate, and its expiry.
    Renew(Box<Peer>, [u8; 32], Time),
    /// The expiry of the newest certificate of an identity.
    ExpiryOf(Uuid),
    /// Let somebody in who waits for it.
    Approve {
        /// Who does.
        by: String,
        /// Whom.
        name: String,
    },
    /// Let somebody in no more.
    Revoke {
        /// Who does.
        by: String,
        /// Whom.
        name: String,
    },
    /// Everybody of these names (none given: everybody).
    Identities(Vec<String>),
    /// Put these entries into the audit log.
    Audit(Vec<Entry>),
}

impl From<PeerAsk> for Ask {
    fn from(ask: PeerAsk) -> Self {
        Ask::Peer(ask)
    }
}

impl Core {
    pub(super) fn handle_peer(&mut self, ask: PeerAsk) -> Result<CoreReply, StoreError> {
        Ok(match ask {
            PeerAsk::Authenticate(id, key_hash) => self.authenticate(id, key_hash)?.into(),
            PeerAsk::CreateToken {
                by,
                role,
                ttl,
                uses,
                name,
                approval,
                ca_key_hash,
            } => self
                .create_token(&by, (role, ttl, uses), &name, approval, ca_key_hash)?
                .into(),
            PeerAsk::Tokens => self.tokens()?.into(),
            PeerAsk::RevokeToken { by, id } => self.revoke_token(&by, id)?.into(),
            PeerAsk::Redeem {
                from,
                token,
                secret,
                name,
                key_hash,
                wanted,
                expires,
            } => self
                .redeem(&from, (token, &secret), &name, (key_hash, wanted), expires)?
                .into(),
            PeerAsk::Renew(peer, key_hash, expires) => self.renew(&peer, key_hash, expires)?.into(),
            PeerAsk::ExpiryOf(id) => self.expiry_of(id)?.into(),
            PeerAsk::Approve { by, name } => self.approve(&by, &name)?.into(),
            PeerAsk::Revoke { by, name } => self.revoke(&by, &name)?.into(),
            PeerAsk::Identities(names) => self.identities(&names)?.into(),
            PeerAsk::Audit(entries) => self.audit_all(&entries)?.into(),
        })
    }
}
