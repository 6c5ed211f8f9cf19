//! A gateway's connection: each stream on it is one of a worker that is connected to the gateway, and
//! is served like a stream of a connection of the worker's own. The certificate of the gateway, of a
//! role of its own, is what entitles it to say which identity a worker has shown there; what the table
//! of identities says of that one counts here as anywhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use common::content::BlobHash;
use common::token::Role;
use common::wire::Versions;
use common::wire::gateway::{FromGateway, GatewaySession, NeedsReply, ToGateway};
use common::wire::stream::Open;
use common::{Incarnation, Time};
use link::error::{NOT_LET_IN, ONLY_A_RENEWAL};
use link::{Channel, LinkError};
use quinn::{Connection, VarInt};
use tokio::sync::OnceCell;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::live::{Beyond, GatewayLink, PeerLink, Present};
use super::worker::Worker;
use super::{
    OF_A_WORKER, Outside, accept, content, enrol, expiry, let_in, let_stay, read_open, renew,
    stopped, within_deadline,
};
use crate::core::ask::{PeerAsk, UpkeepAsk};
use crate::locked;
use crate::numbers;
use crate::run::SessionContext;
use crate::store::Peer;

/// The most streams that a gateway has open: each of its workers has one that lasts, and others
/// beside it for a while.
const STREAMS: VarInt = VarInt::from_u32(65_536);
/// The most bytes that wait for this master on all streams of a gateway. On each of them they are as
/// few as on any other stream, so a worker whose bytes are not read does not stop the others.
const WINDOW: VarInt = VarInt::from_u32(256 << 20);

/// The most bytes that wait for a gateway that does not read, on all its streams.
const SEND_WINDOW: u64 = 16 << 20;
/// The most messages that wait for a gateway.
const UNTOLD: usize = 65_536;

/// Serves a gateway until its connection ends, and with it every session there.
pub(super) async fn serve(
    state: &Arc<SessionContext>,
    connection: Connection,
    peer: Peer,
) -> Result<(), LinkError> {
    connection.set_max_concurrent_bi_streams(STREAMS);
    connection.set_receive_window(WINDOW);
    connection.set_send_window(SEND_WINDOW);

    let (tell, told) = channel(UNTOLD);
    let gateway = Arc::new(ConnectedGateway {
        state: state.clone(),
        peer,
        connection: connection.clone(),
        tell,
        told: Mutex::new(Some(told)),
        sessions: Mutex::default(),
    });
    loop {
        let channel = accept(&connection).await?;
        let gateway = gateway.clone();
        tokio::spawn(async move {
            if let Err(error) = gateway.serve_stream(channel).await {
                tracing::debug!(gateway = gateway.peer.name, %error, "stream ended");
            }
        });
    }
}

/// A connected gateway, an identity of [`Role::Gateway`].
struct ConnectedGateway {
    state: Arc<SessionContext>,
    peer: Peer,
    connection: Connection,
    /// The way of messages to it, and their end until its control stream takes that.
    tell: Sender<ToGateway>,
    told: Mutex<Option<Receiver<ToGateway>>>,
    /// The sessions there that have streams.
    sessions: Mutex<BTreeMap<u64, Weak<OnceCell<PassedSession>>>>,
}

/// A worker's connection at a gateway, while it has streams.
struct PassedSession {
    link: Arc<GatewayLink>,
    peer: Peer,
    worker: Worker,
    /// Whether the certificate had expired when the session began: then it may renew that, and do nothing else.
    expired: bool,
    /// Its place among the open connections of its identity.
    _present: Present,
    _counted: CountedWorker,
}

/// A worker behind a gateway of this name, counted as long as this exists.
struct CountedWorker(String);

impl CountedWorker {
    fn new(gateway: &str) -> Self {
        metrics::gauge!(numbers::THROUGH, "gateway" => gateway.to_owned()).increment(1.0);
        Self(gateway.to_owned())
    }
}

impl Drop for CountedWorker {
    fn drop(&mut self) {
        metrics::gauge!(numbers::THROUGH, "gateway" => self.0.clone()).decrement(1.0);
    }
}

impl ConnectedGateway {
    async fn serve_stream(&self, mut channel: Channel) -> Result<(), LinkError> {
        let first = within_deadline(channel.rx.expect::<FromGateway>()).await?;
        match first {
            FromGateway::Control { versions } => self.control(channel, &versions).await,
            FromGateway::Pass(shown) => self.pass(shown, channel).await,
            FromGateway::Needs(shown, hash) => self.answer_needs(shown, hash, channel).await,
            FromGateway::Enrol { from, wanted } => {
                enrol::serve_through(&self.state, &mut channel, from, wanted.as_deref()).await
            }
            FromGateway::Renew { csr } => {
                renew::serve(&self.state, &self.peer, Ok(&csr), channel).await
            }
        }
    }

    /// Tells the gateway by [`ToGateway::Close`] which sessions end, as long as it is connected.
    async fn control(&self, mut channel: Channel, versions: &Versions) -> Result<(), LinkError> {
        if let Err(refusal) = Versions::ours().agree(versions) {
            channel.tx.send(&ToGateway::Refused(refusal)).await?;
            channel.tx.finish();
            channel.tx.delivered().await;
            return Ok(());
        }
        let told = locked(&self.told).take();
        let mut told =
            told.ok_or_else(|| LinkError::Protocol("a second control stream".to_owned()))?;

        let (incarnation, _): (Incarnation, Time) = self
            .state
            .core
            .ask(UpkeepAsk::Present)
            .await
            .map_err(stopped)?;
        let name = self.peer.name.clone();
        tracing::info!(name, "a gateway is connected");
        channel
            .tx
            .send(&ToGateway::Welcome { name, incarnation })
            .await?;
        let tell = async {
            while let Some(message) = told.recv().await {
                channel.tx.send(&message).await?;
            }
            Ok(())
        };
        tokio::select! {
            told = tell => told,
            _ = self.connection.closed() => Ok(()),
        }
    }

    /// Serves a stream of a worker ([`FromGateway::Pass`]), until it or the session ends.
    async fn pass(&self, shown: GatewaySession, mut channel: Channel) -> Result<(), LinkError> {
        let cell = self.cell(shown.number);
        let Some(session) = self.session(&cell, shown).await? else {
            return Ok(());
        };
        let link = &session.link;
        let refuse = |why: &str| {
            self.refused(&session.peer.name, why);
            PeerLink::Through(link.clone()).close(NOT_LET_IN, why.as_bytes());
            Ok(())
        };

        if session.expired {
            return match read_open(&mut channel).await? {
                open @ (Open::Renew { .. } | Open::RenewProved { .. }) => {
                    session.worker.renew(&open, channel).await
                }
                _ => refuse(ONLY_A_RENEWAL),
            };
        }
        tokio::select! {
            served = session.worker.serve_stream(channel) => served,
            () = link.closed() => Ok(()),
            // As long as the worker renews its certificate the session may go on.
            () = expiry(&self.state, session.peer.id, shown.until_s) => refuse("its certificate has expired"),
        }
    }

    /// Says with a [`NeedsReply`] whether a worker may have content, and how long that is.
    async fn answer_needs(
        &self,
        shown: GatewaySession,
        hash: BlobHash,
        mut channel: Channel,
    ) -> Result<(), LinkError> {
        let cell = self.cell(shown.number);
        let Some(session) = self.session(&cell, shown).await? else {
            return Ok(());
        };
        let reply = match content::may_fetch(&self.state, &session.peer, hash).await? {
            Err(refusal) => NeedsReply::No(refusal),
            Ok(()) if session.expired => NeedsReply::No(link::content::not_here(hash)),
            Ok(()) => match self.state.blobs.size_of(&hash).await {
                Some(size) => NeedsReply::Yes(size),
                None => NeedsReply::No(link::content::not_here(hash)),
            },
        };

        channel.tx.send(&reply).await?;
        channel.tx.finish();
        channel.tx.delivered().await;
        Ok(())
    }

    /// The place of a session, shared by all its streams and forgotten after the last of them.
    fn cell(&self, number: u64) -> Arc<OnceCell<PassedSession>> {
        let mut sessions = locked(&self.sessions);
        if let Some(known) = sessions.get(&number).and_then(Weak::upgrade) {
            return known;
        }
        // Now and then those that have ended are swept out: when they are the greater part.
        if sessions.len().is_power_of_two() {
            sessions.retain(|_, session| session.strong_count() > 0);
        }
        let cell = Arc::default();
        sessions.insert(number, Arc::downgrade(&cell));
        cell
    }

    /// Lets a worker in ([`PassedSession`]) that has shown this at the gateway; `None` if it was refused, and is told so.
    async fn session<'a>(
        &self,
        cell: &'a OnceCell<PassedSession>,
        shown: GatewaySession,
    ) -> Result<Option<&'a PassedSession>, LinkError> {
        let link = Arc::new(GatewayLink::new(
            shown.number,
            self.tell.clone(),
            self.connection.clone(),
        ));
        let through = PeerLink::Through(link.clone());
        let admitted = cell.get_or_try_init(|| self.admit(shown, link)).await;

        let (code, why) = match admitted {
            Ok(session) => return Ok(Some(session)),
            Err(NotIn::Outside(code, why)) => (code, why),
            Err(NotIn::Failed(error)) => return Err(error),
        };
        through.close(code, why.as_bytes());
        Ok(None)
    }

    async fn admit(
        &self,
        shown: GatewaySession,
        link: Arc<GatewayLink>,
    ) -> Result<PassedSession, NotIn> {
        let state = &self.state;
        // Entered before the identity is looked up: a revocation in between closes the session.
        let through = PeerLink::Through(link.clone());
        let present = state.live.enter(shown.peer, &through);
        // What a gateway says of a certificate proves no renewal that the store does not know.
        let known = state
            .core
            .ask(PeerAsk::Authenticate(shown.peer, shown.key, None))
            .await
            .map_err(stopped)?;
        let expired = shown.until_s < link::renewal::now_s();
        let peer = let_in(known, expired).map_err(|Outside { who, code, why }| {
            self.refused(&who.unwrap_or_else(|| shown.from.to_string()), why);
            NotIn::Outside(code, why.to_owned())
        })?;

        if peer.role != Role::Worker {
            let why = format!(
                "an identity of role {} may not come through a gateway",
                peer.role
            );
            self.refused(&peer.name, &why);
            return Err(NotIn::Outside(NOT_LET_IN, why));
        }
        if !let_stay(&present, OF_A_WORKER, Beyond::OldestGoes).await {
            let why = format!("this identity has {OF_A_WORKER} connections already");
            self.refused(&peer.name, &why);
            return Err(NotIn::Outside(super::NOT_NOW, why));
        }

        // Content is passed on by the gateway itself: hosts behind it are no sources.
        let worker = Worker::new(state, through, peer.clone(), (None, shown.key))?;
        Ok(PassedSession {
            link,
            peer,
            worker,
            expired,
            _present: present,
            _counted: CountedWorker::new(&self.peer.name),
        })
    }

    fn refused(&self, who: &str, why: &str) {
        let at = format!("through the gateway {}", self.peer.name);
        self.state.refused(who, "connect", &at, why);
    }
}

/// The reason why there is no session.
enum NotIn {
    /// The worker is not let in.
    Outside(VarInt, String),
    /// Something else failed.
    Failed(LinkError),
}

impl From<LinkError> for NotIn {
    fn from(error: LinkError) -> Self {
        NotIn::Failed(error)
    }
}
