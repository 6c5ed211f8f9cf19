//! Processes: where the programs are, running one to its end, and looking for those that should be
//! gone.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;

/// How often a condition is looked at that nothing can announce.
const LOOK: Duration = Duration::from_millis(10);
/// The longest that a command may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// The built program `name`: beside this test's own binary, or in `DESKGRID_BIN_DIR`.
///
/// # Panics
/// If it has not been built.
pub fn program(name: &str) -> PathBuf {
    let given = std::env::var_os("DESKGRID_BIN_DIR").map(PathBuf::from);
    let here = std::env::current_exe().expect("this program has a path");
    let mut dirs = given
        .into_iter()
        .chain(here.ancestors().skip(1).take(2).map(Path::to_owned));
    let found = dirs.find_map(|dir| Some(dir.join(name)).filter(|path| path.is_file()));
    found.unwrap_or_else(|| {
        panic!("{name} is not built: run ./test, or first `cargo build --workspace --bins`")
    })
}

/// Runs a command of `deskgrid-lab` and waits for its end.
///
/// # Panics
/// If it is not built.
pub fn lab<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Output {
    Started::new(Command::new(program("deskgrid-lab")).args(args)).finish()
}

/// Runs a command of `deskgrid-lab` for a JSON answer.
///
/// # Panics
/// If it fails, or answers something else.
#[track_caller]
pub fn lab_json<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Value {
    Started::new(
        Command::new(program("deskgrid-lab"))
            .args(["--output", "json"])
            .args(args),
    )
    .finish()
    .expect_code(0)
    .json()
}

/// What a command left.
#[derive(Debug)]
pub struct Output {
    /// Its exit code; -1 where a signal ended it.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Output {
    /// The one JSON value on standard output.
    ///
    /// # Panics
    /// If it is not exactly one.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("not one JSON value ({e}): {self:?}"))
    }

    /// This, once it is sure that the exit code is `code`.
    ///
    /// # Panics
    /// If it is another one.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// A process that was started; killed, and waited for, when this is dropped.
#[derive(Debug)]
pub struct Started {
    child: Child,
    readers: Option<[JoinHandle<String>; 2]>,
}

impl Started {
    /// Starts a command and collects what it prints.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn new(command: &mut Command) -> Self {
        Self::reading(command, Stdio::null())
    }

    /// The same with a short text on its standard input, which is a pipe.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn fed(command: &mut Command, input: &str) -> Self {
        let mut started = Self::reading(command, Stdio::piped());
        let mut pipe = started.child.stdin.take().expect("piped");
        // One that has ended already says itself why.
        let _ = pipe.write_all(input.as_bytes());
        started
    }

    fn reading(command: &mut Command, input: Stdio) -> Self {
        let piped = command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let stdout = read_all(child.stdout.take().expect("piped"));
        let stderr = read_all(child.stderr.take().expect("piped"));
        Self {
            child,
            readers: Some([stdout, stderr]),
        }
    }

    /// Starts a server: it lives no longer than this process (it is told to end with its standard
    /// input) and writes what it has to say to `log`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn server(command: &mut Command, log: &Path) -> Self {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .expect("a log file can be made");
        let errors = log.try_clone().expect("a file has a second handle");
        let child = command
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(errors)
            .spawn();

        Self {
            child: child.unwrap_or_else(|e| panic!("{command:?}: {e}")),
            readers: None,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit code, if it has ended.
    ///
    /// # Panics
    /// If the system does not say.
    pub fn ended(&mut self) -> Option<i32> {
        self.child
            .try_wait()
            .expect("a child can be waited for")
            .map(|status| status.code().unwrap_or(-1))
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it takes too long; it is killed then.
    #[track_caller]
    pub fn finish(mut self) -> Output {
        if self.ended().is_none() {
            self.await_end(PATIENCE);
        }

        let code = self
            .ended()
            .unwrap_or_else(|| panic!("waited {PATIENCE:?} in vain for the end of a command"));
        let [stdout, stderr] = self
            .readers
            .take()
            .expect("only servers have none")
            .map(|r| r.join().expect("reads"));

        Output {
            code,
            stdout,
            stderr,
        }
    }

    /// SIGKILL, and what it had printed until then.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn killed(mut self) -> Output {
        self.child.kill().expect("a child can be killed");
        self.finish()
    }

    /// Returns when the process has ended, or when the time is over.
    fn await_end(&self, patience: Duration) {
        let pid = i32::try_from(self.pid())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a child has a process id");
        let handle = pidfd_open(pid, PidfdFlags::empty())
            .expect("a child that was not waited for can be opened");
        let patience = Timespec::try_from(patience).expect("minutes fit");
        let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&patience));
    }

    /// Writes to the standard input of a server.
    ///
    /// # Panics
    /// If it does not read any more.
    pub fn write(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().expect("a server's is piped");
        input
            .write_all(text.as_bytes())
            .expect("a server reads its input");
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM; does not wait.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal; one to a process that is gone already goes nowhere.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits until `look` finds something.
///
/// # Panics
/// If it does not within `deadline`; says `what` was awaited.
#[track_caller]
pub fn eventually<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            start.elapsed() < deadline,
            "waited {deadline:?} in vain: {what}"
        );
        std::thread::sleep(LOOK);
    }
}

/// The living processes whose command line or environment mentions `mark`, with their command
/// lines.
///
/// # Panics
/// If the system does not list its processes.
pub fn alive_with(mark: &str) -> Vec<(u32, String)> {
    let numbers = fs::read_dir("/proc").expect("Linux").flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter_map(|pid| Some((pid, mentions(pid, mark)?)))
        .collect()
}

fn mentions(pid: u32, mark: &str) -> Option<String> {
    let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace('\0', " ");
    let line = text(read("cmdline"));
    let environment = text(read("environ"));
    // A zombie has neither.
    (line.contains(mark) || environment.contains(mark)).then_some(line)
}

/// A command of the built program `name`, with nothing of this process's deskgrid settings.
///
/// # Panics
/// If it has not been built.
pub fn clean(name: &str, temp: &Path) -> Command {
    clean_behind(&[], name, temp)
}

/// The same behind other words: those of a program that in turn starts the rest of its command
/// line.
pub(crate) fn clean_behind(words: &[OsString], name: &str, temp: &Path) -> Command {
    let mut command = match words {
        [] => Command::new(program(name)),
        [first, more @ ..] => {
            let mut command = Command::new(first);
            command.args(more).arg(program(name));
            command
        }
    };

    let ours = |(name, _): &(OsString, OsString)| {
        name.to_str()
            .is_some_and(|n| n.starts_with("DESKGRID_") || n == "XDG_STATE_HOME")
    };
    for (name, _) in std::env::vars_os().filter(ours) {
        command.env_remove(name);
    }

    command
        .env("TMPDIR", OsStr::new(temp))
        .env("HOME", temp)
        .env("RUST_BACKTRACE", "0");
    command
}

/// Builds the program as it is released, unless `DESKGRID_BIN_DIR` names one.
///
/// # Panics
/// If it does not build.
pub fn build_release() {
    if std::env::var_os("DESKGRID_BIN_DIR").is_none() {
        build(&["--release", "--bins"]);
    }
}

/// Builds the program for PCs that only work, as it is released, unless `DESKGRID_BIN_DIR` has
/// one. Gives its path.
///
/// # Panics
/// If it does not build.
pub fn build_worker() -> PathBuf {
    let name = "deskgrid-worker";
    if std::env::var_os("DESKGRID_BIN_DIR").is_some() {
        return program(name);
    }
    build(&[
        "--profile",
        "worker",
        "--bin",
        name,
        "--no-default-features",
        "--features",
        "worker-only",
    ]);

    let here = std::env::current_exe().expect("this program has a path");
    let targets = here.ancestors().nth(3).expect("a target directory");
    targets.join("worker").join(name)
}

fn build(words: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "-p", "cli"]).args(words);

    // What cargo says to this program would make it build half of the libraries again.
    for (name, _) in std::env::vars()
        .filter(|(n, _)| n.starts_with("CARGO_PKG_") || n.starts_with("CARGO_MANIFEST_"))
    {
        command.env_remove(name);
    }
    assert!(
        command.status().is_ok_and(|status| status.success()),
        "deskgrid does not build"
    );
}

/// The memory that a process has in use, in bytes; none of it where the process is gone.
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = status.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?
            .trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
    });
    kib.unwrap_or(0) * 1_024
}

/// The processor time of a process so far, in seconds.
///
/// # Panics
/// If there is no such process.
pub fn processor_s(pid: u32) -> f64 {
    ticks_s(pid, 11)
}

/// The processor time of the ended children of a process, in seconds.
///
/// # Panics
/// If there is no such process.
pub fn children_processor_s(pid: u32) -> f64 {
    ticks_s(pid, 13)
}

/// Returns the sum of two of the times in the state of a process, the first at this field.
fn ticks_s(pid: u32, first: usize) -> f64 {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(path).expect("the process is there");
    // The name, in parentheses, may hold anything; what follows it is numbers.
    let fields: Vec<u64> = stat.rsplit_once(") ").map_or(Vec::new(), |(_, rest)| {
        rest.split(' ')
            .map(|field| field.parse().unwrap_or(0))
            .collect()
    });

    let ticks: u64 = fields[first..first + 2].iter().sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
