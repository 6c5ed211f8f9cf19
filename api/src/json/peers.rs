//! The JSON of tokens, identities and the audit log.

use common::identity::{AuditView, IdentityState, IdentityView};
use common::token::Role;
use common::view::TokenView;
use schemars::JsonSchema;
use serde::Serialize;

use super::{IsoTime, Object, Word};

/// A token, without its secret, as `token list` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TokenJson {
    /// Its number.
    pub id: u32,
    /// The role of its holder.
    pub role: Word<Role>,
    /// The admin's name for it.
    pub name: String,
    /// The number of times that it may still be used.
    pub uses_left: u32,
    /// The time at which it expires.
    pub expires: IsoTime,
    /// Whether an admin revoked it.
    pub revoked: bool,
    /// The user for whom it speaks over HTTP; left out where machines join with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaks_for: Option<String>,
}

impl Object for TokenView {
    type Json = TokenJson;

    fn json(&self) -> TokenJson {
        TokenJson {
            id: self.id,
            role: Word(self.role),
            name: self.name.clone(),
            uses_left: self.uses_left,
            expires: IsoTime(self.expires),
            revoked: self.revoked,
            speaks_for: self.speaks_for.clone(),
        }
    }
}

/// A token that was just made, with its secret.
#[derive(Debug, Clone, Copy)]
pub struct NewTokenAnswer<'a>(pub &'a str, pub &'a TokenView);

/// A token that was just made: this is the only time that its secret is shown.
#[derive(Serialize, JsonSchema)]
pub struct NewTokenJson {
    /// The token with its secret.
    pub token: String,
    /// The token as lists show it.
    #[serde(flatten)]
    pub view: TokenJson,
}

impl Object for NewTokenAnswer<'_> {
    type Json = NewTokenJson;

    fn json(&self) -> NewTokenJson {
        NewTokenJson {
            token: self.0.to_owned(),
            view: self.1.json(),
        }
    }
}

/// An identity that has joined, as `identity list` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct IdentityJson {
    /// Its name, such as `desk-3` of a host.
    pub identity: String,
    /// Its role.
    pub role: Word<Role>,
    /// Whether it may connect.
    pub state: Word<IdentityState>,
    /// The id of the host; `null` for a user.
    pub host: Option<String>,
    /// The time of its enrolment.
    pub enrolled: IsoTime,
    /// The time at which its newest certificate expires; `null` where there is none.
    pub expires: Option<IsoTime>,
    /// The number of its open connections.
    pub connections: u32,
}

impl Object for IdentityView {
    type Json = IdentityJson;

    fn json(&self) -> IdentityJson {
        IdentityJson {
            identity: self.name.clone(),
            role: Word(self.role),
            state: Word(self.state),
            host: self.host.map(|host| host.to_string()),
            enrolled: IsoTime(self.enrolled),
            expires: self.expires.map(IsoTime),
            connections: self.connections,
        }
    }
}

/// An entry of the audit log, as `audit` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AuditJson {
    /// Counts the entries, from 1.
    pub number: u64,
    /// The time of the event.
    pub at: IsoTime,
    /// The actor.
    pub who: String,
    /// The attempted action, in one word: `enrol`.
    pub what: String,
    /// The person or thing that the action was aimed at: `token 3`.
    pub subject: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// The reason of a denial, or further details.
    pub why: String,
    /// The number of times that it happened within a minute.
    pub count: u32,
}

impl Object for AuditView {
    type Json = AuditJson;

    fn json(&self) -> AuditJson {
        AuditJson {
            number: self.number,
            at: IsoTime(self.at),
            who: self.who.clone(),
            what: self.what.clone(),
            subject: self.subject.clone(),
            allowed: self.allowed,
            why: self.why.clone(),
            count: self.count,
        }
    }
}
