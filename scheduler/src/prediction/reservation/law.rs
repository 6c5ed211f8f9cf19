//! Named laws of run times, truncated to a support. Laws learned from runs live in `learned`.

use statrs::function::{beta, erf, gamma};

/// A law of run times.
pub trait RunTimes {
    /// Returns the shortest and the longest run time.
    fn support(&self) -> (f64, f64);

    /// Returns the probability of a run no longer than `time`: 0 up to the begin of the support, 1
    /// from its end on.
    fn cdf(&self, time: f64) -> f64;

    /// Returns the integral of `t f(t)` over run times between these two.
    fn partial_mean(&self, from: f64, to: f64) -> f64 {
        let (low, high) = self.support();
        let from = from.clamp(low, high);
        let to = to.clamp(low, high);
        if to <= from {
            return 0.0;
        }
        let area = integral(&|time| self.cdf(time), from, to);
        (to * self.cdf(to) - from * self.cdf(from) - area).max(0.0)
    }

    /// Returns the mean run time.
    fn mean(&self) -> f64 {
        let (low, high) = self.support();
        self.partial_mean(low, high)
    }

    /// Returns the quantile `share` of run times, to about 15 digits.
    fn quantile(&self, share: f64) -> f64 {
        let (mut low, mut high) = self.support();
        for _ in 0..64 {
            let middle = low + (high - low) / 2.0;
            if self.cdf(middle) < share {
                low = middle;
            } else {
                high = middle;
            }
        }
        low + (high - low) / 2.0
    }
}

/// A family of laws, before truncation to a support.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Family {
    /// Normal.
    TruncatedNormal {
        /// The mean before truncation.
        mean: f64,
        /// The standard deviation before truncation.
        sd: f64,
    },
    /// Exponential.
    Exponential {
        /// Events per unit of time.
        rate: f64,
    },
    /// Beta, stretched over the whole support.
    Beta {
        /// The first shape.
        alpha: f64,
        /// The second shape.
        beta: f64,
    },
    /// Pareto from the begin of the support on.
    BoundedPareto {
        /// The tail's exponent.
        alpha: f64,
    },
    /// Log-normal.
    LogNormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Weibull.
    Weibull {
        /// Its shape.
        shape: f64,
        /// Its scale.
        scale: f64,
    },
    /// Gamma.
    Gamma {
        /// Its shape.
        shape: f64,
        /// Its scale.
        scale: f64,
    },
    /// Every time of the support is equally likely.
    Uniform,
}

/// The reason why a law cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadLaw {
    /// The support is no interval of times.
    #[error(
        "the support from {low} to {high} is no stretch of time: it must begin at 0 or later and end after that"
    )]
    Support {
        /// The begin of the support.
        low: f64,
        /// The end of the support.
        high: f64,
    },
    /// A Pareto law whose support begins at 0.
    #[error("a Pareto law must begin after 0, where its density has no bound")]
    ParetoAtZero,
    /// A parameter is out of range.
    #[error("{name} is {value}: it must be a finite number{}", if *.positive { " above 0" } else { "" })]
    Parameter {
        /// The name of the parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Whether it must be above zero.
        positive: bool,
    },
    /// The law has next to no mass on its support.
    #[error("next to none of the law lies between {low} and {high}: check the parameters' unit")]
    Empty {
        /// The begin of the support.
        low: f64,
        /// The end of the support.
        high: f64,
    },
    /// There is no law of this name.
    #[error("there is no law `{0}`")]
    Unknown(String),
    /// The number of parameters is not the law's.
    #[error("{name} takes {wanted} numbers ({form}), not {found}")]
    Count {
        /// The name of the law.
        name: &'static str,
        /// The form in which it is written, as in `LAWS`.
        form: &'static str,
        /// The number of parameters it takes.
        wanted: usize,
        /// The number of parameters given.
        found: usize,
    },
    /// A parameter is not a number.
    #[error("`{0}` is not a number")]
    NotANumber(String),
}

/// A named law, truncated to a support and normalized.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NamedLaw {
    family: Family,
    low: f64,
    high: f64,
    /// The mass of the untruncated law below its support; `within` is that on it.
    below: f64,
    within: f64,
}

/// The least mass of an untruncated law on its support.
const LEAST_MASS: f64 = 1e-9;

impl NamedLaw {
    /// Creates the law of this family on run times from `low` to `high`.
    ///
    /// # Errors
    /// If the support is no interval, a parameter is out of range, or the law has next to no mass
    /// on its support.
    pub fn new(family: Family, low: f64, high: f64) -> Result<Self, BadLaw> {
        if !(low.is_finite() && high.is_finite() && low >= 0.0 && high > low) {
            return Err(BadLaw::Support { low, high });
        }
        if matches!(family, Family::BoundedPareto { .. }) && low <= 0.0 {
            return Err(BadLaw::ParetoAtZero);
        }

        for (name, value, positive) in family.parameters() {
            if !value.is_finite() || (positive && value <= 0.0) {
                return Err(BadLaw::Parameter {
                    name,
                    value,
                    positive,
                });
            }
        }

        let below = family.uncut(low, low, high);
        let upto = family.uncut(high, low, high);
        let within = upto - below;
        if within.is_nan() || within < LEAST_MASS {
            return Err(BadLaw::Empty { low, high });
        }

        Ok(Self {
            family,
            low,
            high,
            below,
            within,
        })
    }

    /// Returns its family.
    pub fn family(&self) -> Family {
        self.family
    }
}

impl RunTimes for NamedLaw {
    fn support(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    fn cdf(&self, time: f64) -> f64 {
        if time <= self.low {
            return 0.0;
        }
        if time >= self.high {
            return 1.0;
        }
        ((self.family.uncut(time, self.low, self.high) - self.below) / self.within).clamp(0.0, 1.0)
    }
}

impl Family {
    /// Returns the parameters with their names, and whether they must be positive.
    fn parameters(self) -> [(&'static str, f64, bool); 2] {
        const NONE: (&str, f64, bool) = ("", 0.0, false);
        match self {
            Family::TruncatedNormal { mean, sd } => [("mean", mean, false), ("sd", sd, true)],
            Family::Exponential { rate } => [("rate", rate, true), NONE],
            Family::Beta { alpha, beta } => [("alpha", alpha, true), ("beta", beta, true)],
            Family::BoundedPareto { alpha } => [("alpha", alpha, true), NONE],
            Family::LogNormal { mu, sigma } => [("mu", mu, false), ("sigma", sigma, true)],
            Family::Weibull { shape, scale } | Family::Gamma { shape, scale } => {
                [("shape", shape, true), ("scale", scale, true)]
            }
            Family::Uniform => [NONE; 2],
        }
    }

    /// Returns the untruncated law's probability of a run no longer than `time`, which lies in the
    /// support.
    fn uncut(self, time: f64, low: f64, high: f64) -> f64 {
        match self {
            Family::TruncatedNormal { mean, sd } => normal((time - mean) / sd),
            Family::Exponential { rate } => -(-rate * time).exp_m1(),
            Family::Beta { alpha, beta: other } => {
                let part = ((time - low) / (high - low)).clamp(0.0, 1.0);
                beta::checked_beta_reg(alpha, other, part).unwrap_or(f64::NAN)
            }
            Family::BoundedPareto { alpha } => 1.0 - (low / time).powf(alpha),
            Family::LogNormal { .. } if time <= 0.0 => 0.0,
            Family::LogNormal { mu, sigma } => normal((time.ln() - mu) / sigma),
            Family::Weibull { shape, scale } => -(-(time / scale).powf(shape)).exp_m1(),
            Family::Gamma { .. } if time <= 0.0 => 0.0,
            Family::Gamma { shape, scale } => {
                gamma::checked_gamma_lr(shape, time / scale).unwrap_or(f64::NAN)
            }
            Family::Uniform => (time - low) / (high - low),
        }
    }
}

/// Returns the standard normal distribution function at `z`.
fn normal(z: f64) -> f64 {
    0.5 * erf::erfc(-z / std::f64::consts::SQRT_2)
}

/// Returns the integral of a function over an interval: Simpson's rule, with each half divided
/// again until both agree to about 12 digits.
fn integral(of: &dyn Fn(f64) -> f64, from: f64, to: f64) -> f64 {
    // Several pieces at the start, so that a narrow peak between three samples is not missed.
    const PIECES: u32 = 16;
    const DEPTH: u32 = 30;
    let wide = (to - from) / f64::from(PIECES);
    let piece = |number: u32| {
        let a = from + f64::from(number) * wide;
        let b = from + f64::from(number + 1) * wide;
        let ends = (of(a), of((a + b) / 2.0), of(b));
        halved(of, (a, b), ends, simpson(b - a, ends), DEPTH)
    };
    (0..PIECES).map(piece).sum()
}

fn simpson(wide: f64, (first, middle, last): (f64, f64, f64)) -> f64 {
    wide / 6.0 * (first + 4.0 * middle + last)
}

fn halved(
    of: &dyn Fn(f64) -> f64,
    (a, b): (f64, f64),
    ends: (f64, f64, f64),
    whole: f64,
    depth: u32,
) -> f64 {
    let middle = (a + b) / 2.0;
    let left = (ends.0, of((a + middle) / 2.0), ends.1);
    let right = (ends.1, of((middle + b) / 2.0), ends.2);
    let one = simpson(middle - a, left);
    let two = simpson(b - middle, right);
    let off = one + two - whole;
    if depth == 0 || off.abs() <= 1e-13 * (b - a).max(whole.abs()) {
        return one + two + off / 15.0;
    }

    halved(of, (a, middle), left, one, depth - 1) + halved(of, (middle, b), right, two, depth - 1)
}
