//! Speculative backfilling (Gainaru et al., section 4.3): which task would make the most of a window that is shorter than the
//! limit it asks for. What is not here: how long windows last (`windows`), and the calendar that they are gaps of.

use super::law::RunTimes;

/// A stretch of time in which some processors are free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// How long they are.
    pub length: f64,
    /// How many they are.
    pub processors: f64,
}

/// Who may be put into a gap.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a, L> {
    /// The law of its run time.
    pub law: &'a L,
    /// The longest limit at which it was killed: it takes longer.
    pub failed: f64,
    /// How many processors it needs.
    pub processors: f64,
}

/// G: the part of a gap that is expected to be of use to this candidate, who is killed at the gap's end. 0 where it does not
/// fit, or cannot be done by then.
pub fn gain<L: RunTimes>(gap: Gap, candidate: &Candidate<'_, L>) -> f64 {
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

/// Steps in which a window without a certain end is looked at.
const STEPS: u32 = 256;

/// The same for a window whose end is a matter of chance: `open` says how probable it is that the window lasts for so long,
/// and nothing is asked of it beyond `horizon`. Expected use by expected length.
pub fn gain_while<L: RunTimes>(
    open: &dyn Fn(f64) -> f64,
    horizon: f64,
    processors: f64,
    candidate: &Candidate<'_, L>,
) -> f64 {
    let left = 1.0 - candidate.law.cdf(candidate.failed);
    let length = steps(0.0, horizon).map(|(from, to)| open((from + to) / 2.0) * (to - from)).sum::<f64>();
    if candidate.processors > processors || left <= 0.0 || length.is_nan() || length <= 0.0 {
        return 0.0;
    }
    let (from, to) = (candidate.failed.max(0.0), horizon.min(candidate.law.support().1));
    // Of the runs in each step, the work, if the window lasts for so long.
    let part = |(from, to): (f64, f64)| candidate.law.partial_mean(from, to) * open((from + to) / 2.0);
    let useful: f64 = if to > from { steps(from, to).map(part).sum() } else { 0.0 };
    candidate.processors / processors * useful / length / left
}

fn steps(from: f64, to: f64) -> impl Iterator<Item = (f64, f64)> {
    let at = move |step: u32| from + (to - from) * f64::from(step) / f64::from(STEPS);
    (0..STEPS).map(move |step| (at(step), at(step + 1)))
}

/// Who of these is put into a window whose end is a matter of chance (see [`gain_while`]), chosen as in [`fill`].
pub fn fill_while<L: RunTimes>(
    open: &dyn Fn(f64) -> f64,
    horizon: f64,
    processors: f64,
    candidates: &[Candidate<'_, L>],
) -> Option<(usize, f64)> {
    largest(candidates.iter().map(|candidate| gain_while(open, horizon, processors, candidate)))
}

/// Who of these is put into a gap: the one of the largest gain, of equals the first; none if none has any. Says also the gain.
pub fn fill<L: RunTimes>(gap: Gap, candidates: &[Candidate<'_, L>]) -> Option<(usize, f64)> {
    largest(candidates.iter().map(|candidate| gain(gap, candidate)))
}

fn largest(gains: impl Iterator<Item = f64>) -> Option<(usize, f64)> {
    gains.enumerate().filter(|(_, gain)| *gain > 0.0).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
}
