//! The queue of planned events of a run ([`Plans`]), the earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use common::Time;

/// The numbers of attempts and hosts stay below this.
const NUMBERS: u32 = 1 << 31;

/// The kinds of planned event, in their order at one instant. Plans are never withdrawn: one that
/// no longer fits is skipped when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// This attempt, on this host, has done its work.
    Done(u32, u32),
    /// This attempt enters a phase that its host reports at once.
    Moved(u32),
    /// This host's heartbeat is missed for the first time.
    Missed(u32),
    /// This host sends a heartbeat that has news.
    Beat(u32),
}

/// All planned events. Each is packed into one integer, so that a comparison takes no branch: from
/// the highest bit on, the time, the kind, and the number of the attempt or host.
#[derive(Debug, Default)]
pub(super) struct Plans {
    heap: BinaryHeap<Reverse<u128>>,
}

impl Plans {
    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }

    pub(super) fn push(&mut self, at: Time, what: What) {
        let (kind, first, second) = match what {
            What::Done(attempt, host) => (0, attempt, host),
            What::Moved(attempt) => (1, attempt, 0),
            What::Missed(host) => (2, host, 0),
            What::Beat(host) => (3, host, 0),
        };
        debug_assert!(first < NUMBERS && second < NUMBERS);
        let who = u64::from(first) << 31 | u64::from(second);
        self.heap.push(Reverse(
            u128::from(at.0) << 64 | u128::from(kind << 62 | who),
        ));
    }

    /// The time of the next event.
    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|plan| Time((plan.0 >> 64) as u64))
    }

    pub(super) fn pop(&mut self) -> Option<(Time, What)> {
        let Reverse(plan) = self.heap.pop()?;
        let at = (plan >> 64) as u64;
        let what = plan as u64;
        let first = (what >> 31) as u32 & (NUMBERS - 1);
        let second = what as u32 & (NUMBERS - 1);
        let what = match what >> 62 {
            0 => What::Done(first, second),
            1 => What::Moved(first),
            2 => What::Missed(first),
            _ => What::Beat(first),
        };
        Some((Time(at), what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_come_by_time_then_ends_before_news_before_missed_heartbeats_before_heartbeats_each_by_number()
     {
        let late = Time(u64::MAX - 1);
        let sorted = [
            (Time(3), What::Beat(0)),
            (Time(4), What::Done(1, NUMBERS - 1)),
            (Time(4), What::Done(2, 0)),
            (Time(4), What::Moved(0)),
            (Time(4), What::Missed(0)),
            (Time(4), What::Missed(NUMBERS - 1)),
            (Time(4), What::Beat(7)),
            (late, What::Done(NUMBERS - 1, 5)),
        ];

        let mut plans = Plans::default();
        for (at, what) in sorted.iter().rev() {
            plans.push(*at, *what);
        }

        assert_eq!(plans.next(), Some(Time(3)));
        let out: Vec<_> = std::iter::from_fn(|| plans.pop()).collect();
        assert_eq!(out, sorted);
    }
}
