//! Renews certificates: a peer that has one gets another, for a new key, from the present CA.

use std::time::Duration;

use common::wire::enrol::EnrolReply;
use common::wire::stream::Open;
use common::wire::{Refusal, RefusalCode};
use link::{Channel, LinkError};
use quinn::Connection;

use super::{accept, read_open, stopped};
use crate::authority::read_request;
use crate::core::ask::PeerAsk;
use crate::run::SessionContext;
use crate::store::Peer;

/// The time that a peer with an expired certificate has to ask for a new one.
const LAST_CHANCE: Duration = Duration::from_secs(30);

/// Serves one renewal: one request, one reply.
pub(super) async fn serve(
    state: &SessionContext,
    peer: &Peer,
    csr: &[u8],
    mut channel: Channel,
) -> Result<(), LinkError> {
    let reply = match answer(state, peer, csr).await? {
        Ok(reply) => reply,
        Err(refusal) => {
            state.refused(&peer.name, "renew", "its certificate", &refusal.message);
            EnrolReply::Refused(refusal)
        }
    };
    channel.tx.send(&reply).await?;
    channel.tx.finish();
    channel.tx.delivered().await;

    Ok(())
}

async fn answer(
    state: &SessionContext,
    peer: &Peer,
    csr: &[u8],
) -> Result<Result<EnrolReply, Refusal>, LinkError> {
    if let Err(wait) = state.counters.may_renew(peer.id, state.clock.now()) {
        let what = "this identity was renewed too often";
        return Ok(Err(Refusal::new(
            RefusalCode::Unavailable,
            what,
            format!("try again in {wait}"),
        )));
    }

    let Ok((csr, key_hash)) = read_request(csr) else {
        return Ok(Err(Refusal::new(
            RefusalCode::Invalid,
            "the certificate request is broken",
            "",
        )));
    };

    // The new key is durable before anybody has the certificate.
    let renew = PeerAsk::Renew(Box::new(peer.clone()), key_hash, state.authority.expiry());
    let renewed: bool = state.core.ask(renew).await.map_err(stopped)?;
    if !renewed {
        let what = "this identity is not let in any more";
        return Ok(Err(Refusal::new(
            RefusalCode::NotAuthorised,
            what,
            "ask an admin for a new token",
        )));
    }

    let certificate = state.authority.issue(&csr.public_key, peer.role, peer.id);
    let certificate = certificate
        .map_err(|e| LinkError::BadIdentity(e.to_string()))?
        .to_vec();
    let ca = state.authority.certificate().to_vec();

    Ok(Ok(EnrolReply::Enrolled {
        certificate,
        ca,
        role: peer.role,
        name: peer.name.clone(),
    }))
}

/// Serves a peer whose certificate has expired and who may renew it, and do nothing else.
pub(super) async fn serve_expired(
    state: &SessionContext,
    connection: &Connection,
    peer: &Peer,
) -> Result<(), LinkError> {
    let last = async {
        let mut channel = accept(connection).await?;
        match read_open(&mut channel).await? {
            Open::Renew { csr } => serve(state, peer, &csr, channel).await,
            _ => {
                let why = link::error::ONLY_A_RENEWAL;
                state.refused(&peer.name, "connect", "the master", why);
                connection.close(link::error::NOT_LET_IN, why.as_bytes());
                Ok(())
            }
        }
    };
    tokio::time::timeout(LAST_CHANCE, last)
        .await
        .unwrap_or(Ok(()))
}
