//! The processes of the demo: a master and workers, each as it would run on a machine of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::Span;
use common::token::{JoinToken, Role};
use common::view::HostState;
use common::wire::client::Request;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::failure::Failure;
use crate::session::Session;
use crate::state::StateDir;

/// The longest time that the master, or all workers together, may take to start.
const START: Duration = Duration::from_secs(60);
/// The time between two looks: before there is a connection nothing can tell of the start.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The longest time that a process may take to end when asked.
const GRACE: Duration = Duration::from_secs(5);
/// The workers' settings: they heed no sensors but the switches, since their owners are pretended.
const DEDICATED: &str = include_str!("../../../configs/worker-dedicated.toml");
/// The name of the master's machine.
const MASTER: &str = "master";

/// The temporary directory, and the demo's processes.
#[derive(Debug)]
pub(super) struct DemoGrid {
    dir: TempDir,
    processes: Vec<DemoProcess>,
}

#[derive(Debug)]
struct DemoProcess {
    name: String,
    child: Child,
}

/// Returns the name of a demo host.
pub(super) fn host_name(number: u32) -> String {
    format!("desk-{number}")
}

impl DemoGrid {
    /// Makes a grid without processes.
    ///
    /// # Errors
    /// If there is no place for temporary files.
    pub(super) fn new() -> Result<Self, Failure> {
        let dir = tempfile::Builder::new().prefix("deskgrid-demo-").tempdir();
        let dir = dir.map_err(|error| Failure::io("cannot make a temporary directory", &error))?;
        Ok(Self {
            dir,
            processes: Vec::new(),
        })
    }

    /// The directory that holds a subdirectory for each machine.
    pub(super) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// The state directory of the demo's user, who sits at the master's machine.
    pub(super) fn client_state(&self) -> StateDir {
        StateDir::at(self.root().join(MASTER))
    }

    /// Starts the master on a free port, and connects to it.
    ///
    /// # Errors
    /// If it does not come up.
    pub(super) async fn start_master(&mut self) -> Result<Session, Failure> {
        let words = [
            "master",
            "start",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "none",
        ];
        self.spawn(MASTER, &words)?;

        let state = self.client_state();
        let deadline = Instant::now() + START;
        loop {
            self.check()?;
            match tokio::time::timeout(START, Session::open(&state)).await {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(failure)) if Instant::now() > deadline => return Err(failure),
                Err(_) => return Err(late("no master")),
                Ok(Err(_)) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Starts workers, lets them join with one token, and waits until each is ready.
    ///
    /// # Errors
    /// If one of them does not come up.
    pub(super) async fn start_workers(
        &mut self,
        session: &Session,
        count: u32,
    ) -> Result<(), Failure> {
        let token = self.root().join("token");
        std::fs::write(&token, self::token(session, count).await?.to_string())
            .map_err(|error| Failure::io("cannot write the workers' token", &error))?;

        let token = format!("@{}", token.display());
        let config = self.root().join("worker.toml");
        std::fs::write(&config, self.settings()?)
            .map_err(|error| Failure::io("cannot write the workers' settings", &error))?;

        let config = config.to_string_lossy();
        for number in 1..=count {
            let name = host_name(number);
            let joining = [
                "worker",
                "start",
                "--master",
                session.master(),
                "--join",
                &token,
                "--name",
                &name,
            ];
            let words = [&joining[..], &["--slots", "1", "--config", &config]].concat();
            self.spawn(&name, &words)?;
        }

        let deadline = Instant::now() + START;
        while Instant::now() < deadline {
            self.check()?;
            let hosts = session.hosts(&Request::Hosts { names: Vec::new() }).await?;
            if hosts
                .iter()
                .filter(|host| host.state == HostState::Ready)
                .count()
                == count as usize
            {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }

        Err(late("not every worker"))
    }

    /// Returns the path at which tasks of any account find this program.
    ///
    /// # Errors
    /// If it cannot be placed there.
    pub(super) fn program(&self) -> Result<PathBuf, Failure> {
        let path = self
            .root()
            .join(format!("deskgrid{}", std::env::consts::EXE_SUFFIX));
        if path.exists() {
            return Ok(path);
        }

        let cannot = |error| Failure::io("cannot place the program of the tasks", &error);
        let us = std::env::current_exe().map_err(cannot)?;
        std::fs::hard_link(&us, &path)
            .or_else(|_| std::fs::copy(&us, &path).map(drop))
            .map_err(cannot)?;

        // A worker that runs as root gives its tasks another account, which has to get here.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let reachable = std::fs::Permissions::from_mode(0o711);
            std::fs::set_permissions(self.root(), reachable).map_err(cannot)?;
        }

        Ok(path)
    }

    /// Returns the workers' settings: tasks may run this program.
    fn settings(&self) -> Result<String, Failure> {
        let program = toml::Value::from(self.program()?.display().to_string());
        Ok(format!("readable_paths = [{program}]\n{DEDICATED}"))
    }

    /// Waits for a process that ends against the plan, and reports it; else never returns.
    pub(super) async fn watch(&mut self) -> Failure {
        loop {
            if let Err(failure) = self.check() {
                return failure;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Ends every process: workers first, so that each can take leave of the master.
    pub(super) async fn stop(mut self) {
        let (masters, workers): (Vec<_>, Vec<_>) = self
            .processes
            .drain(..)
            .partition(|process| process.name == MASTER);
        for group in [workers, masters] {
            group.iter().for_each(DemoProcess::terminate);
            let deadline = tokio::time::Instant::now() + GRACE;
            for mut process in group {
                if tokio::time::timeout_at(deadline, process.child.wait())
                    .await
                    .is_err()
                {
                    // A process that does not end in time is killed, and reaped here too.
                    let _ = process.child.kill().await;
                }
            }
        }

        let path = self.dir.path().to_owned();
        if let Err(error) = self.dir.close() {
            tracing::warn!("cannot remove {}: {error}", path.display());
        }
    }

    fn spawn(&mut self, name: &str, words: &[&str]) -> Result<(), Failure> {
        let cannot = |error: std::io::Error| Failure::io(format!("cannot start {name}"), &error);
        let log = File::create(self.log(name)).map_err(cannot)?;
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command
            .arg("--dir")
            .arg(self.root().join(name))
            .args(["--color", "never"])
            .args(words)
            .arg("--tied");

        command
            .env_remove("DESKGRID_DIR")
            .env_remove("DESKGRID_OUTPUT")
            .env_remove("DESKGRID_LOG");

        // The pipe ties the process to this one: should this one be killed, that one ends by
        // itself.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0); // Ctrl-C reaches us alone, and we end the rest in order.

        let child = command.spawn().map_err(cannot)?;
        self.processes.push(DemoProcess {
            name: name.to_owned(),
            child,
        });

        Ok(())
    }

    /// Checks that every process still runs.
    fn check(&mut self) -> Result<(), Failure> {
        let mut ended = None;
        for process in &mut self.processes {
            if let Ok(Some(status)) = process.child.try_wait() {
                ended = Some((process.name.clone(), status));
            }
        }

        match ended {
            None => Ok(()),
            Some((name, status)) => {
                let log = std::fs::read_to_string(self.log(&name)).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(4)..].join(" / ");
                Err(
                    Failure::error("demo", format!("{name} ended early ({status})"), "")
                        .because(tail),
                )
            }
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.root().join(format!("{name}.log"))
    }
}

impl DemoProcess {
    #[cfg(unix)]
    fn terminate(&self) {
        let pid = self
            .child
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            // It may have ended a moment ago; then there is nothing to end.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// Does nothing: the end of its standard input asks the process to end.
    #[cfg(not(unix))]
    fn terminate(&self) {}
}

async fn token(session: &Session, uses: u32) -> Result<JoinToken, Failure> {
    let ttl = Span::from_secs(600);
    let request = Request::TokenCreate {
        role: Role::Worker,
        ttl,
        uses,
        name: "demo".to_owned(),
        approval: false,
        speaks_for: None,
    };
    let (token, ..) = session.new_token(&request).await?;
    Ok(token)
}

fn late(who: &str) -> Failure {
    let what = format!("{who} was up after {} seconds", START.as_secs());
    Failure::error("demo", what, "is this machine very busy? try fewer --hosts")
}
