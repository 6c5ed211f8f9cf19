//! Laws fitted by maximum likelihood. What is not here: tests of how well they fit, and censoring.

use serde::Serialize;

/// A Weibull law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Weibull {
    /// Below 1 the rate falls with age, above 1 it rises.
    pub shape: f64,
    /// In the unit of what was measured.
    pub scale: f64,
}

/// A lognormal law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lognormal {
    /// Mean of the natural logarithms.
    pub mu: f64,
    /// Their standard deviation.
    pub sigma: f64,
}

impl Weibull {
    /// The likeliest law of these values; none unless two of those above zero differ.
    pub fn fit(values: &[f64]) -> Option<Self> {
        let largest = values.iter().copied().fold(0.0, f64::max);
        // Against the largest, so that no power overflows.
        let logs: Vec<_> = values.iter().filter(|value| **value > 0.0).map(|value| (value / largest).ln()).collect();
        if logs.iter().all(|log| *log >= 0.0) {
            return None;
        }
        let (mut low, mut high) = (1e-6, 1.0);
        while slope(&logs, high) > 0.0 && high < 1e9 {
            (low, high) = (high, high * 2.0);
        }
        for _ in 0..100 {
            let middle = low + (high - low) / 2.0;
            if slope(&logs, middle) > 0.0 { low = middle } else { high = middle }
        }
        let shape = low + (high - low) / 2.0;
        let power = logs.iter().map(|log| (shape * log).exp()).sum::<f64>() / logs.len() as f64;
        Some(Weibull { shape, scale: largest * power.powf(shape.recip()) })
    }
}

/// The derivative of the mean log likelihood by the shape, where the scale is the best for that shape: it falls.
fn slope(logs: &[f64], shape: f64) -> f64 {
    let weighted: (f64, f64) = logs.iter().fold((0.0, 0.0), |(sum, with_log), log| {
        let power = (shape * log).exp();
        (sum + power, with_log + power * log)
    });
    shape.recip() + logs.iter().sum::<f64>() / logs.len() as f64 - weighted.1 / weighted.0
}

impl Lognormal {
    /// The likeliest law of these values; none unless two of those above zero differ.
    pub fn fit(values: &[f64]) -> Option<Self> {
        let logs: Vec<_> = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
        let count = logs.len().max(1) as f64;
        let mu = logs.iter().sum::<f64>() / count;
        let sigma = (logs.iter().map(|log| (log - mu).powi(2)).sum::<f64>() / count).sqrt();
        (sigma > 0.0).then_some(Lognormal { mu, sigma })
    }
}
