//! The sequence of limits of least cost where a stream of small work fills the gaps that limits
//! leave. The plain case lives in `sequence`, and bounds this one from below.

use std::collections::BTreeMap;

use super::grid::RunTimeGrid;
use super::sequence::{Sequence, costs, time_optimal};

/// ATOptimal (Theorem 2): the sequence of least expected cost where small work arrives at `zeta`
/// times the rate at which the processors compute, 0 up to but not 1. The programme expands a state
/// only if a lower bound of its cost permits an improvement.
pub fn adaptive_time_optimal(grid: &RunTimeGrid, zeta: f64) -> Sequence {
    if grid.last() == 0 {
        return time_optimal(grid);
    }

    let zeta = zeta.clamp(0.0, LARGEST);
    let mut search = SequenceSearch {
        grid,
        zeta,
        plain: costs(grid).0,
        known: BTreeMap::new(),
    };
    let mut state = SearchState::default();
    let cost = search.least(state);
    let mut points = Vec::new();

    while (state.done as usize) < grid.last() {
        let next = search
            .known
            .get(&state)
            .map_or(grid.last() as u32, |found| found.next);
        state = search.after(state, next);
        points.push(next as usize);
    }

    Sequence::new(grid, cost, points)
}

/// The largest `zeta`; beyond it costs exceed the precision of floats.
const LARGEST: f64 = 1.0 - 1e-9;

/// The state of the search after the failed limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct SearchState {
    /// The point of the last failed limit.
    done: u32,
    /// The number of failed limits; 0 where the grid begins at 0, since it makes no difference
    /// there.
    failed: u32,
    /// The sum of their points.
    sum: u32,
}

#[derive(Debug, Clone, Copy)]
struct BestSequence {
    cost: f64,
    next: u32,
}

struct SequenceSearch<'a> {
    grid: &'a RunTimeGrid,
    zeta: f64,
    /// The least cost without small work, from each point on.
    plain: Vec<f64>,
    known: BTreeMap<SearchState, BestSequence>,
}

impl SequenceSearch<'_> {
    fn after(&self, state: SearchState, next: u32) -> SearchState {
        let failed = if self.grid.low() > 0.0 {
            state.failed + 1
        } else {
            0
        };
        SearchState {
            done: next,
            failed,
            sum: state.sum.saturating_add(next),
        }
    }

    /// Returns the time that the failed limits took.
    fn spent(&self, state: SearchState) -> f64 {
        f64::from(state.failed) * self.grid.low() + f64::from(state.sum) * self.grid.step()
    }

    /// Returns a lower bound of the cost from here on: the cost without small work, and the time of
    /// all work that will have arrived by the end of the run itself.
    fn bound(&self, state: SearchState) -> f64 {
        let at = state.done as usize;
        let work = self.grid.time_after(at) + self.zeta * self.spent(state) * self.grid.after(at);
        self.plain[at].max(work / (1.0 - self.zeta))
    }

    fn least(&mut self, state: SearchState) -> f64 {
        let n = self.grid.last();
        let at = state.done as usize;
        let spent = self.spent(state);

        if at == n {
            return 0.0;
        }
        if let Some(found) = self.known.get(&state) {
            return found.cost;
        }

        let mut chances: Vec<(f64, f64, u32)> = (at + 1..=n)
            .map(|next| {
                let stage = self.grid.stage(self.zeta, at, next, spent);
                let next = next as u32;
                (stage + self.bound(self.after(state, next)), stage, next)
            })
            .collect();

        // The most promising first; among equals the longest.
        chances.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.2.cmp(&a.2)));
        let mut best = BestSequence {
            cost: f64::INFINITY,
            next: n as u32,
        };
        for (bound, stage, next) in chances {
            if bound >= best.cost {
                break;
            }
            let cost = stage + self.least(self.after(state, next));
            if cost < best.cost {
                best = BestSequence { cost, next };
            }
        }

        self.known.insert(state, best);
        best.cost
    }
}
