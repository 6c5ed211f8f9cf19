//! TLS to a database, by rustls: the server's certificate must come from an authority that the admin
//! names, and be for the name that was asked for.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::trusting::trusting;

/// Makes TLS connections to servers whose certificates come from some authorities.
#[derive(Clone)]
pub(super) struct Connector(Arc<ClientConfig>);

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// Reads the certificates of authorities from a PEM file. The error is for the admin.
    pub(super) fn new(roots: &str) -> Result<Self, String> {
        let unread =
            |error: &dyn std::fmt::Display| format!("sslrootcert {roots} cannot be read: {error}");
        let mut store = RootCertStore::empty();
        for root in CertificateDer::pem_file_iter(roots).map_err(|error| unread(&error))? {
            let root = root.map_err(|error| unread(&error))?;
            store.add(root).map_err(|error| unread(&error))?;
        }
        if store.is_empty() {
            return Err(unread(&"it has no certificate"));
        }

        let config = trusting(store).map_err(|error| error.to_string())?;
        Ok(Self(Arc::new(config)))
    }
}

/// A connection to be made to a server of one name.
pub(super) struct ToServer(TlsConnector, ServerName<'static>);

impl MakeTlsConnect<Socket> for Connector {
    type Stream = TlsSocket;
    type TlsConnect = ToServer;
    type Error = io::Error;

    fn make_tls_connect(&mut self, name: &str) -> io::Result<ToServer> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        Ok(ToServer(TlsConnector::from(self.0.clone()), name))
    }
}

impl TlsConnect<Socket> for ToServer {
    type Stream = TlsSocket;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TlsSocket>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move { self.0.connect(self.1, socket).await.map(TlsSocket) })
    }
}

/// A TLS connection to a database.
pub(super) struct TlsSocket(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for TlsSocket {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
