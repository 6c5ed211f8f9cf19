//! Process trees on Windows: that nothing of an attempt is left, that a frozen one rests, and what
//! comes back of it. The commands are this same program, called for one of the parts below.
#![cfg(windows)]
#![allow(clippy::unwrap_used)] // A test's panic is its message.

#[path = "door/process.rs"]
mod door;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use door::{PATIENCE, end, printed, status, until, within};
use worker::os::{
    AttemptLimits, Confines, Grounds, Launch, Launcher, Process, ProcessOrder, ProcessStatus,
    WatcherReport,
};

/// Which part this program is to play as a command.
const PART: &str = "PART";

/// Not a test of its own: what the commands of the tests do.
#[test]
#[ignore = "played by the commands of the other tests"]
fn part() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    match &*part {
        "count" => count(),
        "parent" => {
            let child = me(&mut std::process::Command::new(
                std::env::current_exe().unwrap(),
            ))
            .env(PART, "count")
            .spawn();
            child.unwrap().wait().unwrap();
        }
        "leaver" => {
            me(&mut std::process::Command::new(
                std::env::current_exe().unwrap(),
            ))
            .env(PART, "count")
            .spawn()
            .unwrap();
            until_blocking(|| fs::exists("counter").unwrap());
            std::process::exit(7);
        }
        "speak" => {
            print!("said");
            eprint!("complained");
            let mut given = String::new();
            std::io::Read::read_to_string(&mut std::io::stdin(), &mut given).unwrap();
            fs::write("given", given).unwrap();
            let names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
            fs::write("environment", names.join(" ")).unwrap();
            std::process::exit(3);
        }
        "work" => {
            let mut number = 1_u64;
            for i in 0..200_000_000_u64 {
                number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + i);
            }
            fs::write("done", number.to_string()).unwrap();
            std::process::exit(0);
        }
        // As the worker that is killed.
        "host" => tokio::runtime::Runtime::new().unwrap().block_on(async {
            let dir = PathBuf::from(std::env::var_os("DIR").unwrap());
            let mut process = Launcher::start(PathBuf::new(), Grounds::default())
                .unwrap()
                .launch(&launch(&dir, "parent"), false, false)
                .await;
            end(process.as_mut().unwrap()).await;
        }),
        other => panic!("there is no part {other}"),
    }
}

/// Counts in a file, until it is killed.
fn count() {
    let mut file = fs::File::create("counter").unwrap();
    loop {
        file.write_all(b".").unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn me(command: &mut std::process::Command) -> &mut std::process::Command {
    command.args(ARGS)
}

const ARGS: [&str; 4] = ["part", "--exact", "--ignored", "--nocapture"];

fn launch(dir: &std::path::Path, part: &str) -> Launch {
    let exe = std::env::current_exe()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    Launch {
        argv: std::iter::once(exe)
            .chain(ARGS.map(str::to_owned))
            .collect(),
        env: vec![
            (PART.to_owned(), part.to_owned()),
            ("HOME".to_owned(), dir.to_str().unwrap().to_owned()),
        ],
        dir: dir.as_os_str().to_owned(),
        stdin: None,
        processors: Vec::new(),
        limits: AttemptLimits::default(),
        confines: Confines::default(),
    }
}

struct Bench {
    launcher: Launcher,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            launcher: Launcher::start(PathBuf::new(), Grounds::default()).unwrap(),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    async fn start(&self, part: &str) -> Process {
        self.launcher
            .launch(&launch(self.dir.path(), part), true, true)
            .await
            .unwrap()
    }

    fn counted(&self) -> u64 {
        fs::metadata(self.dir.path().join("counter")).map_or(0, |meta| meta.len())
    }

    /// Waits until the counter has gone on.
    async fn goes_on(&self) {
        let then = self.counted();
        until(|| self.counted() > then).await;
    }

    /// Waits until nothing has counted for a while.
    async fn comes_to_rest(&self) {
        let mut then = None;
        while then.replace(self.counted()) != Some(self.counted()) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Nothing counts any more: no later moment can be different, this one is only to catch what
    /// still does.
    async fn rests(&self) {
        let then = self.counted();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(self.counted(), then);
    }
}

fn until_blocking(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(
            Instant::now() < deadline,
            "what was waited for did not happen"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn exit_code_streams_input_and_environment_are_the_commands() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("in"), "some input").unwrap();

    let mut launch = launch(bench.dir.path(), "speak");
    launch.stdin = Some("in".to_owned());

    let mut process = bench.launcher.launch(&launch, true, true).await.unwrap();
    let (out, err) = printed(&mut process).await;
    assert_eq!(status(&mut process).await, ProcessStatus::Exited(3));
    assert!(
        out.ends_with("said") && err.ends_with("complained"),
        "{out} {err}"
    );
    assert_eq!(
        fs::read_to_string(bench.dir.path().join("given")).unwrap(),
        "some input"
    );

    let names = fs::read_to_string(bench.dir.path().join("environment"))
        .unwrap()
        .to_uppercase();
    assert!(
        names.contains("SYSTEMROOT") && names.contains("USERPROFILE"),
        "{names}"
    );
    assert!(
        !names.contains("CARGO"),
        "nothing of the worker's own: {names}"
    );
}

#[tokio::test]
async fn processor_time_comes_back() {
    let bench = Bench::new();
    let mut process = bench.start("work").await;
    let WatcherReport::Ended { status, cpu, .. } = end(&mut process).await else {
        panic!()
    };
    assert_eq!(status, ProcessStatus::Exited(0));
    assert!(cpu.secs() > 0.01 && cpu.secs() < 100.0, "{cpu}");
}

#[tokio::test]
async fn processes_left_by_a_command_end_with_it() {
    let bench = Bench::new();
    let mut process = bench.start("leaver").await;
    assert_eq!(status(&mut process).await, ProcessStatus::Exited(7));
    bench.rests().await;
}

#[tokio::test]
async fn a_report_that_was_given_up_is_asked_for_again_and_comes() {
    let bench = Bench::new();
    let mut process = bench.start("leaver").await;
    // The first looks end while what the command left is being killed.
    let report = within(async {
        loop {
            if let Ok(report) = tokio::time::timeout(Duration::ZERO, process.report()).await {
                return report;
            }
            tokio::task::yield_now().await;
        }
    });
    let WatcherReport::Ended { status, .. } = report.await else {
        panic!("it has run");
    };
    assert_eq!(status, ProcessStatus::Exited(7));
}

#[tokio::test]
async fn a_grandchild_is_killed_with_the_job() {
    for (order, expected) in [
        (ProcessOrder::Kill, ProcessStatus::Signalled(9)),
        (ProcessOrder::Terminate, ProcessStatus::Signalled(15)),
    ] {
        let bench = Bench::new();
        let mut process = bench.start("parent").await;
        bench.goes_on().await;
        process.order(order);
        assert_eq!(status(&mut process).await, expected);
        bench.rests().await;
    }
}

#[tokio::test]
async fn a_frozen_tree_does_nothing_until_it_is_thawed() {
    let bench = Bench::new();
    let mut process = bench.start("parent").await;
    bench.goes_on().await;

    for _ in 0..3 {
        process.order(ProcessOrder::Freeze);
        assert_eq!(within(process.report()).await, WatcherReport::Frozen);
        bench.rests().await;
        process.order(ProcessOrder::Thaw);
        bench.goes_on().await;
    }

    process.order(ProcessOrder::Freeze);
    assert_eq!(within(process.report()).await, WatcherReport::Frozen);
    process.order(ProcessOrder::Kill);
    assert_eq!(
        status(&mut process).await,
        ProcessStatus::Signalled(9),
        "a frozen tree can be killed as it is"
    );
    bench.rests().await;
}

#[tokio::test]
async fn of_many_orders_to_freeze_and_to_thaw_the_last_counts() {
    let bench = Bench::new();
    let process = bench.start("parent").await;
    bench.goes_on().await;

    for _ in 0..10 {
        for _ in 0..20 {
            process.order(ProcessOrder::Thaw);
            process.order(ProcessOrder::Freeze);
        }
        within(bench.comes_to_rest()).await;
        bench.rests().await;
        for _ in 0..20 {
            process.order(ProcessOrder::Freeze);
            process.order(ProcessOrder::Thaw);
        }
        bench.goes_on().await;
    }
}

#[tokio::test]
async fn an_attempt_that_nobody_holds_any_more_ends() {
    let bench = Bench::new();
    let process = bench.start("parent").await;
    bench.goes_on().await;
    drop(process);
    bench.rests().await;
}

#[tokio::test]
async fn tasks_die_with_a_killed_worker() {
    let bench = Bench::new();
    let mut host = std::process::Command::new(std::env::current_exe().unwrap());
    let mut host = me(&mut host)
        .env(PART, "host")
        .env("DIR", bench.dir.path())
        .spawn()
        .unwrap();
    bench.goes_on().await;
    host.kill().unwrap();
    host.wait().unwrap();
    bench.rests().await;
}

#[tokio::test]
async fn a_command_that_cannot_start_gives_the_reason() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("noise.exe"), "\x01\x02\x03").unwrap();
    for (program, words) in [
        (
            "no-such-program",
            r"`no-such-program` not found in PATH (C:\windows\system32)",
        ),
        ("noise", "say `./noise`"),
        ("./nothing", "`./nothing` does not exist below"),
        (r"C:\no\such\program", "does not exist on this host"),
        ("./noise", "not a program of this system"),
        ("", "the command is empty"),
    ] {
        let mut launch = launch(bench.dir.path(), "none");
        launch.argv = vec![program.to_owned()];
        launch
            .env
            .push(("PATH".to_owned(), r"C:\windows\system32".to_owned()));
        let mut process = bench.launcher.launch(&launch, false, false).await.unwrap();
        let report = end(&mut process).await;
        assert!(
            matches!(&report, WatcherReport::NotStarted(why) if why.contains(words)),
            "{program}: {report:?}"
        );
    }

    let mut launch = launch(bench.dir.path(), "none");
    launch.dir.push(r"\gone");

    let report = end(&mut bench.launcher.launch(&launch, false, false).await.unwrap()).await;
    assert!(
        matches!(&report, WatcherReport::NotStarted(why) if why.contains("directory")),
        "{report:?}"
    );
}

#[tokio::test]
async fn a_command_of_the_system_is_found_in_the_tasks_path() {
    let bench = Bench::new();
    let mut launch = launch(bench.dir.path(), "none");
    launch.argv = ["cmd", "/c", "echo here> file& exit 5"]
        .map(str::to_owned)
        .to_vec();
    launch
        .env
        .push(("PATH".to_owned(), r"C:\windows\system32".to_owned()));

    let mut process = bench.launcher.launch(&launch, true, false).await.unwrap();
    assert_eq!(status(&mut process).await, ProcessStatus::Exited(5));
    assert_eq!(
        fs::read_to_string(bench.dir.path().join("file"))
            .unwrap()
            .trim_end(),
        "here"
    );
}
