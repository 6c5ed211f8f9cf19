//! deskgrid, as its users reach it: through the command line, and through a session that is open.

use std::process::{Command, Stdio};

use common::job::{CommandSpec, Work};
use tests::Grid;

use crate::session::BenchSession;

/// A grid with one worker.
pub(crate) struct Ours {
    /// The processes.
    pub(crate) grid: Grid,
    worker: Option<u32>,
    session: Option<BenchSession>,
}

impl Ours {
    /// A master with the shipped settings, and a worker with so many slots (none: no worker).
    pub(crate) fn start(slots: u32) -> Self {
        let mut grid = Grid::with_master("");
        let worker = (slots > 0).then(|| {
            grid.worker("bench").slots(slots).start();
            grid.running("bench").pid()
        });
        Self {
            grid,
            worker,
            session: None,
        }
    }

    /// The processes whose cost is deskgrid's; those of commands count by themselves.
    pub(crate) fn processes(&self) -> Vec<u32> {
        [self.grid.master_pid()]
            .into_iter()
            .chain(self.worker)
            .collect()
    }

    /// `submit ... --wait` for `count` times `true`.
    pub(crate) fn trues(&self, count: u32) {
        let array = format!("1-{count}");
        let drop = ["--stdout", "none", "--stderr", "none"];
        self.submit(&[&["--array", &array, "--wait"], &drop[..], &["--", "true"]].concat());
    }

    /// `submit --wait` for `count` tasks without a process.
    pub(crate) fn noops(&self, count: u32) {
        self.submit(&["--noop", "--array", &format!("1-{count}"), "--wait"]);
    }

    /// Runs `deskgrid submit` and waits for its end.
    pub(crate) fn submit(&self, args: &[&str]) {
        self.grid
            .deskgrid([&["submit"], args].concat())
            .expect_code(0);
    }

    /// Submits one task in an open session and waits for its end; gives the seconds.
    pub(crate) fn one_in_session(&mut self, work: Work) -> f64 {
        let state = self.grid.state("user").join("client");
        let session = self
            .session
            .get_or_insert_with(|| BenchSession::open(&state));
        session.one(work)
    }

    /// How many times the master and the worker sync files while `action` runs; says why where that
    /// cannot be seen.
    pub(crate) fn syncs(&self, action: impl FnOnce()) -> Result<[u64; 2], String> {
        let trace = |pid: u32| {
            let mut strace = Command::new("strace");
            let watch = strace.args([
                "-f",
                "-c",
                "-e",
                "trace=fsync,fdatasync,sync_file_range",
                "-p",
                &pid.to_string(),
            ]);
            watch
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|e| format!("strace: {e}"))
        };
        let tracers: Vec<_> = self
            .processes()
            .into_iter()
            .map(trace)
            .collect::<Result<_, _>>()?;
        std::thread::sleep(std::time::Duration::from_secs(1)); // Nothing tells that strace is attached.
        action();

        let counts = tracers.into_iter().map(|tracer| {
            let pid = i32::try_from(tracer.id())
                .ok()
                .and_then(rustix::process::Pid::from_raw)
                .expect("a child");
            rustix::process::kill_process(pid, rustix::process::Signal::INT)
                .map_err(|e| e.to_string())?;

            let output = tracer.wait_with_output().map_err(|e| e.to_string())?;
            let table = String::from_utf8_lossy(&output.stderr).into_owned();
            if table.contains("ptrace(") {
                Err(table)
            } else {
                Ok(calls(&table))
            }
        });
        let counts: Vec<u64> = counts.collect::<Result<_, _>>()?;

        Ok([counts[0], counts.get(1).copied().unwrap_or(0)])
    }
}

/// The calls in a table of `strace -c`: the number before the optional errors and the name, in each
/// line of a call.
fn calls(table: &str) -> u64 {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields.last()?;
        (name.contains("sync"))
            .then(|| fields.get(3)?.parse::<u64>().ok())
            .flatten()
    };
    table.lines().filter_map(of_line).sum()
}

/// The command `true`.
pub(crate) fn command_true() -> Work {
    Work::Command(CommandSpec::new(vec!["true".parse().expect("a template")]))
}
