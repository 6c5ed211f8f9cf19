//! Accepts HTTP connections, with TLS where there is a certificate: a bounded number at a time and
//! from one address. How long one may take is bounded where it is served.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use link::{BoundedPlaces, TakenPlace};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::MasterError;

/// The pause after a connection could not be accepted, for want of files for instance.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections.
pub(super) struct HttpListener {
    listener: TcpListener,
    crowd: BoundedPlaces,
}

impl HttpListener {
    /// A door with room for `most` connections, `of_one` of them from one address; a full one drops
    /// the oldest.
    pub(super) fn new(listener: TcpListener, most: usize, of_one: usize) -> Self {
        Self {
            listener,
            crowd: BoundedPlaces::new(most, of_one),
        }
    }
}

impl Listener for HttpListener {
    type Io = Bounded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Bounded, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, from)) => {
                    return (Bounded::new(stream, self.crowd.enter(from.ip())), from);
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection over HTTP could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Reads a certificate and its key.
pub(super) fn tls(
    certificate: &Path,
    key: &Path,
) -> Result<Arc<rustls::ServerConfig>, MasterError> {
    let unread = |path: &Path, why: &dyn std::fmt::Display| MasterError::Certificate {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unread(certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unread(key, &error))?;
    if let Some(warning) = link::files::exposed(key, "the private key") {
        tracing::warn!("{warning}");
    }

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let made = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, secret)
        });
    let mut config = made.map_err(|error| unread(certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Accepts connections with TLS. Handshakes take place beside each other.
pub(super) struct TlsListener {
    listener: HttpListener,
    acceptor: TlsAcceptor,
    patience: Duration,
    shaking: JoinSet<Option<(TlsStream<Bounded>, SocketAddr)>>,
}

impl TlsListener {
    /// A door behind which each handshake may take so long.
    pub(super) fn new(
        listener: HttpListener,
        config: Arc<rustls::ServerConfig>,
        patience: Duration,
    ) -> Self {
        Self {
            listener,
            acceptor: TlsAcceptor::from(config),
            patience,
            shaking: JoinSet::new(),
        }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<Bounded>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TlsStream<Bounded>, SocketAddr) {
        loop {
            tokio::select! {
                Some(shaken) = self.shaking.join_next() => if let Ok(Some(done)) = shaken {
                    return done;
                },
                (stream, from) = self.listener.accept() => {
                    let shaken = tokio::time::timeout(self.patience, self.acceptor.accept(stream));
                    self.shaking.spawn(async move { Some((shaken.await.ok()?.ok()?, from)) });
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when its place is taken.
pub(super) struct Bounded {
    stream: TcpStream,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

impl Bounded {
    fn new(stream: TcpStream, mut place: TakenPlace) -> Self {
        // The place is given back when the future ends.
        let over = async move { place.lost().await };
        Self {
            stream,
            over: Box::pin(over),
            ended: false,
        }
    }

    fn look(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.ended = self.ended || self.over.as_mut().poll(cx).is_ready();
        if self.ended {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            Ok(())
        }
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.look(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.look(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.look(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
