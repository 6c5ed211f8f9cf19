//! Ports for the servers of tests.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use rand::RngExt as _;

/// Where ports are drawn: below those that Linux gives to whoever asks for any, so that no connection of another test gets
/// the port between this draw and the start of its server.
const DRAWN: std::ops::Range<u16> = 10_000..32_000;
/// The ports that are tried before a test gives up.
const MOST_TRIES: u32 = 100;

/// A port of loopback that was free a moment ago, over UDP and over TCP.
///
/// # Panics
/// If loopback has no free port.
pub(crate) fn free_port() -> u16 {
    let mut drawn = (0..MOST_TRIES).map(|_| rand::rng().random_range(DRAWN));
    let is_free = |port: &u16| {
        let here = (Ipv4Addr::LOCALHOST, *port);
        UdpSocket::bind(here).is_ok() && TcpListener::bind(here).is_ok()
    };
    drawn.find(is_free).expect("loopback has free ports")
}

/// Addresses on loopback that were free a moment ago: for QUIC, with its tunnels over TCP, and for HTTP.
///
/// # Panics
/// If loopback has no free port.
pub fn free_addresses() -> (String, String) {
    let address = || format!("{}:{}", Ipv4Addr::LOCALHOST, free_port());
    (address(), address())
}
