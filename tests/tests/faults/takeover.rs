//! Several masters on one database: the active one is killed, stopped or told to hand over, and what
//! was acknowledged is there, once, at the next one. They need a PostgreSQL (`tests/postgres cargo
//! nextest run -p tests --test faults takeover`), and pass without one.
//!
//! `DESKGRID_ROUNDS=10` measures: so many takeovers and hand-overs, with a line for each (`--no-capture`).

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tests::{Output, Postgres, Started, clean, eventually, free_addresses};
use uuid::Uuid;

use super::storage::Storage;

/// What owners' worker and master are told, so that neither takes long.
const WORKER: &str = include_str!("../../../configs/worker-dedicated.toml");
const MASTER: &str = "heartbeat = \"2s\"\nsuspect_after = \"20s\"\nlease = \"60s\"\n";
/// The longest that anything here may take.
const LONG: Duration = Duration::from_secs(60);

/// A database of a test's own, and how it is reached.
struct Server {
    url: String,
    psql: PathBuf,
}

impl Server {
    /// `None` where there is no server; says so.
    fn new() -> Option<Self> {
        let Some(Postgres { url, .. }) = Postgres::with_database() else {
            super::skip("DESKGRID_TEST_PG names no PostgreSQL (tests/postgres starts one)");
            return None;
        };
        let bin = std::env::var("DESKGRID_TEST_PG_BIN").expect("the directory of its programs");
        let psql = Path::new(&bin).join("psql");
        Some(Self { url, psql })
    }

    /// Asks the database by hand.
    fn psql(&self, sql: &str) -> String {
        let libraries = self
            .psql
            .ancestors()
            .nth(4)
            .expect("below usr")
            .join("lib/x86_64-linux-gnu");
        let mut command = Command::new(&self.psql);
        command
            .env("LD_LIBRARY_PATH", libraries)
            .args(["-qAt", "-d", &self.url, "-c", sql]);
        Started::new(&mut command).finish().expect_code(0).stdout
    }
}

/// A master: its directory, its addresses, and its process while it runs.
struct Master {
    name: &'static str,
    listen: String,
    http: String,
    process: Option<Started>,
}

/// Two masters on one database with one place of content, a worker and a user.
struct Pair {
    dir: TempDir,
    content: String,
    server: Server,
    masters: [Master; 2],
    worker: Option<Started>,
}

impl Pair {
    /// The first master is active, the second stands by, and a worker and a user know both.
    fn start() -> Option<Self> {
        Self::start_with("content", "")
    }

    /// The same with this place of content, and more settings.
    fn start_with(content: &str, more: &str) -> Option<Self> {
        let mut pair = Self::prepared()?;
        content.clone_into(&mut pair.content);
        let config = format!("{MASTER}{more}");
        fs::write(pair.dir.path().join("master.toml"), config).expect("a file of the test's own");
        pair.launch(0);
        pair.until_active(0);
        pair.copy_keys();
        pair.launch(1);
        pair.until_standing(1);

        let both = pair.both();
        let token = pair.token("client");
        pair.run(
            "user",
            &[
                "login", "--master", &both, "--join", &token, "--name", "user",
            ],
        )
        .expect_code(0);
        let config = format!("{}\n{WORKER}", super::PLAIN);
        fs::write(pair.dir.path().join("pc.toml"), config).expect("a file of the test's own");
        let token = pair.token("worker");
        let mut command = pair.command("pc");
        command.args(["worker", "start", "--tied", "--name", "pc", "--slots", "2"]);
        command.args(["--config", "pc.toml", "--master", &both, "--join", &token]);
        pair.worker = Some(Started::server(&mut command, &pair.log("pc")));
        pair.until_worker_is_back();
        Some(pair)
    }

    fn prepared() -> Option<Self> {
        let server = Server::new()?;
        let dir = tempfile::Builder::new()
            .prefix("deskgrid-test-")
            .tempdir()
            .expect("a temporary directory");
        fs::write(dir.path().join("master.toml"), MASTER).expect("a file of the test's own");
        let masters = ["first", "second"].map(|name| {
            let (listen, http) = free_addresses();
            Master {
                name,
                listen,
                http,
                process: None,
            }
        });
        Some(Self {
            dir,
            content: "content".to_owned(),
            server,
            masters,
            worker: None,
        })
    }

    fn both(&self) -> String {
        format!("{},{}", self.masters[0].listen, self.masters[1].listen)
    }

    fn log(&self, who: &str) -> PathBuf {
        self.dir.path().join(format!("{who}.log"))
    }

    fn said(&self, who: &str) -> String {
        fs::read_to_string(self.log(who)).unwrap_or_default()
    }

    fn state(&self, who: &str) -> PathBuf {
        self.dir.path().join("state").join(who)
    }

    fn command(&self, who: &str) -> Command {
        let mut command = clean("deskgrid", self.dir.path());
        command
            .arg("--dir")
            .arg(self.state(who))
            .current_dir(self.dir.path());
        command
    }

    fn run(&self, who: &str, args: &[&str]) -> Output {
        Started::new(self.command(who).args(args)).finish()
    }

    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = ["--output", "json"].iter().chain(args).copied().collect();
        self.run("user", &args).expect_code(0).json()
    }

    fn launch(&mut self, which: usize) {
        let url = self.server.url.clone();
        let content = self.content.clone();
        self.launch_at(which, &url, &content);
    }

    /// Starts a master that reaches the database at this address, with this directory for content.
    fn launch_at(&mut self, which: usize, url: &str, content: &str) {
        let Master {
            name, listen, http, ..
        } = &self.masters[which];
        let mut command = self.command(name);
        command.args(["master", "start", "--tied", "--config", "master.toml"]);
        command.args(["--content", content, "--store", url]);
        command.args(["--listen", listen, "--http", http]);
        let process = Started::server(&mut command, &self.log(name));
        self.masters[which].process = Some(process);
    }

    /// Gives the second master the keys of the first one's grid, as an admin does.
    fn copy_keys(&self) {
        let [from, to] = ["first", "second"].map(|name| self.state(name).join("master"));
        fs::create_dir_all(&to).expect("a file of the test's own");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&to, mode).expect("a file of the test's own");
        for name in ["ca.der", "ca.key.der"] {
            fs::copy(from.join(name), to.join(name)).expect("a file of the test's own");
        }
    }

    fn process(&mut self, which: usize) -> &mut Started {
        self.masters[which].process.as_mut().expect("it runs")
    }

    /// SIGKILL.
    fn kill(&mut self, which: usize) {
        self.masters[which].process.take().expect("it runs").kill();
    }

    fn token(&self, role: &str) -> String {
        let made = self.run(
            "first",
            &["--output", "quiet", "token", "create", "--role", role],
        );
        made.expect_code(0).stdout.trim().to_owned()
    }

    /// The words of this master at `/healthz`, with the status; `None` if it does not answer.
    fn health(&self, which: usize) -> Option<(String, String)> {
        self.page(which, "/healthz")
    }

    /// A number of this master's at `/metrics`.
    fn number(&self, which: usize, name: &str) -> Option<u64> {
        let (_, numbers) = self.page(which, "/metrics")?;
        let mut lines = numbers.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    fn page(&self, which: usize, path: &str) -> Option<(String, String)> {
        let mut stream = TcpStream::connect(&self.masters[which].http).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream
            .write_all(
                format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                    .as_bytes(),
            )
            .ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?;
        Some((status.to_owned(), body.to_owned()))
    }

    fn until_active(&self, which: usize) {
        eventually("it is active", LONG, || {
            (self.health(which)? == ("200".to_owned(), "ok\n".to_owned())).then_some(())
        });
    }

    fn until_standing(&self, which: usize) {
        eventually("it stands by", LONG, || {
            let (status, said) = self.health(which)?;
            (status == "200" && said.contains("stands by")).then_some(())
        });
    }

    /// The number of times that the worker was let in.
    fn joins(&self) -> usize {
        self.said("pc").matches("joined the master").count()
    }

    fn until_worker_is_back(&self) {
        let before = self.joins();
        eventually("the worker is there", LONG, || {
            (self.joins() > 0).then_some(())
        });
        assert!(self.joins() >= before);
    }

    /// Submits a bag whose tasks sleep for so long and write one line each to a common file. Returns
    /// the job's number, and the file.
    fn submit(&self, tasks: u32, nap_s: f64) -> (String, PathBuf) {
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

    /// Waits for a job, whose tasks must each have run once, finished, and be there.
    fn expect_once(&self, job: &str, tasks: usize, file: &Path) {
        self.run("user", &["job", "wait", job, "--timeout", "100s"])
            .expect_code(0);
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
    fn until_served(&self, since: Instant) -> Duration {
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
            for who in ["first", "second", "pc"] {
                eprintln!("--- {who}\n{}", self.said(who));
            }
        }
    }
}

/// The times that a fault is repeated, and measured.
fn rounds() -> usize {
    let rounds = std::env::var("DESKGRID_ROUNDS").ok();
    rounds.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Says the median and the range of some times.
fn measured(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (first, last) = (times[0], times[times.len() - 1]);
    let median = times[times.len() / 2];
    println!(
        "{what}: median {:.2} s, {:.2} to {:.2} s, of {}",
        median.as_secs_f64(),
        first.as_secs_f64(),
        last.as_secs_f64(),
        times.len()
    );
}

#[test]
fn a_copy_of_a_database_that_was_given_up_is_refused_in_a_directory_without_its_mark() {
    let Some(mut pair) = Pair::prepared() else {
        return;
    };
    pair.launch(0);
    pair.until_active(0);
    pair.copy_keys();
    pair.process(0).terminate();
    eventually("it ends in order", LONG, || pair.process(0).ended());

    // Nobody may be connected while a database is copied.
    let (front, name) = pair.server.url.rsplit_once('/').expect("an address");
    let (copy, admin) = (format!("{name}_copy"), format!("{front}/postgres"));
    let url = format!("{front}/{copy}");
    let server = Server {
        url: admin,
        psql: pair.server.psql.clone(),
    };
    eventually("the master's connections end", LONG, || {
        let count = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'");
        (server.psql(&count).trim() == "0").then_some(())
    });
    server.psql(&format!("CREATE DATABASE {copy} TEMPLATE {name}"));

    // The lease in the copy is the copy's own, and nobody has it: the mark is missing.
    pair.launch_at(1, &url, "content");
    eventually("it is refused", LONG, || {
        let said = pair.said("second");
        (said.contains("the file `mark` in") && said.contains("--accept-store")).then_some(())
    });
    pair.launch(0);
    pair.until_active(0);
}

#[test]
fn a_master_on_a_database_has_its_size_among_the_numbers() {
    let Some(mut pair) = Pair::prepared() else {
        return;
    };
    pair.launch(0);
    pair.until_active(0);
    let size = "SELECT pg_database_size(current_database())";
    let least: u64 = pair
        .server
        .psql("SELECT pg_database_size('template0')")
        .trim()
        .parse()
        .expect("a number");
    let told = pair
        .number(0, "deskgrid_store_bytes")
        .expect("the number is there");
    let most: u64 = pair.server.psql(size).trim().parse().expect("a number");
    assert!(
        (least..=most).contains(&told),
        "{least} <= {told} <= {most}"
    );
}

#[test]
fn after_a_kill_of_the_active_master_the_other_one_serves_and_nothing_is_lost_or_done_twice() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let (mut served, mut back) = (Vec::new(), Vec::new());
    for round in 0..rounds() {
        let (active, other) = (round % 2, (round + 1) % 2);
        let (job, file) = pair.submit(12, 1.0);
        // Somebody waits over the fault, and somebody else submits in the middle of it.
        let waiting = Started::new(pair.command("user").args(["job", "wait", &job]));
        eventually("some have run", LONG, || file.exists().then_some(()));
        let joins = pair.joins();

        pair.kill(active);
        let since = Instant::now();
        let request = Uuid::from_bytes(rand::random()).to_string();
        let submitted = eventually("a submission is taken", LONG, || {
            let words = [
                "--output",
                "json",
                "submit",
                "--request-id",
                &request,
                "--",
                "true",
            ];
            let answer = pair.run("user", &words);
            (answer.code == 0).then(|| answer.json()["job"].to_string())
        });
        served.push(since.elapsed());
        eventually("the worker is back", LONG, || {
            (pair.joins() > joins).then_some(())
        });
        back.push(since.elapsed());

        pair.expect_once(&job, 12, &file);
        assert_eq!(waiting.finish().code, 0, "whoever waits goes on waiting");
        let again = pair.json(&["submit", "--request-id", &request, "--", "true"]);
        assert_eq!(again["job"].to_string(), submitted, "one request, one job");
        let status = pair.json(&["master", "status"]);
        assert_eq!(
            status["active"]["address"], *pair.masters[other].listen,
            "{status}"
        );

        pair.launch(active);
        pair.until_standing(active);
        println!(
            "round {round}: served {:.2?}, worker back {:.2?}",
            served[round], back[round]
        );
    }
    measured("clients served again after kill -9", served);
    measured("worker back after kill -9", back);
}

#[test]
fn a_master_that_stood_still_until_another_took_over_commits_nothing_and_stands_by() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let (job, file) = pair.submit(8, 1.0);
    eventually("some have run", LONG, || file.exists().then_some(()));

    pair.process(0).signal(Signal::STOP);
    let stopped = Instant::now();
    println!("served after a stop: {:.2?}", pair.until_served(stopped));
    pair.until_active(1);
    let later = pair.json(&["submit", "--", "true"])["job"].to_string();
    let turns = "SELECT count(*) FROM turn t JOIN lease l ON t.token < l.token";
    let before = pair.server.psql(turns);

    pair.process(0).signal(Signal::CONT);
    eventually("it says that it was taken over", LONG, || {
        pair.said("first")
            .contains("has taken the store over")
            .then_some(())
    });
    pair.until_standing(0);
    assert_eq!(
        pair.server.psql(turns),
        before,
        "no group of the old one was committed"
    );

    pair.expect_once(&job, 8, &file);
    pair.run("user", &["job", "wait", &later, "--timeout", "60s"])
        .expect_code(0);
    let (job, file) = pair.submit(2, 0.0);
    pair.expect_once(&job, 2, &file);
    let status = pair.json(&["master", "status"]);
    let states: Vec<_> = [0, 1]
        .map(|at| status["masters"][at]["state"].clone())
        .into();
    assert_eq!(states, ["stands by", "active"], "{status}");
}

#[test]
fn a_hand_over_takes_moments_and_a_job_goes_on_through_it() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let admin = pair.state("first").join("client/link.toml");
    let text = fs::read_to_string(&admin).unwrap();
    let both = pair.both();
    fs::write(&admin, text.replace(&pair.masters[0].listen, &both)).unwrap();

    let mut took = Vec::new();
    let mut back = Vec::new();
    for round in 0..rounds() {
        let (job, file) = pair.submit(6, 0.5);
        eventually("some have run", LONG, || file.exists().then_some(()));
        let joins = pair.joins();
        let since = Instant::now();
        let answer = pair.run("first", &["--output", "json", "master", "hand-over"]);
        let answer = answer.expect_code(0).json();
        assert_eq!(
            answer["active"],
            *pair.masters[(round + 1) % 2].listen,
            "{answer}"
        );
        took.push(Duration::from_secs_f64(answer["took_s"].as_f64().unwrap()));
        eventually("the worker is back", LONG, || {
            (pair.joins() > joins).then_some(())
        });
        back.push(since.elapsed());
        pair.expect_once(&job, 6, &file);
        pair.until_standing(round % 2);
        println!(
            "round {round}: {:.2?}, worker back {:.2?}",
            took[round], back[round]
        );
    }
    measured("hand-over", took);
    measured("worker back after a hand-over", back);

    let (active, other) = (rounds() % 2, (rounds() + 1) % 2);
    pair.kill(other);
    eventually("nobody stands by", LONG, || {
        let answer = pair.run("first", &["master", "hand-over"]);
        (answer.code != 0 && answer.stderr.contains("no other master stands by")).then_some(())
    });
    pair.until_active(active);
    pair.run("user", &["master", "hand-over"]).expect_code(6);
}

#[test]
fn tasks_that_do_nothing_wait_for_no_answer_of_the_database_and_share_statements() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let numbers = || {
        let number = |name| pair.number(0, name).expect("a number");
        [
            number("deskgrid_store_questions_total"),
            number("deskgrid_store_statements_total"),
        ]
    };
    let before = numbers();
    pair.run("user", &["submit", "--noop", "--array", "1-2000", "--wait"])
        .expect_code(0);
    let after = numbers();
    // The submission asks a few things; single statements would be 4,000.
    let questions = after[0] - before[0];
    assert!(questions < 50, "{questions} questions");
    let statements = after[1] - before[1];
    assert!((2..1_000).contains(&statements), "{statements} statements");
}

#[test]
fn of_two_masters_that_start_at_once_one_is_active_and_one_without_keys_or_content_is_refused() {
    let Some(mut pair) = Pair::prepared() else {
        return;
    };
    pair.launch(0);
    pair.until_active(0);
    pair.launch(1);
    let refused = eventually("it ends", LONG, || pair.process(1).ended());
    assert_ne!(refused, 0);
    assert!(
        pair.said("second").contains("copy ca.der and ca.key.der"),
        "{}",
        pair.said("second")
    );

    // Nor is one that would not find the files of the grid.
    pair.copy_keys();
    let url = pair.server.url.clone();
    pair.launch_at(1, &url, "not-mounted");
    let refused = eventually("it ends", LONG, || pair.process(1).ended());
    assert_ne!(refused, 0);
    let said = pair.said("second");
    assert!(said.contains("lies in another place"), "{said}");
    assert!(!pair.dir.path().join("not-mounted").exists());

    // Once it has seen the store live, it knows later how far that was.
    pair.launch(1);
    pair.until_standing(1);
    pair.kill(0);
    pair.kill(1);
    for _ in 0..3 {
        pair.launch(0);
        pair.launch(1);
        let health = || [0, 1].map(|which| pair.health(which).map(|(_, said)| said));
        let both = eventually("both answer", LONG, || match health() {
            [Some(first), Some(second)] => Some([first, second]),
            _ => None,
        });
        let active = both.iter().filter(|said| *said == "ok\n").count();
        let standing = both
            .iter()
            .filter(|said| said.contains("stands by"))
            .count();
        assert_eq!((active, standing), (1, 1), "{both:?}");
        pair.kill(0);
        pair.kill(1);
    }
}

#[test]
fn a_standby_that_loses_its_database_says_so_and_does_not_take_over() {
    let Some(mut pair) = Pair::prepared() else {
        return;
    };
    pair.launch(0);
    pair.until_active(0);
    pair.copy_keys();
    let way = Forwarder::to(&pair.server.url);
    let url = way.url(&pair.server.url);
    pair.launch_at(1, &url, "content");
    pair.until_standing(1);

    way.cut(true);
    let trouble = eventually("it says that it could not take over", LONG, || {
        let (status, said) = pair.health(1)?;
        (status == "503").then_some(said)
    });
    assert!(trouble.contains("could not take over"), "{trouble}");
    // Longer than the lease.
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(pair.health(1).unwrap().0, "503");
    pair.until_active(0);

    way.cut(false);
    pair.until_standing(1);
    pair.kill(0);
    pair.until_active(1);
}

/// Passes connections on to the server, unless it is cut.
struct Forwarder {
    port: u16,
    cut: Arc<AtomicBool>,
}

impl Forwarder {
    fn to(url: &str) -> Self {
        let (_, rest) = url.split_once('@').expect("a user");
        let server = rest.split('/').next().expect("a host").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let port = listener
            .local_addr()
            .expect("loopback has free ports")
            .port();
        let cut = Arc::new(AtomicBool::new(false));
        let is_cut = cut.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else {
                    return;
                };
                let is_cut = is_cut.clone();
                std::thread::spawn(move || pass_on(&client, &server, &is_cut));
            }
        });
        Self { port, cut }
    }

    fn url(&self, url: &str) -> String {
        let (front, rest) = url.split_once('@').expect("a user");
        let (_, database) = rest.split_once('/').expect("a database");
        format!("{front}@127.0.0.1:{}/{database}", self.port)
    }

    fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }
}

fn pass_on(client: &TcpStream, server: &TcpStream, is_cut: &AtomicBool) {
    std::thread::scope(|scope| {
        for (from, to) in [(client, server), (server, client)] {
            scope.spawn(move || {
                let _ = from.set_read_timeout(Some(Duration::from_millis(50)));
                let mut bytes = [0; 4_096];
                let (mut from, mut to) = (from, to);
                while !is_cut.load(Ordering::SeqCst) {
                    match from.read(&mut bytes) {
                        Ok(0) => break,
                        Ok(n) => {
                            if to.write_all(&bytes[..n]).is_err() {
                                break;
                            }
                        }
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(_) => break,
                    }
                }
                let _ = from.shutdown(std::net::Shutdown::Both);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
        }
    });
}

#[test]
fn a_master_that_stood_still_while_another_took_over_deletes_nothing_in_the_bucket_that_counts() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let Some(mut pair) = Pair::start_with(&storage.content(), &storage.settings()) else {
        return;
    };
    let submit = |pair: &Pair, bytes: &[u8]| {
        fs::write(pair.dir.path().join("in"), bytes).expect("a file of the test's own");
        let words = ["submit", "--input", "in", "--", "wc", "-c", "in"];
        let job = pair.json(&words)["job"].to_string();
        pair.run("user", &["job", "wait", &job, "--timeout", "60s"])
            .expect_code(0);
        job
    };
    let needed = [
        b"needed ".as_slice(),
        Uuid::from_bytes(rand::random()).as_bytes(),
    ]
    .concat();
    let job = submit(&pair, &needed);
    pair.process(0).signal(Signal::STOP);
    pair.until_active(1);

    // For a moment no job needs it, as the first one knows too; then one does again.
    pair.run("user", &["job", "forget", &job]).expect_code(0);
    submit(&pair, &needed);
    pair.process(0).signal(Signal::CONT);
    pair.until_standing(0);

    // The active one sweeps: it has deleted what came after that and nobody needs.
    let not_needed = b"nobody needs this for long".as_slice();
    let other = submit(&pair, not_needed);
    pair.run("user", &["job", "forget", &other]).expect_code(0);
    eventually("it is deleted", LONG, || {
        storage.objects_of(not_needed).is_empty().then_some(())
    });
    let there = storage.objects_of(&needed);
    assert!(
        there.iter().any(|path| storage.read(path) == needed),
        "{there:?}"
    );
    submit(&pair, &needed);
}
