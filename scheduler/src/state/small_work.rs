//! The rate of small work without a promise, which fills the gaps between reservations.

use common::{Span, Time};

use crate::prediction::lessons::Lessons;

/// The longest run time, in seconds, of work that counts as small: without a promise, it fills the
/// gaps that attempts leave.
const SMALL_S: f64 = 600.0;
/// The time over which its rate is measured, in seconds.
const MEMORY_S: f64 = 3_600.0;
/// Rates below this count as 0, and rates above `MOST_ZETA` as `MOST_ZETA`.
const LEAST_ZETA: f64 = 0.02;
const MOST_ZETA: f64 = 0.9;

/// The amount of small work: the sum of its seconds, decaying with the time constant `MEMORY_S`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SmallWork {
    sum_s: f64,
    at: Time,
}

impl SmallWork {
    fn sum_at(&self, now: Time) -> f64 {
        self.sum_s * (-now.since(self.at).secs() / MEMORY_S).exp()
    }

    /// Notes that an attempt without a promise has run for `ran`.
    pub(crate) fn note(&mut self, ran: Span, now: Time) {
        if ran.secs() <= SMALL_S {
            *self = Self {
                sum_s: self.sum_at(now) + ran.secs(),
                at: now,
            };
        }
    }

    /// Returns its rate per slot, rounded to hundredths.
    pub(crate) fn rate(&self, slots: u64, now: Time) -> f64 {
        let rate = self.sum_at(now) / MEMORY_S / slots.max(1) as f64;
        if rate < LEAST_ZETA {
            0.0
        } else {
            (rate.min(MOST_ZETA) * 100.0).round() / 100.0
        }
    }
}

/// The lessons computed last: a bag is considered several times before it is accepted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remembered {
    pub(crate) runs: u64,
    pub(crate) zeta: u64,
    pub(crate) lessons: Option<(crate::prediction::estimates::Estimator, Lessons)>,
}
