//! Laws of run times with a name, cut to a support. What is not here: laws learned from runs
//! (`learned`).

use statrs::function::{beta, erf, gamma};

/// The probabilities of a run time.
pub trait RunTimes {
    /// No run is shorter than the first number or longer than the second.
    fn support(&self) -> (f64, f64);

    /// The probability of a run no longer than `time`: 0 up to the support's begin, 1 from its end
    /// on.
    fn cdf(&self, time: f64) -> f64;

    /// The integral of `t f(t)` over run times between these two.
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

    /// The mean run time.
    fn mean(&self) -> f64 {
        let (low, high) = self.support();
        self.partial_mean(low, high)
    }

    /// The run time that a part `share` of all runs does not exceed, to about 15 digits.
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

/// What a law is before it is cut to its support.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Family {
    /// Normal.
    TruncatedNormal {
        /// Its mean before it is cut.
        mean: f64,
        /// Its standard deviation before it is cut.
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
    /// Pareto from the support's begin on.
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
    /// Every time of the support alike.
    Uniform,
}

/// Why there is no such law.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadLaw {
    /// The support is no interval of times.
    #[error(
        "the support from {low} to {high} is no stretch of time: it must begin at 0 or later and end after that"
    )]
    Support {
        /// Where it begins.
        low: f64,
        /// Where it ends.
        high: f64,
    },
    /// A Pareto law without a begin.
    #[error("a Pareto law must begin after 0, where its density has no bound")]
    ParetoAtZero,
    /// A parameter makes no sense.
    #[error("{name} is {value}: it must be a finite number{}", if *.positive { " above 0" } else { "" })]
    Parameter {
        /// Which.
        name: &'static str,
        /// What it is.
        value: f64,
        /// Whether it must be above zero.
        positive: bool,
    },
    /// The law has next to no mass on its support.
    #[error("next to none of the law lies between {low} and {high}: check the parameters' unit")]
    Empty {
        /// Where the support begins.
        low: f64,
        /// Where it ends.
        high: f64,
    },
    /// There is no law of this name.
    #[error("there is no law `{0}`")]
    Unknown(String),
    /// More or fewer numbers than the law has.
    #[error("{name} takes {wanted} numbers ({form}), not {found}")]
    Count {
        /// The law.
        name: &'static str,
        /// How it is written.
        form: &'static str,
        /// How many it takes.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// A number that is none.
    #[error("`{0}` is not a number")]
    NotANumber(String),
}

/// A law with a name, cut to a support and made whole again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    family: Family,
    low: f64,
    high: f64,
    /// What the uncut law has below its support, and within it.
    below: f64,
    within: f64,
}

/// The least part of an uncut law that its support may hold.
const LEAST_MASS: f64 = 1e-9;

impl Law {
    /// The law of this family on run times between these two.
    ///
    /// # Errors
    /// If the support is no stretch of time, a parameter makes no sense, or nothing of the law lies
    /// in its support.
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

    /// Its family.
    pub fn family(&self) -> Family {
        self.family
    }
}

impl RunTimes for Law {
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
    /// The parameters with their names, and whether they must be above zero.
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

    /// The uncut law's probability of a run no longer than `time`, which lies in the support.
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

/// The part of a standard normal law below `z`.
fn normal(z: f64) -> f64 {
    0.5 * erf::erfc(-z / std::f64::consts::SQRT_2)
}

/// The integral of a function over a stretch: Simpson's rule, each half again until both agree to
/// about 12 digits.
fn integral(of: &dyn Fn(f64) -> f64, from: f64, to: f64) -> f64 {
    // Some pieces from the start, so that a narrow peak between three looks is not passed over.
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
