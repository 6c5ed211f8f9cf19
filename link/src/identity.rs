//! The identity of one end: a certificate of the grid's CA with its key, and the address of the
//! master.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use common::token::Role;
use common::update::UpdateKey;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::error::{LinkError, bad_identity};
use crate::files;

/// The file of a `JoiningKey`.
pub(crate) const JOINING_KEY: &str = "joining.key.der";

/// An identity as it lies in its directory: `certificate.der`, `key.der` (mode 0600), `ca.der`,
/// `link.toml`.
pub struct Identity {
    /// The certificate that the master issued.
    pub certificate: CertificateDer<'static>,
    /// The key, made on this machine; it never leaves it.
    pub key: PrivatePkcs8KeyDer<'static>,
    /// The certificate of the master's CA.
    pub ca: CertificateDer<'static>,
    /// The address of the master, and the name that it gives this end.
    pub link: LinkInfo,
    /// The directory that it was read from, if it was; `networks` keeps its records there.
    pub home: Option<PathBuf>,
    /// The key with which new programs for this host are signed, if it learned one as it joined.
    pub update_key: Option<UpdateKey>,
}

/// The data of an identity beside its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkInfo {
    /// `HOST:PORT` of the master; of several `HOST:PORT,HOST:PORT` (`masters`).
    pub master: String,
    /// The name of this end.
    pub name: String,
    /// The role of this end: `worker`, `client` or `admin`.
    #[serde(with = "role_text")]
    pub role: Role,
}

mod role_text {
    use common::token::Role;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(role: &Role, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(role)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Role, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

/// The file of [`Identity::update_key`]. It is not replaced with the certificate, only by whoever joins again.
pub(crate) const UPDATE_KEY: &str = "update.key";

/// Reads the key for new programs. Without one, or with one that is not sound, none are taken.
fn read_update_key(dir: &Path) -> Option<UpdateKey> {
    let path = dir.join(UPDATE_KEY);
    let text = std::fs::read_to_string(&path).ok()?;
    let key = text.parse();
    if key.is_err() {
        tracing::warn!(path = %path.display(), "this is no key for updates: none are taken");
    }
    key.ok()
}

impl Identity {
    /// Whether `dir` holds an identity.
    pub fn exists(dir: &Path) -> bool {
        dir.join("link.toml").exists()
    }

    /// The same, where not being let in is not taken for an answer.
    ///
    /// # Errors
    /// If this account may not look there.
    pub fn found(dir: &Path) -> Result<bool, LinkError> {
        let link = dir.join("link.toml");
        link.try_exists().map_err(|source| match source.kind() {
            std::io::ErrorKind::PermissionDenied => LinkError::HiddenIdentity {
                dir: dir.to_owned(),
                source,
            },
            _ => LinkError::file("cannot read", &link)(source),
        })
    }

    /// Reads an identity.
    ///
    /// # Errors
    /// If there is none, a part is missing, or others may read the key.
    pub fn load(dir: &Path) -> Result<Self, LinkError> {
        Self::found(dir)?;
        crate::renewal::finish_interrupted(dir)?;
        if !Self::exists(dir) {
            return Err(LinkError::NoIdentity {
                dir: dir.to_owned(),
            });
        }

        let read = |name: &str| {
            std::fs::read(dir.join(name)).map_err(LinkError::file("cannot read", dir.join(name)))
        };
        let key_path = dir.join("key.der");
        if !files::is_private(&key_path).map_err(LinkError::file("cannot read", &key_path))? {
            let shown = key_path.display();
            return Err(LinkError::BadIdentity(format!(
                "others may read the key {shown}: run `chmod 600 {shown}`"
            )));
        }

        let text = String::from_utf8_lossy(&read("link.toml")?).into_owned();
        let link = toml::from_str(&text).map_err(|e| {
            LinkError::BadIdentity(format!("{}: {e}", dir.join("link.toml").display()))
        })?;
        Ok(Self {
            certificate: read("certificate.der")?.into(),
            key: read("key.der")?.into(),
            ca: read("ca.der")?.into(),
            link,
            home: Some(dir.to_owned()),
            update_key: read_update_key(dir),
        })
    }

    /// Writes the identity into `dir`, which is made where it is missing. Whole or not at all, where none lies there:
    /// `link.toml` comes last.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, dir: &Path) -> Result<(), LinkError> {
        files::private_dir(dir).map_err(LinkError::file("cannot make", dir))?;
        let write = |name: &str, bytes: &[u8]| write_file(&dir.join(name), bytes);
        write("key.der", self.key.secret_pkcs8_der())?;
        write("certificate.der", &self.certificate)?;
        write("ca.der", &self.ca)?;

        match &self.update_key {
            Some(key) => write(UPDATE_KEY, key.to_string().as_bytes())?,
            None => remove_file(&dir.join(UPDATE_KEY))?,
        }

        let link = toml::to_string(&self.link).map_err(bad_identity)?;
        write("link.toml", link.as_bytes())?;

        remove_file(&dir.join(JOINING_KEY))
    }

    /// Returns another handle to the same identity.
    pub(crate) fn again(&self) -> Self {
        Self {
            certificate: self.certificate.clone(),
            key: self.key.clone_key(),
            ca: self.ca.clone(),
            link: self.link.clone(),
            home: self.home.clone(),
            update_key: self.update_key,
        }
    }

    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.clone_key())
    }
}

/// The holder as named in a certificate: the URI `deskgrid://GRID/ROLE/UUID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerName {
    /// The id of the grid.
    pub grid: Uuid,
    /// The role of the holder; the master's own table is decisive.
    pub role: Role,
    /// The id of the holder.
    pub id: Uuid,
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deskgrid://{}/{}/{}", self.grid, self.role, self.id)
    }
}

impl FromStr for PeerName {
    type Err = LinkError;
    fn from_str(s: &str) -> Result<Self, LinkError> {
        let parse = || {
            let mut parts = s.strip_prefix("deskgrid://")?.split('/');
            let grid = parts.next()?;
            let role = parts.next()?;
            let id = parts.next()?;
            let name = PeerName {
                grid: grid.parse().ok()?,
                role: role.parse().ok()?,
                id: id.parse().ok()?,
            };
            parts.next().is_none().then_some(name)
        };
        parse().ok_or_else(|| {
            LinkError::BadIdentity(format!("`{s}` is not deskgrid://GRID/ROLE/UUID"))
        })
    }
}

/// Returns the holder named in a certificate (whose chain TLS has verified), and the BLAKE3 hash of
/// its public key.
///
/// # Errors
/// If it is no certificate, or names nobody of deskgrid's.
pub fn read_certificate(der: &[u8]) -> Result<(PeerName, [u8; 32]), LinkError> {
    let certificate = parsed(der)?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|_| bad_identity("broken names in the certificate"))?;
    let uri = names
        .into_iter()
        .flat_map(|san| &san.value.general_names)
        .find_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });

    Ok((
        uri.ok_or_else(|| bad_identity("the certificate names nobody"))?
            .parse()?,
        key_hash_of(&certificate),
    ))
}

/// Whether a certificate is for a server of this name.
pub(crate) fn has_dns_name(der: &[u8], wanted: &str) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return false;
    };
    let names = certificate.subject_alternative_name().ok().flatten();
    names
        .into_iter()
        .flat_map(|san| &san.value.general_names)
        .any(|name| matches!(name, GeneralName::DNSName(dns) if *dns == wanted))
}

/// Whether a certificate was signed with the key that it names, and is what was signed then.
///
/// # Errors
/// If it is no certificate.
pub fn signed_itself(der: &[u8]) -> Result<bool, LinkError> {
    let (rest, parsed) = parsed_with_rest(der)?;
    // What the signature does not cover has one right form: the same name of an algorithm again,
    // and whole bytes.
    let signed = parsed.tbs_certificate.as_ref();
    let after = der
        .windows(signed.len())
        .position(|part| part == signed)
        .and_then(|at| der.get(at + signed.len()..))
        .unwrap_or_default();

    let length = after.get(1).map_or(0, |length| 2 + usize::from(*length));
    let again = after
        .get(..length)
        .is_some_and(|name| signed.windows(length.max(1)).any(|part| part == name));
    let fits = rest.is_empty() && again && parsed.signature_value.unused_bits == 0;
    Ok(fits && parsed.verify_signature(None).is_ok())
}

/// The common name of a certificate's subject, if it has one.
///
/// # Errors
/// If it is no certificate.
pub fn common_name(der: &[u8]) -> Result<Option<String>, LinkError> {
    let certificate = parsed(der)?;
    let name = certificate
        .subject()
        .iter_common_name()
        .next()
        .and_then(|name| name.as_str().ok());
    Ok(name.map(str::to_owned))
}

/// The period for which a certificate is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub from_s: i64,
    /// The last second.
    pub until_s: i64,
}

/// Certificates hold from this long before they are issued on: clocks of office PCs differ. In
/// seconds.
pub const EARLIER_S: i64 = 48 * 3_600;

impl Validity {
    /// Whether a third of the life, or less, is left at `now_s`.
    pub fn is_due(self, now_s: i64) -> bool {
        now_s >= self.due_s()
    }

    /// Returns the time from which a third of the life, or less, is left.
    pub fn due_s(self) -> i64 {
        let life_s = self
            .until_s
            .saturating_sub(self.from_s)
            .saturating_sub(EARLIER_S);
        self.until_s.saturating_sub(life_s / 3)
    }

    /// Reads the validity of a certificate (DER).
    ///
    /// # Errors
    /// If it is no certificate.
    pub fn of(der: &[u8]) -> Result<Self, LinkError> {
        let certificate = parsed(der)?;
        let validity = certificate.validity();
        Ok(Self {
            from_s: validity.not_before.timestamp(),
            until_s: validity.not_after.timestamp(),
        })
    }
}

/// Draws a number for one run of a worker, which no other run has.
pub fn draw_run() -> Uuid {
    Uuid::from_u128(rand::random())
}

/// Returns the BLAKE3 hash of a certificate's public key (SubjectPublicKeyInfo, DER), as join
/// tokens carry that of the CA.
///
/// # Errors
/// If it is no certificate.
pub fn key_hash(der: &[u8]) -> Result<[u8; 32], LinkError> {
    Ok(key_hash_of(&parsed(der)?))
}

/// Returns the hash that [`key_hash`] gives for the certificate of this key.
pub fn public_key_hash(key: &impl rcgen::PublicKeyData) -> [u8; 32] {
    *blake3::hash(&key.subject_public_key_info()).as_bytes()
}

/// Reads the key that an earlier request has left in this file, or makes one and writes it there.
pub(crate) fn kept_key(file: &Path) -> Result<rcgen::KeyPair, LinkError> {
    let kept = std::fs::read(file).ok();
    if let Some(key) = kept.and_then(|der| rcgen::KeyPair::try_from(der).ok()) {
        return Ok(key);
    }

    let key = rcgen::KeyPair::generate().map_err(bad_identity)?;
    write_file(file, key.serialized_der())?;
    Ok(key)
}

/// Makes a certificate signing request (DER) for this key.
pub(crate) fn signing_request(key: &rcgen::KeyPair) -> Result<Vec<u8>, LinkError> {
    let request = rcgen::CertificateParams::default().serialize_request(key);
    Ok(request.map_err(bad_identity)?.der().to_vec())
}

/// Writes a file of an identity, which only its own account may read.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), LinkError> {
    files::write_whole(path, bytes, 0o600).map_err(LinkError::file("cannot write", path))
}

/// Removes a file of an identity, if it is there.
pub(crate) fn remove_file(path: &Path) -> Result<(), LinkError> {
    files::remove(path).map_err(LinkError::file("cannot remove", path))
}

fn parsed(der: &[u8]) -> Result<X509Certificate<'_>, LinkError> {
    Ok(parsed_with_rest(der)?.1)
}

/// Reads a certificate (DER), and returns the bytes after it as well.
fn parsed_with_rest(der: &[u8]) -> Result<(&[u8], X509Certificate<'_>), LinkError> {
    X509Certificate::from_der(der).map_err(|_| bad_identity("not a certificate"))
}

fn key_hash_of(certificate: &X509Certificate<'_>) -> [u8; 32] {
    *blake3::hash(certificate.public_key().raw).as_bytes()
}
