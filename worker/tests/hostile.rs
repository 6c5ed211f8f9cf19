//! Hostile tasks against a whole worker, at every level of confinement that this machine has: what
//! each level stops is one table, which the documentation shows, too.
//!
//! Without libtest, for the reason that `processes.rs` gives.
#![allow(clippy::unwrap_used)] // A test's panic is its message.

#[path = "hostile/acts.rs"]
mod acts;
mod door;
#[path = "hostile/kernels.rs"]
mod kernels;
mod runner;
#[path = "hostile/succession.rs"]
mod succession;
#[path = "hostile/table.rs"]
mod table;

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program};
use std::sync::Mutex;

use common::attempt::{Completion, Outcome};
use common::host::Confinement;
use common::settings::ConfigDuration;
use common::wire::worker::{Assignment, ToMaster};
use common::{Content, Span};
use door::{Master, PATIENCE, Worker, command, id, sh};
use table::{Row, Stop, TABLE};
use worker::os::{Abilities, Means};
use worker::{Choice, Config};

/// With this as its first word the program is a hostile task.
const HOSTILE: &str = "hostile";
/// What stands in the owner's files.
const SECRET: &str = "the owner's secret\n";
/// An account that owns nothing.
const NOBODY: u32 = 65_534;
/// Another, for a worker without root.
const ORDINARY: u32 = 61_000;
/// What a task may have here: enough for a harmless one, and less than each act takes.
const PROCESSES: u64 = 50;
const MEMORY: u64 = 128 << 20;
const STREAM: u64 = 1 << 20;
const DISK: u64 = 8 << 20;
const FILES: u64 = 500;
const OUTPUT: u64 = 1 << 30;

/// How the workers of the present test are set.
static CONFIG: Mutex<Option<Config>> = Mutex::new(None);

fn config() -> Config {
    CONFIG.lock().unwrap().clone().unwrap()
}

fn main() {
    worker::spawner::main_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == HOSTILE) {
        std::process::exit(acts::commit(&args[1], &args[2]));
    }

    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };

    let as_root = Confinement::ALL.map(|level| (name_of(level), Test::Level(level)));
    let ordinary = Confinement::ALL.map(|level| {
        let name =
            format!("what_level_{level}_stops_for_a_worker_without_root_is_as_the_table_says");
        (name, Test::Ordinary(level))
    });
    let levels = as_root
        .iter()
        .chain(&ordinary)
        .map(|(name, test)| (name.as_str(), *test));
    let tests: Vec<_> = levels
        .chain([("the_documentation_shows_the_table", Test::Documentation)])
        .collect();
    runner::run(&args, &tests, |test| match test {
        Test::Documentation => the_documentation_shows_the_table(),
        Test::Ordinary(level) => without_root(*level),
        Test::Level(level) => runtime().block_on(async {
            tokio::time::timeout(10 * PATIENCE, try_level(*level))
                .await
                .expect("the test hangs");
        }),
    });
}

#[derive(Debug, Clone, Copy)]
enum Test {
    Documentation,
    /// As whoever runs the tests.
    Level(Confinement),
    /// As an account that is not root's.
    Ordinary(Confinement),
}

fn name_of(level: Confinement) -> String {
    format!("what_level_{level}_stops_is_as_the_table_says")
}

/// The test of a level once more, as an ordinary account.
fn without_root(level: Confinement) {
    if !rustix::process::geteuid().is_root() {
        println!("  SKIPPED: that is the other test: these tests do not run as root");
        return;
    }

    let (_tools, program) = tools();
    let mut command = Program::new(program);
    command
        .args([&name_of(level), "--exact"])
        .current_dir("/")
        .uid(ORDINARY)
        .gid(ORDINARY);
    assert!(
        command.status().unwrap().success(),
        "as account {ORDINARY}, at level `{level}`"
    );
}

fn the_documentation_shows_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/confinement.md");
    let text = fs::read_to_string(&path).unwrap();
    let start = "<!-- table -->\n";
    let end = "<!-- end of table -->\n";
    let (before, rest) = text.split_once(start).expect("a place for the table");
    let (_, after) = rest.split_once(end).expect("its end");
    let fresh = format!("{before}{start}{}{end}{after}", table::text());
    if std::env::var_os("DESKGRID_BLESS").is_some() {
        fs::write(&path, &fresh).unwrap();
    }

    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        fresh,
        "run this test once with DESKGRID_BLESS=1"
    );
}

/// Leaves something wherever a task can.
const LEAVE_TRACES: &str = "for place in /tmp /dev/shm .. /dev / /proc; do echo x > $place/trace; done 2> /dev/null; \
                            ipcmk -M 1000 > /dev/null 2>&1; setsid sleep 100 > /dev/null 2>&1 & true";
/// Exits with a number if there is anything of another task's, if something can be changed that is
/// not the task's, or if what it should have of its own is missing.
const FIND_TRACES: &str = "exec 2> /dev/null; for place in /tmp /dev/shm .. /dev / /proc; do [ ! -e $place/trace ] || exit 10; done; \
                           [ $(wc -l < /proc/sysvipc/shm) = 1 ] || exit 11; [ \"$(ls -A ..)\" = \"$(basename $PWD)\" ] || exit 12; \
                           [ $(ls -d /proc/[0-9]* | wc -l) -le 6 ] && [ $(ls /proc/self/fd | wc -l) -le 4 ] || exit 13; [ \"$(ls /dev/pts)\" = ptmx ] || exit 14; \
                           for file in /x /dev/x /proc/sys/net/ipv4/ip_forward; do (echo 1 > $file) && exit 15; done; \
                           echo x > /tmp/x && echo x > /dev/shm/x && true > /dev/null || exit 16";

/// The owner: files, programs and sockets that tasks are to leave alone.
struct Owner {
    dir: tempfile::TempDir,
    port: TcpListener,
    _socket: UnixListener,
    _abstract: UnixListener,
    name: String,
    /// Whether tasks run as an account without rights, where this runs as root.
    tasks_are_nobody: bool,
    /// Of what is shared with other programs by number.
    key: libc::key_t,
    program: Option<Child>,
}

impl Owner {
    fn new(tasks_are_nobody: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // As lax as an owner could be: no test may pass because of a mode.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(dir.path().join("secret"), SECRET).unwrap();

        let socket = UnixListener::bind(dir.path().join("socket")).unwrap();
        fs::set_permissions(dir.path().join("socket"), fs::Permissions::from_mode(0o777)).unwrap();

        let name = format!("deskgrid-hostile-{}", std::process::id());
        let hidden =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();

        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let key = 0x6467_0000 ^ std::process::id() as libc::key_t;
        Self {
            dir,
            port,
            _socket: socket,
            _abstract: hidden,
            name,
            tasks_are_nobody,
            key,
            program: None,
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// A program that runs until it is killed.
    fn program(&mut self) -> &mut Child {
        if self
            .program
            .as_mut()
            .is_none_or(|child| child.try_wait().unwrap().is_some())
        {
            let mut program = Program::new("/bin/sleep");
            program.arg("600");
            // The account that tasks have: no test may pass because of another one either.
            if self.tasks_are_nobody && rustix::process::geteuid().is_root() {
                program.uid(NOBODY).gid(NOBODY);
            }
            self.program = Some(program.spawn().unwrap());
        }

        self.program.as_mut().unwrap()
    }

    /// What an act is aimed at.
    fn target(&mut self, act: &str) -> String {
        match act {
            "write-outside" => self.path(""),
            "connect-tcp" => self.port.local_addr().unwrap().to_string(),
            "connect-unix" => self.path("socket"),
            "connect-abstract" => self.name.clone(),
            "read-memory" | "read-environment" | "kill-worker" | "limit-others" | "slow-others"
            | "read-command-line" => self.program().id().to_string(),
            "read-shared-memory" => {
                kernels::share(self.key);
                self.key.to_string()
            }
            "leave-memory" => self.key.to_string(),
            _ => self.path("secret"),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        kernels::remove(self.key);
        if let Some(mut child) = self.program.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A place that every account may read, with this program in it.
fn tools() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("hostile");
    fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (dir, path)
}

async fn try_level(level: Confinement) {
    let mut master = Master::new();
    fs::set_permissions(master.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();

    let (tools, program) = tools();
    let means = Means {
        account: NOBODY.to_string(),
        readable: vec![tools.path().to_str().unwrap().to_owned()],
        ..Means::default()
    };
    let abilities = worker::os::abilities(std::env::current_exe().unwrap(), tools.path(), &means)
        .await
        .unwrap();

    if let Some(why) = &abilities.level(level).unwrap().missing {
        println!("  SKIPPED: level `{level}` is not there: {why}");
        return;
    }

    *CONFIG.lock().unwrap() = Some(Config {
        confinement: Choice::This(level),
        readable_paths: means.readable.clone(),
        account: means.account.clone(),
        slots: 1,
        grace: ConfigDuration::from_millis(200),
        stream_limit_bytes: STREAM,
        output_limit_bytes: OUTPUT,
        memory_limit_bytes: MEMORY,
        processes_limit: PROCESSES,
        disk_limit_bytes: DISK,
        disk_files_limit: FILES,
        owner: worker::owner::rules::OwnerRules::dedicated(),
        ..Config::default()
    });

    let (_stop, _run) = master.start();
    let mut worker = master.welcome(vec![]).await;
    assert_eq!(worker.facts.confinement, level);

    let mut wrong = Vec::new();
    for (index, row) in TABLE.iter().enumerate() {
        let mut bench = Bench {
            owner: Owner::new(level != Confinement::Process),
            program: &program,
            abilities: &abilities,
            level,
        };
        if let Err(why) = bench.judge(&mut worker, index as u32 + 1, row).await {
            wrong.push(format!("{}: {why}", row.act));
        }
    }

    harmless(&mut worker, level).await;
    if level >= Confinement::Namespace {
        let program = program.to_str().unwrap();
        succession::tasks_in_succession_find_nothing_of_each_other(&mut worker, program, 2_000)
            .await;
    }
    assert!(
        wrong.is_empty(),
        "at level `{level}`:\n{}",
        wrong.join("\n")
    );
}

/// What a task that means well does goes on as if it were not confined.
async fn harmless(worker: &mut Worker, level: Confinement) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let bash = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}",
        port.local_addr().unwrap().port()
    );
    let connects = ["/bin/bash", "-c", &bash];
    let compute = "set -e; mkdir d; seq 1000 | sort -n | tail -1 > d/last; ln d/last d/again; mv d/again here; \
                   cat here /etc/passwd > /dev/null; echo x > \"$HOME/y\"; mktemp > /dev/null; ls /proc/self/fd > /dev/null; \
                   (head -c 100 /dev/urandom | wc -c) >&2; cat d/last";
    let well = "echo x > /dev/stderr && echo y > /dev/stdout && chmod 600 here* 2>/dev/null; nice true && \
                ulimit -c 0 && taskset 1 true && prlimit --nofile=64 true";
    let powerless =
        "grep -q 'CapEff:.0*$' /proc/self/status && grep -q 'NoNewPrivs:.1' /proc/self/status";
    let exited = |code| Outcome::Exited(code);
    let confined = if level == Confinement::Process {
        exited(1)
    } else {
        Outcome::Succeeded
    };

    let mut index = 1_000;
    // What Python's `multiprocessing` needs.
    let share = "if [ -e /usr/bin/python3 ]; then /usr/bin/python3 -c 'import multiprocessing as m; m.Lock()'; fi";
    let shares = if level == Confinement::Landlock {
        exited(1)
    } else {
        Outcome::Succeeded
    };
    let mut tasks = vec![
        (["sh", "-c", share], false, shares, ""),
        (
            ["/bin/sh", "-c", compute],
            false,
            Outcome::Succeeded,
            "1000\n",
        ),
        (["sh", "-c", "echo out; exit 7"], false, exited(7), "out\n"),
        (["sh", "-c", "exit 137"], false, exited(137), ""),
        (["sh", "-c", powerless], false, confined, ""),
        (["sh", "-c", well], false, Outcome::Succeeded, "y\n"),
        (
            ["sh", "-c", "kill -SEGV $$"],
            false,
            Outcome::Signalled(11),
            "",
        ),
        (connects, true, Outcome::Succeeded, ""),
        (
            connects,
            false,
            if level == Confinement::Process {
                Outcome::Succeeded
            } else {
                exited(1)
            },
            "",
        ),
    ];
    if level >= Confinement::Namespace {
        tasks.push((["sh", "-c", LEAVE_TRACES], false, Outcome::Succeeded, ""));
        tasks.push((["sh", "-c", FIND_TRACES], false, Outcome::Succeeded, ""));
    }

    for (argv, network, expected, said) in tasks {
        index += 1;
        let mut work = sh(index, "");
        let spec = command(&mut work);
        spec.argv = argv.map(str::to_owned).to_vec();
        spec.network = network;
        worker.assign(vec![work]).await;

        let done = worker.delivered().await.remove(0);
        worker.acknowledge(vec![done.attempt]).await;

        assert_eq!(
            done.outcome, expected,
            "at level `{level}`, network {network}: {argv:?}: {done:?}"
        );
        assert_eq!(
            done.stdout.content,
            Content::Inline(said.as_bytes().to_vec()),
            "{argv:?}"
        );
    }
}

struct Bench<'a> {
    owner: Owner,
    program: &'a Path,
    abilities: &'a Abilities,
    level: Confinement,
}

impl Bench<'_> {
    /// Whether the act comes out as the table says.
    async fn judge(&mut self, worker: &mut Worker, index: u32, row: &Row) -> Result<(), String> {
        let expected = match row.stops[Confinement::ALL
            .iter()
            .position(|level| *level == self.level)
            .unwrap()]
        {
            Stop::AsRoot if rustix::process::geteuid().is_root() => Stop::Yes,
            Stop::AsRoot => Stop::No,
            other => other,
        };
        if let Some(why) = self.why_not_here(row.act) {
            println!("  SKIPPED: {}: {why}", row.act);
            return Ok(());
        }

        let target = self.owner.target(row.act);
        let outputs = if ["sparse-file", "swap-output"].contains(&row.act)
            || row.act.starts_with("output-")
        {
            vec!["out".to_owned()]
        } else {
            Vec::new()
        };

        let done = self.run(worker, index, (row.act, &target), outputs).await;
        let seen = self.seen(row.act, &done)?;
        println!("  {}: {seen:?} ({})", row.act, done.outcome);
        self.unharmed(row.act, expected)?;

        if seen == expected {
            Ok(())
        } else {
            Err(format!("{seen:?}, not {expected:?}: {done:?}"))
        }
    }

    /// What this machine lacks for the act to make sense.
    fn why_not_here(&self, act: &str) -> Option<String> {
        let gap = self.abilities.level(self.level).unwrap().gap.clone();
        match act {
            "fork-bomb" => self.abilities.no_process_limit.clone(),
            "kill-worker" => gap,
            "leave-group" | "set-kernel"
                if self.level == Confinement::Process && !rustix::process::geteuid().is_root() =>
            {
                Some("only root can".to_owned())
            }
            _ => None,
        }
    }

    async fn run(
        &self,
        worker: &mut Worker,
        index: u32,
        act: (&str, &str),
        outputs: Vec<String>,
    ) -> Completion {
        let mut work: Assignment = Assignment {
            limit: Some(Span::from_secs(40)),
            ..sh(index, "")
        };
        let spec = command(&mut work);
        let program = self.program.to_str().unwrap();
        spec.argv = [program, HOSTILE, act.0, act.1].map(str::to_owned).to_vec();
        spec.outputs = outputs;
        worker.assign(vec![work]).await;

        if act.0 == "ignore-term" {
            // Once it says that it ignores the request.
            let says = |m| matches!(m, ToMaster::Heartbeat { held, .. } if held.iter().any(|h| h.progress.is_some()));
            let told = worker.until(|message| match message {
                ToMaster::Delivered(mut done) => Some(Some(done.remove(0).completion)),
                message => says(message).then_some(None),
            });
            if let Some(done) = told.await {
                return done;
            }

            worker.stop(id(index)).await;
        }

        let done = worker.delivered().await.remove(0);
        worker.acknowledge(vec![done.attempt]).await;

        assert_eq!(done.attempt, id(index));
        done
    }

    /// What became of the act. The error says what is odd.
    fn seen(&self, act: &str, done: &Completion) -> Result<Stop, String> {
        let stopped = done.outcome == Outcome::Exited(acts::STOPPED);
        let text = match &done.stdout.content {
            Content::Inline(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Content::Blob(_) => String::new(),
        };

        let secret = link::content::hash_bytes(SECRET.as_bytes()).hash;
        Ok(match (act, &done.outcome) {
            ("fork-bomb", _) if stopped => {
                let born: u64 = text
                    .trim()
                    .parse()
                    .map_err(|_| format!("it said {text:?}"))?;
                if born <= PROCESSES {
                    Stop::Yes
                } else {
                    return Err(format!("{born} processes"));
                }
            }
            // Where the memory of all processes together is not limited, it is refused to each.
            ("hog-memory", _) if stopped => Stop::Contained,
            (
                "hog-memory" | "fill-disk" | "many-files" | "unlinked-files" | "locked-files",
                Outcome::OverLimit(_),
            ) => Stop::Contained,
            ("leave-memory", Outcome::Succeeded) if !kernels::remove(self.owner.key) => {
                Stop::Contained
            }
            ("ignore-term", Outcome::Stopped) => Stop::Contained,
            ("flood-output", Outcome::Succeeded) if done.stdout.dropped > 0 => Stop::Contained,
            (
                "sparse-file" | "output-symlink" | "output-hard-link" | "output-pipe",
                Outcome::BadOutput(_),
            ) => Stop::Contained,
            ("swap-output", _) if done.outputs.iter().any(|output| output.blob.hash == secret) => {
                Stop::No
            }
            // Whoever exchanges it is dead by then: what is found is taken, or refused.
            (
                "swap-output",
                Outcome::Succeeded | Outcome::BadOutput(_) | Outcome::MissingOutput(_),
            ) => Stop::Contained,
            (_, Outcome::Succeeded) => Stop::No,
            _ if stopped => Stop::Yes,
            (_, other) => return Err(format!("it {other}")),
        })
    }

    /// Whether the owner's things are as they were, where the act is to be stopped.
    fn unharmed(&mut self, act: &str, expected: Stop) -> Result<(), String> {
        let mode = fs::metadata(self.owner.path("secret"))
            .map_err(|error| error.to_string())?
            .permissions()
            .mode();
        let changed = mode & 0o777 == 0o606;
        let secret =
            fs::read_to_string(self.owner.path("secret")).map_err(|error| error.to_string())?;

        let written = fs::exists(self.owner.path("written")).map_err(|error| error.to_string())?;
        let dead = act == "kill-worker"
            && self
                .owner
                .program
                .as_mut()
                .is_some_and(|p| p.try_wait().unwrap().is_some());
        let harmed = secret != SECRET || written || dead || changed;

        if harmed && expected != Stop::No {
            Err("the owner's things were touched".to_owned())
        } else {
            Ok(())
        }
    }
}
