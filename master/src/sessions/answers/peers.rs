//! Answers about identities, join tokens and the audit log.

use common::Span;
use common::identity::{AuditView, IdentityView};
use common::selector::Selector;
use common::text::acts;
use common::token::JoinToken;
use common::view::TokenView;
use common::wire::RefusalCode;
use common::wire::client::Reply;

use crate::core::Judged;
use crate::core::ask::{JobAsk, PeerAsk, TokenWish};

use super::{Answered, Asker, NoAnswer, refuse};
use crate::store::Reader;

/// The longest name of a token, in bytes.
const LONGEST_NAME: usize = 200;
/// The most entries of the audit log that one request returns.
const MOST_AUDITED: u32 = 10_000;

impl Asker {
    /// Makes a token: for machines or people to join with, or one that speaks for somebody over HTTP.
    pub(in crate::sessions) async fn create_token(&self, wish: TokenWish) -> Answered<Reply> {
        if wish.uses == 0 || wish.ttl == Span::ZERO {
            return Err(refuse(
                RefusalCode::Invalid,
                "a token needs at least one use and some time to live",
                "",
            ));
        }
        if wish.name.len() > LONGEST_NAME || wish.name.chars().any(acts) {
            return Err(refuse(
                RefusalCode::Invalid,
                format!(
                    "a token's name has at most {LONGEST_NAME} bytes, and no control characters"
                ),
                "give it a shorter or plainer name",
            ));
        }
        if let Some(user) = &wish.speaks_for {
            let found = self.identities(vec![user.clone()]).await?;
            let fits = |view: &IdentityView| {
                view.role.is_user() && wish.role.is_user() && view.role >= wish.role
            };
            if !found.iter().all(fits) {
                return Err(refuse(
                    RefusalCode::Invalid,
                    format!("a token of role {} cannot speak for `{user}`", wish.role),
                    "see `deskgrid identity list`: the role is that of the user, or client",
                ));
            }
        }

        let made: (JoinToken, TokenView) = self.core(PeerAsk::CreateToken(wish)).await?;
        let (token, view) = made;
        if view.speaks_for.is_some() {
            return Ok(Reply::Token(token, view, self.state.http_url.clone()));
        }

        let standbys = self.read(Reader::standbys).await?.unwrap_or_default();
        let mut masters = vec![self.state.known_as.clone()];
        masters.extend(standbys.into_iter().map(|standby| standby.address));
        masters.dedup();
        Ok(Reply::Token(token, view, masters.join(",")))
    }

    /// The hash of the master's key, for new tokens.
    pub(in crate::sessions) fn ca_key_hash(&self) -> [u8; 32] {
        self.state.ca_key_hash
    }

    pub(in crate::sessions) async fn tokens(&self) -> Answered<Vec<TokenView>> {
        self.core(PeerAsk::Tokens).await
    }

    pub(in crate::sessions) async fn revoke_token(&self, id: u32) -> Answered<Reply> {
        let by = self.user.clone();
        let revoked: bool = self.core(PeerAsk::RevokeToken { by, id }).await?;
        if !revoked {
            return Err(refuse(
                RefusalCode::NotFound,
                format!("there is no token {id}"),
                "see `deskgrid token list`",
            ));
        }

        let tokens = self.tokens().await?;
        Ok(Reply::Tokens(
            tokens.into_iter().filter(|token| token.id == id).collect(),
        ))
    }

    pub(in crate::sessions) async fn identities(
        &self,
        names: Vec<String>,
    ) -> Answered<Vec<IdentityView>> {
        let found: Result<Vec<_>, String> = self.core(PeerAsk::Identities(names)).await?;
        let counted = |(id, view)| IdentityView {
            connections: self.state.live.count(id),
            ..view
        };

        let found = found.map_err(|name| nobody(&name))?;
        Ok(found.into_iter().map(counted).collect())
    }

    pub(in crate::sessions) async fn approve(&self, name: String) -> Answered<Vec<IdentityView>> {
        let by = self.user.clone();
        let of = name.clone();
        match self.core(PeerAsk::Approve { by, name: of }).await? {
            Judged::Done(_) => self.identities(vec![name]).await,
            Judged::Revoked => Err(refuse(
                RefusalCode::Conflict,
                format!(
                    "the identity {name} was revoked, which is for good: it cannot be approved"
                ),
                "let it join again under another name, with a new token: deskgrid token create",
            )),
            Judged::Nobody => Err(nobody(&name)),
        }
    }

    /// Revokes an identity. The revocation is durable before its connections are closed, so that it
    /// cannot connect again in between.
    pub(in crate::sessions) async fn revoke(&self, name: String) -> Answered<Vec<IdentityView>> {
        if name == self.user {
            let hint = "another admin can: deskgrid token create --role admin";
            return Err(refuse(
                RefusalCode::Conflict,
                "nobody can revoke the identity that asks",
                hint,
            ));
        }

        let by = self.user.clone();
        let of = name.clone();
        match self.core(PeerAsk::Revoke { by, name: of }).await? {
            Judged::Done(peer) => {
                let closed = self.state.live.close(peer.id, "this identity was revoked");
                tracing::info!(name, closed, "connections closed");
                self.identities(vec![name]).await
            }
            Judged::Nobody | Judged::Revoked => Err(nobody(&name)),
        }
    }

    pub(in crate::sessions) async fn share(
        &self,
        jobs: &Selector,
        user: String,
        on: bool,
    ) -> Answered<Reply> {
        let picked = self.pick(jobs).await?;
        let by = self.user.clone();
        let changed: Option<Vec<_>> = self
            .core(JobAsk::Share {
                by,
                jobs: picked,
                user: user.clone(),
                on,
            })
            .await?;

        let unknown = || {
            let hint = "a user's name is what `deskgrid login` answered there";
            refuse(
                RefusalCode::NotFound,
                format!("there is no user `{user}`"),
                hint,
            )
        };
        changed.map(Reply::Changed).ok_or_else(unknown)
    }

    pub(in crate::sessions) async fn audit_log(&self, most: u32) -> Answered<Vec<AuditView>> {
        let repeats = self.state.counters.repeats(self.state.clock.now());
        self.core::<()>(PeerAsk::Audit(repeats)).await?;
        self.read(move |reader| reader.audit(most.min(MOST_AUDITED)))
            .await
    }
}

fn nobody(name: &str) -> NoAnswer {
    refuse(
        RefusalCode::NotFound,
        format!("nobody is called `{name}`"),
        "see `deskgrid identity list`",
    )
}
