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
const POINTS: usize = 24;
/// A probability that is not told apart from 1.
const CERTAIN: f64 = 1e-6;

/// Probabilities at the points of time.
type Row = [f64; POINTS];

/// A task with live attempts.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) task: u32,
    /// The part of it that a copy would have to do: 1, or less where there is a checkpoint.
    pub(crate) left: f64,
    /// Whether another copy of it may start.
    pub(crate) room: bool,
}

/// What the search for copies is made from. Times are in seconds from now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) curves: &'a Curves,
    /// From when on the end of the job can change at all, and when its last attempt should be done.
    pub(crate) begin_s: f64,
    pub(crate) last_s: f64,
    /// A task's time on a mean host, what starting costs of it, and its time on the best idle host.
    pub(crate) task_s: f64,
    pub(crate) start_s: f64,
    pub(crate) best_s: f64,
    /// How long a loss goes unnoticed.
    pub(crate) notice_s: f64,
    /// Whether tasks keep their state.
    pub(crate) keeps: bool,
}

/// The search, with its probabilities at the points of time.
pub(crate) struct Gains<'a> {
    search: Search<'a>,
    step_s: f64,
    open: Vec<Open>,
    /// For each task, the odds that it is not done.
    odds: Vec<Row>,
    /// The probability that all are done.
    done: Row,
}

impl<'a> Gains<'a> {
    pub(crate) fn new(search: Search<'a>) -> Self {
        let end_s = search.last_s.min(8.0 * search.task_s).max(search.begin_s) + 2.0 * search.task_s;
        let step_s = (end_s - search.begin_s) / POINTS as f64;
        Self { search, step_s, open: Vec::new(), odds: Vec::new(), done: [1.0; POINTS] }
    }

    fn at_s(&self, point: usize) -> f64 {
        self.search.begin_s + (point as f64 + 0.5) * self.step_s
    }

    /// One more task, with the laws of its live attempts.
    pub(crate) fn open(&mut self, open: Open, laws: impl Iterator<Item = Law>) {
        let (mut undone, mut first_s) = ([1.0; POINTS], f64::INFINITY);
        for law in laws {
            first_s = first_s.min(law.end_s);
            self.multiply(&mut undone, &law);
        }
        let left = open.left;
        let mut odds = [0.0; POINTS];
        for point in 0..POINTS {
            let undone = (undone[point] * self.unsaved(self.at_s(point), first_s, left)).min(1.0 - CERTAIN);
            self.done[point] *= 1.0 - undone;
            odds[point] = undone / (1.0 - undone);
        }
        self.open.push(open);
        self.odds.push(odds);
    }

    /// Takes from each probability that this attempt is done by then.
    fn multiply(&self, row: &mut Row, law: &Law) {
        let first = ((law.end_s - self.search.begin_s) / self.step_s - 0.5).ceil().max(0.0) as usize;
        for (point, value) in row.iter_mut().enumerate().skip(first) {
            *value *= 1.0 - law.done_by(self.at_s(point), self.search.curves);
        }
    }

    /// The probability that no later copy of a task has saved it: certain until one could have, then falling until the
    /// task would have been missed, and vanishing beyond.
    fn unsaved(&self, at_s: f64, first_s: f64, left: f64) -> f64 {
        const LEFT: f64 = 0.6;
        let Search { task_s, start_s, best_s, notice_s, .. } = self.search;
        let could_s = notice_s + start_s + left * (best_s - start_s);
        // With its state kept, a task that is missed at its end has little left to do.
        let missed_s = first_s + if self.search.keeps { notice_s + start_s } else { could_s };
        if at_s <= could_s {
            1.0
        } else if at_s <= missed_s {
            1.0 - (1.0 - LEFT) * (at_s - could_s) / (missed_s - could_s).max(1.0)
        } else {
            LEFT * (-(at_s - missed_s) / (task_s + best_s)).exp()
        }
    }

    /// The task whose copy on a host gains the most, with the seconds that it gains. `law` is that of a copy with so much
    /// of its task left to do; `fit` says which tasks the host may take.
    pub(crate) fn best(&self, law: impl Fn(f64) -> Law, fit: impl Fn(u32) -> bool) -> Option<(usize, f64)> {
        let fresh = self.weights(&law(1.0));
        let mut best: Option<(usize, f64)> = None;
        for (at, (open, odds)) in self.open.iter().zip(&self.odds).enumerate() {
            let own = (open.left < 1.0).then(|| self.weights(&law(open.left)));
            let weights = own.as_ref().unwrap_or(&fresh);
            let gain: f64 = weights.iter().zip(odds).map(|(weight, odds)| weight * odds).sum();
            if best.is_none_or(|(_, most)| gain > most) && open.room && fit(open.task) {
                best = Some((at, gain));
            }
        }
        best
    }

    /// What it is worth at each point of time that a copy with this law is done by then.
    fn weights(&self, law: &Law) -> Row {
        let mut undone = [1.0; POINTS];
        self.multiply(&mut undone, law);
        std::array::from_fn(|point| self.done[point] * (1.0 - undone[point]) * self.step_s)
    }

    /// The task at this place of the search, and the part of it that a copy would have to do.
    pub(crate) fn task(&self, at: usize) -> (u32, f64) {
        (self.open[at].task, self.open[at].left)
    }

    /// The task gets a copy with this law.
    pub(crate) fn add(&mut self, at: usize, law: &Law, room: bool) {
        let mut factor = [1.0; POINTS];
        self.multiply(&mut factor, law);
        for ((odds, done), factor) in self.odds[at].iter_mut().zip(&mut self.done).zip(factor) {
            let undone = *odds / (1.0 + *odds);
            let less = undone * factor;
            *done *= (1.0 - less) / (1.0 - undone);
            *odds = less / (1.0 - less);
        }
        self.open[at].room = room;
    }
}
