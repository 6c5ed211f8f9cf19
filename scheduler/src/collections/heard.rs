//! A table of who was heard of, of bounded size: whoever was not heard of for longest goes where
//! there are too many. What is not here: what is known of each.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is known of each, by key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heard<K: Ord, V> {
    known: BTreeMap<K, Known<V>>,
    /// Counts the observations.
    observed: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Known<V> {
    value: V,
    /// When it was last heard of, in observations.
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
    /// What is known under a key.
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.known.get(key).map(|known| &known.value)
    }

    /// All of them, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.known.iter().map(|(key, known)| (key, &known.value))
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// How many observations there were.
    pub(crate) fn observed(&self) -> u64 {
        self.observed
    }
}

impl<K: Ord + Clone, V: Default> Heard<K, V> {
    /// Something is heard of this one, of at most so many. Nearly always it is known, and then
    /// nothing is copied.
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
            let oldest = self
                .known
                .iter()
                .min_by_key(|(_, known)| known.seen)
                .map(|(key, _)| key.clone());
            oldest.and_then(|key| self.known.remove(&key));
        }
        self.known.entry(key).or_insert_with(|| Known {
            value: V::default(),
            seen: 0,
        })
    }
}
