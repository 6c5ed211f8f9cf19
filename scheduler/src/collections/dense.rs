//! A map from numbers that were given out one after the other: finding an entry takes no search,
//! and iteration goes in the order of the numbers. Numbers far apart work as well, and cost a
//! search and more memory.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;

use common::HostId;

/// The number of entries of a page.
const PAGE: u32 = 32;

/// A type that can be a key of [`Dense`].
pub(crate) trait Number: Copy {
    fn number(self) -> u32;
    fn of(number: u32) -> Self;
}

impl Number for u32 {
    fn number(self) -> u32 {
        self
    }

    fn of(number: u32) -> Self {
        number
    }
}

impl Number for HostId {
    fn number(self) -> u32 {
        self.0
    }

    fn of(number: u32) -> Self {
        HostId(number)
    }
}

/// An ordered map. Only pages with entries exist.
pub(crate) struct Dense<K, V> {
    /// The pages in the order of their places. Most come at one end and go at the other.
    pages: VecDeque<Page<V>>,
    /// The place of the first page; `gaps` counts the missing pages between it and the last one.
    first: u32,
    gaps: usize,
    len: usize,
    keys: PhantomData<K>,
}

/// Neighbouring entries. The number of an entry is the place of its page times [`PAGE`], plus its
/// index here.
struct Page<V> {
    place: u32,
    len: u32,
    values: Box<[Option<V>]>,
}

fn split(number: u32) -> (u32, usize) {
    (number / PAGE, (number % PAGE) as usize)
}

impl<K: Number, V> Dense<K, V> {
    /// Returns the index of the page of this place (`Ok`), or the one where it belongs (`Err`).
    /// Without gaps it follows from the distance to the first page; else it is smaller, by at most
    /// `gaps`.
    #[inline]
    fn find(&self, place: u32) -> Result<usize, usize> {
        let far = place.wrapping_sub(self.first) as usize;
        if self.gaps == 0 && far < self.pages.len() {
            return Ok(far);
        }
        self.search(place)
    }

    fn search(&self, place: u32) -> Result<usize, usize> {
        let Some(far) = place.checked_sub(self.first) else {
            return Err(0);
        };
        let mut high = (far as usize).min(self.pages.len());
        let mut low = (far as usize).saturating_sub(self.gaps).min(high);

        while low < high {
            let middle = low.midpoint(high);
            if self.pages[middle].place < place {
                low = middle + 1;
            } else {
                high = middle;
            }
        }

        if self.pages.get(low).is_some_and(|page| page.place == place) {
            Ok(low)
        } else {
            Err(low)
        }
    }

    /// Updates `first` and `gaps` after a page came or went.
    fn measure(&mut self) {
        let first = self.pages.front().map_or(0, |page| page.place);
        let last = self.pages.back().map_or(0, |page| page.place);
        (self.first, self.gaps) = (
            first,
            ((last - first) as usize + 1).saturating_sub(self.pages.len()),
        );
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (place, at) = split(key.number());
        self.pages[self.find(place).ok()?].values[at].as_ref()
    }

    pub(crate) fn at_mut(&mut self, key: &K) -> Option<&mut V> {
        let (place, at) = split(key.number());
        let page = self.find(place).ok()?;
        self.pages[page].values[at].as_mut()
    }

    /// Returns the page and index of a key; makes the page if needed.
    fn slot(&mut self, key: K) -> (&mut Page<V>, usize) {
        let (place, at) = split(key.number());
        let page = self.find(place).unwrap_or_else(|page| {
            let values = (0..PAGE).map(|_| None).collect();
            self.pages.insert(
                page,
                Page {
                    place,
                    len: 0,
                    values,
                },
            );
            self.measure();
            page
        });
        (&mut self.pages[page], at)
    }

    /// Returns the entry; makes it if needed.
    pub(crate) fn entry(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let new = self.get(&key).is_none();
        self.len += usize::from(new);
        let (page, at) = self.slot(key);
        page.len += u32::from(new);
        page.values[at].get_or_insert_with(value)
    }

    /// Adds an entry; returns the old value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (page, at) = self.slot(key);
        let before = page.values[at].replace(value);
        if before.is_none() {
            page.len += 1;
            self.len += 1;
        }
        before
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (place, at) = split(key.number());
        let found = self.find(place).ok()?;
        let page = &mut self.pages[found];
        let value = page.values[at].take()?;
        (page.len, self.len) = (page.len - 1, self.len - 1);
        if page.len == 0 {
            self.pages.remove(found);
            self.measure();
        }
        Some(value)
    }

    /// Returns all entries, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.pages.iter().flat_map(|page| {
            let first = page.place * PAGE;
            let here = page.values.iter().zip(0..PAGE);
            here.filter_map(move |(value, at)| Some((K::of(first + at), value.as_ref()?)))
        })
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.pages
            .iter()
            .flat_map(|page| page.values.iter().flatten())
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.pages
            .iter_mut()
            .flat_map(|page| page.values.iter_mut().flatten())
    }
}

impl<K, V> Default for Dense<K, V> {
    fn default() -> Self {
        Self {
            pages: VecDeque::new(),
            first: 0,
            gaps: 0,
            len: 0,
            keys: PhantomData,
        }
    }
}

impl<K: Number + fmt::Debug, V: fmt::Debug> fmt::Debug for Dense<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with `BTreeMap`: numbers near each other, far apart and at the ends, inserted
        /// and removed in any order.
        #[test]
        fn a_dense_map_behaves_like_an_ordered_map(
            steps in proptest::collection::vec(
                (0..4_u8, prop_oneof![0..80_u32, 1_000..1_040_u32, u32::MAX - 20..=u32::MAX], any::<u8>()),
                0..300,
            )
        ) {
            let mut dense = Dense::<u32, u8>::default();
            let mut model = BTreeMap::new();
            for (step, key, value) in steps {
                match step {
                    0 => prop_assert_eq!(dense.insert(key, value), model.insert(key, value)),
                    1 => prop_assert_eq!(dense.entry(key, || value), model.entry(key).or_insert(value)),
                    _ => prop_assert_eq!(dense.remove(&key), model.remove(&key)),
                }
                prop_assert_eq!(dense.get(&key), model.get(&key));
                prop_assert_eq!(dense.at_mut(&key), model.get_mut(&key));
                prop_assert_eq!((dense.len(), dense.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(dense.keys().eq(model.keys().copied()));
                prop_assert!(dense.iter().eq(model.iter().map(|(key, value)| (*key, value))));
                prop_assert!(dense.values().eq(model.values()) && dense.values_mut().eq(model.values_mut()));
                prop_assert!(dense.pages.iter().all(|page| page.len > 0), "an empty page is kept");
            }
        }
    }
}
