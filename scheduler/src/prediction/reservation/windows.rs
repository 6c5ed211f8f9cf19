//! The law of a host's idle windows, learned from its recorded availability: a hazard rate by the
//! window's age, times a factor for the hour of the week. The task for a window is chosen in
//! `gain`.

use serde::{Deserialize, Serialize};

use crate::prediction::survival::{Curve, LifeTable};

const HOUR_S: f64 = 3_600.0;
/// Hours of a week.
const HOURS: usize = 168;
/// The weight of the usual rate against an hour's own count, in expected ends.
const PRIOR: f64 = 0.5;
/// The prior rate, in ends per second: two a working day.
const PRIOR_RATE: f64 = 2.0 / 28_800.0;
/// The weight of the prior in each age class, in ends.
const PRIOR_WEIGHT: f64 = 0.25;

/// Returns the hour of the week at a time in seconds since 1970 in UTC, 0 for midnight on Monday;
/// local time is `ahead_s` seconds ahead.
pub fn hour_of_week(epoch_s: f64, ahead_s: f64) -> usize {
    // 1970 began on a Thursday.
    let hours = ((epoch_s + ahead_s) / HOUR_S).floor() + 72.0;
    hours.rem_euclid(HOURS as f64) as usize
}

/// An observed window, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WindowPiece {
    from_age_s: f64,
    to_age_s: f64,
    hour: usize,
}

/// The observed idle windows of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Windows {
    by_age: LifeTable,
    /// The number of ends by hour of the week; `expected` is the number expected by age alone.
    ends: Vec<f64>,
    expected: Vec<f64>,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            by_age: LifeTable::prior(PRIOR_RATE, PRIOR_WEIGHT),
            ends: vec![0.0; HOURS],
            expected: vec![0.0; HOURS],
        }
    }
}

impl Windows {
    /// Notes a window from one time to another (seconds since 1970 in local time), which ended then
    /// or was no longer observed.
    pub fn observe(&mut self, from_s: f64, to_s: f64, ended: bool) {
        if from_s.is_nan() || to_s.is_nan() || to_s <= from_s {
            return;
        }
        self.by_age.observe(0.0, to_s - from_s, ended);
        let curve = self.by_age.curve();
        for piece in pieces(from_s, 0.0, to_s - from_s) {
            self.expected[piece.hour] +=
                curve.hazard(piece.to_age_s) - curve.hazard(piece.from_age_s);
        }
        if ended {
            self.ends[hour_of_week(to_s, 0.0)] += 1.0;
        }
    }

    /// Returns the factor on the hazard rate in this hour of the week.
    pub fn factor(&self, hour: usize) -> f64 {
        let at = hour % HOURS;
        let all = |values: &[f64]| values.iter().sum::<f64>();
        // Makes the factors 1 on average, whatever the rates were while they were learned.
        let level = (all(&self.ends) + PRIOR) / (all(&self.expected) + PRIOR);
        (self.ends[at] / level + PRIOR) / (self.expected[at] + PRIOR)
    }

    /// Returns the outlook of a window that has been open for `age_s` at `now_s` (seconds since
    /// 1970 in local time).
    pub fn outlook(&self, now_s: f64, age_s: f64) -> Outlook {
        Outlook {
            curve: self.by_age.curve(),
            factors: (0..HOURS).map(|hour| self.factor(hour)).collect(),
            now_s,
            age_s,
        }
    }
}

/// The survival function of an open window.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    curve: Curve,
    factors: Vec<f64>,
    now_s: f64,
    age_s: f64,
}

impl Outlook {
    /// Returns the probability that it stays open for `more_s` more seconds.
    pub fn open(&self, more_s: f64) -> f64 {
        let hazard = pieces(self.now_s, self.age_s, self.age_s + more_s.max(0.0)).map(|piece| {
            let by_age = self.curve.hazard(piece.to_age_s) - self.curve.hazard(piece.from_age_s);
            self.factors.get(piece.hour).copied().unwrap_or(1.0) * by_age
        });
        (-hazard.sum::<f64>()).exp()
    }
}

/// Cuts a part of a window at full hours; it has the age `from_age_s` at `from_s`.
fn pieces(from_s: f64, from_age_s: f64, to_age_s: f64) -> impl Iterator<Item = WindowPiece> {
    let first = (from_s / HOUR_S).floor();
    // A year is the longest window asked for.
    let age_at = move |hour: u32| from_age_s + (first + f64::from(hour)) * HOUR_S - from_s;
    (0..366 * 24_u32)
        .take_while(move |hour| age_at(*hour) < to_age_s)
        .map(move |hour| WindowPiece {
            from_age_s: age_at(hour).max(from_age_s),
            to_age_s: age_at(hour + 1).min(to_age_s),
            hour: hour_of_week((first + f64::from(hour)) * HOUR_S, 0.0),
        })
}
