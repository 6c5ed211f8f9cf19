//! Connections between two workers of one grid: both show their certificates, and each end knows
//! the other by the hash of its key, of which the master has told it. Over UDP only.
//!
//! The master's tickets decide who may fetch which content; the worker looks at them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use common::token::Role;
use common::wire::peer::{KeyHash, PeerGet, PeerSource};
use common::wire::{ALPN_PEER, Refusal, RefusalCode};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Endpoint, EndpointConfig, VarInt};

use crate::channel::Channel;
use crate::content::WITHDRAWN;
use crate::endpoint::{any_like, bound, runtime, settings};
use crate::error::{LinkError, NOT_LET_IN, bad_identity};
use crate::handshake::shown_certificate;
use crate::identity::{Identity, PeerName, read_certificate};
use crate::tls;
use crate::transport::{ANY_PATH, KeepAlive};

/// The longest time that a handshake may take, at either end.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// The longest time until a guest has said what a stream is for.
const QUESTION: Duration = Duration::from_secs(5);

/// The credentials with which a worker meets others.
#[derive(Clone)]
pub struct PeerPapers {
    identity: Arc<Identity>,
    name: PeerName,
}

impl PeerPapers {
    /// The credentials of this [`Identity`].
    ///
    /// # Errors
    /// If its certificate names nobody.
    pub fn of(identity: &Identity) -> Result<Self, LinkError> {
        let (name, _) = read_certificate(&identity.certificate)?;
        Ok(Self {
            identity: Arc::new(identity.again()),
            name,
        })
    }

    fn serving(&self) -> Result<quinn::ServerConfig, LinkError> {
        let tls = tls::peer_server_config(&self.identity, ALPN_PEER)?;
        let crypto = QuicServerConfig::try_from(tls).map_err(bad_identity)?;
        let mut server = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        server.transport_config(KeepAlive::BRIEF.transport(ANY_PATH));
        Ok(server)
    }

    /// Connects to the host that the master has named in a [`PeerSource`].
    ///
    /// # Errors
    /// If nobody with its key answers at any of the addresses.
    pub async fn call(&self, source: &PeerSource) -> Result<PeerHost, LinkError> {
        let tls = tls::peer_client_config(&self.identity, source.key, ALPN_PEER)?;
        let crypto = QuicClientConfig::try_from(tls).map_err(bad_identity)?;
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(KeepAlive::BRIEF.transport(ANY_PATH));

        let mut last = LinkError::Closed("it has no address".to_owned());
        for address in &source.addresses {
            let connecting = async {
                let any = any_like(*address);
                let config_of_end = settings(EndpointConfig::default())?;
                let bind = || Endpoint::new(config_of_end, None, bound(any)?, runtime()?);
                let endpoint = bind().map_err(LinkError::file("cannot bind", any.to_string()))?;
                let connecting = endpoint.connect_with(config.clone(), *address, tls::PEER_NAME);
                let quic = connecting
                    .map_err(|e| LinkError::Closed(e.to_string()))?
                    .await?;
                Ok(PeerHost { quic, endpoint })
            };
            match tokio::time::timeout(HANDSHAKE, connecting).await {
                Ok(Ok(host)) => return Ok(host),
                Ok(Err(error)) => last = error,
                Err(_) => last = LinkError::Closed(format!("no answer from {address}")),
            }
        }
        Err(last)
    }
}

/// A connection to a host that has content.
#[derive(Debug, Clone)]
pub struct PeerHost {
    quic: quinn::Connection,
    /// Lives as long as its connection.
    #[expect(dead_code, reason = "held, not used")]
    endpoint: Endpoint,
}

impl PeerHost {
    /// Whether it can be used no more.
    pub fn is_closed(&self) -> bool {
        self.quic.close_reason().is_some()
    }

    pub(crate) async fn ask(&self, what: &PeerGet) -> Result<Channel, LinkError> {
        let (tx, rx) = self.quic.open_bi().await?;
        let mut channel = Channel::new(tx, rx);
        channel.tx.send(what).await?;
        channel.tx.finish();
        Ok(channel)
    }
}

/// The door of a worker at which other workers fetch content.
#[derive(Debug, Clone)]
pub struct PeerDoor {
    endpoint: Endpoint,
    grid: uuid::Uuid,
}

impl PeerDoor {
    /// Opens it. Needs a runtime, which then serves it.
    ///
    /// # Errors
    /// If the port is taken, or the TLS settings are unfit.
    pub fn open(address: SocketAddr, papers: &PeerPapers) -> Result<Self, LinkError> {
        let server = papers.serving()?;
        let config = settings(EndpointConfig::default())?;
        let bind = || Endpoint::new(config, Some(server), bound(address)?, runtime()?);
        Ok(Self {
            endpoint: bind().map_err(LinkError::file("cannot listen on", address.to_string()))?,
            grid: papers.name.grid,
        })
    }

    /// Shows these [`PeerPapers`] to who comes from now on.
    ///
    /// # Errors
    /// If the TLS settings are unfit.
    pub fn renew(&self, papers: &PeerPapers) -> Result<(), LinkError> {
        self.endpoint.set_server_config(Some(papers.serving()?));
        Ok(())
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.endpoint.local_addr().ok()
    }

    /// Closes it, and every connection that came through it.
    pub fn close(&self) {
        self.endpoint
            .close(VarInt::from_u32(0), b"the worker leaves");
    }

    /// Returns the next who knocks; `None` once the door is closed. An address that has not proved
    /// itself is asked to, so that nobody is answered in another's name.
    pub async fn next(&self) -> Option<PeerKnock> {
        loop {
            let incoming = self.endpoint.accept().await?;
            if incoming.remote_address_validated() {
                let grid = self.grid;
                return Some(PeerKnock { incoming, grid });
            }
            // Fails only if the address is proved already.
            let _ = incoming.retry();
        }
    }
}

/// Somebody who knocks at a [`PeerDoor`].
#[derive(Debug)]
pub struct PeerKnock {
    incoming: quinn::Incoming,
    grid: uuid::Uuid,
}

impl PeerKnock {
    /// Sends it away.
    pub fn refuse(self) {
        self.incoming.refuse();
    }

    /// Lets it in if it is a worker of the same grid.
    ///
    /// # Errors
    /// If it is not, or is too slow.
    pub async fn let_in(self) -> Result<PeerGuest, LinkError> {
        let connecting = self.incoming.into_future();
        let quic = tokio::time::timeout(HANDSHAKE, connecting)
            .await
            .map_err(|_| LinkError::Closed("the handshake took too long".to_owned()))??;

        let shown = shown_certificate(&quic);
        let read = shown.map(|der| read_certificate(&der)).transpose()?;
        match read {
            Some((name, key)) if name.role == Role::Worker && name.grid == self.grid => {
                Ok(PeerGuest { quic, key })
            }
            _ => {
                quic.close(NOT_LET_IN, b"only workers of this grid are let in");
                Err(LinkError::NotAccepted("no worker of this grid".to_owned()))
            }
        }
    }
}

/// A worker that has come for content.
#[derive(Debug, Clone)]
pub struct PeerGuest {
    quic: quinn::Connection,
    /// The hash of its key.
    pub key: KeyHash,
}

impl PeerGuest {
    /// Returns the next [`PeerQuestion`].
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn next(&self) -> Result<PeerQuestion, LinkError> {
        let (tx, rx) = self.quic.accept_bi().await?;
        Ok(PeerQuestion(Channel::new(tx, rx)))
    }

    /// Ends the connection.
    pub fn close(&self, why: &str) {
        self.quic.close(crate::error::NOT_NOW, why.as_bytes());
    }
}

/// A stream that a guest has opened.
#[derive(Debug)]
pub struct PeerQuestion(Channel);

impl PeerQuestion {
    /// Reads the [`PeerGet`].
    ///
    /// # Errors
    /// If it does not come soon, or is something else.
    pub async fn read(mut self) -> Result<(PeerGet, Channel), LinkError> {
        let asked = tokio::time::timeout(QUESTION, self.0.rx.expect::<PeerGet>()).await;
        let asked = asked.map_err(|_| LinkError::Closed("it did not ask in time".to_owned()))??;
        Ok((asked, self.0))
    }
}

/// Refuses a [`PeerGet`].
///
/// # Errors
/// If the connection is gone.
pub async fn refuse(mut channel: Channel, why: &str) -> Result<(), LinkError> {
    let refusal = Refusal::new(RefusalCode::NotAuthorised, why, "ask the master again");
    let reply = common::wire::stream::GetReply::Refused(refusal);
    channel.tx.send_last(&reply).await
}

/// Breaks off what is being sent over this stream: the other end hears that it is no failure.
pub fn withdraw(channel: &mut Channel) {
    let _ = channel.tx.raw().reset(WITHDRAWN);
}
