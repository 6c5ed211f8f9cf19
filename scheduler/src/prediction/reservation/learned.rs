//! Laws of run times learned from runs, killed and running ones among them (Kaplan and Meier).
//! Named laws live in `law`.

use serde::{Deserialize, Serialize};

use super::law::RunTimes;

/// An observed run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ObservedRun {
    /// The time for which it was observed.
    pub time: f64,
    /// Whether it was done then. If not, it was killed or is still running: it would have taken
    /// longer.
    pub done: bool,
}

impl ObservedRun {
    /// Creates a run that was done after `time`.
    pub fn done(time: f64) -> Self {
        ObservedRun { time, done: true }
    }

    /// Creates a run that was not done after `time`.
    pub fn cut(time: f64) -> Self {
        ObservedRun { time, done: false }
    }
}

/// The upper bound of runs that were not done, as a multiple of the longest run.
const BEYOND: f64 = 1.5;
/// Tails count as light while the runs' standard deviation is below this part of their mean.
const LIGHT: f64 = 0.6;

/// A law of run times learned from observed runs.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedLaw {
    /// Times, rising, each with the probability of a run no longer.
    points: Vec<(f64, f64)>,
    /// Whether the probability rises evenly between points, or all at once at each.
    even: bool,
}

impl LearnedLaw {
    /// The empirical law: each run's time has its probability, and the mass of unfinished runs lies
    /// at the longest time. `None` without runs, or where all times are 0.
    pub fn observed(runs: &[ObservedRun]) -> Option<Self> {
        let mut points = product_limit(runs)?;
        if let Some(last) = points.last_mut() {
            last.1 = 1.0;
        }
        Some(Self {
            points,
            even: false,
        })
    }

    /// The predicted law of the next runs: evenly spread between the observed ones, from somewhat
    /// before the shortest one on (an average step between runs). It goes somewhat beyond the
    /// longest one where the tail is light (the next of k is longer than all of them with a
    /// probability of 1 / (k + 1), and by less the more there are), or where the longest was not
    /// done. `None` without runs, or where all times are 0.
    pub fn expected(runs: &[ObservedRun]) -> Option<Self> {
        let mut points = product_limit(runs)?;
        let (longest, mut known) = *points.last()?;
        let shortest = points.first()?.0;
        let count = runs.len() as f64;
        let mut beyond = BEYOND;
        let start = (shortest - (longest - shortest) / count).max(0.0);

        if light(runs) {
            if known >= 1.0 {
                beyond = beyond.min(1.0 + count.sqrt().recip());
            }
            let part = count / (count + 1.0);
            points.iter_mut().for_each(|point| point.1 *= part);
            known *= part;
        }

        if known < 1.0 {
            points.push((beyond * longest, 1.0));
        }

        points.splice(0..0, [(0.0, 0.0), (start, 0.0)]);
        Some(Self { points, even: true })
    }
}

impl RunTimes for LearnedLaw {
    fn support(&self) -> (f64, f64) {
        (0.0, self.points.last().map_or(0.0, |point| point.0))
    }

    fn cdf(&self, time: f64) -> f64 {
        // A grid's points are multiples of its step, and differ by rounding from the times they
        // stand for.
        let last = self.support().1;
        let upto = self
            .points
            .partition_point(|point| point.0 <= time + 1e-12 * last);
        let Some(before) = upto.checked_sub(1).and_then(|at| self.points.get(at)) else {
            return 0.0;
        };

        match self.points.get(upto) {
            Some(next) if self.even => {
                before.1 + (next.1 - before.1) * (time - before.0).max(0.0) / (next.0 - before.0)
            }
            _ => before.1,
        }
    }

    fn partial_mean(&self, from: f64, to: f64) -> f64 {
        let mut sum = 0.0;
        let mut before = (0.0, 0.0);
        for &(time, upto) in &self.points {
            if !self.even || time <= before.0 {
                if time > from && time <= to {
                    sum += time * (upto - before.1);
                }
            } else {
                let a = before.0.max(from);
                let b = time.min(to);
                if b > a {
                    sum += (upto - before.1) / (time - before.0) * (b * b - a * a) / 2.0;
                }
            }
            before = (time, upto);
        }

        sum
    }
}

/// The product-limit estimate: every time at which a run was done, and the longest time, with the
/// probability of a run no longer.
pub(crate) fn product_limit(runs: &[ObservedRun]) -> Option<Vec<(f64, f64)>> {
    let mut sorted: Vec<ObservedRun> = runs
        .iter()
        .copied()
        .filter(|run| run.time.is_finite() && run.time >= 0.0)
        .collect();

    // Among equal times the done ones first: a run that was cut off then might have gone on.
    sorted.sort_by(|a, b| a.time.total_cmp(&b.time).then(b.done.cmp(&a.done)));
    let longest = sorted.last().filter(|run| run.time > 0.0)?.time;
    let mut points = Vec::<(f64, f64)>::new();
    let mut alive = 1.0;

    let mut at = 0;
    while let Some(ObservedRun { time, .. }) = sorted.get(at).copied() {
        let alike = sorted[at..]
            .iter()
            .take_while(|run| run.time.total_cmp(&time).is_eq());
        let (all, done) = alike.fold((0, 0), |(all, done), run| {
            (all + 1, done + usize::from(run.done))
        });
        if done > 0 {
            alive *= 1.0 - done as f64 / (sorted.len() - at) as f64;
            points.push((time, 1.0 - alive));
        }
        at += all;
    }

    if points.last().is_none_or(|point| point.0 < longest) {
        points.push((longest, 1.0 - alive));
    }

    Some(points)
}

fn light(runs: &[ObservedRun]) -> bool {
    let count = runs.len() as f64;
    let mean = runs.iter().map(|run| run.time).sum::<f64>() / count;
    let variance = runs
        .iter()
        .map(|run| (run.time - mean).powi(2))
        .sum::<f64>()
        / count;
    variance.sqrt() < LIGHT * mean
}
