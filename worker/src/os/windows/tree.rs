//! Freezing and thawing of every process of a job.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::job::JobObject;
use super::sys::{self, ProcessHandle};

/// The longest time to freeze a tree: enough for one that grows, short against an owner's patience.
const PATIENCE: Duration = Duration::from_millis(500);
/// The time that a process that cannot be suspended, because it is just ending, may take to vanish
/// from the list.
const SETTLE: Duration = Duration::from_millis(1);

/// The processes that we stopped. A handle that is held keeps its process's number from being given
/// to another.
#[derive(Debug, Default)]
pub(super) struct Stilled(BTreeMap<u32, ProcessHandle>);

impl Stilled {
    /// Stops every process of the job, until a look finds none that was not stopped: a stopped one
    /// starts no other. Returns false if that takes too long, or is not `wanted` any more.
    pub(super) fn freeze(&mut self, job: &JobObject, wanted: &AtomicBool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Ok(members) = job.members() else {
                return false;
            };
            let mut news = false;
            let mut failed = false;

            for id in members {
                if self.0.contains_key(&id) {
                    continue;
                }
                match sys::open(id).and_then(|process| sys::suspend(&process).map(|()| process)) {
                    Ok(process) => {
                        self.0.insert(id, process);
                        news = true;
                    }
                    Err(_) => failed = true,
                }
            }

            if !news && !failed {
                return true;
            }
            if Instant::now() > deadline || !wanted.load(Ordering::Relaxed) {
                return false;
            }
            if !news {
                thread::sleep(SETTLE);
            }
        }
    }

    /// Lets every process that we stopped go on.
    pub(super) fn thaw(&mut self) {
        for process in std::mem::take(&mut self.0).into_values() {
            // One that was ended meanwhile needs nothing.
            let _ = sys::resume(&process);
        }
    }
}
