//! The identities of the grid (holders of its certificates) and the entries of the master's audit
//! log, as admins see them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::HostId;
use crate::time::Time;
use crate::token::Role;

/// The standing of a certificate's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum IdentityState {
    /// The holder may connect.
    Active,
    /// The holder may connect once an admin approves (`Request::Approve`).
    Waiting,
    /// The holder may never connect again.
    Revoked,
}

impl fmt::Display for IdentityState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            IdentityState::Active => "active",
            IdentityState::Waiting => "waiting",
            IdentityState::Revoked => "revoked",
        })
    }
}

/// A host or user that has joined the grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityView {
    /// The host's or user's name; unique in the grid, and never given to anybody else.
    pub name: String,
    /// The role that it joined in.
    pub role: Role,
    /// Whether it may connect.
    pub state: IdentityState,
    /// The number of the host; `None` for a user.
    pub host: Option<HostId>,
    /// The time of its enrolment.
    pub enrolled: Time,
    /// The time at which its newest certificate expires, where that is known.
    pub expires: Option<Time>,
    /// The number of its open connections.
    pub connections: u32,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditView {
    /// Counts the entries, from 1.
    pub number: u64,
    /// The time of the event; of the first one where `count` is more than 1.
    pub at: Time,
    /// The actor: a name in the grid, or an address where no name was proved.
    pub who: String,
    /// The attempted action, in one word.
    pub what: String,
    /// The person or thing that the action was aimed at.
    pub subject: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// The reason of a denial, or further details.
    pub why: String,
    /// The number of times that it happened within a minute.
    pub count: u32,
}
