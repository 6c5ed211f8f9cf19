//! The calendar (Wozniak, Jiang and Striegel, section 4): slots with the times at which they are
//! free, onto which work is stacked, one task after the other. The work of each task comes from
//! `admission`.
//!
//! The paper's hosts are all alike, and each task goes to the slot that is free first. Here hosts
//! differ, and each task goes to the slot that completes it first; among equals to the first slot.
//! On equal hosts that is the same.
//!
//! A task that takes more than a slot has as many slots of one host as stand for its share of it
//! (`Room::slots_of`), all from the same time on. So no host is promised more than it lends, but
//! tasks that would just fit beside each other may be planned one after the other.

use crate::prediction::predict::TaskDuration;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use common::host::Confinement;
use common::needs::{Label, Needs, Offers};
use common::platform::HostPlatform;
use common::{HostId, Span, TaskId, Time};

use crate::state::owner_hours::HostLoan;
use crate::state::room::Room;

/// Slots, and the times at which they are free.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calendar<'a> {
    /// Groups of slots of one rate, on hosts with the same offers and loan.
    lanes: Vec<SlotLane<'a>>,
    by_kind: BTreeMap<LaneKind<'a>, usize>,
    slots: Vec<Slot>,
    /// The lanes for the task that was stacked last.
    suiting: Option<Box<SuitingLanes>>,
    /// The hosts for the tasks of more than a slot that were stacked last.
    wide: Option<Box<WideHosts>>,
    /// The time of the task that was stacked last, and where the next one like it would be done.
    last: Option<TaskDuration>,
    equal: Option<Box<EqualTasks>>,
    /// The running tasks of users with a `RunningCap`, each with its end.
    running: BTreeMap<u32, BTreeMap<TaskId, Time>>,
    /// When further tasks of such users may start, and on which slots their earlier ones end by then
    /// (`NO_SLOT` where that is not known): as many entries as may run at a time.
    turns: BTreeMap<u32, BinaryHeap<Reverse<(Time, u32)>>>,
    /// The hosts that get none of the next tasks, each `apart` in lanes of its own.
    avoided: BTreeSet<HostId>,
}

/// The most tasks of a user that may run at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningCap {
    /// The user's number.
    pub(crate) user: u32,
    pub(crate) most: u32,
}

/// The number of no slot.
const NO_SLOT: u32 = u32::MAX;

/// The lanes whose hosts suit some needs: so they are not asked anew for each task of a bag.
#[derive(Debug, Clone)]
struct SuitingLanes {
    needs: Needs,
    /// Whether each lane is one of them.
    lanes: Vec<bool>,
}

/// The slots on which a task like the one before would be done, the first one of each lane, so that
/// not all lanes are looked at for each of many equal tasks.
#[derive(Debug, Clone)]
struct EqualTasks {
    time: TaskDuration,
    needs: Needs,
    /// The completion, the slot, its lane, and when it is free.
    next: BinaryHeap<Reverse<(Time, u32, usize, Time)>>,
}

/// Equal slots of one host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots<'a> {
    pub(crate) host: HostId,
    pub(crate) offers: &'a Offers,
    /// All that the host lends.
    pub(crate) room: Room,
    /// The work per second, in seconds on a host of speed 1.
    pub(crate) rate: f64,
    /// The loan of the host, where known.
    pub(crate) lent: Option<HostLoan>,
    /// Whether they are a lane of their own, so that tasks can avoid the host.
    pub(crate) apart: bool,
}

/// The properties that are the same for all slots of a lane, as far as they decide who may use
/// them: of a loan its end, and the longest one. The countable ones are looked at host by host.
type LaneKind<'a> = (
    (u64, Option<(Time, Span)>, Option<HostId>),
    (Confinement, bool, u32),
    (Option<&'a HostPlatform>, &'a BTreeSet<Label>),
);

#[derive(Debug, Clone)]
struct SlotLane<'a> {
    /// The work per second, in seconds on a host of speed 1.
    rate: f64,
    offers: &'a Offers,
    lent: Option<HostLoan>,
    /// The host whose slots alone are here.
    only: Option<HostId>,
    /// The times at which slots are free. Entries that are not true of their slot any more count
    /// for nothing.
    free: BinaryHeap<Reverse<(Time, u32)>>,
}

#[derive(Debug, Clone)]
struct Slot {
    host: HostId,
    room: Room,
    lane: usize,
    free: Time,
    /// Whether it is free now, and nothing has been put there.
    idle: bool,
}

/// The hosts on which tasks with some needs can run, for tasks that have more than one slot.
#[derive(Debug, Clone)]
struct WideHosts {
    needs: Needs,
    /// The slots of each host that are in the same lane, and the number of them that a task has.
    groups: Vec<(Vec<u32>, usize)>,
    /// The time of the task that was stacked last, and when it could start at the earliest.
    of: Option<(TaskDuration, Time)>,
    /// When such a task would be done on each group at the earliest, with the group's place in `groups`.
    next: BinaryHeap<Reverse<(Time, usize)>>,
}

/// The place and time at which a task is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Booking {
    pub(crate) host: HostId,
    pub(crate) start: Time,
    pub(crate) finish: Time,
    /// Whether its slot is free for it now.
    pub(crate) now: bool,
    /// The number of its first slot.
    slot: u32,
}

impl<'a> Calendar<'a> {
    /// Adds a slot; `idle` is whether nothing runs there.
    pub(crate) fn add(&mut self, slots: &Slots<'a>, free: Time, idle: bool) {
        let offers = slots.offers;
        let only = slots.apart.then_some(slots.host);
        let loan = slots.lent.map(|lent| (lent.until, lent.longest));
        let kind = (
            (slots.rate.to_bits(), loan, only),
            (offers.confinement, offers.network, offers.task_disk_mib),
            (offers.platform.as_ref(), &offers.labels),
        );

        let lanes = &mut self.lanes;
        let lane = *self.by_kind.entry(kind).or_insert_with(|| {
            lanes.push(SlotLane {
                rate: slots.rate,
                offers,
                lent: slots.lent,
                only,
                free: BinaryHeap::new(),
            });
            lanes.len() - 1
        });
        self.lanes[lane]
            .free
            .push(Reverse((free, self.slots.len() as u32)));
        self.slots.push(Slot {
            host: slots.host,
            room: slots.room,
            lane,
            free,
            idle,
        });
        self.suiting = None;
        self.wide = None;
        self.equal = None;
    }

    /// Keeps the next tasks from these hosts, in place of others.
    pub(crate) fn avoid(&mut self, hosts: BTreeSet<HostId>) {
        if self.avoided != hosts {
            self.avoided = hosts;
            self.last = None;
            self.suiting = None;
            self.wide = None;
            self.equal = None;
        }
    }

    /// Notes that a task of a user with a `RunningCap` runs until then.
    pub(crate) fn runs(&mut self, user: u32, task: TaskId, end: Time) {
        let ends = self.running.entry(user).or_default();
        let known = ends.entry(task).or_insert(end);
        *known = end.min(*known);
    }

    /// Puts a task on the calendar like `stack`, but not before its user may run one more.
    pub(crate) fn stack_for(
        &mut self,
        cap: Option<RunningCap>,
        time: TaskDuration,
        needs: &Needs,
    ) -> Option<Booking> {
        let Some(cap) = cap else {
            return self.stack(time, needs);
        };
        let running = self.running.get(&cap.user);
        // So many can never run at a time.
        let slots = self.slots.len() + running.map_or(0, BTreeMap::len);
        if cap.most as usize >= slots {
            return self.stack(time, needs);
        }

        let turns = self.turns.entry(cap.user).or_insert_with(|| {
            let ends = running.into_iter().flat_map(BTreeMap::values).copied();
            let mut ends: Vec<Time> = ends.collect();
            let most = cap.most as usize;
            ends.resize(ends.len().max(most), Time(0));
            ends.sort_unstable();
            let last = ends.split_off(ends.len() - most);
            last.into_iter()
                .map(|end| Reverse((end, NO_SLOT)))
                .collect()
        });

        let Reverse((from, slot)) = turns.pop()?;
        let entry = if from == Time(0) {
            self.stack(time, needs)
        } else {
            self.stack_from(from, slot, time, needs)
        };
        let next = entry.map_or((from, slot), |entry| (entry.finish, entry.slot));
        if let Some(turns) = self.turns.get_mut(&cap.user) {
            turns.push(Reverse(next));
        }
        entry
    }

    /// Puts a task on this slot from `from` on, where that will do, else on the one on which it is done
    /// first, and among equal ones where the least time is lost before it. It starts at `from` at the earliest.
    fn stack_from(
        &mut self,
        from: Time,
        slot: u32,
        time: TaskDuration,
        needs: &Needs,
    ) -> Option<Booking> {
        if !needs.takes.is_plain() {
            return self.stack_wide(from, time, needs);
        }

        let suiting = self.take_suiting(needs);
        let on = |number: u32| {
            let slot = self.slots.get(number as usize)?;
            let start = slot.free.max(from);
            let finish = self.lanes[slot.lane].finish(start, time)?;
            suiting.lanes[slot.lane].then_some((finish, start.since(slot.free), number, start))
        };
        // Others may have tasks there by now.
        let best = on(slot).filter(|(.., start)| *start == from);
        let best = best.or_else(|| (0..self.slots.len() as u32).filter_map(on).min());
        self.suiting = Some(suiting);
        let (finish, _, slot, start) = best?;
        Some(self.book(&[slot], start, finish))
    }

    /// Returns the lanes that suit these needs, to be put back for the next task.
    fn take_suiting(&mut self, needs: &Needs) -> Box<SuitingLanes> {
        let known = self.suiting.take().filter(|known| known.needs == *needs);
        known.unwrap_or_else(|| {
            let lanes = self.lanes.iter();
            Box::new(SuitingLanes {
                needs: needs.clone(),
                lanes: lanes.map(|lane| lane.suits(needs, &self.avoided)).collect(),
            })
        })
    }

    /// Puts a task of this time where it is done first; returns `None` if no host will do.
    pub(crate) fn stack(&mut self, time: TaskDuration, needs: &Needs) -> Option<Booking> {
        if !needs.takes.is_plain() {
            return self.stack_wide(Time(0), time, needs);
        }

        if self.last.replace(time) == Some(time) {
            return self.stack_equal(time, needs);
        }

        let suiting = self.take_suiting(needs);
        let lanes = suiting.lanes.iter().enumerate();
        let lanes = lanes.filter(|(_, suits)| **suits);
        let best = lanes.filter_map(|(lane, _)| self.next_on(lane, time)).min();
        self.suiting = Some(suiting);
        let (finish, slot, _, start) = best?;
        Some(self.book(&[slot], start, finish))
    }

    /// Puts a task that takes as long as the one before where it is done first.
    fn stack_equal(&mut self, time: TaskDuration, needs: &Needs) -> Option<Booking> {
        let known = self.equal.take();
        let known = known.filter(|known| known.time == time && known.needs == *needs);
        let mut equal = known.unwrap_or_else(|| {
            let all = 0..self.lanes.len();
            let suiting = all.filter(|lane| self.lanes[*lane].suits(needs, &self.avoided));
            let lanes: Vec<usize> = suiting.collect();
            let next = lanes
                .into_iter()
                .filter_map(|lane| self.next_on(lane, time));
            Box::new(EqualTasks {
                time,
                needs: needs.clone(),
                next: next.map(Reverse).collect(),
            })
        });

        let Some(Reverse((finish, slot, lane, start))) = equal.next.pop() else {
            self.equal = Some(equal);
            return None;
        };
        let booked = self.book(&[slot], start, finish);
        equal.next.extend(self.next_on(lane, time).map(Reverse));
        self.equal = Some(equal);
        Some(booked)
    }

    /// Returns the entry of this lane in `EqualTasks::next`.
    fn next_on(&mut self, lane: usize, time: TaskDuration) -> Option<(Time, u32, usize, Time)> {
        let of = &mut self.lanes[lane];
        let (free, slot) = of.first(&self.slots)?;
        Some((of.finish(free, time)?, slot, lane, free))
    }

    /// Returns the number of slots that are free now, have nothing on them, suit any of these needs,
    /// and are not of hosts to be avoided.
    pub(crate) fn idle_for(&self, any: &BTreeSet<&Needs>, avoided: &BTreeSet<HostId>) -> usize {
        let suits: Vec<bool> = self
            .lanes
            .iter()
            .map(|lane| any.iter().any(|needs| lane.suits(needs, avoided)))
            .collect();
        let idle = self.slots.iter().filter(|slot| slot.idle);
        idle.filter(|slot| suits[slot.lane]).count()
    }

    /// Puts a task that has several slots of one host where it is done first, and starts at `from` at the earliest.
    fn stack_wide(&mut self, from: Time, time: TaskDuration, needs: &Needs) -> Option<Booking> {
        let known = self.wide.take().filter(|wide| wide.needs == *needs);
        let mut wide = known.unwrap_or_else(|| Box::new(self.wide_hosts(needs)));
        if wide
            .of
            .is_none_or(|(same, since)| same != time || from < since)
        {
            let groups = wide.groups.iter().enumerate();
            let ends = groups.filter_map(|(at, group)| Some((self.on(group, from, time)?.0, at)));
            wide.next = ends.map(Reverse).collect();
        }
        wide.of = Some((time, from));

        // What was booked since made hosts later, and none sooner: an end that still holds is the first one.
        let mut booked = None;
        while let Some(mut first) = wide.next.peek_mut() {
            let Reverse((known, at)) = *first;
            match self.on(&wide.groups[at], from, time) {
                Some((finish, start, slots)) if finish == known => {
                    booked = Some(self.book(&slots, start, finish));
                    break;
                }
                Some((finish, ..)) => *first = Reverse((finish, at)),
                None => drop(PeekMut::pop(first)),
            }
        }

        self.wide = Some(wide);
        booked
    }

    /// Returns the end and the start of a task on this host, and its slots there; `None` where the host is not lent for
    /// long enough.
    fn on(
        &self,
        (slots, most): &(Vec<u32>, usize),
        from: Time,
        time: TaskDuration,
    ) -> Option<(Time, Time, Vec<u32>)> {
        let slot = |number: u32| &self.slots[number as usize];
        let mut free: Vec<(Time, u32)> = slots.iter().map(|at| (slot(*at).free, *at)).collect();
        free.sort_unstable();
        free.truncate(*most);

        let (last, number) = free.last().copied()?;
        let start = last.max(from);
        let finish = self.lanes[slot(number).lane].finish(start, time)?;
        Some((finish, start, free.into_iter().map(|(_, at)| at).collect()))
    }

    /// Returns the hosts on which a task with these needs has slots enough.
    fn wide_hosts(&self, needs: &Needs) -> WideHosts {
        let mut by_host: BTreeMap<(HostId, usize), Vec<u32>> = BTreeMap::new();
        for (number, slot) in (0..).zip(&self.slots) {
            let group = by_host.entry((slot.host, slot.lane)).or_default();
            group.push(number);
        }

        let group = |slots: Vec<u32>| {
            let first = self.slots.get(*slots.first()? as usize)?;
            let most = first.room.slots_of(needs.takes)? as usize;
            let suits = self.lanes[first.lane].suits(needs, &self.avoided) && most <= slots.len();
            suits.then_some((slots, most))
        };
        WideHosts {
            needs: needs.clone(),
            groups: by_host.into_values().filter_map(group).collect(),
            of: None,
            next: BinaryHeap::new(),
        }
    }

    fn book(&mut self, slots: &[u32], start: Time, finish: Time) -> Booking {
        self.equal = None;
        let mut now = true;
        let mut host = HostId(0);
        for number in slots {
            let slot = &mut self.slots[*number as usize];
            let idle = std::mem::take(&mut slot.idle);
            now &= idle && start <= slot.free;
            host = slot.host;
            slot.free = finish;
            self.lanes[slot.lane].free.push(Reverse((finish, *number)));
        }

        Booking {
            host,
            start,
            finish,
            now,
            slot: slots.first().copied().unwrap_or(NO_SLOT),
        }
    }
}

impl SlotLane<'_> {
    /// Whether its hosts have what is needed, and are not avoided.
    fn suits(&self, needs: &Needs, avoided: &BTreeSet<HostId>) -> bool {
        needs.suits(self.offers) && self.only.is_none_or(|host| !avoided.contains(&host))
    }

    /// Returns the slot that is free first, and when.
    fn first(&mut self, slots: &[Slot]) -> Option<(Time, u32)> {
        loop {
            let Reverse((free, slot)) = self.free.peek().copied()?;
            if slots[slot as usize].free == free {
                return Some((free, slot));
            }
            self.free.pop();
        }
    }

    /// Returns when a task that starts at this time is done; `None` where the host is not lent for
    /// long enough.
    fn finish(&self, start: Time, time: TaskDuration) -> Option<Time> {
        let takes = time.at(self.rate);
        let finish = start + takes;

        // A task too long for every loan gains nothing by waiting for the next one.
        let in_time = self
            .lent
            .is_none_or(|lent| finish <= lent.until || takes > lent.longest);
        in_time.then_some(finish)
    }
}

#[cfg(test)]
mod tests {
    use common::needs::Demand;
    use proptest::prelude::*;

    use super::*;

    fn computing(work_s: u64) -> TaskDuration {
        TaskDuration {
            work: Span::from_secs(work_s),
            computing: 1.0,
            start_cost: Span::ZERO,
        }
    }

    fn any() -> Needs {
        Needs::default()
    }

    fn offering(offers: Offers) -> &'static Offers {
        Box::leak(Box::new(offers))
    }

    fn alike(host: u32, rate: f64) -> Slots<'static> {
        Slots {
            host: HostId(host),
            offers: offering(Offers::default()),
            room: Room::of(Demand::PLAIN),
            rate,
            lent: None,
            apart: false,
        }
    }

    fn calendar(free: &[(u64, f64)]) -> Calendar<'static> {
        let mut calendar = Calendar::default();
        for (host, (free_s, rate)) in (1..).zip(free) {
            let free = Time(Span::from_secs(*free_s).0);
            calendar.add(&alike(host, *rate), free, *free_s == 0);
        }
        calendar
    }

    fn stack(calendar: &mut Calendar<'_>, work_s: u64) -> (u32, f64, f64) {
        let entry = calendar
            .stack(computing(work_s), &any())
            .expect("there are hosts");
        (entry.host.0, entry.start.secs(), entry.finish.secs())
    }

    #[test]
    fn equal_hosts_take_tasks_as_they_are_free_the_first_one_of_equals() {
        let mut three = calendar(&[(20, 1.0), (0, 1.0), (0, 1.0)]);
        let found: Vec<_> = [10, 20, 5, 1]
            .into_iter()
            .map(|work_s| stack(&mut three, work_s))
            .collect();
        assert_eq!(
            found,
            [
                (2, 0.0, 10.0),
                (3, 0.0, 20.0),
                (2, 10.0, 15.0),
                (2, 15.0, 16.0)
            ]
        );
    }

    #[test]
    fn hosts_with_the_same_hours_are_one_lane_whenever_they_said_so() {
        let mut calendar = Calendar::default();
        for host in 1..=100 {
            let later = Span::from_millis(u64::from(host));
            let loan = HostLoan {
                until: Time(0) + Span::from_secs(7_200) + later,
                again: Time(0) + Span::from_secs(50_000) + later,
                longest: Span::from_secs(36_000),
            };
            let slots = Slots {
                lent: Some(loan.in_minutes()),
                ..alike(host, 1.0)
            };
            calendar.add(&slots, Time(0), true);
        }

        assert_eq!(calendar.lanes.len(), 1);
        assert_eq!(calendar.stack(computing(7_201), &any()), None);
        assert_eq!(stack(&mut calendar, 7_200), (1, 0.0, 7_200.0));
    }

    #[test]
    fn a_fast_host_is_waited_for_where_it_is_done_sooner() {
        let mut two = calendar(&[(0, 0.1), (10, 2.0)]);
        assert_eq!(stack(&mut two, 10), (2, 10.0, 15.0));
        assert_eq!(stack(&mut two, 1), (1, 0.0, 10.0));
        assert_eq!(two.idle_for(&BTreeSet::from([&any()]), &BTreeSet::new()), 0);
    }

    #[test]
    fn a_calendar_finds_no_slot_for_needs_that_no_host_offers() {
        let mut calendar = Calendar::default();
        let offers = Offers {
            network: false,
            ..Offers::default()
        };
        calendar.add(
            &Slots {
                offers: offering(offers),
                ..alike(1, 1.0)
            },
            Time(0),
            true,
        );

        assert_eq!(
            calendar.stack(
                computing(1),
                &Needs {
                    network: true,
                    ..any()
                }
            ),
            None
        );

        assert!(calendar.stack(computing(1), &any()).is_some());
    }

    #[test]
    fn a_slot_gets_nothing_that_would_not_be_done_before_its_loan_ends_unless_that_is_too_long_for_each()
     {
        let at = |secs: u64| Time(Span::from_secs(secs).0);
        let lent = Some(HostLoan {
            until: at(30),
            again: at(80),
            longest: Span::from_secs(40),
        });
        let mut two = calendar(&[(50, 1.0)]);
        two.add(
            &Slots {
                lent,
                ..alike(2, 1.0)
            },
            at(0),
            true,
        );

        assert_eq!(stack(&mut two, 20), (2, 0.0, 20.0));
        assert_eq!(
            stack(&mut two, 11),
            (1, 50.0, 61.0),
            "ten seconds are left on the other one"
        );
        assert_eq!(stack(&mut two, 10), (2, 20.0, 30.0));

        let mut one = Calendar::default();
        one.add(
            &Slots {
                lent,
                ..alike(1, 1.0)
            },
            at(0),
            true,
        );

        assert_eq!(one.stack(computing(31), &any()), None);
        assert_eq!(stack(&mut one, 41), (1, 0.0, 41.0));
    }

    #[test]
    fn a_task_of_several_slots_has_all_of_them_from_the_same_time_on() {
        let at = |secs: u64| Time(Span::from_secs(secs).0);
        let room = Room {
            slots: 4,
            cores: 4,
            memory_mib: 1_000,
            gpus: 0,
        };
        let host = |number| Slots {
            room,
            ..alike(number, 1.0)
        };
        let mut two = Calendar::default();
        for free in [0, 0, 10, 20] {
            two.add(&host(1), at(free), free == 0);
        }
        for free in [0, 30, 30, 30] {
            two.add(&host(2), at(free), free == 0);
        }

        let needs = |cores, memory_mib| Needs {
            takes: Demand {
                cores,
                memory_mib,
                gpus: 0,
            },
            ..any()
        };
        let mut put = |needs: &Needs| {
            let entry = two.stack(computing(100), needs)?;
            Some((entry.host.0, entry.start.secs(), entry.now))
        };

        assert_eq!(put(&needs(2, 0)), Some((1, 0.0, true)), "two of four");
        assert_eq!(
            put(&needs(3, 0)),
            Some((2, 30.0, false)),
            "all four, since no other would fit"
        );
        assert_eq!(
            put(&any()),
            Some((1, 10.0, false)),
            "one slot of the other host"
        );
        assert_eq!(
            put(&needs(1, 500)),
            Some((1, 100.0, false)),
            "half of the memory"
        );
        assert_eq!(put(&needs(5, 0)), None);
        assert_eq!(put(&needs(1, 1_001)), None);
    }

    #[test]
    fn a_user_who_may_run_any_number_of_tasks_is_like_one_without_a_bound() {
        let mut two = calendar(&[(0, 2.0), (0, 1.0)]);
        let cap = RunningCap {
            user: 1,
            most: u32::MAX,
        };
        let ends: Vec<f64> = (0..6)
            .filter_map(|_| two.stack_for(Some(cap), computing(10), &any()))
            .map(|entry| entry.finish.secs())
            .collect();
        assert_eq!(ends, [5.0, 10.0, 10.0, 15.0, 20.0, 20.0]);
        assert!(two.turns.is_empty(), "each turn takes memory");
    }

    proptest! {
        /// Compares `stack_wide` with a search of every host for each task, plain tasks between them.
        #[test]
        fn every_task_of_several_slots_is_where_it_is_done_first(
            hosts in proptest::collection::vec((proptest::collection::vec(0..30_u64, 1..5), 1..4_u32, 0..80_u64), 1..6),
            tasks in proptest::collection::vec((1..3_u64, 0..2_u32, 0..3_u64, 1..5_usize), 0..12),
        ) {
            let mut calendar = Calendar::default();
            for (number, (free, rate, lent_s)) in (0..).zip(&hosts) {
                let cores = free.len() as u64;
                let room = Room { slots: cores, cores, memory_mib: 1_000, gpus: 0 };
                let until = Time(lent_s * 1_000_000);
                let loan = HostLoan { until, again: until, longest: Span::from_secs(200) };
                let lent = (*lent_s >= 40).then_some(loan);
                for free_s in free {
                    let slots = Slots { room, lent, ..alike(number, f64::from(*rate)) };
                    calendar.add(&slots, Time(free_s * 1_000_000), *free_s == 0);
                }
            }

            let all = tasks.into_iter().flat_map(|(work, cores, from_s, equal)| vec![(work, cores, from_s); equal]);
            for (work, cores, from_s) in all {
                let time = computing(10 * work);
                let from = Time(20 * from_s * 1_000_000);
                if cores == 0 {
                    calendar.stack(time, &any());
                    continue;
                }
                let takes = Demand { cores: 2, memory_mib: 0, gpus: 0 };
                let needs = Needs { takes, ..any() };
                let wide = calendar.wide_hosts(&needs);
                let searched = wide.groups.iter().filter_map(|group| calendar.on(group, from, time));
                let first = searched.min_by_key(|(finish, ..)| *finish).map(|(finish, start, slots)| (slots[0], start, finish));
                let found = calendar.stack_from(from, NO_SLOT, time, &needs);
                prop_assert_eq!(found.map(|at| (at.slot, at.start, at.finish)), first);
            }
        }
    }

    proptest! {
        /// Compares `stack` with a search of every slot for each task.
        #[test]
        fn every_task_is_where_it_is_done_first(
            slots in proptest::collection::vec((0..30_u64, 1..4_u32), 1..8),
            works in proptest::collection::vec((0..50_u64, 1..5_usize), 0..15),
        ) {
            let mut free: Vec<(Time, f64)> =
                slots.iter().map(|(free_s, rate)| (Time(free_s * 1_000_000), f64::from(*rate))).collect();

            let mut calendar = Calendar::default();
            for (host, (free, rate)) in (0..).zip(&free) {
                calendar.add(&alike(host, *rate), *free, *free == Time(0));
            }

            for work_s in works.into_iter().flat_map(|(work_s, equal)| vec![work_s; equal]) {
                let entry = calendar.stack(computing(work_s), &any()).expect("there are hosts");
                let done = |(free, rate): &(Time, f64)| *free + computing(work_s).at(*rate);
                let first = (0..free.len()).min_by_key(|slot| (done(&free[*slot]), *slot)).expect("there are slots");
                prop_assert_eq!(entry.host, HostId(first as u32));
                prop_assert_eq!((entry.start, entry.finish), (free[first].0, done(&free[first])));
                free[first].0 = entry.finish;
            }
        }
    }
}
