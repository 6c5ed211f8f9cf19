//! Accepts connections: bounds those that have not shown who they are, and all together.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use common::Incarnation;
use common::token::Role;
use common::wire::enrol::EnrolReply;
use common::wire::gateway::FromGateway;
use common::wire::{Refusal, RefusalCode, Versions};
use link::door::hear_joiner;
use link::error::{NOT_LET_IN, NOT_NOW};
use link::handshake::HandshakeFacts;
use link::{Channel, LinkError, Listener, Purpose, TakenPlace, wall_clock};
use quinn::{Connection, Incoming, VarInt};
use tokio::time::timeout;

use crate::session;
use crate::{ELSEWHERE, GatewayState};

/// The time that a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The longest time that a joiner may take until it has its answer.
const ENROLMENT: Duration = Duration::from_secs(40);
/// The time that a joiner has to read its answer and go.
const READ: Duration = Duration::from_secs(2);
/// The words for who comes to the wrong place.
const FOR_WORKERS: &str =
    "this is a gateway, which serves workers alone: use the address of the master itself";

/// The words for who comes while there is no master.
pub(crate) const NO_MASTER: &str = "this gateway has no connection to a master at present";

/// Accepts connections until the endpoint closes.
pub(crate) async fn serve(gateway: &Arc<GatewayState>, listener: &Listener) {
    let endpoint = listener.endpoint();
    while let Some(incoming) = endpoint.accept().await {
        let open = endpoint.open_connections();
        let Some((incoming, place)) = gateway.door.let_in(incoming, open) else {
            continue;
        };

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
        shaken = timeout(HANDSHAKE, connecting) => {
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
            drop(place);
            let enrolled = enrol(gateway, &connection, from, shown.wanted);
            timeout(ENROLMENT, enrolled).await.unwrap_or(Ok(()))
        }
        (Purpose::Worker, None) => close(NOT_LET_IN, "a certificate of the grid is needed"),
        (Purpose::Worker, Some(certificate)) if certificate.name.grid != gateway.grid => {
            close(NOT_LET_IN, "this identity is of another grid")
        }
        (Purpose::Worker, Some(certificate)) if certificate.name.role != Role::Worker => {
            close(NOT_LET_IN, "this identity is no worker's")
        }
        // Elsewhere somebody may have one.
        (Purpose::Worker, Some(_)) if master.is_none() => close(NOT_NOW, NO_MASTER),
        (Purpose::Worker, Some(certificate)) => {
            drop(place);
            session::serve(gateway, connection, certificate, from).await
        }
        (Purpose::Client | Purpose::Gateway, _) => close(NOT_LET_IN, FOR_WORKERS),
    }
}

/// Passes a joiner on to the master ([`FromGateway::Enrol`]), once it has said what it wants: one request, one reply.
async fn enrol(
    gateway: &GatewayState,
    connection: &Connection,
    from: IpAddr,
    wanted: Option<String>,
) -> Result<(), LinkError> {
    let mut silent = gateway.door.joins(from);
    let nothing = |why: &str| {
        connection.close(NOT_NOW, why.as_bytes());
        Err(LinkError::Closed(why.to_owned()))
    };
    let (joiner, request) = match hear_joiner(connection, &mut silent).await? {
        Ok(heard) => heard,
        Err(why) => return nothing(why),
    };

    let master = gateway.upstream.borrow().clone();
    let passing = async {
        let Some(master) = master else {
            return no_master(joiner).await;
        };
        let first = FromGateway::Enrol { from, wanted };
        let mut upstream = master.stream(&first).await?;
        upstream.tx.send(&request).await?;
        upstream.tx.finish();
        session::copy(upstream.rx, joiner.tx, session::STALL).await
    };
    // Until it is gone it is one of those who have shown nothing.
    tokio::select! {
        passed = passing => {
            passed?;
            let _ = timeout(READ, connection.closed()).await;
            connection.close(ELSEWHERE, b"that was all");
            Ok(())
        }
        () = silent.lost() => nothing("others came after it"),
    }
}

/// Tells a joiner to ask elsewhere, with [`EnrolReply::StandsBy`].
async fn no_master(mut joiner: Channel) -> Result<(), LinkError> {
    let reply = EnrolReply::StandsBy {
        versions: Versions::ours(),
        now: wall_clock(),
        active: None,
        incarnation: Incarnation(0),
        trouble: Some(NO_MASTER.to_owned()),
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
