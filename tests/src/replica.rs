//! Two PostgreSQL servers of a test's own: a primary, and a replica that follows it.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

use crate::ports::free_port;
use crate::postgres::{Postgres, libraries, programs};
use crate::process::{Started, eventually};

/// The longest that a server may take for anything.
const LONG: Duration = Duration::from_secs(30);
/// The account, and the number of it, that servers run as where the test is root, which they refuse.
const NOBODY: u32 = 65_534;

/// A primary and its replica, each with an empty database `postgres`. Both are gone when it is
/// dropped.
pub struct Replicated {
    programs: PathBuf,
    servers: [Server; 2],
    /// The directory of their data.
    dir: PathBuf,
    /// The words behind which they are started.
    words: Vec<OsString>,
    _temporary: Option<TempDir>,
}

/// One of the two.
struct Server {
    port: u16,
    process: Option<Started>,
}

impl Replicated {
    /// A primary, and a replica that follows it: one that confirms commits before they are
    /// acknowledged, or one that does not. `None` where the environment names no programs.
    ///
    /// # Panics
    /// If they do not start.
    pub fn start(synchronous: bool) -> Option<Self> {
        // Not where TMPDIR says, which others than root need not reach.
        let temporary = tempfile::Builder::new()
            .prefix("deskgrid-replica-")
            .tempdir_in("/tmp")
            .expect("a temporary directory");
        let dir = temporary.path().to_owned();
        let mut both = Self::alone(Vec::new(), &dir, &dir)?;
        both._temporary = Some(temporary);

        both.copy_primary();
        both.launch(0);
        both.launch(1);
        both.until_followed();
        if synchronous {
            both.configure(0, "SET synchronous_standby_names = '*'");
            let confirmed = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
            eventually("commits are confirmed", LONG, || {
                (both.server(0).psql(confirmed) == "1").then_some(())
            });
        }
        Some(both)
    }

    /// A primary without a replica, started behind these words, with its data in this directory, which the
    /// test itself sees at `seen`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn alone(words: Vec<OsString>, dir: &Path, seen: &Path) -> Option<Self> {
        let programs = programs()?;
        if getuid().is_root() {
            chown(seen, Some(NOBODY), Some(NOBODY)).expect("as root");
        }
        let servers = [(), ()].map(|()| Server {
            port: free_port(),
            process: None,
        });
        let mut alone = Self {
            programs,
            servers,
            dir: dir.to_owned(),
            words,
            _temporary: None,
        };

        let data = alone.data(0);
        let made = ["--auth=trust", "--username=deskgrid", "--encoding=UTF8"];
        let place = ["--locale=C.UTF-8", "--no-sync", "-D", &data];
        alone.run("initdb", &place, &made);
        alone.launch(0);
        Some(alone)
    }

    /// Ends the primary, and makes the replica of a copy of it. `pg_basebackup` would need to be at least of the
    /// server's version.
    fn copy_primary(&mut self) {
        let mut process = self.servers[0].process.take().expect("it runs");
        process.signal(Signal::INT);
        eventually("the primary ends", LONG, || process.ended());

        let copy = self.data(1);
        let mut command = Command::new("cp");
        command.args(["-a", &self.data(0), &copy]);
        Started::new(&mut command).finish().expect_code(0);
        let copy = Path::new(&copy);
        fs::write(copy.join("standby.signal"), "").expect("a file in its directory");
        let mut settings = fs::OpenOptions::new()
            .append(true)
            .open(copy.join("postgresql.auto.conf"))
            .expect("initdb makes it");
        writeln!(settings, "primary_conninfo = '{}'", self.follows()).expect("a line more");
    }

    /// The database at whichever of the two takes changes.
    pub fn database(&self) -> Postgres {
        let [first, second] = [0, 1].map(|which: usize| self.servers[which].port);
        let url = format!("postgres://deskgrid@127.0.0.1:{first},127.0.0.1:{second}/postgres");
        Postgres::at(&url, &self.programs, 0)
    }

    /// SIGKILL for all processes of the primary, as if its machine had lost power.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill_primary(&mut self) {
        let mut process = self.servers[0].process.take().expect("it runs");
        process.signal(Signal::STOP);
        for child in children(process.pid()) {
            let _ = kill_process(child, Signal::KILL);
        }
        process.kill();
    }

    /// Starts the primary (again), and waits until it answers.
    ///
    /// # Panics
    /// If it does not.
    pub fn start_primary(&mut self) {
        self.launch(0);
    }

    /// The replica takes changes from now on.
    ///
    /// # Panics
    /// If it does not.
    pub fn promote(&self) {
        assert_eq!(self.any(1).psql("SELECT pg_promote()"), "t");
    }

    /// The replica follows the primary no more, or again. Returns when that is so.
    ///
    /// # Panics
    /// If it is not so in time.
    pub fn follow(&self, follows: bool) {
        let from = if follows {
            self.follows()
        } else {
            "port=1".to_owned()
        };
        self.configure(1, &format!("SET primary_conninfo = '{from}'"));
        if follows {
            self.until_followed();
        } else {
            eventually("the replica is cut off", LONG, || {
                (self.followers() == "0").then_some(())
            });
        }
    }

    /// Says to the primary that no replica is waited for.
    ///
    /// # Panics
    /// If it refuses.
    pub fn wait_for_no_replica(&self) {
        self.configure(0, "SET synchronous_standby_names = ''");
    }

    /// Asks the primary.
    ///
    /// # Panics
    /// If it refuses.
    pub fn ask_primary(&self, sql: &str) -> String {
        self.server(0).psql(sql)
    }

    fn until_followed(&self) {
        eventually("the replica follows", LONG, || {
            (self.followers() == "1").then_some(())
        });
    }

    fn followers(&self) -> String {
        self.server(0)
            .psql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
    }

    fn follows(&self) -> String {
        let port = self.servers[0].port;
        format!("host=127.0.0.1 port={port} user=deskgrid")
    }

    fn configure(&self, which: usize, setting: &str) {
        let server = self.any(which);
        server.psql(&format!("ALTER SYSTEM {setting}"));
        server.psql("SELECT pg_reload_conf()");
    }

    fn server(&self, which: usize) -> Postgres {
        let port = self.servers[which].port;
        let url = format!("postgres://deskgrid@127.0.0.1:{port}/postgres");
        Postgres::at(&url, &self.programs, 0)
    }

    /// The same, also if it takes no changes.
    fn any(&self, which: usize) -> Postgres {
        let mut server = self.server(which);
        server.url.push_str("?target_session_attrs=any");
        server
    }

    fn data(&self, which: usize) -> String {
        let name = ["primary", "replica"][which];
        self.dir.join(name).display().to_string()
    }

    fn launch(&mut self, which: usize) {
        let data = self.data(which);
        let port = format!("port={}", self.servers[which].port);
        let mut command = self.command("postgres");
        command.args(["-D", &data, "-c", &port, "-c", "listen_addresses=127.0.0.1"]);
        command.args(["-c", "unix_socket_directories=", "-c", "jit=off"]);
        let log = Path::new(&data).with_extension("log");
        self.servers[which].process = Some(Started::server(&mut command, &log));
        let port = self.servers[which].port.to_string();
        eventually("the server answers", LONG, || {
            let mut command = self.command("pg_isready");
            command.args(["-h", "127.0.0.1", "-p", &port]);
            (Started::new(&mut command).finish().code == 0).then_some(())
        });
    }

    fn run(&self, program: &str, args: &[&str], more: &[&str]) {
        let mut command = self.command(program);
        command.args(args).args(more);
        Started::new(&mut command).finish().expect_code(0);
    }

    fn command(&self, program: &str) -> Command {
        let mut words = self.words.clone();
        if getuid().is_root() {
            let nobody = NOBODY.to_string();
            let as_nobody = ["setpriv", "--reuid", &nobody, "--regid", &nobody];
            words.extend(as_nobody.map(OsString::from));
            words.extend(["--clear-groups", "--pdeathsig", "INT"].map(OsString::from));
        }
        words.push(self.programs.join(program).into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("LD_LIBRARY_PATH", libraries(&self.programs))
            .current_dir("/tmp");
        command
    }
}

impl Drop for Replicated {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let Some(process) = &mut server.process else {
                continue;
            };
            process.signal(Signal::CONT);
            process.signal(Signal::QUIT);
            eventually("the server ends", LONG, || process.ended());
        }
        if std::thread::panicking() {
            for which in [0, 1] {
                let log = Path::new(&self.data(which)).with_extension("log");
                let said = fs::read_to_string(&log).unwrap_or_default();
                eprintln!("--- {}\n{said}", log.display());
            }
        }
    }
}

/// The processes that a process has started, and that run.
fn children(of: u32) -> Vec<Pid> {
    let parent = |stat: &str| {
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        stat.and_then(|stat| parent(&stat)) == Some(of)
    };
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_child)
        .filter_map(Pid::from_raw)
        .collect()
}
