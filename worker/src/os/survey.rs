//! The counterpart of control groups on macOS and Windows: process groups and Job Objects are always
//! there, so that nothing has to be looked for, made beforehand or removed. Above the first level of
//! confinement there is one on Windows, held by an AppContainer, and none on macOS.
#![cfg_attr(target_os = "linux", allow(dead_code, unreachable_pub))] // There only `cannot` is used, by tests.

use std::io;
use std::path::Path;

use common::host::Confinement;

use super::{Confines, Freezer};

/// The name of the system, and the reasons why it does not limit the memory of an attempt as a
/// whole, and does not count its processes.
const SYSTEM: &str = if cfg!(windows) { "Windows" } else { "macOS" };
const NO_MEMORY: Option<&str> = if cfg!(windows) {
    None
} else {
    Some("macOS holds no process to a limit of memory")
};
const NO_PROCESSES: Option<&str> = if cfg!(windows) {
    None
} else {
    Some("macOS counts processes by account, not by task")
};

/// The place of attempts' groups: these need none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grounds(());

impl Grounds {
    /// Returns the [`Freezer`] of trees on these grounds.
    pub fn freezer(&self) -> Freezer {
        Freezer::Signals
    }
}

/// The available mechanisms to hold attempts.
#[derive(Debug)]
pub struct Survey(());

impl Survey {
    /// Makes a survey; there is nothing to look for.
    pub fn make(_key: &str) -> Self {
        Self(())
    }

    /// Returns the reason why the memory of an attempt is not limited as a whole; `None` if it is.
    pub fn why_no_memory(&self) -> Option<String> {
        NO_MEMORY.map(str::to_owned)
    }

    /// Returns the reason why tasks do not yield the processor: none, their priority is enough.
    pub fn why_no_processor(&self) -> Option<String> {
        None
    }

    /// Returns the reason why the processes of an attempt are not counted; `None` if they are.
    pub fn why_no_processes(&self) -> Option<String> {
        NO_PROCESSES.map(str::to_owned)
    }

    /// Returns an error: the processor time of all tasks together cannot be bounded to `_part`.
    ///
    /// # Errors
    /// Always.
    pub fn throttle(&self, _part: f64) -> Result<(), String> {
        Err(format!(
            "on {SYSTEM} the time of all tasks together is not limited"
        ))
    }

    /// Returns the grounds for attempts that are frozen in this way. On Windows [`Freezer::Signals`]
    /// stands for suspending every process of a job until a look finds none that is not suspended.
    ///
    /// # Errors
    /// Says why this way is not there.
    pub fn grounds(&self, freezer: Freezer) -> Result<Grounds, String> {
        match freezer {
            Freezer::Signals => Ok(Grounds(())),
            Freezer::Cgroup2 | Freezer::Cgroup1 => Err(format!("{SYSTEM} has no control groups")),
        }
    }

    /// Does nothing: what an earlier worker started was ended with it, or by its guard.
    ///
    /// # Errors
    /// None on these systems.
    pub fn replace(&self, _record: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: no directory was made.
    pub fn narrow(&self, _grounds: &Grounds) {}

    /// Does nothing: no directory was made.
    pub fn remove(&self) {}
}

/// Returns the reason why an attempt cannot be confined like this; `None` if it can, as far as is known before it is tried.
pub(super) fn cannot(confines: &Confines) -> Option<String> {
    match confines.level {
        Confinement::Process => None,
        Confinement::Namespace if cfg!(windows) && confines.readable.is_empty() => None,
        Confinement::Namespace if cfg!(windows) => Some(
            "`readable_paths` are not given to tasks on Windows: let ALL APPLICATION PACKAGES read them (icacls PATH /grant *S-1-15-2-1:(OI)(CI)RX), and leave the list empty"
                .to_owned(),
        ),
        level => Some(format!("the level `{level}` is not to be had on {SYSTEM}")),
    }
}
