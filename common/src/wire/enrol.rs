//! A joiner redeems a token for a certificate, or only asks who is there: one stream, one request,
//! one reply.

use serde::{Deserialize, Serialize};

use super::{Refusal, Versions};
use crate::time::Time;
use crate::token::Role;

/// What the joiner sends, once it has seen that the master's CA key is the one in its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrol {
    /// What it understands.
    pub versions: Versions,
    /// The token's number.
    pub token: u32,
    /// The token's secret.
    pub secret: [u8; 16],
    /// A certificate signing request (DER). Only its public key, and the proof that the joiner
    /// holds it, count. Empty: nobody wants to join; answered by [`EnrolReply::Here`].
    pub csr: Vec<u8>,
    /// What the joiner would like to be called: a host's or a user's name.
    pub name: String,
    /// What the joiner means to be: a token for something else is not used up.
    pub wanted: Wanted,
}

/// What a joiner means to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// A host that runs tasks.
    Worker,
    /// A user: client or admin.
    User,
    /// Whatever the token is for.
    Any,
}

impl Wanted {
    /// Whether a token for this role does.
    pub fn takes(self, role: Role) -> bool {
        match self {
            Wanted::Worker => role == Role::Worker,
            Wanted::User => role != Role::Worker,
            Wanted::Any => true,
        }
    }
}

/// What the master answers, after it has marked the token used, durably.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnrolReply {
    /// Welcome.
    Enrolled {
        /// The joiner's certificate (DER).
        certificate: Vec<u8>,
        /// The CA's certificate (DER).
        ca: Vec<u8>,
        /// What the joiner is allowed to be.
        role: Role,
        /// The name it has now.
        name: String,
    },
    /// Not let in.
    Refused(Refusal),
    /// Nobody joins: only who is there.
    Here {
        /// What the master understands.
        versions: Versions,
        /// The master's clock.
        now: Time,
    },
}
