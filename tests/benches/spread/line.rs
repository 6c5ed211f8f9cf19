//! A line of bounded speed in front of a master: a UDP relay that lets what comes from the master
//! leave one packet after the other, drops what would wait for too long, as a router does, and
//! passes on at once what goes to the master.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

/// The longest time that a packet waits for the line.
const QUEUE: Duration = Duration::from_millis(50);

/// A line that works until it is dropped.
pub(crate) struct Line {
    address: SocketAddr,
    passed: Arc<AtomicU64>,
    _runtime: Runtime,
}

/// A packet that leaves the line at a time.
type Leaving = (Instant, Vec<u8>, SocketAddr);

/// The near end of the line.
struct Queue {
    per_s: f64,
    free_at: Mutex<Instant>,
    leaving: UnboundedSender<Leaving>,
}

impl Line {
    /// One to this server, of so many bytes a second.
    pub(crate) fn to(server: SocketAddr, per_s: f64) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime can be made");
        let front = runtime
            .block_on(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))
            .expect("loopback has free ports");
        let address = front.local_addr().expect("bound");
        let passed = Arc::new(AtomicU64::new(0));
        let (leaving, queued) = unbounded_channel();
        let queue = Queue {
            per_s,
            free_at: Mutex::new(Instant::now()),
            leaving,
        };

        let front = Arc::new(front);
        runtime.spawn(leave(front.clone(), queued, passed.clone()));
        runtime.spawn(serve(front, server, Arc::new(queue)));
        Self {
            address,
            passed,
            _runtime: runtime,
        }
    }

    /// The address to which clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bytes that have come from the server so far.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

impl Queue {
    fn take(&self, packet: &[u8], to: SocketAddr) {
        let now = Instant::now();
        let mut free_at = self.free_at.lock().expect("no panic");
        let begins = (*free_at).max(now);
        if begins > now + QUEUE {
            return;
        }
        *free_at = begins + Duration::from_secs_f64(packet.len() as f64 / self.per_s);
        let _ = self.leaving.send((*free_at, packet.to_vec(), to));
    }
}

async fn leave(
    front: Arc<UdpSocket>,
    mut queued: UnboundedReceiver<Leaving>,
    passed: Arc<AtomicU64>,
) {
    while let Some((at, packet, to)) = queued.recv().await {
        if at > Instant::now() {
            tokio::time::sleep_until(at).await;
        }
        passed.fetch_add(packet.len() as u64, Ordering::Relaxed);
        let _ = front.send_to(&packet, to).await;
    }
}

/// Passes packets on from clients, each through a socket of its own, on which the answers come
/// back.
async fn serve(front: Arc<UdpSocket>, server: SocketAddr, queue: Arc<Queue>) {
    let mut backs: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut packet = vec![0; 65_536];
    loop {
        // An error here is the answer to an earlier packet that nobody wanted.
        let Ok((length, client)) = front.recv_from(&mut packet).await else {
            continue;
        };
        let back = match backs.get(&client) {
            Some(back) => back.clone(),
            None => {
                let Ok(back) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await else {
                    continue;
                };
                let back = Arc::new(back);
                tokio::spawn(answer(back.clone(), client, queue.clone()));
                backs.insert(client, back.clone());
                back
            }
        };
        let _ = back.send_to(&packet[..length], server).await;
    }
}

async fn answer(back: Arc<UdpSocket>, client: SocketAddr, queue: Arc<Queue>) {
    let mut packet = vec![0; 65_536];
    loop {
        if let Ok((length, _)) = back.recv_from(&mut packet).await {
            queue.take(&packet[..length], client);
        }
    }
}
