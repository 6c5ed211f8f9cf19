//! A worker's connection: each of its streams goes on to the master as one of the gateway's. What is
//! on them is neither kept nor decided upon here, but for inputs, which come from the cache.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::wire::gateway::{FromGateway, GatewaySession};
use common::wire::stream::Open;
use link::handshake::Certificate;
use link::{Channel, FrameReceiver, FrameSender, LinkError};
use quinn::{Connection, VarInt};
use tokio::sync::Notify;

use crate::{GatewayState, OpenSession, cache, control};

/// The time that the first message of a stream may take.
const FIRST: Duration = Duration::from_secs(30);
/// The longest time for which a worker may take nothing of what it is sent.
pub(crate) const STALL: Duration = Duration::from_secs(10);
/// The code with which a stream is broken off whose other end is gone.
const BROKEN: VarInt = VarInt::from_u32(0);
/// Closes a connection whose peer may try again.
const NOT_NOW: VarInt = VarInt::from_u32(2);
/// The words for a worker that takes nothing.
pub(crate) const UNREAD: &str = "it does not read what it is told";

/// A worker's connection, shared by its streams.
pub(crate) struct WorkerSession {
    pub(crate) gateway: Arc<GatewayState>,
    pub(crate) connection: Connection,
    pub(crate) shown: GatewaySession,
    pub(crate) said: Arc<Notify>,
}

/// Serves a worker until its connection ends, as a [`WorkerSession`].
pub(crate) async fn serve(
    gateway: &Arc<GatewayState>,
    connection: Connection,
    certificate: Certificate,
    from: IpAddr,
) -> Result<(), LinkError> {
    let number = gateway.next.fetch_add(1, Ordering::Relaxed);
    let shown = GatewaySession {
        number,
        peer: certificate.name.id,
        key: certificate.key_hash,
        until_s: certificate.until_s,
        from,
    };
    let said = Arc::new(Notify::new());
    let open = OpenSession {
        connection: connection.clone(),
        said: said.clone(),
    };
    gateway.open().insert(number, open);

    let session = Arc::new(WorkerSession {
        gateway: gateway.clone(),
        connection,
        shown,
        said,
    });
    let ended = loop {
        let (tx, rx) = match session.connection.accept_bi().await {
            Ok(stream) => stream,
            Err(error) => break Err(error.into()),
        };
        let session = session.clone();
        tokio::spawn(async move {
            if let Err(error) = session.serve_stream(Channel::new(tx, rx)).await {
                tracing::debug!(session = number, %error, "stream ended");
            }
        });
    };
    gateway.open().remove(&number);
    ended
}

impl WorkerSession {
    async fn serve_stream(self: Arc<Self>, mut worker: Channel) -> Result<(), LinkError> {
        let open = tokio::time::timeout(FIRST, worker.rx.expect::<Open>());
        let open = open
            .await
            .map_err(|_| LinkError::Protocol("a stream without a first message".to_owned()))??;
        match open {
            Open::Control => control::serve(&self, worker).await,
            Open::Get { hash, offset, .. } => cache::give(&self, (hash, offset), worker.tx).await,
            Open::Request => Err(LinkError::Protocol("a worker asks nothing".to_owned())),
            open @ (Open::Put(_) | Open::Renew { .. } | Open::Tail { .. }) => {
                let mut upstream = self.pass().await?;
                upstream.tx.send(&open).await?;
                join(worker, upstream).await
            }
        }
    }

    /// Opens a stream of this session at the master ([`FromGateway::Pass`]).
    pub(crate) async fn pass(&self) -> Result<Channel, LinkError> {
        let master = self.gateway.upstream.borrow().clone();
        let master =
            master.ok_or_else(|| LinkError::Closed("there is no master at present".to_owned()))?;
        master.stream(&FromGateway::Pass(self.shown)).await
    }

    /// Closes the connection of a worker that does not read, with [`UNREAD`].
    pub(crate) fn is_slow(&self) -> LinkError {
        self.connection.close(NOT_NOW, UNREAD.as_bytes());
        LinkError::Closed(UNREAD.to_owned())
    }
}

/// Passes the bytes of two streams on in both directions, until both have ended. What waits here is a
/// piece for each direction, so the slower end sets the pace, of this stream alone.
pub(crate) async fn join(worker: Channel, upstream: Channel) -> Result<(), LinkError> {
    let (up, down) = tokio::join!(copy(worker.rx, upstream.tx), copy(upstream.rx, worker.tx));
    up.and(down)
}

/// Passes one direction on for [`join`].
pub(crate) async fn copy(mut rx: FrameReceiver, mut tx: FrameSender) -> Result<(), LinkError> {
    let copied = async {
        let mut piece = Vec::new();
        loop {
            piece.clear();
            let more = tokio::select! {
                more = rx.read_onto(&mut piece) => more?,
                // Whoever takes this wants no more of it.
                () = tx.delivered() => return Ok(()),
            };
            if !more {
                tx.finish();
                tx.delivered().await;
                return Ok(());
            }
            tx.raw().write_all(&piece).await?;
        }
    };
    let copied = copied.await;
    match copied {
        Ok(()) => rx.stop(),
        Err(_) => {
            // Half of it must not look like all of it.
            let _ = tx.raw().reset(BROKEN);
            rx.stop();
        }
    }
    copied
}
