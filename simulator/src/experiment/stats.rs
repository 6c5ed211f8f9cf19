//! The few statistics that results need: the geometric mean, Student's t and the bootstrap.

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

/// Half of the width of the 95 % interval of the mean of these values, by Student's t; `None` with
/// fewer than two values.
pub fn half_width(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    let degrees = values.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>();
    Some(student_t(degrees) * (squares / degrees as f64 / count).sqrt())
}

/// The quantile 0.975 of Student's t with this many degrees of freedom.
fn student_t(degrees: usize) -> f64 {
    const FEW: [f64; 9] = [
        12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004,
        2.262_157,
    ];
    /// The same quantile of the normal law, and the terms that follow it in the expansion by one over
    /// the degrees of freedom (Abramowitz and Stegun, 26.7.5).
    const TERMS: [f64; 5] = [1.959_964, 2.372_271, 2.822_499, 2.555_850, 1.589_534];

    let more = || {
        let inverse = (degrees as f64).recip();
        TERMS
            .iter()
            .rev()
            .fold(0.0, |sum, term| sum * inverse + term)
    };
    let few = degrees.checked_sub(1).and_then(|at| FEW.get(at).copied());
    few.unwrap_or_else(more)
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
    fn student_t_has_its_known_quantiles() {
        for (degrees, expected) in [
            (1, 12.706_205),
            (2, 4.302_653),
            (9, 2.262_157),
            (10, 2.228_139),
            (11, 2.200_985),
            (30, 2.042_272),
            (49, 2.009_575),
            (1_000_000, 1.959_966),
        ] {
            let found = student_t(degrees);
            assert!((found - expected).abs() < 2e-5, "{degrees}: {found}");
        }
    }

    #[test]
    fn an_interval_of_few_values_is_wider_and_of_one_there_is_none() {
        // Standard deviation 1, standard error 1 / sqrt(3).
        let three = half_width([1.0, 2.0, 3.0]).unwrap();
        assert!((three - 4.302_653 / 3.0_f64.sqrt()).abs() < 1e-6, "{three}");
        assert_eq!((half_width([1.0]), half_width([])), (None, None));
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
