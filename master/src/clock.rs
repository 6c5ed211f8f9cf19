//! The master's only clock. It counts suspension, runs without steps, and starts at the wall
//! clock's time of the process's start.

use std::time::{SystemTime, UNIX_EPOCH};

use common::Time;
use rustix::time::{ClockId, clock_gettime};

/// The clock that counts the machine's sleep, too. That of macOS has Linux's name of the other one.
const WITH_SLEEP: ClockId = {
    #[cfg(target_os = "macos")]
    {
        ClockId::Monotonic
    }
    #[cfg(not(target_os = "macos"))]
    {
        ClockId::Boottime
    }
};

/// Tells the present time. Copies agree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Microseconds from the start of `WITH_SLEEP` to the Unix epoch, as the wall clock had it.
    boot_at: u64,
}

/// The time since the machine was started, its sleep included.
pub(crate) fn since_boot() -> Time {
    let now = clock_gettime(WITH_SLEEP);
    Time(now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000)
}

impl Clock {
    /// Reads the wall clock, the only time that this is done.
    pub(crate) fn start() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let wall = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        Self {
            boot_at: wall.saturating_sub(since_boot().0),
        }
    }

    /// The present time.
    pub(crate) fn now(self) -> Time {
        Time(self.boot_at + since_boot().0)
    }
}
