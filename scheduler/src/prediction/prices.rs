//! The price of a copy by kind of job: the gain that makes it worth its start, learned so that
//! copies stay within their budget. The gain of a copy is computed in `policy::replication::gain`.

use serde::{Deserialize, Serialize};

/// The grid of prices: tasks per host, and seconds of a task on a mean host (`LENGTHS_S`). Prices
/// of other jobs are interpolated between them, linearly in the logarithms.
const CROWDS: [f64; 5] = [0.32, 0.64, 1.27, 2.55, 5.1];
const LENGTHS_S: [f64; 6] = [75.0, 150.0, 320.0, 640.0, 1_270.0, 2_550.0];
/// The initial prices, by tasks per host.
const FIRST_PRICES: [f64; CROWDS.len()] = [0.035, 0.035, 0.027, 0.02, 0.015];

/// The weight of a job's excess on its price: `FIRST_RATE` for the first job, never below
/// `LAST_RATE`, and half of the first after `SETTLING` jobs.
const FIRST_RATE: f64 = 0.5;
const LAST_RATE: f64 = 0.02;
const SETTLING: f64 = 4.0;

/// The gains that copies must have, as parts of a task's time on a mean host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    known: Vec<f64>,
    /// The number of jobs that each price was learned from.
    jobs: Vec<f64>,
}

/// A kind of job for prices: the grid points around it, each with its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobKind([(usize, f64); 4]);

impl JobKind {
    /// Returns the kind of a job with this many tasks per host, each of which takes `task_s` on a
    /// mean host; `keeps` is whether they keep their state.
    pub fn of(tasks_per_host: f64, task_s: f64, keeps: bool) -> Self {
        let crowds = between(&CROWDS, tasks_per_host);
        let lengths = between(&LENGTHS_S, task_s);
        Self(std::array::from_fn(|corner| {
            let ((crowd, a), (length, b)) = (crowds[corner / 2], lengths[corner % 2]);
            (
                (usize::from(keeps) * CROWDS.len() + crowd) * LENGTHS_S.len() + length,
                a * b,
            )
        }))
    }
}

/// Returns the two points of a scale around a value, with their weights; beyond its ends the last
/// one has weight 1.
fn between(scale: &[f64], value: f64) -> [(usize, f64); 2] {
    let high = scale
        .partition_point(|at| *at <= value)
        .clamp(1, scale.len() - 1);
    let part = (value / scale[high - 1]).ln() / (scale[high] / scale[high - 1]).ln();
    let part = part.clamp(0.0, 1.0);
    [(high - 1, 1.0 - part), (high, part)]
}

impl Default for Prices {
    fn default() -> Self {
        let prices = FIRST_PRICES.repeat(2).into_iter();
        let known: Vec<_> = prices
            .flat_map(|price| std::iter::repeat_n(price, LENGTHS_S.len()))
            .collect();
        Self {
            jobs: vec![0.0; known.len()],
            known,
        }
    }
}

impl Prices {
    /// Returns the price for jobs of this kind.
    pub fn price(&self, kind: JobKind) -> f64 {
        let known = |place: usize| self.known.get(place).copied().unwrap_or(FIRST_PRICES[0]);
        kind.0
            .iter()
            .map(|(place, weight)| weight * known(*place).ln())
            .sum::<f64>()
            .exp()
    }

    /// Learns from a job that started `copies` per task and may start `budget`: the price of its
    /// kind moves by the excess, at first faster than later. It stays where the mean of the copies
    /// is the budget.
    pub(crate) fn learn(&mut self, kind: JobKind, copies: f64, budget: f64) {
        let excess = ((copies - budget) / (budget + 0.01)).min(4.0);
        // Divided by `all`, so that an interpolated price moves as far as one on the grid.
        let all: f64 = kind.0.iter().map(|(_, weight)| weight * weight).sum();
        for (place, weight) in kind.0 {
            let (Some(price), Some(jobs)) = (self.known.get_mut(place), self.jobs.get_mut(place))
            else {
                return;
            };
            *jobs += weight;
            let rate = (FIRST_RATE / (1.0 + *jobs / SETTLING)).max(LAST_RATE);
            *price = (*price * (rate * weight / all * excess).exp()).clamp(1e-4, 10.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_of_a_kind_lies_between_those_that_are_kept() {
        let mut prices = Prices::default();
        let at =
            |prices: &Prices, crowd, length_s| prices.price(JobKind::of(crowd, length_s, false));
        assert!((at(&prices, CROWDS[3], 500.0) - FIRST_PRICES[3]).abs() < 1e-12);

        let middle = (CROWDS[2] * CROWDS[3]).sqrt();
        assert!(
            (at(&prices, middle, 500.0) - (FIRST_PRICES[2] * FIRST_PRICES[3]).sqrt()).abs() < 1e-12
        );
        for (beyond, end) in [(0.0, 0), (1e9, CROWDS.len() - 1)] {
            assert!(
                (at(&prices, beyond, 0.0) - FIRST_PRICES[end]).abs() < 1e-12,
                "{beyond} tasks per host"
            );
        }

        let before = at(&prices, 5.1, 2_550.0);
        (0..20).for_each(|_| prices.learn(JobKind::of(0.4, 100.0, false), 1.0, 0.1));
        assert_eq!(
            at(&prices, 5.1, 2_550.0),
            before,
            "what is far away says nothing"
        );
        assert!(at(&prices, 0.4, 100.0) > 2.0 * FIRST_PRICES[0]);
    }

    #[test]
    fn jobs_of_different_kinds_all_come_to_their_budget() {
        // Copies fall with the price, each kind in its own way.
        let kinds = [
            (0.7, 500.0, 0.01),
            (1.1, 500.0, 0.02),
            (1.9, 500.0, 0.03),
            (2.7, 480.0, 0.02),
            (2.7, 2_000.0, 0.05),
        ];

        let copies = |price: f64, usual: f64| 0.1 * (usual / price).sqrt();
        let mut prices = Prices::default();
        for _ in 0..2_000 {
            for (crowd, length_s, usual) in kinds {
                let kind = JobKind::of(crowd, length_s, true);
                prices.learn(kind, copies(prices.price(kind), usual), 0.12);
            }
        }

        for (crowd, length_s, usual) in kinds {
            let found = copies(prices.price(JobKind::of(crowd, length_s, true)), usual);
            assert!((found - 0.12).abs() < 0.01, "{crowd} x {length_s}: {found}");
        }
    }
}
