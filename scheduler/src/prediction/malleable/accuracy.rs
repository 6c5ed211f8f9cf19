//! The errors of predicted waits, and the corrections from them: the bias on a logarithmic scale,
//! and the spread around it. The predictors live in `wait`.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::prediction::predict::next_quantile;

/// The part of its weight that each prediction loses with each later one.
const FADING: f64 = 1e-3;
/// The weight of the prior without a bias, in predictions.
const PRIOR: f64 = 20.0;
/// The least slope of a correction, so that a longer prediction stays a longer one.
const FLATTEST: f64 = 0.05;

/// The bias of predictions: a line through the logarithms of predicted and real waits (section
/// 5.4), with fading weights, and drawn to the identity while little is known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Bias {
    count: f64,
    /// Sums over x = ln predicted and r = ln came - ln predicted.
    x: f64,
    r: f64,
    xx: f64,
    xr: f64,
}

impl Bias {
    /// Notes a predicted wait and the real one, in seconds; each counts as at least one second.
    pub fn observe(&mut self, predicted_s: f64, came_s: f64) {
        let x = predicted_s.max(1.0).ln();
        let y = came_s.max(1.0).ln();
        if !(x.is_finite() && y.is_finite()) {
            return;
        }

        for sum in [
            &mut self.count,
            &mut self.x,
            &mut self.r,
            &mut self.xx,
            &mut self.xr,
        ] {
            *sum *= 1.0 - FADING;
        }

        let r = y - x;
        self.count += 1.0;
        self.x += x;
        self.r += r;
        self.xx += x * x;
        self.xr += x * r;
    }

    /// Returns the intercept and slope of the line that corrects a prediction's natural logarithm.
    pub fn line(&self) -> (f64, f64) {
        let n = self.count + PRIOR;
        let xx = self.xx + PRIOR;
        let below = n * xx - self.x * self.x;
        let tilt = (n * self.xr - self.x * self.r) / below;
        let intercept = (xx * self.r - self.x * self.xr) / below;
        (intercept, (1.0 + tilt).max(FLATTEST))
    }
}

/// Corrects a prediction by a line, in seconds; a wait of 0 stays 0.
pub(crate) fn corrected_s((intercept, slope): (f64, f64), predicted_s: f64) -> f64 {
    if predicted_s <= 0.0 {
        0.0
    } else {
        (intercept + slope * predicted_s.ln()).exp()
    }
}

/// Predictions for one waiting gang, kept until they can be compared with the real waits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pending {
    /// Number of hosts, predicted wait (in seconds), and time of the prediction.
    told: Vec<(u32, f64, f64)>,
}

impl Pending {
    /// Notes that `hosts` hosts were predicted to be free in `predicted_s` seconds. Only the first
    /// prediction for each number of hosts counts; returns whether this was the first.
    pub fn told(&mut self, hosts: u32, predicted_s: f64, now_s: f64) -> bool {
        let first = self.told.iter().all(|(known, ..)| *known != hosts);
        if first {
            self.told.push((hosts, predicted_s, now_s));
        }
        first
    }

    /// Returns the predictions that can be judged now that `free` hosts are free, each with the
    /// real wait.
    pub fn came(&mut self, free: u32, now_s: f64) -> Vec<(f64, f64)> {
        let judged = self.told.extract_if(.., |(hosts, ..)| *hosts <= free);
        let came = judged.map(|(_, predicted_s, then_s)| (predicted_s, now_s - then_s));
        came.collect()
    }
}

/// The number of errors remembered of each kind of prediction; `FEWEST` must be known before they
/// count.
const REMEMBERED: usize = 400;
const FEWEST: usize = 20;
/// The begins of the kinds of predictions, in seconds.
const KINDS_S: [f64; 6] = [0.0, 10.0, 120.0, 1_200.0, 7_200.0, 28_800.0];
/// The ends of the error's logarithm that are assumed beforehand.
const UNKNOWN: (f64, f64) = (-2.0, 1.5);

/// The spread of real waits around predictions, by the length of the prediction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Margin {
    kinds: [VecDeque<f32>; KINDS_S.len()],
}

impl Margin {
    /// Notes a predicted wait and the real one, in seconds.
    pub fn observe(&mut self, predicted_s: f64, came_s: f64) {
        let error = ln_1p(came_s) - ln_1p(predicted_s);
        if let Some(kind) = self
            .kinds
            .get_mut(kind(predicted_s))
            .filter(|_| error.is_finite())
        {
            if kind.len() == REMEMBERED {
                kind.pop_front();
            }
            kind.push_back(error as f32);
        }
    }

    /// Returns the quantile `part` of real waits for this prediction, in seconds.
    pub fn quantile_s(&self, predicted_s: f64, part: f64) -> f64 {
        let mut errors: Vec<f32> = self
            .kinds
            .get(kind(predicted_s))
            .into_iter()
            .flatten()
            .copied()
            .collect();
        if errors.len() < FEWEST {
            errors = self.kinds.iter().flatten().copied().collect();
        }

        errors.sort_by(f32::total_cmp);
        let error = if errors.len() < FEWEST {
            UNKNOWN.0 + part * (UNKNOWN.1 - UNKNOWN.0)
        } else {
            next_quantile(&errors, part)
        };

        ((ln_1p(predicted_s) + error).exp() - 1.0).max(0.0)
    }
}

fn ln_1p(seconds: f64) -> f64 {
    seconds.max(0.0).ln_1p()
}

fn kind(predicted_s: f64) -> usize {
    KINDS_S
        .partition_point(|from| *from <= predicted_s.max(0.0))
        .saturating_sub(1)
}

/// The quality of predictions: on a logarithmic scale, without immediate ones, as in the paper's
/// Figure 5; and the error in seconds of all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// The number of predictions.
    pub count: usize,
    /// The intercept of the trend: ln came = intercept + slope ln predicted (least squares). A
    /// perfect predictor has 0, and slope 1.
    pub intercept: f64,
    /// The slope of the trend.
    pub slope: f64,
    /// The coefficient of correlation of both logarithms.
    pub correlation: f64,
    /// The median of the absolute error, in seconds.
    pub median_error_s: f64,
    /// The median of came / predicted.
    pub median_ratio: f64,
}

impl Accuracy {
    /// Evaluates these pairs of predicted and real waits, in seconds; returns `None` without pairs.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let mut errors: Vec<f64> = pairs
            .iter()
            .map(|(predicted, came)| (came - predicted).abs())
            .collect();
        errors.sort_by(f64::total_cmp);

        let median_error_s = median(&errors)?;
        let logs: Vec<(f64, f64)> = pairs
            .iter()
            .filter(|(predicted, came)| *predicted > 0.0 && *came > 0.0)
            .map(|(predicted, came)| (predicted.ln(), came.ln()))
            .collect();
        let mut ratios: Vec<f64> = logs.iter().map(|(x, y)| y - x).collect();
        ratios.sort_by(f64::total_cmp);

        let count = logs.len() as f64;
        let (mx, my) = logs.iter().fold((0.0, 0.0), |sum, (x, y)| {
            (sum.0 + x / count, sum.1 + y / count)
        });
        let mut xx = 0.0;
        let mut yy = 0.0;
        let mut xy = 0.0;

        for (x, y) in &logs {
            xx += (x - mx).powi(2);
            yy += (y - my).powi(2);
            xy += (x - mx) * (y - my);
        }

        let slope = xy / xx;
        Some(Accuracy {
            count: pairs.len(),
            intercept: my - slope * mx,
            slope,
            correlation: xy / (xx * yy).sqrt(),
            median_error_s,
            median_ratio: median(&ratios).map_or(f64::NAN, f64::exp),
        })
    }
}

fn median(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some((sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bias_is_learned_and_corrected() {
        let mut bias = Bias::default();
        assert_eq!(bias.line(), (0.0, 1.0));

        let truth = |predicted: f64| corrected_s((1.7, 0.6), predicted);
        for number in 0..4_000 {
            let predicted = 2.0_f64.powf(f64::from(number % 15));
            bias.observe(predicted, truth(predicted).max(1.0));
        }

        let (intercept, slope) = bias.line();
        assert!(
            (intercept - 1.7).abs() < 0.15 && (slope - 0.6).abs() < 0.03,
            "{intercept} {slope}"
        );
        assert_eq!(corrected_s((1.7, 0.6), 0.0), 0.0);
    }

    #[test]
    fn margins_hold_as_many_as_they_say() {
        let mut margin = Margin::default();
        assert!(margin.quantile_s(100.0, 0.1) < 100.0 && margin.quantile_s(100.0, 0.9) > 100.0);
        for number in 1..=399 {
            margin.observe(300.0, f64::from(number));
        }
        let held = (1..=399).filter(|came| {
            let came = f64::from(*came);
            (margin.quantile_s(300.0, 0.1)..=margin.quantile_s(300.0, 0.9)).contains(&came)
        });
        let held = held.count();
        assert!((319..=321).contains(&held), "{held}");
        assert_eq!(margin.kinds.iter().map(VecDeque::len).sum::<usize>(), 399);
    }

    #[test]
    fn a_perfect_predictor_has_slope_and_correlation_one() {
        let pairs: Vec<(f64, f64)> = (1..50).map(|n| (f64::from(n), f64::from(n))).collect();
        let found = Accuracy::of(&pairs).unwrap();
        assert!((found.slope - 1.0).abs() < 1e-12 && found.intercept.abs() < 1e-12);
        assert!((found.correlation - 1.0).abs() < 1e-12);
        assert_eq!(
            (found.count, found.median_error_s, found.median_ratio),
            (49, 0.0, 1.0)
        );
        assert_eq!(Accuracy::of(&[]), None);
    }
}
