//! The part of the processor that tasks can have ([`Gauge`]) and the time that the host has been up
//! ([`UpTime`]), computed from numbers that the caller reads from the system.

use common::{Span, Time};

/// The smallest share: even the lowest priority gets a little of a processor that others want.
const LEAST: f64 = 0.02;
/// The host slept if its two clocks diverged by more than this between two looks.
const NAP: Span = Span::from_secs(5);

/// Processor time since the host was started, in the system's ticks, of all processors together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessorTimes {
    /// The number of processors.
    pub processors: u32,
    /// The time that has passed.
    pub total: u64,
    /// The time in which something ran on this host.
    pub used: u64,
    /// The time in which, on a virtual machine, another machine ran instead.
    pub stolen: u64,
    /// The time in which this worker and its tasks ran.
    pub ours: u64,
}

/// The processor time of others between two looks, as parts of the time of all processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Others {
    /// The part in which other programs ran.
    pub used: f64,
    /// The part in which another virtual machine ran.
    pub stolen: f64,
}

impl ProcessorTimes {
    /// Returns the processor time of this worker and its tasks since the earlier look `before`, as
    /// a part of the time of all processors; `None` if no time has passed.
    pub(crate) fn ours_since(self, before: Self) -> Option<f64> {
        let passed = self.total.checked_sub(before.total);
        let passed = passed.filter(|passed| *passed > 0)? as f64;
        Some(self.ours.saturating_sub(before.ours) as f64 / passed)
    }

    /// Returns the processor time of others since the earlier look `before`; `None` if no time has
    /// passed.
    pub(crate) fn others_since(self, before: Self) -> Option<Others> {
        let passed = self
            .total
            .checked_sub(before.total)
            .filter(|passed| *passed > 0)? as f64;
        // A task's time may be counted to it a little before it is counted to the processor.
        let ours = self.ours.saturating_sub(before.ours);
        let used = self.used.saturating_sub(before.used).saturating_sub(ours);
        Some(Others {
            used: used as f64 / passed,
            stolen: self.stolen.saturating_sub(before.stolen) as f64 / passed,
        })
    }
}

/// A gauge of the part of each slot's processor that tasks can have, averaged from one look to the
/// next.
#[derive(Debug, Clone)]
pub(crate) struct Gauge {
    slots: f64,
    cores: f64,
    before: Option<ProcessorTimes>,
    share: f64,
}

impl Gauge {
    /// Makes a gauge for a worker with this many slots on this many processors. Until two looks
    /// were taken, tasks can have all of it.
    pub(crate) fn new(slots: u32, cores: u32) -> Self {
        Self {
            slots: f64::from(slots.max(1)),
            cores: f64::from(cores.max(1)),
            before: None,
            share: 1.0,
        }
    }

    /// Takes the numbers of a look. Processor time used by other processes is missing for tasks,
    /// which run at the lowest priority; the rest is shared by the slots, none of which can use
    /// more than one processor.
    pub(crate) fn look(&mut self, now: ProcessorTimes) {
        let Some(others) = self
            .before
            .replace(now)
            .and_then(|before| now.others_since(before))
        else {
            return;
        };
        let free = self.cores * (1.0 - others.used - others.stolen);
        self.share = (free / self.slots).clamp(LEAST, 1.0);
    }

    /// Returns the share of each slot, between 0 and 1.
    pub(crate) fn share(&self) -> f32 {
        self.share as f32
    }
}

/// The time that the host has been up without a break: since the worker's start, or since the host
/// last slept.
#[derive(Debug, Clone)]
pub(crate) struct UpTime {
    since: Time,
    /// The lead of the clock that counts sleep over the other one, at the last look.
    ahead: Span,
}

impl UpTime {
    /// Starts counting at `now`, by the clock that counts sleep; `awake` is by the one that does
    /// not.
    pub(crate) fn new(now: Time, awake: Span) -> Self {
        Self {
            since: now,
            ahead: now.since(Time(0) + awake),
        }
    }

    /// Returns the time up to `now`, by the same two clocks. It starts anew if `now` has gained
    /// more than `NAP` on `awake`.
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

    fn at(total: u64, used: u64, stolen: u64, ours: u64) -> ProcessorTimes {
        ProcessorTimes {
            processors: 4,
            total,
            used,
            stolen,
            ours,
        }
    }

    #[test]
    fn our_load_is_not_counted_as_the_owners() {
        for (used, ours, expected) in [
            (0, 0, 0.0),
            (100, 0, 0.25),
            (300, 100, 0.5),
            (50, 60, 0.0),
            (400, 0, 1.0),
        ] {
            let others = at(1_400, 500 + used, 8, 70 + ours)
                .others_since(at(1_000, 500, 4, 70))
                .unwrap();
            assert!(
                (others.used - expected).abs() < 1e-9 && (others.stolen - 0.01).abs() < 1e-9,
                "{used} {ours}"
            );
        }

        assert_eq!(
            at(5, 5, 0, 5).others_since(at(5, 5, 0, 5)),
            None,
            "no time has passed"
        );
    }

    /// After one second (100 ticks on each of 4 processors) in which others and ours had so much.
    fn share(slots: u32, others: u64, ours: u64) -> f32 {
        let mut gauge = Gauge::new(slots, 4);
        assert!((gauge.share() - 1.0).abs() < 1e-6);
        gauge.look(at(1_000, 600, 100, 50));
        gauge.look(at(
            1_400,
            600 + others / 2 + ours,
            100 + others - others / 2,
            50 + ours,
        ));
        gauge.share()
    }

    #[test]
    fn the_owners_load_reduces_availability_and_tasks_do_not() {
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
            assert!(
                (share(slots, others, ours) - expected).abs() < 1e-6,
                "{slots} {others} {ours}"
            );
        }
    }

    #[test]
    fn numbers_that_run_backwards_do_no_harm() {
        let mut gauge = Gauge::new(1, 1);
        gauge.look(at(100, 90, 0, 90));
        gauge.look(at(200, 150, 0, 0));
        assert!(
            (gauge.share() - 0.4).abs() < 1e-6,
            "the helper process was replaced: its time is nobody's"
        );
        gauge.look(at(100, 0, 0, 0));
        assert!((gauge.share() - 0.4).abs() < 1e-6);
    }

    #[test]
    fn sleep_is_a_break_and_drifting_clocks_are_not() {
        let s = Span::from_secs;
        let mut up = UpTime::new(Time(0) + s(1_000), s(900));
        assert_eq!(up.look(Time(0) + s(1_010), s(910)), s(10));
        assert_eq!(up.look(Time(0) + s(1_101), s(1_000)), s(101));
        assert_eq!(
            up.look(Time(0) + s(5_101), s(1_001)),
            s(0),
            "slept for more than an hour"
        );
        assert_eq!(up.look(Time(0) + s(5_121), s(1_021)), s(20));
    }
}
