//! A file format for a sequence of values: each entry is a length and then exactly one postcard
//! value. It is for deskgrid's own files: unlike [`crate::wire::frame`] it does not limit the
//! length of an entry, so it is unfit for data from strangers.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The size of an entry's length field, in bytes.
pub const PREFIX: usize = 4;

/// The error for bytes that are not an entry of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// The length does not fit into 32 bits.
    #[error("an entry of {0} bytes is too long")]
    TooLong(usize),
    /// The bytes are not a value of the expected type.
    #[error("an entry does not decode: {0}")]
    Malformed(postcard::Error),
    /// The entry has this many bytes more than the value takes.
    #[error("an entry has {0} bytes too many")]
    Trailing(usize),
}

/// Appends an entry to `out`.
///
/// # Errors
/// If the value cannot be encoded or is too long; `out` is then as it was, or empty.
pub fn append<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), BadEntry> {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    *out = postcard::to_extend(value, std::mem::take(out)).map_err(BadEntry::Malformed)?;
    let length = out.len() - start - PREFIX;
    let Ok(prefix) = u32::try_from(length) else {
        out.truncate(start);
        return Err(BadEntry::TooLong(length));
    };
    out[start..start + PREFIX].copy_from_slice(&prefix.to_le_bytes());
    Ok(())
}

/// Decodes the entry at the beginning of `bytes` and returns it with the bytes that it takes;
/// `None` if `bytes` end before the entry does.
///
/// # Errors
/// If the entry is complete, but not a value of type `T`.
pub fn first<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<(T, usize)>, BadEntry> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let whole = PREFIX + u32::from_le_bytes(*prefix) as usize;
    let Some(payload) = bytes.get(PREFIX..whole) else {
        return Ok(None);
    };
    let (value, rest) = postcard::take_from_bytes(payload).map_err(BadEntry::Malformed)?;

    if rest.is_empty() {
        Ok(Some((value, whole)))
    } else {
        Err(BadEntry::Trailing(rest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_read_back_in_order_and_a_torn_one_is_not_there(
            entries in proptest::collection::vec((any::<u64>(), "\\PC{0,40}"), 0..20), cut in 0usize..50,
        ) {
            let mut bytes = Vec::new();
            let mut ends = vec![0];
            for entry in &entries {
                append(entry, &mut bytes).unwrap();
                ends.push(bytes.len());
            }

            bytes.truncate(bytes.len().saturating_sub(cut));
            let mut read = Vec::new();
            let mut at = 0;

            while let Some((entry, length)) = first::<(u64, String)>(&bytes[at..]).unwrap() {
                read.push(entry);
                at += length;
            }

            let whole = ends.iter().filter(|end| **end <= bytes.len()).count() - 1;
            prop_assert_eq!(&read[..], &entries[..whole]);
            prop_assert_eq!(at, ends[whole]);
        }
    }

    #[test]
    fn an_entry_of_another_type_is_refused() {
        let mut bytes = Vec::new();
        append(&(7u8, 300u32), &mut bytes).unwrap();
        assert_eq!(first::<u8>(&bytes), Err(BadEntry::Trailing(2)));
        assert!(matches!(
            first::<String>(&bytes),
            Err(BadEntry::Malformed(_))
        ));
    }
}
