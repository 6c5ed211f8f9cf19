//! HTTP for the client of S3-compatible storage: hyper over TCP, and rustls where the address says
//! https.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::trusting::trusting;

/// The time until a connection is there, and until a request was sent and its answer begins.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(60);
/// The time for which an unused connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// Where systems keep the certificates of the authorities that they trust.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Makes each [`Wire`] to storage.
#[derive(Clone)]
pub(super) struct Dialer(TlsConnector);

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dialer")
    }
}

impl Dialer {
    /// Reads the certificates of authorities: from this file, or those of the system. The error is for
    /// the admin.
    pub(super) fn new(certificates: Option<&Path>) -> Result<Self, String> {
        let named = certificates.map(Path::to_owned);
        let named = named.or_else(|| std::env::var_os("SSL_CERT_FILE").map(PathBuf::from));
        let given = named.is_some();
        let system = || {
            SYSTEM_ROOTS
                .map(PathBuf::from)
                .into_iter()
                .find(|path| path.exists())
        };

        let mut roots = RootCertStore::empty();
        if let Some(path) = named.or_else(system) {
            let unread = |error: &dyn std::fmt::Display| {
                format!("certificates: {} cannot be read: {error}", path.display())
            };
            let pem = fs::read(&path).map_err(|error| unread(&error))?;
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            let (added, _) = roots.add_parsable_certificates(read.map_err(|error| unread(&error))?);
            if added == 0 && given {
                return Err(unread(&"it has no certificate of an authority"));
            }
        }

        let config = trusting(roots).map_err(|error| error.to_string())?;
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Connects within `CONNECT`.
    async fn dial_in_time(self, to: Uri) -> io::Result<TokioIo<Wire>> {
        match tokio::time::timeout(CONNECT, self.dial(to)).await {
            Ok(wire) => Ok(TokioIo::new(wire?)),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn dial(self, to: Uri) -> io::Result<Wire> {
        let host = to.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let tls = to.scheme_str() == Some("https");
        let port = to.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let socket = TcpStream::connect((host, port)).await?;
        socket.set_nodelay(true)?;
        if !tls {
            return Ok(Wire::Plain(socket));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let secured = self.0.connect(name, socket).await?;
        Ok(Wire::Tls(Box::new(secured)))
    }
}

/// A connection, with TLS or without.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(socket) => Pin::new(socket).poll_read(context, into),
            Wire::Tls(socket) => Pin::new(socket).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Wire::Tls(socket) => Pin::new(socket).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(socket) => Pin::new(socket).poll_flush(context),
            Wire::Tls(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Wire::Tls(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}

impl HttpConnector for Dialer {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let dialer = self.clone();
        let dial = tower::service_fn(move |to| Box::pin(dialer.clone().dial_in_time(to)));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(dial);
        Ok(HttpClient::new(OverHyper(client)))
    }
}

/// The requests of the client, over hyper.
struct OverHyper<C>(Client<C, HttpRequestBody>);

impl<C> std::fmt::Debug for OverHyper<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OverHyper")
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> HttpService for OverHyper<C> {
    fn call<'life, 'made>(
        &'life self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'made>>
    where
        'life: 'made,
        Self: 'made,
    {
        let asked = self.0.request(request);
        Box::pin(async move {
            let answered = tokio::time::timeout(ANSWER, asked).await;
            let answered = answered.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
            let (parts, body) = answered
                .map_err(|error| {
                    let kind = if error.is_connect() {
                        HttpErrorKind::Connect
                    } else {
                        HttpErrorKind::Request
                    };
                    HttpError::new(kind, error)
                })?
                .into_parts();

            let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
            Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
        })
    }
}
