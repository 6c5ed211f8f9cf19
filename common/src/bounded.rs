//! Lists that are read from others only up to a length: an entry of a few bytes on the wire can take
//! many times as much memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// The most entries of a list that one message to a worker could not hold by far.
pub(crate) const FEW: usize = 65_536;
/// The most entries of which memory is set aside before they are read.
const AT_ONCE: usize = 4_096;

/// Reads a list of at most `MOST` entries.
///
/// # Errors
/// If there are more, before they are read.
pub(crate) fn list<'de, D, T, const MOST: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(ListVisitor::<T, MOST>(PhantomData))
}

struct ListVisitor<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for ListVisitor<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
        let length = entries.size_hint().unwrap_or(0);
        if length > MOST {
            return Err(A::Error::invalid_length(length, &self));
        }

        let mut list = Vec::with_capacity(length.min(AT_ONCE));
        while let Some(entry) = entries.next_element()? {
            if list.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            list.push(entry);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::SeqDeserializer;

    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Names(#[serde(deserialize_with = "list::<_, _, 3>")] Vec<String>);

    #[test]
    fn a_list_is_read_up_to_its_most_entries() {
        for (length, fits) in [(0, true), (3, true), (4, false), (100_000, false)] {
            let bytes = postcard::to_stdvec(&Names(vec![String::new(); length])).unwrap();
            let read = postcard::from_bytes::<Names>(&bytes);
            assert_eq!(
                read.map(|Names(list)| list.len()).ok(),
                fits.then_some(length)
            );
        }
    }

    #[test]
    fn a_list_of_unknown_length_is_read_up_to_its_most_entries() {
        for (length, fits) in [(3, true), (4, false)] {
            let unknown = (0..length).filter(|_| true);
            let entries = SeqDeserializer::<_, serde::de::value::Error>::new(unknown);
            assert_eq!(list::<_, i32, 3>(entries).is_ok(), fits, "{length}");
        }
    }
}
