//! QUIC endpoints and connections with deskgrid's settings.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use common::wire::stream::Open;
use common::wire::{ALPN_CLIENT, ALPN_ENROL, ALPN_WORKER};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Endpoint, EndpointConfig, IdleTimeout, TransportConfig, VarInt};

use crate::channel::Channel;
use crate::error::LinkError;
use crate::identity::{Identity, key_hash};
use crate::tls;

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a word of goodbye may take to leave.
const GOODBYE: Duration = Duration::from_millis(5);
/// Below the shortest common life of a NAT entry.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Clients are few, and somebody waits in front of one: it is to notice soon that the master was restarted.
const CLIENT_KEEP_ALIVE: Duration = Duration::from_secs(2);
const IDLE: VarInt = VarInt::from_u32(45_000);
const RECEIVE_WINDOW: VarInt = VarInt::from_u32(4 << 20);
const STREAM_WINDOW: VarInt = VarInt::from_u32(1 << 20);
/// What waits for a peer that does not read, at most, in bytes.
const SEND_WINDOW: u64 = 4 << 20;
/// The shortest time between two words to strangers that their connection is gone.
const RESET_PAUSE: Duration = Duration::from_micros(500);
const STREAMS: VarInt = VarInt::from_u32(16);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A joiner redeems a token.
    Enrol,
    /// A worker serves.
    Worker,
    /// A client asks.
    Client,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Purpose; 3] = [Purpose::Enrol, Purpose::Worker, Purpose::Client];

    /// Its name in the TLS handshake.
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Purpose::Enrol => ALPN_ENROL,
            Purpose::Worker => ALPN_WORKER,
            Purpose::Client => ALPN_CLIENT,
        }
    }

    /// The purpose with this name.
    pub fn of_alpn(alpn: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.alpn() == alpn)
    }
}

/// Settings of either end.
fn transport(keep_alive: Duration) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(IdleTimeout::from(IDLE)))
        .keep_alive_interval(Some(keep_alive))
        .receive_window(RECEIVE_WINDOW)
        .stream_receive_window(STREAM_WINDOW)
        .send_window(SEND_WINDOW)
        .max_concurrent_bidi_streams(STREAMS)
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    Arc::new(transport)
}

/// The master's endpoint. `seed` is kept over restarts, so that a peer of the process before is told at once that its
/// connection is gone, instead of waiting for its idle timeout.
///
/// # Errors
/// If the TLS settings are unfit for QUIC, or the address cannot be bound.
pub fn listen(address: SocketAddr, tls: rustls::ServerConfig, seed: [u8; 32]) -> Result<Endpoint, LinkError> {
    let crypto = QuicServerConfig::try_from(tls).map_err(|e| LinkError::BadIdentity(e.to_string()))?;
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    server.transport_config(transport(KEEP_ALIVE));
    let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &seed);
    let [a, b, c, d, e, f, g, h, ..] = *blake3::keyed_hash(&seed, b"connection ids").as_bytes();
    let cid_key = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    // Resets are smaller than what they answer; the usual pace of fifty in a second would keep a crowd waiting for minutes.
    config.min_reset_interval(RESET_PAUSE);
    config.cid_generator(move || Box::new(quinn_proto::HashedConnectionIdGenerator::from_key(cid_key)));
    let bind = || {
        let socket = std::net::UdpSocket::bind(address)?;
        Endpoint::new(config, Some(server), socket, runtime()?)
    };
    bind().map_err(LinkError::file("cannot listen on", address.to_string()))
}

/// What endpoints run on.
fn runtime() -> std::io::Result<Arc<dyn quinn::Runtime>> {
    tokio::runtime::Handle::try_current().map_err(std::io::Error::other)?;
    #[cfg(windows)]
    return Ok(Arc::new(crate::socket::Forgiving));
    #[cfg(not(windows))]
    Ok(Arc::new(quinn::TokioRuntime))
}

/// A connection to the master.
#[derive(Debug, Clone)]
pub struct Connection {
    quic: quinn::Connection,
    // The endpoint lives as long as its connection.
    endpoint: Endpoint,
}

/// Connects to the identity's master, both ends authenticated. The master may still refuse: a worker has joined, and a
/// client is let in, only with the master's `Welcome`.
///
/// # Errors
/// If nothing answers within five seconds, or what answers is not the identity's master.
pub async fn connect(identity: &Identity, purpose: Purpose) -> Result<Connection, LinkError> {
    let keep_alive = if purpose == Purpose::Client { CLIENT_KEEP_ALIVE } else { KEEP_ALIVE };
    let wanted = tls::wanted_name(&key_hash(&identity.ca)?);
    connect_with(&identity.link.master, &wanted, tls::client_config(identity, purpose.alpn())?, keep_alive).await
}

pub(crate) async fn connect_with(
    master: &str,
    wanted: &str,
    tls: rustls::ClientConfig,
    keep_alive: Duration,
) -> Result<Connection, LinkError> {
    let crypto = QuicClientConfig::try_from(tls).map_err(|e| LinkError::BadIdentity(e.to_string()))?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport(keep_alive));
    let unreachable = |why: String| LinkError::Unreachable { master: master.to_owned(), why };
    let addresses: Vec<SocketAddr> =
        tokio::net::lookup_host(master).await.map_err(|e| unreachable(e.to_string()))?.collect();
    let mut last = unreachable("its name has no address".to_owned());
    for address in addresses {
        match tokio::time::timeout(CONNECT_TIMEOUT, connect_to(address, wanted, config.clone())).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => last = explain(master, error),
            Err(_) => last = unreachable(format!("no answer from {address} (UDP) within {CONNECT_TIMEOUT:?}")),
        }
    }
    Err(last)
}

async fn connect_to(address: SocketAddr, wanted: &str, config: quinn::ClientConfig) -> Result<Connection, LinkError> {
    let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let bind = || Endpoint::new(EndpointConfig::default(), None, std::net::UdpSocket::bind(any)?, runtime()?);
    let endpoint = bind().map_err(LinkError::file("cannot bind", any.to_string()))?;
    let connecting = endpoint.connect_with(config, address, wanted).map_err(|e| LinkError::Closed(e.to_string()))?;
    Ok(Connection { quic: connecting.await?, endpoint })
}

/// A handshake that our own side broke off is about who the other is.
fn explain(master: &str, error: LinkError) -> LinkError {
    match error {
        LinkError::Closed(why) if why.contains("certificate") => {
            LinkError::WrongMaster { master: master.to_owned(), why }
        }
        LinkError::Closed(why) => LinkError::Unreachable { master: master.to_owned(), why },
        other => other,
    }
}

impl Connection {
    /// Opens a stream and says what it is for.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn open(&self, what: &Open) -> Result<Channel, LinkError> {
        let (tx, rx) = self.quic.open_bi().await?;
        let mut channel = Channel::new(tx, rx);
        channel.tx.send(what).await?;
        Ok(channel)
    }

    /// Opens a stream without a first message.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn open_bare(&self) -> Result<Channel, LinkError> {
        let (tx, rx) = self.quic.open_bi().await?;
        Ok(Channel::new(tx, rx))
    }

    /// Resolves once the connection is gone, with why.
    pub async fn closed(&self) -> LinkError {
        self.quic.closed().await.into()
    }

    /// Says goodbye and gives that a moment to leave this machine. Does not wait out QUIC's draining period, which is for
    /// answers that nobody needs.
    pub async fn close(&self, reason: &str) {
        self.quic.close(VarInt::from_u32(0), reason.as_bytes());
        let _ = tokio::time::timeout(GOODBYE, self.endpoint.wait_idle()).await;
    }

    /// The connection itself.
    pub fn quic(&self) -> &quinn::Connection {
        &self.quic
    }
}
