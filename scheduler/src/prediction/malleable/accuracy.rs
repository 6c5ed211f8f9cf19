//! How good predictions of waits were, and what follows for the next ones: their bias on a
//! logarithmic scale, and how far from them the truth is. What is not here: the predictors.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Each prediction fades by this part with each later one.
const FADING: f64 = 1e-3;
/// So many predictions without a bias are assumed before the first one.
const PRIOR: f64 = 20.0;
/// The least slope of a correction: a longer prediction stays a longer one.
const FLATTEST: f64 = 0.05;

/// What predictions were, beside what came: a line through the logarithms of both (section 5.4),
/// faded, and drawn to the identity while little is known.
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
    /// A wait was predicted, and came; both in seconds, those below one second counted as that.
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

    /// Intercept and slope of the line that corrects a prediction's natural logarithm.
    pub fn line(&self) -> (f64, f64) {
        let n = self.count + PRIOR;
        let xx = self.xx + PRIOR;
        let below = n * xx - self.x * self.x;
        let tilt = (n * self.xr - self.x * self.r) / below;
        let intercept = (xx * self.r - self.x * self.xr) / below;
        (intercept, (1.0 + tilt).max(FLATTEST))
    }
}

/// A prediction corrected by a line, in seconds; what is immediate stays so.
pub(crate) fn corrected_s((intercept, slope): (f64, f64), predicted_s: f64) -> f64 {
    if predicted_s <= 0.0 {
        0.0
    } else {
        (intercept + slope * predicted_s.ln()).exp()
    }
}

/// Predictions of one job that holds out, until they can be compared with what came.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pending {
    /// For how many hosts, what was predicted (in seconds), and when.
    told: Vec<(u32, f64, f64)>,
}

impl Pending {
    /// So many hosts were predicted to be free in so many seconds. Only the first word on each
    /// number of hosts counts. Whether it was the first.
    pub fn told(&mut self, hosts: u32, predicted_s: f64, now_s: f64) -> bool {
        let first = self.told.iter().all(|(known, ..)| *known != hosts);
        if first {
            self.told.push((hosts, predicted_s, now_s));
        }
        first
    }

    /// So many hosts are free now: which predictions can be judged, each with what came.
    pub fn came(&mut self, free: u32, now_s: f64) -> Vec<(f64, f64)> {
        let judged = |(hosts, ..): &(u32, f64, f64)| *hosts <= free;
        let came = self
            .told
            .iter()
            .filter(|told| judged(told))
            .map(|(_, predicted_s, then_s)| (*predicted_s, now_s - then_s));
        let came = came.collect();
        self.told.retain(|told| !judged(told));
        came
    }
}

/// So many errors are remembered of each kind of prediction, and as many must be known before they
/// count.
const REMEMBERED: usize = 400;
const FEWEST: usize = 20;
/// Where kinds of predictions begin, in seconds.
const KINDS_S: [f64; 6] = [0.0, 10.0, 120.0, 1_200.0, 7_200.0, 28_800.0];
/// What is assumed of the error's logarithm before anything is known.
const UNKNOWN: (f64, f64) = (-2.0, 1.5);

/// How far the truth is from predictions, by how long they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Margin {
    kinds: [VecDeque<f32>; KINDS_S.len()],
}

impl Margin {
    /// A wait was predicted, and came; in seconds.
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

    /// Where waits lie of which this was predicted: the one that a part `part` does not exceed, in
    /// seconds.
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
            // As likely as not the next one falls between any two.
            let place =
                (part * (errors.len() + 1) as f64 - 1.0).clamp(0.0, (errors.len() - 1) as f64);
            let low = place as usize;
            let rest = place - place.floor();
            let a = f64::from(errors[low]);
            let b = f64::from(errors[(low + 1).min(errors.len() - 1)]);
            a + rest * (b - a)
        };

        ((ln_1p(predicted_s) + error).exp() - 1.0).max(0.0)
    }

    /// How many predictions could be compared with what came, of those that are remembered.
    pub fn known(&self) -> usize {
        self.kinds.iter().map(VecDeque::len).sum()
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

/// How good predictions were: of those that are not immediate, on a logarithmic scale as in the
/// paper's Figure 5; and of all of them the error in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// How many there are.
    pub count: usize,
    /// The trend: ln came = intercept + slope ln predicted (least squares). A perfect predictor has
    /// 0 and 1.
    pub intercept: f64,
    /// See `intercept`.
    pub slope: f64,
    /// The coefficient of correlation of both logarithms.
    pub correlation: f64,
    /// The median of the error, in seconds, whichever its sign.
    pub median_error_s: f64,
    /// The median of came / predicted.
    pub median_ratio: f64,
}

impl Accuracy {
    /// Of these pairs of what was predicted and what came, in seconds. None of no pairs.
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
        assert_eq!(margin.known(), 399);
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
