//! Everything that differs between operating systems: starting a command in a process tree of its
//! own, and freezing, thawing and ending that tree as a whole.
//!
//! There are Linux, macOS and Windows; a fourth system must offer the same names.

mod abilities;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(any(not(target_os = "linux"), test))]
mod survey;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
pub mod windows;

pub use abilities::{Abilities, Ability, Means, abilities};
#[cfg(target_os = "linux")]
pub(crate) use linux::{
    Accounts, DirWatch, awake, boot_id, close_inherited, cores, donor_main, enlarge,
    give_back_code, give_up_capabilities, landlock_version, memory_bound, since_boot, spawner_main,
    this_program,
};
#[cfg(target_os = "linux")]
pub use linux::{Grounds, Launcher, Output, Process, Survey};
#[cfg(target_os = "macos")]
pub(crate) use macos::{
    Accounts, DirWatch, awake, boot_id, cores, enlarge, landlock_version, memory_bound, sense,
    since_boot, spawner_main, this_program,
};
#[cfg(target_os = "macos")]
pub use macos::{Launcher, Output, Process};
#[cfg(not(target_os = "linux"))]
pub use survey::{Grounds, Survey};
#[cfg(unix)]
pub(crate) use unix::{account, files, is_root, thread_cpu};
#[cfg(windows)]
pub(crate) use windows::{
    Accounts, DirWatch, TASK_PATH, account, awake, boot_id, clock_and_memory, cores, enlarge,
    files, is_root, landlock_version, since_boot, spawner_main, this_program, thread_cpu,
    whole_path,
};
#[cfg(windows)]
pub use windows::{Launcher, Output, Process};

/// Whether [`yield_thread`] does something.
pub(crate) const THREADS_YIELD: bool = cfg!(target_os = "linux");

/// Makes the calling thread, and those that it starts, yield to every other one of this host.
#[cfg(target_os = "linux")]
pub(crate) fn yield_thread() {
    let this = Some(rustix::thread::gettid());
    if let Err(error) = rustix::process::setpriority_process(this, 19) {
        tracing::debug!(%error, "a thread has the usual priority");
    }
}

/// Elsewhere the code of this program stays where it is.
#[cfg(not(target_os = "linux"))]
pub(crate) fn give_back_code() {}

/// Elsewhere such a thread has the usual priority.
#[cfg(not(target_os = "linux"))]
pub(crate) fn yield_thread() {}

/// The tasks' `PATH` unless the owner sets another.
#[cfg(not(windows))]
pub(crate) const TASK_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the path of a file below a directory, with slashes between its parts; `None` if it is
/// not UTF-8.
pub(crate) fn slashed(relative: &std::path::Path) -> Option<String> {
    let parts = relative.components().map(|part| part.as_os_str().to_str());
    parts
        .collect::<Option<Vec<_>>>()
        .map(|parts| parts.join("/"))
}

/// A file as it was: its identity, its length and the time of its last change.
pub(crate) type FileStamp = (files::FileId, u64, Option<std::time::SystemTime>);

/// Returns the identity, length and time of change of this file.
pub(crate) fn stamp_of(meta: &std::fs::Metadata) -> FileStamp {
    (files::id_of(meta), meta.len(), meta.modified().ok())
}

/// Removes a file, or a directory and its content, also where access rights were taken away; fine where
/// there is nothing.
pub(crate) fn remove_tree(path: &std::path::Path) -> std::io::Result<()> {
    link::files::unless_gone(files::remove_tree(path)).map(drop)
}

/// A command that does nothing, for probes, and the `PATH` where it is found.
pub(crate) const NOTHING: (&[&str], &str) = if cfg!(windows) {
    (&["cmd", "/d", "/c", "exit 0"], r"C:\Windows\System32")
} else {
    (&["true"], "/usr/bin:/bin:/run/current-system/sw/bin")
};

/// Returns the canonical path of a directory.
#[cfg(not(windows))]
pub(crate) fn whole_path(dir: &std::path::Path) -> std::io::Result<std::path::PathBuf> {
    dir.canonicalize()
}

use std::ffi::OsString;

use common::Span;
use common::host::Confinement;
use serde::{Deserialize, Serialize};

/// A command and the way to run it. It is sent from the worker to the process that watches over the
/// attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The attempt's directory, where the command runs.
    pub dir: OsString,
    /// The file that becomes standard input, below the directory; `None`: empty input.
    pub stdin: Option<String>,
    /// The processors that it is bound to, by number; none: all of the worker's.
    pub processors: Vec<u32>,
    /// The limits of its resources.
    pub limits: AttemptLimits,
    /// Its confinement.
    pub confines: Confines,
}

/// The confinement of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confines {
    /// The level of confinement.
    pub level: Confinement,
    /// Whether it may use the network. No level below [`Confinement::Landlock`] keeps it from that.
    pub network: bool,
    /// Files and directories that it may read and execute beside those of the system.
    pub readable: Vec<String>,
    /// User and group id of the account that runs the task, if it has its own.
    pub account: Option<(u32, u32)>,
    /// Files and trees elsewhere, each with the path in the attempt's directory at which the task sees it
    /// read-only. Only from [`Confinement::Namespace`] on.
    pub shown: Vec<(OsString, String)>,
}

/// The way in which a large input gets into an attempt's directory without being copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// None: the task could write to the worker's own file.
    None,
    /// A second name of the worker's file, which the task's account may not write to.
    Link,
    /// A read-only mount of the worker's file, which the task cannot get rid of.
    Mount,
}

/// The way in which a tree gets into an attempt's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeSharing {
    /// A read-only mount.
    Mount,
    /// A symbolic link to the tree, which is among the [readable](Confines::readable) paths.
    Link,
    /// A copy.
    Copy,
}

impl Confines {
    /// Returns the way to share trees at this confinement.
    pub(crate) fn tree_sharing(&self) -> TreeSharing {
        match self.level {
            _ if cfg!(windows) => TreeSharing::Copy,
            Confinement::Namespace | Confinement::Account => TreeSharing::Mount,
            Confinement::Process | Confinement::Landlock => TreeSharing::Link,
        }
    }

    /// Returns the way to share large inputs at this confinement.
    pub(crate) fn sharing(&self) -> Sharing {
        match (self.level, self.account) {
            _ if cfg!(windows) => Sharing::None,
            (_, Some((user, _))) if user != 0 => Sharing::Link,
            (Confinement::Namespace | Confinement::Account, None) => Sharing::Mount,
            _ => Sharing::None,
        }
    }
}

impl Default for Confines {
    /// Returns the first level, `Confinement::Process`.
    fn default() -> Self {
        Self {
            level: Confinement::Process,
            network: false,
            readable: Vec::new(),
            account: None,
            shown: Vec::new(),
        }
    }
}

/// The resource limits of an attempt; `None` means no limit beyond the system's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptLimits {
    /// Memory of all its processes together, in bytes; where the host cannot limit that, the
    /// address space of each. From [`Confinement::Namespace`] on its own `/tmp` and `/dev/shm` may
    /// hold as much, each.
    pub memory: Option<u64>,
    /// Processes and threads at a time, where the host can count them.
    pub processes: Option<u64>,
    /// Length of each file that it writes, in bytes.
    pub file: Option<u64>,
    /// Files that each process has open at a time.
    pub open_files: Option<u64>,
}

/// The mechanism that freezes a process tree; the first one that the host offers is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Freezer {
    /// A control group of version 2: the kernel stops everything in it at once.
    Cgroup2,
    /// A control group of version 1, with the freezer controller.
    Cgroup1,
    /// Signals to every process of the tree, until a look finds none that is not stopped.
    Signals,
}

impl Freezer {
    /// Every mechanism, the best first.
    pub const ALL: [Freezer; 3] = [Freezer::Cgroup2, Freezer::Cgroup1, Freezer::Signals];
}

impl std::str::FromStr for Freezer {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let freezer = Self::ALL
            .into_iter()
            .find(|freezer| freezer.to_string() == text);
        freezer.ok_or_else(|| {
            format!("`{text}` is no way to freeze: say `cgroup2`, `cgroup1` or `signals`")
        })
    }
}

impl std::fmt::Display for Freezer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Freezer::Cgroup2 => "cgroup2",
            Freezer::Cgroup1 => "cgroup1",
            Freezer::Signals => "signals",
        })
    }
}

/// An order of the worker to a running process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessOrder {
    /// Ask every process to end.
    Terminate,
    /// Kill every process.
    Kill,
    /// Freeze every process until it is thawed.
    Freeze,
    /// Thaw every process.
    Thaw,
}

/// A report of the process that watches over an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatcherReport {
    /// The command could not be started, and nothing runs; says why.
    NotStarted(String),
    /// Every process of the tree is frozen.
    Frozen,
    /// Processes that are to be frozen still run. They are told again and again; `Frozen` follows.
    Restless,
    /// The memory that its processes hold, in bytes, as [`Process::measure`] asked; `None` if it cannot be told.
    Holds(Option<u64>),
    /// The command ended, and no process of its tree is left.
    Ended {
        /// The way in which the command itself ended.
        status: ProcessStatus,
        /// Processor time of the whole tree.
        cpu: Span,
        /// The limit of this host that ended it, or a process below it, if known.
        over: Option<String>,
    },
}

/// The way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessStatus {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}
