//! QUIC endpoints and connections with deskgrid's settings: over UDP, and where that does not get
//! through, through a tunnel of TCP (`tunnel`).

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::wire::stream::Open;
use common::wire::{ALPN_CLIENT, ALPN_ENROL, ALPN_GATEWAY, ALPN_WORKER};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Endpoint, EndpointConfig, VarInt};

use crate::channel::Channel;
use crate::error::{LinkError, OFFERS_NOTHING, bad_identity, spread_of};
use crate::farewell::{Farewell, ResetTokens};
use crate::identity::{Identity, key_hash};
use crate::networks::Network;
use crate::tls::TrustedEnds;
use crate::transport::{DATAGRAM, KeepAlive, first_datagrams};
use crate::{enrol, masters, tls, tunnel};

/// The longest time that a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that UDP is tried alone before TCP is tried beside it; `CLIENT_HEAD_START` is for
/// clients, where a person waits.
const HEAD_START: Duration = Duration::from_secs(3);
const CLIENT_HEAD_START: Duration = Duration::from_secs(1);
/// The time for UDP alone if only TCP got through the last time: enough for UDP to win where it
/// works again.
const SHORT_HEAD_START: Duration = Duration::from_millis(100);
/// The longest time that a word of goodbye may take through a tunnel.
const GOODBYE: Duration = Duration::from_millis(5);
/// The turns of other tasks, and then the longest time, until a goodbye is sent, and the pause between two looks.
const CLOSE_TURNS: u32 = 32;
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);
const CLOSE_PAUSE: Duration = Duration::from_millis(1);
/// The space for datagrams that have come and wait for this process, in bytes: as much as a
/// connection may have under way. The system may allow less.
#[cfg(not(windows))]
const SOCKET_SPACE: usize = 4 << 20;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A joiner redeems a token.
    Enrol,
    /// A worker serves.
    Worker,
    /// A client asks.
    Client,
    /// A gateway passes workers' sessions on.
    Gateway,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Purpose; 4] = [
        Purpose::Enrol,
        Purpose::Worker,
        Purpose::Client,
        Purpose::Gateway,
    ];

    /// Its name in the TLS handshake.
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Purpose::Enrol => ALPN_ENROL,
            Purpose::Worker => ALPN_WORKER,
            Purpose::Client => ALPN_CLIENT,
            Purpose::Gateway => ALPN_GATEWAY,
        }
    }

    /// The purpose with this name.
    pub fn of_alpn(alpn: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.alpn() == alpn)
    }
}

/// Binds a socket with room for what comes while this process is busy.
pub(crate) fn bound(address: SocketAddr) -> std::io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    #[cfg(not(windows))]
    {
        // Only makes things slower where the system refuses.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_SPACE);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_SPACE);
    }
    Ok(socket)
}

/// Returns the settings of an endpoint.
pub(crate) fn settings(mut config: EndpointConfig) -> Result<EndpointConfig, LinkError> {
    config
        .max_udp_payload_size(DATAGRAM)
        .map_err(|e| LinkError::Protocol(e.to_string()))?;
    Ok(config)
}

/// Returns the async runtime that endpoints use.
pub(crate) fn runtime() -> std::io::Result<Arc<dyn quinn::Runtime>> {
    tokio::runtime::Handle::try_current().map_err(std::io::Error::other)?;
    #[cfg(windows)]
    return Ok(Arc::new(crate::socket::Forgiving));
    #[cfg(not(windows))]
    Ok(Arc::new(quinn::TokioRuntime))
}

/// The carrier of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// UDP, as QUIC is meant to be.
    Udp,
    /// A tunnel of TCP, since UDP gets no answer.
    Tcp,
}

impl std::fmt::Display for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Carrier::Udp => "UDP",
            Carrier::Tcp => "TCP",
        })
    }
}

/// A connection to the master.
#[derive(Debug, Clone)]
pub struct Connection {
    quic: quinn::Connection,
    // The endpoint lives as long as its connection.
    endpoint: Endpoint,
    way: Carrier,
    resets: ResetTokens,
    /// The master's address as configured.
    master: String,
}

/// Connects to the identity's master, both ends authenticated: over UDP, or over TCP where UDP gets
/// no answer for some seconds, nearly at once where that was so the last time. The master may still
/// refuse: a worker has joined, and a client is let in, only with the master's `Welcome`. Of several
/// masters the first that does not stand by.
///
/// # Errors
/// If nothing answers within some seconds, or what answers is not the identity's master, or stands by.
pub async fn connect(identity: &Identity, purpose: Purpose) -> Result<Connection, LinkError> {
    let known = &*identity.link.master;
    let several = masters::are_several(known);
    let mut to: Vec<String> = masters::addresses(known).map(str::to_owned).collect();
    let errors = match connect_to_one(identity, purpose, &to, several).await {
        Ok(connection) => return Ok(connection),
        Err(errors) => errors,
    };

    // Whoever stands by knows who is active, perhaps at an address that is not known here.
    let mut told = Vec::new();
    for error in errors {
        told.push(match error {
            LinkError::StandsBy { master, .. } => enrol::standing(identity, &master).await,
            other => other,
        });
    }
    let elsewhere = told.iter().find_map(|error| match error {
        LinkError::StandsBy { active, .. } => active.clone().filter(|at| !to.contains(at)),
        _ => None,
    });
    if let Some(active) = elsewhere {
        to = vec![active];
        if let Ok(connection) = connect_to_one(identity, purpose, &to, several).await {
            return Ok(connection);
        }
    }
    Err(masters::merged(known, told))
}

/// Connects to one of these masters.
async fn connect_to_one(
    identity: &Identity,
    purpose: Purpose,
    to: &[String],
    several: bool,
) -> Result<Connection, Vec<LinkError>> {
    let mut tries: Vec<masters::Trying<'_, Connection>> = Vec::new();
    for master in to {
        tries.push(Box::pin(connect_to_master(
            identity, purpose, master, several,
        )));
    }
    masters::first(tries).await
}

async fn connect_to_master(
    identity: &Identity,
    purpose: Purpose,
    master: &str,
    several: bool,
) -> Result<Connection, LinkError> {
    let client = purpose == Purpose::Client;
    let head_start = if client {
        CLIENT_HEAD_START
    } else {
        HEAD_START
    };

    let ends = match purpose {
        Purpose::Worker => TrustedEnds::MastersAndGateways,
        _ => TrustedEnds::Masters,
    };
    let tls = tls::client_config(identity, purpose.alpn(), ends)?;
    let caller = Caller::new(
        master,
        &key_hash(&identity.ca)?,
        tls,
        KeepAlive::of(purpose, several),
    )?;
    let connected = Caller {
        home: identity.home.as_deref(),
        ..caller
    }
    .connect(head_start)
    .await;
    connected.map_err(|error| match error {
        LinkError::NotAccepted(why) if why == OFFERS_NOTHING => LinkError::StandsBy {
            master: master.to_owned(),
            active: None,
        },
        other => other,
    })
}

/// Somebody who connects.
pub(crate) struct Caller<'a> {
    master: &'a str,
    /// The name that the master's certificate has to have.
    wanted: String,
    config: quinn::ClientConfig,
    keep_alive: KeepAlive,
    /// The directory that remembers what networks let through, if there is one.
    home: Option<&'a Path>,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(
        master: &'a str,
        ca_key_hash: &[u8; 32],
        tls: rustls::ClientConfig,
        keep_alive: KeepAlive,
    ) -> Result<Self, LinkError> {
        let crypto = QuicClientConfig::try_from(tls).map_err(bad_identity)?;
        Ok(Self {
            master,
            wanted: tls::wanted_name(ca_key_hash),
            config: quinn::ClientConfig::new(Arc::new(crypto)),
            keep_alive,
            home: None,
        })
    }

    /// With the head start of those for whom nobody waits.
    pub(crate) async fn connect_patiently(&self) -> Result<Connection, LinkError> {
        self.connect(HEAD_START).await
    }

    /// By the first way that gets through; TCP sets out so much later.
    async fn connect(&self, head_start: Duration) -> Result<Connection, LinkError> {
        let mut last = self.unreachable("its name has no address".to_owned());
        for address in self.addresses().await? {
            let network = self.home.and_then(|home| Network::to(address, home));
            let needless = network.as_ref().is_some_and(|network| network.only_tcp);
            let tcp = async {
                tokio::time::sleep(if needless {
                    SHORT_HEAD_START
                } else {
                    head_start
                })
                .await;
                self.connect_to(address, Carrier::Tcp).await
            };
            match race(self.connect_to(address, Carrier::Udp), tcp).await {
                Ok(connection) => {
                    if let Some(network) = network {
                        network.note(connection.way);
                    }
                    return Ok(connection);
                }
                Err(error) => last = error,
            }
        }

        Err(last)
    }

    /// By one way only.
    pub(crate) async fn connect_by(&self, way: Carrier) -> Result<Connection, LinkError> {
        let mut last = self.unreachable("its name has no address".to_owned());
        for address in self.addresses().await? {
            match self.connect_to(address, way).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>, LinkError> {
        let found = tokio::net::lookup_host(self.master).await;
        Ok(found
            .map_err(|error| self.unreachable(error.to_string()))?
            .collect())
    }

    fn unreachable(&self, why: String) -> LinkError {
        LinkError::Unreachable {
            master: self.master.to_owned(),
            why,
        }
    }

    async fn connect_to(&self, address: SocketAddr, way: Carrier) -> Result<Connection, LinkError> {
        let connecting = async {
            let resets = ResetTokens::random();
            let endpoint = endpoint_to(address, way, &resets).await?;
            let mut config = self.config.clone();
            config.transport_config(self.keep_alive.transport(first_datagrams(address.ip())));
            let connecting = endpoint.connect_with(config, address, &self.wanted);
            let quic = connecting
                .map_err(|e| LinkError::Closed(e.to_string()))?
                .await?;
            Ok(Connection {
                quic,
                endpoint,
                way,
                resets,
                master: self.master.to_owned(),
            })
        };

        match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(done) => done.map_err(|error| explain(self.master, error)),
            Err(_) => {
                let at = match address.to_string() {
                    at if at == self.master => String::new(),
                    at => format!(" at {at}"),
                };
                Err(self.unreachable(format!("no answer by {way}{at} within {CONNECT_TIMEOUT:?}")))
            }
        }
    }
}

/// Any address and port of our own, of the same kind as this one.
pub(crate) fn any_like(address: SocketAddr) -> SocketAddr {
    if address.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0u16; 8], 0).into()
    }
}

/// A new endpoint of our own, with which to reach an address.
async fn endpoint_to(
    address: SocketAddr,
    way: Carrier,
    resets: &ResetTokens,
) -> Result<Endpoint, LinkError> {
    let config = settings(EndpointConfig::new(Arc::new(resets.clone())))?;

    match way {
        Carrier::Udp => {
            let any = any_like(address);
            let bind = || Endpoint::new(config, None, bound(any)?, runtime()?);
            bind().map_err(LinkError::file("cannot bind", any.to_string()))
        }
        Carrier::Tcp => {
            let dial = async {
                Endpoint::new_with_abstract_socket(
                    config,
                    None,
                    tunnel::dial(address).await?,
                    runtime()?,
                )
            };
            dial.await.map_err(|error: std::io::Error| {
                LinkError::Closed(format!("no answer by TCP: {error}"))
            })
        }
    }
}

/// The first that gets through. What UDP says of who answers counts at once, also that it takes no connection at
/// the moment; that nobody answers is no answer yet.
async fn race(
    udp: impl Future<Output = Result<Connection, LinkError>>,
    tcp: impl Future<Output = Result<Connection, LinkError>>,
) -> Result<Connection, LinkError> {
    tokio::pin!(udp, tcp);
    tokio::select! {
        by_udp = &mut udp => match by_udp {
            Err(error @ LinkError::Unreachable { .. }) if !error.is_busy() => {
                tcp.await.map_err(|other| neither(error, other))
            }
            done => done,
        },
        by_tcp = &mut tcp => match by_tcp {
            Err(error) => udp.await.map_err(|other| neither(other, error)),
            done => done,
        },
    }
}

/// Merges two failures into the one that helps most: another master answered, or none did either
/// way.
fn neither(udp: LinkError, tcp: LinkError) -> LinkError {
    match (udp, tcp) {
        (LinkError::Unreachable { master, why }, LinkError::Unreachable { why: other, .. }) => {
            LinkError::Unreachable {
                master,
                why: format!("{why}; {other}"),
            }
        }
        (LinkError::Unreachable { .. }, tcp) => tcp,
        (udp, _) => udp,
    }
}

/// A handshake that our own side broke off is about who the other is.
fn explain(master: &str, error: LinkError) -> LinkError {
    match error {
        LinkError::Closed(why) if why.contains("certificate") => LinkError::WrongMaster {
            master: master.to_owned(),
            why,
        },
        LinkError::Closed(why) => LinkError::Unreachable {
            master: master.to_owned(),
            why,
        },
        other => other,
    }
}

impl Connection {
    /// Opens a stream and says what it is for.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn open(&self, what: &Open) -> Result<Channel, LinkError> {
        let mut channel = self.open_bare().await?;
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

    /// Returns the number of datagrams that have come from the other end.
    pub fn received(&self) -> u64 {
        self.quic.stats().udp_rx.datagrams
    }

    /// Returns the number of datagrams that were sent to the other end.
    pub fn sent(&self) -> u64 {
        self.quic.stats().udp_tx.datagrams
    }

    /// Returns the address of the master at the other end, as it was configured.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// Returns the carrier of this connection, [`Carrier`].
    pub fn way(&self) -> Carrier {
        self.way
    }

    /// Returns this machine's address in the network through which the other end is reached. Nothing
    /// is sent to find it.
    pub fn own_address(&self) -> Option<IpAddr> {
        let to = self.quic.remote_address();
        let socket = std::net::UdpSocket::bind(any_like(to)).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip().to_canonical())
    }

    /// Returns what tells the master at once that this process is dead, if somebody else sends it
    /// then. Over TCP nobody needs to: the system closes the tunnel.
    pub fn farewell(&self) -> Option<Farewell> {
        let port = self.endpoint.local_addr().ok()?.port();
        let to = self.quic.remote_address();
        (self.way == Carrier::Udp).then(|| Farewell::new(port, to, &self.resets))
    }

    /// Resolves once the connection is gone, with why.
    pub async fn closed(&self) -> LinkError {
        self.quic.closed().await.into()
    }

    /// The time over which the master that has closed this connection wants its workers to come back; zero if it named none.
    pub fn spread(&self) -> Duration {
        let end = self.quic.close_reason();
        end.map_or(Duration::ZERO, |end| spread_of(&end))
    }

    /// Says goodbye and gives that a moment to leave this machine. Does not wait out QUIC's
    /// draining period, which is for answers that nobody needs.
    pub async fn close(&self, reason: &str) {
        if self.quic.close_reason().is_some() {
            return;
        }
        let before = self.quic.stats().udp_tx.datagrams;
        self.quic.close(VarInt::from_u32(0), reason.as_bytes());

        // On a busy machine the task that sends may get its turn late. A closed connection sends
        // nothing but its goodbye.
        let sent = async {
            let mut turns = 0..CLOSE_TURNS;
            while self.quic.stats().udp_tx.datagrams == before {
                match turns.next() {
                    Some(_) => tokio::task::yield_now().await,
                    None => tokio::time::sleep(CLOSE_PAUSE).await,
                }
            }
        };
        let _ = tokio::time::timeout(CLOSE_PATIENCE, sent).await;

        // A tunnel passes on what it is given in a task of its own.
        if self.way == Carrier::Tcp {
            let _ = tokio::time::timeout(GOODBYE, self.endpoint.wait_idle()).await;
        }
    }

    /// The connection itself.
    pub fn quic(&self) -> &quinn::Connection {
        &self.quic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_takes_no_connection_has_answered_and_tcp_is_not_waited_for() {
        let refused = quinn::ConnectionError::ConnectionClosed(quinn::ConnectionClose {
            error_code: quinn::TransportErrorCode::CONNECTION_REFUSED,
            frame_type: None,
            reason: Default::default(),
        });
        let busy = explain("a:7411", refused.into());
        let Err(error) = race(async { Err(busy) }, std::future::pending()).await else {
            panic!("nobody is connected");
        };
        assert!(error.passing() && error.is_busy(), "{error}");
    }
}
