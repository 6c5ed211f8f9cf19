//! Ports for the servers of tests.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rand::RngExt as _;

/// Where ports are drawn: below those that Linux gives to whoever asks for any, so that no connection of another test gets
/// the port between this draw and the start of its server.
const DRAWN: std::ops::Range<u16> = 10_000..32_000;
/// The ports that a process takes at a time, so that no other test draws one of them until it ends.
const BLOCK: u16 = 100;
/// The blocks that are tried before a test gives up.
const MOST_TRIES: u32 = 1_000;

/// The ports of this process.
static TAKEN: Mutex<Vec<PortBlock>> = Mutex::new(Vec::new());

/// Ports that are kept from other tests as long as the file is locked.
struct PortBlock {
    left: std::ops::Range<u16>,
    _lock: File,
}

impl PortBlock {
    /// Takes a block that no other process has.
    fn draw() -> Option<Self> {
        let number = rand::rng().random_range(0..DRAWN.len() as u16 / BLOCK);
        let from = DRAWN.start + number * BLOCK;
        let lock = File::create(locks().join(format!("ports-{from}.lock"))).ok()?;
        lock.try_lock().ok()?;
        Some(Self {
            left: from..from + BLOCK,
            _lock: lock,
        })
    }
}

/// The directory of the tests' programs, which is writable for whoever built them.
fn locks() -> PathBuf {
    let here = std::env::current_exe().ok();
    let beside = here.and_then(|program| Some(program.parent()?.to_owned()));
    beside.unwrap_or_else(std::env::temp_dir)
}

/// A port of loopback that was free a moment ago, over UDP and over TCP, and that no other test draws.
///
/// # Panics
/// If loopback has no free port.
pub(crate) fn free_port() -> u16 {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_free = |port: &u16| {
        let here = (Ipv4Addr::LOCALHOST, *port);
        UdpSocket::bind(here).is_ok() && TcpListener::bind(here).is_ok()
    };

    for _ in 0..MOST_TRIES {
        let port = taken.last_mut().and_then(|block| block.left.find(is_free));
        if let Some(port) = port {
            return port;
        }
        taken.extend(PortBlock::draw());
    }
    panic!("loopback has no free ports")
}

/// Addresses on loopback that were free a moment ago: for QUIC, with its tunnels over TCP, and for HTTP.
///
/// # Panics
/// If loopback has no free port.
pub fn free_addresses() -> (String, String) {
    let address = || format!("{}:{}", Ipv4Addr::LOCALHOST, free_port());
    (address(), address())
}
