//! Renews certificates: a peer that has one gets another, for a new key, from the present CA.

use std::time::Duration;

use common::wire::enrol::EnrolReply;
use common::wire::stream::Open;
use common::wire::{Refusal, RefusalCode};
use link::{Channel, LinkError, proof};
use quinn::Connection;

use super::{accept, read_open, stopped};
use crate::authority::read_request;
use crate::core::ask::PeerAsk;
use crate::run::SessionContext;
use crate::store::{Peer, PeerStatus};

/// The time that a peer with an expired certificate has to ask for a new one.
const LAST_CHANCE: Duration = Duration::from_secs(30);

/// The signing request of a renewal that came through a gateway, if the owner of the peer's key has signed it: what a
/// gateway says of a connection proves nothing. The key counts as used then.
pub(super) async fn proved<'a>(
    state: &SessionContext,
    peer: &Peer,
    open: &'a Open,
) -> Result<Result<&'a [u8], Refusal>, LinkError> {
    let refuse = |what: &str, hint: &str| {
        let refusal = Refusal::new(RefusalCode::NotAuthorised, what, hint);
        Ok(Err(refusal))
    };
    let Open::RenewProved { csr, proof } = open else {
        return refuse(
            "a renewal through a gateway has to be signed by the key of the present certificate",
            "update the program there, or let it connect to the master itself",
        );
    };

    if let Some(key) = proof::signer(csr, proof) {
        let shows = PeerAsk::Authenticate(peer.id, key, None);
        let known = state.core.ask(shows).await;
        if let PeerStatus::In(_) = known.map_err(stopped)? {
            return Ok(Ok(csr));
        }
    }
    refuse(
        "this renewal is not signed by the key of the present certificate",
        "",
    )
}

/// Serves one renewal: one request, which may be refused already, and one reply.
pub(super) async fn serve(
    state: &SessionContext,
    peer: &Peer,
    csr: Result<&[u8], Refusal>,
    mut channel: Channel,
) -> Result<(), LinkError> {
    let answered = match csr {
        Ok(csr) => answer(state, peer, csr).await?,
        Err(refusal) => Err(refusal),
    };
    let reply = match answered {
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
        match read_open(&mut channel).await {
            Ok(Open::Renew { csr }) => serve(state, peer, Ok(&csr), channel).await,
            // A gateway opens its streams with messages of its own.
            Ok(_) | Err(LinkError::Protocol(_)) => {
                let why = link::error::ONLY_A_RENEWAL;
                state.refused(&peer.name, "connect", "the master", why);
                connection.close(link::error::NOT_LET_IN, why.as_bytes());
                Ok(())
            }
            Err(error) => Err(error),
        }
    };

    tokio::time::timeout(LAST_CHANCE, last)
        .await
        .unwrap_or(Ok(()))
}
