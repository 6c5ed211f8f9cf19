//! A grid of real processes: one master, some workers, and commands that speak to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::gateway::Gateway;
use crate::http::Http;
use tempfile::TempDir;

use crate::ports::free_addresses;
use crate::process::{Output, Started, clean_behind, eventually};

/// How long a master or worker may take until it is there.
const STARTUP: Duration = Duration::from_secs(30);

/// Times short enough that a test sees a lease run out.
const FAST_MASTER: &str = "\
heartbeat = \"500ms\"
suspect_after = \"2s\"
lease = \"4s\"
";

/// What workers of tests heed: nobody's desk but the switches, so that tests run as well on a
/// developer's.
const DEDICATED: &str = include_str!("../../configs/worker-dedicated.toml");

/// A master, its workers, and a user with a client's certificate. Everything is killed and removed
/// when it is dropped; if the test failed, what the servers said is printed first.
pub struct Grid {
    dir: TempDir,
    listen: String,
    http: String,
    /// Whose state directory the master's is.
    home: String,
    master: Option<Started>,
    /// A second master that stands by, with its addresses.
    standby: Option<(Started, String, String)>,
    workers: BTreeMap<String, Started>,
    /// What stands before the command line of somebody: another namespace, or a tracer.
    wraps: BTreeMap<String, Vec<OsString>>,
    /// The workers that have joined.
    joined: BTreeSet<String>,
}

/// A worker that is about to be started.
#[must_use]
pub struct WorkerSetup<'a> {
    grid: &'a mut Grid,
    name: String,
    slots: u32,
    config: String,
    via: Option<String>,
    dedicated: bool,
    program: String,
}

impl Grid {
    /// A grid with a master that answers, a user that is logged in, and no workers.
    ///
    /// # Panics
    /// If that does not work.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// The same, the master with this configuration beside the short times.
    ///
    /// # Panics
    /// If that does not work.
    pub fn start_with(more: &str) -> Self {
        let mut grid = Self::prepared_fast(more);
        grid.begin();
        grid
    }

    /// The same as [`Grid::start`], and a worker `h1` with one slot.
    ///
    /// # Panics
    /// If that does not work.
    pub fn with_worker() -> Self {
        let mut grid = Self::start();
        grid.worker("h1").start();
        grid
    }

    /// A grid as [`Grid::start`] makes it, the master with this configuration alone.
    ///
    /// # Panics
    /// If that does not work.
    pub fn with_master(config: &str) -> Self {
        let mut grid = Self::prepared(config);
        grid.begin();
        grid
    }

    /// A grid of which nothing runs yet, the master with times short enough for tests and then this
    /// configuration.
    ///
    /// # Panics
    /// If there is no temporary directory.
    pub fn prepared_fast(more: &str) -> Self {
        Self::prepared(&format!("{FAST_MASTER}{more}"))
    }

    /// A grid of which nothing runs yet, the master with this configuration.
    ///
    /// # Panics
    /// If there is no temporary directory.
    pub fn prepared(config: &str) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("deskgrid-test-")
            .tempdir()
            .expect("a temporary directory");
        let (listen, http) = free_addresses();
        let home = "admin".to_owned();
        let grid = Self {
            dir,
            listen,
            http,
            home,
            master: None,
            standby: None,
            workers: BTreeMap::new(),
            wraps: BTreeMap::new(),
            joined: BTreeSet::new(),
        };
        fs::write(grid.dir.path().join("master.toml"), config).expect("a file can be written");

        grid
    }

    /// Starts the master of a grid that was only prepared, and logs the user in.
    ///
    /// # Panics
    /// If that does not work.
    pub fn begin(&mut self) {
        self.start_master();
        self.login("user");
    }

    /// From now on what `who` starts stands behind these words, such as those that enter a
    /// namespace. `master` is the master alone, without the admin's commands. No words: as before.
    pub fn wrap<A: Into<OsString>>(&mut self, who: &str, words: impl IntoIterator<Item = A>) {
        self.wraps
            .insert(who.to_owned(), words.into_iter().map(Into::into).collect());
    }

    /// From now on the master listens there, for QUIC and for HTTP.
    pub fn listen_at(&mut self, listen: &str, http: &str) {
        self.listen = listen.to_owned();
        self.http = http.to_owned();
    }

    /// The directory in which everything of this grid lies; tests may put files there.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the master serves HTTP.
    pub fn http(&self) -> &str {
        &self.http
    }

    /// Where the master listens.
    pub fn listen(&self) -> &str {
        &self.listen
    }

    /// The state directory of the admin, a worker or a user.
    pub fn state(&self, who: &str) -> PathBuf {
        self.dir.path().join("state").join(who)
    }

    /// A file below the grid's directory with this text.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().expect("below a directory"))
            .expect("a directory can be made");
        fs::write(&path, text).expect("a file can be written");
        path
    }

    /// Starts the master (again) and waits until it answers.
    ///
    /// # Panics
    /// If it does not.
    pub fn start_master(&mut self) {
        self.launch_master();
        self.as_user(&self.home, ["master", "wait", "--timeout", "30s"])
            .expect_code(0);
    }

    /// Starts the master (again) and does not wait for anything.
    ///
    /// # Panics
    /// If its program cannot be started.
    pub fn launch_master(&mut self) {
        let listen = self.listen.clone();
        let http = self.http.clone();
        let config = self.dir.path().join("master.toml");
        let wrap = if self.wraps.contains_key("master") {
            "master"
        } else {
            &self.home
        };
        let mut command = self.wrapped(wrap, "deskgrid", &self.home);
        command
            .args([
                "master", "start", "--tied", "--listen", &listen, "--http", &http, "--config",
            ])
            .arg(config);

        self.master = Some(Started::server(&mut command, &self.log("master")));
    }

    /// Starts a second master with the keys and the configuration of the first one, whose store is in
    /// PostgreSQL, and waits until it stands by. These users then know both. Returns the addresses of
    /// both.
    ///
    /// # Panics
    /// If it does not stand by.
    pub fn start_standby(&mut self, users: &[&str]) -> String {
        let who = "standby";
        let [from, to] = [&self.home, who].map(|who| self.state(who).join("master"));
        fs::create_dir_all(&to).expect("a directory can be made");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&to, mode).expect("its owner may say who reads it");
        for name in ["ca.der", "ca.key.der"] {
            fs::copy(from.join(name), to.join(name)).expect("the grid's keys");
        }

        let (listen, http) = free_addresses();
        let mut command = self.command(who);
        command
            .args(["master", "start", "--tied", "--listen", &listen])
            .args(["--http", &http, "--config", "master.toml"]);
        let process = Started::server(&mut command, &self.log(who));
        eventually("it stands by", STARTUP, || {
            let said = fs::read_to_string(self.log(who)).ok()?;
            said.contains("stands by").then_some(())
        });

        let both = format!("{},{listen}", self.listen);
        for user in users {
            self.as_user(user, ["login", "--master", &both])
                .expect_code(0);
        }
        self.standby = Some((process, listen, http));
        both
    }

    /// SIGKILL for the master; the one that stands by is the master from now on.
    ///
    /// # Panics
    /// If none stands by.
    pub fn take_over(&mut self) {
        let (process, listen, http) = self.standby.take().expect("a master that stands by");
        self.kill_master();
        self.master = Some(process);
        self.listen_at(&listen, &http);
        self.move_master("standby");
    }

    /// The next master is started in this state directory, at the same address.
    pub fn move_master(&mut self, home: &str) {
        home.clone_into(&mut self.home);
    }

    /// The master's process.
    ///
    /// # Panics
    /// If there is none.
    pub fn master(&mut self) -> &mut Started {
        self.master.as_mut().expect("a running master")
    }

    /// SIGKILL for the master.
    ///
    /// # Panics
    /// If there is none.
    pub fn kill_master(&mut self) {
        self.master.take().expect("a running master").kill();
    }

    /// The master's process id.
    ///
    /// # Panics
    /// If there is none.
    pub fn master_pid(&self) -> u32 {
        self.master.as_ref().expect("a running master").pid()
    }

    /// A server of `who` beside master and workers, with these words and `--tied`; what it says is in the
    /// log of that name.
    pub fn server<A: AsRef<OsStr>>(&self, who: &str, args: impl IntoIterator<Item = A>) -> Started {
        let mut command = self.wrapped(who, "deskgrid", who);
        command.args(args).arg("--tied");
        Started::server(&mut command, &self.log(who))
    }

    /// A second master on the same directory, as a command that should end by itself.
    pub fn second_master(&self) -> Output {
        let (listen, http) = free_addresses();
        self.admin(["master", "start", "--listen", &listen, "--http", &http])
    }

    /// A token for this role, good for one use.
    ///
    /// # Panics
    /// If the master makes none.
    pub fn token(&self, role: &str) -> String {
        let made = self
            .as_user(
                &self.home,
                ["--output", "quiet", "token", "create", "--role", role],
            )
            .expect_code(0);
        made.stdout.trim().to_owned()
    }

    /// Gives `who` a client's identity.
    ///
    /// # Panics
    /// If the master does not.
    pub fn login(&self, who: &str) {
        let token = self.token("client");
        self.as_user(
            who,
            [
                "login",
                "--master",
                &self.listen,
                "--join",
                &token,
                "--name",
                who,
            ],
        )
        .expect_code(0);
    }

    /// A worker of this name.
    pub fn worker(&mut self, name: &str) -> WorkerSetup<'_> {
        WorkerSetup {
            grid: self,
            name: name.to_owned(),
            slots: 1,
            config: String::new(),
            via: None,
            dedicated: false,
            program: "deskgrid".to_owned(),
        }
    }

    /// The worker of this name.
    ///
    /// # Panics
    /// If there is none.
    pub fn running(&mut self, worker: &str) -> &mut Started {
        self.workers.get_mut(worker).expect("a worker of this name")
    }

    /// SIGKILL for a worker. The processes that it leaves are its own affair: tests look whether
    /// they are gone.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn kill_worker(&mut self, name: &str) {
        self.workers
            .remove(name)
            .expect("a worker of this name")
            .kill();
    }

    /// Runs a command as the user and waits for its end.
    pub fn deskgrid<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.as_user("user", args)
    }

    /// Runs a command as the user; returns what it prints.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn text<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        self.deskgrid(args).expect_code(0).stdout
    }

    /// Runs a command as the user, for a JSON answer.
    ///
    /// # Panics
    /// If it fails, or answers something else.
    #[track_caller]
    pub fn json<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Value {
        let mut command = self.command("user");
        Started::new(command.args(["--output", "json"]).args(args))
            .finish()
            .expect_code(0)
            .json()
    }

    /// All jobs as the user sees them, ended ones too.
    ///
    /// # Panics
    /// If they are not listed.
    #[track_caller]
    pub fn jobs(&self) -> Vec<Value> {
        let listed = self.json(["job", "list", "--all"]);
        listed["jobs"].as_array().expect("a list of jobs").clone()
    }

    /// One job as the user sees it.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn job(&self, job: &str) -> Value {
        self.json(["job", "info", job])
    }

    /// The attempts of a task as the user sees them.
    ///
    /// # Panics
    /// If there is no such task.
    #[track_caller]
    pub fn attempts(&self, task: &str) -> Vec<Value> {
        self.json(["task", "info", task])["attempts"]
            .as_array()
            .expect("a list of attempts")
            .clone()
    }

    /// Fetches the outputs of a job as the user, into a directory of this name. Gives its path.
    ///
    /// # Panics
    /// If they cannot be fetched.
    #[track_caller]
    pub fn fetch(&self, job: &str, name: &str) -> PathBuf {
        let into = self.dir().join(name);
        let to = into.to_str().expect("UTF-8");
        self.deskgrid(["job", "fetch", job, "--into", to])
            .expect_code(0);
        into
    }

    /// Submits as the user; gives the job's number.
    ///
    /// # Panics
    /// If the job is not taken.
    #[track_caller]
    pub fn submit<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let mut command = self.command("user");
        let done = Started::new(command.args(["--output", "quiet", "submit"]).args(args))
            .finish()
            .expect_code(0);
        done.stdout.trim().to_owned()
    }

    /// Waits until all tasks of a job are finished.
    ///
    /// # Panics
    /// If one fails, or they are not in time.
    #[track_caller]
    pub fn wait(&self, job: &str) {
        self.deskgrid(["job", "wait", job, "--timeout", "100s"])
            .expect_code(0);
    }

    /// A gateway of `who`, once it is up.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn gateway(&self, who: &str) -> Gateway {
        let log = self.file(&format!("gateway-{}", rand::random::<u32>()), "");
        let mut command = self.command(who);
        command.args(["--output", "json", "dashboard", "--no-open", "--tied"]);
        Gateway::new(Started::server(&mut command, &log), &log)
    }

    /// The page of a worker for the owner of its PC, once it is up.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn page(&self, worker: &str) -> Gateway {
        let log = self.file(&format!("page-{}", rand::random::<u32>()), "");
        let mut command = self.command(worker);
        command.args(["--output", "json", "worker", "page", "--no-open", "--tied"]);
        Gateway::new(Started::server(&mut command, &log), &log)
    }

    /// A token with which a program speaks for `who` over HTTP.
    pub fn bearer(&self, who: &str, role: &str) -> String {
        let words = [
            "--output", "quiet", "token", "create", "--http", "--role", role, "--for", who,
        ];
        let made = self.admin(words).expect_code(0);
        made.stdout.trim().to_owned()
    }

    /// Starts a command as the user; it runs on while the test does other things.
    pub fn background<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Started {
        self.background_as("user", args)
    }

    /// Starts a command with the state directory of `who`; it runs on while the test does other
    /// things.
    pub fn background_as<A: AsRef<OsStr>>(
        &self,
        who: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Started {
        Started::new(self.command(who).args(args))
    }

    /// Runs a command with the state directory of `who` and waits for its end.
    pub fn as_user<A: AsRef<OsStr>>(&self, who: &str, args: impl IntoIterator<Item = A>) -> Output {
        Started::new(self.command(who).args(args)).finish()
    }

    /// Runs a command as the admin and waits for its end.
    pub fn admin<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.as_user("admin", args)
    }

    /// Waits until `look`, shown the JSON answer to a command, finds something.
    ///
    /// # Panics
    /// If it does not in time.
    #[track_caller]
    pub fn until<T>(&self, what: &str, args: &[&str], look: impl Fn(&Value) -> Option<T>) -> T {
        eventually(what, Duration::from_secs(60), || look(&self.json(args)))
    }

    /// Waits until a task's newest attempt runs, as far as the master knows. Until then its job
    /// counts the task as running, too.
    ///
    /// # Panics
    /// If it does not in time.
    #[track_caller]
    pub fn until_it_runs(&self, task: &str) {
        let running = |info: &Value| {
            (info["attempts"].as_array()?.last()?["state"] == "running").then_some(())
        };
        self.until("it runs", &["task", "info", task], running);
    }

    /// Waits until all hosts are there and compute nothing.
    ///
    /// # Panics
    /// If they are not in time.
    #[track_caller]
    pub fn until_ready(&self) {
        let ready = |list: &Value| {
            let hosts = list["hosts"].as_array()?;
            let all = hosts.iter().all(|host| host["state"] == "ready");
            (all && !hosts.is_empty()).then_some(())
        };
        self.until("the hosts are ready", &["host", "list"], ready);
    }

    /// The numbers that the master serves at `/metrics`.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn metrics(&self) -> String {
        let served = Http::tcp(&self.http).get("/metrics").expect(200);
        served.text().to_owned()
    }

    /// What the master and the workers have said.
    pub fn logs(&self) -> String {
        let files = fs::read_dir(self.dir.path())
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        let logs = files.filter(|path| path.extension().is_some_and(|e| e == "log"));

        logs.map(|path| {
            format!(
                "---- {}\n{}",
                path.display(),
                fs::read_to_string(&path).unwrap_or_default()
            )
        })
        .collect()
    }

    pub(crate) fn log(&self, who: &str) -> PathBuf {
        self.dir.path().join(format!("{who}.log"))
    }

    /// The program with the state directory of `who`, not started yet.
    pub fn command(&self, who: &str) -> Command {
        self.wrapped(who, "deskgrid", who)
    }

    /// A command of `who` in this program, behind the words for `wrap`.
    fn wrapped(&self, wrap: &str, program: &str, who: &str) -> Command {
        let words = self.wraps.get(wrap).map_or(&[][..], Vec::as_slice);
        let mut command = clean_behind(words, program, self.dir.path());
        command
            .arg("--dir")
            .arg(self.state(who))
            .current_dir(self.dir.path());
        command
    }
}

impl<'a> WorkerSetup<'a> {
    /// With this many slots (else one).
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// By way of this address instead of the master's own.
    pub fn via(mut self, address: &str) -> Self {
        self.via = Some(address.to_owned());
        self
    }

    /// With this configuration; where it has no `[owner]` section, only the switches count.
    pub fn config(mut self, toml: &str) -> Self {
        toml.clone_into(&mut self.config);
        self
    }

    /// With tasks that see all files, such as those of the test.
    pub fn unconfined(self) -> Self {
        self.config("confinement = \"process\"\n")
    }

    /// As on a PC that nobody sits at, whatever the configuration says.
    pub fn dedicated(mut self) -> Self {
        self.dedicated = true;
        self
    }

    /// With this program, by name or path (else `deskgrid`).
    pub fn program(mut self, program: &str) -> Self {
        program.clone_into(&mut self.program);
        self
    }

    /// Starts it, with a token if it has no identity yet, and waits until the master knows it.
    ///
    /// # Panics
    /// If the master does not get to know it.
    pub fn start(self) {
        let (name, grid) = self.launch();
        let up = |host: &Value| {
            host["host"] == *name
                && matches!(host["state"].as_str(), Some("ready" | "busy" | "suspended"))
        };
        eventually(&format!("worker {name} joins"), STARTUP, || {
            let hosts = grid.json(["host", "list"]);
            hosts["hosts"]
                .as_array()
                .is_some_and(|all| all.iter().any(up))
                .then_some(())
        });
    }

    /// Starts it, with a token if it has no identity yet, and does not wait for anything.
    ///
    /// # Panics
    /// If its program cannot be started, or the master makes no token.
    pub fn launch(self) -> (String, &'a mut Grid) {
        let Self {
            grid,
            name,
            slots,
            config,
            via,
            dedicated,
            program,
        } = self;

        let owner = if config.contains("[owner") {
            ""
        } else {
            DEDICATED
        };
        let file = grid.file(&format!("{name}.toml"), format!("{config}\n{owner}"));
        let mut command = grid.wrapped(&name, &program, &name);
        command
            .args([
                "worker",
                "start",
                "--tied",
                "--name",
                &name,
                "--slots",
                &slots.to_string(),
                "--config",
            ])
            .arg(file)
            .args(dedicated.then_some("--dedicated"));

        if grid.joined.insert(name.clone()) {
            let master = via.unwrap_or_else(|| grid.listen.clone());
            command.args(["--master", &master, "--join", &grid.token("worker")]);
        } else if let Some(master) = via {
            command.args(["--master", &master]);
        }

        grid.workers.insert(
            name.clone(),
            Started::server(&mut command, &grid.log(&name)),
        );
        (name, grid)
    }
}

impl Drop for Grid {
    fn drop(&mut self) {
        self.workers.clear();
        self.standby = None;
        self.master = None;
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}
