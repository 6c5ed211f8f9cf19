//! The lines of those who wait for a source: one for each content in each network, in the order in
//! which they asked. Each is in its line until it is woken, and then has to look. Whom to wake, and
//! when, is not known here.
//!
//! The reason to wait ends for a whole line at once. So one of a line, its lookout, looks then, and
//! the others sleep on.

use std::collections::{BTreeMap, BTreeSet};

use common::content::BlobHash;
use common::{HostId, Time};

use super::shelves::{NearContent, NetworkId};

/// Somebody who waits, or was woken and has not looked yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    pub(super) fetcher: HostId,
    pub(super) of: NearContent,
    /// The time at which it asked.
    pub(super) since: Time,
    /// The cause for which it was woken; `None` while it is in its line.
    pub(super) woken: Option<WakeCause>,
}

/// The cause for which a `Waiter` is to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeCause {
    /// This source can serve one more, and keeps the place until then.
    Place(HostId, Time),
    /// The reason to wait may be gone.
    Doubt,
}

/// Those who wait for one content in one network.
#[derive(Debug, Default)]
pub(super) struct WaitingLine {
    /// By the time at which they asked, and by number.
    waiters: BTreeSet<(Time, u64, HostId)>,
    /// The one who looks for all of them, and may have been woken for that.
    lookout: Option<u64>,
}

/// All lines.
#[derive(Debug, Default)]
pub(super) struct WaitingLines {
    waiters: BTreeMap<u64, Waiter>,
    lines: BTreeMap<NetworkId, BTreeMap<BlobHash, WaitingLine>>,
    /// Those who were woken, and were not told yet.
    woken: Vec<u64>,
}

impl Waiter {
    /// Returns the source for whose place it was woken, and the time until which that is kept.
    pub(super) fn place(&self) -> Option<(HostId, Time)> {
        match self.woken {
            Some(WakeCause::Place(source, until)) => Some((source, until)),
            _ => None,
        }
    }
}

impl WaitingLine {
    /// Returns those in the line, in their order: since when, the number, and the host.
    pub(super) fn waiters(&self) -> impl Iterator<Item = (Time, u64, HostId)> {
        self.waiters.iter().copied()
    }

    #[cfg(test)]
    pub(super) fn lookout(&self) -> Option<u64> {
        self.lookout
    }
}

impl WaitingLines {
    /// Puts a `Waiter` in its line; returns whether it is the lookout there.
    pub(super) fn join(&mut self, number: u64, waiter: Waiter) -> bool {
        let (network, hash) = waiter.of;
        let place = (waiter.since, number, waiter.fetcher);
        self.waiters.insert(number, waiter);
        let lines = self.lines.entry(network).or_default();
        let line = lines.entry(hash).or_default();
        line.waiters.insert(place);

        // The last is the one who will wait for longest, so the watch seldom changes.
        if line.lookout.is_none() || line.waiters.last() == Some(&place) {
            line.lookout = Some(number);
        }
        line.lookout == Some(number)
    }

    /// Removes a `Waiter`, woken or not. If it was the lookout, the line has none until
    /// [`watch`](Self::watch).
    pub(super) fn leave(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&number)?;
        self.step_out(number, &waiter);
        let line = self.line_mut(waiter.of);
        if let Some(line) = line.filter(|line| line.lookout == Some(number)) {
            line.lookout = None;
        }
        self.woken.retain(|woken| *woken != number);
        Some(waiter)
    }

    /// Wakes a `Waiter` who is in its line.
    pub(super) fn wake(&mut self, number: u64, cause: WakeCause) {
        let waiter = self.waiters.get_mut(&number);
        let Some(waiter) = waiter.filter(|waiter| waiter.woken.is_none()) else {
            return;
        };
        waiter.woken = Some(cause);
        let waiter = *waiter;
        self.step_out(number, &waiter);
        self.woken.push(number);
    }

    /// Notes that the place is kept no more for which a `Waiter` was woken. Returns the source.
    pub(super) fn lapse(&mut self, number: u64) -> Option<HostId> {
        let waiter = self.waiters.get_mut(&number)?;
        let (source, _) = waiter.place()?;
        waiter.woken = Some(WakeCause::Doubt);
        Some(source)
    }

    /// Wakes the lookout of a line: the reason to wait there may be gone.
    pub(super) fn doubt(&mut self, of: NearContent) {
        let lookout = self.line_mut(of).and_then(|line| line.lookout);
        if let Some(lookout) = lookout {
            self.wake(lookout, WakeCause::Doubt);
        }
    }

    /// Makes somebody the lookout of a line that has none, and wakes it.
    pub(super) fn watch(&mut self, of: NearContent) {
        let line = self.line_mut(of).filter(|line| line.lookout.is_none());
        let Some(line) = line else { return };
        line.lookout = line.waiters.last().map(|(_, number, _)| *number);
        self.doubt(of);
    }

    /// Takes the numbers of those who were woken.
    pub(super) fn take_woken(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.woken)
    }

    /// Returns the lines of a network in which somebody is.
    pub(super) fn near(&self, network: NetworkId) -> Option<&BTreeMap<BlobHash, WaitingLine>> {
        self.lines.get(&network)
    }

    fn line_mut(&mut self, (network, hash): NearContent) -> Option<&mut WaitingLine> {
        self.lines.get_mut(&network)?.get_mut(&hash)
    }

    /// Takes somebody out of its line, which is forgotten once it is empty.
    fn step_out(&mut self, number: u64, waiter: &Waiter) {
        let (network, hash) = waiter.of;
        let Some(lines) = self.lines.get_mut(&network) else {
            return;
        };
        if let Some(line) = lines.get_mut(&hash) {
            line.waiters.remove(&(waiter.since, number, waiter.fetcher));
            if line.waiters.is_empty() {
                lines.remove(&hash);
            }
        }

        if lines.is_empty() {
            self.lines.remove(&network);
        }
    }

    #[cfg(test)]
    pub(super) fn waiter(&self, number: u64) -> Option<&Waiter> {
        self.waiters.get(&number)
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (NearContent, &WaitingLine)> {
        self.lines.iter().flat_map(|(network, lines)| {
            lines
                .iter()
                .map(move |(hash, line)| ((*network, *hash), line))
        })
    }
}
