//! The JSON that scripts rely on: names, units and optional fields. Fields may be added, never
//! removed. Each view names its fields itself; there is no second form of it. (Views derive
//! `Serialize` for the wire, whose format knows no names and leaves nothing out.)
//!
//! Times are ISO 8601 in UTC, spans are seconds (`_s`). A field that is always present is `null`
//! while it has no value.

mod accounts;
mod events;
mod hosts;
mod jobs;
mod promise;

use std::fmt::Display;

use serde::ser::{Serialize, SerializeMap, Serializer};

pub(crate) use events::{EventLine, LostEvents};
pub(crate) use hosts::NewTokenAnswer;
pub(crate) use jobs::{AddAnswer, JobInfo, PredictionAnswer, Retried, SubmitAnswer};

/// Something that names its fields in JSON.
pub(crate) trait Object {
    /// Puts its fields, in their order.
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>);
}

/// The fields of an object on their way out.
pub(crate) struct Fields<M: SerializeMap> {
    map: M,
    /// The first error ends it.
    result: Result<(), M::Error>,
}

impl<M: SerializeMap> Fields<M> {
    /// Puts a field.
    pub(crate) fn field(&mut self, name: &'static str, value: impl Serialize) {
        if self.result.is_ok() {
            self.result = self.map.serialize_entry(name, &value);
        }
    }

    /// Puts a field that prints as text.
    pub(crate) fn text(&mut self, name: &'static str, value: impl Display) {
        self.field(name, value.to_string());
    }

    /// Puts a field that is left out where it has no value.
    pub(crate) fn some(&mut self, name: &'static str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.field(name, value);
        }
    }
}

impl<T: Object> Object for Option<T> {
    /// Puts nothing where there is none.
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        if let Some(value) = self {
            value.put(to);
        }
    }
}

/// Prints an object.
pub(crate) struct Json<'a, T>(pub(crate) &'a T);

impl<T: Object> Serialize for Json<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields {
            map: serializer.serialize_map(None)?,
            result: Ok(()),
        };
        self.0.put(&mut fields);
        fields.result?;
        fields.map.end()
    }
}

/// Prints objects as an array.
pub(crate) fn all<T: Object>(objects: &[T]) -> Vec<Json<'_, T>> {
    objects.iter().map(Json).collect()
}

/// Several objects, as the one field of a document.
pub(crate) struct List<'a, T>(pub(crate) &'static str, pub(crate) &'a [T]);

impl<T: Object> Serialize for List<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0, &all(self.1))?;
        map.end()
    }
}

#[cfg(test)]
pub(crate) mod tests;
