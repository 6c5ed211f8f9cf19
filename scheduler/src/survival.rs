//! How long things last, learned from what was seen: rates of an event by the age of what it ends, and the survival
//! that follows. Pure arithmetic; who observes what is said elsewhere.

use serde::{Deserialize, Serialize};

/// Where age classes begin, in seconds. The last one has no end.
const EDGES_S: [f64; CLASSES] =
    [0.0, 30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0, 28_800.0];
const CLASSES: usize = 12;

/// Events and time under observation, by age (an actuarial life table). Things that were not seen from their beginning
/// or to their end count for as long as they were seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LifeTable {
    events: [f64; CLASSES],
    exposure_s: [f64; CLASSES],
}

impl LifeTable {
    /// A table that knows one rate, in events per second, with the weight of so many events in each age class.
    pub fn prior(rate: f64, weight: f64) -> Self {
        Self { events: [weight; CLASSES], exposure_s: [weight / rate; CLASSES] }
    }

    /// Something was seen from one age to another (seconds), and ended then or went out of sight.
    pub fn observe(&mut self, from_s: f64, to_s: f64, ended: bool) {
        for (class, start_s) in EDGES_S.iter().enumerate() {
            let end_s = EDGES_S.get(class + 1).copied().unwrap_or(f64::INFINITY);
            let seen_s = to_s.min(end_s) - from_s.max(*start_s);
            if seen_s > 0.0 {
                self.exposure_s[class] += seen_s;
            }
        }
        if ended {
            self.events[class_of(to_s)] += 1.0;
        }
    }

    /// Events seen, those of the prior included.
    pub fn events(&self) -> f64 {
        self.events.iter().sum()
    }

    /// The survival curve that follows.
    pub fn curve(&self) -> Curve {
        let mut curve = Curve { rate: [0.0; CLASSES], hazard: [0.0; CLASSES] };
        for class in 0..CLASSES {
            curve.rate[class] = self.events[class] / self.exposure_s[class];
            if class > 0 {
                let width_s = EDGES_S[class] - EDGES_S[class - 1];
                curve.hazard[class] = curve.hazard[class - 1] + curve.rate[class - 1] * width_s;
            }
        }
        curve
    }
}

fn class_of(age_s: f64) -> usize {
    EDGES_S.partition_point(|edge| *edge <= age_s).saturating_sub(1)
}

/// Survival with a rate that depends on age, constant within each age class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    rate: [f64; CLASSES],
    /// Cumulated up to the beginning of each class.
    hazard: [f64; CLASSES],
}

impl Curve {
    /// The hazard cumulated from age 0 to `age_s`.
    pub fn hazard(&self, age_s: f64) -> f64 {
        let class = class_of(age_s);
        self.hazard[class] + self.rate[class] * (age_s - EDGES_S[class]).max(0.0)
    }

    /// The probability that what has lasted `age_s` lasts for `more_s` more.
    pub fn survival(&self, age_s: f64, more_s: f64) -> f64 {
        (self.hazard(age_s) - self.hazard(age_s + more_s)).exp()
    }

    /// The mean life of something new, in seconds.
    pub fn mean_s(&self) -> f64 {
        let step = |class: usize| {
            let rate = self.rate[class].max(1e-12);
            let end = EDGES_S.get(class + 1).map_or(f64::INFINITY, |end| end - EDGES_S[class]);
            (-self.hazard[class]).exp() * (1.0 - (-rate * end).exp()) / rate
        };
        (0..CLASSES).map(step).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(lives: &[(f64, bool)]) -> LifeTable {
        let mut table = LifeTable::prior(1e-3, 1e-9);
        for (life_s, ended) in lives {
            table.observe(0.0, *life_s, *ended);
        }
        table
    }

    #[test]
    fn a_constant_rate_gives_exponential_survival_and_its_mean() {
        let curve = LifeTable::prior(1.0 / 500.0, 1.0).curve();
        for (age_s, more_s) in [(0.0, 10.0), (45.0, 700.0), (20_000.0, 40_000.0)] {
            let exact = f64::exp(-more_s / 500.0);
            assert!((curve.survival(age_s, more_s) - exact).abs() < 1e-12, "{age_s} + {more_s}");
        }
        assert!((curve.mean_s() - 500.0).abs() < 1e-6);
    }

    #[test]
    fn rates_are_events_per_time_seen_at_that_age() {
        let curve = seen(&[(10.0, true), (20.0, true), (30.0, false), (30.0, false)]).curve();
        let exact = f64::exp(-2.0 * 30.0 / 90.0);
        assert!((curve.survival(0.0, 30.0) - exact).abs() < 1e-6);
    }

    #[test]
    fn what_was_not_seen_from_its_beginning_says_nothing_of_young_ages() {
        let mut late = seen(&[(20.0, true), (600.0, true)]);
        let before = late.curve();
        late.observe(500.0, 510.0, true);
        assert_eq!(before.survival(0.0, 480.0).to_bits(), late.curve().survival(0.0, 480.0).to_bits());
        assert!(late.curve().survival(500.0, 100.0) < before.survival(500.0, 100.0));
    }

    #[test]
    fn survival_falls_with_time_and_never_leaves_its_bounds() {
        let curve = seen(&[(5.0, true), (100.0, true), (5_000.0, false), (90_000.0, true)]).curve();
        for age_s in [0.0, 17.0, 480.0, 1e5] {
            let mut last = 1.0;
            for more_s in [0.0, 1.0, 59.0, 1e3, 1e4, 1e6] {
                let survival = curve.survival(age_s, more_s);
                assert!((0.0..=last).contains(&survival), "{age_s} + {more_s}: {survival}");
                last = survival;
            }
        }
    }
}
