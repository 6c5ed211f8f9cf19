//! The clock of the benchmarks, which other work on the machine does not move.

use std::time::Duration;

/// Processor time of this thread.
#[cfg(unix)]
pub(crate) fn clock() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}

/// Wall time, where there is nothing better.
#[cfg(not(unix))]
pub(crate) fn clock() -> Duration {
    use std::{sync::LazyLock, time::Instant};
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    ORIGIN.elapsed()
}
