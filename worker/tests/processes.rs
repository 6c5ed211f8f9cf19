//! Real process trees: how commands start, what of them is stopped and ended, and that nothing is
//! ever left.
//!
//! Without libtest, because the program must be able to be the spawner, and for that its `main` has
//! to be its own.
#![allow(clippy::unwrap_used)] // A test's panic is its message.

#[path = "door/process.rs"]
mod door;
mod runner;

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use common::host::Confinement;
use door::{PATIENCE, end, freeze, kill, printed, status, until, within};
use tokio::io::AsyncReadExt;
use worker::os::{
    AttemptLimits, Confines, Freezer, Grounds, Launch, Launcher, Process, ProcessOrder,
    ProcessStatus, Survey, WatcherReport,
};

/// As which the program hosts a task and waits to be killed.
const HOST: &str = "host-a-task";
/// As which the program, with mounts of its own, starts commands whose `PATH` leads to a file system that hangs.
const HANG: &str = "search-what-hangs";

type Test = fn(Box<Bench>) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), |bench| Box::pin($name(bench)))),*] };
}

const TESTS: &[(&str, Test)] = tests![
    exit_codes_and_signals_are_told_apart,
    output_and_processor_time_come_back,
    standard_input_is_empty_or_the_file,
    the_environment_is_what_was_given_and_no_more,
    a_command_that_cannot_start_gives_the_reason,
    the_program_is_the_first_of_path_that_can_be_executed,
    a_path_that_hangs_keeps_no_other_command_waiting,
    a_grandchild_in_a_session_of_its_own_does_not_outlive_the_command,
    a_whole_tree_is_asked_and_then_made_to_end,
    a_task_that_kills_its_group_does_not_reach_its_watcher,
    a_frozen_tree_does_nothing_until_it_is_thawed,
    a_frozen_tree_uses_no_processor_for_five_seconds,
    a_tree_that_grows_while_it_is_frozen_is_frozen_whole,
    a_process_whose_first_thread_has_ended_is_frozen_and_killed,
    a_frozen_tree_tells_how_much_memory_it_holds,
    tasks_left_frozen_by_a_killed_worker_end_with_the_next_one,
    tasks_run_at_the_lowest_priority_and_their_watcher_does_not,
    tasks_are_in_the_group_that_gets_what_processor_time_nobody_else_wants,
    all_tasks_together_take_no_more_processor_time_than_their_limit,
    tasks_die_with_a_killed_worker,
    tasks_die_with_a_killed_watcher,
    a_killed_spawner_is_replaced,
    no_descriptors_reach_the_task,
    limits_hold_for_the_task,
];

fn main() {
    worker::spawner::main_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    if args.first().is_some_and(|a| a == HOST) {
        return runtime().block_on(host_a_task(
            args[1].parse().unwrap(),
            &args[2],
            Path::new(&args[3]),
        ));
    }

    if args.first().is_some_and(|a| a == HANG) {
        return runtime().block_on(search_what_hangs(Path::new(&args[1])));
    }

    // Each test in every way in which a tree can be frozen.
    let ways = Freezer::ALL
        .into_iter()
        .flat_map(|way| TESTS.iter().map(move |(name, test)| (way, name, *test)));
    let named: Vec<_> = ways
        .map(|(way, name, test)| (format!("{way}::{name}"), (way, test)))
        .collect();
    let tests: Vec<(&str, _)> = named
        .iter()
        .map(|(name, test)| (name.as_str(), *test))
        .collect();
    runner::run(&args, &tests, |(way, test)| {
        let Some(bench) = Bench::new(*way) else {
            return;
        };
        let all = async {
            tokio::time::timeout(2 * PATIENCE, test(bench))
                .await
                .expect("the test hangs");
        };
        runtime().block_on(all);
    });
}

/// The door: a launcher, and a directory for the commands.
struct Bench {
    launcher: Launcher,
    way: Freezer,
    groups: Groups,
    dir: tempfile::TempDir,
}

/// Control groups that go with the test, after everything in them.
struct Groups(Survey);

impl Groups {
    fn new(key: &str) -> Self {
        Self(Survey::make(key))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.0.remove();
    }
}

impl Bench {
    /// Nothing, and why, where this host cannot freeze in this way.
    fn new(way: Freezer) -> Option<Box<Self>> {
        let groups = Groups::new(&format!("test-{}", std::process::id()));
        let grounds = groups.0.grounds(way);
        let grounds = grounds
            .inspect_err(|why| println!("  SKIPPED: no {way} on this host: {why}"))
            .ok()?;
        let launcher = Launcher::start(PathBuf::from("/proc/self/exe"), grounds).unwrap();
        Some(Box::new(Self {
            launcher,
            way,
            groups,
            dir: tempfile::tempdir().unwrap(),
        }))
    }

    fn describe(&self, argv: &[&str]) -> Launch {
        launch(argv, self.dir.path())
    }

    async fn start(&self, script: &str) -> Process {
        self.launcher
            .launch(&self.describe(&["sh", "-c", script]), true, true)
            .await
            .unwrap()
    }

    async fn output(&self, launch: &Launch) -> (String, WatcherReport) {
        let mut process = self.launcher.launch(launch, true, false).await.unwrap();
        let mut text = String::new();
        process
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .await
            .unwrap();
        (text, end(&mut process).await)
    }

    /// The number that a script wrote into this file, once it is there whole.
    async fn pid(&self, name: &str) -> i32 {
        door::pid(&self.dir.path().join(name)).await
    }
}

/// A command in this directory.
fn launch(argv: &[&str], dir: &Path) -> Launch {
    Launch {
        argv: argv.iter().map(|a| (*a).to_owned()).collect(),
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        dir: dir.as_os_str().to_owned(),
        stdin: None,
        processors: Vec::new(),
        limits: AttemptLimits::default(),
        confines: Confines::default(),
    }
}

/// The fields of a process's stat after its name; none once it is gone or only waits to be reaped.
fn stat(pid: i32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<String> = stat[stat.rfind(')')? + 2..]
        .split(' ')
        .map(str::to_owned)
        .collect();
    (fields[0] != "Z" && fields[0] != "X").then_some(fields)
}

fn alive(pid: i32) -> bool {
    stat(pid).is_some()
}

fn parent(pid: i32) -> i32 {
    stat(pid).unwrap()[1].parse().unwrap()
}

/// Processor time in the system's ticks.
fn ticks(pid: i32) -> u64 {
    let fields = stat(pid).unwrap();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn kill_9(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

async fn exit_codes_and_signals_are_told_apart(bench: Box<Bench>) {
    for (script, expected) in [
        ("true", ProcessStatus::Exited(0)),
        ("exit 3", ProcessStatus::Exited(3)),
        ("exit 255", ProcessStatus::Exited(255)),
        ("kill -SEGV $$", ProcessStatus::Signalled(11)),
        ("kill -KILL $$", ProcessStatus::Signalled(9)),
    ] {
        assert_eq!(
            status(&mut bench.start(script).await).await,
            expected,
            "{script}"
        );
    }
}

async fn output_and_processor_time_come_back(bench: Box<Bench>) {
    // The work is a grandchild's, whose parent has not waited for it.
    let script = "echo out; echo err >&2; (i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo > done) & exec sleep 600";
    let mut process = bench.start(script).await;
    until(|| bench.dir.path().join("done").exists()).await;
    process.order(ProcessOrder::Terminate);

    let (out, err) = printed(&mut process).await;
    assert_eq!((out.as_str(), err.as_str()), ("out\n", "err\n"));

    let WatcherReport::Ended { status, cpu, .. } = end(&mut process).await else {
        panic!()
    };
    assert_eq!(status, ProcessStatus::Signalled(15));
    assert!(cpu.secs() > 0.005 && cpu.secs() < 20.0, "{cpu}");
}

async fn standard_input_is_empty_or_the_file(bench: Box<Bench>) {
    let mut launch = bench.describe(&["cat"]);
    assert_eq!(bench.output(&launch).await.0, "");
    fs::write(bench.dir.path().join("in"), "some input").unwrap();
    launch.stdin = Some("in".to_owned());
    assert_eq!(bench.output(&launch).await.0, "some input");
    launch.stdin = Some("nothing".to_owned());
    let (_, report) = bench.output(&launch).await;
    assert!(
        matches!(&report, WatcherReport::NotStarted(why) if why.contains("standard input `nothing`")),
        "{report:?}"
    );
}

async fn the_environment_is_what_was_given_and_no_more(bench: Box<Bench>) {
    let mut launch = bench.describe(&["env"]);
    launch.env.push(("A".to_owned(), "1 2".to_owned()));
    assert_eq!(bench.output(&launch).await.0, "PATH=/usr/bin:/bin\nA=1 2\n");
    let (at, _) = bench.output(&bench.describe(&["pwd"])).await;
    assert_eq!(
        Path::new(at.trim()),
        bench.dir.path().canonicalize().unwrap()
    );
}

async fn a_command_that_cannot_start_gives_the_reason(bench: Box<Bench>) {
    fs::write(bench.dir.path().join("plain"), "#!/bin/sh\n").unwrap();
    fs::write(bench.dir.path().join("lost"), "#!/no/such/interpreter\n").unwrap();
    fs::write(bench.dir.path().join("noise"), "\x01\x02\x03").unwrap();

    for name in ["lost", "noise"] {
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(bench.dir.path().join(name), executable).unwrap();
    }

    for (program, words) in [
        (
            "no-such-program",
            "`no-such-program` not found in PATH (/usr/bin:/bin)",
        ),
        ("plain", "mark it executable (chmod +x) and say `./plain`"),
        ("lost", "of that name, say `./lost`"),
        ("./nothing", "`./nothing` does not exist below"),
        (
            "/no/such/program",
            "`/no/such/program` does not exist on this host",
        ),
        ("./plain", "may not be executed: mark an input executable"),
        ("/etc/passwd", "may not be executed on this host"),
        ("./lost", "the interpreter"),
        ("./noise", "not a program of this system"),
        ("", "the command is empty"),
    ] {
        let (_, report) = bench.output(&bench.describe(&[program])).await;
        assert!(
            matches!(&report, WatcherReport::NotStarted(why) if why.contains(words)),
            "{program}: {report:?}"
        );
    }

    let mut launch = bench.describe(&["true"]);
    launch.dir.push("/gone");

    let (_, report) = bench.output(&launch).await;
    assert!(
        matches!(&report, WatcherReport::NotStarted(why) if why.contains("directory")),
        "{report:?}"
    );
}

async fn the_program_is_the_first_of_path_that_can_be_executed(bench: Box<Bench>) {
    let dir = |name: &str| bench.dir.path().join(name);
    for name in ["closed", "lost", "open"] {
        fs::create_dir(dir(name)).unwrap();
    }
    let program = |at: &str, text: &str, mode| {
        fs::write(dir(at), text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(dir(at), mode).unwrap();
    };
    program("closed/tool", "#!/bin/sh\necho closed", 0o644);
    program("lost/tool", "#!/no/such/interpreter\n", 0o755);
    program("open/tool", "#!/bin/sh\necho $0", 0o755);
    fs::create_dir_all(dir("directory/tool")).unwrap();
    std::os::unix::fs::symlink("loop", dir("loop")).unwrap();

    let path = |names: &[&str]| {
        let paths = names.iter().map(|name| dir(name).display().to_string());
        ("PATH".to_owned(), paths.collect::<Vec<_>>().join(":"))
    };
    let mut launch = bench.describe(&["tool"]);
    launch.env = vec![path(&[
        "none",
        "closed",
        "directory",
        "loop",
        "lost",
        "open",
    ])];
    let (said, _) = bench.output(&launch).await;
    assert_eq!(said.trim(), dir("open/tool").display().to_string());

    let long = "x".repeat(256);
    let (_, report) = bench.output(&bench.describe(&[&long])).await;
    assert!(
        matches!(&report, WatcherReport::NotStarted(why) if why.contains("256 bytes")),
        "{report:?}"
    );

    for (names, words) in [
        (
            &["none", "closed", "directory", "loop"][..],
            "not found in PATH",
        ),
        (&["closed", "lost"], "the interpreter"),
        (&[], "not found in PATH ()"),
    ] {
        launch.env = vec![path(names)];
        let (_, report) = bench.output(&launch).await;
        assert!(
            matches!(&report, WatcherReport::NotStarted(why) if why.contains(words)),
            "{names:?}: {report:?}"
        );
    }
}

async fn a_path_that_hangs_keeps_no_other_command_waiting(bench: Box<Bench>) {
    if bench.way != Freezer::Signals {
        return println!("  the way to freeze makes no difference: tried once");
    }
    let mounts = if rustix::process::geteuid().is_root() {
        "--mount"
    } else {
        "-rm"
    };
    let mut beside = tokio::process::Command::new("unshare");
    beside
        .arg(mounts)
        .arg(std::env::current_exe().unwrap())
        .arg(HANG)
        .arg(bench.dir.path());
    let ended = within(beside.kill_on_drop(true).status()).await.unwrap();
    assert!(ended.success());
}

/// Plays the part of [`HANG`].
async fn search_what_hangs(dir: &Path) {
    let [away, at] = ["away", "at"].map(|name| dir.join(name));
    fs::create_dir(&away).unwrap();
    fs::create_dir(&at).unwrap();
    // A file system that never answers, until its server is gone.
    let server = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    let mounted = server.and_then(|server| {
        let number = std::os::fd::AsRawFd::as_raw_fd(&server);
        let options = format!("fd={number},rootmode=40000,user_id=0,group_id=0");
        let options = std::ffi::CString::new(options)?;
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", &away, "fuse", flags, options.as_c_str())?;
        Ok(server)
    });
    let server = match mounted {
        Ok(server) => server,
        Err(why) => return println!("  SKIPPED: nothing can be mounted here: {why}"),
    };

    let launcher = Launcher::start(PathBuf::from("/proc/self/exe"), Grounds::default()).unwrap();
    let launch = |argv: &[&str], path: &Path, level| Launch {
        env: vec![(
            "PATH".to_owned(),
            format!("{}:/usr/bin:/bin", path.display()),
        )],
        confines: Confines {
            level,
            ..Confines::default()
        },
        ..launch(argv, &at)
    };
    let begin = async |launch: Launch| launcher.launch(&launch, false, false).await.unwrap();
    let other = launch(
        &["sh", "-c", "exit 3"],
        Path::new("/bin"),
        Confinement::Process,
    );
    let mut hanging = begin(launch(&["true"], &away, Confinement::Process)).await;
    assert_eq!(
        status(&mut begin(other.clone()).await).await,
        ProcessStatus::Exited(3)
    );

    // Among namespaces nothing hangs until the host is asked why there is no such program.
    let mut first = begin(launch(&["true"], Path::new("/bin"), Confinement::Namespace)).await;
    if let WatcherReport::NotStarted(why) = end(&mut first).await {
        println!("  SKIPPED in part: {why}");
    } else {
        let mut unexplained = begin(launch(&["none"], &away, Confinement::Namespace)).await;
        let mut beside = begin(other).await;
        let (why, code) = tokio::join!(end(&mut unexplained), status(&mut beside));
        assert_eq!(code, ProcessStatus::Exited(3));
        assert!(
            matches!(&why, WatcherReport::NotStarted(why) if why.contains("does not answer")),
            "{why:?}"
        );
    }

    drop(server);
    assert_eq!(status(&mut hanging).await, ProcessStatus::Exited(0));
}

async fn a_grandchild_in_a_session_of_its_own_does_not_outlive_the_command(bench: Box<Bench>) {
    let daemon =
        "setsid sh -c 'trap \"\" TERM HUP; echo $$ > daemon; while :; do sleep 600; done' & ";

    let wait = "while [ ! -s daemon ]; do sleep 0.01; done; ";
    // The command ends by itself.
    let mut process = bench.start(&format!("({daemon}) ; {wait} exit 7")).await;
    let pid = bench.pid("daemon").await;

    assert_eq!(status(&mut process).await, ProcessStatus::Exited(7));
    assert!(!alive(pid));

    // The command is killed.
    fs::remove_file(bench.dir.path().join("daemon")).unwrap();
    let mut process = bench.start(&format!("({daemon}) ; sleep 600")).await;
    let pid = bench.pid("daemon").await;
    assert!(alive(pid));
    kill(&mut process).await;
    assert!(!alive(pid));
}

async fn a_whole_tree_is_asked_and_then_made_to_end(bench: Box<Bench>) {
    let script = "sh -c 'trap \"echo asked > asked; exit\" TERM; echo $$ > polite; while :; do sleep 0.01; done' & \
                  trap \"\" TERM; echo $$ > stubborn; while :; do sleep 0.01; done";
    let mut process = bench.start(script).await;
    let polite = bench.pid("polite").await;
    let stubborn = bench.pid("stubborn").await;

    process.order(ProcessOrder::Terminate);
    until(|| !alive(polite)).await;
    assert_eq!(
        fs::read_to_string(bench.dir.path().join("asked")).unwrap(),
        "asked\n"
    );
    assert!(alive(stubborn));
    kill(&mut process).await;

    assert!(!alive(stubborn));
}

async fn a_task_that_kills_its_group_does_not_reach_its_watcher(bench: Box<Bench>) {
    let mut process = bench.start("kill -TERM 0; sleep 600").await;
    assert_eq!(status(&mut process).await, ProcessStatus::Signalled(15));
    assert_eq!(
        status(&mut bench.start("exit 4").await).await,
        ProcessStatus::Exited(4)
    );
}

async fn a_frozen_tree_does_nothing_until_it_is_thawed(bench: Box<Bench>) {
    let busy = |name: &str| format!("echo $$ > {name}; while :; do :; done");
    let script = format!(
        "setsid sh -c '{}' & sh -c '{}' & {}",
        busy("a"),
        busy("b"),
        busy("c")
    );
    let mut process = bench.start(&script).await;
    let pids = [
        bench.pid("a").await,
        bench.pid("b").await,
        bench.pid("c").await,
    ];
    let asked = Instant::now();

    freeze(&mut process).await;
    println!("  frozen after {:?}", asked.elapsed());

    let before = pids.map(ticks);
    if bench.way == Freezer::Signals {
        assert!(pids.iter().all(|pid| stat(*pid).unwrap()[0] == "T"));
    }

    // What is stopped stays stopped: no later moment can be different.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(before, pids.map(ticks));
    process.order(ProcessOrder::Thaw);
    for (pid, then) in pids.into_iter().zip(before) {
        until(|| ticks(pid) > then).await;
    }

    // A frozen tree can be killed as it is.
    freeze(&mut process).await;
    kill(&mut process).await;
    assert!(!pids.into_iter().any(alive));
}

/// Processor time of all threads of a process, in nanoseconds.
fn used_ns(pid: i32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let used = |path: PathBuf| {
        fs::read_to_string(path)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    threads
        .map(|thread| used(thread.path().join("schedstat")))
        .sum()
}

async fn a_frozen_tree_uses_no_processor_for_five_seconds(bench: Box<Bench>) {
    let busy = |name: &str| format!("echo $$ > {name}; while :; do :; done");
    // A child, a grandchild that forked twice into a session of its own, and the command itself.
    let script = format!(
        "(setsid sh -c '{}' &); sh -c '{}' & {}",
        busy("far"),
        busy("near"),
        busy("main")
    );
    let mut process = bench.start(&script).await;
    let mut pids = Vec::new();
    for name in ["far", "near", "main"] {
        pids.push(bench.pid(name).await);
    }

    let used = || {
        pids.iter()
            .map(|pid| (ticks(*pid), used_ns(*pid)))
            .collect::<Vec<_>>()
    };
    let then = used();
    until(|| used().iter().zip(&then).all(|(now, then)| now.1 > then.1)).await;
    freeze(&mut process).await;

    let frozen = used();
    // The time over which it is measured.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(used(), frozen);
    process.order(ProcessOrder::Thaw);
    until(|| used().iter().zip(&frozen).all(|(now, then)| now.1 > then.1)).await;
    kill(&mut process).await;

    assert!(!pids.into_iter().any(alive));
}

async fn a_tree_that_grows_while_it_is_frozen_is_frozen_whole(bench: Box<Bench>) {
    // Each process lives for a moment and leaves another, in a session of its own: there is always
    // one being born.
    fs::write(
        bench.dir.path().join("grow"),
        "echo $$ >> all\nsetsid sh ./grow &\nsetsid sh -c : &\n",
    )
    .unwrap();

    let mut process = bench
        .start("for i in 1 2 3 4; do sh ./grow & done; sleep 600")
        .await;
    let all = bench.dir.path().join("all");
    let births = || fs::read_to_string(&all).map_or(0, |text| text.lines().count());
    until(|| births() > 50).await;

    for _ in 0..10 {
        freeze(&mut process).await;
        let then = births();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(births(), then);
        process.order(ProcessOrder::Thaw);
        until(|| births() > then).await;
    }

    kill(&mut process).await;

    let then = births();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(births(), then);
}

async fn a_process_whose_first_thread_has_ended_is_frozen_and_killed(bench: Box<Bench>) {
    // Python's first thread ends by the bare system call `exit`, which leaves the process to the other one.
    let busy = "import ctypes, os, threading\n\
        def work():\n    while True: pass\n\
        threading.Thread(target=work).start()\n\
        print(os.getpid(), file=open('a', 'w'), flush=True)\n\
        ctypes.CDLL(None).syscall(60, 0)\n";
    fs::write(bench.dir.path().join("busy.py"), busy).unwrap();
    let mut process = bench.start("setsid /usr/bin/python3 busy.py & wait").await;
    let pid = bench.pid("a").await;
    until(|| stat(pid).is_none()).await;
    let then = used_ns(pid);
    until(|| used_ns(pid) > then).await;

    freeze(&mut process).await;
    let frozen = used_ns(pid);
    // What is stopped stays stopped: no later moment can be different.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(used_ns(pid), frozen);
    process.order(ProcessOrder::Thaw);
    until(|| used_ns(pid) > frozen).await;

    kill(&mut process).await;
    assert!(!Path::new(&format!("/proc/{pid}/task")).exists());
}

async fn a_frozen_tree_tells_how_much_memory_it_holds(bench: Box<Bench>) {
    const HELD: u64 = 64 << 20;
    // The memory is that of a shell which then forks: both have the same pages, which count once.
    let script =
        format!("x=$(head -c {HELD} /dev/zero | tr '\\0' x); (echo > held; sleep 600; :) & wait");
    let held = bench.dir.path().join("held");
    for memory in [None, Some(1 << 30)] {
        let mut launch = bench.describe(&["sh", "-c", &script]);
        launch.limits.memory = memory;
        let mut process = bench.launcher.launch(&launch, false, false).await.unwrap();
        until(|| held.exists()).await;
        freeze(&mut process).await;

        assert!(process.measure());
        let report = within(process.report()).await;
        // A control group may count the last pages late, and a shell may take a multiple of what it keeps.
        let told = HELD - (4 << 20)..16 * HELD;
        assert!(
            matches!(report, WatcherReport::Holds(Some(bytes)) if told.contains(&bytes)),
            "{report:?}, with the limit {memory:?}"
        );

        kill(&mut process).await;
        fs::remove_file(&held).unwrap();
    }
}

async fn tasks_run_at_the_lowest_priority_and_their_watcher_does_not(bench: Box<Bench>) {
    let mut process = bench
        .start("echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done")
        .await;
    let pid = bench.pid("pid").await;
    let nice = 16;
    let policy = 38;

    until(|| stat(pid).unwrap()[nice] == "19").await;
    assert_eq!(stat(pid).unwrap()[policy], "5", "SCHED_IDLE");
    assert_eq!(
        fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap(),
        "1000\n"
    );

    let watcher = stat(parent(pid)).unwrap();
    let worker = stat(std::process::id() as i32).unwrap();
    let priority = |fields: &[String]| (fields[nice].clone(), fields[policy].clone());
    assert_eq!(
        priority(&watcher),
        priority(&worker),
        "it has to freeze tasks on a busy host"
    );
    fs::write(bench.dir.path().join("go"), "").unwrap();
    assert_eq!(status(&mut process).await, ProcessStatus::Exited(0));
}

/// The control group that says how much processor time a process gets, if this way of freezing has
/// one.
fn processor_group(bench: &Bench, pid: i32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let controllers = |line: &&str| {
        line.split(':')
            .nth(1)
            .map(str::to_owned)
            .unwrap_or_default()
    };
    let old = groups.lines().find(|line| {
        controllers(line)
            .split(',')
            .any(|controller| controller == "cpu")
    });
    let unified = || {
        groups
            .lines()
            .find(|line| controllers(line).is_empty() && bench.way == Freezer::Cgroup2)
    };

    old.or_else(unified).map(str::to_owned)
}

async fn tasks_are_in_the_group_that_gets_what_processor_time_nobody_else_wants(bench: Box<Bench>) {
    if let Some(why) = bench.groups.0.why_no_processor() {
        return println!("  SKIPPED: {why}");
    }

    let mut process = bench
        .start("echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done")
        .await;
    let pid = bench.pid("pid").await;
    match processor_group(&bench, pid) {
        Some(group) => assert!(group.contains("/deskgrid-test-"), "{group}"),
        None => println!(
            "  SKIPPED: processor time is shared out in version 2 only, and this way does without"
        ),
    }

    fs::write(bench.dir.path().join("go"), "").unwrap();
    assert_eq!(status(&mut process).await, ProcessStatus::Exited(0));
}

async fn all_tasks_together_take_no_more_processor_time_than_their_limit(bench: Box<Bench>) {
    const PART: f64 = 0.1;
    if let Err(why) = bench.groups.0.throttle(PART) {
        return println!("  SKIPPED: {why}");
    }

    let spin = |name: &str| {
        format!("echo $$ > {name}; for i in 1 2; do while :; do :; done & done; exec sleep 600")
    };
    let began = Instant::now();
    let mut tasks = [
        bench.start(&spin("one")).await,
        bench.start(&spin("two")).await,
    ];

    if processor_group(&bench, bench.pid("one").await).is_none() {
        return println!(
            "  SKIPPED: processor time is limited in version 2 only, and this way does without"
        );
    }

    bench.pid("two").await;
    // Long enough for a processor without a limit to give them several times as much.
    tokio::time::sleep(Duration::from_secs(2)).await;

    let mut used_s = 0.0;
    for task in &mut tasks {
        task.order(ProcessOrder::Terminate);
        let WatcherReport::Ended { cpu, .. } = end(task).await else {
            panic!()
        };
        used_s += cpu.secs();
    }

    let processors = std::thread::available_parallelism().unwrap().get() as f64;
    // What is left of one period may be used at once.
    let most_s = PART * processors * (began.elapsed().as_secs_f64() + 0.2);
    assert!(
        used_s > 0.0 && used_s <= most_s,
        "{used_s} s were used, and {most_s} s are the limit"
    );
    bench.groups.0.throttle(1.0).unwrap();
}

/// What the killed worker of a test does.
async fn host_a_task(way: Freezer, key: &str, dir: &Path) {
    let grounds = Survey::make(key).grounds(way).unwrap();
    let launcher = Launcher::start(PathBuf::from("/proc/self/exe"), grounds).unwrap();
    let script =
        "setsid sh -c 'echo $$ > far; sleep 600' & echo $$ > near; trap '' TERM HUP; sleep 600";
    let launch = launch(&["sh", "-c", script], dir);
    let mut process = launcher.launch(&launch, false, false).await.unwrap();

    loop {
        tokio::select! {
            report = process.report() => match report {
                WatcherReport::Frozen => fs::write(dir.join("frozen"), "1\n").unwrap(),
                WatcherReport::Restless => {}
                _ => return,
            },
            () = tokio::time::sleep(Duration::from_millis(5)) => {
                if fs::remove_file(dir.join("freeze")).is_ok() {
                    process.order(ProcessOrder::Freeze);
                }
            }
        }
    }
}

/// Starts such a worker; its control groups go by this name.
fn host(bench: &Bench, key: &str) -> std::process::Child {
    let exe = std::env::current_exe().unwrap();
    let args = [HOST.to_owned(), bench.way.to_string(), key.to_owned()];
    std::process::Command::new(exe)
        .args(args)
        .arg(bench.dir.path())
        .spawn()
        .unwrap()
}

async fn tasks_left_frozen_by_a_killed_worker_end_with_the_next_one(bench: Box<Bench>) {
    let key = format!("left-{}", std::process::id());
    let mut host = host(&bench, &key);
    let near = bench.pid("near").await;
    let far = bench.pid("far").await;

    fs::write(bench.dir.path().join("freeze"), "").unwrap();
    bench.pid("frozen").await;

    let watcher = parent(near);
    let spawner = parent(watcher);

    // All that would end the tasks is killed before it can do so.
    for pid in [spawner, watcher] {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }

    host.kill().unwrap();
    host.wait().unwrap();
    kill_9(spawner);
    kill_9(watcher);
    until(|| !alive(spawner) && !alive(watcher)).await;
    assert!(alive(near) && alive(far));

    if bench.way == Freezer::Signals {
        // Without control groups nobody knows them any more: the kernel hands them to whoever is
        // left.
        [near, far].into_iter().for_each(kill_9);
    } else {
        drop(Groups::new(&key));
    }

    until(|| !alive(near) && !alive(far)).await;
    Groups::new(&key);
}

async fn tasks_die_with_a_killed_worker(bench: Box<Bench>) {
    let key = format!("host-{}", std::process::id());
    let mut host = host(&bench, &key);
    let near = bench.pid("near").await;
    let far = bench.pid("far").await;
    let watcher = parent(near);
    let spawner = parent(watcher);
    assert_eq!(parent(spawner), host.id() as i32);
    host.kill().unwrap();

    host.wait().unwrap();
    for pid in [near, far, watcher, spawner] {
        until(|| !alive(pid)).await;
    }

    Groups::new(&key);
}

async fn tasks_die_with_a_killed_watcher(bench: Box<Bench>) {
    let mut process = bench
        .start("setsid sh -c 'echo $$ > far; sleep 600' & echo $$ > near; sleep 600")
        .await;
    let mut other = bench.start("echo $$ > other; exec sleep 600").await;
    let near = bench.pid("near").await;
    let far = bench.pid("far").await;
    let spared = bench.pid("other").await;

    kill_9(parent(near));
    assert_eq!(status(&mut process).await, ProcessStatus::Signalled(9));
    until(|| !alive(near) && !alive(far)).await;
    assert!(alive(spared));
    other.order(ProcessOrder::Terminate);
    assert_eq!(status(&mut other).await, ProcessStatus::Signalled(15));
}

async fn a_killed_spawner_is_replaced(bench: Box<Bench>) {
    let mut process = bench
        .start("echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done; exit 5")
        .await;
    let spawner = parent(parent(bench.pid("pid").await));
    kill_9(spawner);
    until(|| !alive(spawner)).await;
    assert_eq!(
        status(&mut bench.start("exit 6").await).await,
        ProcessStatus::Exited(6)
    );
    fs::write(bench.dir.path().join("go"), "").unwrap();

    assert_eq!(
        status(&mut process).await,
        ProcessStatus::Exited(5),
        "what ran goes on"
    );
}

async fn no_descriptors_reach_the_task(bench: Box<Bench>) {
    let (text, _) = bench
        .output(&bench.describe(&["ls", "/proc/self/fd"]))
        .await;
    let fds: BTreeSet<&str> = text.lines().collect();
    // The fourth is the directory that `ls` reads.
    assert_eq!(fds, BTreeSet::from(["0", "1", "2", "3"]));
}

async fn limits_hold_for_the_task(mut bench: Box<Bench>) {
    let mut launch = bench.describe(&[
        "sh",
        "-c",
        "ulimit -v; ulimit -n; ulimit -c; head -c 100000 /dev/zero > file",
    ]);
    launch.limits = AttemptLimits {
        memory: Some(1 << 30),
        processes: None,
        file: Some(50_000),
        open_files: Some(32),
    };

    // Where memory is not limited for all processes together, it is for each.
    bench.launcher = Launcher::start(PathBuf::from("/proc/self/exe"), Grounds::default()).unwrap();
    let (text, report) = bench.output(&launch).await;
    assert_eq!(text, "1048576\n32\n0\n");
    assert!(
        !matches!(
            report,
            WatcherReport::Ended {
                status: ProcessStatus::Exited(0),
                ..
            }
        ),
        "{report:?}"
    );

    assert_eq!(
        fs::metadata(bench.dir.path().join("file")).unwrap().len(),
        50_000
    );
}
