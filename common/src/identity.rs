//! Who has a certificate of the grid's, and what the master's audit log says of them, as admins see
//! it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::HostId;
use crate::time::Time;
use crate::token::Role;

/// Whether the holder of a certificate is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum IdentityState {
    /// It is.
    Active,
    /// Not before an admin approves.
    Waiting,
    /// Never again.
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

/// Somebody who has joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityView {
    /// A host's or user's name; unique in the grid, and never given to anybody else.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whether it is let in.
    pub state: IdentityState,
    /// The host that it is, if it is one.
    pub host: Option<HostId>,
    /// When it joined.
    pub enrolled: Time,
    /// When its newest certificate expires, where that is known.
    pub expires: Option<Time>,
    /// How many connections it has now.
    pub connections: u32,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditView {
    /// Counts the entries, from 1.
    pub number: u64,
    /// When, or when first where it happened several times.
    pub at: Time,
    /// Who: a name in the grid, or an address where nobody has proved a name.
    pub who: String,
    /// What was tried, in one word.
    pub what: String,
    /// With whom or what.
    pub subject: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// Why not, or what more there is to say.
    pub why: String,
    /// How often, where it happened again within a minute.
    pub count: u32,
}
