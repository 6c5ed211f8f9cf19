//! What it costs to start a command, wait for its end and see that nothing of it is left: for each
//! way to freeze and each level of confinement that this machine has, in processor time of all
//! processes that take part, and in wall time.
//!
//! `cargo bench -p worker`. The ways are measured in turn, round by round, so that what else
//! happens on the machine hits all of them alike.
#![allow(clippy::unwrap_used)] // A benchmark's panic is its message.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::host::Confinement;
use rustix::time::{ClockId, clock_gettime};
use worker::os::{
    AttemptLimits, Confines, Freezer, Grounds, Launch, Launcher, Means, ProcessOrder,
    ProcessStatus, Survey, WatcherReport,
};

/// Rounds, and commands in each round of each way.
const ROUNDS: usize = 5;
const COMMANDS: usize = 300;
/// Of the system's clock for processes that have ended, in microseconds.
const TICK_US: f64 = 10_000.0;
/// Freezes of a busy tree in each way.
const FREEZES: usize = 100;
/// As many processes as the shipped configuration lets a task have.
const PROCESSES: u64 = 1_000;
/// An account that owns nothing.
const NOBODY: (u32, u32) = (65_534, 65_534);

fn main() {
    worker::spawner::main_if_asked();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure());
}

/// A way to start commands.
struct Way {
    name: String,
    /// None: no control groups at all.
    freezer: Option<Freezer>,
    confines: Confines,
    cpu_us: Vec<f64>,
    wall_us: Vec<f64>,
}

impl Way {
    fn new(name: String, freezer: Option<Freezer>, level: Confinement) -> Self {
        let account = (level > Confinement::Process).then_some(NOBODY);
        let confines = Confines {
            level,
            account,
            ..Confines::default()
        };

        Self {
            name,
            freezer,
            confines,
            cpu_us: Vec::new(),
            wall_us: Vec::new(),
        }
    }

    fn launcher(&self) -> Launcher {
        let survey = Survey::make(&format!("bench-{}", std::process::id()));
        let grounds = self
            .freezer
            .map_or_else(Grounds::default, |freezer| survey.grounds(freezer).unwrap());
        survey.narrow(&grounds);
        Launcher::start(PathBuf::from("/proc/self/exe"), grounds).unwrap()
    }

    fn launch(&self, dir: &Path, argv: &[&str]) -> Launch {
        let processes = self.freezer.map(|_| PROCESSES);
        Launch {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            dir: dir.as_os_str().to_owned(),
            stdin: None,
            processors: Vec::new(),
            limits: AttemptLimits {
                processes,
                ..AttemptLimits::default()
            },
            confines: self.confines.clone(),
        }
    }
}

/// What this machine can do; says what it cannot.
async fn ways(dir: &Path) -> Vec<Way> {
    let means = Means {
        account: NOBODY.0.to_string(),
        ..Means::default()
    };
    let abilities = worker::os::abilities(PathBuf::from("/proc/self/exe"), dir, &means)
        .await
        .unwrap();
    let mut ways = vec![Way::new(
        "`process`, no control groups".to_owned(),
        None,
        Confinement::Process,
    )];
    let mut best = None;

    for ability in abilities.freezers {
        match ability.missing {
            None => {
                best.get_or_insert(ability.what);
                let name = format!("`process`, freezer `{}`, processes counted", ability.what);
                ways.push(Way::new(name, Some(ability.what), Confinement::Process));
            }
            Some(why) => println!("no {}: {why}", ability.what),
        }
    }

    for ability in abilities
        .levels
        .into_iter()
        .filter(|ability| ability.what > Confinement::Process)
    {
        match ability.missing {
            None => ways.push(Way::new(
                format!("`{}`, the best freezer", ability.what),
                best,
                ability.what,
            )),
            Some(why) => println!("no {}: {why}", ability.what),
        }
    }

    ways
}

async fn measure() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();

    let mut ways = ways(dir.path()).await;
    for _ in 0..ROUNDS {
        for way in &mut ways {
            round(way, dir.path()).await;
        }
    }

    println!("| `true`, one after the other | CPU | wall |\n|---|---|---|");
    for way in &mut ways {
        println!(
            "| {} | {} | {} |",
            way.name,
            spread(&mut way.cpu_us, "µs"),
            spread(&mut way.wall_us, "µs")
        );
    }

    println!(
        "\n| from the order to freeze until four busy processes stand still | wall |\n|---|---|"
    );
    for way in ways
        .iter()
        .filter(|way| way.confines.level == Confinement::Process && way.freezer.is_some())
    {
        let mut times = freeze(way, dir.path()).await;
        let all = spread(&mut times, "ms");
        println!(
            "| {} | {all}, p99 {:.2} ms |",
            way.name,
            times[times.len() * 99 / 100]
        );
    }
}

/// Median, least and most.
fn spread(values: &mut [f64], unit: &str) -> String {
    values.sort_by(f64::total_cmp);
    let least = values[0];
    let most = values[values.len() - 1];
    format!(
        "{:.2} {unit} ({least:.2}–{most:.2})",
        values[values.len() / 2]
    )
}

/// Processor time of this process, and of those below it that have ended.
fn cpu_us() -> f64 {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let ticks = stat[stat.rfind(')').unwrap()..].split(' ').skip(14).take(2);
    let ended: f64 = ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum();
    own.tv_sec as f64 * 1e6 + own.tv_nsec as f64 / 1e3 + ended * TICK_US
}

async fn round(way: &mut Way, dir: &Path) {
    let dir = dir.join("attempt");
    let launcher = way.launcher();
    let cpu = cpu_us();
    let then = Instant::now();

    for _ in 0..COMMANDS {
        fs::create_dir(&dir).unwrap();
        let mut process = launcher
            .launch(&way.launch(&dir, &["true"]), false, false)
            .await
            .unwrap();
        match process.report().await {
            WatcherReport::Ended {
                status: ProcessStatus::Exited(0),
                ..
            } => {}
            other => panic!("{}: {other:?}", way.name),
        }

        fs::remove_dir(&dir).unwrap();
    }

    way.wall_us
        .push(then.elapsed().as_secs_f64() * 1e6 / COMMANDS as f64);

    // What the spawner and all below it used counts once it has ended.
    drop(launcher);
    way.cpu_us.push((cpu_us() - cpu) / COMMANDS as f64);
}

/// How long it takes, in milliseconds, until a tree of four busy processes stands still.
async fn freeze(way: &Way, dir: &Path) -> Vec<f64> {
    let script = "for i in 1 2 3; do (while :; do :; done) & done; while :; do :; done";
    let launcher = way.launcher();
    let mut process = launcher
        .launch(&way.launch(dir, &["sh", "-c", script]), false, false)
        .await
        .unwrap();
    let mut times = Vec::new();

    for _ in 0..FREEZES {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let asked = Instant::now();
        process.order(ProcessOrder::Freeze);
        assert_eq!(process.report().await, WatcherReport::Frozen);
        times.push(asked.elapsed().as_secs_f64() * 1e3);
        process.order(ProcessOrder::Thaw);
    }

    process.order(ProcessOrder::Kill);
    while process.report().await == WatcherReport::Frozen {}
    times
}
