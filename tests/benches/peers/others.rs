//! The others: programs that spawn processes, and the Python peers of `peers.py`. Each is there, or
//! says why not.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::python::run;

/// Makes sure that GNU parallel is there.
pub(crate) fn parallel() -> Result<(), String> {
    let there = || run(Command::new("parallel").arg("--version"));
    if there().is_err() && rustix::process::getuid().is_root() {
        eprintln!("installing parallel with apt-get");
        run(Command::new("apt-get").args(["install", "--quiet", "--yes", "parallel"]))?;
    }
    there().map_err(|_| "GNU parallel is not installed, and only root can".to_owned())
}

/// Runs `true` `count` times with a program that reads its arguments from standard input, line by
/// line.
pub(crate) fn pipe(program: &[&str], count: u32) -> Result<(), String> {
    let mut command = Command::new(program[0]);
    let piped = command
        .args(&program[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = piped.spawn().map_err(|e| e.to_string())?;
    let lines: String = (0..count).map(|n| format!("{n}\n")).collect();

    child
        .stdin
        .take()
        .expect("piped")
        .write_all(lines.as_bytes())
        .map_err(|e| e.to_string())?;

    let status = child.wait().map_err(|e| e.to_string())?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", program[0]))
    }
}

/// A cluster of a Python peer with a client that is connected to it.
pub(crate) struct Peer {
    cluster: Lines,
    client: Lines,
}

impl Peer {
    /// Starts `kind`: `hyperqueue` or `dask`.
    pub(crate) fn start(python: &Path, kind: &str, slots: u32) -> Result<Self, String> {
        let part = format!("{kind}-cluster");
        let mut cluster = Lines::start(python, &part, &slots.to_string(), 0)?;
        let hello = cluster.read()?;
        let address = hello["address"]
            .as_str()
            .ok_or("the cluster says no address")?
            .to_owned();
        let group = i32::try_from(cluster.child.id()).unwrap_or(0);
        let part = format!("{kind}-client");
        let mut client = Lines::start(python, &part, &address, group)?;
        client.read()?;
        Ok(Self { cluster, client })
    }

    /// Lets the client do something; gives the seconds that it measured itself.
    pub(crate) fn ask(&mut self, what: &str, count: u32) -> Result<Vec<f64>, String> {
        let answer = self.client.ask(&format!("{what} {count}"))?;
        let seconds = answer["seconds"]
            .as_array()
            .ok_or("the client says no seconds")?;
        Ok(seconds.iter().filter_map(Value::as_f64).collect())
    }

    /// The processes whose cost is the peer's.
    pub(crate) fn processes(&self) -> [u32; 2] {
        [self.cluster.child.id(), self.client.child.id()]
    }

    /// The process that holds the queue.
    pub(crate) fn server(&self) -> u32 {
        self.cluster.child.id()
    }
}

/// The groups of processes of peers. Those that are not being measured stand still: the threads of a server that
/// only waits wake up fifty times a second, at the cost of whoever is measured.
pub(crate) struct PeerGroups(Vec<u32>);

impl PeerGroups {
    /// Of those of these peers that run.
    pub(crate) fn of(peers: &[&Result<Peer, String>]) -> Self {
        let run = peers.iter().filter_map(|peer| peer.as_ref().ok());
        Self(run.map(Peer::server).collect())
    }

    /// Does something while all others stand still than the one with this server.
    pub(crate) fn alone<T>(&self, server: Option<u32>, does: impl FnOnce() -> T) -> T {
        let others = || self.0.iter().filter(|group| Some(**group) != server);
        let tell = |signal| {
            for group in others() {
                if let Some(group) = i32::try_from(*group).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, signal);
                }
            }
        };
        tell(Signal::STOP);
        let done = does();
        tell(Signal::CONT);
        done
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A client first; a cluster ends by itself when its standard input does, and takes its
        // workers with it.
        let _ = self.client.child.kill();
        let _ = self.client.child.wait();
    }
}

struct Lines {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Lines {
    /// Starts a part of a peer, in this group of processes; 0: in a new one.
    fn start(python: &Path, part: &str, argument: &str, group: i32) -> Result<Self, String> {
        let script = Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/benches/peers/peers.py"
        ));
        let mut command = Command::new(python);
        command
            .arg(script)
            .args([part, argument])
            .process_group(group);

        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = piped.spawn().map_err(|e| e.to_string())?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));

        Ok(Self {
            child,
            input,
            output,
        })
    }

    /// The next line that is JSON; peers print other things in between.
    fn read(&mut self) -> Result<Value, String> {
        loop {
            let mut line = String::new();
            if self
                .output
                .read_line(&mut line)
                .map_err(|e| e.to_string())?
                == 0
            {
                return Err("the peer ended".to_owned());
            }
            if line.starts_with('{') {
                return serde_json::from_str(&line).map_err(|e| e.to_string());
            }
        }
    }

    fn ask(&mut self, line: &str) -> Result<Value, String> {
        let input = self.input.as_mut().ok_or("the peer's input is closed")?;
        writeln!(input, "{line}").map_err(|e| e.to_string())?;
        self.read()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.input = None;
        let ended = || self.child.try_wait().ok().flatten().map(|_| ());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(15);
        let mut ended = ended;
        while ended().is_none() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
