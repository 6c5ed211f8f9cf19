//! The failure rate of tasks that start at any time (Kondo et al. 2004, section 3.3), without the
//! cost of starting.

use common::units::REFERENCE_MHZ;

use crate::trace::{Segment, Trace};

/// The time between two tries, in seconds, and the largest number of them.
const STEP_S: f64 = 60.0;
const MOST_STARTS: f64 = 2_000.0;

/// The number of tasks that were tried, and of those that failed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FailureCount {
    tried: u64,
    failed: u64,
}

impl FailureCount {
    /// Tries a task of `task_s` seconds at every step of the window, on every host that could take
    /// it then. Tasks that are cut off by the trace's end, or by a time of which nothing is known, do
    /// not count.
    pub(super) fn add(&mut self, trace: &Trace, (from_s, to_s): (f64, f64), task_s: f64) {
        let step_s = STEP_S.max((to_s - from_s) / MOST_STARTS);
        for host in &trace.hosts {
            let cpu_s = task_s * REFERENCE_MHZ / host.clock_mhz;
            let mut segments = &host.segments[..];
            let mut at_s = from_s + step_s / 2.0;

            while at_s < to_s {
                let past = segments
                    .iter()
                    .take_while(|segment| segment.end_s <= at_s)
                    .count();
                segments = &segments[past..];
                if segments
                    .first()
                    .is_some_and(|segment| segment.start_s <= at_s && segment.ready())
                    && let Some(failed) = fails(segments, at_s, cpu_s)
                {
                    self.tried += 1;
                    self.failed += u64::from(failed);
                }
                at_s += step_s;
            }
        }
    }

    /// The share of the tasks that failed.
    pub(super) fn share(self) -> Option<f64> {
        (self.tried > 0).then(|| self.failed as f64 / self.tried as f64)
    }
}

/// Whether the host goes down before a task that starts at `at_s` has had `cpu_s` processor
/// seconds; `None` if the trace ends before, or nothing is known of a time before.
fn fails(segments: &[Segment], at_s: f64, cpu_s: f64) -> Option<bool> {
    let mut left_s = cpu_s;
    let mut known_s = at_s;
    for segment in segments {
        if segment.start_s > known_s {
            return None;
        }
        if !segment.up {
            return Some(true);
        }
        known_s = segment.end_s;
        if segment.ready() {
            left_s -= (segment.end_s - segment.start_s.max(at_s)) * segment.cpu;
        }
        if left_s <= 0.0 {
            return Some(false);
        }
    }

    None
}
