//! The least possible makespan, with full knowledge of the trace (Kondo et al. 2004, section 3.4):
//! each slot takes task after task as early as it can and only if it will finish, and the T-th
//! completion of all slots is the optimum. Tasks keep nothing over an outage: those that checkpoint
//! may be done before it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use common::units::REFERENCE_MHZ;

use crate::trace::{Segment, Trace};

/// The state from which the optimum is computed, for tasks of one size from one start on.
#[derive(Debug, Clone)]
pub struct Oracle<'t> {
    chains: Vec<Chain<'t>>,
    start_s: f64,
    start_cost_s: f64,
    slots: u32,
}

impl<'t> Oracle<'t> {
    /// Prepares the optimum from second `start_s` of the trace on, for tasks that take
    /// `start_cost_s` seconds while the host is up and then `work_s_at_reference` CPU seconds on a
    /// dedicated host of speed 1. Each host has `slots` slots, each of the host's whole speed.
    pub fn new(
        trace: &'t Trace,
        start_s: f64,
        work_s_at_reference: f64,
        start_cost_s: f64,
        slots: u32,
    ) -> Self {
        let chain = |(host, traced): (usize, &'t crate::trace::TracedHost)| {
            let at = traced
                .segments
                .partition_point(|segment| segment.end_s <= start_s);
            let cpu_s = work_s_at_reference * REFERENCE_MHZ / traced.clock_mhz;
            Chain {
                host,
                segments: &traced.segments[at..],
                now_s: start_s,
                cpu_s,
            }
        };
        let chains = trace.hosts.iter().enumerate().map(chain).collect();

        Oracle {
            chains,
            start_s,
            start_cost_s,
            slots,
        }
    }

    /// The least makespan of `tasks` tasks, in seconds since the start; 0 for no tasks, and `None`
    /// if the trace ends before enough of them can be done.
    pub fn makespan_s(&self, tasks: u32) -> Option<f64> {
        if tasks == 0 {
            return Some(0.0);
        }
        if self.slots == 0 {
            return None;
        }

        let mut next: BinaryHeap<_> = self
            .chains
            .iter()
            .filter_map(|chain| chain.clone().advance(self.start_cost_s))
            .collect();
        let mut left = tasks;
        loop {
            let mut first = next.peek_mut()?;
            if left <= self.slots {
                return Some(first.now_s - self.start_s);
            }
            left -= self.slots;
            match first.clone().advance(self.start_cost_s) {
                Some(chain) => *first = chain,
                None => drop(std::collections::binary_heap::PeekMut::pop(first)),
            }
        }
    }
}

/// The tasks that one slot of a host does one after the other: the state at `now_s` and the rest of
/// the trace.
#[derive(Debug, Clone)]
struct Chain<'t> {
    host: usize,
    /// The segments from the one that contains `now_s` on.
    segments: &'t [Segment],
    now_s: f64,
    /// Processor seconds that a task takes on this host.
    cpu_s: f64,
}

impl Chain<'_> {
    /// Advances the chain by one task; `None` if the trace ends before.
    fn advance(mut self, start_cost_s: f64) -> Option<Self> {
        let fresh = (start_cost_s, self.cpu_s);
        let mut cost_s = fresh.0;
        let mut left_s = fresh.1;
        let mut started = false;

        while let Some(segment) = self.segments.first() {
            self.now_s = self.now_s.max(segment.start_s);
            if !segment.up {
                ((cost_s, left_s), started) = (fresh, false);
            } else if self.now_s < segment.end_s && (segment.ready() || started) {
                // A task starts only where it could compute; once started it pays its start while
                // the host is up.
                started = true;
                let paid_s = cost_s.min(segment.end_s - self.now_s);
                cost_s -= paid_s;
                self.now_s += paid_s;

                if cost_s <= 0.0 && segment.ready() {
                    let done_s = self.now_s + left_s / segment.cpu;
                    if done_s <= segment.end_s {
                        self.now_s = done_s;
                        return Some(self);
                    }
                    left_s -= (segment.end_s - self.now_s) * segment.cpu;
                }
            }

            self.now_s = segment.end_s;
            self.segments = &self.segments[1..];
        }

        None
    }
}

/// Reversed, since `BinaryHeap` gives its greatest: the earliest first, and among equals the first
/// host.
impl Ord for Chain<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .now_s
            .total_cmp(&self.now_s)
            .then(other.host.cmp(&self.host))
    }
}

impl PartialOrd for Chain<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Chain<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Chain<'_> {}
