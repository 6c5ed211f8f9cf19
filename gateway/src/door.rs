//! Accepts connections: bounds those that have not shown who they are, and all together.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use common::token::Role;
use common::wire::enrol::EnrolReply;
use common::wire::gateway::FromGateway;
use common::wire::{Refusal, RefusalCode, Versions};
use common::{Incarnation, Span, Time};
use link::error::NOT_LET_IN;
use link::handshake::HandshakeFacts;
use link::{BoundedPlaces, Channel, LinkError, Listener, Purpose, TakenPlace};
use quinn::{Connection, Incoming, VarInt};

use crate::session;
use crate::upstream::Upstream;
use crate::{ELSEWHERE, GatewayState};

/// The most pending handshakes before new ones must prove their address; at all; from one address.
const UNPROVED: usize = 200;
const PENDING: usize = 1_600;
const OF_ONE: usize = 400;
/// The time that a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The longest time that a joiner may take until it has its answer.
const ENROLMENT: Duration = Duration::from_secs(40);
/// Closes a connection whose peer may try again, as `NOT_NOW` of the master does.
const NOT_NOW: VarInt = VarInt::from_u32(2);
/// The words for who comes to the wrong place.
const FOR_WORKERS: &str =
    "this is a gateway, which serves workers alone: use the address of the master itself";

/// Accepts connections until the endpoint closes.
pub(crate) async fn serve(gateway: &Arc<GatewayState>, listener: &Listener) {
    let pending = BoundedPlaces::new(PENDING, OF_ONE);
    let endpoint = listener.endpoint();
    while let Some(incoming) = endpoint.accept().await {
        if gateway.open().len() >= gateway.config.most_workers {
            incoming.refuse();
            continue;
        }
        if pending.len() >= UNPROVED && !incoming.remote_address_validated() {
            // Fails only if the address is proved already.
            let _ = incoming.retry();
            continue;
        }
        let place = pending.enter(incoming.remote_address().ip());

        let gateway = gateway.clone();
        let listener = listener.clone();
        tokio::spawn(async move {
            if let Err(error) = serve_connection(&gateway, incoming, place, &listener).await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
}

async fn serve_connection(
    gateway: &Arc<GatewayState>,
    incoming: Incoming,
    mut place: TakenPlace,
    listener: &Listener,
) -> Result<(), LinkError> {
    let from = incoming.remote_address().ip();
    let connecting = listener.accept(incoming)?;
    let connection = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE, connecting) => {
            shaken.map_err(|_| LinkError::Closed("the handshake took too long".to_owned()))??
        }
        () = place.lost() => return Ok(()),
    };

    let shown = HandshakeFacts::read(&connection)?;
    let close = |code: VarInt, why: &str| {
        tracing::debug!(%from, why, "refused");
        connection.close(code, why.as_bytes());
        Ok(())
    };
    let master = gateway.upstream.borrow().clone();
    match (shown.purpose, shown.certificate) {
        (Purpose::Enrol, _) => {
            let enrolled = enrol(master, &connection, from, shown.wanted);
            tokio::time::timeout(ENROLMENT, enrolled)
                .await
                .unwrap_or(Ok(()))
        }
        (Purpose::Worker, None) => close(NOT_LET_IN, "a certificate of the grid is needed"),
        (Purpose::Worker, Some(certificate)) if certificate.name.grid != gateway.grid => {
            close(NOT_LET_IN, "this identity is of another grid")
        }
        (Purpose::Worker, Some(certificate)) if certificate.name.role != Role::Worker => {
            close(NOT_LET_IN, "this identity is no worker's")
        }
        // Elsewhere somebody may have one.
        (Purpose::Worker, Some(_)) if master.is_none() => close(
            NOT_NOW,
            "this gateway has no connection to a master at present",
        ),
        (Purpose::Worker, Some(certificate)) => {
            drop(place);
            session::serve(gateway, connection, certificate, from).await
        }
        (Purpose::Client | Purpose::Gateway, _) => close(NOT_LET_IN, FOR_WORKERS),
    }
}

/// Passes a joiner on to the master ([`FromGateway::Enrol`]): one request, one reply.
async fn enrol(
    master: Option<Upstream>,
    connection: &Connection,
    from: IpAddr,
    wanted: Option<String>,
) -> Result<(), LinkError> {
    let (tx, rx) = connection.accept_bi().await?;
    let joiner = Channel::new(tx, rx);
    let passed = match master {
        Some(master) => {
            let first = FromGateway::Enrol { from, wanted };
            let upstream = master.stream(&first).await?;
            session::join(joiner, upstream).await
        }
        None => no_master(joiner).await,
    };
    let _ = connection.closed().await;
    connection.close(ELSEWHERE, b"that was all");
    passed
}

/// Tells a joiner to ask elsewhere, with [`EnrolReply::StandsBy`].
async fn no_master(mut joiner: Channel) -> Result<(), LinkError> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let reply = EnrolReply::StandsBy {
        versions: Versions::ours(),
        now: Time(0) + Span::from(since.unwrap_or_default()),
        active: None,
        incarnation: Incarnation(0),
        trouble: Some("this gateway has no connection to a master at present".to_owned()),
    };
    joiner.tx.send(&reply).await?;
    joiner.tx.finish();
    joiner.tx.delivered().await;
    Ok(())
}

/// The refusal of content while there is no master to ask.
pub(crate) fn away() -> Refusal {
    let what = "the gateway has no connection to a master at present";
    Refusal::new(RefusalCode::Unavailable, what, "")
}
