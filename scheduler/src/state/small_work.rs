//! How much small work runs that nobody was promised: it fills the gaps that attempts leave.

use common::{Span, Time};

use crate::prediction::lessons::Lessons;

/// Work that takes no longer than this, and that nobody was promised, fills the gaps that attempts
/// leave.
const SMALL_S: f64 = 600.0;
/// The time over which its rate is measured, in seconds.
const MEMORY_S: f64 = 3_600.0;
/// Rates below this count as none, and above that as that.
const LEAST_ZETA: f64 = 0.02;
const MOST_ZETA: f64 = 0.9;

/// How much small work there is: seconds of it, of which older ones count less and less.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SmallWork {
    sum_s: f64,
    at: Time,
}

impl SmallWork {
    fn sum_at(&self, now: Time) -> f64 {
        self.sum_s * (-now.since(self.at).secs() / MEMORY_S).exp()
    }

    /// Some work that nobody was promised has run for so long.
    pub(crate) fn note(&mut self, ran: Span, now: Time) {
        if ran.secs() <= SMALL_S {
            *self = Self {
                sum_s: self.sum_at(now) + ran.secs(),
                at: now,
            };
        }
    }

    /// Its rate by slot, in hundredths.
    pub(crate) fn rate(&self, slots: u64, now: Time) -> f64 {
        let rate = self.sum_at(now) / MEMORY_S / slots.max(1) as f64;
        if rate < LEAST_ZETA {
            0.0
        } else {
            (rate.min(MOST_ZETA) * 100.0).round() / 100.0
        }
    }
}

/// The lessons that were asked for last: a bag is looked at several times before it is in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remembered {
    pub(crate) runs: u64,
    pub(crate) zeta: u64,
    pub(crate) lessons: Option<(crate::prediction::estimates::Estimator, Lessons)>,
}
