//! Laws of lifetimes learned from what was seen: per program, over what is done and what still runs
//! (Kaplan and Meier); where too little is known of a program, from all programs together, and
//! beyond that from a uniform-log law. What is not here: who observes.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::lifetime::{Lifetime, UniformLog};
use crate::collections::heard::Heard;
use crate::prediction::reservation::{Run, product_limit};

/// So many runs of a program are remembered, so many of all together, and so many programs.
const REMEMBERED: usize = 256;
const POOLED: usize = 1_024;
const PROGRAMS: usize = 1_000;
/// A curve counts as much as what it falls back on where so many of its runs got as old.
const PRIOR: f64 = 5.0;
/// So many runs make a uniform-log law of their own.
const ENOUGH: usize = 50;
/// What is older than anything known ends before so many times its age.
const AGES: f64 = 1_000.0;
/// Before the shortest run by this factor no run is expected to end.
const SHORTER: f64 = 2.0;

/// The part of runs that is still going on, by age.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Survival {
    /// Ages at which runs ended, rising, with the part that goes on then.
    points: Vec<(f64, f64)>,
    /// How long each run was seen, rising.
    seen: Vec<f64>,
}

impl Survival {
    /// The curve of these runs; none of no runs, or where none took any time.
    pub(super) fn of(runs: &[Run]) -> Option<Self> {
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

    /// The part that goes on at this age: straight over the logarithm of time between the ages at
    /// which runs ended.
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

    /// How many runs were seen at this age.
    fn watched(&self, age_s: f64) -> f64 {
        (self.seen.len() - self.seen.partition_point(|time| *time < age_s)) as f64
    }

    /// How long the longest run was seen.
    fn last_s(&self) -> f64 {
        self.seen.last().copied().unwrap_or(0.0)
    }

    /// What this curve makes of the probability that something ends within `more_s`, where
    /// `otherwise` says the same for any age without it.
    fn ended(&self, age_s: f64, more_s: f64, otherwise: &dyn Fn(f64, f64) -> f64) -> f64 {
        let watched = self.watched(age_s);
        let alive = self.alive(age_s);
        let unknown = otherwise(age_s, more_s);
        if watched <= 0.0 || alive <= 0.0 {
            return unknown;
        }

        let mut goes_on = self.alive(age_s + more_s) / alive;
        // Of those that were not done when they were last seen nothing is known from then on.
        let beyond_s = age_s + more_s - self.last_s();
        if beyond_s > 0.0 && goes_on > 0.0 {
            goes_on *= 1.0 - otherwise(self.last_s(), beyond_s);
        }

        (watched * (1.0 - goes_on) + PRIOR * unknown) / (watched + PRIOR)
    }
}

/// What was seen of lifetimes, by program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Lives {
    programs: Heard<String, Seen>,
    all: Seen,
}

/// Runs of one program, in seconds; whether each was done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    latest: VecDeque<(f32, bool)>,
}

impl Seen {
    fn note(&mut self, run: Run, most: usize) {
        if self.latest.len() >= most {
            self.latest.pop_front();
        }
        self.latest.push_back((run.time as f32, run.done));
    }

    /// Its runs, and those that are still going on.
    fn runs(&self, running_s: &[f64]) -> Vec<Run> {
        let known = self.latest.iter().map(|(time, done)| Run {
            time: f64::from(*time),
            done: *done,
        });
        known
            .chain(running_s.iter().map(|age_s| Run::cut(*age_s)))
            .collect()
    }
}

impl Lives {
    /// A run of a program ended, or went out of sight. What took no time says nothing.
    pub fn observe(&mut self, program: &str, run: Run) {
        if !(run.time.is_finite() && run.time > 0.0) {
            return;
        }
        self.all.note(run, POOLED);
        self.programs
            .hear(program, PROGRAMS, |seen| seen.note(run, REMEMBERED));
    }

    /// How many runs were seen, of all programs.
    pub fn observed(&self) -> u64 {
        self.programs.observed()
    }

    /// The law of a program of which runs of these ages (in seconds) are going on, where `pooled`
    /// is that of all.
    pub fn law(&self, pooled: &Learned, program: &str, running_s: &[f64]) -> Learned {
        let own = self
            .programs
            .get(program)
            .and_then(|seen| Survival::of(&seen.runs(running_s)));
        Learned {
            own,
            ..pooled.clone()
        }
    }

    /// The law of a program of which nothing is known.
    pub fn pooled(&self) -> Learned {
        let runs = self.all.runs(&[]);
        let fitted = UniformLog::fitted(&runs).filter(|_| runs.len() >= ENOUGH);
        let beyond = fitted.unwrap_or(UniformLog::PATIENT);
        Learned {
            own: None,
            pooled: Survival::of(&runs).map(Arc::new),
            beyond,
        }
    }
}

/// A law that was learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    own: Option<Survival>,
    pooled: Option<Arc<Survival>>,
    beyond: UniformLog,
}

/// What is older than every law knows goes on for about as long again, in the median, and ends
/// before so many times its age.
fn as_long_again(age_s: f64, more_s: f64) -> f64 {
    if more_s <= 0.0 {
        0.0
    } else {
        ((1.0 + 1.0 / AGES) * more_s / (age_s + more_s)).min(1.0)
    }
}

impl Learned {
    fn beyond(&self, age_s: f64, more_s: f64) -> f64 {
        // Who is nearly as old as anything may still go on.
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

impl Lifetime for Learned {
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
