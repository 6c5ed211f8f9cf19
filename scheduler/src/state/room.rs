//! The countable room of a host: what its owner lends, what attempts take of it, and the right to
//! put another attempt there.

use std::num::NonZeroU32;

use common::needs::{Demand, Needs};

use crate::state::host::{Host, HostAttempt};

/// A sum of demands, or the room that they leave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) slots: u64,
    pub(crate) cores: u64,
    pub(crate) memory_mib: u64,
    pub(crate) gpus: u64,
}

impl Room {
    /// Returns the room that an attempt with this `Demand` takes in a slot.
    pub(crate) fn of(takes: Demand) -> Self {
        Self {
            slots: 1,
            cores: u64::from(takes.cores),
            memory_mib: u64::from(takes.memory_mib),
            gpus: u64::from(takes.gpus),
        }
    }

    /// Returns the part of `of` that a frozen attempt goes on taking: what it has in memory stays.
    fn of_frozen(takes: Demand) -> Self {
        Self {
            slots: 0,
            cores: 0,
            ..Self::of(takes)
        }
    }

    pub(crate) fn plus(self, more: Self) -> Self {
        Self {
            slots: self.slots + more.slots,
            cores: self.cores + more.cores,
            memory_mib: self.memory_mib + more.memory_mib,
            gpus: self.gpus + more.gpus,
        }
    }

    pub(crate) fn minus(self, less: Self) -> Self {
        Self {
            slots: self.slots.saturating_sub(less.slots),
            cores: self.cores.saturating_sub(less.cores),
            memory_mib: self.memory_mib.saturating_sub(less.memory_mib),
            gpus: self.gpus.saturating_sub(less.gpus),
        }
    }

    /// Returns the number of attempts of this `Demand` that it holds at a time.
    pub(crate) fn holds(self, takes: Demand) -> u64 {
        let fit = takes.times_in(self.cores, self.memory_mib, self.gpus);
        self.slots.min(fit)
    }

    /// Returns the number of its slots that stand for one attempt of this demand: attempts of any
    /// demands whose slots are no more than it has do not take more of anything than it has. `None`
    /// where not even one fits.
    pub(crate) fn slots_of(self, takes: Demand) -> Option<u64> {
        let most = self.holds(takes);
        (most > 0).then(|| self.slots.div_ceil(most))
    }

    /// Whether a task of this demand would take some of what is lacking, if this is room that a
    /// waiting task lacks. Slots count with processors: each task takes both.
    pub(crate) fn bars(self, takes: Demand) -> bool {
        self.slots > 0
            || self.cores > 0
            || self.memory_mib > 0 && takes.memory_mib > 0
            || self.gpus > 0 && takes.gpus > 0
    }

    /// Whether nothing in it counts but `slots`: each of them has a processor.
    pub(crate) fn is_plain(self) -> bool {
        self.cores == self.slots && self.memory_mib == 0 && self.gpus == 0
    }
}

/// The right to put one attempt on a host. Only a host that has room for it gives one.
#[must_use]
#[derive(Debug)]
pub(crate) struct RoomClaim {
    takes: Demand,
}

impl RoomClaim {
    /// Returns the `Demand` that the attempt may have.
    pub(crate) fn takes(&self) -> Demand {
        self.takes
    }
}

impl HostAttempt {
    /// Returns the room that it takes at present, by `takes` and `frozen`.
    pub(crate) fn room(&self) -> Room {
        if self.frozen {
            Room::of_frozen(self.takes)
        } else {
            Room::of(self.takes)
        }
    }
}

impl Host {
    /// Whether it could run tasks with these needs while it runs nothing else.
    pub(crate) fn suits(&self, needs: &Needs) -> bool {
        needs.suits(&self.offers)
    }

    /// Returns the number of slots that its owner lets tasks use.
    pub(crate) fn usable_slots(&self) -> u32 {
        self.owner.slots(self.slots)
    }

    /// Returns everything that its owner lends at present. Where tasks may use some of the slots,
    /// they may use the same part of the processors.
    pub(crate) fn lent_room(&self) -> Room {
        self.room_of(self.usable_slots())
    }

    /// Returns the `lent_room` while nobody is there.
    pub(crate) fn whole_room(&self) -> Room {
        self.room_of(self.slots)
    }

    fn room_of(&self, slots: u32) -> Room {
        let slots = u64::from(slots);
        let all = u64::from(self.slots.max(1));
        let cores = u64::from(self.offers.capacity.cores).max(all);
        Room {
            slots,
            cores: (cores * slots / all).max(slots),
            memory_mib: u64::from(self.offers.capacity.memory_mib),
            gpus: u64::from(self.offers.capacity.gpus),
        }
    }

    /// Returns the part of `lent_room` that is left beside its attempts and `reserved`.
    pub(crate) fn left_room(&self) -> Room {
        self.lent_room()
            .minus(self.books.taken())
            .minus(self.reserved)
    }

    /// Returns the number of further tasks of `Demand::PLAIN` that it has room for.
    pub(crate) fn free_slots(&self) -> usize {
        if self.saved.bars(Demand::PLAIN) {
            return 0;
        }
        let slots = (self.usable_slots() as usize)
            .saturating_sub(self.in_slots())
            .saturating_sub(self.reserved.slots as usize);
        if slots == 0 || self.books.is_plain() && self.reserved.is_plain() {
            slots
        } else {
            self.room_for(Demand::PLAIN)
        }
    }

    /// Returns the number of further attempts of this `Demand` that it has room for.
    pub(crate) fn room_for(&self, takes: Demand) -> usize {
        if takes.is_plain() && self.books.is_plain() && self.reserved.is_plain() {
            return self.free_slots();
        }
        if self.saved.bars(takes) {
            return 0;
        }
        self.left_room().holds(takes) as usize
    }

    /// Returns the number of attempts of this demand that it has room for while it runs nothing
    /// else.
    pub(crate) fn most_at_once(&self, takes: Demand) -> Option<NonZeroU32> {
        let most = if takes.is_plain() {
            u64::from(self.usable_slots())
        } else {
            self.lent_room().holds(takes)
        };
        NonZeroU32::new(u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// Whether an attempt of this demand would find room once these of its attempts have ended, and
    /// these others are frozen.
    pub(crate) fn has_room_without(
        &self,
        takes: Demand,
        ended: &[&HostAttempt],
        frozen: &[&HostAttempt],
    ) -> bool {
        let ended = ended.iter().map(|load| (load, Room::default()));
        let frozen = frozen
            .iter()
            .map(|load| (load, Room::of_frozen(load.takes)));
        let left = ended
            .chain(frozen)
            .fold(self.books.taken(), |taken, (load, stays)| {
                taken.minus(load.room()).plus(stays)
            });
        let free = self.lent_room().minus(left).minus(self.reserved);
        free.holds(takes) > 0
    }

    /// Whether an attempt of this demand would find room if the reservation for another were
    /// released.
    pub(crate) fn has_room_beside(&self, takes: Demand, reserved: Demand) -> bool {
        // The owner may lend less by now than is taken and reserved.
        let others = self.reserved.minus(Room::of(reserved));
        let free = self.lent_room().minus(self.books.taken()).minus(others);
        !self.saved.bars(takes) && free.holds(takes) > 0
    }

    /// Whether it has a slot left, and could run an attempt of this demand if it had more room, none of
    /// which is saved up.
    pub(crate) fn lacks_only_room(&self, takes: Demand) -> bool {
        !takes.is_plain()
            && self.free_slots() > 0
            && self.takes_work()
            && self.saved == Room::default()
            && self.most_at_once(takes).is_some()
            && self.room_for(takes) == 0
    }

    /// Returns the room that it lacks for an attempt of this demand.
    pub(crate) fn lack(&self, takes: Demand) -> Room {
        Room::of(takes).minus(self.left_room())
    }

    /// Returns how much it lacks for an attempt of this demand, in parts of a thousand of that,
    /// summed over what is counted.
    pub(crate) fn lacks(&self, takes: Demand) -> u64 {
        let wanted = Room::of(takes);
        let lack = self.lack(takes);
        let part = |lack: u64, of: u64| lack * 1_000 / of.max(1);
        part(lack.slots, wanted.slots)
            + part(lack.cores, wanted.cores)
            + part(lack.memory_mib, wanted.memory_mib)
            + part(lack.gpus, wanted.gpus)
    }

    /// Gives the right to put an attempt there, if there is room for it. Attempts that were told
    /// to stop leave theirs to it: the worker starts it when they are gone.
    pub(crate) fn claim(&self, takes: Demand) -> Option<RoomClaim> {
        let stopping = || -> Vec<&HostAttempt> {
            let all = self.books.iter().map(|(_, load)| load);
            all.filter(|load| load.stopping).collect()
        };
        let room = self.room_for(takes) > 0 || self.has_room_without(takes, &stopping(), &[]);
        room.then_some(RoomClaim { takes })
    }

    /// Gives the right to put an attempt there ahead of its slot. It is started when another one
    /// has ended, so this is for hosts and tasks of which nothing counts but slots.
    pub(crate) fn claim_ahead(&self, takes: Demand) -> Option<RoomClaim> {
        let plain = takes.is_plain() && self.books.is_plain() && self.reserved.is_plain();
        plain.then_some(RoomClaim { takes })
    }

    /// Whether its attempts take more than it lends to a host full of work, and nothing explains
    /// that. What runs ahead of slots is plain, and waits there.
    pub(crate) fn is_overcommitted(&self) -> bool {
        let taken = self.books.taken_for_good();
        let all = u64::from(self.slots.max(1));
        let capacity = self.offers.capacity;
        let over = u64::from(capacity.memory_mib) < taken.memory_mib
            || u64::from(capacity.gpus) < taken.gpus
            || u64::from(capacity.cores).max(all) < taken.cores && !taken.is_plain();
        over && !self.excused
    }
}
