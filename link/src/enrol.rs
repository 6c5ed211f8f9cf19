//! The joiner's side of enrolment: check the master, then show the token, then keep the certificate.

use common::token::JoinToken;
use common::wire::Versions;
use common::wire::enrol::{Enrol, EnrolReply};
use rcgen::{CertificateParams, KeyPair};

use crate::endpoint::{KEEP_ALIVE, Purpose, connect_with};
use crate::error::LinkError;
use crate::identity::{Identity, LinkInfo, key_hash};
use crate::tls;

/// Redeems `token` at `master` (`HOST:PORT`) for an identity called `name`. The key is made here. The token's secret
/// leaves this machine only after the master has shown a chain to the CA key that the token names.
///
/// # Errors
/// If the master is out of reach, is another one, or refuses the token.
pub async fn enrol(master: &str, token: &JoinToken, name: &str) -> Result<Identity, LinkError> {
    let bad = |e: rcgen::Error| LinkError::BadIdentity(e.to_string());
    let key = KeyPair::generate().map_err(bad)?;
    let csr = CertificateParams::default().serialize_request(&key).map_err(bad)?;
    let connection =
        connect_with(master, tls::joiner_config(token.ca_key_hash, Purpose::Enrol.alpn())?, KEEP_ALIVE).await?;
    let mut channel = connection.open_bare().await?;
    let request = Enrol {
        versions: Versions::ours(),
        token: token.id,
        secret: token.secret,
        csr: csr.der().to_vec(),
        name: name.to_owned(),
    };
    channel.tx.send(&request).await?;
    channel.tx.finish();
    let reply = channel.rx.expect::<EnrolReply>().await?;
    connection.close("enrolled").await;
    match reply {
        EnrolReply::Refused(refusal) => Err(refusal.into()),
        EnrolReply::Enrolled { certificate, ca, role, name } => {
            if key_hash(&ca)? != token.ca_key_hash {
                let why = "it answered with another CA than the one in the token".to_owned();
                return Err(LinkError::WrongMaster { master: master.to_owned(), why });
            }
            Ok(Identity {
                certificate: certificate.into(),
                key: key.serialize_der().into(),
                ca: ca.into(),
                link: LinkInfo { master: master.to_owned(), name, role },
            })
        }
    }
}
