//! Laws fitted by maximum likelihood, without censoring and without tests of fit.

use serde::Serialize;

/// A Weibull law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Weibull {
    /// The shape: below 1 the hazard falls with age, above 1 it rises.
    pub shape: f64,
    /// The scale, in the unit of the fitted values.
    pub scale: f64,
}

/// A lognormal law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lognormal {
    /// The mean of the natural logarithms.
    pub mu: f64,
    /// The standard deviation of the natural logarithms.
    pub sigma: f64,
}

impl Weibull {
    /// The survival function: the probability of more than `value`.
    pub fn survival(&self, value: f64) -> f64 {
        (-(value.max(0.0) / self.scale).powf(self.shape)).exp()
    }

    /// Fits the law to these values; `None` unless two of those above zero differ.
    pub fn fit(values: &[f64]) -> Option<Self> {
        let largest = values.iter().copied().fold(0.0, f64::max);
        // Relative to the largest value, so that no power overflows.
        let logs: Vec<_> = values
            .iter()
            .filter(|value| **value > 0.0)
            .map(|value| (value / largest).ln())
            .collect();
        if logs.iter().all(|log| *log >= 0.0) {
            return None;
        }

        let mut low = 1e-6;
        let mut high = 1.0;
        while slope(&logs, high) > 0.0 && high < 1e9 {
            low = high;
            high *= 2.0;
        }

        for _ in 0..100 {
            let middle = low + (high - low) / 2.0;
            if slope(&logs, middle) > 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }

        let shape = low + (high - low) / 2.0;
        let power = logs.iter().map(|log| (shape * log).exp()).sum::<f64>() / logs.len() as f64;
        Some(Weibull {
            shape,
            scale: largest * power.powf(shape.recip()),
        })
    }
}

/// The derivative of the mean log likelihood by the shape, with the best scale for that shape. It
/// falls with the shape.
fn slope(logs: &[f64], shape: f64) -> f64 {
    let weighted: (f64, f64) = logs.iter().fold((0.0, 0.0), |(sum, with_log), log| {
        let power = (shape * log).exp();
        (sum + power, with_log + power * log)
    });
    shape.recip() + logs.iter().sum::<f64>() / logs.len() as f64 - weighted.1 / weighted.0
}

impl Lognormal {
    /// The survival function: the probability of more than `value`, to about seven digits.
    pub fn survival(&self, value: f64) -> f64 {
        if value <= 0.0 {
            1.0
        } else {
            above((value.ln() - self.mu) / self.sigma)
        }
    }

    /// Fits the law to these values; `None` unless two of those above zero differ.
    pub fn fit(values: &[f64]) -> Option<Self> {
        let logs: Vec<_> = values
            .iter()
            .filter(|value| **value > 0.0)
            .map(|value| value.ln())
            .collect();

        // Not by their deviation: rounded, the mean of equal numbers may differ from each of them.
        let least = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if least >= most {
            return None;
        }

        let count = logs.len() as f64;
        let mu = logs.iter().sum::<f64>() / count;
        let sigma = (logs.iter().map(|log| (log - mu).powi(2)).sum::<f64>() / count).sqrt();
        Some(Lognormal { mu, sigma })
    }
}

/// The probability of more than `z` under the standard normal law: by a continued fraction
/// (Laplace) if `z` is far from zero, else by the series of the density's integral.
fn above(z: f64) -> f64 {
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z.abs() > 3.0 {
        let tail = (1..60)
            .rev()
            .fold(z.abs(), |sum, k| z.abs() + f64::from(k) / sum);
        return if z > 0.0 {
            density / tail
        } else {
            1.0 - density / tail
        };
    }

    let mut term = z;
    let mut sum = z;
    for k in 1..80 {
        term *= z * z / f64::from(2 * k + 1);
        sum += term;
    }

    0.5 - density * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_tails_have_their_known_values() {
        for (z, expected) in [
            (0.0, 0.5),
            (1.0, 0.158_655_253_931_457_07),
            (-1.96, 0.975_002_104_851_779_5),
            (2.999, 0.001_354_336_533_727_106_6),
            (3.001, 0.001_345_472_825_084_968_3),
            (5.0, 2.866_515_718_791_946e-7),
            (-6.0, 0.999_999_999_013_412_3),
        ] {
            assert!(
                (above(z) / expected - 1.0_f64).abs() < 1e-7,
                "{z}: {}",
                above(z)
            );
        }
    }

    #[test]
    fn half_of_a_law_lies_beyond_its_median() {
        let weibull = Weibull {
            shape: 0.5,
            scale: 100.0,
        };
        assert!((weibull.survival(100.0 * 2_f64.ln().powi(2)) - 0.5).abs() < 1e-12);
        let lognormal = Lognormal {
            mu: 3.0,
            sigma: 2.0,
        };
        assert!((lognormal.survival(3_f64.exp()) - 0.5).abs() < 1e-12);
        assert_eq!((weibull.survival(0.0), lognormal.survival(0.0)), (1.0, 1.0));
    }
}
