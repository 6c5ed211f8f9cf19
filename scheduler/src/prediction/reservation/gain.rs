//! Speculative backfilling (Gainaru et al., section 4.3): the task that makes the most of a window
//! that is shorter than the limit it asks for. The law of windows lives in `windows`, the calendar
//! with the gaps in `crate::deadline`.

use super::law::RunTimes;

/// An interval in which some processors are free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessorGap {
    /// The length of the interval.
    pub length: f64,
    /// The number of free processors.
    pub processors: f64,
}

/// A task that may be put into a gap.
#[derive(Debug, Clone, Copy)]
pub struct GapCandidate<'a, L> {
    /// The law of its run time.
    pub law: &'a L,
    /// The longest limit at which it was killed: it takes longer.
    pub failed: f64,
    /// The number of processors that it needs.
    pub processors: f64,
}

/// Returns G: the part of a gap that is expected to be of use to this candidate, which is killed at
/// the gap's end. 0 where it does not fit, or cannot be done by then. The paper's section 4.3: with
/// p of q processors, a gap of length d, a run time of at most b with density f and distribution F,
/// and a' the longest limit at which the candidate was killed,
///
/// ```text
/// G = p/q  *  integral from a' to min(d, b) of  t/d  *  f(t) / (1 - F(a'))  dt
/// ```
///
/// A run that takes longer than the gap is of no use, as in the paper: its work is lost.
pub fn gain<L: RunTimes>(gap: ProcessorGap, candidate: &GapCandidate<'_, L>) -> f64 {
    if candidate.processors > gap.processors || gap.length <= 0.0 {
        return 0.0;
    }
    let left = 1.0 - candidate.law.cdf(candidate.failed);
    if left <= 0.0 {
        return 0.0;
    }
    let useful = candidate.law.partial_mean(candidate.failed, gap.length);
    candidate.processors / gap.processors * useful / gap.length / left
}

/// The number of steps into which a window of random end is divided.
const STEPS: u32 = 256;

/// A window of random length, with a law of run times: the form of [`gain`] for all candidates of
/// that law. With S(t) the probability that the window lasts for t, and h the longest time that is
/// asked of it,
///
/// ```text
/// G = p/q  *  integral from a' to min(h, b) of  t S(t)  *  f(t) / (1 - F(a'))  dt   /   integral from 0 to h of S(t) dt
/// ```
///
/// which is the expected use over the expected length, and the paper's G where the window surely
/// lasts for h.
#[derive(Debug, Clone)]
pub struct Window<'a, L> {
    law: &'a L,
    /// The integral of S.
    length: f64,
    /// The longest run time that is of use.
    most: f64,
    /// S in the middle of each step; `useful` is the integral of use from each step on.
    open: Vec<f64>,
    useful: Vec<f64>,
}

impl<'a, L: RunTimes> Window<'a, L> {
    /// Creates a window for which `open` gives the probability of each length; no candidate asks
    /// for more than `horizon`.
    pub fn new(open: &dyn Fn(f64) -> f64, horizon: f64, law: &'a L) -> Self {
        let length = steps(horizon)
            .map(|(from, to)| open((from + to) / 2.0) * (to - from))
            .sum();
        let most = horizon.min(law.support().1);
        let opens: Vec<f64> = steps(most)
            .map(|(from, to)| open((from + to) / 2.0))
            .collect();
        let mut useful: Vec<f64> = steps(most)
            .zip(&opens)
            .map(|((from, to), open)| law.partial_mean(from, to) * open)
            .collect();
        useful.push(0.0);
        for step in (0..opens.len()).rev() {
            useful[step] += useful[step + 1];
        }

        Self {
            law,
            length,
            most,
            open: opens,
            useful,
        }
    }

    /// Returns the gain of a candidate that was killed at this limit and needs this part of the
    /// window's processors.
    pub fn gain(&self, failed: f64, part: f64) -> f64 {
        let (failed, left) = (failed.max(0.0), 1.0 - self.law.cdf(failed));
        if part > 1.0
            || left <= 0.0
            || self.length.is_nan()
            || self.length <= 0.0
            || failed >= self.most
        {
            return 0.0;
        }

        let step = ((failed / self.most * f64::from(STEPS)) as usize).min(self.open.len() - 1);
        let end = self.most * (step + 1) as f64 / f64::from(STEPS);
        let useful = self.law.partial_mean(failed, end) * self.open[step] + self.useful[step + 1];
        part * useful / self.length / left
    }
}

fn steps(most: f64) -> impl Iterator<Item = (f64, f64)> {
    let at = move |step: u32| most * f64::from(step) / f64::from(STEPS);
    (0..STEPS).map(move |step| (at(step), at(step + 1)))
}

/// Chooses the candidate of the largest gain for a gap, among equals the first; `None` if none has
/// any. Returns its index and the gain.
pub fn fill<L: RunTimes>(
    gap: ProcessorGap,
    candidates: &[GapCandidate<'_, L>],
) -> Option<(usize, f64)> {
    candidates
        .iter()
        .map(|candidate| gain(gap, candidate))
        .enumerate()
        .filter(|(_, gain)| *gain > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
}
