//! The data that a peer has shown by the end of a TLS handshake.

use quinn::Connection;
use rustls::pki_types::CertificateDer;

use crate::endpoint::Purpose;
use crate::error::LinkError;
use crate::identity::{PeerName, Validity, has_dns_name, read_certificate};
use crate::tls::MASTER_NAME;

/// The fields of a certificate that TLS has verified.
#[derive(Debug)]
pub struct Certificate {
    /// The identity.
    pub name: PeerName,
    /// The hash of its key.
    pub key_hash: [u8; 32],
    /// The period for which it is valid.
    pub validity: Validity,
}

/// The peer's data from the handshake.
#[derive(Debug)]
pub struct HandshakeFacts {
    /// The purpose of the connection, by its [`Purpose::alpn`].
    pub purpose: Purpose,
    /// The peer's certificate, if it has shown one.
    pub certificate: Option<Certificate>,
    /// The CA under which the peer wants to see this end's certificate.
    pub wanted: Option<String>,
}

/// Whether the peer has shown a master's certificate, and not a gateway's. What only masters may say to a
/// worker is not believed of a gateway: another CA, or the key for new programs.
pub fn is_master(connection: &Connection) -> bool {
    shown_certificate(connection).is_some_and(|der| has_dns_name(&der, MASTER_NAME))
}

/// Returns the peer's certificate, if it has shown one.
pub(crate) fn shown_certificate(connection: &Connection) -> Option<CertificateDer<'static>> {
    let shown = connection.peer_identity()?;
    let chain = shown.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    chain.first().cloned()
}

impl HandshakeFacts {
    /// Reads what the peer of a connection has shown.
    ///
    /// # Errors
    /// If the purpose is none of ours, or the certificate is none of a deskgrid's.
    pub fn read(connection: &Connection) -> Result<Self, LinkError> {
        let data = connection
            .handshake_data()
            .and_then(|d| d.downcast::<quinn::crypto::rustls::HandshakeData>().ok());
        let (alpn, wanted) = data.map_or((None, None), |data| (data.protocol, data.server_name));
        let purpose = alpn.and_then(|alpn| Purpose::of_alpn(&alpn));
        let purpose = purpose.ok_or_else(|| LinkError::Protocol("no ALPN of ours".to_owned()))?;

        let read = |der: CertificateDer<'static>| {
            let (name, key_hash) = read_certificate(&der)?;
            Ok::<_, LinkError>(Certificate {
                name,
                key_hash,
                validity: Validity::of(&der)?,
            })
        };
        let certificate = shown_certificate(connection).map(read).transpose()?;

        Ok(Self {
            purpose,
            certificate,
            wanted,
        })
    }
}
