//! TLS settings of each kind of end: version 1.3 only, the grid's own CA and no other, no tickets,
//! no early data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::token::Role;
use common::wire::peer::KeyHash;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore,
    ServerConfig, SignatureScheme,
};

use crate::error::{LinkError, bad_identity};
use crate::identity::{Identity, Validity, key_hash, read_certificate};

/// The name in every master's certificate: which master it is follows from its CA, not from DNS.
pub const MASTER_NAME: &str = "master.deskgrid.internal";

/// The name in every gateway's certificate.
pub const GATEWAY_NAME: &str = "gateway.deskgrid.internal";

/// The ends that a connection may lead to. A gateway reads what it passes on, so only workers, who
/// have no secrets before the grid, take one for the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustedEnds {
    /// The master alone.
    Masters,
    /// The master, or a gateway of its grid.
    MastersAndGateways,
}

/// The name that a worker asks another one for: which it is follows from its key.
pub(crate) const PEER_NAME: &str = "peer.deskgrid.internal";

/// Returns the server name with which an end that trusts the CA with this key hash greets the
/// master. While one CA replaces another, the master has a certificate of each.
pub fn wanted_name(ca_key_hash: &[u8; 32]) -> String {
    format!(
        "ca-{}.deskgrid.internal",
        common::token::hex(&ca_key_hash[..12])
    )
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn roots<'a>(
    cas: impl IntoIterator<Item = &'a CertificateDer<'static>>,
) -> Result<Arc<RootCertStore>, LinkError> {
    let mut roots = RootCertStore::empty();
    for ca in cas {
        roots.add(ca.clone()).map_err(bad_identity)?;
    }
    Ok(Arc::new(roots))
}

fn server_name(name: &'static str) -> Result<ServerName<'static>, rustls::Error> {
    ServerName::try_from(name).map_err(|e| rustls::Error::General(e.to_string()))
}

/// Settings of an end that shows its certificate.
///
/// # Errors
/// If the identity's parts do not fit together.
pub fn client_config(
    identity: &Identity,
    alpn: &[u8],
    ends: TrustedEnds,
) -> Result<ClientConfig, LinkError> {
    let ca_key_hash = key_hash(&identity.ca)?;
    let verifier = Arc::new(PinnedCa {
        ca_key_hash,
        known: Some(identity.ca.clone()),
        ends,
        provider: provider(),
    });
    showing(identity, verifier, alpn)
}

/// Settings of a worker that calls another one, whose key has this hash.
///
/// # Errors
/// If the identity's parts do not fit together.
pub(crate) fn peer_client_config(
    identity: &Identity,
    key: KeyHash,
    alpn: &[u8],
) -> Result<ClientConfig, LinkError> {
    let verifier = Arc::new(PinnedPeer {
        key,
        workers: workers_of(identity)?,
    });
    showing(identity, verifier, alpn)
}

/// Settings of an end that shows its certificate to whom `verifier` accepts.
fn showing(
    identity: &Identity,
    verifier: Arc<dyn ServerCertVerifier>,
    alpn: &[u8],
) -> Result<ClientConfig, LinkError> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(bad_identity)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(vec![identity.certificate.clone()], identity.private_key())
        .map_err(bad_identity)?;
    Ok(finish_client(config, alpn))
}

/// Settings of a worker that is called by others: each shows a certificate of the same CA.
///
/// # Errors
/// If the identity's parts do not fit together.
pub(crate) fn peer_server_config(
    identity: &Identity,
    alpn: &[u8],
) -> Result<ServerConfig, LinkError> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(bad_identity)?
        .with_client_cert_verifier(workers_of(identity)?)
        .with_single_cert(vec![identity.certificate.clone()], identity.private_key())
        .map_err(bad_identity)?;

    Ok(finish_server(config, &[alpn]))
}

fn finish_server(mut config: ServerConfig, alpns: &[&[u8]]) -> ServerConfig {
    config.alpn_protocols = alpns.iter().map(|alpn| alpn.to_vec()).collect();
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    config
}

/// Verifies certificates of this identity's CA. An expired one passes: the master, whose clock
/// counts, decides who comes.
fn workers_of(identity: &Identity) -> Result<Arc<AnyTime>, LinkError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots([&identity.ca])?, provider());
    Ok(Arc::new(AnyTime(verifier.build().map_err(bad_identity)?)))
}

/// Settings of a joiner, who knows nothing of the master but the hash of its CA's key.
///
/// # Errors
/// If the crypto library does not offer what is needed.
pub fn joiner_config(
    ca_key_hash: [u8; 32],
    alpn: &[u8],
    ends: TrustedEnds,
) -> Result<ClientConfig, LinkError> {
    let verifier = Arc::new(PinnedCa {
        ca_key_hash,
        known: None,
        ends,
        provider: provider(),
    });

    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(bad_identity)?
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

/// The time nearest to `now` at which a certificate holds. Chains are verified as of then: clocks
/// of office PCs, and now and then a master's, are wrong by days or years, and who is let in is
/// decided by a table, not by a clock.
fn within_life(certificate: &CertificateDer<'_>, now: UnixTime) -> Option<UnixTime> {
    let Validity { from_s, until_s } = Validity::of(certificate).ok()?;
    let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let then_s = u64::try_from(now_s.min(until_s).max(from_s)).ok()?;
    Some(UnixTime::since_unix_epoch(Duration::from_secs(then_s)))
}

/// The master's certificate under one CA, with its key.
#[derive(Debug)]
pub struct ServerChain {
    /// The master's certificate.
    pub certificate: CertificateDer<'static>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// The CA that issued it.
    pub ca: CertificateDer<'static>,
}

/// Settings of the master. The client's certificate is optional in TLS, because a joiner has none;
/// the master asks for one as soon as it knows that the connection is not for enrolment. `chains`
/// has one for each CA that is trusted, the oldest last. A peer's certificate that has expired, or
/// does not hold yet, is let through: what its holder may do is the caller's affair.
///
/// # Errors
/// If certificate and key do not fit, or there is no chain.
pub fn server_config(chains: Vec<ServerChain>, alpns: &[&[u8]]) -> Result<ServerConfig, LinkError> {
    let provider = provider();
    let cas = roots(chains.iter().map(|chain| &chain.ca))?;
    let clients = WebPkiClientVerifier::builder_with_provider(cas, provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(bad_identity)?;
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(bad_identity)?
        .with_client_cert_verifier(Arc::new(AnyTime(clients)))
        .with_cert_resolver(Arc::new(ByCa::new(chains, &provider)?));

    Ok(finish_server(config, alpns))
}

/// Selects the certificate under the CA that a peer asks for ([`wanted_name`]).
#[derive(Debug)]
struct ByCa {
    by_name: BTreeMap<String, Arc<CertifiedKey>>,
    /// The certificate for peers that do not ask: older programs, which know no newer CA.
    oldest: Arc<CertifiedKey>,
}

impl ByCa {
    fn new(chains: Vec<ServerChain>, provider: &CryptoProvider) -> Result<Self, LinkError> {
        let mut by_name = BTreeMap::new();
        let mut oldest = None;
        for ServerChain {
            certificate,
            key,
            ca,
        } in chains
        {
            let name = wanted_name(&key_hash(&ca)?);
            let certified = Arc::new(
                CertifiedKey::from_der(vec![certificate, ca], key, provider)
                    .map_err(bad_identity)?,
            );
            by_name.insert(name, certified.clone());
            oldest = Some(certified);
        }

        Ok(Self {
            by_name,
            oldest: oldest.ok_or_else(|| bad_identity("no chain"))?,
        })
    }
}

impl ResolvesServerCert for ByCa {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().and_then(|name| self.by_name.get(name));
        Some(asked.unwrap_or(&self.oldest).clone())
    }
}

/// Makes the methods of a verifier that leaves signatures to the one in its field `$other`.
macro_rules! signatures_as {
    ($other:tt) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.$other
                .verify_tls12_signature(message, certificate, signed)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.$other
                .verify_tls13_signature(message, certificate, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.$other.supported_verify_schemes()
        }
    };
}

/// Verifies a peer's certificate as of a time at which it is valid, so that an expired one passes.
#[derive(Debug)]
struct AnyTime(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyTime {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let then = within_life(end_entity, now).unwrap_or(now);
        self.0.verify_client_cert(end_entity, intermediates, then)
    }

    signatures_as!(0);
}

/// Accepts the worker that has this key, with a certificate of our CA. Workers' certificates are
/// for clients only, so they are verified as such.
#[derive(Debug)]
struct PinnedPeer {
    key: KeyHash,
    workers: Arc<AnyTime>,
}

impl ServerCertVerifier for PinnedPeer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.workers
            .verify_client_cert(end_entity, intermediates, now)?;

        match read_certificate(end_entity) {
            Ok((name, key)) if name.role == Role::Worker && key == self.key => {
                Ok(ServerCertVerified::assertion())
            }
            _ => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    signatures_as!(workers);
}

/// Accepts a master whose own certificate was issued by the CA with the known key hash: the one
/// that is known, or else the one in the master's chain. The name that the connection asked for
/// plays no part, and neither does this machine's clock: the key of that certificate is made anew
/// at each start of the master and is in no file.
#[derive(Debug)]
struct PinnedCa {
    ca_key_hash: [u8; 32],
    known: Option<CertificateDer<'static>>,
    ends: TrustedEnds,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let wrong = || rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let pinned =
            |der: &&CertificateDer<'_>| key_hash(der).is_ok_and(|hash| hash == self.ca_key_hash);

        let sent = || {
            let found = intermediates.iter().find(pinned);
            found.map(|ca| ca.clone().into_owned())
        };
        let ca = self.known.clone().or_else(sent).ok_or_else(wrong)?;
        let verifier = WebPkiServerVerifier::builder_with_provider(
            roots([&ca]).map_err(|_| wrong())?,
            self.provider.clone(),
        )
        .build()
        .map_err(|_| wrong())?;

        let then = within_life(end_entity, now).unwrap_or(now);
        let verify =
            |name| verifier.verify_server_cert(end_entity, &[], &server_name(name)?, ocsp, then);
        match verify(MASTER_NAME) {
            Err(_) if self.ends == TrustedEnds::MastersAndGateways => verify(GATEWAY_NAME),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let why = "TLS 1.2 is not spoken here".to_owned();
        Err(rustls::Error::General(why))
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
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
