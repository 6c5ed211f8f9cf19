//! A table of bounded size. When it is full, the entry that was not observed for longest is removed, of
//! the group with the most entries: nobody takes the places of others by making many.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A key of a group of keys.
pub(crate) trait Grouped {
    /// Returns the name of its group.
    fn group(&self) -> &str {
        ""
    }
}

impl Grouped for String {}

/// The values by key, each with the time of its last observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heard<K: Ord, V> {
    known: BTreeMap<K, Known<V>>,
    /// The number of observations.
    observed: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Known<V> {
    value: V,
    /// The number of its last observation.
    seen: u64,
}

impl<K: Ord, V> Default for Heard<K, V> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            observed: 0,
        }
    }
}

impl<K: Ord, V> Heard<K, V> {
    /// Returns the value of a key.
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.known.get(key).map(|known| &known.value)
    }

    /// Returns all values, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.known.iter().map(|(key, known)| (key, &known.value))
    }

    /// Returns the number of keys.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns the number of observations.
    pub(crate) fn observed(&self) -> u64 {
        self.observed
    }
}

impl<K: Ord + Clone + Grouped, V: Default> Heard<K, V> {
    /// Notes an observation of this key, in a table of at most `most` keys. The key is nearly
    /// always known, and then it is not cloned.
    pub(crate) fn hear<Q>(&mut self, key: &Q, most: usize, note: impl FnOnce(&mut V))
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        self.observed += 1;
        let seen = self.observed;
        let known = match self.known.get_mut(key) {
            Some(known) => known,
            None => self.enter(key.to_owned(), most),
        };
        known.seen = seen;
        note(&mut known.value);
    }

    fn enter(&mut self, key: K, most: usize) -> &mut Known<V> {
        if self.known.len() >= most {
            let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
            for key in self.known.keys() {
                *sizes.entry(key.group()).or_default() += 1;
            }

            let rank = |key: &K, known: &Known<V>| (Reverse(sizes[key.group()]), known.seen);
            let oldest = self
                .known
                .iter()
                .min_by_key(|(key, known)| rank(key, known))
                .map(|(key, _)| key.clone());
            oldest.and_then(|key| self.known.remove(&key));
        }
        self.known.entry(key).or_insert_with(|| Known {
            value: V::default(),
            seen: 0,
        })
    }
}
