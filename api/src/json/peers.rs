//! The JSON of tokens, identities and the audit log.

use common::identity::{AuditView, IdentityState, IdentityView};
use common::token::Role;
use common::view::TokenView;
use schemars::JsonSchema;
use serde::Serialize;

use super::{IsoTime, Object, Word, form};

form! {
    /// A token, without its secret, as `token list` prints it.
    pub struct TokenJson of TokenView as view {
        /// Its number.
        pub id: u32 = view.id,
        /// The role of its holder.
        pub role: Word<Role> = Word(view.role),
        /// The admin's name for it.
        pub name: String = view.name.clone(),
        /// The number of times that it may still be used.
        pub uses_left: u32 = view.uses_left,
        /// The time at which it expires.
        pub expires: IsoTime = IsoTime(view.expires),
        /// Whether an admin revoked it.
        pub revoked: bool = view.revoked,
        /// The user for whom it speaks over HTTP; left out where machines join with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub speaks_for: Option<String> = view.speaks_for.clone(),
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

form! {
    /// An identity that has joined, as `identity list` prints it.
    pub struct IdentityJson of IdentityView as view {
        /// Its name, such as `desk-3` of a host.
        pub identity: String = view.name.clone(),
        /// Its role.
        pub role: Word<Role> = Word(view.role),
        /// Whether it may connect.
        pub state: Word<IdentityState> = Word(view.state),
        /// The id of the host; `null` for a user.
        pub host: Option<String> = view.host.map(|host| host.to_string()),
        /// The time of its enrolment.
        pub enrolled: IsoTime = IsoTime(view.enrolled),
        /// The time at which its newest certificate expires; `null` where there is none.
        pub expires: Option<IsoTime> = view.expires.map(IsoTime),
        /// The number of its open connections.
        pub connections: u32 = view.connections,
    }
}

form! {
    /// An entry of the audit log, as `audit` prints it.
    pub struct AuditJson of AuditView as view {
        /// Counts the entries, from 1.
        pub number: u64 = view.number,
        /// The time of the event.
        pub at: IsoTime = IsoTime(view.at),
        /// The actor.
        pub who: String = view.who.clone(),
        /// The attempted action, in one word: `enrol`.
        pub what: String = view.what.clone(),
        /// The person or thing that the action was aimed at: `token 3`.
        pub subject: String = view.subject.clone(),
        /// Whether it was allowed.
        pub allowed: bool = view.allowed,
        /// The reason of a denial, or further details.
        pub why: String = view.why.clone(),
        /// The number of times that it happened within a minute.
        pub count: u32 = view.count,
    }
}
