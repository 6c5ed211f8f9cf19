//! The Windows counterpart of control groups: a Job Object, which is always available, so there is
//! nothing to look for, to make beforehand, or to remove. There are no levels of confinement above
//! the first.

use std::io;
use std::path::Path;

use common::host::Confinement;

use crate::os::{Confines, Freezer};

/// The place of attempts' groups: jobs need none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grounds(());

impl Grounds {
    /// Returns the [`Freezer`] of trees on these grounds.
    pub fn freezer(&self) -> Freezer {
        Freezer::Signals
    }

    /// Whether the memory of an attempt is limited as a whole.
    pub fn limits_memory(&self) -> bool {
        true
    }

    /// Whether the processes of an attempt are counted.
    pub fn limits_processes(&self) -> bool {
        true
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

    /// Returns the reason why the memory of an attempt cannot be limited as a whole: none, it can.
    pub fn why_no_memory(&self) -> Option<String> {
        None
    }

    /// Returns the reason why tasks do not yield the processor: none, their priority, which a job
    /// enforces, is enough.
    pub fn why_no_processor(&self) -> Option<String> {
        None
    }

    /// Returns the reason why the processes of an attempt cannot be counted: none, they can.
    pub fn why_no_processes(&self) -> Option<String> {
        None
    }

    /// Returns an error: Windows cannot bound the processor time of all tasks together to `_part`.
    ///
    /// # Errors
    /// Always: jobs are limited one by one only.
    pub fn throttle(&self, _part: f64) -> Result<(), String> {
        Err("on Windows the time of all tasks together is not limited".to_owned())
    }

    /// Returns the grounds for attempts that are frozen in this way. [`Freezer::Signals`] stands
    /// for suspending every process of a job until a look finds none that is not suspended.
    ///
    /// # Errors
    /// Says why this way is not there.
    pub fn grounds(&self, freezer: Freezer) -> Result<Grounds, String> {
        match freezer {
            Freezer::Signals => Ok(Grounds(())),
            Freezer::Cgroup2 | Freezer::Cgroup1 => Err("Windows has no control groups".to_owned()),
        }
    }

    /// Does nothing: the jobs of an earlier worker ended with it.
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

/// Returns the reason why an attempt cannot be confined like this; `None` if it can.
pub(super) fn cannot(confines: &Confines) -> Option<String> {
    match confines.level {
        Confinement::Process => None,
        level => Some(format!("the level `{level}` is not to be had on Windows")),
    }
}
