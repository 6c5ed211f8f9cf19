//! Serves the API, `/healthz` and `/metrics` over HTTP.

mod door;
mod monitors;

use std::sync::Arc;
use std::time::Duration;

use api::HttpBounds;
use axum::Router;
use link::LinkError;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;

use crate::limits::FileTransfers;
use crate::numbers;
use crate::run::SessionContext;
use crate::sessions::bearers::Bearers;
use crate::sessions::near::NearDoor;
use crate::{Config, MasterError};

/// The time for which a connection may stand idle, and in which a request has to be there.
const HEAD: Duration = Duration::from_secs(10);

/// Installs the metrics recorder, once for the process; a second master in one process records into
/// the first one's.
pub(crate) fn recorder() -> PrometheusHandle {
    static HANDLE: std::sync::OnceLock<PrometheusHandle> = std::sync::OnceLock::new();
    let install = || {
        let builder = numbers::builder().unwrap_or_else(|_| PrometheusBuilder::new());
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // Installing fails only if another recorder is in place; then its exporter shows the
        // numbers.
        let _ = metrics::set_global_recorder(recorder);
        numbers::describe();
        handle
    };
    HANDLE.get_or_init(install).clone()
}

/// The place at which HTTP is served.
pub(crate) struct HttpPlace {
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl HttpPlace {
    /// The address.
    pub(crate) fn local_addr(&self) -> std::io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns its URL for programs, on other machines where it can be reached from them. Other machines know this master as
    /// `known_as`; a configured name goes first, since its certificate has that.
    pub(crate) fn url(&self, config: &Config, known_as: &str) -> std::io::Result<String> {
        let bound = self.local_addr()?;
        let named = config.http_hosts.first().or(config.advertise.as_ref());
        let host = without_port(named.map_or(known_as, String::as_str));
        if config.http_behind_proxy {
            return Ok(format!("https://{host}"));
        }
        if self.tls.is_none() {
            return Ok(format!("http://{bound}"));
        }

        Ok(if named.is_none() && !bound.ip().is_unspecified() {
            format!("https://{bound}")
        } else {
            format!("https://{host}:{}", bound.port())
        })
    }
}

/// Binds the address, and reads the certificate if there is one.
pub(crate) async fn bind(
    config: &Config,
    address: std::net::SocketAddr,
) -> Result<HttpPlace, MasterError> {
    let tls = match (&config.http_certificate, &config.http_key) {
        (Some(certificate), Some(key)) => Some(door::tls(certificate, key)?),
        _ => None,
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(LinkError::file("cannot listen on", address.to_string()))?;
    Ok(HttpPlace { listener, tls })
}

/// Serves until the listener fails.
pub(crate) async fn serve(place: HttpPlace, state: Arc<SessionContext>, files: FileTransfers) {
    let door = Arc::new(NearDoor(state.clone()));
    let mut pages = dashboard::pages(door.clone());
    pages.files = pages.files.merge(monitors::routes(state.clone()));
    let routes = api::router(door, Arc::new(Bearers(state.clone())), pages);
    serve_routes(place, routes, files, &state.config).await;
}

/// Serves these routes until the listener fails.
pub(crate) fn serve_routes(
    place: HttpPlace,
    routes: Router,
    files: FileTransfers,
    config: &Config,
) -> impl Future<Output = ()> + Send + use<> {
    let bounds = HttpBounds {
        connections: files.http,
        head: HEAD,
        patience: config.limits.answer_patience.0,
    };
    let of_one = files.http_of(config.http_behind_proxy);
    async move {
        let listener = door::HttpListener::new(place.listener, bounds.connections, of_one);
        match place.tls {
            None => api::serve(listener, routes, bounds).await,
            Some(tls) => {
                let listener = door::TlsListener::new(listener, tls, HEAD);
                api::serve(listener, routes, bounds).await;
            }
        }
    }
}

/// Whether the named host is this master: an address (a foreign page cannot be named so), this
/// machine, or a configured name.
pub(crate) fn is_ours(named: &str, config: &Config) -> bool {
    let host = without_port(named);
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>()
        .is_ok();
    let same = |name: &str| name.eq_ignore_ascii_case(host);
    let advertised = config.advertise.as_deref().map(without_port);
    address
        || same("localhost")
        || advertised.is_some_and(same)
        || config.http_hosts.iter().any(|name| same(name))
}

fn without_port(named: &str) -> &str {
    match named.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_told_from_an_address() {
        assert_eq!(without_port("localhost:7412"), "localhost");
        assert_eq!(without_port("[::1]:7412"), "[::1]");
        assert_eq!(without_port("example.org"), "example.org");
        assert_eq!(without_port("[::1]"), "[::1]");
    }

    #[tokio::test]
    async fn programs_elsewhere_are_told_a_name_that_leads_to_this_server() {
        let dir = tempfile::tempdir().unwrap();
        let pair = rcgen::generate_simple_self_signed(["grid.example.org".to_owned()]).unwrap();
        let write = |name: &str, text: String| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            Some(path)
        };
        let plain = Config::default();
        let tls = Config {
            http_certificate: write("certificate", pair.cert.pem()),
            http_key: write("key", pair.signing_key.serialize_pem()),
            ..Config::default()
        };
        let known = Config {
            advertise: Some("grid.example.org:7411".into()),
            ..tls.clone()
        };
        let named = Config {
            http_hosts: vec!["deskgrid.example.org".into()],
            ..known.clone()
        };
        let proxy = Config {
            http_behind_proxy: true,
            ..Config::default()
        };

        let any = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        let here = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        for (address, config, told) in [
            (here, &plain, "http://127.0.0.1:PORT"),
            (here, &tls, "https://127.0.0.1:PORT"),
            (any, &tls, "https://10.0.0.1:PORT"),
            (here, &known, "https://grid.example.org:PORT"),
            (any, &named, "https://deskgrid.example.org:PORT"),
            (here, &proxy, "https://10.0.0.1"),
        ] {
            let place = bind(config, address).await.unwrap();
            let port = place.local_addr().unwrap().port().to_string();
            let url = place.url(config, "10.0.0.1:7411").unwrap();
            assert_eq!(url, told.replace("PORT", &port));
        }
    }
}
