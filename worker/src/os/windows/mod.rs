//! Windows: a Job Object per attempt, which holds the whole tree whatever a process does, and dies
//! with the worker.
//!
//! No helper process is needed: starting a program does not copy this one. The command is born
//! suspended, put into its job, and only then let go. What Windows does not have: a polite request
//! to end that every program understands, so [`ProcessOrder::Terminate`] ends the tree at once; limits on
//! the length of a file and on open files.

pub(crate) mod account;
mod arguments;
mod command;
mod container;
pub(crate) mod events;
pub(crate) mod files;
mod job;
mod load;
mod pipe;
pub(crate) mod probe;
pub mod sense;
pub(crate) mod sessions;
mod spawn;
mod sys;
mod token;
mod tree;
mod watch;

use std::io;
use std::os::windows::io::OwnedHandle;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use common::host::Confinement;
use tokio::sync::Notify;

use super::{Grounds, Launch, ProcessOrder, ProcessStatus, WatcherReport, survey};
use crate::blocking::{behind, off};
use container::Container;
use job::JobObject;
pub(crate) use load::Accounts;
pub use pipe::Output;
#[cfg(test)]
pub(crate) use pipe::pair;
use spawn::ProcessEnd;
use sys::ProcessHandle;
#[cfg(test)]
pub(crate) use sys::nudge_mouse;
pub(crate) use sys::{awake, clock_and_memory, since_boot, starts_at_logon};
use tree::Stilled;
pub(crate) use watch::DirWatch;

/// The tasks' `PATH` unless the owner sets another.
pub(crate) const TASK_PATH: &str = r"C:\Windows\System32;C:\Windows";

/// The exit codes of processes that the worker ended, in a range that Windows leaves to programs.
const KILLED: u32 = 0xE0DE_0009;
const TERMINATED: u32 = 0xE0DE_000F;
/// The variable that names the directory of an account's own data.
const LOCAL: &str = "LOCALAPPDATA";
/// The session of the services.
const SERVICES: u32 = 0;
/// The pause before processes are told to stop again that have not when they were told.
const AGAIN: Duration = Duration::from_secs(1);
/// The time that killed processes may take to end before they are looked for again.
const DYING: Duration = Duration::from_millis(2);

/// The starter of commands.
pub struct Launcher(());

/// A command that was started, or could not be.
pub struct Process {
    state: ProcessState,
    /// The standard output, if it is kept.
    pub stdout: Option<Output>,
    /// The standard error, if it is kept.
    pub stderr: Option<Output>,
}

enum ProcessState {
    NotStarted(String),
    Running(Box<RunningProcess>),
}

struct RunningProcess {
    end: ProcessEnd,
    process: ProcessHandle,
    tree: Arc<JobTree>,
}

/// The processes of a command.
struct JobTree {
    job: JobObject,
    stilled: Mutex<Stilled>,
    /// Whether they are to be frozen, by the last order.
    still: AtomicBool,
    frozen: Notify,
    restless: Notify,
    /// Dropped after the job, so that nothing runs in it any more.
    _container: Option<Container>,
}

impl Launcher {
    /// Makes a launcher; neither `program` nor `grounds` is needed on Windows.
    ///
    /// # Errors
    /// None on this system.
    pub fn start(_program: PathBuf, _grounds: Grounds) -> io::Result<Self> {
        sys::keep_standard_handles();
        if sys::session() == Some(SERVICES) {
            container::open_session();
        }
        Ok(Self(()))
    }

    /// Does nothing: no other process outlives the worker here, so the master notices its death by
    /// its silence.
    pub(crate) fn keep_farewell(&self, _farewell: Option<link::Farewell>) {}

    /// Has a command started. Where its standard output or error is not kept, the command writes to
    /// nowhere.
    ///
    /// # Errors
    /// If no pipe or job can be had. That the command itself does not start is a [`WatcherReport`].
    pub async fn launch(
        &self,
        launch: &Launch,
        keep_stdout: bool,
        keep_stderr: bool,
    ) -> io::Result<Process> {
        let ((stdout, out), (stderr, err)) = (
            pipe::output(keep_stdout).await?,
            pipe::output(keep_stderr).await?,
        );
        let job = JobObject::new(launch.limits)?;
        let launch = launch.clone();
        // A container is made with files and the registry, which may take a while.
        let state = match off(move || begin(&launch, [out, err], job)).await? {
            Ok(running) => ProcessState::Running(Box::new(running)),
            Err(why) => ProcessState::NotStarted(why),
        };

        Ok(Process {
            state,
            stdout,
            stderr,
        })
    }
}

/// Starts a command inside the job, in a [`Container`] above [`Confinement::Process`]. The error is for people.
fn begin(
    launch: &Launch,
    outputs: [OwnedHandle; 2],
    job: JobObject,
) -> Result<RunningProcess, String> {
    if let Some(why) = survey::cannot(&launch.confines) {
        return Err(why);
    }
    let mut command = command::find(launch)?;
    let container = match launch.confines.level {
        Confinement::Process => None,
        _ => {
            let made = Container::new(&command.dir, launch.confines.network);
            Some(made.map_err(|error| error.to_string())?)
        }
    };

    if container.is_some() {
        // The system looks here for the container's own folder, which becomes the command's, with a directory for its
        // temporary files; without it no command starts.
        let local = std::env::var_os(LOCAL).unwrap_or_else(|| launch.dir.clone());
        command.env.push((LOCAL.to_owned(), local));
    }

    let started = spawn::spawn(&command, outputs, container.as_ref()).and_then(|process| {
        let end = let_go(&process, &job);
        end.map(|end| (process, end))
    });
    let (process, end) =
        started.map_err(|error| command::why_not(launch, &command.program, &error))?;
    Ok(RunningProcess {
        end,
        process,
        tree: Arc::new(JobTree {
            job,
            stilled: Mutex::default(),
            still: AtomicBool::new(false),
            frozen: Notify::new(),
            restless: Notify::new(),
            _container: container,
        }),
    })
}

/// Lets a command that was just started run, without privileges and in its job. Where that fails, it is ended.
fn let_go(process: &ProcessHandle, job: &JobObject) -> io::Result<ProcessEnd> {
    if let Err(error) = token::restrict(process) {
        static TOLD: std::sync::Once = std::sync::Once::new();
        let told = || tracing::warn!(%error, "tasks keep the privileges of the worker's account");
        TOLD.call_once(told);
    }

    let begun = job
        .take(process)
        .and_then(|()| ProcessEnd::of(process))
        .and_then(|end| sys::resume(process).map(|()| end));
    if begun.is_err() {
        sys::end(process, KILLED);
    }
    begun
}

impl Process {
    /// Passes an order on. An order after the end has no effect.
    pub fn order(&self, order: ProcessOrder) {
        let ProcessState::Running(running) = &self.state else {
            return;
        };
        match order {
            ProcessOrder::Terminate => running.tree.job.end(TERMINATED),
            ProcessOrder::Kill => running.tree.job.end(KILLED),
            ProcessOrder::Freeze | ProcessOrder::Thaw => {
                let still = order == ProcessOrder::Freeze;
                running.tree.still.store(still, Ordering::Relaxed);
                let tree = Arc::downgrade(&running.tree);
                // A tree that grows takes a while. Nobody goes on with one that has ended.
                behind(move || {
                    let mut first = true;
                    let mut settled = |tree: Arc<JobTree>| tree.settle(std::mem::take(&mut first));
                    while tree.upgrade().is_some_and(|tree| !settled(tree)) {
                        std::thread::sleep(AGAIN);
                    }
                });
            }
        }
    }

    /// Returns false: nobody measures here what its processes hold.
    pub fn measure(&self) -> bool {
        false
    }

    /// The next report. After [`WatcherReport::Ended`] or [`WatcherReport::NotStarted`] there is none. Safe to
    /// cancel.
    pub async fn report(&mut self) -> WatcherReport {
        match &mut self.state {
            ProcessState::NotStarted(why) => WatcherReport::NotStarted(why.clone()),
            ProcessState::Running(running) => {
                let code = tokio::select! {
                    biased;
                    () = running.tree.frozen.notified() => return WatcherReport::Frozen,
                    () = running.tree.restless.notified() => return WatcherReport::Restless,
                    code = running.end.code() => code,
                };
                let cpu = running.end_tree().await;
                WatcherReport::Ended {
                    status: code.map_or(ProcessStatus::Signalled(9), told),
                    cpu,
                    over: None,
                }
            }
        }
    }
}

impl JobTree {
    /// Freezes or thaws the processes, whichever was ordered last. Returns whether they are as they should be, and
    /// reports it at the `first` try if they do not freeze.
    fn settle(&self, first: bool) -> bool {
        let mut stilled = self.stilled.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.still.load(Ordering::Relaxed) {
            stilled.thaw();
            return true;
        }

        let asked = Instant::now();
        let frozen = stilled.freeze(&self.job, &self.still);
        if frozen {
            tracing::debug!(took = ?asked.elapsed(), "a tree is frozen");
            self.frozen.notify_one();
        } else if first && self.still.load(Ordering::Relaxed) {
            self.restless.notify_one();
        }
        frozen
    }
}

impl RunningProcess {
    /// Kills the processes that the command left, until the system reports none.
    async fn end_tree(&self) -> common::Span {
        loop {
            let used = self.tree.job.used();
            if used.processes == 0 {
                // Wine counts no time for jobs; the command's own is known in any case.
                return used.cpu.max(sys::cpu_of(&self.process)).into();
            }
            self.tree.job.end(KILLED);
            tokio::time::sleep(DYING).await;
        }
    }
}

/// Translates the exit code of a command: two codes of deskgrid's own mean that it was killed or
/// terminated.
fn told(code: u32) -> ProcessStatus {
    match code {
        KILLED => ProcessStatus::Signalled(9),
        TERMINATED => ProcessStatus::Signalled(15),
        code => ProcessStatus::Exited(code.cast_signed()),
    }
}

/// Returns false: on Windows the size of a pipe is fixed when it is made (`ROOM`).
pub(crate) fn enlarge(_output: &Output, _bytes: usize) -> bool {
    false
}

/// There is no spawner on this system: as a helper the program tries what its container keeps it from.
pub(crate) fn spawner_main() -> i32 {
    probe::main()
}

/// Returns the path of this program.
pub(crate) fn this_program() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// The whole path of a directory. Not the form with `\\?\` in front, which many programs do not
/// take for theirs.
pub(crate) fn whole_path(dir: &std::path::Path) -> io::Result<PathBuf> {
    std::path::absolute(dir)
}

/// Time that has passed for this thread. Windows counts a thread's processor time in steps of a
/// 64th of a second, too coarse for what is measured with it: the quickest of several runs counts
/// instead.
pub(crate) fn thread_cpu() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Returns no processors: commands are not bound to any here.
pub(crate) fn cores() -> Vec<Vec<u32>> {
    Vec::new()
}

/// Whether this worker could give its tasks an account: never.
pub(crate) fn is_root() -> bool {
    false
}

/// Returns 0: Windows has no Landlock.
pub(crate) fn landlock_version() -> u32 {
    0
}

/// Returns the identity of this run of the host: `None`, because not every version of Windows has
/// one.
pub(crate) fn boot_id() -> Option<uuid::Uuid> {
    None
}
