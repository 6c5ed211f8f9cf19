//! The common part of Linux and macOS: files, accounts, programs.

pub(crate) mod account;
pub(crate) mod files;
// Tested on Linux, too, where it is not used.
#[cfg(any(target_os = "macos", test))]
pub(crate) mod group;
#[cfg(any(target_os = "macos", test))]
pub(crate) mod guard;
pub(in crate::os) mod program;

use std::time::Duration;

use common::Span;
use rustix::time::{ClockId, clock_gettime};

use super::ProcessStatus;

/// Whether this process may become another user.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the processor time that this thread has used.
pub(crate) fn thread_cpu() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(used.tv_sec).unwrap_or(0),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}

/// Returns the time of a clock that began at 0.
pub(super) fn since_zero(clock: ClockId) -> Span {
    let now = clock_gettime(clock);
    Span(u64::try_from(now.tv_sec * 1_000_000 + now.tv_nsec / 1_000).unwrap_or(0))
}

/// Returns how a process ended, from what `wait` tells of it.
pub(super) fn process_status(status: i32) -> ProcessStatus {
    if libc::WIFSIGNALED(status) {
        ProcessStatus::Signalled(libc::WTERMSIG(status))
    } else {
        ProcessStatus::Exited(libc::WEXITSTATUS(status))
    }
}

/// Returns the processor time in a count of what was used, of programs and of the kernel for them.
pub(super) fn cpu_time(usage: &libc::rusage) -> Duration {
    let of = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}
