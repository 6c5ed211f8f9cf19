//! Accepts HTTP connections: a bounded number at a time and from one address, each for some
//! seconds.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use link::{BoundedPlaces, TakenPlace};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// The life of a connection, with its one request and the answer.
const LASTS: Duration = Duration::from_secs(10);
/// The pause after a connection could not be accepted, for want of files for instance.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections.
pub(super) struct HttpListener {
    listener: TcpListener,
    crowd: BoundedPlaces,
}

impl HttpListener {
    /// A door with room for `most` connections, `of_one` of them from one address; a full one drops
    /// the oldest.
    pub(super) fn new(listener: TcpListener, most: usize, of_one: usize) -> Self {
        Self {
            listener,
            crowd: BoundedPlaces::new(most, of_one),
        }
    }
}

impl axum::serve::Listener for HttpListener {
    type Io = Bounded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Bounded, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, from)) => {
                    return (Bounded::new(stream, self.crowd.enter(from.ip())), from);
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection over HTTP could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when its time is over or its place is taken.
pub(super) struct Bounded {
    stream: TcpStream,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

impl Bounded {
    fn new(stream: TcpStream, mut place: TakenPlace) -> Self {
        let over = async move {
            // The place is given back when the future ends.
            let _ = tokio::time::timeout(LASTS, place.lost()).await;
        };
        Self {
            stream,
            over: Box::pin(over),
            ended: false,
        }
    }

    fn look(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.ended = self.ended || self.over.as_mut().poll(cx).is_ready();
        if self.ended {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            Ok(())
        }
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.look(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.look(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.look(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
