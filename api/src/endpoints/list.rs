//! Pages of lists, and values of queries that are lists or numbers.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::str::FromStr;

use common::view::{JobState, TaskState};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};

use crate::cursor::Cursor;
use crate::json::{WordCases, inline_schema};

/// The most entries of a page, and as many as it has if nothing is said.
const MOST: u32 = 1_000;
const USUAL: u32 = 100;

/// The number of entries of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageLimit(pub(super) usize);

impl Default for PageLimit {
    fn default() -> Self {
        Self(USUAL as usize)
    }
}

impl<'de> Deserialize<'de> for PageLimit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u32>().ok().filter(|_| digits);
        let number = number.filter(|number| (1..=MOST).contains(number));
        number
            .map(|number| Self(number as usize))
            .ok_or_else(|| D::Error::custom(format!("`limit` is a number from 1 to {MOST}")))
    }
}

inline_schema!(PageLimit: { "type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL });

/// Values with commas between them; none if the text is empty.
#[derive(Debug, Clone)]
pub(super) struct Commas<T>(pub(super) Vec<T>);

impl<T> Default for Commas<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: FromStr> Deserialize<'de> for Commas<T>
where
    T::Err: std::fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(Self::default());
        }
        if text.split(',').any(str::is_empty) {
            let empty =
                format!("`{text}` has nothing before or after a comma: leave the comma out");
            return Err(D::Error::custom(empty));
        }

        let values: Result<Vec<T>, T::Err> = text.split(',').map(str::parse).collect();
        values.map(Self).map_err(D::Error::custom)
    }
}

/// The pattern of a value in [`Commas`].
pub(super) trait Pattern {
    /// A regular expression, without commas.
    fn pattern() -> String;
}

fn one_of<T: WordCases>() -> String {
    let words: Vec<String> = T::CASES.iter().map(ToString::to_string).collect();
    format!("({})", words.join("|"))
}

impl Pattern for JobState {
    fn pattern() -> String {
        one_of::<Self>()
    }
}

impl Pattern for TaskState {
    fn pattern() -> String {
        one_of::<Self>()
    }
}

impl Pattern for common::needs::Label {
    fn pattern() -> String {
        "[A-Za-z0-9][A-Za-z0-9._-]{0,63}".to_owned()
    }
}

impl<T: Pattern> JsonSchema for Commas<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Commas{:?}", PhantomData::<T>).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = T::pattern();
        json_schema!({ "type": "string", "pattern": format!("^({one}(,{one})*)?$") })
    }
}

/// Entries of a list that is read to the end of a page.
pub(super) struct ListPage<T> {
    /// The entries.
    pub(super) entries: Vec<T>,
    most: usize,
    last: u32,
    /// Whether there are more: then it is full.
    pub(super) more: bool,
}

impl<T> ListPage<T> {
    pub(super) fn new(limit: PageLimit) -> Self {
        Self {
            entries: Vec::new(),
            most: limit.0,
            last: 0,
            more: false,
        }
    }

    /// Adds entries with their numbers, as far as the page has room.
    pub(super) fn extend(&mut self, entries: impl Iterator<Item = (u32, T)>) {
        for (number, entry) in entries {
            if self.entries.len() >= self.most {
                self.more = true;
                return;
            }
            self.last = number;
            self.entries.push(entry);
        }
    }

    /// The cursor of the next page, if there is one.
    pub(super) fn next(&self) -> Option<String> {
        let after = self.last;
        self.more.then(|| Cursor { after }.to_string())
    }
}
