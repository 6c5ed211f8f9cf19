//! The hosts that suit jobs with the same needs, with those among them that have room for another
//! task now. There is one pool for tasks without needs, and one for each other class of needs that
//! unsettled jobs have, up to [`MOST`].

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use common::needs::Needs;
use common::{HostId, Speed, Time};

use crate::collections::dense::Dense;
use crate::state::host::Host;
use crate::state::ready::ReadyHosts;

/// The most pools. Each costs something whenever a host changes. Jobs with needs beyond that look
/// at all ready hosts.
const MOST: usize = 32;

/// Hosts that take work, with indices for placement.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Hosts with room for another task.
    pub(crate) ready: ReadyHosts,
    /// Tasks that hosts which take work can run at a time, busy ones included; `usable_speed` is
    /// the sum of their speeds in millionths.
    pub(crate) usable_slots: u64,
    usable_speed: u128,
    /// The number of hosts of each speed that take work. Filled when first asked for.
    usable_speeds: OnceCell<BTreeMap<Speed, u32>>,
}

/// A host's place among the hosts of a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The tasks that it can run at a time, as counted in `usable_slots`, if it is.
    slots: Option<NonZeroU32>,
    /// Its speed as counted; the ready hosts are indexed by it too.
    speed: Speed,
    /// The time at which it joined the ready hosts; `None` while it is not ready.
    ready: Option<Time>,
}

impl Place {
    /// The place of a host that takes no work.
    pub(crate) const NONE: Place = Place {
        slots: None,
        speed: Speed::REFERENCE,
        ready: None,
    };

    /// Whether it takes work.
    pub(crate) fn is_usable(&self) -> bool {
        self.slots.is_some()
    }

    /// Returns the time at which it joined the ready hosts, while it is one of them.
    pub(crate) fn ready_since(&self) -> Option<Time> {
        self.ready
    }

    fn counted(&self) -> Option<(u32, Speed)> {
        self.slots.map(|slots| (slots.get(), self.speed))
    }
}

impl Places {
    /// Updates the indices for a host that can now run `slots` tasks at a time, if it takes work at
    /// all, and is `ready` for another one.
    pub(crate) fn shift(
        &mut self,
        host: HostId,
        place: &mut Place,
        (slots, speed): (Option<NonZeroU32>, Speed),
        ready: bool,
        now: Time,
    ) {
        let usable = slots.map(|slots| (slots.get(), speed));
        let before = place.counted();
        if usable != before {
            self.recount(before, usable);
        }

        if let Some(since) = place.ready.filter(|_| !ready || place.speed != speed) {
            self.ready.remove(host, since, place.speed);
            place.ready = None;
        }
        place.slots = slots;
        place.speed = speed;

        if ready && place.ready.is_none() {
            place.ready = Some(now);
            self.ready.insert(host, now, speed);
        }
    }

    fn recount(&mut self, before: Option<(u32, Speed)>, usable: Option<(u32, Speed)>) {
        let millionths =
            |(slots, speed): (u32, Speed)| u128::from(slots) * (speed.factor() * 1e6) as u128;
        self.usable_slots -= before.map_or(0, |(slots, _)| u64::from(slots));
        self.usable_slots += usable.map_or(0, |(slots, _)| u64::from(slots));
        self.usable_speed -= before.map_or(0, millionths);
        self.usable_speed += usable.map_or(0, millionths);

        if let Some(speeds) = self.usable_speeds.get_mut() {
            count(
                speeds,
                before.map(|(_, speed)| speed),
                usable.map(|(_, speed)| speed),
            );
        }
    }

    /// Whether this host is among the ready ones if its place says so, and not else.
    pub(crate) fn agrees(&self, host: HostId, place: &Place, ready: bool) -> bool {
        let listed = place
            .ready
            .is_some_and(|since| self.ready.holds(host, since));
        listed == ready
    }

    /// Returns the mean speed of the `usable_slots`.
    pub(crate) fn mean_speed(&self) -> Option<f64> {
        (self.usable_slots > 0).then(|| self.usable_speed as f64 / 1e6 / self.usable_slots as f64)
    }

    /// Returns the number of hosts of each speed that take work, busy or not; `all` are the places
    /// of all hosts.
    pub(crate) fn speeds<'a>(&self, all: impl Iterator<Item = &'a Place>) -> &BTreeMap<Speed, u32> {
        self.usable_speeds.get_or_init(|| {
            let mut speeds = BTreeMap::new();
            let usable = all.filter_map(Place::counted);
            usable.for_each(|(_, speed)| count(&mut speeds, None, Some(speed)));
            speeds
        })
    }
}

/// Removes a host of speed `less` from the counts and adds one of speed `more`.
fn count(speeds: &mut BTreeMap<Speed, u32>, less: Option<Speed>, more: Option<Speed>) {
    if let Some(speed) = less
        && let Some(hosts) = speeds.get_mut(&speed)
    {
        *hosts -= 1;
        if *hosts == 0 {
            speeds.remove(&speed);
        }
    }
    if let Some(speed) = more {
        *speeds.entry(speed).or_default() += 1;
    }
}

/// The number of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolId(usize);

/// The hosts that suit a class of needs.
#[derive(Debug)]
pub(crate) struct Pool {
    needs: Needs,
    /// The jobs that have these needs.
    jobs: u32,
    /// The hosts that could run such a task, busy or not, here or not.
    members: Dense<HostId, Place>,
    pub(crate) places: Places,
    /// Those of `members` that have a slot left, too little room for such a task, and no room saved up.
    short: BTreeSet<HostId>,
}

/// The pools of the classes of needs that jobs have.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    list: Vec<Option<Pool>>,
    /// The number of pools in the list.
    used: usize,
}

impl Pools {
    /// Returns the pool of the jobs with these needs, where there is one.
    pub(crate) fn of(&self, needs: &Needs) -> Option<PoolId> {
        let same = |pool: &Option<Pool>| pool.as_ref().is_some_and(|pool| pool.needs == *needs);
        self.list.iter().position(same).map(PoolId)
    }

    /// Returns the pool for a job that has come with these needs; `None` where it has none, or there
    /// are [`MOST`] pools.
    pub(crate) fn enter<'a>(
        &mut self,
        needs: &Needs,
        hosts: impl Iterator<Item = &'a Host>,
        now: Time,
    ) -> Option<PoolId> {
        if needs.is_plain() {
            return None;
        }
        if let Some(PoolId(at)) = self.of(needs) {
            self.list[at].iter_mut().for_each(|pool| pool.jobs += 1);
            return Some(PoolId(at));
        }

        let at = self.list.iter().position(Option::is_none);
        let at = at.unwrap_or(self.list.len());
        if at >= MOST {
            return None;
        }

        let mut pool = Pool {
            needs: needs.clone(),
            jobs: 1,
            members: Dense::default(),
            places: Places::default(),
            short: BTreeSet::new(),
        };
        for host in hosts {
            pool.qualify(host, now);
        }
        if at == self.list.len() {
            self.list.push(None);
        }
        self.list[at] = Some(pool);
        self.used += 1;
        Some(PoolId(at))
    }

    /// Notes that a job is gone; a pool without jobs goes too.
    pub(crate) fn leave(&mut self, id: Option<PoolId>) {
        let Some(place) = id.and_then(|PoolId(at)| self.list.get_mut(at)) else {
            return;
        };
        let Some(pool) = place else { return };
        pool.jobs -= 1;
        if pool.jobs == 0 {
            *place = None;
            self.used -= 1;
        }
    }

    pub(crate) fn get(&self, PoolId(at): PoolId) -> Option<&Pool> {
        self.list.get(at)?.as_ref()
    }

    /// Updates every pool after the host changed, but for its `offers`.
    pub(crate) fn update(&mut self, host: &Host, now: Time) {
        if self.used == 0 {
            return;
        }
        let pools = self.list.iter_mut().flatten();
        pools.for_each(|pool| pool.update(host, now));
    }

    /// Updates every pool after the host's `offers` changed.
    pub(crate) fn qualify(&mut self, host: &Host, now: Time) {
        let pools = self.list.iter_mut().flatten();
        pools.for_each(|pool| pool.qualify(host, now));
    }

    /// Has jobs ask anew for hosts that they declined.
    pub(crate) fn note_arrival(&mut self) {
        let pools = self.list.iter_mut().flatten();
        pools.for_each(|pool| pool.places.ready.arrivals += 1);
    }

    /// Whether each pool lists the host as it should.
    pub(crate) fn agree(&self, host: &Host) -> bool {
        self.list.iter().flatten().all(|pool| pool.agrees(host))
    }
}

impl Pool {
    /// Whether asking its waiting jobs can do something while none of its hosts has room: where no host
    /// is known that meets their needs they leave the queue, and for tasks that need more than one slot
    /// room can be saved up, if `saves`.
    pub(crate) fn serves_without_room(&self, saves: bool) -> bool {
        let large = !self.needs.takes.is_plain();
        self.members.is_empty() || large && saves && self.places.usable_slots > 0
    }

    /// Returns the number of hosts of each speed that take work and suit, busy or not.
    pub(crate) fn speeds(&self) -> &BTreeMap<Speed, u32> {
        self.places.speeds(self.members.values())
    }

    /// Returns the time since which the host is among the ready ones of the pool.
    pub(crate) fn ready_since(&self, host: HostId) -> Option<Time> {
        self.members.get(&host)?.ready_since()
    }

    /// Whether the host could run such a task, busy or not.
    pub(crate) fn has(&self, host: HostId) -> bool {
        self.members.get(&host).is_some()
    }

    /// Returns the hosts that could run such a task if the room that they lack were saved up.
    pub(crate) fn short(&self) -> &BTreeSet<HostId> {
        &self.short
    }

    fn qualify(&mut self, host: &Host, now: Time) {
        if self.needs.suits(&host.offers) {
            self.members.entry(host.id, || Place::NONE);
            self.update(host, now);
        } else if let Some(mut place) = self.members.remove(&host.id) {
            let none = (None, host.speed);
            self.places.shift(host.id, &mut place, none, false, now);
            self.short.remove(&host.id);
        }
    }

    fn update(&mut self, host: &Host, now: Time) {
        if let Some(place) = self.members.at_mut(&host.id) {
            let takes_work = host.takes_work();
            let slots = host.most_at_once(self.needs.takes).filter(|_| takes_work);
            let ready = takes_work && host.room_for(self.needs.takes) > 0;
            self.places
                .shift(host.id, place, (slots, host.speed), ready, now);
            if host.lacks_only_room(self.needs.takes) {
                self.short.insert(host.id);
            } else if !self.short.is_empty() {
                self.short.remove(&host.id);
            }
        }
    }

    fn agrees(&self, host: &Host) -> bool {
        let suits = self.needs.suits(&host.offers);
        match self.members.get(&host.id) {
            None => !suits,
            Some(place) => {
                let ready = host.takes_work() && host.room_for(self.needs.takes) > 0;
                let short = self.short.contains(&host.id) == host.lacks_only_room(self.needs.takes);
                suits && short && self.places.agrees(host.id, place, ready)
            }
        }
    }
}
