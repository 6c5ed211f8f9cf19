//! The one door to what differs between operating systems: starting a command in a process tree of its own, and
//! freezing, thawing and ending that tree as a whole.
//!
//! What is behind it is Linux and Windows; a third system has to offer the same names.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
pub mod windows;

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    DirWatch, awake, boot_id, enlarge, files, load, since_boot, spawner_main, this_program, thread_cpu,
};
#[cfg(target_os = "linux")]
pub use linux::{Launcher, Output, Process};
#[cfg(windows)]
pub(crate) use windows::{
    DirWatch, TASK_PATH, awake, boot_id, clock_and_memory, enlarge, files, load, since_boot, spawner_main,
    this_program, thread_cpu, whole_path,
};
#[cfg(windows)]
pub use windows::{Launcher, Output, Process};

/// What the tasks' `PATH` is where the owner does not say.
#[cfg(not(windows))]
pub(crate) const TASK_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The whole path of a directory.
#[cfg(not(windows))]
pub(crate) fn whole_path(dir: &std::path::Path) -> std::io::Result<std::path::PathBuf> {
    dir.canonicalize()
}

use std::ffi::OsString;

use common::Span;
use serde::{Deserialize, Serialize};

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
