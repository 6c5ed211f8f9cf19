//! The processor time that has passed, was used, and was used by this worker and its attempts.

use std::collections::BTreeMap;
use std::io;
use std::os::windows::io::OwnedHandle;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{job, sys};
use crate::share::ProcessorTimes;

/// The attempts' jobs, and the processor time of the jobs that are gone.
struct AttemptJobs {
    next: u64,
    alive: BTreeMap<u64, OwnedHandle>,
    gone: Duration,
}

static JOBS: Mutex<AttemptJobs> = Mutex::new(AttemptJobs {
    next: 0,
    alive: BTreeMap::new(),
    gone: Duration::ZERO,
});

/// Notes a new job, whose use is ours from now on; until [`leave`] with the number that this
/// returns.
pub(super) fn enter(job: &OwnedHandle) -> io::Result<u64> {
    let job = job.try_clone()?;
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    jobs.next += 1;
    let number = jobs.next;
    jobs.alive.insert(number, job);
    Ok(number)
}

/// Records that a job is gone, after it used the processor time `used`. No other handle keeps it
/// alive.
pub(super) fn leave(number: u64, used: Duration) {
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    jobs.alive.remove(&number);
    jobs.gone += used;
}

/// The use of the processors, read again and again.
#[derive(Debug, Default)]
pub(crate) struct Accounts;

impl Accounts {
    /// Reads the load now; `None` if the system does not report it.
    #[allow(clippy::unused_self)] // Elsewhere it remembers what it saw.
    pub(crate) fn look(&mut self) -> Option<ProcessorTimes> {
        // Ours first: what is used in between would else be taken for nobody's.
        let ours = {
            let jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
            let alive: Duration = jobs.alive.values().map(|job| job::used(job).cpu).sum();
            sys::own_cpu() + jobs.gone + alive
        };
        let ours = u64::try_from(ours.as_nanos() / 100).unwrap_or(u64::MAX);
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let (total, used) = sys::processors()?;

        Some(ProcessorTimes {
            processors,
            total,
            used,
            stolen: 0,
            ours,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_processor_time_counts_as_ours() {
        let before = Accounts.look().unwrap();
        let mut number = 1u64;
        let after = loop {
            number = (0..10_000_000).fold(number, |n, i| {
                std::hint::black_box(n.wrapping_mul(6_364_136_223_846_793_005) + i)
            });
            let now = Accounts.look().unwrap();
            if now.ours >= before.ours + 500_000 {
                break now;
            }
        };

        assert!(
            after.total > before.total && after.used >= before.used,
            "{before:?} {after:?}"
        );
        assert!(after.used <= after.total);
    }
}
