//! The signature over a new program for workers (Ed25519): made by an admin with a key that lies with the
//! admin alone, checked by each worker with the half that it learned when it joined.

use common::update::{SignedUpdate, UpdateKey, UpdateStatement};
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

/// A key that signs updates.
#[derive(Debug)]
pub struct UpdateSigner(Ed25519KeyPair);

/// The reason why a file is no key that signs updates.
#[derive(Debug, thiserror::Error)]
#[error("it is no key for updates: {0}")]
pub struct BadSigner(String);

impl UpdateSigner {
    /// Makes a key; returns it as PKCS#8 (DER).
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn make() -> Result<Vec<u8>, BadSigner> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let made = made.map_err(|error| BadSigner(error.to_string()))?;
        Ok(made.as_ref().to_vec())
    }

    /// Reads a key from PKCS#8 (DER).
    ///
    /// # Errors
    /// If it is none.
    pub fn read(pkcs8: &[u8]) -> Result<Self, BadSigner> {
        let key = Ed25519KeyPair::from_pkcs8(pkcs8);
        key.map(Self).map_err(|error| BadSigner(error.to_string()))
    }

    /// Returns the half that workers check with.
    pub fn key(&self) -> UpdateKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        UpdateKey(key)
    }

    /// Signs a statement.
    pub fn sign(&self, statement: &UpdateStatement) -> SignedUpdate {
        let statement = statement.text();
        SignedUpdate {
            signature: self.0.sign(statement.as_bytes()).as_ref().to_vec(),
            statement,
        }
    }
}

/// Returns the statement of an update that this key has signed.
///
/// # Errors
/// If another key has signed it, or what was signed is no statement.
pub fn verified(update: &SignedUpdate, key: &UpdateKey) -> Result<UpdateStatement, String> {
    UnparsedPublicKey::new(&ED25519, key.0)
        .verify(update.statement.as_bytes(), &update.signature)
        .map_err(|_| format!("its signature is not by the key that is known here ({key})"))?;
    UpdateStatement::read(&update.statement).map_err(|bad| bad.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::BlobRef;
    use common::content::BlobHash;
    use common::update::ProgramVersion;

    fn signer() -> UpdateSigner {
        UpdateSigner::read(&UpdateSigner::make().expect("a key")).expect("it reads")
    }

    #[test]
    fn a_statement_is_believed_only_as_it_was_signed_and_by_the_key_that_is_known() {
        let signer = signer();
        let statement = UpdateStatement {
            platform: "linux-x86_64".parse().expect("a platform"),
            version: ProgramVersion(1, 0, 0),
            blob: BlobRef {
                hash: BlobHash([1; 32]),
                size: 9,
            },
            downgrade: None,
        };
        let signed = signer.sign(&statement);
        assert_eq!(verified(&signed, &signer.key()), Ok(statement));

        let other = super::tests::signer().key();
        let why = verified(&signed, &other).expect_err("another key");
        assert!(why.contains("signature is not by the key"), "{why}");
        let changed = SignedUpdate {
            statement: signed
                .statement
                .replace("downgrade no", "downgrade from 1.0.0"),
            ..signed.clone()
        };
        assert!(verified(&changed, &signer.key()).is_err());
        let mut flipped = signed;
        flipped.signature[3] ^= 1;
        assert!(verified(&flipped, &signer.key()).is_err());
    }
}
