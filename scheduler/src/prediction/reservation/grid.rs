//! A law of run times on equally spaced points, as the dynamic programmes need it, and the expected
//! cost of a given sequence. The searches for the best one live in `sequence` and `adaptive`.

use super::law::RunTimes;

/// Run times `low + i * step` for `i` from 0 to n, each with its probability.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTimeGrid {
    low: f64,
    step: f64,
    /// The probability of each point.
    parts: Vec<f64>,
    /// The probability up to and including each point; `time_upto` is the sum of time by
    /// probability.
    upto: Vec<f64>,
    time_upto: Vec<f64>,
    /// The probability beyond each point, summed from the far end, where it is small.
    after: Vec<f64>,
}

impl RunTimeGrid {
    /// Divides the law's support into `n` equal steps (at least one): each point gets the
    /// probability of the step up to it.
    pub fn of(law: &impl RunTimes, n: usize) -> Self {
        let ((low, high), n) = (law.support(), n.max(1));
        let step = (high - low) / n as f64;
        let at = |i: usize| {
            if i == n {
                1.0
            } else {
                law.cdf(low + i as f64 * step)
            }
        };
        let parts = std::iter::once(0.0).chain((1..=n).map(|i| (at(i) - at(i - 1)).max(0.0)));
        Self::new(low, step, parts.collect())
    }

    /// Creates points from `low` on, `step` apart, with these probabilities; at least one.
    pub fn new(low: f64, step: f64, parts: Vec<f64>) -> Self {
        let parts = if parts.is_empty() { vec![1.0] } else { parts };
        let n = parts.len() - 1;
        let mut upto = vec![0.0; n + 1];
        let mut time_upto = vec![0.0; n + 1];
        let mut after = vec![0.0; n + 1];
        let mut sum = 0.0;
        let mut time = 0.0;

        for (i, part) in parts.iter().enumerate() {
            sum += part;
            time += part * (low + i as f64 * step);
            upto[i] = sum;
            time_upto[i] = time;
        }

        for i in (0..n).rev() {
            after[i] = after[i + 1] + parts[i + 1];
        }

        Self {
            low,
            step,
            parts,
            upto,
            time_upto,
            after,
        }
    }

    /// Returns the index of the last point.
    pub fn last(&self) -> usize {
        self.parts.len() - 1
    }

    /// Returns the time of a point.
    pub fn time(&self, i: usize) -> f64 {
        self.low + i as f64 * self.step
    }

    /// Returns the first point's time.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Returns the distance between points.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Returns the probability beyond a point.
    pub fn after(&self, i: usize) -> f64 {
        self.after[i]
    }

    /// Returns the probability of each point.
    pub fn parts(&self) -> &[f64] {
        &self.parts
    }

    /// Returns the mean of the times beyond a point, times their probability.
    pub(super) fn time_after(&self, i: usize) -> f64 {
        self.time_upto[self.last()] - self.time_upto[i]
    }

    /// Returns the part of the expected cost that a limit at `next` adds (Theorem 1): the last
    /// limit was at `done`, and all before it took `spent` together. A run that ends early enough
    /// leaves room for the small work that arrived meanwhile, and costs the whole limit; one that
    /// ends late costs itself and all that work.
    pub(super) fn stage(&self, zeta: f64, done: usize, next: usize, spent: f64) -> f64 {
        let limit = self.time(next);
        let threshold = self.threshold(zeta, done, next, spent);
        let early = self.upto[threshold] - self.upto[done] + self.after[next];
        if threshold == next {
            return limit * self.after[done];
        }
        let late = self.upto[next] - self.upto[threshold];
        let late_time = self.time_upto[next] - self.time_upto[threshold];
        limit * early + (late_time + zeta * spent * late) / (1.0 - zeta)
    }

    /// Returns the last point up to which a run costs the whole limit.
    fn threshold(&self, zeta: f64, done: usize, next: usize, spent: f64) -> usize {
        let time = (1.0 - zeta) * self.time(next) - zeta * spent;
        // A point on the threshold costs the same either way, so rounding does not matter.
        let point = ((time - self.low) / self.step + 1e-9).floor();
        // This also holds where all points are one, and the number of steps is not a number.
        (point.max(done as f64) as usize).min(next)
    }

    /// Returns the expected cost of limits at these points, in ascending order, the last point
    /// among them; `zeta` is the rate of small work that fills gaps (0 up to but not 1).
    pub fn cost(&self, zeta: f64, points: &[usize]) -> f64 {
        let mut done = 0;
        let mut spent = 0.0;
        let mut cost = 0.0;
        for &next in points {
            cost += self.stage(zeta, done, next, spent);
            spent += self.time(next);
            done = next;
        }
        cost
    }
}
