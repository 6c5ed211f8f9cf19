//! The settings of QUIC connections: their timeouts, their windows, and the size of their datagrams.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use crate::endpoint::Purpose;

/// The keep-alive interval, below the shortest common life of a NAT entry.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The idle timeout of a worker's connection, in milliseconds: only the last resort. Workers and
/// masters watch each other by the intervals that workers promise
/// ([`common::wire::worker::ToMaster::Alive`]), at most 100 s. The death of a worker alone is
/// noticed at once: see [`Farewell`](crate::Farewell).
const WORKER_IDLE: VarInt = VarInt::from_u32(400_000);
/// Clients are few, and somebody waits in front of one: it is to notice soon that the master was
/// restarted.
const CLIENT_KEEP_ALIVE: Duration = Duration::from_secs(2);
const IDLE: VarInt = VarInt::from_u32(45_000);
/// The same of a client, which says something every other second: one that was killed is to be
/// forgotten soon.
const CLIENT_IDLE: VarInt = VarInt::from_u32(15_000);
/// The same of a client that knows several masters: another one takes over within that time.
const ONE_OF_SEVERAL_KEEP_ALIVE: Duration = Duration::from_secs(1);
const ONE_OF_SEVERAL_IDLE: VarInt = VarInt::from_u32(5_000);
/// The idle timeout of a gateway's connection, in milliseconds: when it dies, its workers are at another
/// one before the master takes them for silent and has their tasks copied. The gateway itself looks more
/// often whether the master is there.
const GATEWAY_IDLE: VarInt = VarInt::from_u32(20_000);
/// The idle timeout between two workers, in milliseconds: the parts of a tree come over one
/// connection.
const PEER_IDLE: VarInt = VarInt::from_u32(20_000);
const RECEIVE_WINDOW: VarInt = VarInt::from_u32(4 << 20);
const STREAM_WINDOW: VarInt = VarInt::from_u32(1 << 20);
/// The most bytes that wait for a peer that does not read.
const SEND_WINDOW: u64 = 1 << 20;
/// The largest datagram, where the path takes such: loopback does, and networks with jumbo frames
/// nearly. The system cuts at most 64 KiB into datagrams at a time, and `quinn` gives it ten.
pub(crate) const DATAGRAM: u16 = 6_500;
/// The datagrams that every path takes, in bytes (RFC 9000, section 14).
pub(crate) const ANY_PATH: u16 = 1_200;
const STREAMS: VarInt = VarInt::from_u32(16);

/// The interval at which an end of a connection says that it is there, and the time for which it waits
/// for the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepAlive {
    every: Option<Duration>,
    idle: VarInt,
}

impl KeepAlive {
    /// Of a connection between two workers, who come for a while.
    pub(crate) const BRIEF: Self = Self {
        every: None,
        idle: PEER_IDLE,
    };
    /// Of somebody for whom nobody waits.
    pub(crate) const PATIENT: Self = Self {
        every: Some(KEEP_ALIVE),
        idle: IDLE,
    };
    /// Of the master. The shorter idle timeout of the two ends counts for both, and the other end
    /// keeps the connection alive.
    pub(crate) const MASTER: Self = Self {
        every: None,
        idle: WORKER_IDLE,
    };

    /// Of somebody who connects to a master, or to one of several.
    pub(crate) fn of(purpose: Purpose, several: bool) -> Self {
        let (every, idle) = match purpose {
            Purpose::Client if several => (Some(ONE_OF_SEVERAL_KEEP_ALIVE), ONE_OF_SEVERAL_IDLE),
            Purpose::Client => (Some(CLIENT_KEEP_ALIVE), CLIENT_IDLE),
            Purpose::Worker => (None, WORKER_IDLE),
            Purpose::Gateway => (Some(ONE_OF_SEVERAL_KEEP_ALIVE), GATEWAY_IDLE),
            Purpose::Enrol => return Self::PATIENT,
        };
        Self { every, idle }
    }

    /// Makes the settings of either end, to begin with datagrams of so many bytes.
    pub(crate) fn transport(self, first_datagrams: u16) -> Arc<TransportConfig> {
        let mut transport = TransportConfig::default();
        let mut mtu = MtuDiscoveryConfig::default();
        mtu.upper_bound(DATAGRAM);

        transport
            .initial_mtu(first_datagrams)
            .mtu_discovery_config(Some(mtu))
            .max_idle_timeout(Some(IdleTimeout::from(self.idle)))
            .keep_alive_interval(self.every)
            .receive_window(RECEIVE_WINDOW)
            .stream_receive_window(STREAM_WINDOW)
            .send_window(SEND_WINDOW)
            .max_concurrent_bidi_streams(STREAMS)
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None);
        Arc::new(transport)
    }
}

/// Returns the size of the first datagrams to a peer, in bytes. Within this machine the largest pass
/// for certain, and the search for them would cost each end some ten packets.
pub(crate) fn first_datagrams(peer: IpAddr) -> u16 {
    if is_here(peer) { DATAGRAM } else { ANY_PATH }
}

/// Returns whether this is a loopback address.
pub(crate) fn is_here(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}
