//! Dask: a scheduler, a worker process with one thread on each host, and a client.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use super::contender::{Contender, below, pause, signal};
use super::network::{MASTER, Network};
use super::plan::{Case, HOSTS};
use super::python::python;

pub(crate) struct Dask {
    python: PathBuf,
    /// The scheduler first, then a worker for each host, then the client.
    processes: Vec<Child>,
    lines: Option<Receiver<String>>,
}

fn address() -> String {
    format!("tcp://{MASTER}:8786")
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/disturbed/dask_client.py")
}

impl Dask {
    pub(crate) fn start(network: &Network) -> Result<Self, String> {
        let mut dask = Self {
            python: python()?,
            processes: Vec::new(),
            lines: None,
        };
        let mut scheduler = Command::new(&dask.python);
        scheduler.args(["-m", "distributed.cli.dask_scheduler", "--no-dashboard"]);
        scheduler.args(["--host", MASTER, "--port", "8786", "--no-show"]);
        dask.spawn(&mut scheduler)?;

        for host in 0..HOSTS {
            let words = Network::words(host);
            let mut worker = Command::new(&words[0]);
            worker.args(&words[1..]).arg(&dask.python);
            worker.args(["-m", "distributed.cli.dask_worker", &address()]);
            worker.args(["--nthreads", "1", "--no-dashboard", "--local-directory"]);
            worker
                .arg(network.host_dir(host))
                .env("PATH", network.path(host));
            dask.spawn(&mut worker)?;
        }
        Ok(dask)
    }

    fn spawn(&mut self, command: &mut Command) -> Result<(), String> {
        let quiet = command.stdin(Stdio::null()).stderr(Stdio::null());
        self.processes
            .push(quiet.spawn().map_err(|e| e.to_string())?);
        Ok(())
    }
}

impl Contender for Dask {
    fn submit(&mut self, case: &Case) -> Result<(), String> {
        let mut client = Command::new(&self.python);
        client.arg(script()).arg(address());
        client.args([HOSTS, case.tasks].map(|n| n.to_string()));
        client.arg(case.size_s.to_string()).stdout(Stdio::piped());
        self.spawn(&mut client)?;

        let output = self
            .processes
            .last_mut()
            .and_then(|client| client.stdout.take());
        let mut lines = BufReader::new(output.expect("piped"))
            .lines()
            .map_while(Result::ok);
        // The client says a word when all workers are there, and one when all tasks are done.
        lines.next().ok_or("the client ended")?;
        let (send, receive) = channel();
        std::thread::spawn(move || lines.try_for_each(|line| send.send(line)));
        self.lines = Some(receive);
        Ok(())
    }

    fn done(&mut self) -> Result<bool, String> {
        match self.lines.as_ref().expect("submitted before").try_recv() {
            Ok(line) => Ok(line == "done"),
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err("the client ended early".to_owned()),
        }
    }

    fn worker(&mut self, host: usize) -> u32 {
        self.processes[1 + host].id()
    }

    /// Dask knows no owners.
    fn owner(&mut self, _host: usize, at: &Path, comes: bool) {
        pause(at, comes);
    }
}

impl Drop for Dask {
    fn drop(&mut self) {
        for process in &mut self.processes {
            signal(&below(process.id()), rustix::process::Signal::KILL);
            let _ = process.wait();
        }
    }
}
