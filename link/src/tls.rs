//! TLS settings of each kind of end: version 1.3 only, the grid's own CA and no other, no tickets, no early data.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

use crate::error::LinkError;
use crate::identity::{Identity, key_hash};

/// The name in every master's certificate: which master it is follows from its CA, not from DNS.
pub const MASTER_NAME: &str = "master.deskgrid.internal";

fn bad(error: impl std::fmt::Display) -> LinkError {
    LinkError::BadIdentity(error.to_string())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn roots(ca: &CertificateDer<'static>) -> Result<Arc<RootCertStore>, LinkError> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone()).map_err(bad)?;
    Ok(Arc::new(roots))
}

/// Settings of an end that shows its certificate.
///
/// # Errors
/// If the identity's parts do not fit together.
pub fn client_config(identity: &Identity, alpn: &[u8]) -> Result<ClientConfig, LinkError> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(bad)?
        .with_root_certificates(roots(&identity.ca)?)
        .with_client_auth_cert(vec![identity.certificate.clone()], identity.private_key())
        .map_err(bad)?;
    Ok(finish_client(config, alpn))
}

/// Settings of a joiner, who knows nothing of the master but the hash of its CA's key.
///
/// # Errors
/// If the crypto library does not offer what is needed.
pub fn joiner_config(ca_key_hash: [u8; 32], alpn: &[u8]) -> Result<ClientConfig, LinkError> {
    let verifier = Arc::new(PinnedCa { ca_key_hash, provider: provider() });
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(bad)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(finish_client(config, alpn))
}

fn finish_client(mut config: ClientConfig, alpn: &[u8]) -> ClientConfig {
    config.alpn_protocols = vec![alpn.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config
}

/// Settings of the master. The client's certificate is optional in TLS, because a joiner has none; the master asks for
/// one as soon as it knows that the connection is not for enrolment.
///
/// # Errors
/// If certificate and key do not fit.
pub fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    ca: &CertificateDer<'static>,
    alpns: &[&[u8]],
) -> Result<ServerConfig, LinkError> {
    let clients = WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider())
        .allow_unauthenticated()
        .build()
        .map_err(bad)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(bad)?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(bad)?;
    config.alpn_protocols = alpns.iter().map(|alpn| alpn.to_vec()).collect();
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

/// Accepts a master whose chain holds a CA with the known key hash, and whose own certificate that CA has issued.
#[derive(Debug)]
struct PinnedCa {
    ca_key_hash: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let wrong = || rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let pinned = |der: &&CertificateDer<'_>| key_hash(der).is_ok_and(|hash| hash == self.ca_key_hash);
        let ca = intermediates.iter().find(pinned).ok_or_else(wrong)?.clone().into_owned();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots(&ca).map_err(|_| wrong())?, self.provider.clone())
                .build()
                .map_err(|_| wrong())?;
        verifier.verify_server_cert(end_entity, &[], name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
