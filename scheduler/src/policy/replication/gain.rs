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
    /// The points of time.
    at_s: Row,
    /// By how much the hope for a task that has been missed falls from one point to the next.
    fall: f64,
    open: Vec<Open>,
    /// For each task, the odds that it is not done.
    odds: Vec<Row>,
    /// The probability that all are done.
    done: Row,
}

impl<'a> Gains<'a> {
    /// A search among so many tasks.
    pub(crate) fn new(tasks: usize, search: Search<'a>) -> Self {
        let end_s = search.last_s.min(8.0 * search.task_s).max(search.begin_s) + 2.0 * search.task_s;
        let step_s = (end_s - search.begin_s) / POINTS as f64;
        let at_s = std::array::from_fn(|point| search.begin_s + (point as f64 + 0.5) * step_s);
        let (open, odds) = (Vec::with_capacity(tasks), Vec::with_capacity(tasks));
        let fall = (-2.0 * step_s / (search.task_s + search.best_s)).exp();
        Self { search, step_s, at_s, fall, open, odds, done: [1.0; POINTS] }
    }

    /// One more task, with the laws of its live attempts.
    pub(crate) fn open(&mut self, open: Open, laws: impl Iterator<Item = Law>) {
        let (mut undone, mut first_s) = ([1.0; POINTS], f64::INFINITY);
        for law in laws {
            first_s = first_s.min(law.end_s);
            self.multiply(&mut undone, &law);
        }
        let mut odds = self.unsaved(first_s, open.left);
        for ((odds, done), undone) in odds.iter_mut().zip(&mut self.done).zip(undone) {
            let undone = (undone * *odds).min(1.0 - CERTAIN);
            *done *= 1.0 - undone;
            *odds = undone / (1.0 - undone);
        }
        self.open.push(open);
        self.odds.push(odds);
    }

    /// Takes from each probability that this attempt is done by then.
    fn multiply(&self, row: &mut Row, law: &Law) {
        let first = ((law.end_s - self.search.begin_s) / self.step_s - 0.5).ceil().max(0.0) as usize;
        let first = first.min(POINTS);
        law.multiply_undone(&self.at_s[first..], &mut row[first..], self.search.curves);
    }

    /// The probabilities that no later copy of a task has saved it: certain until one could have, then falling until
    /// the task would have been missed, and vanishing beyond.
    fn unsaved(&self, first_s: f64, left: f64) -> Row {
        const LEFT: f64 = 0.5;
        let Search { task_s, start_s, best_s, notice_s, .. } = self.search;
        let mut missed: Option<f64> = None;
        let could_s = notice_s + start_s + left * (best_s - start_s);
        // With its state kept, a task that is missed at its end has little left to do.
        let missed_s = first_s + if self.search.keeps { notice_s + start_s } else { could_s };
        self.at_s.map(|at_s| {
            if at_s <= could_s {
                1.0
            } else if at_s <= missed_s {
                1.0 - (1.0 - LEFT) * (at_s - could_s) / (missed_s - could_s).max(1.0)
            } else {
                let begun = || LEFT * (-2.0 * (at_s - missed_s) / (task_s + best_s)).exp();
                *missed.insert(missed.map_or_else(begun, |before| before * self.fall))
            }
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experience::{Experience, Temper};
    use crate::laws::Place;
    use crate::survival::LifeTable;

    /// Hosts that never fail and whose owners hardly ever come.
    fn calm() -> Curves {
        let never = LifeTable::prior(1e-9, 1.0);
        Experience { failure: never, suspension: never, ..Experience::default() }.common().curves()
    }

    fn law(left_s: f64, suspended: bool, curves: &Curves) -> Law {
        Law::of(left_s, Place { up_s: 3_600.0, owner_s: 3_600.0, suspended, temper: Temper::COMMON }, curves)
    }

    fn search(curves: &Curves, last_s: f64) -> Gains<'_> {
        let (begin_s, task_s, start_s, best_s, notice_s, keeps) = (0.0, 100.0, 0.0, 100.0, 5.0, false);
        Gains::new(3, Search { curves, begin_s, last_s, task_s, start_s, best_s, notice_s, keeps })
    }

    fn open(gains: &mut Gains<'_>, task: u32, law: Law) {
        gains.open(Open { task, left: 1.0, room: true }, std::iter::once(law));
    }

    #[test]
    fn the_task_that_would_be_last_is_copied_and_gains_what_that_saves() {
        let curves = calm();
        let mut gains = search(&curves, 1_000.0);
        for (task, left_s) in [(1, 50.0), (2, 1_000.0), (3, 60.0)] {
            open(&mut gains, task, law(left_s, false, &curves));
        }
        let copy = law(100.0, false, &curves);
        let (at, gain_s) = gains.best(|_| copy, |_| true).expect("there are tasks");
        assert_eq!(gains.task(at).0, 2);
        // At most the 900 s that it is done sooner; less by what a later copy could have saved as well.
        assert!((400.0..=910.0).contains(&gain_s), "{gain_s}");
        gains.add(at, &copy, true);
        let (_, next_s) = gains.best(|_| copy, |_| true).expect("there are tasks");
        assert!(next_s < 0.05 * gain_s, "one copy is enough: {next_s}");
    }

    #[test]
    fn a_copy_that_would_come_too_late_gains_nothing() {
        let curves = calm();
        let mut gains = search(&curves, 50.0);
        open(&mut gains, 1, law(50.0, false, &curves));
        let (_, gain_s) = gains.best(|_| law(100.0, false, &curves), |_| true).expect("there is a task");
        assert!(gain_s < 1.0, "{gain_s}");
    }

    #[test]
    fn a_suspended_attempt_is_worth_more_than_a_running_one_that_needs_as_long() {
        let curves = calm();
        let gain = |suspended| {
            let mut gains = search(&curves, 150.0);
            open(&mut gains, 1, law(150.0, suspended, &curves));
            gains.best(|_| law(100.0, false, &curves), |_| true).expect("there is a task").1
        };
        assert!(gain(true) > gain(false) + 10.0, "{} {}", gain(true), gain(false));
    }

    #[test]
    fn tasks_without_room_or_fit_are_left_alone() {
        let curves = calm();
        let mut gains = search(&curves, 500.0);
        gains.open(Open { task: 1, left: 1.0, room: false }, std::iter::once(law(500.0, false, &curves)));
        open(&mut gains, 2, law(400.0, false, &curves));
        let copy = |_| law(100.0, false, &curves);
        assert_eq!(gains.best(copy, |_| true).map(|(at, _)| gains.task(at).0), Some(2));
        assert_eq!(gains.best(copy, |task| task != 2), None);
    }
}
