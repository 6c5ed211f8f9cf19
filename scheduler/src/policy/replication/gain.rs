//! Copies by expected makespan reduction, deskgrid's own rule.
//!
//! For each task that is not settled, G(x) is the probability that it is not done x seconds from
//! now: the product over its live attempts of not being done (see
//! [`crate::prediction::completion_law`]), times the probability that no later copy has saved it.
//! The job is done by x with P(x), the product of 1 - G over its tasks. A copy on an idle host with
//! law F brings the expected end forward by the integral of P / (1 - G) G F. The best task for each
//! idle host, best host first, is copied as long as that gain is worth the price, which
//! [`crate::prediction::experience::Prices`] learns so that the copies stay within their budget.
//! A task that keeps its state and whose only attempt stands still may instead move there: that
//! attempt is given up, so that nothing is done twice and no price is paid, but also what it could
//! still have brought. Of copy and move, the one that is worth more is chosen.
//!
//! `Starter::copy_for_gain` in `handlers::lookahead` searches when slots are left over and no task
//! waits, and notes in the job's plan when to search again. Until run times are known, tasks are
//! copied as by `Rescue`.

use super::Answer;
use crate::policy::setting::{HasSettings, Setting, number};
use crate::prediction::completion_law::CompletionLaw;
use crate::prediction::experience::Curves;

/// The budget of copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// The number of copies that a job may start, per task, on average over jobs.
    pub copies_max: f64,
}

/// The factor on the budget of tasks that keep their state: they lose little by a failure.
const WITH_STATE: f64 = 0.95;

impl HasSettings for Gain {
    fn settings(&self) -> &'static [Setting<Self>] {
        &[Setting {
            name: "copies_max",
            meaning: "copies per task that a job may start, on average over jobs, a twentieth less where tasks keep their state; \
                      prices are learned to keep to it",
            get: |answer| answer.copies_max.to_string(),
            set: |answer, value| {
                answer.copies_max =
                    number(value, 0.0, 100.0, "copies per task, between 0 and 100")?;
                Ok(())
            },
        }]
    }
}

impl Answer for Gain {
    fn describe(self) -> &'static str {
        "the task whose copy brings the expected end of the job forward the most, where that is worth its price"
    }

    fn rescues(self) -> bool {
        true
    }

    fn gain(self) -> Option<Gain> {
        Some(self)
    }
}

impl Gain {
    /// Returns the number of copies per task that jobs may start on average; `keeps` is whether
    /// their tasks keep their state.
    pub(crate) fn budget(self, keeps: bool) -> f64 {
        if keeps {
            WITH_STATE * self.copies_max
        } else {
            self.copies_max
        }
    }
}

/// The number of points of time at which probabilities are computed.
const POINTS: usize = 24;
/// The least difference of a probability from 1.
const CERTAIN: f64 = 1e-6;
/// The number of parts between two points in the table of suspensions; the table has `REACH`
/// points.
const PARTS: usize = 8;
const REACH: usize = 64;

/// Probabilities at the points of time.
type Probabilities = [f64; POINTS];

/// A task with live attempts.
#[derive(Debug, Clone)]
pub(crate) struct OpenTask {
    pub(crate) task: u32,
    /// The part of it that a copy would have to do: 1, or less with a checkpoint.
    pub(crate) left: f64,
    /// Whether another copy of it may start.
    pub(crate) room: bool,
    /// The law of its only attempt, if the task may move away from it.
    pub(crate) moves_from: Option<CompletionLaw>,
}

/// The inputs of the search for copies. Times are in seconds from now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopySearch<'a> {
    pub(crate) curves: &'a Curves,
    /// The time from which on the end of the job can change at all; `last_s` is the expected end of
    /// its last attempt.
    pub(crate) begin_s: f64,
    pub(crate) last_s: f64,
    /// A task's time on a mean host; `start_s` is the start's share of it, `best_s` its time on the
    /// best idle host.
    pub(crate) task_s: f64,
    pub(crate) start_s: f64,
    pub(crate) best_s: f64,
    /// The time for which a loss goes unnoticed.
    pub(crate) notice_s: f64,
    /// Whether tasks keep their state.
    pub(crate) keeps: bool,
}

/// The state of the search, with its probabilities at the points of time.
pub(crate) struct Gains<'a> {
    search: CopySearch<'a>,
    step_s: f64,
    /// The points of time.
    at_s: Probabilities,
    /// The survival function of suspensions: columns in steps, rows in parts of a step.
    lasting: Vec<[f64; REACH]>,
    /// The factor by which the hope for a missed task falls from one point to the next.
    fall: f64,
    open: Vec<OpenTask>,
    /// The odds of each task that it is not done.
    odds: Vec<Probabilities>,
    /// The probability that all tasks are done.
    done: Probabilities,
}

impl<'a> Gains<'a> {
    /// Creates a search among `tasks` tasks.
    pub(crate) fn new(tasks: usize, search: CopySearch<'a>) -> Self {
        let end_s =
            search.last_s.min(8.0 * search.task_s).max(search.begin_s) + 2.0 * search.task_s;

        let step_s = (end_s - search.begin_s) / POINTS as f64;
        let at_s = std::array::from_fn(|point| search.begin_s + (point as f64 + 0.5) * step_s);
        let fall = (-2.0 * step_s / (search.task_s + search.best_s)).exp();
        let alive = |steps: f64| search.curves.resumption.alive(steps * step_s);
        let row =
            |part| std::array::from_fn(|place| alive(place as f64 + part as f64 / PARTS as f64));
        let lasting = (0..=PARTS).map(row).collect();
        Self {
            search,
            step_s,
            at_s,
            lasting,
            fall,
            open: Vec::with_capacity(tasks),
            odds: Vec::with_capacity(tasks),
            done: [1.0; POINTS],
        }
    }

    /// Returns the number of points up to this time.
    fn upto(&self, time_s: f64) -> usize {
        let place = (time_s - self.search.begin_s) / self.step_s + 0.5;
        place.clamp(0.0, POINTS as f64) as u32 as usize
    }

    /// Adds a task with the laws of its live attempts.
    pub(crate) fn open(&mut self, open: OpenTask, laws: impl Iterator<Item = CompletionLaw>) {
        let mut undone = [1.0; POINTS];
        let mut first_s = f64::INFINITY;
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

    /// Multiplies each probability by that of this attempt not being done by then.
    fn multiply(&self, row: &mut Probabilities, law: &CompletionLaw) {
        let first = ((law.end_s - self.search.begin_s) / self.step_s - 0.5)
            .ceil()
            .clamp(0.0, POINTS as f64) as u32 as usize;
        let Some(first_s) = self.at_s.get(first) else {
            return;
        };
        let age = (first_s - law.end_s).max(0.0) / self.step_s;
        let place = age.min(REACH as f64) as u32;
        let later = &mut row[first..];
        if law.suspended_s.is_some() || place as usize + later.len() > REACH {
            return law.multiply_undone(&self.at_s[first..], later, self.search.curves);
        }

        let parts = (age - f64::from(place)) * PARTS as f64;
        let part = (parts as u32).min(PARTS as u32 - 1);
        let weight = parts - f64::from(part);
        let gone = 1.0 - law.alive;
        let here = law.alive * (1.0 - law.undisturbed);
        let rows = self.lasting[part as usize][place as usize..]
            .iter()
            .zip(&self.lasting[part as usize + 1][place as usize..]);
        for (value, (low, high)) in later.iter_mut().zip(rows) {
            *value *= gone + here * (low + weight * (high - low));
        }
    }

    /// Returns the probabilities that no later copy of a task has saved it: 1 until one could have,
    /// then falling until the task would be missed, and vanishing beyond.
    fn unsaved(&self, first_s: f64, left: f64) -> Probabilities {
        const LEFT: f64 = 0.5;
        let CopySearch {
            task_s,
            start_s,
            best_s,
            notice_s,
            ..
        } = self.search;

        let could_s = notice_s + start_s + left * (best_s - start_s);
        // With its state kept, a task that is missed at its end has little left to do.
        let missed_s = first_s
            + if self.search.keeps {
                notice_s + start_s
            } else {
                could_s
            };

        let could = self.upto(could_s);
        let missed = self.upto(missed_s).max(could);
        let slope = (1.0 - LEFT) / (missed_s - could_s).max(1.0);
        let mut row = [1.0; POINTS];
        for (hope, at_s) in row[could..missed].iter_mut().zip(&self.at_s[could..missed]) {
            *hope = 1.0 - slope * (at_s - could_s);
        }

        if let Some(at_s) = self.at_s.get(missed) {
            let mut rest = LEFT * (-2.0 * (at_s - missed_s) / (task_s + best_s)).exp();
            for hope in &mut row[missed..] {
                *hope = rest;
                rest *= self.fall;
            }
        }

        row
    }

    /// Forgets the tasks for which a copy with this law gains the least, until `most` are left; the
    /// job still waits for all of them.
    pub(crate) fn keep_best(&mut self, law: &CompletionLaw, most: usize) {
        if self.open.len() <= most {
            return;
        }

        let weights = self.weights(law);
        let mut order: Vec<(f64, usize)> = self
            .odds
            .iter()
            .enumerate()
            .map(|(at, odds)| (product(&weights, odds), at))
            .collect();
        order.select_nth_unstable_by(most, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        order.truncate(most);
        order.sort_unstable_by_key(|(_, at)| *at);

        self.open = order.iter().map(|(_, at)| self.open[*at].clone()).collect();
        self.odds = order.iter().map(|(_, at)| self.odds[*at]).collect();
    }

    /// Returns the task whose copy on a host gains the most, with the gain in seconds. `law` gives
    /// the law of a copy by the part of its task left to do; `fit` is whether the host may take a
    /// task.
    pub(crate) fn best(
        &self,
        law: impl Fn(f64) -> CompletionLaw,
        fit: impl Fn(u32) -> bool,
    ) -> Option<(usize, f64)> {
        let fresh = self.weights(&law(1.0));
        let mut best: Option<(usize, f64)> = None;
        for (at, (open, odds)) in self.open.iter().zip(&self.odds).enumerate() {
            let own = (open.left < 1.0).then(|| self.weights(&law(open.left)));
            let weights = own.as_ref().unwrap_or(&fresh);
            let gain = product(weights, odds);
            if best.is_none_or(|(_, most)| gain > most) && open.room && fit(open.task) {
                best = Some((at, gain));
            }
        }

        best
    }

    /// Returns the task whose move to a host gains the most, with the gain in seconds; as in
    /// [`Gains::best`].
    pub(crate) fn best_move(
        &self,
        law: impl Fn(f64) -> CompletionLaw,
        fit: impl Fn(u32) -> bool,
    ) -> Option<(usize, f64)> {
        let gain = |(at, open): (usize, &OpenTask)| {
            let from = open.moves_from.filter(|_| fit(open.task))?;
            let factor = self.factor_of_move(&from, &law(open.left));
            let points = self.done.iter().zip(&self.odds[at]).zip(factor);
            let gain = points.map(|((done, odds), factor)| done * odds * (1.0 - factor));
            Some((at, gain.sum::<f64>() * self.step_s))
        };

        let moves = self.open.iter().enumerate().filter_map(gain);
        moves.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
    }

    /// Returns the factor by which a move changes the probability that a task is not done.
    fn factor_of_move(&self, from: &CompletionLaw, to: &CompletionLaw) -> Probabilities {
        let mut old = [1.0; POINTS];
        self.multiply(&mut old, from);
        let mut new = [1.0; POINTS];
        self.multiply(&mut new, to);

        std::array::from_fn(|point| new[point] / old[point].max(CERTAIN))
    }

    /// Returns the worth, at each point of time, of a copy with this law being done by then.
    fn weights(&self, law: &CompletionLaw) -> Probabilities {
        let mut undone = [1.0; POINTS];
        self.multiply(&mut undone, law);
        std::array::from_fn(|point| self.done[point] * (1.0 - undone[point]) * self.step_s)
    }

    /// Returns the task at this index of the search, and the part of it that a copy would have to
    /// do.
    pub(crate) fn task(&self, at: usize) -> (u32, f64) {
        (self.open[at].task, self.open[at].left)
    }

    /// Adds a copy with this law to the task at this index.
    pub(crate) fn add(&mut self, at: usize, law: &CompletionLaw, room: bool) {
        let mut factor = [1.0; POINTS];
        self.multiply(&mut factor, law);
        self.change(at, &factor);
        self.open[at].room = room;
        self.open[at].moves_from = None;
    }

    /// Moves the task at this index to an attempt with this law.
    pub(crate) fn move_to(&mut self, at: usize, law: &CompletionLaw) {
        if let Some(from) = self.open[at].moves_from.take() {
            let factor = self.factor_of_move(&from, law);
            self.change(at, &factor);
        }
    }

    /// Multiplies the probabilities that a task is not done.
    fn change(&mut self, at: usize, factor: &Probabilities) {
        for ((odds, done), factor) in self.odds[at].iter_mut().zip(&mut self.done).zip(factor) {
            let undone = *odds / (1.0 + *odds);
            let less = (undone * factor).min(1.0 - CERTAIN);
            *done *= (1.0 - less) / (1.0 - undone);
            *odds = less / (1.0 - less);
        }
    }
}

/// Returns the sum of the products, in an order that permits vector instructions.
fn product(weights: &Probabilities, odds: &Probabilities) -> f64 {
    let mut sums = [0.0; 4];
    for (weights, odds) in weights.chunks_exact(4).zip(odds.chunks_exact(4)) {
        for (sum, (weight, odds)) in sums.iter_mut().zip(weights.iter().zip(odds)) {
            *sum += weight * odds;
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::completion_law::AttemptHost;
    use crate::prediction::experience::{Experience, Temper};
    use crate::prediction::survival::LifeTable;

    /// Returns the curves of hosts that never fail and whose owners hardly ever come.
    fn calm() -> Curves {
        let never = LifeTable::prior(1e-9, 1.0);
        Experience {
            failure: never,
            suspension: never,
            ..Experience::default()
        }
        .common()
        .curves()
    }

    fn law(left_s: f64, suspended: bool, curves: &Curves) -> CompletionLaw {
        CompletionLaw::of(
            left_s,
            AttemptHost {
                up_s: 3_600.0,
                owner_s: 3_600.0,
                suspended,
                temper: Temper::COMMON,
            },
            curves,
        )
    }

    fn search(curves: &Curves, last_s: f64) -> Gains<'_> {
        let begin_s = 0.0;
        let task_s = 100.0;
        let start_s = 0.0;
        let best_s = 100.0;
        let notice_s = 5.0;
        let keeps = false;

        Gains::new(
            3,
            CopySearch {
                curves,
                begin_s,
                last_s,
                task_s,
                start_s,
                best_s,
                notice_s,
                keeps,
            },
        )
    }

    fn open(gains: &mut Gains<'_>, task: u32, law: CompletionLaw) {
        gains.open(
            OpenTask {
                task,
                left: 1.0,
                room: true,
                moves_from: None,
            },
            std::iter::once(law),
        );
    }

    #[test]
    fn the_task_expected_last_is_copied_for_the_time_it_saves() {
        let curves = calm();
        let mut gains = search(&curves, 1_000.0);
        for (task, left_s) in [(1, 50.0), (2, 1_000.0), (3, 60.0)] {
            open(&mut gains, task, law(left_s, false, &curves));
        }

        let copy = law(100.0, false, &curves);
        let (at, gain_s) = gains.best(|_| copy, |_| true).expect("there are tasks");
        assert_eq!(gains.task(at).0, 2);

        // At most the 900 s that it is done sooner; less by the share that a later copy could have
        // saved as well.
        assert!((400.0..=910.0).contains(&gain_s), "{gain_s}");
        gains.add(at, &copy, true);

        let (_, next_s) = gains.best(|_| copy, |_| true).expect("there are tasks");
        assert!(next_s < 0.05 * gain_s, "one copy is enough: {next_s}");
    }

    #[test]
    fn a_search_among_the_best_tasks_finds_what_a_search_among_all_finds() {
        let curves = calm();
        let filled = || {
            let mut gains = search(&curves, 1_000.0);
            for task in 0..200 {
                let left_s = 10.0 + f64::from(task * 37 % 200) * 5.0;
                open(&mut gains, task, law(left_s, false, &curves));
            }
            gains
        };
        let copy = law(100.0, false, &curves);
        let copied = |mut gains: Gains<'_>| -> Vec<u32> {
            let mut next = || {
                let (at, _) = gains.best(|_| copy, |_| true)?;
                gains.add(at, &copy, false);
                Some(gains.task(at).0)
            };
            (0..10).filter_map(|_| next()).collect()
        };

        let mut best = filled();
        best.keep_best(&copy, 40);
        assert_eq!(best.open.len(), 40);
        assert_eq!(copied(best), copied(filled()));
    }

    #[test]
    fn a_copy_that_would_come_too_late_gains_nothing() {
        let curves = calm();
        let mut gains = search(&curves, 50.0);
        open(&mut gains, 1, law(50.0, false, &curves));
        let (_, gain_s) = gains
            .best(|_| law(100.0, false, &curves), |_| true)
            .expect("there is a task");
        assert!(gain_s < 1.0, "{gain_s}");
    }

    #[test]
    fn a_suspended_attempt_is_worth_more_than_a_running_one_that_needs_as_long() {
        let curves = calm();
        let gain = |suspended| {
            let mut gains = search(&curves, 150.0);
            open(&mut gains, 1, law(150.0, suspended, &curves));
            gains
                .best(|_| law(100.0, false, &curves), |_| true)
                .expect("there is a task")
                .1
        };
        assert!(
            gain(true) > gain(false) + 10.0,
            "{} {}",
            gain(true),
            gain(false)
        );
    }

    #[test]
    fn a_task_moves_from_an_attempt_that_stands_still_only_where_it_is_done_sooner() {
        let curves = calm();
        let gain = |left_s: f64| {
            let still = law(left_s, true, &curves);
            let mut gains = search(&curves, 500.0);
            let task = OpenTask {
                task: 1,
                left: 1.0,
                room: true,
                moves_from: Some(still),
            };
            gains.open(task, std::iter::once(still));
            open(&mut gains, 2, law(900.0, false, &curves));
            let copy = law(100.0, false, &curves);
            let (at, gain_s) = gains.best_move(|_| copy, |_| true).expect("one may move");
            assert_eq!(gains.task(at).0, 1, "the other one's attempt runs");
            assert!(gains.best_move(|_| copy, |task| task != 1).is_none());

            gains.move_to(at, &copy);
            assert!(gains.best_move(|_| copy, |_| true).is_none(), "once");
            gain_s
        };

        assert!(gain(1_000.0) > 0.0, "{}", gain(1_000.0));
        assert!(gain(0.1) < gain(1_000.0), "{}", gain(0.1));
    }

    #[test]
    fn tasks_without_room_or_fit_are_left_alone() {
        let curves = calm();
        let mut gains = search(&curves, 500.0);
        gains.open(
            OpenTask {
                task: 1,
                left: 1.0,
                room: false,
                moves_from: None,
            },
            std::iter::once(law(500.0, false, &curves)),
        );

        open(&mut gains, 2, law(400.0, false, &curves));
        let copy = |_| law(100.0, false, &curves);
        assert_eq!(
            gains.best(copy, |_| true).map(|(at, _)| gains.task(at).0),
            Some(2)
        );
        assert_eq!(gains.best(copy, |task| task != 2), None);
    }
}
