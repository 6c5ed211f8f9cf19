//! Join tokens, and the identities that joined with them.

use common::identity::{IdentityState, IdentityView};
use common::token::Role;
use common::view::TokenView;
use common::wire::enrol::WantedRole;
use common::{HostId, JobId, Time};
use uuid::Uuid;

use super::numbers::Numbered;
use super::reader::Reader;
use super::value::{SqlRow, values};
use super::writer::Writer;
use super::{Peer, StoreResult, micros, time, word};

/// The result of redeeming a join token, `Writer::redeem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redeemed {
    /// A new identity; one use of the token is counted.
    Peer(Peer),
    /// The same of one that is let in once an admin has approved it.
    Waiting(Peer),
    /// The identity that the same key got with the same token before; no use is counted.
    Again(Peer),
    /// There is no token of that number with this secret.
    Wrong,
    /// The token is for this role, and a different one is wanted.
    Unfit(Role),
    /// The token cannot be used, for this reason.
    Refused(&'static str),
}

/// The standing of somebody with a verified certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerStatus {
    /// The identity is let in.
    In(Peer),
    /// There is no identity with that number and key.
    Unknown,
    /// The key is an older one of an identity that uses a newer one by now.
    Former(Peer),
    /// The identity waits for an admin's approval.
    Waiting(Peer),
    /// The identity was revoked.
    Revoked(Peer),
}

/// The properties of a token to be created.
#[derive(Debug, Clone)]
pub(crate) struct NewToken<'a> {
    /// BLAKE3 of its secret.
    pub(crate) secret_hash: [u8; 32],
    /// The role of identities that join with it.
    pub(crate) role: Role,
    /// The name that lists of tokens show.
    pub(crate) name: &'a str,
    /// The number of times that it can be used.
    pub(crate) uses: u32,
    /// The time at which it expires.
    pub(crate) expires: Time,
    /// Whether identities that join with it need an admin's approval.
    pub(crate) approval: bool,
    /// The user for whom it speaks over HTTP, if nobody joins with it.
    pub(crate) speaks_for: Option<&'a str>,
}

const TOKEN_COLUMNS: &str = "id, role, name, uses_left, expires, revoked, speaks_for";

fn token_view(row: &SqlRow<'_>) -> StoreResult<TokenView> {
    Ok(TokenView {
        id: row.get(0)?,
        role: word(&row.get::<String>(1)?)?,
        name: row.get(2)?,
        uses_left: row.get(3)?,
        expires: time(row.get(4)?),
        revoked: row.get(5)?,
        speaks_for: row.get(6)?,
    })
}

pub(super) const PEER_COLUMNS: &str = "uuid, role, name, key_hash, host";

pub(super) fn peer_of(row: &SqlRow<'_>) -> StoreResult<Peer> {
    Ok(Peer {
        id: Uuid::from_bytes(row.get(0)?),
        role: word(&row.get::<String>(1)?)?,
        name: row.get(2)?,
        key_hash: row.get(3)?,
        host: row.get::<Option<u32>>(4)?.map(HostId),
    })
}

/// The state of an identity that was `approved`, or needed no approval, and perhaps revoked.
pub(super) fn identity_state(approved: bool, revoked: bool) -> IdentityState {
    match (approved, revoked) {
        (_, true) => IdentityState::Revoked,
        (false, false) => IdentityState::Waiting,
        (true, false) => IdentityState::Active,
    }
}

/// Compares two hashes, in a time that does not depend on where they differ.
fn same(a: [u8; 32], b: [u8; 32]) -> bool {
    blake3::Hash::from(a) == blake3::Hash::from(b)
}

impl Reader {
    /// The identity for which a token speaks over HTTP, with its role or the token's, whichever may
    /// do less; `None` if the secret is wrong, or either does not count any more.
    pub(crate) fn spoken_for(
        &self,
        token: u32,
        secret_hash: [u8; 32],
        now: Time,
    ) -> StoreResult<Option<Peer>> {
        self.speaker(token, now, |hash| same(hash, secret_hash))
    }

    /// Whether a token that has let somebody in counts still, and the identity behind it.
    pub(crate) fn still_speaks(&self, token: u32, now: Time) -> StoreResult<bool> {
        let speaker = self.speaker(token, now, |_| true)?;
        Ok(speaker.is_some())
    }

    fn speaker(
        &self,
        token: u32,
        now: Time,
        proves: impl Fn([u8; 32]) -> bool,
    ) -> StoreResult<Option<Peer>> {
        let sql = format!("SELECT {TOKEN_COLUMNS}, secret_hash FROM token WHERE id = $1");
        let peer =
            format!("SELECT {PEER_COLUMNS} FROM peer WHERE name = $1 AND approved AND NOT revoked");
        self.with(|db| {
            let found = db.first(&sql, values![token], |row| {
                Ok((token_view(row)?, row.get(7)?))
            })?;
            let Some((view, _)) = found.filter(|(_, hash)| proves(*hash)) else {
                return Ok(None);
            };
            let Some(user) = view
                .speaks_for
                .filter(|_| !view.revoked && view.expires > now)
            else {
                return Ok(None);
            };

            let found = db.first(&peer, values![user], peer_of)?;
            let role = |peer: &Peer| peer.role.min(view.role);
            Ok(found
                .filter(|peer| peer.role.is_user() && view.role.is_user())
                .map(|peer| Peer {
                    role: role(&peer),
                    ..peer
                }))
        })
    }
}

impl Writer {
    /// Creates a token and returns it as lists show it.
    pub(crate) fn add_token(&mut self, new: &NewToken<'_>) -> StoreResult<TokenView> {
        let role = new.role.to_string();
        let expires = micros(new.expires);
        let id = self.number(Numbered::Token)?;
        self.change(
            "INSERT INTO token (id, secret_hash, role, name, uses_left, expires, approval, speaks_for)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            values![id, new.secret_hash, role, new.name, new.uses, expires, new.approval, new.speaks_for],
        )?;

        Ok(TokenView {
            id,
            role: new.role,
            name: new.name.to_owned(),
            uses_left: new.uses,
            expires: new.expires,
            revoked: false,
            speaks_for: new.speaks_for.map(str::to_owned),
        })
    }

    /// Revokes a token. Returns false if there is none of this number.
    pub(crate) fn revoke_token(&mut self, id: u32) -> StoreResult<bool> {
        Ok(self.count("UPDATE token SET revoked = TRUE WHERE id = $1", values![id])? > 0)
    }

    /// All tokens, in the order of their numbers.
    pub(crate) fn tokens(&self) -> StoreResult<Vec<TokenView>> {
        let sql = format!("SELECT {TOKEN_COLUMNS} FROM token ORDER BY id");
        self.db().all(&sql, &[], token_view)
    }

    /// The join token of this number, if the secret is right, and whether identities that join with it
    /// need an admin's approval.
    fn token(&self, id: u32, secret_hash: [u8; 32]) -> StoreResult<Option<(TokenView, bool)>> {
        let sql = format!(
            "SELECT {TOKEN_COLUMNS}, secret_hash, approval FROM token WHERE id = $1 AND speaks_for IS NULL"
        );
        let found = self.db().first(&sql, values![id], |row| {
            Ok((token_view(row)?, row.get(7)?, row.get(8)?))
        })?;
        Ok(found
            .filter(|(_, hash, _)| same(*hash, secret_hash))
            .map(|(view, _, approval)| (view, approval)))
    }

    /// Uses a token once to create an identity with this key, and with this name or a unique one
    /// derived from it. The same key may ask again with the same token, in case the answer was
    /// lost, also once the token has expired.
    pub(crate) fn redeem(
        &mut self,
        token: u32,
        secret_hash: [u8; 32],
        name: &str,
        key_hash: [u8; 32],
        wanted: WantedRole,
        now: Time,
    ) -> StoreResult<Redeemed> {
        let Some((view, approval)) = self.token(token, secret_hash)? else {
            return Ok(Redeemed::Wrong);
        };
        if !wanted.takes(view.role) {
            return Ok(Redeemed::Unfit(view.role));
        }
        if view.revoked {
            return Ok(Redeemed::Refused("the join token was revoked"));
        }
        // It has joined in time, and perhaps slept before it had the answer.
        if let Some(peer) = self.peer_of_token(token, key_hash)? {
            return Ok(Redeemed::Again(peer));
        }
        if view.expires < now {
            return Ok(Redeemed::Refused("the join token has expired"));
        }
        if view.uses_left == 0 {
            return Ok(Redeemed::Refused("the join token has been used up"));
        }

        self.change(
            "UPDATE token SET uses_left = uses_left - 1 WHERE id = $1",
            values![token],
        )?;

        let peer = self.add_peer(view.role, name, key_hash, now)?;
        self.change(
            "UPDATE peer SET token = $1, approved = $2 WHERE uuid = $3",
            values![token, !approval, peer.id.as_bytes()],
        )?;

        Ok(match approval {
            true => Redeemed::Waiting(peer),
            false => Redeemed::Peer(peer),
        })
    }

    fn peer_of_token(&self, token: u32, key_hash: [u8; 32]) -> StoreResult<Option<Peer>> {
        let sql = format!(
            "SELECT {PEER_COLUMNS} FROM peer WHERE key_hash = $1 AND token = $2 AND NOT revoked"
        );
        self.db().first(&sql, values![key_hash, token], peer_of)
    }

    /// Adds an identity, and for a worker a host of the same name. The name is made unique.
    pub(crate) fn add_peer(
        &mut self,
        role: Role,
        name: &str,
        key_hash: [u8; 32],
        now: Time,
    ) -> StoreResult<Peer> {
        let id = Uuid::from_bytes(rand::random());
        let name = self.unique_name(name)?;
        let host = match role {
            Role::Worker => {
                let host = self.number(Numbered::Host)?;
                let sql = "INSERT INTO host (id, name) VALUES ($1, $2)";
                self.change(sql, values![host, name])?;
                Some(HostId(host))
            }
            Role::Client | Role::Admin | Role::Gateway => None,
        };

        self.change(
            "INSERT INTO peer (uuid, role, name, key_hash, host, enrolled) VALUES ($1, $2, $3, $4, $5, $6)",
            values![id.as_bytes(), role.to_string(), name, key_hash, host.map(|h| h.0), micros(now)],
        )?;
        Ok(Peer {
            id,
            role,
            name,
            key_hash,
            host,
        })
    }

    /// A name that no identity has or had: `wished`, if necessary with a number behind it.
    fn unique_name(&self, wished: &str) -> StoreResult<String> {
        let taken = "SELECT 1 FROM peer WHERE name = $1";
        let mut name = wished.to_owned();
        for n in 2.. {
            if !self.db().exists(taken, values![name])? {
                break;
            }
            name = format!("{wished}-{n}");
        }
        Ok(name)
    }

    /// The [`PeerStatus`] of the holder of a certificate with this number and key. The first use of a
    /// renewed key makes it the present one.
    pub(crate) fn standing(&mut self, id: Uuid, key_hash: [u8; 32]) -> StoreResult<PeerStatus> {
        let sql = format!(
            "SELECT {PEER_COLUMNS}, next_key_hash, former_key_hash, approved, revoked FROM peer WHERE uuid = $1"
        );
        let found = self.db().first(&sql, values![id.as_bytes()], |row| {
            let (next, former): (Option<[u8; 32]>, Option<[u8; 32]>) = (row.get(5)?, row.get(6)?);
            let (approved, revoked): (bool, bool) = (row.get(7)?, row.get(8)?);
            Ok((peer_of(row)?, next, former, approved, revoked))
        })?;
        let Some((peer, next, former, approved, revoked)) = found else {
            return Ok(PeerStatus::Unknown);
        };
        let present = peer.key_hash == key_hash;
        let renewed = next == Some(key_hash);

        match (present || renewed, revoked, approved) {
            (false, _, _) if former == Some(key_hash) => return Ok(PeerStatus::Former(peer)),
            (false, _, _) => return Ok(PeerStatus::Unknown),
            (true, true, _) => return Ok(PeerStatus::Revoked(peer)),
            (true, false, false) => return Ok(PeerStatus::Waiting(peer)),
            (true, false, true) => {}
        }

        if renewed {
            self.change(
                "UPDATE peer SET former_key_hash = key_hash, key_hash = next_key_hash, next_key_hash = NULL WHERE uuid = $1",
                values![id.as_bytes()],
            )?;
        }

        Ok(PeerStatus::In(Peer { key_hash, ..peer }))
    }

    /// Stores the key of a renewal at `now` and the expiry of its certificate. The present key works until
    /// the new one is used. Returns false if the identity is unknown, revoked or not approved.
    pub(crate) fn renew_peer(
        &mut self,
        id: Uuid,
        key_hash: [u8; 32],
        expires: Time,
        now: Time,
    ) -> StoreResult<bool> {
        let sql = "UPDATE peer SET next_key_hash = $1, expires = $2 WHERE uuid = $3 AND NOT revoked AND approved";
        if self.count(sql, values![key_hash, micros(expires), id.as_bytes()])? == 0 {
            return Ok(false);
        }
        self.note_known_renewal(id, now)?;
        Ok(true)
    }

    /// Stores the expiry of an identity's certificate.
    pub(crate) fn peer_expires(&mut self, id: Uuid, expires: Time) -> StoreResult<()> {
        self.change(
            "UPDATE peer SET expires = $1 WHERE uuid = $2",
            values![micros(expires), id.as_bytes()],
        )
    }

    /// The expiry of an identity's newest certificate, if known.
    pub(crate) fn expiry_of(&self, id: Uuid) -> StoreResult<Option<Time>> {
        let sql = "SELECT expires FROM peer WHERE uuid = $1";
        let found: Option<Option<i64>> = self.db().value(sql, values![id.as_bytes()])?;
        Ok(found.flatten().map(time))
    }

    /// The identity of this name, revoked or not.
    pub(crate) fn peer_named(&self, name: &str) -> StoreResult<Option<Peer>> {
        let sql = format!("SELECT {PEER_COLUMNS} FROM peer WHERE name = $1");
        self.db().first(&sql, values![name], peer_of)
    }

    /// Revokes an identity, and with it a pending key renewal, or approves one. Returns whether it is so now: one
    /// that was revoked is not approved.
    pub(crate) fn judge_peer(&mut self, id: Uuid, state: IdentityState) -> StoreResult<bool> {
        match state {
            IdentityState::Revoked => {
                let sql = "UPDATE peer SET revoked = TRUE, next_key_hash = NULL WHERE uuid = $1";
                self.change(sql, values![id.as_bytes()])?;
                Ok(true)
            }
            IdentityState::Active | IdentityState::Waiting => {
                let sql = "UPDATE peer SET approved = TRUE WHERE uuid = $1 AND NOT revoked";
                Ok(self.count(sql, values![id.as_bytes()])? > 0)
            }
        }
    }

    /// All identities in the order of their names, each with its number. `connections` is left at
    /// 0.
    pub(crate) fn identities(&self) -> StoreResult<Vec<(Uuid, IdentityView)>> {
        let sql = "SELECT uuid, role, name, host, enrolled, expires, approved, revoked FROM peer ORDER BY name";
        self.db().all(sql, &[], |row| {
            let view = IdentityView {
                name: row.get(2)?,
                role: word(&row.get::<String>(1)?)?,
                state: identity_state(row.get(6)?, row.get(7)?),
                host: row.get::<Option<u32>>(3)?.map(HostId),
                enrolled: time(row.get(4)?),
                expires: row.get::<Option<i64>>(5)?.map(time),
                connections: 0,
            };
            Ok((Uuid::from_bytes(row.get(0)?), view))
        })
    }

    /// Lets a user look at a job, or ends that. Returns whether it changed anything.
    pub(crate) fn share(&mut self, job: JobId, user: &str, on: bool) -> StoreResult<bool> {
        let sql = if on {
            "INSERT INTO share (job, \"user\") VALUES ($1, $2) ON CONFLICT DO NOTHING"
        } else {
            "DELETE FROM share WHERE job = $1 AND \"user\" = $2"
        };
        Ok(self.count(sql, values![job.0, user])? > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::open;
    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    /// A token for a worker, which expires at 100.
    fn token(store: &mut Writer) -> u32 {
        let token = NewToken {
            secret_hash: SECRET,
            role: Role::Worker,
            name: "floor 3",
            uses: 3,
            expires: Time(100),
            approval: false,
            speaks_for: None,
        };
        store.add_token(&token).unwrap().id
    }

    #[test]
    fn a_joiner_whose_answer_was_lost_is_answered_after_its_token_has_expired_and_nobody_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let token = token(&mut store);
        let mut redeem = |secret: [u8; 32], key: u8, now: u64| {
            let wanted = WantedRole::Any;
            let redeemed = store.redeem(token, secret, "pc", [key; 32], wanted, Time(now));
            redeemed.unwrap()
        };

        let Redeemed::Peer(joined) = redeem(SECRET, 1, 99) else {
            panic!("it was in time");
        };
        assert_eq!(redeem(SECRET, 1, 101), Redeemed::Again(joined));
        let expired = Redeemed::Refused("the join token has expired");
        assert_eq!(redeem(SECRET, 2, 101), expired);
        assert_eq!(redeem([8; 32], 1, 101), Redeemed::Wrong);
    }

    #[test]
    fn neither_a_revoked_token_nor_a_revoked_joiner_is_answered_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let token = token(&mut store);
        let mut joined = Vec::new();
        for key in [1, 2] {
            let redeemed = store.redeem(token, SECRET, "pc", [key; 32], WantedRole::Any, Time(99));
            match redeemed.unwrap() {
                Redeemed::Peer(peer) => joined.push(peer.id),
                other => panic!("{other:?}"),
            }
        }

        store.judge_peer(joined[0], IdentityState::Revoked).unwrap();
        let again = |store: &mut Writer, key: u8| {
            let redeemed = store.redeem(token, SECRET, "pc", [key; 32], WantedRole::Any, Time(101));
            redeemed.unwrap()
        };
        assert!(matches!(again(&mut store, 1), Redeemed::Refused(why) if why.contains("expired")));
        assert!(matches!(again(&mut store, 2), Redeemed::Again(_)));
        store.revoke_token(token).unwrap();
        assert!(matches!(again(&mut store, 2), Redeemed::Refused(why) if why.contains("revoked")));
    }
}
