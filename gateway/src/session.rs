//! A worker's connection: each of its streams goes on to the master as one of the gateway's. What is
//! on them is neither kept nor decided upon here, but for inputs, which come from the cache.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::wire::gateway::{FromGateway, GatewaySession};
use common::wire::stream::Open;
use link::error::NOT_NOW;
use link::handshake::Certificate;
use link::{Channel, FrameReceiver, FrameSender, LinkError};
use quinn::{Connection, VarInt};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::{GatewayState, cache, control};

/// The time that the first message of a stream may take, and the control stream of a session.
const FIRST: Duration = Duration::from_secs(30);
/// The longest time for which a worker may take nothing of what it is sent.
pub(crate) const STALL: Duration = Duration::from_secs(10);
/// The time that the master's reason for breaking a stream off may take.
pub(crate) const REASON: Duration = Duration::from_secs(2);
/// The code with which a stream is broken off whose other end is gone.
const BROKEN: VarInt = VarInt::from_u32(0);
/// The words for a worker that says nothing.
const SILENT: &str = "it has opened no control stream";
/// The words for a worker that takes nothing.
const UNREAD: &str = "it does not read what it is told";

/// A worker's connection, shared by its streams.
pub(crate) struct WorkerSession {
    pub(crate) gateway: Arc<GatewayState>,
    pub(crate) connection: Connection,
    pub(crate) shown: GatewaySession,
    pub(crate) said: Arc<Notify>,
    /// The number of control streams that it has opened and that have not ended.
    pub(crate) controls: AtomicU32,
}

/// Serves a worker until its connection ends, as a [`WorkerSession`].
pub(crate) async fn serve(
    gateway: &Arc<GatewayState>,
    connection: Connection,
    certificate: Certificate,
    from: IpAddr,
) -> Result<(), LinkError> {
    let said = Arc::new(Notify::new());
    let place = gateway
        .sessions
        .enter(certificate.name.id, &connection, &said);
    let session = Arc::new(WorkerSession {
        gateway: gateway.clone(),
        connection,
        shown: GatewaySession {
            number: place.number,
            peer: certificate.name.id,
            key: certificate.key_hash,
            until_s: certificate.validity.until_s,
            from,
        },
        said,
        controls: AtomicU32::new(0),
    });

    tokio::select! {
        ended = session.serve_streams() => ended,
        () = session.is_silent() => {
            session.connection.close(NOT_NOW, SILENT.as_bytes());
            Err(LinkError::Closed(SILENT.to_owned()))
        }
    }
}

impl WorkerSession {
    /// Serves the streams that the worker opens, until its connection ends.
    async fn serve_streams(self: &Arc<Self>) -> Result<(), LinkError> {
        loop {
            let (tx, rx) = self.connection.accept_bi().await?;
            let session = self.clone();
            tokio::spawn(async move {
                let number = session.shown.number;
                if let Err(error) = session.serve_stream(Channel::new(tx, rx)).await {
                    tracing::debug!(session = number, %error, "stream ended");
                }
            });
        }
    }

    /// Resolves once the worker has had no control stream for [`FIRST`] at least.
    async fn is_silent(&self) {
        let mut without = 0;
        while without < 2 {
            sleep(FIRST / 2).await;
            without = match self.controls.load(Ordering::Relaxed) {
                0 => without + 1,
                _ => 0,
            };
        }
    }

    async fn serve_stream(self: Arc<Self>, mut worker: Channel) -> Result<(), LinkError> {
        let open = timeout(FIRST, worker.rx.expect::<Open>());
        let open = open
            .await
            .map_err(|_| LinkError::Protocol("a stream without a first message".to_owned()))??;
        match open {
            Open::Control => {
                self.controls.fetch_add(1, Ordering::Relaxed);
                let served = control::serve(&self, worker).await;
                self.controls.fetch_sub(1, Ordering::Relaxed);
                served
            }
            Open::Get { hash, offset, .. } => cache::give(&self, (hash, offset), worker.tx).await,
            Open::Request => Err(LinkError::Protocol("a worker asks nothing".to_owned())),
            open @ (Open::Put(_) | Open::Renew { .. } | Open::RenewProved { .. }) => {
                match self.pass(&open).await {
                    Ok(upstream) => join_once_answered(&self, worker, upstream).await,
                    // One that is not let in is told why on another stream.
                    Err(error) => {
                        let _ = timeout(REASON, self.connection.closed()).await;
                        Err(error)
                    }
                }
            }
            open @ Open::Tail { .. } => join(worker, self.pass(&open).await?).await,
        }
    }

    /// Opens a stream of this session at the master ([`FromGateway::Pass`]) that begins as the worker's
    /// did. An error may be the master's way to refuse the session.
    pub(crate) async fn pass(&self, open: &Open) -> Result<Channel, LinkError> {
        let mut upstream = self.pass_bare().await?;
        upstream.tx.send(open).await?;
        Ok(upstream)
    }

    /// Opens the same kind of stream for whoever says himself what he wants on it.
    pub(crate) async fn pass_bare(&self) -> Result<Channel, LinkError> {
        self.stream(&FromGateway::Pass(self.shown)).await
    }

    /// Opens a stream at the master that begins with this [`FromGateway`].
    pub(crate) async fn stream(&self, first: &FromGateway) -> Result<Channel, LinkError> {
        let master = self.gateway.upstream.borrow().clone();
        let master =
            master.ok_or_else(|| LinkError::Closed("there is no master at present".to_owned()))?;
        master.stream(first).await
    }

    /// Closes the connection of a worker that does not read, with [`UNREAD`].
    pub(crate) fn is_slow(&self) -> LinkError {
        self.connection.close(NOT_NOW, UNREAD.as_bytes());
        LinkError::Closed(UNREAD.to_owned())
    }
}

/// Passes the bytes of two streams on, as [`join`], where the master answers first: until then nothing
/// is taken from the worker, so that nothing waits at the master which it does not read.
async fn join_once_answered(
    session: &WorkerSession,
    mut worker: Channel,
    mut upstream: Channel,
) -> Result<(), LinkError> {
    let answer = tokio::select! {
        answer = upstream.rx.recv_body() => answer?,
        // The worker does not wait for it any more.
        () = worker.tx.delivered() => return Ok(()),
    };
    let Some(answer) = answer else {
        // One that is not let in is told why on another stream.
        let _ = timeout(REASON, session.connection.closed()).await;
        return Ok(());
    };
    worker.tx.push_body(&answer)?;
    timeout(STALL, worker.tx.flush())
        .await
        .map_err(|_| LinkError::Unread)??;
    join(worker, upstream).await
}

/// Passes the bytes of two streams on in both directions, until both have ended. What waits here is a
/// piece for each direction, so the slower end sets the pace, of this stream alone.
pub(crate) async fn join(worker: Channel, upstream: Channel) -> Result<(), LinkError> {
    let up = copy(worker.rx, upstream.tx, Duration::MAX);
    let (up, down) = tokio::join!(up, copy(upstream.rx, worker.tx, STALL));
    up.and(down)
}

/// Passes one direction on for [`join`]. Where the end that takes it takes nothing for longer than `stall`,
/// the stream is broken off: what waits for it has its part of a window that others share.
pub(crate) async fn copy(
    mut rx: FrameReceiver,
    mut tx: FrameSender,
    stall: Duration,
) -> Result<(), LinkError> {
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
            let mut left = &piece[..];
            while !left.is_empty() {
                let written = timeout(stall, tx.raw().write(left)).await;
                let written = written.map_err(|_| LinkError::Unread)??;
                left = left.get(written..).unwrap_or_default();
            }
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
