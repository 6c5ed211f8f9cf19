//! The certificate authority (CA) of the grid, and the certificates that it issues.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::SystemTime;

use common::Time;
use common::token::Role;
use link::identity::{EARLIER_S, LinkInfo, key_hash, public_key_hash, signed_itself};
use link::tls::ServerChain;
use link::{Identity, LinkError, PeerName, files, tls};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
    SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::MasterError;

/// The life of the master's own certificate, which is made anew at each start.
const MASTER_LIFE: Duration = Duration::days(3 * 365);
/// The prefix of the grid's number in the name of its CA.
const CA_NAME: &str = "deskgrid ";
const CA_LIFE: Duration = Duration::days(20 * 365);
/// The time before their issue from which certificates are valid: clocks of office PCs differ.
const EARLIER: Duration = Duration::seconds(EARLIER_S);

/// The CA with its key, and the one before it while some peers may know no other.
pub(crate) struct Authority {
    grid: Uuid,
    /// The life of a worker's or client's certificate.
    life: Duration,
    current: Ca,
    former: RwLock<Option<FormerCa>>,
}

/// The CA before the present one, while it is trusted.
struct FormerCa {
    ca: Ca,
    generation: Previous,
}

/// A CA's certificate with its key.
struct Ca {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
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
    params.not_before = now() - EARLIER;
    params.not_after = now() + life;
    params.use_authority_key_identifier_extension = true;
    params
}

impl Ca {
    fn open(key_path: &Path, certificate_path: &Path) -> Result<Self, MasterError> {
        let read = |path: &Path| std::fs::read(path).map_err(LinkError::file("cannot read", path));
        if !files::is_private(key_path).map_err(LinkError::file("cannot read", key_path))? {
            let shown = key_path.display();
            return Err(failed(format!(
                "others may read the CA's key {shown}: run `chmod 600 {shown}`"
            )));
        }

        let damaged = |path: &Path, why: &str| {
            let shown = path.display();
            failed(format!(
                "{shown} is damaged ({why}): put that of a backup in its place"
            ))
        };
        let certificate = CertificateDer::from(read(certificate_path)?);
        // A certificate with one changed bit may still parse, but would not serve anybody.
        if !signed_itself(&certificate).map_err(|e| damaged(certificate_path, &e.to_string()))? {
            return Err(damaged(certificate_path, "its own signature does not fit"));
        }

        let key =
            KeyPair::try_from(read(key_path)?).map_err(|e| damaged(key_path, &e.to_string()))?;
        if public_key_hash(&key) != key_hash(&certificate)? {
            return Err(failed(format!(
                "the CA's key {} does not belong to its certificate {}: put both of a backup in their place",
                key_path.display(),
                certificate_path.display()
            )));
        }

        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(|e| damaged(certificate_path, &e.to_string()))?;
        Ok(Self {
            certificate,
            issuer,
        })
    }

    fn make(key_path: &Path, certificate_path: &Path, grid: Uuid) -> Result<(), MasterError> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut ca = params(&format!("{CA_NAME}{grid}"), CA_LIFE);
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];

        let certificate = ca.self_signed(&key).map_err(failed)?;
        // The certificate is written last: if it exists, the key does.
        for (path, bytes) in [
            (key_path, key.serialized_der()),
            (certificate_path, &certificate.der()[..]),
        ] {
            files::write_whole(path, bytes, 0o600)
                .map_err(LinkError::file("cannot write", path))?;
        }

        Ok(())
    }

    /// Issues a fresh certificate for the master's endpoint.
    fn server(&self) -> Result<ServerChain, MasterError> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut server = params("deskgrid master", MASTER_LIFE);
        server.subject_alt_names = vec![SanType::DnsName(
            tls::MASTER_NAME.try_into().map_err(failed)?,
        )];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];

        let certificate = server
            .signed_by(&key, &self.issuer)
            .map_err(failed)?
            .der()
            .clone();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());

        Ok(ServerChain {
            certificate,
            key,
            ca: self.certificate.clone(),
        })
    }
}

impl Authority {
    /// Opens the CA in `dir`, made at the first start, and the one before it while that is still
    /// trusted. Certificates that it issues are valid for `life`.
    pub(crate) fn open(
        dir: &Path,
        grid: Uuid,
        life: std::time::Duration,
    ) -> Result<Self, MasterError> {
        let generations = Generations::read(dir)?;
        let (key_path, certificate_path) = generation_files(dir, generations.current);
        if !certificate_path.exists() {
            Ca::make(&key_path, &certificate_path, grid)?;
        }

        let current = Ca::open(&key_path, &certificate_path)?;
        let former = match generations.previous {
            Some(generation) if now().unix_timestamp() < generation.until_s => {
                let (key, certificate) = generation_files(dir, generation.number);
                let ca = Ca::open(&key, &certificate)?;
                Some(FormerCa { ca, generation })
            }
            Some(previous) => {
                previous.remove(dir)?;
                None
            }
            None => None,
        };

        let life = Duration::try_from(life).map_err(failed)?;
        Ok(Self {
            grid,
            life,
            current,
            former: RwLock::new(former),
        })
    }

    fn former(&self) -> RwLockReadGuard<'_, Option<FormerCa>> {
        self.former.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time for which the CA before this one is still trusted; `None` if there is none.
    pub(crate) fn overlap(&self) -> Option<std::time::Duration> {
        let until_s = self.former().as_ref()?.generation.until_s;
        let left_s = until_s.saturating_sub(now().unix_timestamp());
        Some(std::time::Duration::from_secs(
            u64::try_from(left_s).unwrap_or(0),
        ))
    }

    /// Ends the trust in the CA before this one: has `answer` show the chains that are left, and
    /// removes its files from `dir`.
    pub(crate) fn end_overlap(
        &self,
        dir: &Path,
        answer: impl FnOnce(Vec<ServerChain>) -> Result<(), MasterError>,
    ) -> Result<(), MasterError> {
        let mut former = self.former.write().unwrap_or_else(PoisonError::into_inner);
        let ended = former.take();
        drop(former);

        answer(self.server()?)?;
        ended.map_or(Ok(()), |ended| ended.generation.remove(dir))
    }

    /// The CA's certificate.
    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.current.certificate
    }

    /// The certificate of the CA that an end asked for, or else of the present one.
    pub(crate) fn wanted(&self, name: Option<&str>) -> CertificateDer<'static> {
        let former = self.former();
        let asked = |ca: &&Ca| {
            key_hash(&ca.certificate).is_ok_and(|hash| name == Some(&tls::wanted_name(&hash)))
        };
        let former = former.as_ref().map(|former| &former.ca);
        let wanted = former.filter(asked).unwrap_or(&self.current);
        wanted.certificate.clone()
    }

    /// The hash of the CA's public key, which join tokens carry.
    pub(crate) fn key_hash(&self) -> Result<[u8; 32], MasterError> {
        Ok(key_hash(self.certificate())?)
    }

    /// The number of the grid.
    pub(crate) fn grid(&self) -> Uuid {
        self.grid
    }

    /// The expiry of a certificate that is issued now.
    pub(crate) fn expiry(&self) -> Time {
        Time(
            u64::try_from((now() + self.life).unix_timestamp())
                .unwrap_or(0)
                .saturating_mul(1_000_000),
        )
    }

    /// Issues fresh certificates for the master's endpoint, one under each trusted CA, the oldest
    /// last.
    pub(crate) fn server(&self) -> Result<Vec<ServerChain>, MasterError> {
        let former = self.former();
        std::iter::once(&self.current)
            .chain(former.as_ref().map(|former| &former.ca))
            .map(Ca::server)
            .collect()
    }

    /// Issues a certificate for the holder of this public key.
    pub(crate) fn issue(
        &self,
        key: &impl PublicKeyData,
        role: Role,
        id: Uuid,
    ) -> Result<CertificateDer<'static>, MasterError> {
        let name = PeerName {
            grid: self.grid,
            role,
            id,
        };
        let mut peer = params(&format!("deskgrid {role}"), self.life);
        peer.subject_alt_names = vec![SanType::URI(name.to_string().try_into().map_err(failed)?)];
        peer.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        peer.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if role == Role::Gateway {
            let name = tls::GATEWAY_NAME.try_into().map_err(failed)?;
            peer.subject_alt_names.push(SanType::DnsName(name));
            peer.extended_key_usages
                .push(ExtendedKeyUsagePurpose::ServerAuth);
        }

        Ok(peer
            .signed_by(key, &self.current.issuer)
            .map_err(failed)?
            .der()
            .clone())
    }

    /// Makes an identity for a user of this machine, with the number and name that `enter` gives
    /// for the hash of its key.
    pub(crate) fn local_identity(
        &self,
        link: LinkInfo,
        enter: impl FnOnce([u8; 32]) -> Result<(Uuid, String), MasterError>,
    ) -> Result<Identity, MasterError> {
        let key = KeyPair::generate().map_err(failed)?;
        let (id, name) = enter(public_key_hash(&key))?;
        let link = LinkInfo { name, ..link };
        let certificate = self.issue(&key, link.role, id)?;
        Ok(Identity {
            certificate,
            key: key.serialize_der().into(),
            ca: self.certificate().clone(),
            link,
            home: None,
            update_key: None,
        })
    }
}

/// The generations of CAs: the file `ca.toml`, missing before the first rotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generations {
    /// The number of the CA that issues certificates.
    current: u32,
    /// The CA before it, while it is trusted.
    previous: Option<Previous>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Previous {
    number: u32,
    /// The end of its trust, in seconds since 1970.
    until_s: i64,
}

/// The paths of a generation's key and certificate; the first one's names have no number.
fn generation_files(dir: &Path, number: u32) -> (PathBuf, PathBuf) {
    match number {
        1 => (dir.join("ca.key.der"), dir.join("ca.der")),
        n => (
            dir.join(format!("ca-{n}.key.der")),
            dir.join(format!("ca-{n}.der")),
        ),
    }
}

impl Generations {
    fn read(dir: &Path) -> Result<Self, MasterError> {
        let path = dir.join("ca.toml");
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                toml::from_str(&text).map_err(|e| failed(format!("{}: {e}", path.display())))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self {
                current: 1,
                previous: None,
            }),
            Err(error) => Err(LinkError::file("cannot read", path)(error).into()),
        }
    }

    fn write(&self, dir: &Path) -> Result<(), MasterError> {
        let path = dir.join("ca.toml");
        let text = toml::to_string(self).map_err(failed)?;
        Ok(files::write_whole(&path, text.as_bytes(), 0o600)
            .map_err(LinkError::file("cannot write", path))?)
    }
}

impl Previous {
    /// Removes the files of a CA that is no longer trusted.
    fn remove(self, dir: &Path) -> Result<(), MasterError> {
        Generations {
            previous: None,
            ..Generations::read(dir)?
        }
        .write(dir)?;

        let (key, certificate) = generation_files(dir, self.number);
        for path in [key, certificate] {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(LinkError::file("cannot remove", path)(error).into());
                }
                _ => {}
            }
        }

        Ok(())
    }
}

/// Whether there is a CA in `dir`.
pub(crate) fn exists(dir: &Path) -> Result<bool, MasterError> {
    let (_, certificate) = generation_files(dir, Generations::read(dir)?.current);
    Ok(certificate.exists())
}

/// The grid of the CA in `dir`; `None` if there is no CA, or its certificate does not name the
/// grid.
pub(crate) fn grid_of(dir: &Path) -> Result<Option<Uuid>, MasterError> {
    let (_, certificate) = generation_files(dir, Generations::read(dir)?.current);
    let bytes = match std::fs::read(&certificate) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LinkError::file("cannot read", certificate)(error).into()),
    };
    Ok(link::identity::common_name(&bytes)?
        .and_then(|name| name.strip_prefix(CA_NAME)?.parse().ok()))
}

/// Checks that the CAs in `dir` can be used: the present one, and the one before it while that is
/// kept. Changes nothing.
pub(crate) fn check(dir: &Path) -> Result<(), MasterError> {
    let generations = Generations::read(dir)?;
    let previous = generations.previous.map(|previous| previous.number);
    for number in std::iter::once(generations.current).chain(previous) {
        let (key, certificate) = generation_files(dir, number);
        Ca::open(&key, &certificate)?;
    }
    Ok(())
}

/// Makes a new CA for the grid in `dir`. The present one stays trusted for `overlap`, and is
/// removed then.
pub(crate) fn rotate(
    dir: &Path,
    grid: Uuid,
    overlap: std::time::Duration,
) -> Result<(), MasterError> {
    let before = Generations::read(dir)?;
    let now_s = now().unix_timestamp();
    if let Some(previous) = before.previous {
        if now_s < previous.until_s {
            let until = humantime::format_rfc3339_seconds(
                SystemTime::UNIX_EPOCH
                    + std::time::Duration::from_secs(previous.until_s.unsigned_abs()),
            );
            return Err(failed(format!(
                "the CA was rotated before, and the one before that is trusted until {until}"
            )));
        }
        previous.remove(dir)?;
    }

    let number = before.current + 1;
    let (key, certificate) = generation_files(dir, number);
    Ca::make(&key, &certificate, grid)?;

    let until_s = now_s.saturating_add(i64::try_from(overlap.as_secs()).unwrap_or(i64::MAX));
    // `ca.toml` is written last: until then only the old CA counts, from then on both do.
    Generations {
        current: number,
        previous: Some(Previous {
            number: before.current,
            until_s,
        }),
    }
    .write(dir)
}

/// Reads a certificate signing request and verifies its signature, which shows that its sender
/// holds the key. Returns the request, of which only the public key may be used, and that key's
/// hash.
pub(crate) fn read_request(
    csr: &[u8],
) -> Result<(CertificateSigningRequestParams, [u8; 32]), MasterError> {
    let request = CertificateSigningRequestParams::from_der(&csr.into()).map_err(failed)?;
    let hash = public_key_hash(&request.public_key);
    Ok((request, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_with_any_flipped_bit_is_refused_with_its_file_name() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            Authority::open(
                dir.path(),
                Uuid::nil(),
                std::time::Duration::from_secs(86_400),
            )
            .map(drop)
        };
        open().unwrap();

        let path = dir.path().join("ca.der");
        let whole = std::fs::read(&path).unwrap();
        let mut unseen = Vec::new();
        for byte in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[byte] ^= 1 << (byte % 8);
            std::fs::write(&path, bytes).unwrap();
            match open() {
                Err(told) if told.to_string().contains("ca.der is damaged") => {
                    assert!(check(dir.path()).is_err(), "byte {byte}");
                }
                told => unseen.push((byte, told)),
            }
        }
        assert!(unseen.is_empty(), "of {} bytes: {unseen:?}", whole.len());
        std::fs::write(&path, whole).unwrap();

        let other = tempfile::tempdir().unwrap();
        Authority::open(
            other.path(),
            Uuid::nil(),
            std::time::Duration::from_secs(86_400),
        )
        .unwrap();
        std::fs::copy(
            other.path().join("ca.key.der"),
            dir.path().join("ca.key.der"),
        )
        .unwrap();
        let told = open().unwrap_err().to_string();
        assert!(
            told.contains("does not belong") && told.contains("ca.key.der"),
            "{told}"
        );
    }
}
