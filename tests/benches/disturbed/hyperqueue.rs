//! HyperQueue: a server, a worker with one processor on each host, and a user at the command line. Its program
//! comes from no registry from which workers can be started one by one: `DESKGRID_HQ` names one that was built from
//! its sources.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::contender::{Contender, below, pause, signal};
use super::network::{MASTER, Network};
use super::plan::{Case, HOSTS};

/// The longest time in which a server or all workers come up.
const UP: Duration = Duration::from_secs(60);

pub(crate) struct HyperQueue {
    program: PathBuf,
    /// Where the server writes what clients and workers connect with.
    dir: PathBuf,
    /// The server first, then a worker for each host, then the client.
    processes: Vec<Child>,
}

impl HyperQueue {
    /// The program, where one is named.
    pub(crate) fn program() -> Option<PathBuf> {
        std::env::var_os("DESKGRID_HQ").map(PathBuf::from)
    }

    pub(crate) fn start(program: PathBuf, network: &Network) -> Result<Self, String> {
        let dir = network.host_dir(0).with_file_name("hq");
        // It is there from the last case.
        let _ = std::fs::remove_dir_all(&dir);
        let mut all = Self {
            program,
            dir,
            processes: Vec::new(),
        };

        let mut server = all.command(&[]);
        server.args(["server", "start", "--host", MASTER]);
        all.spawn(&mut server)?;
        all.until(|all| all.says(&["server", "info"]).is_ok())?;

        for host in 0..HOSTS {
            let mut worker = all.command(&Network::words(host));
            worker.args([
                "worker",
                "start",
                "--cpus",
                "1",
                "--detect-resources",
                "none",
            ]);
            worker.env("PATH", network.path(host));
            all.spawn(&mut worker)?;
        }
        all.until(|all| {
            let words = ["worker", "list", "--output-mode", "json"];
            let listed = all.says(&words).unwrap_or_default();
            listed.matches("\"started\"").count() >= HOSTS
        })?;
        Ok(all)
    }

    /// The program, behind these words, with the server's directory.
    fn command(&self, behind: &[String]) -> Command {
        let mut command = match behind {
            [] => Command::new(&self.program),
            [first, others @ ..] => {
                let mut command = Command::new(first);
                command.args(others).arg(&self.program);
                command
            }
        };
        command.env("HQ_SERVER_DIR", &self.dir);
        command
    }

    fn spawn(&mut self, command: &mut Command) -> Result<(), String> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let spawned = command.stderr(Stdio::null()).spawn();
        self.processes.push(spawned.map_err(|e| e.to_string())?);
        Ok(())
    }

    /// Runs a command of its client, and returns the printed text.
    fn says(&self, words: &[&str]) -> Result<String, String> {
        let output = self.command(&[]).args(words).stdin(Stdio::null()).output();
        let output = output.map_err(|e| e.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn until(&self, is_so: impl Fn(&Self) -> bool) -> Result<(), String> {
        let begun = Instant::now();
        while !is_so(self) {
            if begun.elapsed() > UP {
                return Err("HyperQueue does not come up".to_owned());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Contender for HyperQueue {
    fn submit(&mut self, case: &Case) -> Result<(), String> {
        let array = format!("1-{}", case.tasks);
        let size = case.size_s.to_string();
        let mut submit = self.command(&[]);
        submit.args(["submit", "--wait", "--array", &array]);
        submit.args(["--stdout", "none", "--stderr", "none", "--", "paced", &size]);
        self.spawn(&mut submit)
    }

    fn done(&mut self) -> Result<bool, String> {
        let client = self.processes.last_mut().expect("submitted before");
        match client.try_wait().map_err(|e| e.to_string())? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(format!("`hq submit --wait` ended with {status}")),
        }
    }

    fn worker(&mut self, host: usize) -> u32 {
        self.processes[1 + host].id()
    }

    /// HyperQueue knows no owners either.
    fn owner(&mut self, _host: usize, at: &Path, comes: bool) {
        pause(at, comes);
    }
}

impl Drop for HyperQueue {
    fn drop(&mut self) {
        for process in &mut self.processes {
            signal(&below(process.id()), rustix::process::Signal::KILL);
            let _ = process.wait();
        }
    }
}
