//! The live attempts of one host, by id, and the sum of what they take of it. Most hosts have one or
//! two; where many short tasks are prefetched, they come and go at the ends.

use common::{AttemptId, Span, Time};
use smallvec::SmallVec;

use crate::state::host::HostAttempt;
use crate::state::room::{Room, RoomClaim};

/// Live attempts with each one's `HostAttempt`, in the order of their ids.
#[derive(Debug, Default)]
pub(crate) struct HostAttempts {
    entries: SmallVec<[(AttemptId, HostAttempt); 1]>,
    /// The number of those that are frozen and take no slot.
    frozen: u32,
    /// The number of those whose demand is not plain, and what these take.
    odd: u32,
    odd_room: Room,
}

impl HostAttempts {
    /// Returns the index of an attempt (`Ok`), or the one where it belongs (`Err`).
    fn find(&self, attempt: &AttemptId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(attempt, |(id, _)| *id)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of frozen attempts.
    pub(crate) fn frozen(&self) -> u32 {
        self.frozen
    }

    /// Whether every attempt is of `Demand::PLAIN`.
    pub(crate) fn is_plain(&self) -> bool {
        self.odd == 0
    }

    /// Returns the `Room` that all of them take, the frozen ones included.
    pub(crate) fn taken(&self) -> Room {
        let in_slots = self.entries.len() as u64 - u64::from(self.frozen);
        if self.odd == 0 {
            return Room {
                slots: in_slots,
                cores: in_slots,
                ..Room::default()
            };
        }

        let plain = in_slots - self.odd_room.slots;
        Room {
            slots: in_slots,
            cores: plain + self.odd_room.cores,
            ..self.odd_room
        }
    }

    /// Returns what those take that were not told to stop, counted one by one.
    pub(crate) fn taken_for_good(&self) -> Room {
        let stay = self.iter().filter(|(_, load)| !load.stopping);
        stay.fold(Room::default(), |sum, (_, load)| sum.plus(load.room()))
    }

    pub(crate) fn get(&self, attempt: &AttemptId) -> Option<&HostAttempt> {
        self.entries
            .get(self.find(attempt).ok()?)
            .map(|(_, load)| load)
    }

    /// Returns the load of an attempt for changes of anything but what it takes, and whether it is
    /// frozen.
    pub(crate) fn at_mut(&mut self, attempt: &AttemptId) -> Option<&mut HostAttempt> {
        let at = self.find(attempt).ok()?;
        Some(&mut self.entries[at].1)
    }

    /// Moves the last reports, and the assignments of what has not begun, by a pause of the master: what came meanwhile
    /// is still to be read.
    pub(crate) fn shift(&mut self, span: Span, now: Time) {
        for (_, load) in &mut self.entries {
            load.noted = load.noted.map(|noted| (noted + span).min(now));
            load.staging_since = load.staging_since.map(|since| (since + span).min(now));
            if !load.phase.executing() {
                load.assigned = (load.assigned + span).min(now);
            }
        }
    }

    pub(crate) fn contains(&self, attempt: &AttemptId) -> bool {
        self.find(attempt).is_ok()
    }

    /// Adds an attempt that its host has room for.
    pub(crate) fn begin(&mut self, claim: &RoomClaim, attempt: AttemptId, mut load: HostAttempt) {
        load.takes = claim.takes();
        self.insert(attempt, load);
    }

    /// Adds an attempt that its host holds, whatever it has room for.
    pub(crate) fn find_there(&mut self, attempt: AttemptId, load: HostAttempt) {
        self.insert(attempt, load);
    }

    fn insert(&mut self, attempt: AttemptId, load: HostAttempt) {
        self.remove(&attempt);
        self.count(&load, true);
        if let Err(at) = self.find(&attempt) {
            self.entries.insert(at, (attempt, load));
        }
    }

    pub(crate) fn remove(&mut self, attempt: &AttemptId) -> Option<HostAttempt> {
        let at = self.find(attempt).ok()?;
        let load = self.entries.remove(at).1;
        self.count(&load, false);
        Some(load)
    }

    /// Freezes an attempt or thaws it: a frozen one takes no slot and no processor.
    pub(crate) fn hold(&mut self, attempt: &AttemptId, frozen: bool) {
        if let Some(mut load) = self.remove(attempt) {
            load.frozen = frozen;
            self.insert(*attempt, load);
        }
    }

    fn count(&mut self, load: &HostAttempt, more: bool) {
        if load.frozen {
            self.frozen = if more {
                self.frozen + 1
            } else {
                self.frozen - 1
            };
        }
        if load.takes.is_plain() {
            return;
        }

        let room = load.room();
        (self.odd, self.odd_room) = if more {
            (self.odd + 1, self.odd_room.plus(room))
        } else {
            (self.odd - 1, self.odd_room.minus(room))
        };
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AttemptId, &HostAttempt)> {
        self.entries.iter().map(|(attempt, load)| (attempt, load))
    }

    /// Returns those that take a slot or wait for one: all but the frozen ones.
    pub(crate) fn in_slots(&self) -> impl Iterator<Item = (&AttemptId, &HostAttempt)> {
        self.iter().filter(|(_, load)| !load.frozen)
    }

    pub(crate) fn attempts(&self) -> impl Iterator<Item = AttemptId> {
        self.entries.iter().map(|(attempt, _)| *attempt)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use common::needs::Demand;
    use common::{Incarnation, JobId, TaskId};
    use proptest::prelude::*;

    use super::*;

    fn load(ran: u64) -> HostAttempt {
        let takes = Demand {
            cores: 1 + ran as u32 % 3,
            memory_mib: 100 * (ran as u32 % 2),
            gpus: u32::from(ran.is_multiple_of(5)),
        };
        HostAttempt {
            ran: Span(ran),
            takes,
            ..HostAttempt::assigned(Time(0), false, 0)
        }
    }

    proptest! {
        #[test]
        fn host_attempts_behave_like_an_ordered_map(
            steps in proptest::collection::vec((0..4_u8, 1..4_u32, 1..8_u32, any::<u8>()), 0..60)
        ) {
            let mut books = HostAttempts::default();
            let mut model = BTreeMap::new();
            for (step, job, index, ran) in steps {
                let attempt = AttemptId { task: TaskId::new(JobId(job), index), number: 1, incarnation: Incarnation(1) };
                match step {
                    0 | 1 => {
                        books.find_there(attempt, load(u64::from(ran)));
                        model.insert(attempt, Span(u64::from(ran)));
                    }
                    2 => books.hold(&attempt, ran > 99),
                    _ => prop_assert_eq!(books.remove(&attempt).map(|load| load.ran), model.remove(&attempt)),
                }

                let sum = |rooms: &mut dyn Iterator<Item = Room>| rooms.fold(Room::default(), Room::plus);
                prop_assert_eq!(books.taken(), sum(&mut books.iter().map(|(_, load)| load.room())));
                let frozen = books.iter().filter(|(_, load)| load.frozen).count();
                prop_assert_eq!(books.frozen() as usize, frozen);

                prop_assert_eq!(books.len(), model.len());
                prop_assert_eq!(books.contains(&attempt), model.contains_key(&attempt));
                prop_assert_eq!(books.get(&attempt).map(|load| load.ran), model.get(&attempt).copied());
                prop_assert_eq!(books.at_mut(&attempt).map(|load| load.ran), model.get(&attempt).copied());
                prop_assert!(books.iter().map(|(attempt, load)| (*attempt, load.ran)).eq(model.clone()));
                prop_assert!(books.attempts().eq(model.keys().copied()));
            }
        }
    }
}
