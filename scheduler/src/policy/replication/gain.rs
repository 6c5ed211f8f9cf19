//! Copies by expected makespan reduction, deskgrid's own rule.
//!
//! For each task that is not settled, G(x) is the probability that it is not done x seconds from now: the product over
//! its live attempts of not being done (see [`crate::laws`]), times the probability that no later copy has saved it. The
//! job is done by x with P(x), the product of 1 - G over its tasks. A copy on an idle host with law F brings the expected
//! end forward by the integral of P / (1 - G) G F. The best task for each idle host, best host first, is copied as long
//! as that gain is worth the price, which [`crate::experience::Prices`] learns so that the copies stay within their
//! budget.

use crate::experience::Curves;
use crate::laws::Law;

/// How much is copied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// Copies that a job may start, per task, on average over jobs.
    pub copies_max: f64,
}

/// Points of time at which probabilities are computed.
const POINTS: usize = 36;
/// A probability that is not told apart from 1.
const CERTAIN: f64 = 1e-6;

/// A task with live attempts.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) task: u32,
    pub(crate) laws: Vec<Law>,
    /// Whether another copy of it may start.
    pub(crate) room: bool,
}

/// What the search for copies is made from. Times are in seconds from now.
pub(crate) struct Search<'a> {
    pub(crate) curves: &'a Curves,
    pub(crate) open: Vec<Open>,
    /// From when on the end of the job can change at all.
    pub(crate) begin_s: f64,
    /// A task's time on a mean host, and on the best idle one.
    pub(crate) task_s: f64,
    pub(crate) best_s: f64,
    /// How long a loss goes unnoticed.
    pub(crate) notice_s: f64,
}

/// The search, with its probabilities at the points of time.
pub(crate) struct Gains<'a> {
    search: Search<'a>,
    step_s: f64,
    /// For each task, the probability that it is not done.
    undone: Vec<[f64; POINTS]>,
    /// The probability that all are done.
    done: [f64; POINTS],
}

impl<'a> Gains<'a> {
    pub(crate) fn new(search: Search<'a>) -> Self {
        let last = search.open.iter().flat_map(|open| &open.laws).map(|law| law.end_s).fold(0.0, f64::max);
        let end_s = last.min(8.0 * search.task_s).max(search.begin_s) + 2.0 * search.task_s;
        let step_s = (end_s - search.begin_s) / POINTS as f64;
        let mut gains = Self { step_s, undone: Vec::with_capacity(search.open.len()), done: [1.0; POINTS], search };
        gains.undone = gains.search.open.iter().map(|open| gains.undone_of(open)).collect();
        gains.multiply();
        gains
    }

    fn at_s(&self, point: usize) -> f64 {
        self.search.begin_s + (point as f64 + 0.5) * self.step_s
    }

    fn undone_of(&self, open: &Open) -> [f64; POINTS] {
        let first = open.laws.iter().map(|law| law.end_s).fold(f64::INFINITY, f64::min);
        std::array::from_fn(|point| {
            let at_s = self.at_s(point);
            let alone = |law: &Law| 1.0 - law.done_by(at_s, self.search.curves);
            (open.laws.iter().map(alone).product::<f64>() * self.unsaved(at_s, first)).min(1.0 - CERTAIN)
        })
    }

    /// The probability that no later copy of a task has saved it: certain until one could have, then falling until the
    /// task would have been missed, and vanishing beyond.
    fn unsaved(&self, at_s: f64, first_s: f64) -> f64 {
        const LEFT: f64 = 0.2;
        let Search { task_s, best_s, notice_s, .. } = self.search;
        let could_s = notice_s + best_s;
        let missed_s = first_s + could_s;
        if at_s <= could_s {
            1.0
        } else if at_s <= missed_s {
            1.0 - (1.0 - LEFT) * (at_s - could_s) / (missed_s - could_s)
        } else {
            LEFT * (-(at_s - missed_s) / (0.5 * (task_s + best_s))).exp()
        }
    }

    fn multiply(&mut self) {
        self.done = [1.0; POINTS];
        for undone in &self.undone {
            for (done, undone) in self.done.iter_mut().zip(undone) {
                *done *= 1.0 - undone;
            }
        }
    }

    /// The task whose copy on a host with this law gains the most, with the seconds that it gains. `fit` says which
    /// tasks the host may take.
    pub(crate) fn best(&self, law: &Law, fit: impl Fn(u32) -> bool) -> Option<(usize, f64)> {
        let mut weight = [0.0; POINTS];
        for (point, weight) in weight.iter_mut().enumerate() {
            let saved = law.done_by(self.at_s(point), self.search.curves);
            *weight = self.done[point] * saved * self.step_s;
        }
        let mut best: Option<(usize, f64)> = None;
        for (at, _) in self.search.open.iter().enumerate().filter(|(_, open)| open.room && fit(open.task)) {
            let undone = &self.undone[at];
            let gain: f64 = weight.iter().zip(undone).map(|(w, g)| w * g / (1.0 - g)).sum();
            if best.is_none_or(|(_, most)| gain > most) {
                best = Some((at, gain));
            }
        }
        best
    }

    /// The task at this place of the search.
    pub(crate) fn task(&self, at: usize) -> u32 {
        self.search.open[at].task
    }

    /// The task gets a copy with this law.
    pub(crate) fn add(&mut self, at: usize, law: Law, room: bool) {
        for point in 0..POINTS {
            let saved = law.done_by(self.at_s(point), self.search.curves);
            self.undone[at][point] *= 1.0 - saved;
        }
        self.search.open[at].laws.push(law);
        self.search.open[at].room = room;
        self.multiply();
    }
}
