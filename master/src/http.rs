//! `/healthz` and `/metrics`. The REST API and the dashboard are not here yet.

use std::sync::Arc;

use axum::Router;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::routing::get;
use link::LinkError;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;

use crate::run::State;

/// Makes the metrics recorder, once for the process; a second master in one process records into the first's.
pub(crate) fn recorder() -> PrometheusHandle {
    static HANDLE: std::sync::OnceLock<PrometheusHandle> = std::sync::OnceLock::new();
    let install = || {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        // Only a foreign recorder could be in the way; then its own exporter shows the numbers.
        let _ = metrics::set_global_recorder(recorder);
        handle
    };
    HANDLE.get_or_init(install).clone()
}

/// Binds the address.
pub(crate) async fn bind(address: std::net::SocketAddr) -> Result<TcpListener, LinkError> {
    TcpListener::bind(address).await.map_err(LinkError::file("cannot listen on", address.to_string()))
}

/// Serves until the listener fails.
pub(crate) async fn serve(listener: TcpListener, state: Arc<State>) {
    let routes = Router::new().route("/healthz", get(healthz)).route("/metrics", get(show_metrics)).with_state(state);
    if let Err(error) = axum::serve(listener, routes).await {
        tracing::error!(%error, "HTTP ended");
    }
}

/// Fine if the core answers, which it does only after a commit.
async fn healthz(Shared(state): Shared<Arc<State>>) -> (StatusCode, &'static str) {
    match state.core.ask(|_| Ok(())).await {
        Ok(()) => (StatusCode::OK, "ok\n"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the core has stopped\n"),
    }
}

async fn show_metrics(Shared(state): Shared<Arc<State>>) -> Result<String, StatusCode> {
    let look = |core: &mut crate::core::Core| Ok((core.host_states(), core.open_jobs()));
    let (hosts, jobs) = state.core.ask(look).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    for (name, count) in hosts {
        metrics::gauge!("deskgrid_hosts", "state" => name.to_string()).set(count as f64);
    }
    metrics::gauge!("deskgrid_open_jobs").set(jobs as f64);
    Ok(state.metrics.render())
}
