//! How much of the processor tasks can have, and for how long the host has been up: from numbers that the system gives,
//! without asking it.

use common::{Span, Time};

/// Even the lowest priority is given a little of a processor that others want.
const LEAST: f64 = 0.02;
/// The host slept if its two clocks came apart by more than this between two looks.
const NAP: Span = Span::from_secs(5);

/// Processor time since the host was started, in the system's ticks, of all processors together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// That has passed.
    pub total: u64,
    /// In which something ran, here or (on a virtual machine) in our stead.
    pub busy: u64,
    /// In which this worker and its tasks ran.
    pub ours: u64,
}

/// The part of each slot's processor that tasks can have, averaged from one look to the next.
#[derive(Debug, Clone)]
pub(crate) struct Gauge {
    slots: f64,
    cores: f64,
    before: Option<Load>,
    share: f64,
}

impl Gauge {
    /// For a worker with so many slots on so many processors; all of them can be had until two looks say otherwise.
    pub(crate) fn new(slots: u32, cores: u32) -> Self {
        Self { slots: f64::from(slots.max(1)), cores: f64::from(cores.max(1)), before: None, share: 1.0 }
    }

    /// Takes what a look showed. What processes that are not ours used is missing for tasks, which run at the lowest
    /// priority; the rest is shared by the slots, none of which can use more than one processor.
    pub(crate) fn look(&mut self, now: Load) {
        let Some(before) = self.before.replace(now) else { return };
        let passed = now.total.saturating_sub(before.total);
        if passed == 0 {
            return;
        }
        // A task's time may be counted to it a little before it is counted to the processor.
        let ours = now.ours.saturating_sub(before.ours);
        let others = now.busy.saturating_sub(before.busy).saturating_sub(ours);
        let free = self.cores * (1.0 - others as f64 / passed as f64);
        self.share = (free / self.slots).clamp(LEAST, 1.0);
    }

    /// Between 0 and 1.
    pub(crate) fn share(&self) -> f32 {
        self.share as f32
    }
}

/// For how long the host has been up without a break: since the worker's start, or since the host last slept.
#[derive(Debug, Clone)]
pub(crate) struct UpTime {
    since: Time,
    /// How much further the clock that counts sleep was at the last look.
    ahead: Span,
}

impl UpTime {
    /// Since now, as the clock says that counts sleep; `awake` is the one that does not.
    pub(crate) fn new(now: Time, awake: Span) -> Self {
        Self { since: now, ahead: now.since(Time(0) + awake) }
    }

    /// Up to now, by the same two clocks.
    pub(crate) fn look(&mut self, now: Time, awake: Span) -> Span {
        let ahead = now.since(Time(0) + awake);
        if ahead > self.ahead + NAP {
            self.since = now;
        }
        self.ahead = ahead;
        now.since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After one second (100 ticks on each of 4 processors) in which others and ours had so much.
    fn share(slots: u32, others: u64, ours: u64) -> f32 {
        let mut gauge = Gauge::new(slots, 4);
        assert!((gauge.share() - 1.0).abs() < 1e-6);
        gauge.look(Load { total: 1_000, busy: 700, ours: 50 });
        gauge.look(Load { total: 1_400, busy: 700 + others + ours, ours: 50 + ours });
        gauge.share()
    }

    #[test]
    fn what_others_use_is_missing_and_what_tasks_use_is_not() {
        for (slots, others, ours, expected) in [
            (4, 0, 0, 1.0),
            (4, 0, 400, 1.0),
            (4, 100, 300, 0.75),
            (4, 100, 0, 0.75),
            // One slot finds a whole processor as long as one is free.
            (1, 300, 100, 1.0),
            (1, 350, 50, 0.5),
            (8, 0, 0, 0.5),
            (4, 400, 0, 0.02),
        ] {
            assert!((share(slots, others, ours) - expected).abs() < 1e-6, "{slots} {others} {ours}");
        }
    }

    #[test]
    fn numbers_that_run_backwards_do_no_harm() {
        let mut gauge = Gauge::new(1, 1);
        gauge.look(Load { total: 100, busy: 90, ours: 90 });
        gauge.look(Load { total: 200, busy: 150, ours: 0 });
        assert!((gauge.share() - 0.4).abs() < 1e-6, "the helper process was replaced: its time is nobody's");
        gauge.look(Load { total: 100, busy: 0, ours: 0 });
        assert!((gauge.share() - 0.4).abs() < 1e-6);
    }

    #[test]
    fn sleep_is_a_break_and_drifting_clocks_are_not() {
        let s = Span::from_secs;
        let mut up = UpTime::new(Time(0) + s(1_000), s(900));
        assert_eq!(up.look(Time(0) + s(1_010), s(910)), s(10));
        assert_eq!(up.look(Time(0) + s(1_101), s(1_000)), s(101));
        assert_eq!(up.look(Time(0) + s(5_101), s(1_001)), s(0), "slept for more than an hour");
        assert_eq!(up.look(Time(0) + s(5_121), s(1_021)), s(20));
    }
}
