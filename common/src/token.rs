//! Join tokens, which an admin hands out so that a machine can enrol. A token reads
//! `dg1.ID.SECRET.HASH`; the hash is that of the master's CA key, so that the joiner recognises the
//! right master before it sends the secret.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The rights of a certificate's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Runs tasks on its host.
    Worker,
    /// Submits jobs and sees its own.
    Client,
    /// May do everything.
    Admin,
    /// Passes workers' sessions on to the master.
    Gateway,
}

/// A join token in full. Its secret is shown once, when it is made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// The token's number in lists and logs.
    pub id: u32,
    /// The secret: 128 random bits.
    pub secret: [u8; 16],
    /// BLAKE3 of the CA certificate's public key (SubjectPublicKeyInfo, DER).
    pub ca_key_hash: [u8; 32],
}

/// The error for a text that is not a [`JoinToken`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is not a join token: it should read dg1.NUMBER.SECRET.HASH, as `deskgrid token create` printed it"
)]
pub struct BadToken;

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "dg1.{}.{}.{}",
            self.id,
            hex(&self.secret),
            hex(&self.ca_key_hash)
        )
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken {{ id: {}, secret: (hidden) }}", self.id)
    }
}

impl FromStr for JoinToken {
    type Err = BadToken;
    fn from_str(s: &str) -> Result<Self, BadToken> {
        let parts: Vec<&str> = s.trim().split('.').collect();
        let ["dg1", id, secret, hash] = parts[..] else {
            return Err(BadToken);
        };
        Ok(Self {
            id: id.parse().map_err(|_| BadToken)?,
            secret: unhex(secret).ok_or(BadToken)?,
            ca_key_hash: unhex(hash).ok_or(BadToken)?,
        })
    }
}

impl Role {
    /// Whether it is a person's: a client or an admin.
    pub fn is_user(self) -> bool {
        matches!(self, Role::Client | Role::Admin)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Role::Worker => "worker",
            Role::Client => "client",
            Role::Admin => "admin",
            Role::Gateway => "gateway",
        })
    }
}

impl FromStr for Role {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "worker" => Ok(Role::Worker),
            "client" => Ok(Role::Client),
            "admin" => Ok(Role::Admin),
            "gateway" => Ok(Role::Gateway),
            other => Err(format!(
                "`{other}` is not a role: use worker, client, admin or gateway"
            )),
        }
    }
}

/// Returns `bytes` as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}

/// Returns the bytes that hexadecimal `digits` stand for; `None` for another number of digits or any
/// other character.
pub(crate) fn unhex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16);
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_parse_their_own_text_and_hide_their_secret_in_logs() {
        let token = JoinToken {
            id: 3,
            secret: [0xAB; 16],
            ca_key_hash: [7; 32],
        };
        assert_eq!(token.to_string().parse::<JoinToken>().unwrap(), token);
        assert!(!format!("{token:?}").contains("ab"));

        for wrong in [
            "",
            "dg1.3.ab.cd",
            "dg2.3.abababababababababababababababab.07",
            "dg1.x.y.z",
            "dg1.é.é.é",
        ] {
            assert_eq!(wrong.parse::<JoinToken>(), Err(BadToken), "{wrong}");
        }
    }
}
