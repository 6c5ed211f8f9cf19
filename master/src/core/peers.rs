//! Tokens and identities, which decide who is admitted, and the audit log of both.

use common::identity::{IdentityState, IdentityView};
use common::token::JoinToken;
use common::view::TokenView;
use common::{IdSet, JobId, Time};
use uuid::Uuid;

use super::Core;
use super::ask::{Redeeming, TokenWish};
use crate::store::{
    Attendance, AuditEntry, Issued, NewToken, Peer, PeerStatus, Redeemed, StoreResult,
};

/// The hash of a token's secret, as the store keeps it.
fn secret_hash(secret: &[u8; 16]) -> [u8; 32] {
    *blake3::hash(secret).as_bytes()
}

/// Jobs that a user shares no more with another one.
#[derive(Debug)]
pub(crate) struct EndedShare {
    /// The user who may look at them no more.
    pub(crate) user: String,
    pub(crate) jobs: IdSet,
}

/// The outcome of an approval or a revocation.
pub enum Judged {
    /// The identity was approved or revoked.
    Done(Peer),
    /// The identity was not approved: it was revoked before, which is for good.
    Revoked,
    /// No identity has this name.
    Nobody,
}

impl Core {
    /// Adds an entry to the audit log: an action, or the reason why it was refused.
    pub(in crate::core) fn audit(
        &mut self,
        who: &str,
        what: &'static str,
        subject: &str,
        outcome: Result<&str, &str>,
    ) -> StoreResult<()> {
        let (Ok(why) | Err(why)) = outcome;
        self.store.add_audit(&AuditEntry {
            at: self.now,
            who: who.to_owned(),
            what,
            subject: subject.to_owned(),
            allowed: outcome.is_ok(),
            why: why.to_owned(),
            count: 1,
        })
    }

    /// Makes a join token.
    pub(super) fn create_token(&mut self, wish: &TokenWish) -> StoreResult<(JoinToken, TokenView)> {
        let TokenWish { role, uses, .. } = *wish;
        let secret: [u8; 16] = rand::random();
        let view = self.store.add_token(&NewToken {
            secret_hash: secret_hash(&secret),
            role,
            name: &wish.name,
            uses,
            expires: self.now + wish.ttl,
            approval: wish.approval,
            speaks_for: wish.speaks_for.as_deref(),
        })?;
        tracing::info!(token = view.id, %role, uses, approval = wish.approval, "token created");

        let how = match &wish.speaks_for {
            Some(user) => format!("to speak for {user} over HTTP, of role {role}"),
            None if wish.approval => format!("for {uses} of role {role}, each to be approved"),
            None => format!("for {uses} of role {role}"),
        };

        let token = format!("token {}", view.id);
        self.audit(&wish.by, "token-create", &token, Ok(&how))?;

        Ok((
            JoinToken {
                id: view.id,
                secret,
                ca_key_hash: wish.ca_key_hash,
            },
            view,
        ))
    }

    /// Revokes a token; false if there is none.
    pub(super) fn revoke_token(&mut self, by: &str, id: u32) -> StoreResult<bool> {
        let revoked = self.store.revoke_token(id)?;
        if revoked {
            tracing::info!(token = id, "token revoked");
            self.audit(by, "token-revoke", &format!("token {id}"), Ok(""))?;
        }
        Ok(revoked)
    }

    /// Admits a peer with a token, or refuses it. Its certificate is to expire at `expires`.
    pub(super) fn redeem(&mut self, redeeming: &Redeeming) -> StoreResult<Redeemed> {
        let redeemed = self.store.redeem(
            redeeming.token,
            secret_hash(&redeeming.secret),
            &redeeming.name,
            redeeming.key_hash,
            redeeming.wanted,
            self.now,
        )?;

        let came = (redeeming.token, redeeming.from.as_str());
        match &redeemed {
            Redeemed::Peer(peer) => self.enrolled(peer, IdentityState::Active, came)?,
            Redeemed::Waiting(peer) => self.enrolled(peer, IdentityState::Waiting, came)?,
            Redeemed::Again(_) | Redeemed::Wrong | Redeemed::Unfit(_) | Redeemed::Refused(_) => {}
        }

        if let Redeemed::Peer(peer) | Redeemed::Waiting(peer) | Redeemed::Again(peer) = &redeemed {
            self.store.peer_expires(peer.id, redeeming.expires)?;
        }
        Ok(redeemed)
    }

    /// Notes a new identity, and how it got in: with this token, from this address.
    fn enrolled(
        &mut self,
        peer: &Peer,
        identity: IdentityState,
        (token, from): (u32, &str),
    ) -> StoreResult<()> {
        let Peer { role, name, .. } = peer;
        let mut how = format!("as {role} from {from}");
        if identity == IdentityState::Waiting {
            tracing::info!(token, %role, name, "enrolled, and waits: deskgrid identity approve {name}");
            how.push_str(", to be approved");
        } else {
            tracing::info!(token, %role, name, "enrolled");
        }

        self.know(peer, identity)?;
        self.audit(name, "enrol", &format!("token {token}"), Ok(&how))
    }

    fn know(&mut self, peer: &Peer, identity: IdentityState) -> StoreResult<()> {
        let Some(id) = peer.host else { return Ok(()) };
        let restored = crate::store::RestoredHost {
            labels: Default::default(),
            id,
            name: peer.name.clone(),
            facts: None,
            draining: false,
            finished: 0,
            lost: 0,
            heard: None,
            identity,
            owner: None,
            valid: 0,
            attendance: Attendance::Expected,
        };
        self.restore_host(restored)
    }

    /// The `PeerStatus` of the identity with this number and key. A key that is not known may be that of a renewal
    /// which the store lost, if it is known when the certificate was `issued`.
    pub(super) fn authenticate(
        &mut self,
        id: Uuid,
        key_hash: [u8; 32],
        issued: Option<Issued>,
    ) -> StoreResult<PeerStatus> {
        let known = self.store.standing(id, key_hash)?;
        let issued = issued.filter(|_| known == PeerStatus::Unknown);
        let Some(issued) = issued else {
            return Ok(known);
        };

        let known = self
            .store
            .standing_of_lost(id, key_hash, (issued, self.now))?;
        if let PeerStatus::In(peer) = &known {
            tracing::info!(
                name = peer.name,
                "its certificate was renewed after the copy that this store began as"
            );
            let why = "was issued after the copy that this store began as";
            self.audit(&peer.name, "renew", "its certificate", Ok(why))?;
        }
        Ok(known)
    }

    /// Stores the key of a renewed certificate; false for an identity that is not admitted any
    /// more.
    pub(super) fn renew(
        &mut self,
        peer: &Peer,
        key_hash: [u8; 32],
        expires: Time,
    ) -> StoreResult<bool> {
        let renewed = self
            .store
            .renew_peer(peer.id, key_hash, expires, self.now)?;
        if renewed {
            tracing::info!(name = peer.name, "certificate renewed");
            self.audit(&peer.name, "renew", "its certificate", Ok(""))?;
        }
        Ok(renewed)
    }

    /// Approves an identity that waits for it.
    pub(super) fn approve(&mut self, by: &str, name: &str) -> StoreResult<Judged> {
        let Some(peer) = self.store.peer_named(name)? else {
            return Ok(Judged::Nobody);
        };
        if !self.store.judge_peer(peer.id, IdentityState::Active)? {
            self.audit(by, "approve", name, Err("this identity was revoked"))?;
            return Ok(Judged::Revoked);
        }
        if let Some(host) = peer.host {
            self.on_approved(host);
        }
        self.audit(by, "approve", name, Ok(""))?;
        Ok(Judged::Done(peer))
    }

    /// Revokes an identity. The attempts of a host wait for another one. The caller closes the
    /// connections.
    pub(super) fn revoke(&mut self, by: &str, name: &str) -> StoreResult<Judged> {
        let Some(peer) = self.store.peer_named(name)? else {
            return Ok(Judged::Nobody);
        };
        tracing::info!(name, by, "revoked");
        self.store.judge_peer(peer.id, IdentityState::Revoked)?;
        if let Some(host) = peer.host {
            self.on_revoked(host)?;
        }
        self.audit(by, "revoke", name, Ok(""))?;
        Ok(Judged::Done(peer))
    }

    /// The identities of these names (none given: all). The error is a name that nobody has.
    pub(super) fn identities(
        &self,
        names: &[String],
    ) -> StoreResult<Result<Vec<(Uuid, IdentityView)>, String>> {
        let mut all = self.store.identities()?;
        if let Some(missing) = names
            .iter()
            .find(|name| all.iter().all(|(_, view)| view.name != **name))
        {
            return Ok(Err(missing.clone()));
        }
        all.retain(|(_, view)| names.is_empty() || names.contains(&view.name));
        Ok(Ok(all))
    }

    /// Shares jobs with another user, or ends that; `None` if there is no such user. Returns each
    /// job with whether this changed it.
    pub(super) fn share(
        &mut self,
        by: &str,
        jobs: &IdSet,
        user: &str,
        on: bool,
    ) -> StoreResult<Option<Vec<(JobId, u64)>>> {
        match self.store.peer_named(user)? {
            Some(peer) if peer.role.is_user() => {}
            _ => return Ok(None),
        }

        let mut changed = Vec::new();
        for job in jobs.iter().map(JobId) {
            let news = self.store.share(job, user, on)?;
            changed.push((job, u64::from(news)));
        }
        let news = changed.iter().filter(|(_, news)| *news > 0);
        let ended: IdSet = news.filter(|_| !on).map(|(job, _)| job.0).collect();
        if !ended.is_empty() {
            let user = user.to_owned();
            self.unshared.0.push(EndedShare { user, jobs: ended });
        }

        let what = if on { "share" } else { "unshare" };
        self.audit(
            by,
            what,
            &format!("jobs {jobs}"),
            Ok(&format!("with {user}")),
        )?;

        Ok(Some(changed))
    }
}
