//! Laws of lifetimes, by age. Laws learned from observations live in `lives`.

use crate::prediction::reservation::ObservedRun;

/// The law of a life that has already lasted for some time.
pub trait Lifetime {
    /// Returns the probability that a life of age `age_s` ends within `more_s`: from 0 to 1, and
    /// never falling with `more_s`.
    fn ended(&self, age_s: f64, more_s: f64) -> f64;

    /// Returns an upper bound, in seconds, of the rest of a life of this age.
    fn longest_s(&self, age_s: f64) -> f64;
}

/// Lifetimes of uniform logarithm: at most `t` with probability `b0 + b1 ln t` (equation 4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UniformLog {
    b0: f64,
    b1: f64,
}

impl UniformLog {
    /// The fallback law of predictions: from e^2 to e^14 seconds (7 s to two weeks). Its tail is
    /// longer than that of most work, which keeps jobs from waiting in vain.
    pub const PATIENT: UniformLog = UniformLog {
        b0: -2.0 / 12.0,
        b1: 1.0 / 12.0,
    };

    /// Creates the law with this intercept and slope; `None` where it does not rise.
    pub fn new(b0: f64, b1: f64) -> Option<Self> {
        (b0.is_finite() && b1.is_finite() && b1 > 0.0).then_some(Self { b0, b1 })
    }

    /// Creates the law between these two lifetimes, given as natural logarithms of seconds.
    pub fn between(ln_least: f64, ln_most: f64) -> Option<Self> {
        let b1 = 1.0 / (ln_most - ln_least);
        Self::new(-ln_least * b1, b1)
    }

    /// Fits the line nearest to these runs (least squares over the product-limit estimate); `None`
    /// for fewer than two different run times.
    pub fn fitted(runs: &[ObservedRun]) -> Option<Self> {
        let curve = super::lives::Survival::of(runs)?;
        let points = || {
            curve
                .points()
                .filter(|(time, _)| *time > 0.0)
                .map(|(time, alive)| (time.ln(), 1.0 - alive))
        };
        let count = points().count() as f64;
        let (x, y) = points().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        let x = x / count;
        let y = y / count;
        let (over, below) = points().fold((0.0, 0.0), |sum, point| {
            (
                sum.0 + (point.0 - x) * (point.1 - y),
                sum.1 + (point.0 - x).powi(2),
            )
        });
        let b1 = over / below;

        Self::new(y - b1 * x, b1)
    }

    /// Returns the probability of a lifetime of at most `time_s`.
    pub fn cdf(&self, time_s: f64) -> f64 {
        if time_s <= 0.0 {
            0.0
        } else {
            (self.b0 + self.b1 * time_s.ln()).clamp(0.0, 1.0)
        }
    }

    /// Returns the upper bound of lifetimes, in seconds.
    pub fn most_s(&self) -> f64 {
        ((1.0 - self.b0) / self.b1).exp()
    }
}

impl Lifetime for UniformLog {
    fn ended(&self, age_s: f64, more_s: f64) -> f64 {
        let alive = 1.0 - self.cdf(age_s);
        if alive <= 0.0 {
            1.0
        } else {
            1.0 - (1.0 - self.cdf(age_s + more_s)) / alive
        }
    }

    fn longest_s(&self, age_s: f64) -> f64 {
        (self.most_s() - age_s).max(0.0)
    }
}

/// The law of a life that is ended at a limit, if it has not ended by then.
#[derive(Clone, Copy)]
pub struct Within<'a> {
    /// The law without the limit.
    pub law: &'a dyn Lifetime,
    /// The limit, in seconds from its start.
    pub limit_s: f64,
}

impl Lifetime for Within<'_> {
    fn ended(&self, age_s: f64, more_s: f64) -> f64 {
        if age_s + more_s >= self.limit_s && more_s > 0.0 {
            1.0
        } else {
            self.law.ended(age_s, more_s)
        }
    }

    fn longest_s(&self, age_s: f64) -> f64 {
        // A life beyond its limit may end at any time.
        (self.limit_s - age_s).clamp(1.0, self.law.longest_s(age_s).max(1.0))
    }
}

/// A law of work, in seconds on a host of speed 1, on a host of another speed.
#[derive(Clone, Copy)]
pub struct Paced<'a> {
    /// The law.
    pub law: &'a dyn Lifetime,
    /// The host's speed.
    pub rate: f64,
}

impl Lifetime for Paced<'_> {
    fn ended(&self, age_s: f64, more_s: f64) -> f64 {
        self.law.ended(age_s * self.rate, more_s * self.rate)
    }

    fn longest_s(&self, age_s: f64) -> f64 {
        self.law.longest_s(age_s * self.rate) / self.rate.max(1e-9)
    }
}
