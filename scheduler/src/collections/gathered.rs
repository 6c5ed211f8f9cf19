//! A set of indices that come one by one, nearly in order but with many gaps for a while, such as
//! the finished tasks. Removing some is rare, and visits the whole set.

use common::IdSet;

use crate::collections::dense::Dense;

/// A set of indices. Neighbours are collected as bits, and join the set of ranges once a block is
/// full.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    whole: IdSet,
    /// The bits of the indices that are not in `whole`, by block.
    parts: Dense<u32, u64>,
    in_parts: u64,
}

impl Gathered {
    /// Adds an index that is not in the set.
    pub(crate) fn insert(&mut self, id: u32) {
        let block = id / u64::BITS;
        let bit = 1 << (id % u64::BITS);
        let bits = self.parts.entry(block, || 0);
        *bits |= bit;
        self.in_parts += 1;
        if *bits == u64::MAX {
            self.parts.remove(&block);
            self.in_parts -= u64::from(u64::BITS);
            let first = block * u64::BITS;
            self.whole.insert_range(first, first + (u64::BITS - 1));
        }
    }

    /// Compacts the set to the least memory, when no more indices are expected for a while.
    pub(crate) fn compact(&mut self) {
        *self = self.set().into();
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        let bits = self.parts.get(&(id / u64::BITS)).copied().unwrap_or(0);
        bits & 1 << (id % u64::BITS) != 0 || self.whole.contains(id)
    }

    pub(crate) fn len(&self) -> u64 {
        self.whole.len() + self.in_parts
    }

    /// Removes these indices.
    pub(crate) fn take(&mut self, ids: &IdSet) {
        let mut set = self.set();
        set.subtract(ids);
        *self = set.into();
    }

    /// Returns all indices.
    pub(crate) fn set(&self) -> IdSet {
        let mut set = self.whole.clone();
        for (block, bits) in self.parts.iter() {
            for bit in (0..u64::BITS).filter(|bit| bits & 1 << bit != 0) {
                set.insert(block * u64::BITS + bit);
            }
        }
        set
    }
}

impl From<IdSet> for Gathered {
    fn from(whole: IdSet) -> Self {
        Gathered {
            whole,
            ..Gathered::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with `IdSet`: indices in any order, some of them present at the begin, up to
        /// the largest index.
        #[test]
        fn a_gathered_set_holds_the_same_indices_as_an_id_set(
            base in prop_oneof![Just(0), Just(1_000), Just(u32::MAX - 299)],
            from in 0..300_u32,
            order in Just((0..300_u32).collect::<Vec<_>>()).prop_shuffle(),
            take in 0..=300_usize,
        ) {
            let mut model = IdSet::from_range(base + from, base + (from + 40).min(299));
            let mut gathered = Gathered::from(model.clone());
            for id in order.into_iter().take(take).map(|id| base + id) {
                prop_assert_eq!(gathered.contains(id), model.contains(id));
                if model.insert(id) {
                    gathered.insert(id);
                }
                prop_assert!(gathered.contains(id));
                prop_assert_eq!(gathered.len(), model.len());
                if id % 64 == 0 {
                    gathered.compact();
                }
            }

            prop_assert_eq!(gathered.set(), model.clone());
            let out = IdSet::from_range(base + from, base + (from + 70).min(299));
            gathered.take(&out);
            model.subtract(&out);
            prop_assert_eq!(gathered.len(), model.len());
            prop_assert_eq!(gathered.set(), model);
        }
    }
}
