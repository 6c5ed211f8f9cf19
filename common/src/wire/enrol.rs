//! Enrolment messages: a joiner redeems a token for a certificate, or only asks for the identity of
//! the master. One stream, one request, one reply.

use serde::{Deserialize, Serialize};

use super::{Refusal, Versions};
use crate::ids::Incarnation;
use crate::time::Time;
use crate::token::Role;
use crate::update::UpdateKey;

/// The request of a joiner that has checked the master's CA key against the one in its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrol {
    /// The versions that it understands.
    pub versions: Versions,
    /// The token's number.
    pub token: u32,
    /// The token's secret.
    pub secret: [u8; 16],
    /// A certificate signing request (DER). Only its public key, and the proof that the joiner
    /// holds it, count. Empty: this is only a question; answered by [`EnrolReply::Here`].
    pub csr: Vec<u8>,
    /// The name that the joiner would like: a host's or a user's.
    pub name: String,
    /// The kind of role that the joiner expects: a token for another one is not used up.
    pub wanted: WantedRole,
}

/// The kind of role that a joiner expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WantedRole {
    /// A host that runs tasks.
    Worker,
    /// A user: client or admin.
    User,
    /// Any role that the token is for.
    Any,
    /// A gateway.
    Gateway,
}

impl WantedRole {
    /// Whether a token for `role` is acceptable.
    pub fn takes(self, role: Role) -> bool {
        match self {
            WantedRole::Worker => role == Role::Worker,
            WantedRole::User => role.is_user(),
            WantedRole::Any => true,
            WantedRole::Gateway => role == Role::Gateway,
        }
    }
}

/// The master's reply, sent after it has durably marked the token as used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnrolReply {
    /// The joiner has its certificate.
    Enrolled {
        /// The joiner's certificate (DER).
        certificate: Vec<u8>,
        /// The CA's certificate (DER).
        ca: Vec<u8>,
        /// The joiner's role.
        role: Role,
        /// The joiner's final name.
        name: String,
    },
    /// The joiner was refused.
    Refused(Refusal),
    /// The answer to a question without a signing request.
    Here {
        /// The versions that the master understands.
        versions: Versions,
        /// The master's clock.
        now: Time,
        /// The master's incarnation.
        incarnation: Incarnation,
    },
    /// The answer to whatever is asked of a master that stands by: nothing was done.
    StandsBy {
        /// The versions that the master understands.
        versions: Versions,
        /// The master's clock.
        now: Time,
        /// The address of the active master, if it is known.
        active: Option<String>,
        /// The highest incarnation that it knows of.
        incarnation: Incarnation,
        /// The reason why it could not take over at present, if there is one.
        trouble: Option<String>,
    },
    /// A host has its certificate, and learns the key with which new programs are signed. To joiners that
    /// know of [`UPDATE_VERSION`](super::UPDATE_VERSION).
    EnrolledWithKey {
        /// The joiner's certificate (DER).
        certificate: Vec<u8>,
        /// The CA's certificate (DER).
        ca: Vec<u8>,
        /// The joiner's role.
        role: Role,
        /// The joiner's final name.
        name: String,
        /// The key.
        update_key: UpdateKey,
    },
}
