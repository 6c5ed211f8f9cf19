//! QUIC where UDP does not get through: its datagrams, each behind its length, over a TCP
//! connection to the master's port of the same number. Everything else is as over UDP: the same
//! handshake, the same certificates, the same streams. `endpoint` decides when to take this way.
//!
//! Datagrams that come faster than TCP takes them are dropped, as a network would do, so that QUIC
//! slows down.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, watch};

use crate::crowd::{BoundedPlaces, TakenPlace};

/// The first bytes of the side that connects: another greeting is not deskgrid's.
const GREETING: [u8; 8] = *b"deskgrd1";
/// The longest time that the greeting may take.
const GREETED: Duration = Duration::from_secs(5);
/// The time without data after which a tunnel is given up; QUIC gives up before.
const SILENCE: Duration = Duration::from_secs(60);
/// The time that the opener of a tunnel may take to prove its identity, and that an end may be left
/// without a connection.
const UNKNOWN: Duration = Duration::from_secs(10);
/// The most cut tunnels that wait to be reported; further ones are not reported.
const TOLD: usize = 256;
/// The most datagrams that wait for one tunnel, and for the endpoint.
const OUTWARD: usize = 256;
const INWARD: usize = 1_024;
/// The pause after a connection could not be accepted, because of too many open files for instance.
const PAUSE: Duration = Duration::from_millis(100);

type Datagram = (SocketAddr, Vec<u8>);

/// One tunnel, or all that a listener has: a socket for a QUIC endpoint.
#[derive(Debug)]
pub(crate) struct Tunnels {
    local: SocketAddr,
    out: Arc<Peers>,
    inbox: Mutex<Receiver<Datagram>>,
}

/// The limits on the tunnels of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelLimits {
    /// The most tunnels at all. Each takes one file descriptor of the process.
    pub most: usize,
    /// The most tunnels whose openers have not proved their identity.
    pub unknown: usize,
    /// The most such tunnels of one address.
    pub unknown_of_one: usize,
}

/// A tunnel that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The address that it came from.
    pub from: IpAddr,
    /// The reason.
    pub why: &'static str,
}

/// The shared state in which the server marks the tunnels used by known peers, and reads about
/// those that were cut.
#[derive(Debug)]
pub struct TunnelDoor {
    peers: Arc<Peers>,
    cut: tokio::sync::Mutex<Receiver<Cut>>,
}

/// Keeps a tunnel known, until it is dropped.
#[derive(Debug)]
pub struct KnownTunnel {
    peer: SocketAddr,
    peers: Arc<Peers>,
}

impl TunnelDoor {
    /// Marks this tunnel as used by a peer that has proved its identity: it stays while the
    /// returned value exists.
    pub fn known(&self, peer: SocketAddr) -> KnownTunnel {
        self.peers.count(peer, true);
        KnownTunnel {
            peer,
            peers: Arc::clone(&self.peers),
        }
    }

    /// Resolves once this tunnel has ended, or at once if there is none.
    pub async fn ended(&self, peer: SocketAddr) {
        let known = self
            .peers
            .lock()
            .get(&peer)
            .map(|end| end.known.subscribe());
        if let Some(mut known) = known {
            let _ = known.wait_for(|_| false).await;
        }
    }

    /// Returns the next tunnel that was cut; never resolves once the listener is gone.
    pub async fn cut(&self) -> Cut {
        match self.cut.lock().await.recv().await {
            Some(cut) => cut,
            None => std::future::pending().await,
        }
    }
}

impl Drop for KnownTunnel {
    fn drop(&mut self) {
        self.peers.count(self.peer, false);
    }
}

/// One end of a tunnel.
#[derive(Debug)]
struct TunnelEnd {
    send: Sender<Vec<u8>>,
    /// The number of connections that use it and whose peers are known.
    known: watch::Sender<usize>,
}

/// The tunnel for each peer's datagrams, by its address.
#[derive(Debug, Default)]
struct Peers(Mutex<BTreeMap<SocketAddr, TunnelEnd>>);

impl Peers {
    fn count(&self, peer: SocketAddr, more: bool) {
        if let Some(peer) = self.lock().get(&peer) {
            peer.known.send_modify(|known| {
                *known = if more {
                    *known + 1
                } else {
                    known.saturating_sub(1)
                }
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, TunnelEnd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a tunnel to this address.
pub(crate) async fn dial(address: SocketAddr) -> io::Result<Arc<Tunnels>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&GREETING).await?;

    let (tell, inbox) = channel(INWARD);
    let tunnels = Tunnels {
        local: stream.local_addr()?,
        out: Arc::default(),
        inbox: Mutex::new(inbox),
    };
    let (send, outward) = channel(OUTWARD);
    tunnels.out.lock().insert(
        address,
        TunnelEnd {
            send,
            known: watch::Sender::default(),
        },
    );

    tokio::spawn(carry(stream, address, tell, outward));
    Ok(Arc::new(tunnels))
}

/// Takes tunnels for as long as the socket is there.
pub(crate) fn serve(
    listener: TcpListener,
    limits: TunnelLimits,
) -> io::Result<(Arc<Tunnels>, TunnelDoor)> {
    let (tell, inbox) = channel(INWARD);
    let (told, cut) = channel(TOLD);
    let tunnels = Tunnels {
        local: listener.local_addr()?,
        out: Arc::default(),
        inbox: Mutex::new(inbox),
    };
    let peers = Arc::clone(&tunnels.out);
    let strangers = Strangers {
        crowd: BoundedPlaces::new(limits.unknown, limits.unknown_of_one),
        told,
    };

    tokio::spawn(accept(
        listener,
        limits.most,
        tell,
        Arc::clone(&peers),
        strangers,
    ));

    Ok((
        Arc::new(tunnels),
        TunnelDoor {
            peers,
            cut: tokio::sync::Mutex::new(cut),
        },
    ))
}

/// The tunnels that no known peer uses.
#[derive(Debug, Clone)]
struct Strangers {
    crowd: BoundedPlaces,
    told: Sender<Cut>,
}

impl Strangers {
    /// Waits until a tunnel must be cut, and returns the reason.
    async fn cut(
        &self,
        from: IpAddr,
        mut place: TakenPlace,
        mut known: watch::Receiver<usize>,
    ) -> &'static str {
        loop {
            tokio::select! {
                biased;
                known = tokio::time::timeout(UNKNOWN, known.wait_for(|known| *known > 0)) => match known {
                    Err(_) => return "it did not show who it is within ten seconds",
                    Ok(Err(_)) => return "it has ended",
                    Ok(Ok(_)) => {}
                },
                () = place.lost() => return "others came after it, and it had not shown who it is",
            }

            drop(place);
            if known.wait_for(|known| *known == 0).await.is_err() {
                return "it has ended";
            }

            place = self.crowd.enter(from);
        }
    }
}

async fn accept(
    listener: TcpListener,
    most: usize,
    tell: Sender<Datagram>,
    peers: Arc<Peers>,
    strangers: Strangers,
) {
    let room = Arc::new(Semaphore::new(most));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = tell.closed() => {
                // Each tunnel ends once it has carried what was sent.
                peers.lock().clear();
                return;
            }
        };
        match accepted {
            Ok((stream, from)) => {
                // Where there is no room the connection is closed at once, and a stranger makes
                // room for the next.
                let Ok(room) = Arc::clone(&room).try_acquire_owned() else {
                    strangers.crowd.oust();
                    continue;
                };

                let tell = tell.clone();
                let peers = Arc::clone(&peers);
                let strangers = strangers.clone();
                tokio::spawn(async move {
                    admit(stream, from, tell, &peers, &strangers).await;
                    drop(room);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a TCP connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn admit(
    mut stream: TcpStream,
    from: SocketAddr,
    tell: Sender<Datagram>,
    peers: &Peers,
    strangers: &Strangers,
) {
    let mut place = strangers.crowd.enter(from.ip());
    let mut said = [0; GREETING.len()];
    let greeting = tokio::select! {
        () = place.lost() => return,
        greeting = tokio::time::timeout(GREETED, stream.read_exact(&mut said)) => greeting,
    };
    if !matches!(greeting, Ok(Ok(_))) || said != GREETING {
        return;
    }

    let (send, outward) = channel(OUTWARD);
    let (tell_known, known) = watch::channel(0);
    peers.lock().insert(
        from,
        TunnelEnd {
            send,
            known: tell_known,
        },
    );

    tokio::select! {
        () = carry(stream, from, tell, outward) => {}
        why = strangers.cut(from.ip(), place, known) => {
            // Whoever is to be told may be behind; then there is enough to tell.
            let _ = strangers.told.try_send(Cut { from: from.ip(), why });
        }
    }

    peers.lock().remove(&from);
}

/// Carries datagrams in both directions until one of them ends.
async fn carry(
    stream: TcpStream,
    peer: SocketAddr,
    tell: Sender<Datagram>,
    mut outward: Receiver<Vec<u8>>,
) {
    // Only makes things slower where it fails.
    let _ = stream.set_nodelay(true);
    let (read, write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut write = BufWriter::new(write);
    let inwards = async {
        loop {
            let length = tokio::time::timeout(SILENCE, read.read_u16()).await??;
            let mut datagram = vec![0; usize::from(length)];
            tokio::time::timeout(SILENCE, read.read_exact(&mut datagram)).await??;
            if tell.send((peer, datagram)).await.is_err() {
                return Ok(());
            }
        }
    };

    let outwards = async {
        while let Some(datagram) = outward.recv().await {
            write
                .write_u16(u16::try_from(datagram.len()).unwrap_or(0))
                .await?;
            write.write_all(&datagram).await?;
            if outward.is_empty() {
                write.flush().await?;
            }
        }
        write.shutdown().await
    };
    let end: io::Result<()> = tokio::select! {
        end = inwards => end,
        end = outwards => end,
    };
    if let Err(error) = end {
        tracing::debug!(%peer, %error, "a tunnel ended");
    }
}

impl AsyncUdpSocket for Tunnels {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysReady)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let fits = transmit.contents.len() <= usize::from(u16::MAX);
        if let Some(way) = self.out.lock().get(&transmit.destination).filter(|_| fits) {
            let _ = way.send.try_send(transmit.contents.to_vec());
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        while count < buffers.len().min(meta.len()) {
            let (addr, datagram) = match inbox.poll_recv(cx) {
                Poll::Ready(Some(datagram)) => datagram,
                // The only tunnel is gone, and with it everything over it.
                Poll::Ready(None) if count == 0 => {
                    return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                }
                Poll::Pending if count == 0 => return Poll::Pending,
                Poll::Ready(None) | Poll::Pending => break,
            };

            let len = datagram.len();
            // One that is too long for the endpoint is lost.
            if let Some(space) = buffers[count].get_mut(..len) {
                space.copy_from_slice(&datagram);
                meta[count] = RecvMeta {
                    addr,
                    len,
                    stride: len,
                    ecn: None,
                    dst_ip: None,
                };
                count += 1;
            }
        }

        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// Datagrams are always taken, if only to be dropped.
#[derive(Debug)]
struct AlwaysReady;

impl UdpPoller for AlwaysReady {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn received(socket: &Tunnels) -> io::Result<Datagram> {
        let mut space = vec![0; 2_000];
        let mut meta = [RecvMeta::default()];
        let receive = std::future::poll_fn(|cx| {
            socket.poll_recv(cx, &mut [IoSliceMut::new(&mut space)], &mut meta)
        });
        let count = tokio::time::timeout(Duration::from_secs(20), receive)
            .await
            .expect("a datagram, or the end")?;
        assert_eq!(count, 1);
        Ok((meta[0].addr, space[..meta[0].len].to_vec()))
    }

    fn send(socket: &Tunnels, destination: SocketAddr, contents: &[u8]) {
        socket
            .try_send(&Transmit {
                destination,
                ecn: None,
                contents,
                segment_size: None,
                src_ip: None,
            })
            .unwrap();
    }

    async fn listening() -> (Arc<Tunnels>, SocketAddr) {
        let (socket, _, address) = guarded(TunnelLimits {
            most: 10,
            unknown: 10,
            unknown_of_one: 10,
        })
        .await;
        (socket, address)
    }

    async fn guarded(limits: TunnelLimits) -> (Arc<Tunnels>, TunnelDoor, SocketAddr) {
        let (socket, door) =
            serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), limits).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, door, address)
    }

    #[tokio::test]
    async fn known_peers_keep_their_tunnels_while_strangers_evict_each_other() {
        let (master, door, address) = guarded(TunnelLimits {
            most: 10,
            unknown: 2,
            unknown_of_one: 2,
        })
        .await;
        let worker = dial(address).await.unwrap();
        send(&worker, address, b"hello");

        let (from, _) = received(&master).await.unwrap();
        let known = door.known(from);
        let mut strangers = Vec::new();

        for _ in 0..5 {
            let stranger = dial(address).await.unwrap();
            send(&stranger, address, b"me too");
            received(&master).await.unwrap();
            strangers.push(stranger);
        }

        for gone in &strangers[..3] {
            assert_eq!(
                received(gone).await.unwrap_err().kind(),
                io::ErrorKind::BrokenPipe
            );
        }

        assert_eq!(door.cut().await.from, from.ip());
        send(&master, from, b"still there");
        assert_eq!(received(&worker).await.unwrap().1, b"still there");
        drop(known);

        // Now it is one of the crowd again: the oldest but for those that came before.
        let late = dial(address).await.unwrap();
        send(&late, address, b"me too");
        received(&master).await.unwrap();
        assert_eq!(
            received(&strangers[3]).await.unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
    }

    #[tokio::test]
    async fn the_end_of_a_tunnel_reaches_whoever_waits_for_it() {
        let limits = TunnelLimits {
            most: 10,
            unknown: 10,
            unknown_of_one: 10,
        };
        let (master, door, address) = guarded(limits).await;
        let worker = dial(address).await.unwrap();
        send(&worker, address, b"hello");
        let (from, _) = received(&master).await.unwrap();
        let mut ended = std::pin::pin!(door.ended(from));
        assert!(
            std::future::poll_fn(|cx| Poll::Ready(ended.as_mut().poll(cx)))
                .await
                .is_pending()
        );
        drop(worker);
        tokio::time::timeout(Duration::from_secs(20), ended)
            .await
            .expect("the end");
        door.ended(from).await;
    }

    #[tokio::test]
    async fn datagrams_arrive_whole_in_both_directions_and_each_with_its_sender() {
        let (master, address) = listening().await;
        let one = dial(address).await.unwrap();
        let other = dial(address).await.unwrap();

        for (worker, length) in [(&one, 1_200), (&other, 1), (&one, 1_999)] {
            send(worker, address, &vec![length as u8; length]);
            let (from, datagram) = received(&master).await.unwrap();
            assert_eq!(
                (from, datagram),
                (worker.local_addr().unwrap(), vec![length as u8; length])
            );
            send(&master, from, b"answer");
            assert_eq!(
                received(worker).await.unwrap(),
                (address, b"answer".to_vec())
            );
        }

        send(&master, address, b"to nobody");
    }

    #[tokio::test]
    async fn a_tunnel_without_a_greeting_is_ignored_and_its_end_is_reported() {
        let (master, address) = listening().await;
        let mut stranger = TcpStream::connect(address).await.unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(
            stranger.read(&mut [0; 16]).await.unwrap_or(0),
            0,
            "the master closes"
        );

        let worker = dial(address).await.unwrap();
        send(&worker, address, b"hello");
        assert_eq!(received(&master).await.unwrap().1, b"hello");
        drop(master);
        assert_eq!(
            received(&worker).await.unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
    }

    #[tokio::test]
    async fn a_datagram_that_is_too_long_is_lost_and_those_after_it_are_not() {
        let (master, address) = listening().await;
        let worker = dial(address).await.unwrap();
        send(&worker, address, &[1; 5_000]);
        send(&worker, address, &[2; 5]);
        assert_eq!(received(&master).await.unwrap().1, [2; 5]);
    }
}
