//! A process group for each attempt: it is frozen, thawed and ended by signals to the group. A process that leaves
//! the group (`setsid`) escapes. No helper is needed but the [`GroupGuard`], which kills the groups of a worker that died.
#![allow(unsafe_code)] // A step between fork and exec, and wait4, which neither std nor rustix has.
#![cfg_attr(not(target_os = "macos"), allow(dead_code, unreachable_pub))] // On Linux it is only tested.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit, kill_process_group,
    setpriority_process, setrlimit, waitid,
};
use tokio::net::unix::pipe;
use tokio::sync::{Notify, oneshot};

use super::guard::GroupGuard;
use super::{cpu_time, files, process_status, program};
use crate::blocking::off;
use crate::os::{
    AttemptLimits, Grounds, Launch, ProcessOrder, ProcessStatus, WatcherReport, survey,
};

/// The priority of tasks: every other program goes first.
const LOWEST: i32 = 19;
/// The most open files that macOS lets anybody ask for (`OPEN_MAX`).
const OPEN_MAX: u64 = 10_240;
/// The pause between two looks for what is left of a group that was killed, and the longest time of such looks.
const DYING: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(10);

/// The worker's end of one of a command's standard streams.
pub type Output = pipe::Receiver;

/// The starter of commands.
pub struct Launcher {
    guard: Arc<GroupGuard>,
}

/// A command that was started, or could not be.
pub struct Process {
    /// Its group, as long as the number is surely its own.
    group: Arc<Mutex<Option<Pid>>>,
    frozen: Notify,
    ended: oneshot::Receiver<WatcherReport>,
    /// The standard output, if it is kept.
    pub stdout: Option<Output>,
    /// The standard error, if it is kept.
    pub stderr: Option<Output>,
}

impl Launcher {
    /// Starts the guard: `program` called with [`crate::spawner::ARG`]. `grounds` are not needed.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(program: PathBuf, _grounds: Grounds) -> io::Result<Self> {
        let guard = Arc::new(GroupGuard::start(program)?);
        Ok(Self { guard })
    }

    /// Does nothing: the master notices a worker's death by its silence.
    pub(crate) fn keep_farewell(&self, _farewell: Option<link::Farewell>) {}

    /// Starts a command. A standard output or error that is not kept goes to `/dev/null`.
    ///
    /// # Errors
    /// If no pipe or thread can be had. That the command itself does not start is a [`WatcherReport`].
    pub async fn launch(
        &self,
        launch: &Launch,
        keep_stdout: bool,
        keep_stderr: bool,
    ) -> io::Result<Process> {
        let (stdout, out) = output(keep_stdout)?;
        let (stderr, err) = output(keep_stderr)?;
        let (report, ended) = oneshot::channel();
        let group = Arc::default();
        let launch = launch.clone();
        // The command and its directory may lie on a file server that takes a while.
        match off(move || begin(&launch, out, err)).await? {
            Err(why) => drop(report.send(WatcherReport::NotStarted(why))),
            Ok(child) => self.watch_over(&child, &group, report)?,
        }

        Ok(Process {
            group,
            frozen: Notify::new(),
            ended,
            stdout,
            stderr,
        })
    }

    /// Has a thread wait for the command's end.
    fn watch_over(
        &self,
        child: &Child,
        group: &Arc<Mutex<Option<Pid>>>,
        report: oneshot::Sender<WatcherReport>,
    ) -> io::Result<()> {
        let id = Pid::from_child(child);
        *lock(group) = Some(id);
        self.guard.keep(id);

        let group = Arc::clone(group);
        let guard = Arc::clone(&self.guard);
        let watch = move || {
            let _ = report.send(watch(id, &group));
            guard.forget(id);
        };
        let started = thread::Builder::new().name("attempt".into()).spawn(watch);
        started.map(drop).inspect_err(|_| {
            let _ = kill_process_group(id, Signal::KILL);
        })
    }
}

impl Process {
    /// Passes an order on. An order after the end has no effect.
    pub fn order(&self, order: ProcessOrder) {
        // Held while the signal is sent: nobody else can get the number meanwhile.
        let group = lock(&self.group);
        let Some(id) = *group else { return };

        let signal = match order {
            ProcessOrder::Terminate => Signal::TERM,
            ProcessOrder::Kill => Signal::KILL,
            ProcessOrder::Freeze => Signal::STOP,
            ProcessOrder::Thaw => Signal::CONT,
        };
        if kill_process_group(id, signal).is_ok() && order == ProcessOrder::Freeze {
            // No process of the group executes another instruction of its own once the signal is pending.
            self.frozen.notify_one();
        }
    }

    /// Returns false: nobody measures here what its processes hold.
    pub fn measure(&self) -> bool {
        false
    }

    /// Returns the next report; there is none after [`WatcherReport::Ended`] or [`WatcherReport::NotStarted`].
    /// Safe to cancel.
    pub async fn report(&mut self) -> WatcherReport {
        let report = tokio::select! {
            biased;
            () = self.frozen.notified() => return WatcherReport::Frozen,
            report = &mut self.ended => report,
        };

        report.unwrap_or(WatcherReport::Ended {
            status: ProcessStatus::Signalled(9),
            cpu: common::Span::ZERO,
            over: None,
        })
    }
}

fn lock(group: &Mutex<Option<Pid>>) -> MutexGuard<'_, Option<Pid>> {
    group.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the worker's end of an output stream, and the command's.
fn output(keep: bool) -> io::Result<(Option<Output>, Stdio)> {
    if !keep {
        return Ok((None, Stdio::null()));
    }
    let (read, write) = io::pipe()?;
    let read = pipe::Receiver::from_owned_fd(OwnedFd::from(read))?;
    Ok((Some(read), OwnedFd::from(write).into()))
}

/// Starts the command in a new group. The error is for people.
fn begin(launch: &Launch, out: Stdio, err: Stdio) -> Result<Child, String> {
    if let Some(why) = survey::cannot(&launch.confines) {
        return Err(why);
    }
    let dir = Path::new(&launch.dir);
    let program = program::find(launch, dir)?;
    let stdin = match &launch.stdin {
        None => Stdio::null(),
        Some(name) => File::open(dir.join(name))
            .map_err(|e| format!("its standard input `{name}` cannot be opened: {e}"))?
            .into(),
    };

    let mut command = Command::new(&program);
    command.arg0(&launch.argv[0]).args(&launch.argv[1..]);
    command
        .env_clear()
        .envs(launch.env.iter().map(|(key, value)| (key, value)));
    command.current_dir(dir).process_group(0);
    command.stdin(stdin).stdout(out).stderr(err);
    if let Some((user, group)) = launch.confines.account {
        files::hand_over(dir, user, group)
            .map_err(|e| format!("its directory cannot be handed to its account: {e}"))?;
        command.uid(user).gid(group);
    }

    bound(&mut command, launch);
    command
        .spawn()
        .map_err(|error| program::why_not(launch, dir, &program, &error))
}

/// Gives the command its limits and the lowest priority.
fn bound(command: &mut Command, launch: &Launch) {
    let limits = limits(launch.limits, launch.confines.account.is_some());
    let step = move || {
        for (resource, most) in &limits {
            let most = Some(*most);
            let limit = Rlimit {
                current: most,
                maximum: most,
            };
            setrlimit(*resource, limit)?;
        }
        let _ = setpriority_process(None, LOWEST);
        Ok(())
    };

    // SAFETY: between fork and exec it makes system calls only: it takes no memory and no lock.
    unsafe { command.pre_exec(step) };
}

/// Returns the limits of each process. There is none of memory: macOS does not hold processes to it. Processes are
/// counted by account, so that makes sense only where tasks have one of their own.
fn limits(limits: AttemptLimits, own_account: bool) -> Vec<(Resource, u64)> {
    let AttemptLimits {
        processes,
        file,
        open_files,
        ..
    } = limits;
    let wanted = [
        (Resource::Nproc, processes.filter(|_| own_account)),
        (Resource::Fsize, file),
        (Resource::Nofile, open_files.map(|most| most.min(OPEN_MAX))),
    ];

    let wanted = wanted.into_iter();
    wanted
        .filter_map(|(resource, most)| {
            let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            Some((resource, most?.min(allowed)))
        })
        .collect()
}

/// Waits until the command ends, and kills what it left of its group.
fn watch(id: Pid, group: &Mutex<Option<Pid>>) -> WatcherReport {
    // It stays unreaped, so that the group's number is its own until the group was killed.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(id), ended), Err(Errno::INTR)) {}
    lock(group).take();

    let _ = kill_process_group(id, Signal::KILL);
    let (status, cpu) = reap(id);

    // Zombies alone are no group any more on macOS; where they are one, whoever reaps orphans may take its time.
    let until = Instant::now() + PATIENCE;
    while kill_process_group(id, Signal::KILL).is_ok() && Instant::now() < until {
        thread::sleep(DYING);
    }
    WatcherReport::Ended {
        status,
        cpu: cpu.into(),
        over: None,
    }
}

/// Reaps the command; returns how it ended, and the processor time of it and of those that it waited for.
fn reap(id: Pid) -> (ProcessStatus, Duration) {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to locals; zeroes are a valid value of the struct.
    let usage = unsafe {
        let pid = id.as_raw_nonzero().get();
        while libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        usage.assume_init()
    };

    (process_status(status), cpu_time(&usage))
}

/// Returns the processor time of this process, and of the commands that have ended, with those that they waited for.
pub(crate) fn used_so_far() -> Duration {
    let one = |who| {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a local, and zeroes are a valid value of the struct.
        let usage = unsafe {
            libc::getrusage(who, usage.as_mut_ptr());
            usage.assume_init()
        };
        cpu_time(&usage)
    };
    one(libc::RUSAGE_SELF) + one(libc::RUSAGE_CHILDREN)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::os::Confines;

    struct Place(tempfile::TempDir, Launcher);

    impl Place {
        fn new() -> Self {
            // The shell finds no script of the guard's name, and is gone: so is each one that replaces it.
            let launcher = Launcher::start("/bin/sh".into(), Grounds::default()).unwrap();
            Self(tempfile::tempdir().unwrap(), launcher)
        }

        async fn run(&self, words: &[&str]) -> Process {
            let launch = Launch {
                argv: words.iter().map(|word| (*word).to_owned()).collect(),
                env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
                dir: self.0.path().into(),
                stdin: None,
                processors: Vec::new(),
                limits: AttemptLimits {
                    file: Some(1_000),
                    ..AttemptLimits::default()
                },
                confines: Confines::default(),
            };
            self.1.launch(&launch, true, false).await.unwrap()
        }
    }

    fn status_of(report: WatcherReport) -> ProcessStatus {
        match report {
            WatcherReport::Ended { status, .. } => status,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_command_runs_within_its_limits_and_its_output_and_code_come_back() {
        let place = Place::new();
        let mut process = place.run(&["sh", "-c", "ulimit -f; nice; exit 3"]).await;
        let mut said = String::new();
        let stdout = process.stdout.as_mut().unwrap();
        stdout.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "1\n19\n");
        assert_eq!(status_of(process.report().await), ProcessStatus::Exited(3));
        process.order(ProcessOrder::Kill);
    }

    #[tokio::test]
    async fn what_a_command_leaves_of_its_group_is_killed() {
        let place = Place::new();
        let mut process = place.run(&["sh", "-c", "sleep 600 & echo $!"]).await;
        assert_eq!(status_of(process.report().await), ProcessStatus::Exited(0));
        let mut said = String::new();
        let stdout = process.stdout.as_mut().unwrap();
        // The sleeper held the pipe open.
        stdout.read_to_string(&mut said).await.unwrap();
        assert!(said.trim().parse::<u32>().is_ok());
    }

    #[tokio::test]
    async fn a_group_is_frozen_and_thawed_and_can_be_killed_while_it_is_frozen() {
        let place = Place::new();
        let mut process = place.run(&["sleep", "600"]).await;
        let id = lock(&process.group).unwrap();
        let changed = |how| waitid(WaitId::Pid(id), how | WaitIdOptions::NOWAIT).unwrap();

        process.order(ProcessOrder::Freeze);
        assert_eq!(process.report().await, WatcherReport::Frozen);
        assert!(changed(WaitIdOptions::STOPPED).unwrap().stopped());
        process.order(ProcessOrder::Thaw);
        assert!(changed(WaitIdOptions::CONTINUED).unwrap().continued());

        process.order(ProcessOrder::Freeze);
        assert_eq!(process.report().await, WatcherReport::Frozen);
        process.order(ProcessOrder::Kill);
        assert_eq!(
            status_of(process.report().await),
            ProcessStatus::Signalled(9)
        );
    }

    #[tokio::test]
    async fn a_command_that_does_not_start_says_why() {
        let place = Place::new();
        for (program, why) in [("no-such-program", "not found in PATH"), ("./x", "below")] {
            let report = place.run(&[program]).await.report().await;
            assert!(
                matches!(&report, WatcherReport::NotStarted(said) if said.contains(why)),
                "{report:?}"
            );
        }
    }
}
