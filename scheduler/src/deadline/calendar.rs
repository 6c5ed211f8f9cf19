//! The calendar (Wozniak, Jiang and Striegel, section 4): slots with the times at which they are
//! free, onto which work is stacked, one task after the other. The work of each task comes from
//! `admission`.
//!
//! The paper's hosts are all alike, and each task goes to the slot that is free first. Here hosts
//! differ, and each task goes to the slot that completes it first; among equals to the first slot.
//! On equal hosts that is the same.

use crate::prediction::predict::duration;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use common::host::Offers;
use common::job::Needs;
use common::{HostId, Span, Time};

use crate::state::owner_hours::HostLoan;

/// Slots, and the times at which they are free.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calendar {
    /// Groups of slots of one rate, on hosts with the same offers and loan.
    lanes: Vec<SlotLane>,
    by_kind: BTreeMap<(u64, u8, bool, Option<HostLoan>), usize>,
    /// Each slot's host, and whether it is free now and nothing has been put there.
    slots: Vec<(HostId, bool)>,
    /// The number of those free slots.
    pub(crate) idle: usize,
}

/// Equal slots of one host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    pub(crate) host: HostId,
    pub(crate) offers: Offers,
    /// The work per second, in seconds on a host of speed 1.
    pub(crate) rate: f64,
    /// The loan of the host, where known.
    pub(crate) lent: Option<HostLoan>,
}

#[derive(Debug, Clone)]
struct SlotLane {
    /// The work per second, in seconds on a host of speed 1.
    rate: f64,
    offers: Offers,
    lent: Option<HostLoan>,
    free: BinaryHeap<Reverse<(Time, u32)>>,
}

/// The place and time at which a task is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Booking {
    pub(crate) host: HostId,
    pub(crate) start: Time,
    pub(crate) finish: Time,
    /// Whether its slot is free for it now.
    pub(crate) now: bool,
}

impl Calendar {
    /// Adds a slot; `idle` is whether nothing runs there.
    pub(crate) fn add(&mut self, slots: &Slots, free: Time, idle: bool) {
        let Slots {
            host,
            offers,
            rate,
            lent,
        } = *slots;

        let kind = (
            rate.to_bits(),
            offers.confinement as u8,
            offers.network,
            lent,
        );

        let lanes = &mut self.lanes;
        let at = *self.by_kind.entry(kind).or_insert_with(|| {
            lanes.push(SlotLane {
                rate,
                offers,
                lent,
                free: BinaryHeap::new(),
            });
            lanes.len() - 1
        });
        self.lanes[at]
            .free
            .push(Reverse((free, self.slots.len() as u32)));
        self.slots.push((host, idle));
        self.idle += usize::from(idle);
    }

    /// Puts a task of this work, in seconds on a host of speed 1, where it is done first; returns
    /// `None` if no host will do.
    pub(crate) fn stack(&mut self, work: Span, start_cost: Span, needs: Needs) -> Option<Booking> {
        let mut best: Option<(Time, u32, usize, Time)> = None;
        for (at, lane) in self
            .lanes
            .iter()
            .enumerate()
            .filter(|(_, lane)| needs.missing(lane.offers).is_none())
        {
            let Some(Reverse((free, slot))) = lane.free.peek().copied() else {
                continue;
            };
            let takes = duration(work, start_cost, lane.rate);
            let finish = free + takes;

            // A task too long for every loan gains nothing by waiting for the next one.
            let in_time = lane
                .lent
                .is_none_or(|lent| finish <= lent.until || takes > lent.longest);
            if in_time && best.is_none_or(|(known, other, ..)| (finish, slot) < (known, other)) {
                best = Some((finish, slot, at, free));
            }
        }

        let (finish, slot, at, start) = best?;
        let free = &mut self.lanes[at].free;
        free.pop();
        free.push(Reverse((finish, slot)));

        let (host, idle) = &mut self.slots[slot as usize];
        let now = std::mem::take(idle);
        self.idle -= usize::from(now);
        Some(Booking {
            host: *host,
            start,
            finish,
            now,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANY: Needs = Needs {
        confinement: None,
        network: false,
    };

    fn alike(host: u32, rate: f64) -> Slots {
        Slots {
            host: HostId(host),
            offers: Offers::default(),
            rate,
            lent: None,
        }
    }

    fn calendar(free: &[(u64, f64)]) -> Calendar {
        let mut calendar = Calendar::default();
        for (host, (free_s, rate)) in (1..).zip(free) {
            let free = Time(Span::from_secs(*free_s).0);
            calendar.add(&alike(host, *rate), free, *free_s == 0);
        }
        calendar
    }

    fn stack(calendar: &mut Calendar, work_s: u64) -> (u32, f64, f64) {
        let entry = calendar
            .stack(Span::from_secs(work_s), Span::ZERO, ANY)
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
    fn a_fast_host_is_waited_for_where_it_is_done_sooner() {
        let mut two = calendar(&[(0, 0.1), (10, 2.0)]);
        assert_eq!(stack(&mut two, 10), (2, 10.0, 15.0));
        assert_eq!(stack(&mut two, 1), (1, 0.0, 10.0));
        assert_eq!(two.idle, 0);
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
                offers,
                ..alike(1, 1.0)
            },
            Time(0),
            true,
        );

        assert_eq!(
            calendar.stack(
                Span(1),
                Span::ZERO,
                Needs {
                    network: true,
                    ..ANY
                }
            ),
            None
        );

        assert!(calendar.stack(Span(1), Span::ZERO, ANY).is_some());
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

        assert_eq!(one.stack(Span::from_secs(31), Span::ZERO, ANY), None);
        assert_eq!(stack(&mut one, 41), (1, 0.0, 41.0));
    }

    proptest! {
        /// Compares `stack` with a search of every slot for each task.
        #[test]
        fn every_task_is_where_it_is_done_first(
            slots in proptest::collection::vec((0..30_u64, 1..4_u32), 1..8),
            works in proptest::collection::vec(0..50_u64, 0..30),
        ) {
            let mut free: Vec<(Time, f64)> =
                slots.iter().map(|(free_s, rate)| (Time(free_s * 1_000_000), f64::from(*rate))).collect();

            let mut calendar = Calendar::default();
            for (host, (free, rate)) in (0..).zip(&free) {
                calendar.add(&alike(host, *rate), *free, *free == Time(0));
            }

            for work_s in works {
                let entry = calendar.stack(Span::from_secs(work_s), Span::ZERO, ANY).expect("there are hosts");
                let done = |(free, rate): &(Time, f64)| *free + duration(Span::from_secs(work_s), Span::ZERO, *rate);
                let first = (0..free.len()).min_by_key(|slot| (done(&free[*slot]), *slot)).expect("there are slots");
                prop_assert_eq!(entry.host, HostId(first as u32));
                prop_assert_eq!((entry.start, entry.finish), (free[first].0, done(&free[first])));
                free[first].0 = entry.finish;
            }
        }
    }
}
