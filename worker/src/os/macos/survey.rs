//! The counterpart of control groups: process groups, which are always there, so that nothing has to be looked
//! for, made or removed.

use std::io;
use std::path::Path;

use crate::os::Freezer;

/// The place of attempts' groups: process groups need none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grounds(());

impl Grounds {
    /// Returns the [`Freezer`] of trees on these grounds.
    pub fn freezer(&self) -> Freezer {
        Freezer::Signals
    }

    /// Whether the memory of an attempt is limited as a whole.
    pub fn limits_memory(&self) -> bool {
        false
    }

    /// Whether the processes of an attempt are counted.
    pub fn limits_processes(&self) -> bool {
        false
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

    /// Returns the reason why the memory of an attempt is not limited.
    pub fn why_no_memory(&self) -> Option<String> {
        Some("macOS holds no process to a limit of memory".to_owned())
    }

    /// Returns the reason why tasks do not yield the processor: none, their priority is enough.
    pub fn why_no_processor(&self) -> Option<String> {
        None
    }

    /// Returns the reason why the processes of an attempt are not counted.
    pub fn why_no_processes(&self) -> Option<String> {
        Some("macOS counts processes by account, not by task".to_owned())
    }

    /// Returns an error: the processor time of all tasks together cannot be bounded to `_part`.
    ///
    /// # Errors
    /// Always.
    pub fn throttle(&self, _part: f64) -> Result<(), String> {
        Err("on macOS the time of all tasks together is not limited".to_owned())
    }

    /// Returns the grounds for attempts that are frozen in this way.
    ///
    /// # Errors
    /// Says why this way is not there.
    pub fn grounds(&self, freezer: Freezer) -> Result<Grounds, String> {
        match freezer {
            Freezer::Signals => Ok(Grounds(())),
            Freezer::Cgroup2 | Freezer::Cgroup1 => Err("macOS has no control groups".to_owned()),
        }
    }

    /// Does nothing: the guard killed what an earlier worker left.
    ///
    /// # Errors
    /// None on this system.
    pub fn replace(&self, _record: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: no directory was made.
    pub fn narrow(&self, _grounds: &Grounds) {}

    /// Does nothing: no directory was made.
    pub fn remove(&self) {}
}
