//! The content of columns, on either engine: values that go into a statement, cells that come out,
//! and rows of cells. Which engine it is, is known here and in `db` alone.

use std::ops::RangeInclusive;

use serde::de::DeserializeOwned;

use super::{StoreError, StoreResult};

/// A value for a parameter of a statement. It borrows what is longer than a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SqlValue<'a> {
    /// NULL.
    Null,
    /// A boolean. SQLite has 0 and 1 for it.
    Flag(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// Something that can be a parameter of a statement.
pub(super) trait ToValue {
    /// The value for the parameter.
    fn to_value(&self) -> SqlValue<'_>;
}

/// The values of a statement's parameters `$1`, `$2` and so on, in this order.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$($crate::store::value::ToValue::to_value(&$value)),*]
    };
}
pub(super) use values;

macro_rules! plain_values {
    ($($kind:ty: $variant:ident as $wide:ty),*) => {
        $(impl ToValue for $kind {
            fn to_value(&self) -> SqlValue<'_> {
                SqlValue::$variant(<$wide>::from(*self))
            }
        })*
    };
}

plain_values!(bool: Flag as bool, i32: Int as i64, u32: Int as i64, i64: Int as i64, f32: Real as f64, f64: Real as f64);

/// One that is too large for the engine is stored as the largest that it knows.
impl ToValue for u64 {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Int(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl ToValue for str {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Text(self)
    }
}

impl ToValue for String {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Text(self)
    }
}

impl ToValue for [u8] {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Bytes(self)
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Bytes(self)
    }
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> SqlValue<'_> {
        SqlValue::Bytes(self)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> SqlValue<'_> {
        (**self).to_value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> SqlValue<'_> {
        self.as_ref().map_or(SqlValue::Null, ToValue::to_value)
    }
}

/// The parameters of a statement with these numbers, as in `$1, $2`.
pub(super) fn numbered(numbers: RangeInclusive<usize>) -> String {
    let all: Vec<String> = numbers.map(|number| format!("${number}")).collect();
    all.join(", ")
}

/// A name of a table or column, in quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// Names in quotes, with commas between them.
pub(super) fn quoted_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(quoted).collect::<Vec<_>>().join(", ")
}

impl rusqlite::ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::ValueRef;
        let held = match *self {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Flag(flag) => ValueRef::Integer(i64::from(flag)),
            SqlValue::Int(n) => ValueRef::Integer(n),
            SqlValue::Real(n) => ValueRef::Real(n),
            SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
            SqlValue::Bytes(bytes) => ValueRef::Blob(bytes),
        };
        Ok(rusqlite::types::ToSqlOutput::Borrowed(held))
    }
}

/// A row of an answer.
pub(super) enum SqlRow<'r> {
    /// A row of SQLite's.
    Lite(&'r rusqlite::Row<'r>),
    /// A row of PostgreSQL's.
    Pg(&'r super::pg::DbRow),
}

/// The content of a column of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SqlCell<'r> {
    /// NULL.
    Null,
    /// A boolean, where the engine knows such a thing.
    Flag(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// The bytes of a text. SQLite does not see to it that they are UTF-8.
    Text(&'r [u8]),
    /// Bytes.
    Bytes(&'r [u8]),
}

impl SqlRow<'_> {
    /// The column of this index, counted from 0.
    pub(super) fn get<T: FromCell>(&self, index: usize) -> StoreResult<T> {
        let cell = self.cell(index)?;
        T::from_cell(cell).ok_or_else(|| {
            let kind = cell.kind();
            let wanted = std::any::type_name::<T>();
            StoreError::Content(format!("column {index} holds {kind}, not a {wanted}"))
        })
    }

    /// The value in a column of this index that [`to_postcard`](super::to_postcard) has encoded.
    pub(super) fn decoded<T: DeserializeOwned>(&self, index: usize) -> StoreResult<T> {
        super::from_postcard(&self.get::<Vec<u8>>(index)?)
    }

    /// The same of a column that may hold none.
    pub(super) fn decoded_if_any<T: DeserializeOwned>(
        &self,
        index: usize,
    ) -> StoreResult<Option<T>> {
        let bytes: Option<Vec<u8>> = self.get(index)?;
        bytes.map(|bytes| super::from_postcard(&bytes)).transpose()
    }

    /// Returns the [`SqlCell`] of the column of this index, counted from 0.
    pub(super) fn cell(&self, index: usize) -> StoreResult<SqlCell<'_>> {
        match self {
            SqlRow::Lite(row) => Ok(row.get_ref(index)?.into()),
            SqlRow::Pg(row) => super::pg::cell(row, index),
        }
    }
}

impl<'r> From<rusqlite::types::ValueRef<'r>> for SqlCell<'r> {
    fn from(value: rusqlite::types::ValueRef<'r>) -> Self {
        use rusqlite::types::ValueRef;
        match value {
            ValueRef::Null => SqlCell::Null,
            ValueRef::Integer(n) => SqlCell::Int(n),
            ValueRef::Real(n) => SqlCell::Real(n),
            ValueRef::Text(text) => SqlCell::Text(text),
            ValueRef::Blob(bytes) => SqlCell::Bytes(bytes),
        }
    }
}

impl SqlCell<'_> {
    fn kind(self) -> &'static str {
        match self {
            SqlCell::Null => "nothing",
            SqlCell::Flag(_) => "a boolean",
            SqlCell::Int(_) => "an integer",
            SqlCell::Real(_) => "a floating-point number",
            SqlCell::Text(_) => "a text",
            SqlCell::Bytes(_) => "bytes",
        }
    }
}

/// Something that a column can hold.
pub(super) trait FromCell: Sized {
    /// Reads it; `None` if the cell holds something else.
    fn from_cell(cell: SqlCell<'_>) -> Option<Self>;
}

impl FromCell for i64 {
    fn from_cell(cell: SqlCell<'_>) -> Option<Self> {
        match cell {
            SqlCell::Int(n) => Some(n),
            _ => None,
        }
    }
}

macro_rules! narrow_cells {
    ($($kind:ty),*) => {
        $(impl FromCell for $kind {
            fn from_cell(cell: SqlCell<'_>) -> Option<Self> {
                i64::from_cell(cell)?.try_into().ok()
            }
        })*
    };
}

narrow_cells!(i32, u32);

impl FromCell for bool {
    fn from_cell(cell: SqlCell<'_>) -> Option<Self> {
        match cell {
            SqlCell::Flag(flag) => Some(flag),
            SqlCell::Int(n) => Some(n != 0),
            _ => None,
        }
    }
}

impl FromCell for f32 {
    fn from_cell(cell: SqlCell<'_>) -> Option<Self> {
        match cell {
            SqlCell::Real(n) => Some(n as f32),
            SqlCell::Int(n) => Some(n as f32),
            _ => None,
        }
    }
}

impl FromCell for String {
    fn from_cell(cell: SqlCell<'_>) -> Option<Self> {
        match cell {
            SqlCell::Text(text) => std::str::from_utf8(text).ok().map(str::to_owned),
            _ => None,
        }
    }
}

impl FromCell for Vec<u8> {
    fn from_cell(cell: SqlCell<'_>) -> Option<Self> {
        match cell {
            SqlCell::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

impl<const N: usize> FromCell for [u8; N] {
    fn from_cell(cell: SqlCell<'_>) -> Option<Self> {
        match cell {
            SqlCell::Bytes(bytes) => bytes.try_into().ok(),
            _ => None,
        }
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: SqlCell<'_>) -> Option<Self> {
        match cell {
            SqlCell::Null => Some(None),
            held => T::from_cell(held).map(Some),
        }
    }
}
