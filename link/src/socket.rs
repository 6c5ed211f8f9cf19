//! The socket under a QUIC endpoint where `quinn`'s usual one does not work: plain sends and
//! receives, one datagram at a time. It is slower, and has no congestion marks. Wine, for one,
//! refuses the socket options that the usual one needs.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use tokio::io::{Interest, ReadBuf};
use tokio::net::UdpSocket;

/// The usual runtime, with a plain socket where the usual one fails.
#[derive(Debug)]
pub(crate) struct Forgiving;

impl Runtime for Forgiving {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let spare = socket.try_clone()?;
        TokioRuntime.wrap_udp_socket(socket).or_else(|error| {
            tracing::debug!(%error, "the system refuses a socket option of QUIC: datagrams go one at a time");
            Ok(plain(spare)? as Arc<dyn AsyncUdpSocket>)
        })
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

fn plain(socket: std::net::UdpSocket) -> io::Result<Arc<Plain>> {
    socket.set_nonblocking(true)?;
    Ok(Arc::new(Plain(UdpSocket::from_std(socket)?)))
}

/// A socket of tokio's and nothing more.
#[derive(Debug)]
struct Plain(UdpSocket);

impl AsyncUdpSocket for Plain {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable {
            socket: self,
            waiting: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.0
            .try_io(Interest::WRITABLE, || {
                self.0.try_send_to(transmit.contents, transmit.destination)
            })
            .map(|_| ())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let (Some(buffer), Some(meta)) = (buffers.first_mut(), meta.first_mut()) else {
            return Poll::Ready(Ok(0));
        };
        let mut space = ReadBuf::new(buffer);
        let addr = ready!(self.0.poll_recv_from(cx, &mut space))?;
        let len = space.filled().len();
        *meta = RecvMeta {
            addr,
            len,
            stride: len,
            ecn: None,
            dst_ip: None,
        };

        Poll::Ready(Ok(1))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

type Waiting = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

/// Wakes one task when the socket takes another datagram.
struct Writable {
    socket: Arc<Plain>,
    waiting: Option<Waiting>,
}

impl UdpPoller for Writable {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = Arc::clone(&self.socket);
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(async move { socket.0.writable().await }));
        let done = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(done)
    }
}

impl fmt::Debug for Writable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writable").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn datagrams_arrive_whole_and_with_their_sender() {
        let bind = || plain(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let here = bind();
        let there = bind();
        let to = there.local_addr().unwrap();
        let contents = [7; 1_200];
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents: &contents,
            segment_size: None,
            src_ip: None,
        };

        let mut poller = Arc::clone(&here).create_io_poller();
        std::future::poll_fn(|cx| poller.as_mut().poll_writable(cx))
            .await
            .unwrap();
        here.try_send(&transmit).unwrap();

        let mut space = vec![0; 2_000];
        let mut meta = [RecvMeta::default()];
        let receive = std::future::poll_fn(|cx| {
            there.poll_recv(cx, &mut [IoSliceMut::new(&mut space)], &mut meta)
        });
        let count = tokio::time::timeout(std::time::Duration::from_secs(20), receive)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (count, meta[0].addr, meta[0].len),
            (1, here.local_addr().unwrap(), 1_200)
        );
        assert_eq!(space[..1_200], contents);
    }
}
