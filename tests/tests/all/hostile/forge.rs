//! Certificates that were never issued: by a CA of the hostile client's own, or with the key of the
//! grid's.

use std::fs;
use std::path::Path;

use common::token::Role;
use link::{Identity, PeerName};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use uuid::Uuid;

/// What is wrong with a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing but who made it, and its key.
    Good,
    /// It has expired.
    Expired,
    /// It is for servers.
    ForServers,
    /// It names nobody that the master knows.
    Stranger,
    /// It names another grid.
    OtherGrid,
}

/// Somebody with a CA's key.
pub(super) struct Forger(Issuer<'static, KeyPair>);

impl Forger {
    /// One with a CA of its own.
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(Issuer::new(params, KeyPair::generate().expect("a key")))
    }

    /// One who has stolen the key of a CA.
    pub(super) fn with_key_of(certificate: &Path, key: &Path) -> Self {
        let key = KeyPair::try_from(fs::read(key).expect("the key")).expect("a key");
        let certificate = fs::read(certificate).expect("the certificate");
        Self(Issuer::from_ca_cert_der(&certificate.into(), key).expect("a CA"))
    }

    /// An identity like that of somebody else, with a key of the forger's own.
    pub(super) fn identity(&self, like: &Identity, kind: Kind) -> Identity {
        let (mut name, _) =
            link::identity::read_certificate(&like.certificate).expect("a certificate");
        match kind {
            Kind::Stranger => {
                name = PeerName {
                    id: Uuid::from_u128(7),
                    role: Role::Admin,
                    ..name
                }
            }
            Kind::OtherGrid => name.grid = Uuid::from_u128(8),
            Kind::Good | Kind::Expired | Kind::ForServers => {}
        }

        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(name.to_string().try_into().expect("a name"))];

        let purpose = match kind {
            Kind::ForServers => ExtendedKeyUsagePurpose::ServerAuth,
            _ => ExtendedKeyUsagePurpose::ClientAuth,
        };
        params.extended_key_usages = vec![purpose];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];

        if kind == Kind::Expired {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2020, 2, 1);
        }

        let key = KeyPair::generate().expect("a key");
        let certificate = params
            .signed_by(&key, &self.0)
            .expect("can be signed")
            .der()
            .clone();
        let ca = like.ca.clone();
        let link = like.link.clone();

        Identity {
            certificate,
            key: key.serialize_der().into(),
            ca,
            link,
            home: None,
            update_key: None,
        }
    }
}
