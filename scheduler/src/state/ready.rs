//! The hosts with a free slot, in the orders that `Placement` needs.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use common::{HostId, Speed, Time};

/// The hosts with a free slot, by the time since which they are ready, and by speed.
#[derive(Debug, Default)]
pub(crate) struct ReadyHosts {
    /// The only ready host, if it became ready while there was no other. This is the usual case:
    /// while tasks wait, each host with a free slot is taken at once.
    alone: Option<(HostId, Time, Speed)>,
    by_since: BTreeMap<(Time, HostId), Speed>,
    /// The number of times that a host became ready.
    pub(crate) arrivals: u64,
    /// Filled when first asked for.
    by_speed: OnceCell<BTreeSet<(Reverse<Speed>, Time, HostId)>>,
}

impl ReadyHosts {
    pub(crate) fn insert(&mut self, host: HostId, since: Time, speed: Speed) {
        self.arrivals += 1;
        if self.is_empty() {
            self.alone = Some((host, since, speed));
            return;
        }
        for (host, since, speed) in self.alone.take().into_iter().chain([(host, since, speed)]) {
            self.by_since.insert((since, host), speed);
            if let Some(by_speed) = self.by_speed.get_mut() {
                by_speed.insert((Reverse(speed), since, host));
            }
        }
    }

    pub(crate) fn remove(&mut self, host: HostId, since: Time, speed: Speed) {
        if self.alone.take_if(|alone| alone.0 == host).is_some() {
            return;
        }
        self.by_since.remove(&(since, host));
        if let Some(by_speed) = self.by_speed.get_mut() {
            by_speed.remove(&(Reverse(speed), since, host));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.alone.is_none() && self.by_since.is_empty()
    }

    /// Whether the host is among them, since this time.
    pub(crate) fn holds(&self, host: HostId, since: Time) -> bool {
        let alone = self
            .alone
            .is_some_and(|alone| (alone.0, alone.1) == (host, since));
        alone || self.by_since.contains_key(&(since, host))
    }

    pub(crate) fn len(&self) -> u64 {
        self.by_since.len() as u64 + u64::from(self.alone.is_some())
    }

    /// Returns the hosts, the one ready for longest first.
    pub(crate) fn by_since(&self) -> impl Iterator<Item = HostId> + '_ {
        let alone = self.alone.iter().map(|(host, ..)| *host);
        alone.chain(self.by_since.keys().map(|(_, host)| *host))
    }

    /// Returns the hosts that are ready since this time or later, the one ready for longest first.
    pub(crate) fn since(&self, then: Time) -> impl Iterator<Item = HostId> + '_ {
        let alone = self
            .alone
            .iter()
            .filter(move |(_, since, _)| *since >= then);
        let others = self.by_since.range((then, HostId(0))..);
        alone
            .map(|(host, ..)| *host)
            .chain(others.map(|((_, host), _)| *host))
    }

    /// Returns the hosts, the fastest first; among equals the one ready for longest.
    pub(crate) fn by_speed(&self) -> impl Iterator<Item = (Speed, HostId)> + '_ {
        let alone = self.alone.iter().map(|(host, _, speed)| (*speed, *host));
        let of =
            |((since, host), speed): (&(Time, HostId), &Speed)| (Reverse(*speed), *since, *host);
        let by_speed = self
            .by_speed
            .get_or_init(|| self.by_since.iter().map(of).collect());
        alone.chain(by_speed.iter().map(|(speed, _, host)| (speed.0, *host)))
    }
}
