//! TLS to services that are not of the grid: a database, storage.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// Makes the settings of a client that shows no certificate and trusts these authorities.
pub(crate) fn trusting(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
