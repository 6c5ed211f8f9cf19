//! The master's end of its connections: over UDP, and through tunnels of TCP.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig};

use crate::endpoint::{bound, runtime, settings};
use crate::error::{LinkError, bad_identity};
use crate::transport::{ANY_PATH, DATAGRAM, KeepAlive, is_here};
use crate::tunnel::{self, TunnelDoor, TunnelLimits};

/// The shortest time between two words to strangers that their connection is gone.
const RESET_PAUSE: Duration = Duration::from_micros(500);

/// The master's endpoint over UDP. `seed` is kept over restarts, so that a peer of the process
/// before is told at once that its connection is gone, instead of waiting for its idle timeout.
///
/// # Errors
/// If the TLS settings are unfit for QUIC, or the address cannot be bound.
pub fn listen(
    address: SocketAddr,
    tls: rustls::ServerConfig,
    seed: [u8; 32],
) -> Result<Listener, LinkError> {
    let config = endpoint_config(seed)?;
    let serving = serving(tls)?;
    let bind = || {
        let socket = bound(address)?;
        Endpoint::new(config, Some(serving.anywhere), socket, runtime()?)
    };

    let endpoint = bind().map_err(LinkError::file("cannot listen on", address.to_string()))?;
    Ok(Listener {
        endpoint,
        here: Arc::new(RwLock::new(serving.here)),
    })
}

/// The master's end of all its connections over UDP, or of all over TCP.
#[derive(Debug, Clone)]
pub struct Listener {
    endpoint: Endpoint,
    /// The settings for peers on this machine, the same for each clone.
    here: Arc<RwLock<Arc<quinn::ServerConfig>>>,
}

impl Listener {
    /// The endpoint itself.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Lets a peer in, as far as its handshake.
    ///
    /// # Errors
    /// If what it sent cannot begin a connection.
    pub fn accept(&self, incoming: quinn::Incoming) -> Result<quinn::Connecting, LinkError> {
        let connecting = if is_here(incoming.remote_address().ip()) {
            let here = self.here.read().unwrap_or_else(PoisonError::into_inner);
            incoming.accept_with(Arc::clone(&here))
        } else {
            incoming.accept()
        };
        Ok(connecting?)
    }

    /// Answers new connections with these settings from now on, also by the clones of this `Listener`.
    ///
    /// # Errors
    /// If the TLS settings are unfit for QUIC.
    pub fn answer_with(&self, tls: rustls::ServerConfig) -> Result<(), LinkError> {
        let serving = serving(tls)?;
        self.endpoint.set_server_config(Some(serving.anywhere));
        *self.here.write().unwrap_or_else(PoisonError::into_inner) = serving.here;
        Ok(())
    }
}

/// The master's endpoint for those whom UDP does not reach: on TCP.
///
/// # Errors
/// As for [`listen`].
pub async fn listen_tcp(
    address: SocketAddr,
    tls: rustls::ServerConfig,
    seed: [u8; 32],
    limits: TunnelLimits,
) -> Result<(Listener, TunnelDoor), LinkError> {
    let config = endpoint_config(seed)?;
    let serving = serving(tls)?;
    let bind = async {
        let (socket, door) = tunnel::serve(tokio::net::TcpListener::bind(address).await?, limits)?;
        let server = Some(serving.anywhere);
        let endpoint = Endpoint::new_with_abstract_socket(config, server, socket, runtime()?)?;
        Ok((endpoint, door))
    };

    let (endpoint, door) = bind
        .await
        .map_err(LinkError::file("cannot listen on TCP", address.to_string()))?;
    let here = Arc::new(RwLock::new(serving.here));
    Ok((Listener { endpoint, here }, door))
}

/// The settings of a master's connections.
struct Serving {
    anywhere: quinn::ServerConfig,
    here: Arc<quinn::ServerConfig>,
}

fn serving(tls: rustls::ServerConfig) -> Result<Serving, LinkError> {
    let crypto = QuicServerConfig::try_from(tls).map_err(bad_identity)?;
    let mut anywhere = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let mut here = anywhere.clone();
    anywhere.transport_config(KeepAlive::MASTER.transport(ANY_PATH));
    here.transport_config(KeepAlive::MASTER.transport(DATAGRAM));
    let here = Arc::new(here);
    Ok(Serving { anywhere, here })
}

/// The settings of the endpoint itself, which follow from the `seed`.
fn endpoint_config(seed: [u8; 32]) -> Result<EndpointConfig, LinkError> {
    let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &seed);
    let [a, b, c, d, e, f, g, h, ..] = *blake3::keyed_hash(&seed, b"connection ids").as_bytes();
    let cid_key = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let mut config = EndpointConfig::new(Arc::new(reset_key));

    // Resets are smaller than what they answer; the usual pace of fifty in a second would keep a
    // crowd waiting for minutes.
    config.min_reset_interval(RESET_PAUSE);
    config.cid_generator(move || {
        Box::new(quinn_proto::HashedConnectionIdGenerator::from_key(cid_key))
    });
    settings(config)
}
