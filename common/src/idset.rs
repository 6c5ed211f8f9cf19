//! Sets of task indices kept as ranges ([`IdSet`]), so that a bag of a million tasks costs as much
//! as a bag of one.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeBounds;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounded;
use crate::selector::MAX_IDS;

/// The most ranges in [`IdSet::in_brief`].
const BRIEF_RANGES: usize = 8;

/// A set of `u32` as disjoint inclusive ranges that never touch each other. Insert, remove and
/// look-up cost the logarithm of the number of ranges; memory is about 16 bytes a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdSet {
    /// The first index of each range, mapped to the last.
    ranges: BTreeMap<u32, u32>,
    len: u64,
}

impl IdSet {
    /// Returns the empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the set `first..=last`, empty where `last < first`.
    pub fn from_range(first: u32, last: u32) -> Self {
        let mut set = Self::new();
        if first <= last {
            set.ranges.insert(first, last);
            set.len = u64::from(last - first) + 1;
        }
        set
    }

    /// Returns the number of indices in the set.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no index is in the set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `id` is in the set.
    pub fn contains(&self, id: u32) -> bool {
        self.range_at(id).is_some()
    }

    /// Returns the smallest index.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first_key_value().map(|(first, _)| *first)
    }

    /// Returns the largest index.
    pub fn last(&self) -> Option<u32> {
        self.ranges.last_key_value().map(|(_, last)| *last)
    }

    /// Removes and returns the smallest index.
    pub fn pop_first(&mut self) -> Option<u32> {
        let (first, last) = self.ranges.pop_first()?;
        if first < last {
            self.ranges.insert(first + 1, last);
        }
        self.len -= 1;
        Some(first)
    }

    /// Adds `id`; returns false if it was in the set already.
    pub fn insert(&mut self, id: u32) -> bool {
        let before = self.range_from(..=id);
        if before.is_some_and(|(_, last)| last >= id) {
            return false;
        }
        self.join(before, id, id);
        true
    }

    /// Adds every index of `first..=last`, present or not; nothing where `last < first`.
    pub fn insert_range(&mut self, first: u32, last: u32) {
        if first <= last {
            self.remove_range(first, last);
            self.join(self.range_from(..first), first, last);
        }
    }

    /// Adds `first..=last`, none of which is in the set, and joins it to its neighbours. `before`
    /// is the range before it, if any.
    fn join(&mut self, before: Option<(u32, u32)>, first: u32, last: u32) {
        self.len += u64::from(last - first) + 1;
        let last = last
            .checked_add(1)
            .and_then(|next| self.ranges.remove(&next))
            .unwrap_or(last);
        let first = before
            .filter(|(_, end)| end + 1 == first)
            .map_or(first, |(first, _)| first);
        self.ranges.insert(first, last);
    }

    /// Removes `id`; returns false if it was not in the set.
    pub fn remove(&mut self, id: u32) -> bool {
        let Some((first, last)) = self.range_at(id) else {
            return false;
        };
        self.ranges.remove(&first);
        if first < id {
            self.ranges.insert(first, id - 1);
        }
        if id < last {
            self.ranges.insert(id + 1, last);
        }
        self.len -= 1;
        true
    }

    /// Adds every index of `other`, range by range.
    pub fn union_with(&mut self, other: &IdSet) {
        if self.is_empty() {
            *self = other.clone();
            return;
        }
        let merged = self.ranges().chain(other.ranges()).collect::<Vec<_>>();
        *self = Self::from_ranges(merged);
    }

    /// Removes every index of `other`, range by range.
    pub fn subtract(&mut self, other: &IdSet) {
        for (first, last) in self.intersection(other).ranges() {
            self.remove_range(first, last);
        }
    }

    /// Returns the indices that are in both sets. Costs as much as the set with fewer ranges has.
    pub fn intersection(&self, other: &IdSet) -> IdSet {
        if self.ranges.len() < other.ranges.len() {
            return other.intersection(self);
        }

        let mut out = Vec::new();
        for (first, last) in other.ranges() {
            let from = self.range_at(first).map_or(first, |(start, _)| start);
            for (a, b) in self.ranges.range(from..=last) {
                if *b >= first {
                    out.push((first.max(*a), last.min(*b)));
                }
            }
        }

        Self::from_ranges(out)
    }

    /// Iterates over the ranges, ascending, as `(first, last)`.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        self.ranges.iter().map(|(a, b)| (*a, *b))
    }

    /// Iterates over the indices, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges().flat_map(|(a, b)| a..=b)
    }

    /// Returns the number of indices in the set that are smaller than `id`: the position of `id`
    /// where it is in the set.
    pub fn rank(&self, id: u32) -> u64 {
        self.ranges
            .range(..id)
            .map(|(a, b)| u64::from(id.min(b.saturating_add(1)) - a))
            .sum()
    }

    /// Returns the smallest index of the set from `from` on that is not in `other`. Costs as much
    /// as the ranges that it passes over.
    pub fn first_beyond(&self, from: u32, other: &IdSet) -> Option<u32> {
        let start = self.range_at(from).map_or(from, |(first, _)| first);
        for (first, last) in self.ranges.range(start..).map(|(a, b)| (*a, *b)) {
            let mut id = first.max(from);
            while id <= last {
                match other.range_at(id) {
                    None => return Some(id),
                    Some((_, end)) => id = end.checked_add(1)?,
                }
            }
        }
        None
    }

    /// Makes the set of these inclusive ranges, which may overlap, touch and come in any order.
    pub fn from_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.retain(|(a, b)| a <= b);
        ranges.sort_unstable();

        let mut set = Self::new();
        for (first, last) in ranges {
            match set.ranges.last_entry() {
                Some(mut entry) if u64::from(first) <= u64::from(*entry.get()) + 1 => {
                    let end = last.max(*entry.get());
                    entry.insert(end);
                }
                _ => {
                    set.ranges.insert(first, last);
                }
            }
        }

        set.len = set.ranges().map(|(a, b)| u64::from(b - a) + 1).sum();
        set
    }

    /// Returns the set as text for people: the first ranges, and the number of the other indices.
    pub fn in_brief(&self) -> String {
        let shown = Self::from_ranges(self.ranges().take(BRIEF_RANGES).collect());
        match self.len - shown.len {
            0 => shown.to_string(),
            more => format!("{shown} and {more} more"),
        }
    }

    fn range_at(&self, id: u32) -> Option<(u32, u32)> {
        self.range_from(..=id).filter(|(_, last)| *last >= id)
    }

    /// Returns the last of the ranges that begin within these bounds.
    fn range_from(&self, within: impl RangeBounds<u32>) -> Option<(u32, u32)> {
        let last = self.ranges.range(within).next_back();
        last.map(|(first, last)| (*first, *last))
    }

    fn remove_range(&mut self, first: u32, last: u32) {
        let from = self.range_at(first).map_or(first, |(start, _)| start);
        let hit: Vec<(u32, u32)> = self
            .ranges
            .range(from..=last)
            .map(|(a, b)| (*a, *b))
            .collect();

        for (a, b) in hit {
            self.ranges.remove(&a);
            if a < first {
                self.ranges.insert(a, first - 1);
            }
            if b > last {
                self.ranges.insert(last + 1, b);
            }
            self.len -= u64::from(last.min(b) - first.max(a)) + 1;
        }
    }
}

impl FromIterator<u32> for IdSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        Self::from_ranges(ids.into_iter().map(|id| (id, id)).collect())
    }
}

impl fmt::Display for IdSet {
    /// Prints the set as a selector that reads back: `1-10,12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (a, b)) in self.ranges().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if a == b {
                write!(f, "{comma}{a}")?;
            } else {
                write!(f, "{comma}{a}-{b}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for IdSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.ranges())
    }
}

impl<'de> Deserialize<'de> for IdSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ranges = bounded::list::<_, _, { MAX_IDS as usize }>(deserializer)?;
        Ok(Self::from_ranges(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn model(set: &IdSet) -> BTreeSet<u32> {
        set.iter().collect()
    }

    #[test]
    fn of_many_ranges_people_are_shown_the_first_ones_and_the_number_of_the_rest() {
        let odd: IdSet = (1..=999).step_by(2).collect();
        assert_eq!(odd.in_brief(), "1,3,5,7,9,11,13,15 and 492 more");
        assert_eq!(IdSet::from_range(1, 999).in_brief(), "1-999");
    }

    proptest! {
        #[test]
        fn behaves_as_a_plain_set(steps in proptest::collection::vec((any::<bool>(), 0u32..60), 0..200)) {
            let mut set = IdSet::new();
            let mut plain = BTreeSet::new();
            for (add, id) in steps {
                if add { prop_assert_eq!(set.insert(id), plain.insert(id)); } else { prop_assert_eq!(set.remove(id), plain.remove(&id)); }
                prop_assert_eq!(set.len(), plain.len() as u64);
            }
            prop_assert_eq!(model(&set), plain.clone());
            for id in 0..61 { prop_assert_eq!(set.rank(id), plain.range(..id).count() as u64); }
            prop_assert_eq!(IdSet::from_iter(plain), set);
        }

        #[test]
        fn ranges_are_merged_with_any_others(
            ranges in proptest::collection::vec(prop_oneof![(0u32..60, 0u32..60), Just((u32::MAX - 3, u32::MAX))], 0..20)
        ) {
            let mut set = IdSet::new();
            let mut plain = BTreeSet::new();
            for (first, last) in ranges {
                set.insert_range(first, last);
                plain.extend(first..=last);
            }
            prop_assert_eq!(IdSet::from_iter(plain), set);
        }

        #[test]
        fn set_algebra_matches(a in proptest::collection::btree_set(0u32..50, 0..40), b in proptest::collection::btree_set(0u32..50, 0..40)) {
            let sa = IdSet::from_iter(a.clone());
            let sb = IdSet::from_iter(b.clone());
            let mut union = sa.clone();
            union.union_with(&sb);
            prop_assert_eq!(model(&union), a.union(&b).copied().collect());

            for from in 0..50 {
                let beyond = a.range(from..).find(|id| !b.contains(id)).copied();
                prop_assert_eq!(sa.first_beyond(from, &sb), beyond);
            }

            let mut minus = sa.clone();
            minus.subtract(&sb);
            prop_assert_eq!(minus.len() as usize, a.difference(&b).count());
            prop_assert_eq!(model(&minus), a.difference(&b).copied().collect());
            prop_assert_eq!(model(&sa.intersection(&sb)), a.intersection(&b).copied().collect());
        }
    }

    #[test]
    fn the_largest_index_does_not_overflow() {
        let mut set = IdSet::from_range(u32::MAX - 1, u32::MAX);
        assert_eq!(set.rank(u32::MAX), 1);
        assert!(set.remove(u32::MAX) && set.insert(u32::MAX) && set.insert(0));
        assert_eq!(set.to_string(), format!("0,{}-{}", u32::MAX - 1, u32::MAX));
    }
}
