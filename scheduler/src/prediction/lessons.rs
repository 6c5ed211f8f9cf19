//! The limits of the next attempts, learned from runs. The dynamic programmes live in
//! `reservation`; the runs of each user and program in `runs`.

use crate::prediction::reservation::{
    LearnedLaw, ObservedRun, RunTimeGrid, Sequence, limit_after, optimal,
};
use crate::prediction::runs::note;

/// The number of runs from which on there are limits.
pub const FIRST_RUNS: u64 = 5;
/// The number of runs that are kept, the newest ones.
const KEPT: usize = 200;
/// Limits are computed anew when the number of runs has doubled, and later after every `FRESH`
/// runs.
const FRESH: u64 = 100;
/// The number of grid points without small work; `ADAPTIVE_POINTS` is that with it.
const POINTS: usize = 200;
const ADAPTIVE_POINTS: usize = 46;

/// Run times of similar tasks, in seconds on a host of speed 1, and the limits learned from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lessons {
    runs: Vec<ObservedRun>,
    seen: u64,
    learned_at: u64,
    zeta: f64,
    /// The law of the next runs; `sequence` holds the limits that are optimal for it.
    law: Option<LearnedLaw>,
    sequence: Option<Sequence>,
}

/// Learned limits, with the numbers that they are learned from. Times are in seconds on a host of
/// speed 1.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedLimits {
    /// The number of known runs.
    pub runs: u64,
    /// Those of them that were killed.
    pub killed: u64,
    /// The rate of small work that fills gaps, per processor.
    pub zeta: f64,
    /// The limits; `None` while too few runs are known.
    pub sequence: Option<Sequence>,
}

impl Lessons {
    /// Learns from these runs, oldest first, with small work at the rate `zeta`.
    pub(crate) fn of(runs: &[ObservedRun], zeta: f64) -> Self {
        let mut lessons = Lessons {
            runs: runs.to_vec(),
            seen: runs.len() as u64,
            ..Lessons::default()
        };
        lessons.learn(zeta);
        lessons
    }

    /// Notes a run, done or killed, of a task of which an earlier attempt had been killed after
    /// `killed_s` (0 where none was).
    pub(crate) fn observe(&mut self, run: ObservedRun, killed_s: f64, zeta: f64) {
        note(&mut self.runs, KEPT, run, killed_s);
        self.seen += 1;
        let due = (2 * self.learned_at).clamp(FIRST_RUNS, self.learned_at.max(FIRST_RUNS) + FRESH);
        if self.seen >= due {
            self.learn(zeta);
        }
    }

    fn learn(&mut self, zeta: f64) {
        if (self.runs.len() as u64) < FIRST_RUNS {
            return;
        }
        if let Some(law) = LearnedLaw::expected(&self.runs) {
            let points = if zeta > 0.0 { ADAPTIVE_POINTS } else { POINTS };
            self.sequence = Some(optimal(&RunTimeGrid::of(&law, points), zeta));
            self.learned_at = self.seen;
            self.zeta = zeta;
            self.law = Some(law);
        }
    }

    /// Returns the law of the next runs; `None` while too few are known.
    pub(crate) fn law(&self) -> Option<&LearnedLaw> {
        self.law.as_ref()
    }

    /// Returns the limits; `None` while too few runs are known.
    pub(crate) fn sequence(&self) -> Option<&Sequence> {
        self.sequence.as_ref()
    }

    /// Returns the limit of an attempt at a task that was killed after this much work: the next one
    /// of the sequence, or past its end the last one doubled. `None` while too few runs are known.
    pub(crate) fn limit_s(&self, killed_s: f64) -> Option<f64> {
        let limits = &self.sequence.as_ref()?.limits;
        let last = *limits.last()?;
        // The clock and the speed of a host are not exact: limits within 0.1 % count as reached.
        let more = |limit: &&f64| **limit > killed_s * 1.001;
        let next = limits.iter().find(more).copied();
        Some(next.unwrap_or_else(|| limit_after(&[last.max(killed_s)], 1)))
    }

    /// Returns the limits in the form that users are shown.
    pub(crate) fn told(&self) -> LearnedLimits {
        LearnedLimits {
            runs: self.runs.len() as u64,
            killed: self.runs.iter().filter(|run| !run.done).count() as u64,
            zeta: self.zeta,
            sequence: self.sequence.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taught(runs: &[f64]) -> Lessons {
        let mut lessons = Lessons::default();
        runs.iter()
            .for_each(|run| lessons.observe(ObservedRun::done(*run), 0.0, 0.0));
        lessons
    }

    #[test]
    fn limits_start_at_the_fifth_run_and_rise_after_a_kill() {
        assert_eq!(taught(&[10.0, 11.0, 12.0, 60.0]).limit_s(0.0), None);
        let lessons = taught(&[10.0, 11.0, 12.0, 60.0, 11.5]);
        let first = lessons.limit_s(0.0).unwrap();
        assert!((12.0..40.0).contains(&first), "{first}");
        let second = lessons.limit_s(first).unwrap();
        assert!(second >= 60.0, "{second}");
        assert_eq!(lessons.limit_s(1_000.0), Some(2_000.0));
    }

    #[test]
    fn learned_limits_are_revised_after_more_runs() {
        let mut lessons = taught(&[10.0; 5]);
        let before = lessons.limit_s(0.0).unwrap();
        (0..400).for_each(|_| lessons.observe(ObservedRun::done(100.0), 0.0, 0.0));
        assert!(before < 20.0 && lessons.limit_s(0.0).unwrap() >= 99.0);
        assert!(lessons.runs.len() <= KEPT);
    }

    #[test]
    fn past_runs_teach_the_same_limits_at_once_as_one_by_one() {
        let runs: Vec<ObservedRun> = [10.0, 11.0, 12.0, 60.0, 11.5]
            .map(ObservedRun::done)
            .to_vec();
        assert_eq!(
            Lessons::of(&runs, 0.0).limit_s(0.0),
            taught(&[10.0, 11.0, 12.0, 60.0, 11.5]).limit_s(0.0)
        );
        assert_eq!(Lessons::of(&runs[..4], 0.0).limit_s(0.0), None);
        let told = Lessons::of(&runs, 0.3).told();
        assert_eq!((told.runs, told.killed, told.zeta), (5, 0, 0.3));
    }
}
