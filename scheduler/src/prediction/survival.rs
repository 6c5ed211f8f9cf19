//! Survival functions learned from observations: hazard rates by age, and the survival that follows
//! from them. Pure arithmetic; the state's `Foresight` collects the observations.

use serde::{Deserialize, Serialize};

/// The begins of the age classes, in seconds. The last class has no end.
const EDGES_S: [f64; CLASSES] = [
    0.0, 30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0, 28_800.0,
];
const CLASSES: usize = 12;

/// Events and time under observation, by age (an actuarial life table). Lives that were not
/// observed from their begin or to their end count for the time observed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LifeTable {
    events: [f64; CLASSES],
    exposure_s: [f64; CLASSES],
}

impl LifeTable {
    /// Creates a table of one rate, in events per second, with the weight of `weight` events in
    /// each age class.
    pub fn prior(rate: f64, weight: f64) -> Self {
        Self {
            events: [weight; CLASSES],
            exposure_s: [weight / rate; CLASSES],
        }
    }

    /// Notes a life observed between two ages (seconds), which ended at the second or was no longer
    /// observed.
    pub fn observe(&mut self, from_s: f64, to_s: f64, ended: bool) {
        for (class, start_s) in EDGES_S.into_iter().enumerate().skip(class_of(from_s)) {
            if start_s >= to_s {
                break;
            }
            let end_s = EDGES_S.get(class + 1).copied().unwrap_or(f64::INFINITY);
            self.exposure_s[class] += (to_s.min(end_s) - from_s.max(start_s)).max(0.0);
        }
        if ended {
            self.events[class_of(to_s)] += 1.0;
        }
    }

    /// Returns the number of events, those of the prior included.
    pub fn events(&self) -> f64 {
        self.events.iter().sum()
    }

    /// Returns the time under observation, in seconds, that of the prior included.
    pub fn exposure_s(&self) -> f64 {
        self.exposure_s.iter().sum()
    }

    /// Fits the survival curve.
    pub fn curve(&self) -> Curve {
        let mut hazard = vec![0.0; ENTRIES];
        let mut sum = 0.0;
        let mut next = 0;
        let rate = |class: usize| self.events[class] / self.exposure_s[class];

        for class in 0..CLASSES {
            // Classes begin at multiples of `STEP_S`, so that the table is exact.
            let end = EDGES_S
                .get(class + 1)
                .map_or(ENTRIES, |edge_s| (edge_s / STEP_S) as usize);
            let more = rate(class) * STEP_S;
            for entry in &mut hazard[next..end] {
                *entry = sum;
                sum += more;
            }
            next = end;
        }

        Curve {
            hazard,
            last_rate: rate(CLASSES - 1),
        }
    }
}

/// The distance between entries of a table, in seconds; the `ENTRIES` reach beyond the begin of the
/// last class.
const STEP_S: f64 = 15.0;
const STEPS_PER_S: f64 = 1.0 / STEP_S;
const ENTRIES: usize = 2_048;

fn class_of(age_s: f64) -> usize {
    EDGES_S
        .partition_point(|edge| *edge <= age_s)
        .saturating_sub(1)
}

/// A survival function with a hazard rate that depends on age, constant within each age class.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The hazard cumulated up to each step.
    hazard: Vec<f64>,
    /// The rate beyond the last entry.
    last_rate: f64,
}

impl Curve {
    /// Returns the hazard cumulated from age 0 to `age_s`.
    pub fn hazard(&self, age_s: f64) -> f64 {
        let at = age_s.max(0.0) * STEPS_PER_S;
        // Conversions from and to types of less than 64 bits are much cheaper.
        let entry = (at as i32).min(ENTRIES as i32 - 1);
        let low = entry as usize;
        let slope = self
            .hazard
            .get(low + 1)
            .map_or(self.last_rate * STEP_S, |next| next - self.hazard[low]);
        self.hazard[low] + (at - f64::from(entry)) * slope
    }

    /// Returns the probability that a life of age `age_s` lasts for `more_s` more.
    pub fn survival(&self, age_s: f64, more_s: f64) -> f64 {
        self.survival_times(age_s, more_s, 1.0)
    }

    /// Returns the same for a hazard `factor` times as high.
    pub fn survival_times(&self, age_s: f64, more_s: f64, factor: f64) -> f64 {
        (factor * (self.hazard(age_s) - self.hazard(age_s + more_s))).exp()
    }

    /// Tabulates the survival from age 0.
    pub(crate) fn tabulated(&self) -> TabulatedSurvival {
        TabulatedSurvival {
            alive: self.hazard.iter().map(|hazard| (-hazard).exp()).collect(),
            last_rate: self.last_rate,
        }
    }
}

/// A survival function from age 0, tabulated for frequent use with an accuracy of three digits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TabulatedSurvival {
    alive: Vec<f64>,
    /// The rate beyond the last entry.
    last_rate: f64,
}

impl TabulatedSurvival {
    /// Returns the mean life from age 0, in seconds.
    pub(crate) fn mean_s(&self) -> f64 {
        let first = self.alive[0];
        let last = self.alive[ENTRIES - 1];
        let inner: f64 = self.alive.iter().sum();
        STEP_S * (inner - 0.5 * (first + last)) + last / self.last_rate.max(1e-12)
    }

    /// Returns the probability of reaching `age_s`. Beyond the table's end, some hours, it is
    /// constant.
    pub(crate) fn alive(&self, age_s: f64) -> f64 {
        let at = (age_s * STEPS_PER_S)
            .max(0.0)
            .min((ENTRIES - 2) as f64 + 0.999_999);
        let entry = at as i32;
        let low = entry as usize;
        let part = at - f64::from(entry);
        self.alive[low] + part * (self.alive[low + 1] - self.alive[low])
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
            assert!(
                (curve.survival(age_s, more_s) - exact).abs() < 1e-12,
                "{age_s} + {more_s}"
            );
        }

        assert!(
            (curve.tabulated().mean_s() - 500.0).abs() < 0.1,
            "{}",
            curve.tabulated().mean_s()
        );
    }

    #[test]
    fn rates_are_events_per_time_seen_at_that_age() {
        let curve = seen(&[(10.0, true), (20.0, true), (30.0, false), (30.0, false)]).curve();
        let exact = f64::exp(-2.0 * 30.0 / 90.0);
        assert!((curve.survival(0.0, 30.0) - exact).abs() < 1e-6);
    }

    #[test]
    fn intervals_seen_late_do_not_change_survival_at_young_ages() {
        let mut late = seen(&[(20.0, true), (600.0, true)]);
        let before = late.curve();
        late.observe(500.0, 510.0, true);
        assert_eq!(
            before.survival(0.0, 480.0).to_bits(),
            late.curve().survival(0.0, 480.0).to_bits()
        );
        assert!(late.curve().survival(500.0, 100.0) < before.survival(500.0, 100.0));
    }

    #[test]
    fn a_table_agrees_with_its_curve() {
        let curve = seen(&[
            (5.0, true),
            (300.0, true),
            (4_000.0, true),
            (90_000.0, true),
        ])
        .curve();
        let table = curve.tabulated();
        for age_s in [0.0, 7.0, 100.0, 1_234.5, 15_000.0] {
            assert!(
                (table.alive(age_s) - curve.survival(0.0, age_s)).abs() < 0.05,
                "at {age_s}"
            );
        }
    }

    #[test]
    fn survival_falls_with_time_and_never_leaves_its_bounds() {
        let curve = seen(&[
            (5.0, true),
            (100.0, true),
            (5_000.0, false),
            (90_000.0, true),
        ])
        .curve();
        for age_s in [0.0, 17.0, 480.0, 1e5] {
            let mut last = 1.0;
            for more_s in [0.0, 1.0, 59.0, 1e3, 1e4, 1e6] {
                let survival = curve.survival(age_s, more_s);
                assert!(
                    (0.0..=last).contains(&survival),
                    "{age_s} + {more_s}: {survival}"
                );
                last = survival;
            }
        }
    }
}
