//! A worker's session: its control stream, and its content streams beside it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::wire::peer::KeyHash;
use common::wire::stream::Open;
use common::wire::worker::{ToMaster, ToWorker};
use common::{BlobRef, HostId};
use link::alive::AliveWatch;
use link::{Channel, FrameReceiver, FrameSender, LinkError};
use quinn::{Connection, ConnectionError, VarInt};
use scheduler::Parting;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Receiver;

use super::live::PeerLink;
use super::{accept, checkpoint, content, read_open, renew, share, stopped, within_deadline};
use crate::core::ask::HostAsk;
use crate::core::{Outbox, SessionId, greeted, with_its_content};
use crate::run::SessionContext;
use crate::store::Peer;

static SESSIONS: AtomicU64 = AtomicU64::new(1);
/// The most messages of one worker that wait for the core.
const UNREAD: usize = 32;
/// The time that the last message to a worker may take.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Serves a worker until its connection ends.
pub(super) async fn serve(
    state: &Arc<SessionContext>,
    connection: Connection,
    peer: Peer,
    way: HostWay,
) -> Result<(), LinkError> {
    let link = PeerLink::Direct(connection.clone());
    let worker = Arc::new(Worker::new(state, link, peer, way)?);
    loop {
        let channel = accept(&connection).await?;
        let worker = worker.clone();
        tokio::spawn(async move {
            if let Err(error) = worker.serve_stream(channel).await {
                tracing::debug!(host = worker.peer.name, %error, "stream ended");
            }
        });
    }
}

/// The address of a worker as the master sees it, unless the connection goes through a tunnel, and
/// the hash of its key.
pub(super) type HostWay = (Option<IpAddr>, KeyHash);

/// A connected worker.
pub(super) struct Worker {
    state: Arc<SessionContext>,
    connection: PeerLink,
    peer: Peer,
    host: HostId,
    way: HostWay,
    /// Whether the worker has opened its control stream.
    controlled: AtomicBool,
}

impl Worker {
    /// A worker at the other end of this link.
    ///
    /// # Errors
    /// If the peer is no host.
    pub(super) fn new(
        state: &Arc<SessionContext>,
        connection: PeerLink,
        peer: Peer,
        way: HostWay,
    ) -> Result<Self, LinkError> {
        let host = peer
            .host
            .ok_or_else(|| LinkError::BadIdentity("a worker that is no host".to_owned()))?;
        Ok(Self {
            state: state.clone(),
            connection,
            peer,
            host,
            way,
            controlled: AtomicBool::new(false),
        })
    }

    /// Serves one stream, whose purpose comes first on it.
    pub(super) async fn serve_stream(&self, mut channel: Channel) -> Result<(), LinkError> {
        match read_open(&mut channel).await? {
            Open::Control if !self.controlled.swap(true, Ordering::Relaxed) => {
                let mut session = HostSession::of(self);
                let ended = self.serve_control(channel, &mut session).await;
                let is_up = session.end(self.parting(ended.as_ref().err()));
                if let (false, PeerLink::Direct(connection)) = (is_up, &self.connection) {
                    // Whoever ends the master says for how long the worker is to stay away.
                    return Err(super::ended(connection).await);
                }

                let why = ended.as_ref().map_or_else(LinkError::to_string, |()| {
                    "the control stream ended".to_owned()
                });
                self.connection.close(VarInt::from_u32(0), why.as_bytes());
                ended
            }
            open @ (Open::Renew { .. } | Open::RenewProved { .. }) => {
                self.renew(&open, channel).await
            }
            Open::Tail { ticket } => {
                self.state.tails.give(ticket, channel);
                Ok(())
            }
            // Hosts behind a gateway fetch from that, and are not told of others.
            Open::Get { hash, offset, .. } if matches!(self.connection, PeerLink::Through(_)) => {
                let open = Open::Get {
                    hash,
                    offset,
                    peers: false,
                    failed: Vec::new(),
                };
                content::serve(&self.state, &self.peer, open, channel).await
            }
            open => content::serve(&self.state, &self.peer, open, channel).await,
        }
    }

    /// Serves a renewal. One that came through a gateway has to be [`renew::proved`].
    pub(super) async fn renew(&self, open: &Open, channel: Channel) -> Result<(), LinkError> {
        let csr = match (&self.connection, open) {
            (PeerLink::Direct(_), Open::Renew { csr }) => Ok(&csr[..]),
            _ => renew::proved(&self.state, &self.peer, open).await?,
        };
        renew::serve(&self.state, &self.peer, csr, channel).await
    }

    async fn serve_control(
        &self,
        mut channel: Channel,
        begun: &mut HostSession<'_>,
    ) -> Result<(), LinkError> {
        let state = &self.state;
        let host = self.host;
        let session = begun.id;
        let (outbox, inbox) = Outbox::new(self.connection.clone());
        let alive = AliveWatch::new(state.workers.enter(), outbox.sender());
        let hello = within_deadline(channel.rx.expect::<ToMaster>()).await?;
        let name = self.peer.name.clone();
        let heartbeat = state.config.heartbeat.span();
        let sender = outbox.sender().clone().downgrade();
        let connected = match greeted(hello, (host, name), session, outbox, heartbeat) {
            Ok(connected) => connected,
            Err(refusal) => {
                channel.tx.send(&ToWorker::Refused(refusal.clone())).await?;
                channel.tx.finish();
                channel.tx.delivered().await;
                return Err(refusal.into());
            }
        };

        state.uploads.make_room(host, connected.facts.slots);
        begun.greeted = true;
        let connected = HostAsk::Connected(Box::new(connected));
        state.core.ask::<()>(connected).await.map_err(stopped)?;
        let (seen, key) = self.way;
        let _entered = seen.map(|seen| state.shared.enter((host, session), seen, key, sender));
        tokio::select! {
            ended = speak(channel.tx, inbox, &alive) => ended,
            ended = listen(state, channel.rx, (host, session), &alive) => ended,
            broken = self.broken(&alive) => Err(broken),
        }
    }
}

impl Worker {
    /// Returns how the connection ended, or the control stream where that went first. A gateway does not tell.
    fn parting(&self, error: Option<&LinkError>) -> Parting {
        let PeerLink::Direct(connection) = &self.connection else {
            return Parting::Silent;
        };
        match (connection.close_reason(), error) {
            (Some(ConnectionError::Reset), _) => Parting::Reset,
            (Some(ConnectionError::TimedOut), _) | (None, Some(LinkError::Closed(_))) => {
                Parting::Silent
            }
            _ => Parting::Closed,
        }
    }

    /// Resolves once the worker has broken its promise. That of one behind a gateway is watched there.
    async fn broken(&self, alive: &AliveWatch) -> LinkError {
        match &self.connection {
            PeerLink::Direct(connection) => alive.broken(connection).await,
            PeerLink::Through(link) => {
                link.closed().await;
                LinkError::Closed("its session at the gateway was closed".to_owned())
            }
        }
    }
}

/// A session of a host. The core is told of its end, also where what serves it is dropped: that happens to the
/// streams of a session at a gateway that ends.
struct HostSession<'a> {
    worker: &'a Worker,
    id: SessionId,
    /// Whether the core was asked to enter it.
    greeted: bool,
    ended: bool,
}

impl<'a> HostSession<'a> {
    fn of(worker: &'a Worker) -> Self {
        Self {
            worker,
            id: SessionId(SESSIONS.fetch_add(1, Ordering::Relaxed)),
            greeted: false,
            ended: false,
        }
    }

    /// Ends the session. False if there is no core any more.
    fn end(&mut self, how: Parting) -> bool {
        self.ended = true;
        let state = &self.worker.state;
        let host = self.worker.host;
        if self.greeted {
            state.uploads.forget_named(host);
        }
        state.core.tell(HostAsk::Disconnected(host, self.id, how))
    }
}

impl Drop for HostSession<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(self.worker.parting(None));
        }
    }
}

/// Sends the core's messages to the host, with all that are ready in one write.
async fn speak(
    mut tx: FrameSender,
    mut inbox: Receiver<ToWorker>,
    alive: &AliveWatch,
) -> Result<(), LinkError> {
    let mut messages = Vec::new();
    while inbox.recv_many(&mut messages, 64).await > 0 {
        for message in messages.drain(..) {
            match &message {
                ToWorker::Assign(_) | ToWorker::AssignTogether(_) => alive.on_assigned(),
                ToWorker::Beat { abandon } if abandon.is_empty() && alive.saves_answers() => {
                    continue;
                }
                _ => {}
            }
            tx.push(&message)?;
            if let ToWorker::Refused(refusal) = message {
                tx.flush().await?;
                tx.finish();
                let _ = tokio::time::timeout(LAST_WORD, tx.delivered()).await;
                return Err(refusal.into());
            }
        }
        tx.flush().await?;
    }

    // The core has dropped the outbox.
    Err(LinkError::Closed(
        "replaced by a newer session of the same host, or by another master".to_owned(),
    ))
}

async fn listen(
    state: &SessionContext,
    mut rx: FrameReceiver,
    (host, session): (HostId, SessionId),
    alive: &AliveWatch,
) -> Result<(), LinkError> {
    // The messages that wait for the core are bounded: a worker that sends more waits, and delays
    // no other.
    let unread = Arc::new(Semaphore::new(UNREAD));
    while let Some(message) = rx.recv::<ToMaster>().await? {
        let Ok(turn) = unread.clone().acquire_owned().await else {
            break;
        };
        match message {
            ToMaster::Hello { .. } => return Err(LinkError::Protocol("a second Hello".to_owned())),
            ToMaster::Alive(next) => alive.on_promise(next),
            ToMaster::Checkpoint {
                attempt,
                sequence,
                saving,
            } => {
                checkpoint::take(state, host, attempt, sequence, saving, turn).await;
            }
            message => {
                let Some(message) = share::hear(state, (host, session), message) else {
                    continue;
                };
                if matches!(message, ToMaster::Heartbeat { .. }) {
                    alive.adapt();
                }
                // If some content is missing, the session ends: the worker reconnects, uploads the
                // content of all that was not acknowledged, and delivers again.
                let named = content::named_by(&message);
                let brought = |blob: &BlobRef| state.uploads.brought(host, blob);
                let mut whole = with_its_content(&message, brought);
                if whole.is_ok() {
                    let here = content::count_on(state, &named).await?;
                    whole = with_its_content(&message, |blob| here.contains(blob));
                }
                if let Err(what) = whole {
                    tracing::warn!(%host, "{what}");
                    return Err(LinkError::Protocol(what));
                }
                let breaks_off = share::may_break_off(&message);
                state
                    .core
                    .tell_in_turn(HostAsk::Said(host, session, message), turn);
                state.uploads.named(host, named.into_iter());
                if breaks_off {
                    share::free_places(state, host).await?;
                }
            }
        }
    }

    Ok(())
}
