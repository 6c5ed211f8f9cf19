//! The grid's own certificate authority, and the certificates that it issues.

use std::path::Path;
use std::time::SystemTime;

use common::token::Role;
use link::identity::{LinkInfo, key_hash};
use link::{Identity, LinkError, PeerName, files, tls};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::MasterError;

/// How long a certificate of a worker or client works.
const LIFE: Duration = Duration::days(30);
/// The master's own is made anew at each start.
const MASTER_LIFE: Duration = Duration::days(3 * 365);
const CA_LIFE: Duration = Duration::days(20 * 365);
/// Certificates work from this long before they are issued: clocks of office PCs differ.
const EARLIER: Duration = Duration::hours(48);

/// The CA with its key.
pub(crate) struct Authority {
    grid: Uuid,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, for the master's endpoint.
pub(crate) struct ServerIdentity {
    /// The master's certificate, then the CA's.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// The key.
    pub(crate) key: PrivatePkcs8KeyDer<'static>,
}

fn failed(error: impl std::fmt::Display) -> MasterError {
    MasterError::Authority(error.to_string())
}

fn now() -> OffsetDateTime {
    OffsetDateTime::from(SystemTime::now())
}

fn params(name: &str, life: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (now() - EARLIER, now() + life);
    params.use_authority_key_identifier_extension = true;
    params
}

impl Authority {
    /// The CA in `dir`, made at the first start.
    pub(crate) fn open(dir: &Path, grid: Uuid) -> Result<Self, MasterError> {
        let (key_path, certificate_path) = (dir.join("ca.key.der"), dir.join("ca.der"));
        if !certificate_path.exists() {
            Self::make(&key_path, &certificate_path, grid)?;
        }
        let read = |path: &Path| std::fs::read(path).map_err(LinkError::file("cannot read", path));
        if !files::is_private(&key_path).map_err(LinkError::file("cannot read", &key_path))? {
            let shown = key_path.display();
            return Err(failed(format!("others may read the CA's key {shown}: run `chmod 600 {shown}`")));
        }
        let certificate = CertificateDer::from(read(&certificate_path)?);
        let key = KeyPair::try_from(read(&key_path)?).map_err(failed)?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(failed)?;
        Ok(Self { grid, certificate, issuer })
    }

    fn make(key_path: &Path, certificate_path: &Path, grid: Uuid) -> Result<(), MasterError> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut ca = params(&format!("deskgrid {grid}"), CA_LIFE);
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = ca.self_signed(&key).map_err(failed)?;
        // The certificate comes last: where it is, the key is.
        for (path, bytes) in [(key_path, key.serialized_der()), (certificate_path, &certificate.der()[..])] {
            files::write_whole(path, bytes, 0o600).map_err(LinkError::file("cannot write", path))?;
        }
        Ok(())
    }

    /// Whether the key is that of the certificate: what it signs must be what the certificate's key verifies.
    pub(crate) fn fits(&self) -> Result<(), MasterError> {
        let own = public_key_hash(self.issuer.key());
        if own == self.key_hash()? { Ok(()) } else { Err(failed("the CA's key does not belong to its certificate")) }
    }

    /// The CA's certificate.
    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// What join tokens carry.
    pub(crate) fn key_hash(&self) -> Result<[u8; 32], MasterError> {
        Ok(key_hash(&self.certificate)?)
    }

    /// Which grid this is.
    pub(crate) fn grid(&self) -> Uuid {
        self.grid
    }

    /// A fresh certificate for the master's endpoint.
    pub(crate) fn server(&self) -> Result<ServerIdentity, MasterError> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut server = params("deskgrid master", MASTER_LIFE);
        server.subject_alt_names = vec![SanType::DnsName(tls::MASTER_NAME.try_into().map_err(failed)?)];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = server.signed_by(&key, &self.issuer).map_err(failed)?;
        let chain = vec![certificate.der().clone(), self.certificate.clone()];
        Ok(ServerIdentity { chain, key: key.serialize_der().into() })
    }

    /// A certificate for whoever holds this public key.
    pub(crate) fn issue(
        &self,
        key: &impl PublicKeyData,
        role: Role,
        id: Uuid,
    ) -> Result<CertificateDer<'static>, MasterError> {
        let name = PeerName { grid: self.grid, role, id };
        let mut peer = params(&format!("deskgrid {role}"), LIFE);
        peer.subject_alt_names = vec![SanType::URI(name.to_string().try_into().map_err(failed)?)];
        peer.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        peer.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        Ok(peer.signed_by(key, &self.issuer).map_err(failed)?.der().clone())
    }

    /// An identity for somebody on this machine, with the number that `enter` gives for the hash of its key.
    pub(crate) fn local_identity(
        &self,
        link: LinkInfo,
        enter: impl FnOnce([u8; 32]) -> Result<Uuid, MasterError>,
    ) -> Result<Identity, MasterError> {
        let key = KeyPair::generate().map_err(failed)?;
        let id = enter(public_key_hash(&key))?;
        let certificate = self.issue(&key, link.role, id)?;
        Ok(Identity { certificate, key: key.serialize_der().into(), ca: self.certificate.clone(), link })
    }
}

/// BLAKE3 of a public key as it will stand in a certificate (SubjectPublicKeyInfo, DER).
fn public_key_hash(key: &impl PublicKeyData) -> [u8; 32] {
    *blake3::hash(&key.subject_public_key_info()).as_bytes()
}

/// Reads a certificate signing request whose signature shows that its sender holds the key. Gives the request, of which
/// nothing but the public key may be used, and that key's hash.
pub(crate) fn read_request(csr: &[u8]) -> Result<(CertificateSigningRequestParams, [u8; 32]), MasterError> {
    let request = CertificateSigningRequestParams::from_der(&csr.into()).map_err(failed)?;
    let hash = public_key_hash(&request.public_key);
    Ok((request, hash))
}
