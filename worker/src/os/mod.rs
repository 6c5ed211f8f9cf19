//! The one door to what differs between operating systems: starting a command in a process tree of its own, and
//! freezing, thawing and ending that tree as a whole.
//!
//! What is behind it today is Linux; a second system has to offer the same names.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    Accounts, DirWatch, awake, boot_id, close_inherited, enlarge, files, load, since_boot, spawner_main, this_program,
    thread_cpu,
};
#[cfg(target_os = "linux")]
pub use linux::{Launcher, Output, Process};

use std::ffi::OsString;

use common::Span;
use serde::{Deserialize, Serialize};

/// Processor time since the host was started, in the system's ticks, of all processors together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// How many processors.
    pub processors: u32,
    /// That has passed.
    pub total: u64,
    /// In which something ran here.
    pub used: u64,
    /// In which, on a virtual machine, another machine ran in our stead.
    pub stolen: u64,
    /// In which this worker and its tasks ran.
    pub ours: u64,
}

/// What to run and how. Crosses from the worker to the process that watches over the attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The attempt's directory, where the command runs.
    pub dir: OsString,
    /// Standard input, below the directory; nothing where there is none.
    pub stdin: Option<String>,
    /// What each process may use.
    pub limits: Limits,
}

/// What each process of an attempt may use; nothing means no limit of ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Address space, in bytes.
    pub memory: Option<u64>,
    /// Length of a file that it writes, in bytes.
    pub file: Option<u64>,
    /// Files open at a time.
    pub open_files: Option<u64>,
}

/// What the worker may ask of a running tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Ask every process to end.
    Terminate,
    /// End every process.
    Kill,
    /// Stop every process until it is thawed.
    Freeze,
    /// Let them all go on.
    Thaw,
}

/// What the watching process says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// It could not be started, and nothing runs; says why.
    NotStarted(String),
    /// Every process of the tree is stopped.
    Frozen,
    /// The command ended, and no process of its tree is left.
    Ended {
        /// How the command itself ended.
        status: Status,
        /// Processor time of the whole tree.
        cpu: Span,
    },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}
