//! A worker's session: its control stream, and its content streams beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::HostId;
use common::host::Status;
use common::wire::stream::Open;
use common::wire::worker::{Delivery, ToMaster, ToWorker};
use common::wire::{Refusal, RefusalCode, Versions};
use link::{Channel, FrameReceiver, FrameSender, LinkError};
use quinn::{Connection, VarInt};
use scheduler::Event;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Content, accept, checkpoint, read_open, serve_content, stopped, within_deadline};
use crate::core::{Connected, SessionId};
use crate::run::State;
use crate::store::Peer;

static SESSIONS: AtomicU64 = AtomicU64::new(1);
/// More slots than this are a mistake, or hostile.
const MAX_SLOTS: u32 = 65_536;

/// Serves a worker until its connection ends.
pub(super) async fn serve(state: &Arc<State>, connection: Connection, peer: Peer) -> Result<(), LinkError> {
    let Some(host) = peer.host else { return Err(LinkError::BadIdentity("a worker that is no host".to_owned())) };
    let worker = Arc::new(Worker { state: state.clone(), connection, peer, host, controlled: AtomicBool::new(false) });
    loop {
        let channel = accept(&worker.connection).await?;
        let worker = worker.clone();
        tokio::spawn(async move {
            if let Err(error) = worker.serve_stream(channel).await {
                tracing::debug!(host = worker.peer.name, %error, "stream ended");
            }
        });
    }
}

/// A connected worker.
struct Worker {
    state: Arc<State>,
    connection: Connection,
    peer: Peer,
    host: HostId,
    /// Whether it has opened its control stream.
    controlled: AtomicBool,
}

impl Worker {
    async fn serve_stream(&self, mut channel: Channel) -> Result<(), LinkError> {
        match read_open(&mut channel).await? {
            Open::Control if !self.controlled.swap(true, Ordering::Relaxed) => {
                let (session, host) = (SessionId(SESSIONS.fetch_add(1, Ordering::Relaxed)), self.host);
                let ended = serve_control(&self.state, channel, &self.peer, host, session).await;
                self.state.core.tell(move |core| core.on_disconnected(host, session));
                let why = ended.as_ref().map_or_else(LinkError::to_string, |()| "the control stream ended".to_owned());
                self.connection.close(VarInt::from_u32(0), why.as_bytes());
                ended
            }
            open => serve_content(&self.state, &self.peer.name, Content::Result, open, channel).await,
        }
    }
}

async fn serve_control(
    state: &Arc<State>,
    mut channel: Channel,
    peer: &Peer,
    host: HostId,
    session: SessionId,
) -> Result<(), LinkError> {
    let (outbox, inbox) = unbounded_channel();
    let hello = within_deadline(channel.rx.expect::<ToMaster>()).await?;
    let connected = match welcome(state, hello, peer, host, session, outbox) {
        Ok(connected) => connected,
        Err(refusal) => {
            channel.tx.send(&ToWorker::Refused(refusal.clone())).await?;
            channel.tx.finish();
            channel.tx.delivered().await;
            return Err(refusal.into());
        }
    };
    state.core.ask(move |core| core.on_connected(connected)).await.map_err(stopped)?;
    tokio::select! {
        ended = speak(channel.tx, inbox) => ended,
        ended = listen(state, channel.rx, host, session) => ended,
    }
}

fn welcome(
    state: &State,
    hello: ToMaster,
    peer: &Peer,
    host: HostId,
    session: SessionId,
    outbox: UnboundedSender<ToWorker>,
) -> Result<Connected, Refusal> {
    let invalid = |what: &str| Refusal::new(RefusalCode::Invalid, what, "is this a deskgrid worker?");
    let ToMaster::Hello { versions, facts, status, held } = hello else {
        return Err(invalid("the first message must be Hello"));
    };
    let version = Versions::ours().agree(&versions)?;
    if !(1..=MAX_SLOTS).contains(&facts.slots) {
        return Err(invalid(&format!("a host has 1 to {MAX_SLOTS} slots, not {}", facts.slots)));
    }
    let (name, heartbeat) = (peer.name.clone(), state.config.heartbeat.span());
    Ok(Connected { host, name, session, outbox, version, heartbeat, facts, status: sound(status), held })
}

/// A status whose numbers are what they must be.
fn sound(status: Status) -> Status {
    let cpu = if status.cpu.is_finite() { status.cpu.clamp(0.0, 1.0) } else { 0.0 };
    Status { cpu, ..status }
}

/// Sends what the core has for the host, as many messages in one write as there are.
async fn speak(mut tx: FrameSender, mut inbox: UnboundedReceiver<ToWorker>) -> Result<(), LinkError> {
    let mut messages = Vec::new();
    while inbox.recv_many(&mut messages, 64).await > 0 {
        for message in messages.drain(..) {
            tx.push(&message)?;
        }
        tx.flush().await?;
    }
    // The core has dropped the outbox: another session of the host has taken over.
    Err(LinkError::Closed("replaced by a newer session of the same host".to_owned()))
}

async fn listen(state: &State, mut rx: FrameReceiver, host: HostId, session: SessionId) -> Result<(), LinkError> {
    let event = |event| state.core.tell(move |core| core.on_event(host, session, event));
    while let Some(message) = rx.recv::<ToMaster>().await? {
        match message {
            ToMaster::Hello { .. } => return Err(LinkError::Protocol("a second Hello".to_owned())),
            ToMaster::Heartbeat { status, held } => {
                state.core.tell(move |core| core.on_heartbeat(host, session, sound(status), held));
            }
            ToMaster::Phases(held) => event(Event::AttemptsMoved { host, held }),
            ToMaster::Delivered(deliveries) => deliver(state, host, deliveries)?,
            ToMaster::Returned { attempts, why } => {
                tracing::debug!(%host, count = attempts.len(), why, "returned");
                event(Event::AttemptsReturned { host, attempts });
            }
            ToMaster::Owner(owner) => event(Event::OwnerChanged { host, owner }),
            ToMaster::Checkpoint { attempt, sequence, saving } => {
                checkpoint::take(state, host, attempt, sequence, saving).await;
            }
            ToMaster::Leaving => event(Event::HostLeft { host }),
            ToMaster::Recorded { last, stretches } => {
                state.core.tell(move |core| core.on_recorded(host, session, last, &stretches));
            }
        }
    }
    Ok(())
}

/// Takes completions whose content is here. Should some of it not be, the session ends: the worker comes back, sends
/// the content of all that was not acknowledged, and delivers again.
fn deliver(state: &State, host: HostId, deliveries: Vec<Delivery>) -> Result<(), LinkError> {
    let here = |delivery: &Delivery| delivery.completion.blobs().all(|blob| state.blobs.has(&blob));
    if let Some(broken) = deliveries.iter().find(|delivery| !here(delivery)) {
        let what = format!("the completion of {} came without its content", broken.completion.attempt);
        tracing::warn!(%host, "{what}");
        return Err(LinkError::Protocol(what));
    }
    state.core.tell(move |core| deliveries.into_iter().try_for_each(|delivery| core.on_delivery(host, delivery)));
    Ok(())
}
