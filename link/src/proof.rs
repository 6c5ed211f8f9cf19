//! The proof with which a renewal is asked for where the connection proves nothing, since it ends at a
//! gateway: a signature of the request by the key of the present certificate.

use common::wire::peer::KeyHash;
use common::wire::stream::RenewalProof;
use rcgen::{KeyPair, SigningKey};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::{LinkError, bad_identity};
use crate::identity::{Identity, key_hash};

/// The beginning of the signed bytes: a signature for anything else is none for a renewal.
const PURPOSE: &[u8] = b"deskgrid renewal\0";

/// Proves that this identity asks for a certificate with this request (DER).
///
/// # Errors
/// If its key signs nothing.
pub fn prove(identity: &Identity, csr: &[u8]) -> Result<RenewalProof, LinkError> {
    let key = KeyPair::try_from(identity.key.secret_pkcs8_der()).map_err(bad_identity)?;
    Ok(RenewalProof {
        certificate: identity.certificate.to_vec(),
        signature: key.sign(&[PURPOSE, csr].concat()).map_err(bad_identity)?,
    })
}

/// Returns the hash of the key that has signed this request (DER); `None` if none has.
pub fn signer(csr: &[u8], proof: &RenewalProof) -> Option<KeyHash> {
    let (_, certificate) = X509Certificate::from_der(&proof.certificate).ok()?;
    let point = &certificate.public_key().subject_public_key.data;
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
        .verify(&[PURPOSE, csr].concat(), &proof.signature)
        .ok()?;
    key_hash(&proof.certificate).ok()
}
