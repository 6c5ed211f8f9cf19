//! Values on their way to PostgreSQL, and cells of its rows.

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};

use super::super::value::{FromCell, SqlCell, SqlValue, ToValue};
use super::super::{StoreError, StoreResult};
use super::simulated::SimulatedValue;

/// The outcome of putting values into a message to PostgreSQL.
type EncodingResult<T> = Result<T, Box<dyn std::error::Error + Sync + Send>>;

/// A value that is kept: until its change is known to be durable, or on its way to another store.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::store) enum KeptValue {
    Null,
    Flag(bool),
    Int(i64),
    Real(f64),
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

impl From<&SqlValue<'_>> for KeptValue {
    fn from(value: &SqlValue<'_>) -> Self {
        match *value {
            SqlValue::Null => KeptValue::Null,
            SqlValue::Flag(flag) => KeptValue::Flag(flag),
            SqlValue::Int(n) => KeptValue::Int(n),
            SqlValue::Real(n) => KeptValue::Real(n),
            // PostgreSQL has no room for this character in a text.
            SqlValue::Text(text) if text.contains('\0') => {
                KeptValue::Text(text.replace('\0', "\u{fffd}").into())
            }
            SqlValue::Text(text) => KeptValue::Text(text.into()),
            SqlValue::Bytes(bytes) => KeptValue::Bytes(bytes.into()),
        }
    }
}

impl ToValue for KeptValue {
    fn to_value(&self) -> SqlValue<'_> {
        match self {
            KeptValue::Null => SqlValue::Null,
            KeptValue::Flag(flag) => SqlValue::Flag(*flag),
            KeptValue::Int(n) => SqlValue::Int(*n),
            KeptValue::Real(n) => SqlValue::Real(*n),
            KeptValue::Text(text) => SqlValue::Text(text),
            KeptValue::Bytes(bytes) => SqlValue::Bytes(bytes),
        }
    }
}

impl ToSql for KeptValue {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> EncodingResult<IsNull> {
        match self {
            KeptValue::Null => Ok(IsNull::Yes),
            KeptValue::Flag(flag) => flag.to_sql(kind, out),
            KeptValue::Int(n) if *kind == Type::INT4 => i32::try_from(*n)?.to_sql(kind, out),
            KeptValue::Int(n) => n.to_sql(kind, out),
            KeptValue::Real(n) => n.to_sql(kind, out),
            KeptValue::Text(text) => text.as_ref().to_sql(kind, out),
            KeptValue::Bytes(bytes) => bytes.as_ref().to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, kind: &Type, out: &mut BytesMut) -> EncodingResult<IsNull> {
        if self.fits(kind) {
            self.to_sql(kind, out)
        } else {
            Err(format!("{self:?} is no {kind}").into())
        }
    }
}

impl KeptValue {
    fn fits(&self, kind: &Type) -> bool {
        match self {
            KeptValue::Null => true,
            KeptValue::Flag(_) => *kind == Type::BOOL,
            KeptValue::Int(_) => *kind == Type::INT8 || *kind == Type::INT4,
            KeptValue::Real(_) => *kind == Type::FLOAT8,
            KeptValue::Text(_) => <&str>::accepts(kind),
            KeptValue::Bytes(_) => *kind == Type::BYTEA,
        }
    }
}

/// A parameter of a statement that is sent.
#[derive(Debug)]
pub(super) enum SentValue {
    /// A value.
    One(KeptValue),
    /// An array, as it goes over the wire.
    Array(Vec<u8>),
}

impl SentValue {
    /// The array of these values, which must fit this type.
    pub(super) fn array<'v>(
        values: impl ExactSizeIterator<Item = &'v KeptValue>,
        kind: &Type,
    ) -> EncodingResult<Self> {
        let length = |n: usize| i32::try_from(n).map(i32::to_be_bytes);

        let mut out = BytesMut::with_capacity(32 + values.len() * 16);
        // One dimension, with NULLs perhaps, of this type, so long, from 1.
        for word in [1_i32, 1, kind.oid().cast_signed()] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&length(values.len())?);
        out.extend_from_slice(&1_i32.to_be_bytes());

        for value in values {
            let start = out.len();
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            if let IsNull::No = value.to_sql_checked(kind, &mut out)? {
                let size = length(out.len() - start - 4)?;
                out[start..start + 4].copy_from_slice(&size);
            }
        }
        Ok(Self::Array(out.to_vec()))
    }
}

impl ToSql for SentValue {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> EncodingResult<IsNull> {
        match self {
            SentValue::One(value) => value.to_sql(kind, out),
            SentValue::Array(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, kind: &Type, out: &mut BytesMut) -> EncodingResult<IsNull> {
        match self {
            SentValue::One(value) => value.to_sql_checked(kind, out),
            SentValue::Array(_) => self.to_sql(kind, out),
        }
    }
}

/// A row of an answer.
pub(in crate::store) enum DbRow {
    /// A server's.
    Server(tokio_postgres::Row),
    /// That of a `SimulatedDatabase`.
    Simulated(Vec<SimulatedValue>),
}

impl DbRow {
    /// The column of this index, which the statement names as one of this type.
    pub(super) fn get<T: FromCell>(&self, index: usize) -> T {
        let found = cell(self, index).ok().and_then(T::from_cell);
        found.expect("the statement names this column")
    }
}

/// Returns the [`SqlCell`] of this column.
pub(in crate::store) fn cell(row: &DbRow, index: usize) -> StoreResult<SqlCell<'_>> {
    let row = match row {
        DbRow::Server(row) => row,
        DbRow::Simulated(values) => {
            let value = values.get(index).unwrap_or(&SimulatedValue::Null);
            return Ok(SqlCell::from(rusqlite::types::ValueRef::from(value)));
        }
    };
    let column = row
        .columns()
        .get(index)
        .ok_or_else(|| StoreError::Content(format!("there is no column {index}")))?;
    let kind = column.type_();

    let cell = match *kind {
        Type::BOOL => row.try_get(index).map(|held| wrapped(held, SqlCell::Flag)),
        Type::INT8 => row.try_get(index).map(|held| wrapped(held, SqlCell::Int)),
        Type::INT4 => row
            .try_get(index)
            .map(|held: Option<i32>| wrapped(held, |n| SqlCell::Int(n.into()))),
        Type::FLOAT8 => row.try_get(index).map(|held| wrapped(held, SqlCell::Real)),
        Type::BYTEA => row.try_get(index).map(|held| wrapped(held, SqlCell::Bytes)),
        _ => row
            .try_get(index)
            .map(|held: Option<&str>| wrapped(held, |text| SqlCell::Text(text.as_bytes()))),
    };
    cell.map_err(|error| StoreError::Content(format!("column {index}: {error}")))
}

fn wrapped<'r, T>(held: Option<T>, wrap: impl FnOnce(T) -> SqlCell<'r>) -> SqlCell<'r> {
    held.map_or(SqlCell::Null, wrap)
}
