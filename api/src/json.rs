//! The JSON that scripts rely on, on the command line and over HTTP: names, units and optional
//! fields. Fields may be added, never removed. Each view has one type here that names its fields;
//! the schema in `docs/openapi.json` is made of the same types. (Views derive `Serialize` for the
//! wire, whose format knows no names and leaves nothing out.)
//!
//! Times are ISO 8601 in UTC, spans are seconds (`_s`). A field that is always present is `null`
//! while it has no value.

mod accounts;
mod events;
mod hosts;
mod jobs;
mod peers;
mod promise;
mod site;
mod tasks;
mod timeline;
mod updates;
mod waits;
mod work;

use std::borrow::Cow;
use std::fmt::Display;
use std::time::{SystemTime, UNIX_EPOCH};

use common::identity::IdentityState;
use common::site::SiteStanding;
use common::token::Role;
use common::view::{AttemptState, Belief, HostState, JobState, PromiseState, TaskState};
use common::{EndCondition, Span, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, SerializeMap, Serializer};

pub use common::time::iso;

pub use accounts::{AccountAnswer, AccountJson, AccountsJson, EstimatesJson, ShareJson};
pub use events::{EventJson, EventLine, FileJson, LostEvents, LostJson, ResultJson};
pub use hosts::{HostExplainJson, HostJson};
pub use jobs::{
    AddJson, ExplainAnswer, ExplainJson, FailureCause, FailuresOnHost, JobInfo, JobInfoJson,
    JobJson, PredictionAnswer, PredictionJson, RequestAnswer, RequestJson, Retried, RetriedJson,
    SubmitAnswer, SubmitJson, TasksChangedJson,
};
pub use peers::{AuditJson, IdentityJson, NewTokenAnswer, NewTokenJson, TokenJson};
pub use promise::{LimitsJson, QualityJson};
pub use site::{HostSiteJson, SiteJson, SiteTextJson};
pub use tasks::{AttemptJson, CheckpointJson, TaskJson};
pub use timeline::{
    AccuracyJson, DrawnRange, ForetoldJson, PredictionsJson, TimelineJson, TimelineRow,
    TimelineSpan, held,
};
pub use updates::{HostUpdateJson, RolloutJson, UpdatesJson};
pub use waits::{PredictedWait, WaitInterval};
pub use work::WorkJson;

/// The version of the JSON. It is raised when a field goes or changes its meaning, not when one is
/// added.
pub const SCHEMA: u32 = 1;

/// Something that has a form in JSON.
pub trait Object {
    /// The form, which names the fields in their order.
    type Json: Serialize + JsonSchema;

    /// Returns the form of this value.
    fn json(&self) -> Self::Json;
}

/// Defines the form of a type, with the value of each field beside it: the struct, and the [`Object`] that makes it.
macro_rules! form {
    (
        $(#[$about:meta])*
        pub struct $name:ident of $of:ty as $value:ident {
            $($(#[$says:meta])* pub $field:ident: $kind:ty = $source:expr,)+
        }
    ) => {
        #[derive(Debug, serde::Serialize, schemars::JsonSchema)]
        $(#[$about])*
        pub struct $name {
            $($(#[$says])* pub $field: $kind,)+
        }

        impl $crate::json::Object for $of {
            type Json = $name;

            fn json(&self) -> $name {
                let $value = self;
                $name { $($field: $source,)+ }
            }
        }
    };
}
pub(crate) use form;

/// Prints an object.
#[derive(Debug, Clone, Copy)]
pub struct Json<'a, T>(pub &'a T);

impl<T: Object> Serialize for Json<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.json().serialize(serializer)
    }
}

/// Returns the forms of some objects.
pub fn all<T: Object>(objects: &[T]) -> Vec<T::Json> {
    objects.iter().map(Object::json).collect()
}

/// Several objects, as the one field of a document. Each gets its form when it is written, so that
/// a long list is not in memory twice.
#[derive(Debug, Clone, Copy)]
pub struct List<'a, T>(pub &'static str, pub &'a [T]);

impl<T: Object> Serialize for List<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0, &Items(self.1))?;
        map.end()
    }
}

/// The objects of a [`List`].
struct Items<'a, T>(&'a [T]);

impl<T: Object> Serialize for Items<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Json))
    }
}

#[derive(serde::Serialize)]
struct Document<'a, T> {
    schema: u32,
    #[serde(flatten)]
    body: &'a T,
}

/// Returns the JSON document with this body.
///
/// # Panics
/// Never: the bodies are maps with text keys.
pub fn document<T: Serialize>(body: &T) -> String {
    serde_json::to_string(&Document {
        schema: SCHEMA,
        body,
    })
    .expect("structs of plain values always have a JSON form")
}

/// Returns the present time, in the master's units.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Time(Span::from(since.unwrap_or_default()).0)
}

/// Describes a type wherever it is used, instead of once under its name.
macro_rules! inline_schema {
    ($of:ident: $schema:tt) => {
        impl schemars::JsonSchema for $of {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($of).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
pub(crate) use inline_schema;

/// A time, as text in ISO 8601.
#[derive(Debug, Clone, Copy)]
pub struct IsoTime(pub Time);

impl Serialize for IsoTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&iso(self.0))
    }
}

inline_schema!(IsoTime: { "type": "string", "format": "date-time" });

/// A span of time, as a number of seconds.
#[derive(Debug, Clone, Copy)]
pub struct Seconds(pub Span);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.secs())
    }
}

inline_schema!(Seconds: { "type": "number", "minimum": 0 });

/// A value that has a word for each case, as that word.
#[derive(Debug, Clone, Copy)]
pub struct Word<T>(pub T);

/// The cases of a value that prints as a word.
pub trait WordCases: Display + Sized + 'static {
    /// Its name in the schema.
    const NAME: &'static str;
    /// All its cases.
    const CASES: &'static [Self];
}

impl<T: WordCases> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<T: WordCases> JsonSchema for Word<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<String> = T::CASES.iter().map(ToString::to_string).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}

macro_rules! words {
    ($($name:literal: $of:ty = $cases:expr),+ $(,)?) => {
        $(impl WordCases for $of {
            const NAME: &'static str = $name;
            const CASES: &'static [Self] = $cases;
        })+
    };
}

words! {
    "JobState": JobState = JobState::ALL,
    "TaskState": TaskState = TaskState::ALL,
    "AttemptState": AttemptState = AttemptState::ALL,
    "HostState": HostState = HostState::ALL,
    "PromiseState": PromiseState = PromiseState::ALL,
    "Belief": Belief = Belief::ALL,
    "SiteStanding": SiteStanding = SiteStanding::ALL,
    "Role": Role = &[Role::Worker, Role::Client, Role::Admin, Role::Gateway],
    "IdentityState": IdentityState = &[
        IdentityState::Active, IdentityState::Waiting, IdentityState::Revoked,
    ],
    "EndCondition": EndCondition = &[EndCondition::Ok, EndCondition::Any],
}

/// Whether a list has nothing, and is left out.
#[expect(clippy::ptr_arg, reason = "serde gives a reference to the field")]
fn none<T>(list: &Vec<T>) -> bool {
    list.is_empty()
}

#[cfg(test)]
pub(crate) mod tests;
