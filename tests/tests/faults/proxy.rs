//! A UDP proxy between clients and a server, which delays, reorders, loses and doubles packets as a
//! seed says. The kernel could do it with netem, but many kernels do not have that.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::net::UdpSocket;
use tokio::runtime::Runtime;

/// How packets are treated, in both directions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// Each packet takes at least so long.
    pub(crate) delay: Duration,
    /// And up to so much longer, evenly drawn: what was sent later may come first.
    pub(crate) jitter: Duration,
    /// This part of the packets is lost.
    pub(crate) loss: f64,
    /// This part of the packets comes twice.
    pub(crate) twice: f64,
}

impl Weather {
    /// All packets pass at once.
    pub(crate) const FINE: Self = Self {
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        loss: 0.0,
        twice: 0.0,
    };
}

/// A proxy that works until it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    drawn: Arc<Mutex<Drawn>>,
    _runtime: Runtime,
}

/// Chance, and what came of it.
struct Drawn {
    rng: StdRng,
    weather: Weather,
    lost: u64,
    doubled: u64,
    passed: u64,
}

impl Proxy {
    /// One in front of `server`.
    pub(crate) fn new(server: SocketAddr, weather: Weather, seed: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime can be made");
        let front = runtime
            .block_on(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))
            .expect("loopback has free ports");
        let address = front.local_addr().expect("bound");
        let drawn = Drawn {
            rng: StdRng::seed_from_u64(seed),
            weather,
            lost: 0,
            doubled: 0,
            passed: 0,
        };
        let drawn = Arc::new(Mutex::new(drawn));
        runtime.spawn(serve(Arc::new(front), server, drawn.clone()));

        Self {
            address,
            drawn,
            _runtime: runtime,
        }
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// From now on all packets are lost.
    pub(crate) fn cut(&self) {
        self.drawn.lock().expect("no panic").weather.loss = 1.0;
    }

    /// How many packets were lost, came twice, and came at all.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let drawn = self.drawn.lock().expect("no panic");
        (drawn.lost, drawn.doubled, drawn.passed)
    }
}

impl Drawn {
    /// After which delays a packet arrives, once for each time that it does.
    fn fates(&mut self) -> Vec<Duration> {
        let Weather {
            delay,
            jitter,
            loss,
            twice,
        } = self.weather;

        if self.rng.random_bool(loss) {
            self.lost += 1;
            return Vec::new();
        }

        let times = if self.rng.random_bool(twice) { 2 } else { 1 };
        self.doubled += times - 1;
        self.passed += 1;
        (0..times)
            .map(|_| delay + jitter.mul_f64(self.rng.random_range(0.0..1.0)))
            .collect()
    }
}

/// Passes packets on from clients, each through a socket of its own, on which the answers come
/// back.
async fn serve(front: Arc<UdpSocket>, server: SocketAddr, drawn: Arc<Mutex<Drawn>>) {
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
                tokio::spawn(answer(back.clone(), front.clone(), client, drawn.clone()));
                backs.insert(client, back.clone());
                back
            }
        };

        pass(&drawn, &back, server, &packet[..length]);
    }
}

async fn answer(
    back: Arc<UdpSocket>,
    front: Arc<UdpSocket>,
    client: SocketAddr,
    drawn: Arc<Mutex<Drawn>>,
) {
    let mut packet = vec![0; 65_536];
    loop {
        if let Ok((length, _)) = back.recv_from(&mut packet).await {
            pass(&drawn, &front, client, &packet[..length]);
        }
    }
}

fn pass(drawn: &Mutex<Drawn>, through: &Arc<UdpSocket>, to: SocketAddr, packet: &[u8]) {
    for delay in drawn.lock().expect("no panic").fates() {
        let through = through.clone();
        let packet = packet.to_vec();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let _ = through.send_to(&packet, to).await;
        });
    }
}

#[test]
fn the_same_seed_draws_the_same_fates() {
    let weather = Weather {
        delay: Duration::ZERO,
        jitter: Duration::from_millis(50),
        loss: 0.2,
        twice: 0.2,
    };

    let draw = |seed| {
        let rng = StdRng::seed_from_u64(seed);
        let mut drawn = Drawn {
            rng,
            weather,
            lost: 0,
            doubled: 0,
            passed: 0,
        };
        (0..500).map(|_| drawn.fates()).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));

    let times = draw(3).iter().map(Vec::len).collect::<Vec<_>>();
    assert!(
        [0, 1, 2].iter().all(|n| times.contains(n)),
        "lost, passed and doubled: {times:?}"
    );
}
