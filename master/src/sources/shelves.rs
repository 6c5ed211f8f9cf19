//! The hosts that have, or are about to have, each content in each network: its sources, those first
//! that serve the fewest, and the transfers that will make more of them. Who may be sent where is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use common::content::BlobHash;
use common::{HostId, Time};

/// The beginning that the addresses of near hosts share.
pub(super) type NetworkId = (bool, u64);

/// A content in a network.
pub(super) type NearContent = (NetworkId, BlobHash);

/// The shelves of all content that some host passes on, or is about to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ContentShelves(BTreeMap<NearContent, ContentShelf>);

#[derive(Debug, Default, PartialEq, Eq)]
struct ContentShelf {
    /// The hosts that pass it on, each behind a number of hosts that it serves at least.
    sources: BTreeSet<(u32, HostId)>,
    /// The transfers to hosts that will pass it on, each behind the time until which it is good.
    coming: BTreeSet<(Time, u64)>,
}

impl ContentShelves {
    /// Puts a source behind a number.
    pub(super) fn put(&mut self, of: NearContent, source: (u32, HostId)) {
        self.0.entry(of).or_default().sources.insert(source);
    }

    /// Takes a source from behind its number.
    pub(super) fn take(&mut self, of: NearContent, source: (u32, HostId)) {
        if let Some(shelf) = self.0.get_mut(&of) {
            shelf.sources.remove(&source);
        }
        self.tidy(of);
    }

    /// Puts a transfer behind its time.
    pub(super) fn put_coming(&mut self, of: NearContent, transfer: (Time, u64)) {
        self.0.entry(of).or_default().coming.insert(transfer);
    }

    /// Takes a transfer from behind its time; false if it was not there.
    pub(super) fn take_coming(&mut self, of: NearContent, transfer: (Time, u64)) -> bool {
        let shelf = self.0.get_mut(&of);
        let was_there = shelf.is_some_and(|shelf| shelf.coming.remove(&transfer));
        self.tidy(of);
        was_there
    }

    fn tidy(&mut self, of: NearContent) {
        let shelf = self.0.get(&of);
        if shelf.is_some_and(|shelf| shelf.sources.is_empty() && shelf.coming.is_empty()) {
            self.0.remove(&of);
        }
    }

    /// Returns the first source, or the first after another one.
    pub(super) fn source_after(
        &self,
        of: NearContent,
        other: Option<(u32, HostId)>,
    ) -> Option<(u32, HostId)> {
        let from = other.map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.0.get(&of)?.sources.range((from, Bound::Unbounded));
        later.next().copied()
    }

    /// Returns all sources, in their order.
    pub(super) fn sources(&self, of: NearContent) -> impl Iterator<Item = HostId> {
        let shelf = self.0.get(&of).into_iter();
        shelf.flat_map(|shelf| shelf.sources.iter().map(|(_, source)| *source))
    }

    /// Returns the transfers with their times, first the one that is good for longest.
    pub(super) fn coming(&self, of: NearContent) -> impl Iterator<Item = (Time, u64)> {
        let shelf = self.0.get(&of).into_iter();
        shelf.flat_map(|shelf| shelf.coming.iter().rev().copied())
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
