//! Speculative backfilling (Gainaru et al., section 4.3): which task would make the most of a
//! window that is shorter than the limit it asks for. What is not here: how long windows last
//! (`windows`), and the calendar that they are gaps of.

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

/// G: the part of a gap that is expected to be of use to this candidate, who is killed at the gap's
/// end. 0 where it does not fit, or cannot be done by then. The paper's section 4.3: with p of q
/// processors, a gap of length d, a run time of at most b with density f and distribution F, and a'
/// the longest limit at which the candidate was killed,
///
/// ```text
/// G = p/q  *  integral from a' to min(d, b) of  t/d  *  f(t) / (1 - F(a'))  dt
/// ```
///
/// A run that takes longer than the gap is of no use at all, as the paper has it: what was computed
/// is lost.
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

/// A window whose end is a matter of chance, with a law of run times: what [`gain`] becomes there
/// for each who has that law. With S(t) the probability that the window lasts for so long, and h
/// the longest time that is asked of it,
///
/// ```text
/// G = p/q  *  integral from a' to min(h, b) of  t S(t)  *  f(t) / (1 - F(a'))  dt   /   integral from 0 to h of S(t) dt
/// ```
///
/// which is the expected use by the expected length, and the paper's G where the window surely
/// lasts for h.
#[derive(Debug, Clone)]
pub struct Window<'a, L> {
    law: &'a L,
    /// The integral of S.
    length: f64,
    /// Up to where runs are of use.
    most: f64,
    /// In the middle of each step, S; and from each step on, what is of use.
    open: Vec<f64>,
    useful: Vec<f64>,
}

impl<'a, L: RunTimes> Window<'a, L> {
    /// A window of which `open` says how probable it is that it lasts for so long, and of which
    /// nothing is asked beyond `horizon`.
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

    /// What is of use to who was killed at this limit and needs this part of the window's
    /// processors.
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

/// [`Window`] for one candidate.
pub fn gain_while<L: RunTimes>(
    open: &dyn Fn(f64) -> f64,
    horizon: f64,
    processors: f64,
    candidate: &Candidate<'_, L>,
) -> f64 {
    Window::new(open, horizon, candidate.law)
        .gain(candidate.failed, candidate.processors / processors)
}

/// Who of these is put into a window whose end is a matter of chance (see [`Window`]), chosen as in
/// [`fill`].
pub fn fill_while<L: RunTimes>(
    open: &dyn Fn(f64) -> f64,
    horizon: f64,
    processors: f64,
    candidates: &[Candidate<'_, L>],
) -> Option<(usize, f64)> {
    largest(
        candidates
            .iter()
            .map(|candidate| gain_while(open, horizon, processors, candidate)),
    )
}

/// Who of these is put into a gap: the one of the largest gain, of equals the first; none if none
/// has any. Says also the gain.
pub fn fill<L: RunTimes>(gap: Gap, candidates: &[Candidate<'_, L>]) -> Option<(usize, f64)> {
    largest(candidates.iter().map(|candidate| gain(gap, candidate)))
}

fn largest(gains: impl Iterator<Item = f64>) -> Option<(usize, f64)> {
    gains
        .enumerate()
        .filter(|(_, gain)| *gain > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
}
