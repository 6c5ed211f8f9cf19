//! Laws of lifetimes learned from observations: per program, from ended and running runs (Kaplan
//! and Meier); where a program is little known, from all programs together; and beyond that from a
//! uniform-log law. The observations come from `Foresight`.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::lifetime::{Lifetime, UniformLog};
use crate::collections::heard::Heard;
use crate::prediction::lessons::FIRST_RUNS;
use crate::prediction::reservation::{ObservedRun, product_limit};

/// The number of runs remembered of a program, of all programs together (`POOLED`), and the number
/// of programs.
const REMEMBERED: usize = 256;
const POOLED: usize = 1_024;
const PROGRAMS: usize = 1_000;
/// The weight of the fallback law against a curve, in runs that reached the age.
const PRIOR: f64 = 5.0;
/// The number of runs from which a uniform-log law is fitted to them.
const ENOUGH: usize = 50;
/// A life older than every known one ends before this many times its age.
const AGES: f64 = 1_000.0;
/// No run is expected to end before the shortest one divided by this.
const SHORTER: f64 = 2.0;

/// The survival function of runs, by age.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Survival {
    /// Ages at which runs ended, rising, with the part that goes on after them.
    points: Vec<(f64, f64)>,
    /// The time for which each run was observed, rising.
    seen: Vec<f64>,
}

impl Survival {
    /// Estimates the curve of these runs; `None` without runs, or where all took no time.
    pub(super) fn of(runs: &[ObservedRun]) -> Option<Self> {
        let points = product_limit(runs)?
            .into_iter()
            .map(|(time, upto)| (time, 1.0 - upto))
            .collect();
        let mut seen: Vec<f64> = runs.iter().map(|run| run.time).collect();
        seen.sort_by(f64::total_cmp);
        Some(Self { points, seen })
    }

    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.points.iter().copied()
    }

    /// Returns the part that goes on at this age, interpolated between the ages at which runs
    /// ended, linearly in the logarithm of time.
    fn alive(&self, age_s: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 <= age_s);
        let Some(next) = self.points.get(after) else {
            return self.points.last().map_or(1.0, |point| point.1);
        };
        let before = match after.checked_sub(1) {
            Some(at) => self.points[at],
            None => (next.0 / SHORTER, 1.0),
        };
        if age_s <= before.0 || before.0 <= 0.0 {
            return before.1;
        }

        let part = (age_s / before.0).ln() / (next.0 / before.0).ln();
        before.1 + part * (next.1 - before.1)
    }

    /// Returns the number of runs that were observed at this age.
    fn watched(&self, age_s: f64) -> f64 {
        (self.seen.len() - self.seen.partition_point(|time| *time < age_s)) as f64
    }

    /// Returns the longest time for which a run was observed.
    fn last_s(&self) -> f64 {
        self.seen.last().copied().unwrap_or(0.0)
    }

    /// Returns the probability that a life ends within `more_s`, by this curve and `otherwise`, the
    /// same probability of the fallback law.
    fn ended(&self, age_s: f64, more_s: f64, otherwise: &dyn Fn(f64, f64) -> f64) -> f64 {
        let watched = self.watched(age_s);
        let alive = self.alive(age_s);
        let unknown = otherwise(age_s, more_s);
        if watched <= 0.0 || alive <= 0.0 {
            return unknown;
        }

        let mut goes_on = self.alive(age_s + more_s) / alive;
        // Beyond the longest observation the fallback law decides.
        let beyond_s = age_s + more_s - self.last_s();
        if beyond_s > 0.0 && goes_on > 0.0 {
            goes_on *= 1.0 - otherwise(self.last_s(), beyond_s);
        }

        (watched * (1.0 - goes_on) + PRIOR * unknown) / (watched + PRIOR)
    }
}

/// The observed lifetimes, by program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Lives {
    programs: Heard<String, SeenRuns>,
    all: SeenRuns,
}

/// Runs of one program, in seconds, each with whether it was done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct SeenRuns {
    latest: VecDeque<(f32, bool)>,
}

impl SeenRuns {
    fn note(&mut self, run: ObservedRun, most: usize) {
        if self.latest.len() >= most {
            self.latest.pop_front();
        }
        self.latest.push_back((run.time as f32, run.done));
    }

    /// Returns its runs, with those that are still going on.
    fn runs(&self, running_s: &[f64]) -> Vec<ObservedRun> {
        let known = self.latest.iter().map(|(time, done)| ObservedRun {
            time: f64::from(*time),
            done: *done,
        });
        known
            .chain(running_s.iter().map(|age_s| ObservedRun::cut(*age_s)))
            .collect()
    }
}

impl Lives {
    /// Notes a run of a program that ended, or was no longer observed. Runs that took no time are
    /// left out.
    pub fn observe(&mut self, program: &str, run: ObservedRun) {
        if !(run.time.is_finite() && run.time > 0.0) {
            return;
        }
        self.all.note(run, POOLED);
        self.programs
            .hear(program, PROGRAMS, |seen| seen.note(run, REMEMBERED));
    }

    /// Returns the number of runs observed, of all programs.
    pub fn observed(&self) -> u64 {
        self.programs.observed()
    }

    /// Whether enough runs of a program were observed for a law of its own.
    pub fn knows(&self, program: &str) -> bool {
        let seen = self.programs.get(program);
        seen.is_some_and(|seen| seen.latest.len() as u64 >= FIRST_RUNS)
    }

    /// Returns the law of a program with running runs of these ages (in seconds); `pooled` is that
    /// of all programs.
    pub fn law(&self, pooled: &LearnedLives, program: &str, running_s: &[f64]) -> LearnedLives {
        let own = self
            .programs
            .get(program)
            .and_then(|seen| Survival::of(&seen.runs(running_s)));
        LearnedLives {
            own,
            ..pooled.clone()
        }
    }

    /// Returns the law of an unknown program.
    pub fn pooled(&self) -> LearnedLives {
        let runs = self.all.runs(&[]);
        let fitted = UniformLog::fitted(&runs).filter(|_| runs.len() >= ENOUGH);
        let beyond = fitted.unwrap_or(UniformLog::PATIENT);
        LearnedLives {
            own: None,
            pooled: Survival::of(&runs).map(Arc::new),
            beyond,
        }
    }
}

/// A learned law: the program's own, that of all programs, and the one beyond.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedLives {
    own: Option<Survival>,
    pooled: Option<Arc<Survival>>,
    beyond: UniformLog,
}

/// Returns the probability that a life older than every law knows ends within `more_s`: its rest
/// has about its age as the median, and ends before [`AGES`] times its age.
fn as_long_again(age_s: f64, more_s: f64) -> f64 {
    if more_s <= 0.0 {
        0.0
    } else {
        ((1.0 + 1.0 / AGES) * more_s / (age_s + more_s)).min(1.0)
    }
}

impl LearnedLives {
    fn beyond(&self, age_s: f64, more_s: f64) -> f64 {
        // A life close to the end of the law may still go on.
        if age_s >= 0.9 * self.beyond.most_s() {
            as_long_again(age_s, more_s)
        } else {
            self.beyond.ended(age_s, more_s)
        }
    }

    fn pooled(&self, age_s: f64, more_s: f64) -> f64 {
        let beyond = |age_s: f64, more_s: f64| self.beyond(age_s, more_s);
        self.pooled.as_ref().map_or_else(
            || beyond(age_s, more_s),
            |curve| curve.ended(age_s, more_s, &beyond),
        )
    }
}

impl Lifetime for LearnedLives {
    fn ended(&self, age_s: f64, more_s: f64) -> f64 {
        let pooled = |age_s: f64, more_s: f64| self.pooled(age_s, more_s);
        let ended = self.own.as_ref().map_or_else(
            || pooled(age_s, more_s),
            |own| own.ended(age_s, more_s, &pooled),
        );
        ended.clamp(0.0, 1.0)
    }

    fn longest_s(&self, age_s: f64) -> f64 {
        let own = self.own.as_ref().map_or(0.0, Survival::last_s);
        let known = self
            .pooled
            .as_deref()
            .map_or(own, Survival::last_s)
            .max(own)
            .max(age_s);
        ((AGES + 1.0) * known).max(self.beyond.most_s())
    }
}
