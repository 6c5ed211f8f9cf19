//! What a job's own runs teach about the limits of its next ones. What is not here: the dynamic programmes
//! (`reservation`), and what becomes of a task that was killed at its limit.

use crate::policy::Limits;
use crate::reservation::{Grid, Learned, Run, limit_after, optimal};

/// From so many runs on there are limits.
const FIRST: u64 = 5;
/// So many runs are kept, the newest ones.
const KEPT: usize = 200;
/// Limits are made anew when there are twice as many runs, and then whenever so many are new.
const FRESH: u64 = 100;
/// Points of the grid, without small work and with.
const POINTS: usize = 200;
const ADAPTIVE_POINTS: usize = 46;

/// Run times of one job's tasks, in seconds on a host of speed 1, and the limits that follow.
#[derive(Debug, Default)]
pub(crate) struct Lessons {
    runs: Vec<Run>,
    seen: u64,
    learned_at: u64,
    limits: Vec<f64>,
}

impl Lessons {
    /// A task took so long, or was killed then.
    pub(crate) fn observe(&mut self, run: Run, answer: Limits) {
        if self.runs.len() == KEPT {
            self.runs.remove(0);
        }
        self.runs.push(run);
        self.seen += 1;
        let due = (2 * self.learned_at).clamp(FIRST, self.learned_at.max(FIRST) + FRESH);
        if self.seen >= due
            && let Some(law) = Learned::expected(&self.runs)
        {
            let zeta = answer.zeta();
            let points = if zeta > 0.0 { ADAPTIVE_POINTS } else { POINTS };
            self.limits = optimal(&Grid::of(&law, points), zeta).limits;
            self.learned_at = self.seen;
        }
    }

    /// The limit of an attempt at a task that was killed after this much work: the next one of the sequence, or once that
    /// is at its end, doubled. None while too few runs are known.
    pub(crate) fn limit_s(&self, killed_s: f64) -> Option<f64> {
        let last = *self.limits.last()?;
        // A host's clock and its speed are not that exact.
        let more = |limit: &&f64| **limit > killed_s * 1.001;
        let next = self.limits.iter().find(more).copied();
        Some(next.unwrap_or_else(|| limit_after(&[last.max(killed_s)], 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taught(runs: &[f64]) -> Lessons {
        let mut lessons = Lessons::default();
        runs.iter().for_each(|run| lessons.observe(Run::done(*run), Limits::TimeOptimal));
        lessons
    }

    #[test]
    fn limits_come_with_the_fifth_run_and_go_up_for_who_was_killed() {
        assert_eq!(taught(&[10.0, 11.0, 12.0, 60.0]).limit_s(0.0), None);
        let lessons = taught(&[10.0, 11.0, 12.0, 60.0, 11.5]);
        let first = lessons.limit_s(0.0).unwrap();
        assert!((12.0..40.0).contains(&first), "{first}");
        let second = lessons.limit_s(first).unwrap();
        assert!(second >= 60.0, "{second}");
        assert_eq!(lessons.limit_s(1_000.0), Some(2_000.0));
    }

    #[test]
    fn what_was_learned_is_looked_at_again_when_there_is_more() {
        let mut lessons = taught(&[10.0; 5]);
        let before = lessons.limit_s(0.0).unwrap();
        (0..400).for_each(|_| lessons.observe(Run::done(100.0), Limits::TimeOptimal));
        assert!(before < 20.0 && lessons.limit_s(0.0).unwrap() >= 99.0);
        assert!(lessons.runs.len() <= KEPT);
    }
}
