//! Who may come in: tokens and identities.

use common::Span;
use common::token::{JoinToken, Role};
use common::view::TokenView;
use uuid::Uuid;

use super::Core;
use crate::store::{Peer, Redeemed, StoreError};

/// What the store keeps of a token's secret.
fn secret_hash(secret: &[u8; 16]) -> [u8; 32] {
    *blake3::hash(secret).as_bytes()
}

impl Core {
    /// Makes a join token.
    pub(crate) fn create_token(
        &mut self,
        role: Role,
        ttl: Span,
        uses: u32,
        name: &str,
        ca_key_hash: [u8; 32],
    ) -> Result<(JoinToken, TokenView), StoreError> {
        let secret: [u8; 16] = rand::random();
        let view = self.store.add_token(secret_hash(&secret), role, name, uses, self.now + ttl)?;
        tracing::info!(token = view.id, %role, uses, "token created");
        Ok((JoinToken { id: view.id, secret, ca_key_hash }, view))
    }

    /// Every token.
    pub(crate) fn tokens(&self) -> Result<Vec<TokenView>, StoreError> {
        self.store.tokens()
    }

    /// Makes a token useless; false where there is none.
    pub(crate) fn revoke_token(&mut self, id: u32) -> Result<bool, StoreError> {
        tracing::info!(token = id, "token revoked");
        self.store.revoke_token(id)
    }

    /// Lets somebody with a token in, or says why not.
    pub(crate) fn redeem(
        &mut self,
        token: u32,
        secret: &[u8; 16],
        name: &str,
        key_hash: [u8; 32],
    ) -> Result<Redeemed, StoreError> {
        let redeemed = self.store.redeem(token, secret_hash(secret), name, key_hash, self.now)?;
        match &redeemed {
            Redeemed::Peer(peer) => {
                tracing::info!(token, role = %peer.role, name = peer.name, "enrolled");
                self.know(peer)?;
            }
            Redeemed::Refused(why) => tracing::warn!(token, name, why, "enrolment refused"),
        }
        Ok(redeemed)
    }

    fn know(&mut self, peer: &Peer) -> Result<(), StoreError> {
        let Some(id) = peer.host else { return Ok(()) };
        let restored = crate::store::RestoredHost {
            id,
            name: peer.name.clone(),
            facts: None,
            draining: false,
            finished: 0,
            lost: 0,
            heard: None,
            owner: None,
            valid: 0,
        };
        self.restore_host(restored)
    }

    /// The identity that a certificate names, if it is known, not revoked, and of this key.
    pub(crate) fn authenticate(&self, id: Uuid, key_hash: &[u8; 32]) -> Result<Option<Peer>, StoreError> {
        Ok(self.store.peer(id)?.filter(|peer| peer.key_hash == *key_hash))
    }
}
