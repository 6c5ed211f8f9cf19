//! The sequence of limits of least cost where nothing fills gaps, and [`Sequence`] itself. The case
//! of small work in gaps lives in `adaptive`.

use super::grid::RunTimeGrid;
use super::law::RunTimes;

/// The limits of one attempt after the other, until one is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// The expected cost: the time of all limits up to the one that suffices, with the addition of
    /// small work.
    pub cost: f64,
    /// The grid's points at which the limits are.
    pub points: Vec<usize>,
    /// The limits, rising.
    pub limits: Vec<f64>,
    /// The probability, for each limit, that an attempt with it or an earlier one is done.
    pub done: Vec<f64>,
}

impl Sequence {
    pub(super) fn new(grid: &RunTimeGrid, cost: f64, points: Vec<usize>) -> Self {
        let done = points
            .iter()
            .map(|point| 1.0 - grid.after(*point))
            .collect();
        Self {
            cost,
            limits: points.iter().map(|point| grid.time(*point)).collect(),
            points,
            done,
        }
    }
}

/// Returns the expected cost of these limits, with doubled ones after their end, under this law of
/// run times where nothing fills gaps.
pub fn cost_under(limits: &[f64], law: &impl RunTimes) -> f64 {
    let mut cost = 0.0;
    let mut undone = 1.0;
    let mut killed = 0;
    while undone > 0.0 && killed < 1_000 {
        let limit = limit_after(limits, killed);
        cost += limit * undone;
        undone = 1.0 - law.cdf(limit);
        killed += 1;
    }
    cost
}

/// Returns the limit of an attempt after `killed` ones that were killed at theirs. After the last
/// one limits double: the end of a learned law may have been wrong. Infinite without limits.
pub fn limit_after(limits: &[f64], killed: u32) -> f64 {
    let last = limits.last().copied().unwrap_or(f64::INFINITY);
    let known = u32::try_from(limits.len()).unwrap_or(u32::MAX);
    match limits.get(killed as usize) {
        Some(limit) => *limit,
        None => {
            last * 2_f64.powi((killed.saturating_sub(known).saturating_add(1)).min(1_000) as i32)
        }
    }
}

/// TOptimal: the sequence of least expected cost where nothing fills gaps; among sequences of equal
/// cost one with long limits. O(n^2).
pub fn time_optimal(grid: &RunTimeGrid) -> Sequence {
    let (costs, nexts) = costs(grid);
    let mut points = Vec::new();
    let mut at = 0;

    while at < grid.last() {
        at = nexts[at];
        points.push(at);
    }

    if points.is_empty() {
        points.push(0);
    }

    let cost = if grid.last() == 0 {
        grid.time(0)
    } else {
        costs[0]
    };
    Sequence::new(grid, cost, points)
}

/// Returns, from each point on, the least expected cost that is still to come, and the next limit's
/// point.
pub(super) fn costs(grid: &RunTimeGrid) -> (Vec<f64>, Vec<usize>) {
    let n = grid.last();
    let mut costs = vec![0.0; n + 1];
    let mut nexts = vec![n; n + 1];

    for i in (0..n).rev() {
        let after = grid.after(i);
        let mut least = f64::INFINITY;
        for (next, rest) in costs.iter().enumerate().skip(i + 1) {
            let cost = grid.time(next) * after + rest;
            if cost <= least {
                least = cost;
                nexts[i] = next;
            }
        }
        costs[i] = least;
    }

    (costs, nexts)
}
