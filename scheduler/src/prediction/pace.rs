//! The measured run times of one job's tasks. Prefetch and predictions use them.

use common::Span;

use crate::prediction::spread::{LogSums, WorkLaw};

/// The time that handling any task costs a slot beside its run time. It also keeps a run time of
/// zero from meaning no limit.
const OVERHEAD_S: f64 = 50e-6;
/// The weight of a measurement above the present value ([`RISE`]) or below it ([`FALL`]). One long
/// task counts at once, since tasks behind it would have to wait; many short ones are needed to
/// forget it.
const RISE: f64 = 0.5;
const FALL: f64 = 0.05;

/// Run times of one job's tasks.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Moving average of the time that a task occupies a slot, in seconds, biased to the long ones.
    slot_s: Option<f64>,
    /// Sum over successful attempts of their work, in seconds on a host of speed 1.
    work_s: f64,
    /// The largest of them.
    longest_s: f64,
    /// The number of them, and the sums by which their spread is known.
    logs: LogSums,
}

impl Pace {
    /// Notes the run time of an attempt that ended by itself, and its work in seconds on a host of
    /// speed 1.
    pub(crate) fn observe(&mut self, ran: Span, work_s: f64, success: bool) {
        let sample = ran.secs();
        let slot_s = self.slot_s.unwrap_or(sample);
        let weight = if sample > slot_s { RISE } else { FALL };
        self.slot_s = Some(slot_s + weight * (sample - slot_s));
        if success {
            self.work_s += work_s;
            self.longest_s = self.longest_s.max(work_s);
            self.logs.add(work_s);
        }
    }

    /// Returns the number of tasks that fit into a window of one slot; 0 before the first
    /// measurement.
    pub(crate) fn fit(&self, window: Span) -> u64 {
        self.slot_s
            .map_or(0, |slot_s| (window.secs() / (slot_s + OVERHEAD_S)) as u64)
    }

    /// Returns the largest work of a task so far, in seconds on a host of speed 1.
    pub(crate) fn longest_work_s(&self) -> Option<f64> {
        (self.logs.count > 0.0).then_some(self.longest_s)
    }

    /// Returns the law of the work of a task, in seconds on a host of speed 1, where running ones
    /// have done this much so far; `None` before the first success, or where tasks are alike.
    pub(crate) fn law(&self, running_s: &[f64]) -> Option<WorkLaw> {
        WorkLaw::fit(&self.logs, running_s)
    }

    /// Returns the mean work of a task, in seconds on a host of speed 1.
    pub(crate) fn mean_work_s(&self) -> Option<f64> {
        (self.logs.count > 0.0).then(|| self.work_s / self.logs.count)
    }
}
