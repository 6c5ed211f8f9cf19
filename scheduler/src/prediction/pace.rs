//! The measured run times of one job's tasks. Prefetch and predictions use them.

use common::{Span, Speed};

use crate::prediction::spread::{LogSums, WorkLaw};

/// The time that handling any task costs a slot beside its run time. It also keeps a run time of
/// zero from meaning no limit.
const OVERHEAD_S: f64 = 50e-6;
/// The number of tasks that followed others at their hosts from which on the time between is known:
/// results come several at a time.
const TURNS: u32 = 30;
/// The weight of a measurement above the present value ([`RISE`]) or below it ([`FALL`]). One long
/// task counts at once, since tasks behind it would have to wait; many short ones are needed to
/// forget it.
const RISE: f64 = 0.5;
const FALL: f64 = 0.05;

/// The work of an attempt that ended, in seconds on a host of speed 1 whose processor is free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ObservedWork {
    /// All of it.
    pub(crate) work_s: f64,
    /// The part in which it computed; in the rest it waited.
    pub(crate) computing_s: f64,
}

impl ObservedWork {
    /// This much work, in all of which it computed.
    pub(crate) fn all(work_s: f64) -> Self {
        Self {
            work_s,
            computing_s: work_s,
        }
    }

    /// The work of an attempt that ran this long on a host of this speed, with this share of its
    /// processor. `cpu` is the processor time of one of its slots, where it was measured; without it
    /// the attempt counts as one that computes all the time.
    pub(crate) fn of(ran: Span, speed: Speed, share: f64, cpu: Option<Span>) -> Self {
        let Some(cpu) = cpu else {
            return Self::all(ran.secs() * speed.factor() * share);
        };

        // To compute for a second takes `1 / share` seconds of its run time; the rest is waiting.
        let computed_s = cpu.min(ran).secs();
        let waited_s = (ran.secs() - computed_s / share).max(0.0);
        let computing_s = computed_s * speed.factor();
        Self {
            work_s: waited_s + computing_s,
            computing_s,
        }
    }
}

/// The largest of some times, in seconds, of which one may be far off.
#[derive(Debug, Default)]
struct Longest {
    first_s: f64,
    second_s: f64,
}

impl Longest {
    /// The number of times from which on [`Self::FAR_OFF`] holds: so many make it unlikely that the largest is just the first
    /// of its like.
    const MANY: f64 = 20.0;
    /// The largest time counts as this multiple of the next one at most.
    const FAR_OFF: f64 = 2.0;

    fn add(&mut self, time_s: f64) {
        self.second_s = self.second_s.max(time_s.min(self.first_s));
        self.first_s = self.first_s.max(time_s);
    }

    /// Returns the largest of `count` times.
    fn of(&self, count: f64) -> f64 {
        if count < Self::MANY {
            return self.first_s;
        }
        self.first_s.min(Self::FAR_OFF * self.second_s)
    }
}

/// Run times of one job's tasks.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Moving average of the time that a task occupies a slot, in seconds, biased to the long ones.
    slot_s: Option<f64>,
    /// Sum over successful attempts of their work, in seconds on a host of speed 1, and of the part
    /// of it in which they computed.
    work_s: f64,
    computing_s: f64,
    /// The sums of the works of those that had estimates, and of these estimates, in seconds; and their
    /// number.
    compared_s: f64,
    estimated_s: f64,
    compared: f64,
    /// The largest of them.
    longest: Longest,
    /// The number of them, and the sums by which their spread is known.
    logs: LogSums,
    /// The time that slots had between the ends of tasks, beside the run times of these, in seconds;
    /// and the number of such tasks, each of which was at its host before the one before it ended.
    between_s: f64,
    turns: u32,
}

impl Pace {
    /// Notes the run time of an attempt that ended by itself, and its work if it did a whole task, which
    /// had this estimate.
    pub(crate) fn observe(
        &mut self,
        ran: Span,
        work: Option<ObservedWork>,
        estimate: Option<Span>,
    ) {
        let sample = ran.secs();
        let slot_s = self.slot_s.unwrap_or(sample);
        let weight = if sample > slot_s { RISE } else { FALL };
        self.slot_s = Some(slot_s + weight * (sample - slot_s));
        if let Some(work) = work {
            self.note_work(work, estimate);
        }
    }

    /// Notes the work of a whole task, which had this estimate.
    pub(crate) fn note_work(&mut self, work: ObservedWork, estimate: Option<Span>) {
        self.work_s += work.work_s;
        self.computing_s += work.computing_s;
        self.longest.add(work.work_s);
        self.logs.add(work.work_s);
        // No time at all says nothing of how far the others are off.
        if let Some(estimate) = estimate.filter(|estimate| *estimate > Span::ZERO) {
            self.compared_s += work.work_s;
            self.estimated_s += estimate.secs();
            self.compared += 1.0;
        }
    }

    /// Returns the number of successful attempts of tasks with estimates, and the sums of their works and
    /// of these estimates, in seconds.
    pub(crate) fn of_estimates(&self) -> (f64, f64, f64) {
        (self.compared, self.compared_s, self.estimated_s)
    }

    /// Notes the end of an attempt that was at its host when another one ended there, `slot_s` ago in
    /// seconds of one slot.
    pub(crate) fn note_turn(&mut self, slot_s: f64, ran: Span) {
        self.between_s += slot_s - ran.secs();
        self.turns = self.turns.saturating_add(1);
    }

    /// Returns the seconds that a slot needs from the end of a task to the start of the next one, which
    /// waits at its host; `None` while too few are known.
    pub(crate) fn between_s(&self) -> Option<f64> {
        let mean_s = self.between_s / f64::from(self.turns.max(1));
        (self.turns >= TURNS).then(|| mean_s.max(0.0))
    }

    /// Returns the number of tasks that fit into a window of one slot; 0 before the first
    /// measurement.
    pub(crate) fn fit(&self, window: Span) -> u64 {
        self.slot_s
            .map_or(0, |slot_s| (window.secs() / (slot_s + OVERHEAD_S)) as u64)
    }

    /// Returns the largest work of a task so far, in seconds on a host of speed 1. Of many tasks a
    /// single one that took much longer than all others does not count in full.
    pub(crate) fn longest_work_s(&self) -> Option<f64> {
        (self.logs.count > 0.0).then(|| self.longest.of(self.logs.count))
    }

    /// Returns the law of the work of a task, in seconds on a host of speed 1, where running ones
    /// have done this much so far; `None` before the first success, or where tasks are alike.
    pub(crate) fn law(&self, running_s: &[f64]) -> Option<WorkLaw> {
        WorkLaw::fit(&self.logs, running_s)
    }

    /// Returns the part of the tasks' work in which they compute, from 0 to 1; `None` before the first
    /// success.
    pub(crate) fn computing(&self) -> Option<f64> {
        (self.work_s > 0.0).then(|| (self.computing_s / self.work_s).min(1.0))
    }

    /// Returns the number of successful attempts.
    pub(crate) fn count(&self) -> f64 {
        self.logs.count
    }

    /// Returns the mean work of a task, in seconds on a host of speed 1.
    pub(crate) fn mean_work_s(&self) -> Option<f64> {
        (self.logs.count > 0.0).then(|| self.work_s / self.logs.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_of_many_that_took_far_longer_counts_as_twice_the_next_one() {
        let mut pace = Pace::default();
        let mut ran = |run_s: u64| {
            let ran = Span::from_secs(run_s);
            let work = ObservedWork::of(ran, Speed::REFERENCE, 1.0, None);
            pace.observe(ran, Some(work), None);
            pace.longest_work_s()
        };

        assert_eq!(ran(500), Some(500.0), "it may be the first of its like");
        let of_few = (0..18).map(|_| ran(5)).last().flatten();
        assert_eq!(of_few, Some(500.0));
        assert_eq!(ran(5), Some(10.0));
        assert_eq!(ran(480), Some(500.0), "it is no outlier any more");
    }
}
