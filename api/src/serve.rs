//! Serves connections over HTTP/1.1 within bounds: of headers, of time without progress, and of
//! connections at a time. Whoever reads nothing, or sends nothing, loses the connection.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

/// The bounds of connections.
#[derive(Debug, Clone, Copy)]
pub struct HttpBounds {
    /// The most connections at a time; a further one ends the oldest.
    pub connections: usize,
    /// The time in which the head of a request has to be there; so long, too, a connection may
    /// stand idle between two requests.
    pub head: Duration,
    /// The time for which a connection may make no progress while an answer is to be read.
    pub patience: Duration,
}

impl Default for HttpBounds {
    fn default() -> Self {
        Self {
            connections: 512,
            head: Duration::from_secs(10),
            patience: Duration::from_secs(30),
        }
    }
}

/// The largest head of a request, in bytes, and the most headers in it.
const HEAD: usize = 32 * 1024;
const HEADERS: usize = 64;

/// Serves connections until it is dropped.
pub async fn serve<L: Listener>(mut listener: L, router: Router, bounds: HttpBounds)
where
    L::Io: 'static,
{
    // Whoever drops the other half of a place ends its connection.
    let mut places: VecDeque<oneshot::Sender<Infallible>> = VecDeque::new();
    loop {
        let (stream, _) = listener.accept().await;
        if places.len() >= bounds.connections {
            places.retain(|place| !place.is_closed());
        }
        if places.len() >= bounds.connections {
            places.pop_front();
        }
        let (place, lost) = oneshot::channel();
        places.push_back(place);

        let served = connection(stream, router.clone(), bounds);
        tokio::spawn(async move {
            tokio::select! {
                () = served => {}
                _ = lost => tracing::debug!("the oldest connection over HTTP makes room"),
            }
        });
    }
}

async fn connection<Io>(stream: Io, router: Router, bounds: HttpBounds)
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(Patient::new(stream, bounds.patience));
    let service = TowerToHyperService::new(router);
    let served = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .max_header_size(HEAD)
        .max_headers(HEADERS)
        .max_buf_size(2 * HEAD)
        .serve_connection(stream, service)
        .await;

    if let Err(error) = served {
        tracing::debug!(%error, "a connection over HTTP ended");
    }
}

/// A stream that fails if nothing that is written to it is taken for some time.
struct Patient<Io> {
    stream: Io,
    patience: Duration,
    over: Pin<Box<Sleep>>,
    /// Whether a write waits.
    waits: bool,
}

impl<Io> Patient<Io> {
    fn new(stream: Io, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            over: Box::pin(tokio::time::sleep(patience)),
            waits: false,
        }
    }

    /// Returns what a write came to, unless it has waited for too long.
    fn within<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        if !self.waits {
            self.waits = true;
            self.over.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.over.as_mut().poll(cx));

        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Patient<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Patient<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
