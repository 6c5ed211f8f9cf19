//! The open connections by identity, so that they can be counted, and closed at once when an
//! identity is revoked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::wire::gateway::ToGateway;
use link::error::away_code;
use quinn::{Connection, VarInt};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::watch;
use uuid::Uuid;

use crate::locked;

/// The handles to the [`Busy`] of an idle connection: those of `OneSession`, of [`Present`] and of the
/// session.
const IDLE: usize = 3;

/// The time that each worker adds to that over which all come back: a handshake takes a master about a millisecond of one
/// processor, and users come in between.
const HANDSHAKE_SHARE: Duration = Duration::from_millis(4);

/// The rule for an identity that has too many connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// Closes the oldest connection without a request. If each has one, the new connection is
    /// refused.
    OldestIdleGoes,
    /// Closes the oldest connection. If that is the new one, it is refused.
    OldestGoes,
}

#[derive(Debug, Default)]
struct OpenSessions {
    next: u64,
    by: BTreeMap<Uuid, BTreeMap<u64, OneSession>>,
}

#[derive(Debug)]
struct OneSession {
    connection: PeerLink,
    /// Whether the connection was let in: only then does it count against others of its identity.
    admitted: bool,
    /// Cloned by each request that is being answered.
    busy: Busy,
}

/// The connection of a peer: its own, or one that ends at a gateway.
#[derive(Debug, Clone)]
pub(crate) enum PeerLink {
    /// Its own.
    Direct(Connection),
    /// A session at a gateway.
    Through(Arc<GatewayLink>),
}

/// A session at a gateway, to be closed there.
#[derive(Debug)]
pub(crate) struct GatewayLink {
    session: u64,
    tell: Sender<ToGateway>,
    gateway: Connection,
    closed: watch::Sender<bool>,
}

impl GatewayLink {
    /// For the session of this number, with the way to its gateway.
    pub(crate) fn new(session: u64, tell: Sender<ToGateway>, gateway: Connection) -> Self {
        Self {
            session,
            tell,
            gateway,
            closed: watch::Sender::new(false),
        }
    }

    /// Resolves once the session is to end.
    pub(crate) async fn closed(&self) {
        // The sender is in `self`.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }
}

impl PeerLink {
    /// Closes the connection, or has the gateway close it by [`ToGateway::Close`].
    pub(crate) fn close(&self, code: VarInt, why: &[u8]) {
        match self {
            PeerLink::Direct(connection) => connection.close(code, why),
            PeerLink::Through(link) => {
                if !link.closed.send_replace(true) {
                    let told = link.tell.try_send(ToGateway::Close {
                        session: link.session,
                        code: u32::try_from(code.into_inner()).unwrap_or(0),
                        why: String::from_utf8_lossy(why).into_owned(),
                    });
                    // One that reads nothing keeps sessions open that are to end.
                    if matches!(told, Err(TrySendError::Full(_))) {
                        let why = b"it does not read which sessions end";
                        link.gateway.close(VarInt::from_u32(0), why);
                    }
                }
            }
        }
    }
}

/// A handle that a connection's requests hold while they are answered.
pub(crate) type Busy = Arc<()>;

/// The table of all open connections. Cloning gives another handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveSessions(Arc<Mutex<OpenSessions>>);

/// The entry of one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Present {
    live: LiveSessions,
    id: Uuid,
    number: u64,
    busy: Busy,
}

impl LiveSessions {
    /// Enters a connection whose certificate names this identity.
    pub(crate) fn enter(&self, id: Uuid, connection: &PeerLink) -> Present {
        let busy = Busy::default();
        let mut open = locked(&self.0);
        let number = open.next;

        open.next += 1;
        open.by.entry(id).or_default().insert(
            number,
            OneSession {
                connection: connection.clone(),
                admitted: false,
                busy: busy.clone(),
            },
        );

        Present {
            live: self.clone(),
            id,
            number,
            busy,
        }
    }

    /// Closes every connection of an identity with `NOT_LET_IN`, and returns their number.
    pub(crate) fn close(&self, id: Uuid, why: &str) -> usize {
        let open = locked(&self.0);
        let connections = open.by.get(&id).into_iter().flat_map(BTreeMap::values);
        connections
            .map(|one| {
                one.connection
                    .close(link::error::NOT_LET_IN, why.as_bytes());
            })
            .count()
    }

    /// Closes every connection, so that whoever it is tries another master, or this one again. Workers do so over a time
    /// that grows with their number.
    pub(crate) fn close_all(&self, why: &str) {
        let open = locked(&self.0);
        let peers = || open.by.values().flat_map(BTreeMap::values);
        let own = peers().filter(|one| matches!(one.connection, PeerLink::Direct(_)));
        let spread = HANDSHAKE_SHARE.saturating_mul(u32::try_from(own.count()).unwrap_or(u32::MAX));

        let code = away_code(spread);
        peers().for_each(|one| one.connection.close(code, why.as_bytes()));
    }

    /// The number of connections of an identity that were let in.
    pub(crate) fn count(&self, id: Uuid) -> u32 {
        let open = locked(&self.0);
        let admitted = open
            .by
            .get(&id)
            .into_iter()
            .flat_map(BTreeMap::values)
            .filter(|one| one.admitted);
        u32::try_from(admitted.count()).unwrap_or(u32::MAX)
    }
}

impl Present {
    /// The handle that each request of this connection holds while it is answered.
    pub(crate) fn busy(&self) -> Busy {
        self.busy.clone()
    }

    /// Lets the connection in. If its identity has `most` already, `beyond` decides which one has
    /// to go; false if it is this one.
    pub(crate) fn admit(&self, most: usize, beyond: Beyond) -> bool {
        let mut open = locked(&self.live.0);
        let Some(of_it) = open.by.get_mut(&self.id) else {
            return false;
        };
        let admitted = || of_it.iter().filter(|(_, one)| one.admitted);

        if admitted().count() >= most {
            let idle = |one: &OneSession| Arc::strong_count(&one.busy) <= IDLE;
            let (goes, why): (_, &[u8]) = match beyond {
                Beyond::OldestIdleGoes => {
                    let goes = admitted()
                        .find(|(_, one)| idle(one))
                        .map(|(number, _)| *number);
                    if goes.is_none() {
                        return false;
                    }
                    (
                        goes,
                        b"too many connections of one identity, and this one asked nothing",
                    )
                }
                Beyond::OldestGoes => {
                    let oldest = admitted().next().map(|(number, _)| *number);
                    if oldest > Some(self.number) {
                        // Connections are let in in any order: this one is the oldest itself.
                        return false;
                    }
                    (oldest, b"too many connections of one identity")
                }
            };

            if let Some(one) = goes.and_then(|number| of_it.get_mut(&number)) {
                one.connection.close(link::error::NOT_NOW, why);
                // It no longer counts, however long it takes to close.
                one.admitted = false;
            }
        }

        if let Some(one) = of_it.get_mut(&self.number) {
            one.admitted = true;
        }

        true
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut open = locked(&self.live.0);
        if let Some(of_it) = open.by.get_mut(&self.id) {
            of_it.remove(&self.number);
            if of_it.is_empty() {
                open.by.remove(&self.id);
            }
        }
    }
}
