//! The master's only clock: it counts suspension, never steps, and reads like the wall clock at the
//! process's start.

use std::time::{SystemTime, UNIX_EPOCH};

use common::Time;
use rustix::time::{ClockId, clock_gettime};

/// Gives the present time. Copies agree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Microseconds from the start of `CLOCK_BOOTTIME` to the Unix epoch, as the wall clock had it.
    boot_at: u64,
}

fn micros(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

impl Clock {
    /// Looks at the wall clock, for the only time.
    pub(crate) fn start() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let wall = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        Self {
            boot_at: wall.saturating_sub(micros(ClockId::Boottime)),
        }
    }

    /// Now.
    pub(crate) fn now(self) -> Time {
        Time(self.boot_at + micros(ClockId::Boottime))
    }
}
