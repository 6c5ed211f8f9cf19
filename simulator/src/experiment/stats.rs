//! The few statistics that results need: the geometric mean and the bootstrap.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The number of resamples of a bootstrap.
const RESAMPLES: usize = 1_000;

/// A 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidenceInterval {
    /// The lower end; 2.5 % lie below.
    pub low: f64,
    /// The upper end; 2.5 % lie above.
    pub high: f64,
}

/// The geometric mean; `None` without values, or if a value is not positive.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sum = 0.0;
    let mut number = 0_u32;
    for value in values {
        if value.is_nan() || value <= 0.0 {
            return None;
        }
        sum += value.ln();
        number += 1;
    }
    (number > 0).then(|| (sum / f64::from(number)).exp())
}

/// The 95 % interval of a statistic over `groups` groups (days), which are drawn again with
/// replacement. The statistic receives the number of times that each group was drawn; draws for
/// which it has no value are skipped.
pub(super) fn bootstrap(
    seed: u64,
    groups: usize,
    statistic: impl Fn(&[u32]) -> Option<f64>,
) -> Option<ConfidenceInterval> {
    if groups < 2 {
        return None;
    }

    let mut stream = ChaCha8Rng::seed_from_u64(seed ^ 0x626f_6f74_7374_7261);
    let mut drawn = vec![0_u32; groups];
    let mut found = Vec::with_capacity(RESAMPLES);

    for _ in 0..RESAMPLES {
        drawn.fill(0);
        for _ in 0..groups {
            drawn[((u128::from(stream.next_u64()) * groups as u128) >> 64) as usize] += 1;
        }
        found.extend(statistic(&drawn));
    }

    found.sort_by(f64::total_cmp);
    let at = |part: f64| {
        found
            .get((part * found.len().saturating_sub(1) as f64).round() as usize)
            .copied()
    };

    Some(ConfidenceInterval {
        low: at(0.025)?,
        high: at(0.975)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_geometric_mean_is_that_of_the_logarithms() {
        assert!((geometric_mean([1.0, 4.0]).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
        assert_eq!(geometric_mean([1.0, 0.0]), None);
    }

    #[test]
    fn an_interval_of_a_mean_is_as_wide_as_its_standard_error_says() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let mean = |drawn: &[u32]| {
            let weighted = values
                .iter()
                .zip(drawn)
                .map(|(value, times)| value * f64::from(*times));
            Some(weighted.sum::<f64>() / 100.0)
        };
        let found = bootstrap(1, values.len(), mean).unwrap();

        // Mean 49.5, standard error 28.9 / 10.
        assert!(
            (found.low - 43.8).abs() < 1.0 && (found.high - 55.2).abs() < 1.0,
            "{found:?}"
        );
        assert_eq!(Some(found), bootstrap(1, values.len(), mean));
        assert_eq!(bootstrap(1, 1, mean), None);
    }
}
