//! macOS: a process group per attempt ([`group`]), and what the system tells of its load, time and owner. None of
//! this has run on a Mac ([docs/macos.md](../../../../docs/macos.md)).

mod load;
pub(crate) mod sense;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::ClockId;

pub(crate) use load::Accounts;

use super::Confines;
pub use super::unix::group::{Launcher, Output, Process};
use super::unix::{group, guard, since_zero};

/// The names in a directory, which are looked at again and again here.
#[derive(Debug)]
pub(crate) struct DirWatch(());

impl DirWatch {
    /// Watches nothing yet.
    pub(crate) fn new(_dir: &Path) -> Self {
        Self(())
    }

    /// Returns after `pause`.
    pub(crate) fn wait(&self, pause: Duration) {
        thread::sleep(pause);
    }
}

/// Whether tasks see this file: no level of confinement here hides any.
pub(super) fn shows(_confines: &Confines, _dir: &Path, _file: &Path) -> bool {
    true
}

/// Returns false: the size of a pipe cannot be changed here.
pub(crate) fn enlarge(_output: &Output, _bytes: usize) -> bool {
    false
}

/// Is the guard of the tasks' process groups until the worker ends.
pub(crate) fn spawner_main() -> i32 {
    guard::stand(std::io::stdin().lock());
    0
}

/// Returns the path of this program.
pub(crate) fn this_program() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// Returns the time since the host was started, with its sleep: this clock goes on meanwhile, unlike elsewhere.
pub(crate) fn since_boot() -> common::Time {
    common::Time(0) + since_zero(ClockId::Monotonic)
}

/// Returns the time since this program first asked, without sleep: the standard library's clock stands still then.
pub(crate) fn awake() -> common::Span {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().into()
}

/// Returns no processors: commands cannot be bound to any here.
pub(crate) fn cores() -> Vec<Vec<u32>> {
    Vec::new()
}

/// Returns 0: macOS has no Landlock.
pub(crate) fn landlock_version() -> u32 {
    0
}

/// Returns no bound of memory below the host's own.
pub(crate) fn memory_bound() -> Option<u64> {
    None
}

/// Returns no identity of this run of the host.
pub(crate) fn boot_id() -> Option<uuid::Uuid> {
    None
}
