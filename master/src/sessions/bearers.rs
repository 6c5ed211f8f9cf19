//! The entrance of the master's own API: bearer tokens, and what ends with them.

use std::sync::Arc;
use std::time::Duration;

use api::{Coming, Entrance, Who};
use axum::http::{HeaderMap, header};
use common::token::JoinToken;
use common::wire::{Refusal, RefusalCode};

use crate::run::SessionContext;

/// The time between two looks whether the token of an answer that goes on still counts.
const LOOK: Duration = Duration::from_secs(5);

/// The entrance of the master's API: bearer tokens.
pub(crate) struct Bearers(pub(crate) Arc<SessionContext>);

impl Entrance for Bearers {
    fn is_ours(&self, host: &str) -> bool {
        crate::http::is_ours(host, &self.0.config)
    }

    fn admit<'a>(&'a self, headers: &'a HeaderMap) -> Coming<'a, Option<Who>> {
        Box::pin(async move {
            let shown = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
            let (scheme, token) = shown.split_once(' ')?;
            if !scheme.eq_ignore_ascii_case("bearer") {
                return None;
            }
            let token: JoinToken = token.parse().ok()?;
            let hash = *blake3::hash(&token.secret).as_bytes();
            let now = self.0.clock.now();

            let reader = self.0.reader.clone();
            let found = tokio::task::spawn_blocking(move || reader.spoken_for(token.id, hash, now));
            let peer = match found.await.ok()? {
                Ok(peer) => peer,
                Err(error) => {
                    tracing::error!(%error, "the store could not be read");
                    None
                }
            };
            let Some(peer) = peer else {
                let subject = format!("token {}", token.id);
                let why = "the token does not count, or not any more";
                self.0.refused("somebody over HTTP", "ask", &subject, why);
                return None;
            };
            Some(Who {
                user: peer.name,
                role: peer.role,
                id: peer.id,
                token: Some(token.id),
            })
        })
    }

    fn takes_tokens(&self) -> bool {
        true
    }

    fn is_encrypted(&self) -> bool {
        self.0.config.http_certificate.is_some() || self.0.config.http_behind_proxy
    }

    fn way_in(&self) -> &'static str {
        "send Authorization: Bearer TOKEN; an admin makes one with deskgrid token create --http --role client --for USER"
    }
}

/// Resolves with a refusal once this token does not count any more: it was revoked, it expired, or
/// the identity behind it was revoked.
pub(super) async fn lapsed(state: &SessionContext, token: Option<u32>) -> Refusal {
    let Some(token) = token else {
        return std::future::pending().await;
    };

    loop {
        tokio::time::sleep(LOOK).await;
        let reader = state.reader.clone();
        let now = state.clock.now();
        let looked = tokio::task::spawn_blocking(move || reader.still_speaks(token, now)).await;
        match looked {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                let what = "the token that let you in was revoked or has expired";
                let hint =
                    "ask with another token; an admin makes one with deskgrid token create --http";
                return Refusal::new(RefusalCode::NotAuthorised, what, hint);
            }
            // A store that cannot be read just now says nothing of the token.
            Ok(Err(error)) => tracing::warn!(%error, "the store could not be read"),
            Err(error) => tracing::warn!(%error, "a look at a token ended"),
        }
    }
}
