//! Token buckets by key, with time as an argument: each key may take a burst at once, and a steady
//! rate per second.

use std::collections::BTreeMap;

use common::{Span, Time};

/// The rate at which a bucket fills, and its size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    /// The units that come back in a second.
    pub(crate) per_s: f64,
    /// The units that can be taken at once.
    pub(crate) burst: f64,
}

/// The units taken from a bucket that have not come back, as of a time.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    count: f64,
    at: Time,
}

impl Taken {
    fn now(self, rate: Rate, now: Time) -> f64 {
        (self.count - now.since(self.at).secs() * rate.per_s).max(0.0)
    }
}

/// Buckets, one for each key. Beyond `most` keys, those whose buckets are full again are forgotten;
/// if that is not enough, the newcomers share one bucket. Memory is bounded, whoever asks.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    rate: Rate,
    most: usize,
    taken: BTreeMap<K, Taken>,
    others: Taken,
}

impl<K: Ord> Buckets<K> {
    pub(crate) fn new(rate: Rate, most: usize) -> Self {
        Self {
            rate,
            most,
            taken: BTreeMap::new(),
            others: Taken::default(),
        }
    }

    /// The time until this key may take one more; zero if it may now.
    pub(crate) fn wait(&self, key: &K, now: Time) -> Span {
        let full = self.taken.len() >= self.most;
        let taken = self.taken.get(key).copied().unwrap_or(if full {
            self.others
        } else {
            Taken::default()
        });
        let missing = taken.now(self.rate, now) + 1.0 - self.rate.burst;

        // The tolerance absorbs rounding: a unit that lacks 1e-7 counts as there.
        if missing <= 1e-7 {
            Span::ZERO
        } else {
            Span((missing / self.rate.per_s * 1e6).ceil() as u64)
        }
    }

    /// Takes one unit, whether it is there or not: a unit taken too early makes the next wait
    /// longer.
    pub(crate) fn take(&mut self, key: K, now: Time) {
        let rate = self.rate;
        if self.taken.len() >= self.most && !self.taken.contains_key(&key) {
            self.taken.retain(|_, taken| taken.now(rate, now) > 0.0);
        }

        let full = self.taken.len() >= self.most && !self.taken.contains_key(&key);
        let taken = if full {
            &mut self.others
        } else {
            self.taken.entry(key).or_default()
        };
        *taken = Taken {
            count: taken.now(rate, now) + 1.0,
            at: now,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate {
        per_s: 2.0,
        burst: 3.0,
    };

    fn at(s: f64) -> Time {
        Time((s * 1e6) as u64)
    }

    #[test]
    fn a_burst_is_free_and_the_rest_waits_for_its_turn() {
        let mut buckets = Buckets::new(RATE, 10);
        for _ in 0..3 {
            assert_eq!(buckets.wait(&"a", at(1.0)), Span::ZERO);
            buckets.take("a", at(1.0));
        }

        assert_eq!(buckets.wait(&"a", at(1.0)), Span(500_000));
        assert_eq!(buckets.wait(&"b", at(1.0)), Span::ZERO, "another's bucket");
        assert_eq!(buckets.wait(&"a", at(1.5)), Span::ZERO);
        buckets.take("a", at(1.0));
        buckets.take("a", at(1.0));
        assert_eq!(
            buckets.wait(&"a", at(1.0)),
            Span(1_500_000),
            "what was taken too early counts"
        );

        assert_eq!(buckets.wait(&"a", at(9.0)), Span::ZERO);
    }

    #[test]
    fn keys_beyond_the_bound_share_one_bucket_and_idle_ones_make_room() {
        let mut buckets = Buckets::new(RATE, 2);
        for key in 0..100 {
            buckets.take(key, at(1.0));
        }
        assert_eq!(buckets.taken.len(), 2);
        assert_eq!(buckets.wait(&0, at(1.0)), Span::ZERO);
        assert!(buckets.wait(&200, at(1.0)) > Span::from_secs(40));
        buckets.take(7, at(3.0));
        assert_eq!(buckets.taken.keys().copied().collect::<Vec<_>>(), [7]);
    }

    proptest! {
        #[test]
        fn no_peer_takes_more_than_the_burst_and_the_rate_allow(pauses in prop::collection::vec(0.0..1.0f64, 1..200)) {
            let mut buckets = Buckets::new(RATE, 4);
            let mut now = 10.0;
            let mut taken = 0u32;
            for pause in &pauses {
                now += pause;
                if buckets.wait(&(), at(now)) == Span::ZERO {
                    buckets.take((), at(now));
                    taken += 1;
                }
            }
            let most = RATE.burst + RATE.per_s * (now - 10.0);
            prop_assert!(f64::from(taken) <= most + 1e-3, "{taken} of {most}");
        }
    }
}
