//! Two masters on one database with a worker and a user that know both, as real processes.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tests::{Http, Output, Postgres, Started, clean, eventually, free_addresses};
use uuid::Uuid;

/// What owners' worker and master are told, so that neither takes long.
const WORKER: &str = include_str!("../../../configs/worker-dedicated.toml");
const MASTER: &str = "heartbeat = \"2s\"\nsuspect_after = \"20s\"\nlease = \"60s\"\n";
/// Longer than `takeover_after`.
pub(crate) const LEASE_AND_MORE: Duration = Duration::from_secs(8);
/// The longest that anything here may take.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A master: its directory, its addresses, and its process while it runs.
pub(crate) struct Master {
    pub(crate) name: &'static str,
    pub(crate) listen: String,
    /// The address at which others reach it.
    pub(crate) address: String,
    http: String,
    /// The address at which it has the database.
    pub(crate) store: String,
    pub(crate) content: String,
    /// More words of its command line.
    pub(crate) words: Vec<String>,
    process: Option<Started>,
}

impl Master {
    fn new(name: &'static str, store: &str) -> Self {
        let (listen, http) = free_addresses();
        Self {
            name,
            address: listen.clone(),
            listen,
            http,
            store: store.to_owned(),
            content: "content".to_owned(),
            words: Vec::new(),
            process: None,
        }
    }
}

/// Two masters on one database with one place of content, a worker and a user.
pub(crate) struct Pair {
    pub(crate) dir: TempDir,
    pub(crate) server: Postgres,
    pub(crate) masters: Vec<Master>,
    worker: Option<Started>,
}

impl Pair {
    /// The first master is active, the second stands by, and a worker and a user know both. `None`
    /// where there is no server; says so.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("content", "")
    }

    /// The same with this place of content, and more settings.
    pub(crate) fn start_with(content: &str, more: &str) -> Option<Self> {
        let mut pair = Self::prepared()?;
        for master in &mut pair.masters {
            content.clone_into(&mut master.content);
        }
        pair.configure(more);
        pair.begin();
        Some(pair)
    }

    /// Two masters of which none runs yet, on a new database.
    pub(crate) fn prepared() -> Option<Self> {
        let Some(server) = Postgres::with_database() else {
            super::skip("DESKGRID_TEST_PG names no PostgreSQL (tests/postgres starts one)");
            return None;
        };
        Some(Self::on(server))
    }

    /// The same, and the first one is active.
    pub(crate) fn with_first() -> Option<Self> {
        let mut pair = Self::prepared()?;
        pair.begin_first();
        Some(pair)
    }

    /// The same as [`Pair::prepared`] on this database.
    pub(crate) fn on(server: Postgres) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("deskgrid-test-")
            .tempdir()
            .expect("a temporary directory");
        let masters = ["first", "second"].map(|name| Master::new(name, &server.url));
        let pair = Self {
            dir,
            server,
            masters: masters.into(),
            worker: None,
        };
        pair.configure("");
        pair
    }

    /// Both masters have these settings, beside those that make them quick.
    fn configure(&self, more: &str) {
        let file = self.dir.path().join("master.toml");
        fs::write(file, format!("{MASTER}{more}")).expect("a file of the test's own");
    }

    /// Starts both, with a worker and a user that know both.
    pub(crate) fn begin(&mut self) {
        self.begin_first();
        self.launch(1);
        self.until_standing(1);

        let both = self.both();
        let token = self.token("client");
        let login = ["login", "--master", &both, "--join", &token];
        self.run("user", &[&login[..], &["--name", "user"]].concat())
            .expect_code(0);
        self.worker = Some(self.worker("pc", &both));
        self.until_worker_is_there();
    }

    /// The first master is active, and the second one has its keys.
    fn begin_first(&mut self) {
        self.launch(0);
        self.until_active(0);
        self.copy_keys();
    }

    /// A worker with two slots that joins at these addresses.
    pub(crate) fn worker(&self, who: &str, masters: &str) -> Started {
        let config = format!("{}\n{WORKER}", super::PLAIN);
        fs::write(self.dir.path().join("pc.toml"), config).expect("a file of the test's own");
        let token = self.token("worker");
        let mut command = self.command(who);
        command.args(["worker", "start", "--tied", "--name", who, "--slots", "2"]);
        command.args(["--config", "pc.toml", "--master", masters, "--join", &token]);
        Started::server(&mut command, &self.log(who))
    }

    /// A gateway that knows both masters and is connected to one, and the address at which it takes workers.
    pub(crate) fn gateway(&self, who: &str) -> (Started, String) {
        let (address, _) = free_addresses();
        let token = self.token("gateway");
        let mut command = self.command(who);
        command.args(["gateway", "start", "--tied", "--listen", &address]);
        command.args(["--master", &self.both(), "--join", &token]);
        let process = Started::server(&mut command, &self.log(who));
        eventually("the gateway is connected", LONG, || {
            let told = self.said(who);
            told.contains(" connected to the master").then_some(())
        });
        (process, address)
    }

    pub(crate) fn both(&self) -> String {
        format!("{},{}", self.masters[0].address, self.masters[1].address)
    }

    pub(crate) fn log(&self, who: &str) -> PathBuf {
        self.dir.path().join(format!("{who}.log"))
    }

    pub(crate) fn said(&self, who: &str) -> String {
        fs::read_to_string(self.log(who)).unwrap_or_default()
    }

    pub(crate) fn state(&self, who: &str) -> PathBuf {
        self.dir.path().join("state").join(who)
    }

    pub(crate) fn command(&self, who: &str) -> Command {
        let mut command = clean("deskgrid", self.dir.path());
        command
            .arg("--dir")
            .arg(self.state(who))
            .current_dir(self.dir.path());
        command
    }

    pub(crate) fn run(&self, who: &str, args: &[&str]) -> Output {
        Started::new(self.command(who).args(args)).finish()
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = ["--output", "json"].iter().chain(args).copied().collect();
        self.run("user", &args).expect_code(0).json()
    }

    /// A further master, which does not run yet.
    pub(crate) fn add_master(&mut self, name: &'static str) {
        self.masters.push(Master::new(name, &self.server.url));
    }

    pub(crate) fn launch(&mut self, which: usize) {
        let master = &self.masters[which];
        let settings = fs::read_to_string(self.dir.path().join("master.toml"));
        let settings = settings.expect("a file of the test's own");
        let config = self.dir.path().join(format!("{}.toml", master.name));
        let advertise = format!("advertise = \"{}\"\n{settings}", master.address);
        fs::write(&config, advertise).expect("a file of the test's own");

        let mut command = self.command(master.name);
        command
            .args(["master", "start", "--tied", "--config"])
            .arg(config);
        command.args(["--content", &master.content, "--store", &master.store]);
        command.args(["--listen", &master.listen, "--http", &master.http]);
        command.args(&master.words);
        let process = Started::server(&mut command, &self.log(master.name));
        self.masters[which].process = Some(process);
    }

    /// Gives the second master the keys of the first one's grid, as an admin does.
    pub(crate) fn copy_keys(&self) {
        self.copy_keys_to(0, 1);
    }

    /// The same from this master to that one.
    pub(crate) fn copy_keys_to(&self, from: usize, to: usize) {
        let place = |which: usize| self.state(self.masters[which].name).join("master");
        let (from, to) = (place(from), place(to));
        fs::create_dir_all(&to).expect("a file of the test's own");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&to, mode).expect("a file of the test's own");
        for name in ["ca.der", "ca.key.der"] {
            fs::copy(from.join(name), to.join(name)).expect("a file of the test's own");
        }
    }

    /// The commits that a master knows of, by its file `mark`.
    pub(crate) fn marked(&self, which: usize) -> Option<u64> {
        let file = self.state(self.masters[which].name).join("master/mark");
        let text = fs::read_to_string(file).ok()?;
        let lines = text.lines().filter_map(|line| {
            let words = line.trim().strip_prefix("deskgrid mark ")?;
            words.split(' ').nth(2)?.parse().ok()
        });
        lines.max()
    }

    /// The token of the lease: another one says that there was a takeover.
    pub(crate) fn lease(&self) -> String {
        self.server.psql("SELECT token FROM deskgrid.lease")
    }

    /// The commits that have reached the database.
    pub(crate) fn reached(&self) -> u64 {
        let sql = "SELECT l.commits + max(t.seq) FROM deskgrid.lease l JOIN deskgrid.turn t ON t.token = l.token
                   GROUP BY l.commits";
        self.server.psql(sql).parse().expect("a number")
    }

    pub(crate) fn process(&mut self, which: usize) -> &mut Started {
        self.masters[which].process.as_mut().expect("it runs")
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, which: usize) {
        self.masters[which].process.take().expect("it runs").kill();
    }

    pub(crate) fn token(&self, role: &str) -> String {
        let made = self.run(
            "first",
            &["--output", "quiet", "token", "create", "--role", role],
        );
        made.expect_code(0).stdout.trim().to_owned()
    }

    /// The API of this master, for a program that speaks for the user.
    pub(crate) fn programs(&self, which: usize) -> Http {
        let words = [
            "token", "create", "--http", "--role", "client", "--for", "user",
        ];
        let made = self.run("first", &[&["--output", "quiet"][..], &words].concat());
        let token = made.expect_code(0).stdout;
        let bearer = format!("Bearer {}", token.trim());
        Http::tcp(&self.masters[which].http).with("Authorization", &bearer)
    }

    /// Submits until that is refused since the database does not answer; returns the words.
    pub(crate) fn until_refused(&self, request: &str) -> String {
        eventually("a submission is refused", LONG, || {
            let words = ["submit", "--request-id", request, "--", "true"];
            let answer = self.run("user", &words);
            assert_ne!(answer.code, 0, "nothing is acknowledged");
            (answer.code == 1).then_some(answer.stderr)
        })
    }

    /// The words of this master at `/healthz`, with the status; `None` if it does not answer.
    pub(crate) fn health(&self, which: usize) -> Option<(String, String)> {
        self.page(which, "/healthz")
    }

    /// A number of this master's at `/metrics`.
    pub(crate) fn number(&self, which: usize, name: &str) -> Option<u64> {
        let (_, numbers) = self.page(which, "/metrics")?;
        let mut lines = numbers.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    pub(crate) fn page(&self, which: usize, path: &str) -> Option<(String, String)> {
        self.page_of("localhost", which, path)
    }

    /// A page of this master, asked for under this name, with its status.
    pub(crate) fn page_of(&self, host: &str, which: usize, path: &str) -> Option<(String, String)> {
        let mut stream = TcpStream::connect(&self.masters[which].http).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream
            .write_all(
                format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
                    .as_bytes(),
            )
            .ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?;
        Some((status.to_owned(), body.to_owned()))
    }

    /// Whether this master says that it is the active one.
    pub(crate) fn is_active(&self, which: usize) -> bool {
        self.health(which) == Some(("200".to_owned(), "ok\n".to_owned()))
    }

    pub(crate) fn until_active(&self, which: usize) {
        eventually("it is active", LONG, || self.is_active(which).then_some(()));
    }

    pub(crate) fn until_standing(&self, which: usize) {
        eventually("it stands by", LONG, || {
            let (status, said) = self.health(which)?;
            (status == "200" && said.contains("stands by")).then_some(())
        });
    }

    /// The number of times that the worker was let in.
    pub(crate) fn joins(&self) -> usize {
        self.joins_of("pc")
    }

    /// The same of this worker.
    pub(crate) fn joins_of(&self, who: &str) -> usize {
        self.said(who).matches("joined the master").count()
    }

    pub(crate) fn until_worker_is_there(&self) {
        eventually("the worker is there", LONG, || {
            (self.joins() > 0).then_some(())
        });
    }

    /// Submits a bag whose tasks sleep for so long and write one line each to a common file. Returns
    /// the job's number, and the file.
    pub(crate) fn submit(&self, tasks: u32, nap_s: f64) -> (String, PathBuf) {
        let file = self
            .dir
            .path()
            .join(format!("lines-{}", Uuid::from_bytes(rand::random())));
        let script = format!(
            "sleep {nap_s}; echo $DESKGRID_TASK_ID >> {}",
            file.display()
        );
        let array = format!("1-{tasks}");
        let words = [
            "submit",
            "--array",
            &array,
            "--max-losses",
            "100",
            "--",
            "sh",
            "-c",
            &script,
        ];
        (self.json(&words)["job"].to_string(), file)
    }

    /// Waits until all tasks of a job are finished.
    #[track_caller]
    pub(crate) fn wait(&self, job: &str) {
        self.run("user", &["job", "wait", job, "--timeout", "100s"])
            .expect_code(0);
    }

    /// Waits for a job, whose tasks must each have run once, finished, and be there.
    pub(crate) fn expect_once(&self, job: &str, tasks: usize, file: &Path) {
        self.wait(job);
        let text = fs::read_to_string(file).expect("a file of the test's own");
        let mut lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), tasks, "each task ran once: {text}");
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), tasks, "{text}");
        let view = self.json(&["job", "info", job]);
        assert_eq!(
            view["tasks"]["finished"].as_u64(),
            Some(tasks as u64),
            "{view}"
        );
    }

    /// Runs a command as the user, again and again until it is answered; the time that took.
    pub(crate) fn until_served(&self, since: Instant) -> Duration {
        eventually("somebody is served", LONG, || {
            (self.run("user", &["job", "list"]).code == 0).then_some(())
        });
        since.elapsed()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.worker = None;
        for master in &mut self.masters {
            master.process = None;
        }
        if std::thread::panicking() {
            let masters = self.masters.iter().map(|master| master.name);
            for who in masters.chain(["pc"]) {
                eprintln!("--- {who}\n{}", self.said(who));
            }
        }
    }
}
