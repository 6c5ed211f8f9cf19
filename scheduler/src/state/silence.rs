//! Silences of hosts as they happen: how long, and whether many hosts fell silent at once.

use std::collections::VecDeque;

use common::{Span, Time};

use crate::prediction::silence::Parting;

/// A time for which nothing has been heard of a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Silence {
    pub(crate) span: Span,
    /// How it began.
    pub(crate) how: Parting,
}

/// The recent losses of connections. Many at once are a failure of the network, not of the hosts.
#[derive(Debug, Default)]
pub(crate) struct Partings {
    recent: VecDeque<Time>,
    /// The begin and end of the latest time in which too many were lost.
    outage: Option<(Time, Time)>,
    /// The latest return of a host that was awaited after a restart of the master.
    back: Option<Time>,
}

impl Partings {
    /// Losses within this time of each other are one event.
    const AT_ONCE: Span = Span::from_secs(4);
    /// The most hosts of a small grid that part at once by chance, and the part of its hosts where that is more.
    const BY_CHANCE: usize = 8;
    const BY_CHANCE_OF: usize = 20;
    /// The most of a large grid, beside one in so many: where each host parts once an hour by chance, that is three
    /// times as many as part within [`Self::AT_ONCE`].
    const OF_LARGE: usize = 12;
    const OF_LARGE_OF: usize = 300;

    /// The time in which a worker comes back to a master that has started: its longest pause
    /// (`reconnect_cap`, 30 s) and two tries. While hosts come, the next is waited for so long.
    const BACK: Span = Span::from_secs(40);
    const NEXT_BACK: Span = Span::from_secs(8);

    /// Returns the most that part at once by chance, of so many hosts.
    fn by_chance(hosts: usize) -> usize {
        let large = Self::OF_LARGE + hosts / Self::OF_LARGE_OF;
        Self::BY_CHANCE.max((hosts / Self::BY_CHANCE_OF).min(large))
    }

    /// Notes that the connection of one of this many hosts was lost.
    pub(crate) fn note(&mut self, now: Time, hosts: usize) {
        let earlier = |at: &mut Time| now.since(*at) > Self::AT_ONCE;
        while self.recent.pop_front_if(earlier).is_some() {}

        self.recent.push_back(now);
        if self.recent.len() > Self::by_chance(hosts) {
            let first = self.recent.front().copied().unwrap_or(now);
            let goes_on = self.outage.filter(|(_, until)| *until >= first);
            self.outage = Some((goes_on.map_or(first, |(since, _)| since), now));
        }
    }

    /// Whether too many connections were lost about then for that to be chance.
    pub(crate) fn together(&self, parted: Time) -> bool {
        self.outage
            .is_some_and(|(since, until)| (since..=until).contains(&parted))
    }

    /// Notes that an awaited host is back.
    pub(crate) fn note_back(&mut self, now: Time) {
        self.back = Some(now);
    }

    /// Returns when a host that has been awaited since then is doubted: it has had its time, and
    /// the others that come have come.
    pub(crate) fn awaited_until(&self, since: Time) -> Time {
        let others = self.back.map_or(since, |back| back + Self::NEXT_BACK);
        others.max(since + Self::BACK)
    }

    /// Moves everything by a pause of the master.
    pub(crate) fn shift(&mut self, span: Span) {
        self.recent.iter_mut().for_each(|at| *at = *at + span);
        self.back = self.back.map(|at| at + span);
        self.outage = self
            .outage
            .map(|(since, until)| (since + span, until + span));
    }
}
