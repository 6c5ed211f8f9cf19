//! Connections to the master: authenticates each peer, and serves the streams that it opens as
//! joiner, worker or client.

mod answer;
mod answers;
pub(crate) mod bearers;
pub(crate) mod checkpoint;
mod client;
mod content;
mod damage;
mod enrol;
mod follow;
mod gateway;
pub(crate) mod live;
pub(crate) mod near;
mod renew;
mod rights;
pub(crate) mod share;
mod speculation;
mod tail;
mod unshared;
mod views;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use common::Time;
use common::token::Role;
use common::wire::stream::Open;
use link::door::OF_A_WORKER;
use link::error::{NOT_LET_IN, NOT_NOW};
use link::handshake::{Certificate, HandshakeFacts};
use link::identity::EARLIER_S;
use link::{Channel, LinkError, Listener, Purpose, TakenPlace, TunnelDoor, Validity};
use quinn::{Connection, Incoming, VarInt};

use crate::core::ask::PeerAsk;
use crate::core::{CoreHandle, NoReply};
use crate::run::SessionContext;
use crate::store::{Issued, Peer, PeerStatus};
use live::{Beyond, PeerLink};

/// The number of looks for an idle connection of an identity before another one is refused, and the
/// time between two looks.
const LOOKS_FOR_IDLE: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// The time a message may take to arrive once its stream is open.
const MESSAGE_DEADLINE: Duration = Duration::from_secs(30);
/// The time that a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The words for a peer of a master whose core has stopped.
const ENDING: &str = "the master is shutting down";
/// The time in which such a master closes its connections.
const ENDS: Duration = Duration::from_secs(1);
/// The longest time between two looks whether a peer's certificate has expired.
const LOOK: Duration = Duration::from_secs(6 * 3_600);

/// A socket on which the master accepts connections.
#[derive(Debug, Clone)]
pub(crate) struct QuicEntrance {
    pub(crate) listener: Listener,
    /// The TCP tunnels that end at this socket, if it serves tunnels.
    pub(crate) tunnels: Option<Arc<TunnelDoor>>,
}

/// Writes cut tunnels into the audit log.
pub(crate) async fn note_cuts(state: Arc<SessionContext>, tunnels: Arc<TunnelDoor>) {
    loop {
        let cut = tunnels.cut().await;
        state.refused(
            &cut.from.to_string(),
            "connect",
            "the master, over TCP",
            cut.why,
        );
    }
}

/// Accepts connections until the endpoint closes.
pub(crate) async fn serve(state: Arc<SessionContext>, entrance: QuicEntrance) {
    let entrance = Arc::new(entrance);
    let endpoint = entrance.listener.endpoint();
    while let Some(incoming) = endpoint.accept().await {
        let door = &state.counters.door;
        let Some((incoming, pending)) = door.let_in(incoming, endpoint.open_connections()) else {
            continue;
        };

        let state = state.clone();
        let entrance = entrance.clone();
        tokio::spawn(async move {
            if let Err(error) = serve_connection(&state, incoming, pending, &entrance).await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
}

/// Completes the handshake within `HANDSHAKE`, unless newer ones need its place.
async fn shake_hands(
    state: &SessionContext,
    incoming: Incoming,
    mut pending: TakenPlace,
    entrance: &QuicEntrance,
) -> Result<Connection, LinkError> {
    let address = incoming.remote_address();
    let from = address.ip();
    let ended = async {
        match &entrance.tunnels {
            Some(tunnels) => tunnels.ended(address).await,
            None => std::future::pending().await,
        }
    };
    let late = |why: &str| {
        state.refused(&from.to_string(), "connect", "the master", why);
        Err(LinkError::Closed(why.to_owned()))
    };

    let connecting = entrance.listener.accept(incoming)?;
    tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE, connecting) => match shaken {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => {
                if let quinn::ConnectionError::TransportError(broken) = &error {
                    state.refused(&from.to_string(), "connect", "the master", &broken.reason);
                }
                Err(error.into())
            }
            Err(_) => late("the handshake took too long"),
        },
        () = pending.lost() => late("others came after it, and the handshake was not over"),
        // Nobody is refused: whoever opened it has got through another way, and has gone.
        () = ended => Err(LinkError::Closed("its tunnel has ended".to_owned())),
    }
}

async fn serve_connection(
    state: &Arc<SessionContext>,
    incoming: Incoming,
    pending: TakenPlace,
    entrance: &QuicEntrance,
) -> Result<(), LinkError> {
    let address = incoming.remote_address();
    let from = address.ip();
    let tunnels = entrance.tunnels.as_deref();
    let connection = shake_hands(state, incoming, pending, entrance).await?;
    let shown = HandshakeFacts::read(&connection)?;
    if shown.purpose == Purpose::Enrol {
        return enrol::serve(state, &connection, from, shown.wanted.as_deref()).await;
    }

    let refuse = |who: &str, code: VarInt, why: &str| {
        state.refused(who, "connect", word(shown.purpose), why);
        connection.close(code, why.as_bytes());
        Ok(())
    };
    let Some(Certificate {
        name,
        key_hash,
        validity,
    }) = shown.certificate
    else {
        return refuse(
            &from.to_string(),
            NOT_LET_IN,
            "a certificate of the grid is needed",
        );
    };

    if name.grid != state.authority.grid() {
        return refuse(
            &from.to_string(),
            NOT_LET_IN,
            "this identity is of another grid",
        );
    }

    // Entered before the identity is looked up: a revocation in between closes the connection.
    let present = state
        .live
        .enter(name.id, &PeerLink::Direct(connection.clone()));
    let (core, most, beyond) = match shown.purpose {
        Purpose::Worker | Purpose::Gateway => (&state.core, OF_A_WORKER, Beyond::OldestGoes),
        _ => (
            &state.for_people,
            state.config.limits.connections_per_user as usize,
            Beyond::OldestIdleGoes,
        ),
    };
    let shows = PeerAsk::Authenticate(name.id, key_hash, Some(issued(validity)));
    let until_s = validity.until_s;
    let known = match authenticate(core, &connection, shows).await? {
        Ok(known) => known,
        Err(NoReply::Stopped) => return Err(ended(&connection).await),
        Err(why @ (NoReply::NotAsked(_) | NoReply::InDoubt)) => {
            let _busy = present.busy();
            return match present.admit(most, beyond) {
                true => client::refuse(&connection, why.into()).await,
                false => refuse(&name.id.to_string(), NOT_NOW, "too many connections wait"),
            };
        }
    };
    let peer = match let_in(known, until_s < link::renewal::now_s()) {
        Ok(peer) => peer,
        Err(Outside { who, code, why }) => {
            return refuse(&who.unwrap_or_else(|| from.to_string()), code, why);
        }
    };

    let _known = tunnels.map(|tunnels| tunnels.known(address));
    if !let_stay(&present, most, beyond).await {
        let why = format!("this identity has {most} connections already");
        return refuse(&peer.name, NOT_NOW, &why);
    }

    let now_s = link::renewal::now_s();
    if until_s < now_s {
        // A host that was off for a month comes back by itself: the table knows its key, and a host
        // that must not come back is revoked there. A person joins again.
        return match !peer.role.is_user() || state.away.excuses(until_s, now_s) {
            true => renew::serve_expired(state, &connection, &peer).await,
            false => refuse(&peer.name, NOT_LET_IN, &expired(until_s, now_s)),
        };
    }

    let id = peer.id;
    let served = async {
        match (shown.purpose, peer.role) {
            (Purpose::Worker, Role::Worker) => {
                let seen = tunnels.is_none().then_some(from);
                worker::serve(state, connection.clone(), peer, (seen, key_hash)).await
            }
            (Purpose::Client, Role::Client | Role::Admin) => {
                client::serve(state, connection.clone(), peer, present.busy()).await
            }
            (Purpose::Gateway, Role::Gateway) => {
                gateway::serve(state, connection.clone(), peer).await
            }
            _ => refuse(
                &peer.name,
                NOT_LET_IN,
                &format!("an identity of role {} may not do this", peer.role),
            ),
        }
    };
    tokio::select! {
        served = served => served,
        () = expiry(state, id, until_s) => refuse(&id.to_string(), NOT_LET_IN, "its certificate has expired"),
    }
}

/// Whether the connection may stay beside the others of its identity. An answer is usually over
/// within moments, so if all others are busy the check is repeated `LOOKS_FOR_IDLE` times.
async fn let_stay(present: &live::Present, most: usize, beyond: Beyond) -> bool {
    for _ in 0..LOOKS_FOR_IDLE {
        if present.admit(most, beyond) {
            return true;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    present.admit(most, beyond)
}

/// The refusal of a peer that is not let in.
struct Outside {
    /// The identity's name, if it is known.
    who: Option<String>,
    code: VarInt,
    why: &'static str,
}

/// Asks the core who `shows` this identity and key. Whoever has gone meanwhile waits for nothing, however long the database is silent.
async fn authenticate(
    core: &CoreHandle,
    connection: &Connection,
    shows: PeerAsk,
) -> Result<Result<PeerStatus, NoReply>, LinkError> {
    tokio::select! {
        known = core.ask(shows) => Ok(known),
        error = connection.closed() => Err(LinkError::Closed(error.to_string())),
    }
}

/// Returns when a certificate of this validity was issued, and when it expires.
fn issued(validity: Validity) -> Issued {
    Issued {
        at_s: validity.from_s.saturating_add(EARLIER_S),
        until_s: validity.until_s,
    }
}

/// Returns the peer if its `PeerStatus` lets it in, else the refusal to send.
fn let_in(standing: PeerStatus, expired: bool) -> Result<Peer, Outside> {
    let (who, code, why) = match standing {
        PeerStatus::In(peer) => return Ok(peer),
        PeerStatus::Unknown if expired => (
            None,
            NOT_LET_IN,
            "its certificate has expired, and this identity is not known here",
        ),
        PeerStatus::Unknown => (None, NOT_LET_IN, "this identity is not known here"),
        PeerStatus::Revoked(peer) => (Some(peer.name), NOT_LET_IN, "this identity was revoked"),
        PeerStatus::Waiting(peer) => (
            Some(peer.name),
            NOT_NOW,
            "this identity waits for an admin to approve it",
        ),
        PeerStatus::Former(peer) => {
            let why = "this identity was renewed elsewhere since: was it copied, or brought back from a backup?";
            (Some(peer.name), NOT_LET_IN, why)
        }
    };

    Err(Outside { who, code, why })
}

/// Words that a certificate has expired, with the time of the master's clock.
fn expired(until_s: i64, now_s: i64) -> String {
    let day = |s: i64| {
        let at = std::time::UNIX_EPOCH + Duration::from_secs(u64::try_from(s).unwrap_or(0));
        humantime::format_rfc3339_seconds(at).to_string()
    };
    format!(
        "its certificate has expired at {}; by the master's clock it is {}",
        day(until_s),
        day(now_s)
    )
}

/// Ends when the identity's newest certificate has expired: the one shown, unless it was renewed.
async fn expiry(state: &SessionContext, id: uuid::Uuid, mut until_s: i64) {
    loop {
        let left = u64::try_from(until_s.saturating_sub(link::renewal::now_s())).unwrap_or(0);
        if left > 0 {
            tokio::time::sleep(Duration::from_secs(left).min(LOOK)).await;
            continue;
        }
        match state.core.ask::<Option<Time>>(PeerAsk::ExpiryOf(id)).await {
            Ok(Some(newest)) if newest.secs() as i64 > until_s => until_s = newest.secs() as i64,
            Ok(_) => return,
            // The master stops, and this connection with it.
            Err(_) => std::future::pending().await,
        }
    }
}

/// The purpose of a connection in the words of the audit log.
fn word(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Enrol => "to join",
        Purpose::Worker => "as worker",
        Purpose::Client => "as client",
        Purpose::Gateway => "as gateway",
    }
}

fn stopped(why: NoReply) -> LinkError {
    match why {
        NoReply::Stopped => LinkError::Closed(ENDING.to_owned()),
        why => LinkError::Refused(why.into()),
    }
}

/// Waits until whoever ends the master, whose core has stopped, has closed a connection, and has said why: a peer
/// that is left without a word cannot know that it may try another master.
async fn ended(connection: &Connection) -> LinkError {
    let closed = tokio::time::timeout(ENDS, connection.closed()).await;
    if closed.is_err() {
        connection.close(NOT_NOW, ENDING.as_bytes());
    }
    LinkError::Closed(ENDING.to_owned())
}

/// Accepts the next stream that the peer opens. Its server reads its purpose, so that no stream
/// waits for the first message of another.
async fn accept(connection: &Connection) -> Result<Channel, LinkError> {
    let (tx, rx) = connection.accept_bi().await?;
    Ok(Channel::new(tx, rx))
}

/// Reads the `Open` message that states a stream's purpose.
async fn read_open(channel: &mut Channel) -> Result<Open, LinkError> {
    within_deadline(channel.rx.expect()).await
}

/// Waits for one message until `MESSAGE_DEADLINE`.
async fn within_deadline<T>(
    message: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    tokio::time::timeout(MESSAGE_DEADLINE, message)
        .await
        .unwrap_or_else(|_| {
            Err(LinkError::Protocol(format!(
                "a message did not arrive within {MESSAGE_DEADLINE:?}"
            )))
        })
}
