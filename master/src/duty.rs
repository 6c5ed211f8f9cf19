//! Decides when a master that stands by takes over. Pure: what it sees of the lease comes in, with the
//! time; [`crate::standby`] looks and acts.
//!
//! The master that has the store commits a turn at least every second. Where the turn stands still
//! for the whole lease while the database answers, it is taken for dead. It may not be: then the
//! fence refuses whatever it still sends, so a wrong decision here costs time, and nothing else.

use common::{Span, Time};

use crate::store::LeaseSeen;

/// The longest time between two looks that counts in full: a watch that was not kept proves little.
const LOOK: Span = Span::from_secs(1);
/// The time for which a master that handed over leaves the store to others, unless one takes it.
const HOLDS_BACK: Span = Span::from_secs(10);

/// The watch of a master that stands by.
#[derive(Debug)]
pub(crate) struct LeaseDuty {
    /// The number of its directory.
    id: String,
    /// The time for which the turn has to stand still.
    lease: Span,
    /// Before this it does not take a store that nobody has.
    from: Time,
    /// The token and turn of the last look, its time, and for how long they have been these.
    last: Option<(i64, i64, Time, Span)>,
}

/// The decision after `LeaseDuty::saw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseDecision {
    /// Take the store.
    Take,
    /// Go on standing by.
    StandBy,
}

impl LeaseDuty {
    /// A `LeaseDuty` that begins. `handed_over`: this master has just given the store to others.
    pub(crate) fn new(id: String, lease: Span, now: Time, handed_over: bool) -> Self {
        let from = if handed_over { now + HOLDS_BACK } else { now };
        Self {
            id,
            lease,
            from,
            last: None,
        }
    }

    /// The database showed this `LeaseSeen`.
    pub(crate) fn saw(&mut self, now: Time, seen: &LeaseSeen) -> LeaseDecision {
        if !seen.member.is_empty() && seen.member != self.id {
            // Somebody has taken what this master gave away.
            self.from = now;
        }
        if seen.is_left_to(&self.id) && now >= self.from {
            return LeaseDecision::Take;
        }

        let still = match self.last {
            Some((token, turn, at, still)) if (token, turn) == (seen.token, seen.turn) => {
                still + now.since(at).min(LOOK)
            }
            _ => Span::ZERO,
        };
        self.last = Some((seen.token, seen.turn, now, still));
        if still >= self.lease && !seen.member.is_empty() {
            LeaseDecision::Take
        } else {
            LeaseDecision::StandBy
        }
    }

    /// The database did not answer: the one that has the store may have the same trouble, and is given
    /// a whole lease from its return.
    pub(crate) fn saw_nothing(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Span = Span::from_secs(5);

    fn seen(token: i64, turn: i64) -> LeaseSeen {
        LeaseSeen::of_tests("other", token, turn)
    }

    fn at(ms: u64) -> Time {
        Time(ms * 1_000)
    }

    fn duty() -> LeaseDuty {
        LeaseDuty::new("own".to_owned(), LEASE, at(0), false)
    }

    #[test]
    fn a_store_is_taken_once_its_turn_has_stood_still_for_the_lease() {
        let mut duty = duty();
        for ms in (0..5_000).step_by(250) {
            assert_eq!(
                duty.saw(at(ms), &seen(7, 40)),
                LeaseDecision::StandBy,
                "{ms}"
            );
        }
        assert_eq!(duty.saw(at(5_000), &seen(7, 40)), LeaseDecision::Take);
    }

    #[test]
    fn a_turn_that_moves_or_another_master_begins_the_watch_anew() {
        let mut duty = duty();
        for ms in (0..60_000).step_by(250) {
            let turn = i64::try_from(ms / 4_900).unwrap();
            assert_eq!(
                duty.saw(at(ms), &seen(7, turn)),
                LeaseDecision::StandBy,
                "{ms}"
            );
        }
        assert_eq!(duty.saw(at(63_000), &seen(8, 12)), LeaseDecision::StandBy);
        assert_eq!(duty.saw(at(64_000), &seen(8, 12)), LeaseDecision::StandBy);
    }

    #[test]
    fn time_in_which_nobody_looked_or_the_database_was_away_does_not_count() {
        let mut duty = duty();
        duty.saw(at(0), &seen(7, 1));
        // This process stood still.
        assert_eq!(duty.saw(at(60_000), &seen(7, 1)), LeaseDecision::StandBy);
        for s in 61..64 {
            assert_eq!(duty.saw(at(s * 1_000), &seen(7, 1)), LeaseDecision::StandBy);
        }
        duty.saw_nothing();
        for s in 70..75 {
            assert_eq!(duty.saw(at(s * 1_000), &seen(7, 1)), LeaseDecision::StandBy);
        }
        assert_eq!(duty.saw(at(75_000), &seen(7, 1)), LeaseDecision::Take);
    }

    #[test]
    fn what_nobody_has_is_taken_at_once_unless_this_master_gave_it_away() {
        let free = LeaseSeen::of_tests("", 7, 1);
        assert_eq!(duty().saw(at(0), &free), LeaseDecision::Take);
        // Its own of before, with a connection that has ended.
        assert_eq!(
            duty().saw(at(0), &LeaseSeen::of_tests("own", 7, 1)),
            LeaseDecision::Take
        );
        assert_eq!(duty().saw(at(0), &seen(7, 1)), LeaseDecision::StandBy);

        let mut gave = LeaseDuty::new("own".to_owned(), LEASE, at(0), true);
        for s in 0..10 {
            assert_eq!(
                gave.saw(at(s * 1_000), &free),
                LeaseDecision::StandBy,
                "{s}"
            );
        }
        assert_eq!(gave.saw(at(10_000), &free), LeaseDecision::Take);

        let mut gave = LeaseDuty::new("own".to_owned(), LEASE, at(0), true);
        assert_eq!(gave.saw(at(100), &free), LeaseDecision::StandBy);
        assert_eq!(gave.saw(at(200), &seen(8, 1)), LeaseDecision::StandBy);
        assert_eq!(gave.saw(at(300), &free), LeaseDecision::Take, "given back");
    }
}
