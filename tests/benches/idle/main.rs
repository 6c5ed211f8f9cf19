//! What an idle worker costs its owner: processor time and memory of the worker and its helper
//! process beside a master on loopback, over ten minutes, with the program that office PCs get and
//! with the whole one: `cargo bench -p tests --bench idle`, or with `-- --minutes 1`. Prints the rows
//! of BENCHMARKS.md. Measures the programs in `DESKGRID_BIN_DIR` where that is set, else builds and
//! measures the releases.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tests::Grid;

/// How long a worker that has just started is left alone.
const SETTLE: Duration = Duration::from_secs(15);
/// What an owner is promised, in parts of a processor and in bytes.
const MOST_CPU: f64 = 0.001;
const MOST_MEMORY: u64 = 20 << 20;

fn main() {
    let minutes = tests::argument("--minutes", 10.0);
    let time = Duration::from_secs_f64(60.0 * minutes);

    let small = small_program();
    let mut grid = Grid::with_master("");
    let workers = [
        ("deskgrid-worker", small.to_str().expect("UTF-8")),
        ("deskgrid", "deskgrid"),
    ];
    let pids = workers.map(|(name, program)| {
        grid.worker(name).slots(2).program(program).start();
        grid.running(name).pid()
    });
    std::thread::sleep(SETTLE);

    let before = pids.map(below);
    let began = Instant::now();
    eprintln!(
        "measuring for {time:?}, with {} processes on this machine",
        numbers().count()
    );
    std::thread::sleep(time);

    let after = pids.map(below);
    let passed = began.elapsed().as_secs_f64();
    println!("Over {passed:.0} s:\n");
    println!(
        "| program | process | processor time | part of a processor | resident | of that its own | threads |"
    );
    println!("|---|---|---|---|---|---|---|");

    let kept: Vec<bool> = workers
        .iter()
        .zip(before.iter().zip(&after))
        .map(|((program, _), (before, after))| tell(program, before, after, passed))
        .collect();
    println!(
        "\nPromised are {:.1} % and {}:",
        100.0 * MOST_CPU,
        mib(MOST_MEMORY)
    );
    for ((program, _), kept) in workers.iter().zip(kept) {
        let word = if kept { "kept" } else { "not kept" };
        println!("{word} by {program}");
    }
}

/// The program for PCs that only work, and the whole one beside this benchmark: built if need be.
fn small_program() -> PathBuf {
    tests::build_release();
    tests::build_worker()
}

/// Prints the rows of a program's processes, of which it is known what they had cost `before`.
/// Returns whether the promise is kept.
fn tell(
    program: &str,
    before: &BTreeMap<u32, Process>,
    after: &BTreeMap<u32, Process>,
    passed: f64,
) -> bool {
    let mut cpu_s = 0.0;
    let mut own = 0;
    let mut shared = 0;

    for (pid, process) in after {
        let used_s = process.cpu_s - before.get(pid).map_or(0.0, |process| process.cpu_s);
        cpu_s += used_s;
        own += process.own;
        shared = shared.max(process.resident - process.own.min(process.resident));
        let name = &process.name;
        let resident = mib(process.resident);
        println!(
            "| `{program}` | {name} | {used_s:.2} s | {:.3} % | {resident} | {} | {} |",
            100.0 * used_s / passed,
            mib(process.own),
            process.threads
        );
    }

    // All are the same program: what they share of its file is there once.
    let memory = own + shared;
    println!(
        "| | together | {cpu_s:.2} s | {:.3} % | {} | {} | |",
        100.0 * cpu_s / passed,
        mib(memory),
        mib(own)
    );
    cpu_s / passed <= MOST_CPU && memory <= MOST_MEMORY
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A process as the system shows it.
struct Process {
    name: String,
    parent: u32,
    /// In all its threads, and in children that it waited for.
    cpu_s: f64,
    /// In bytes.
    resident: u64,
    /// What no other process shares, in bytes.
    own: u64,
    threads: u64,
}

fn numbers() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process and everything below it.
fn below(top: u32) -> BTreeMap<u32, Process> {
    let mut all: BTreeMap<u32, Process> = numbers()
        .filter_map(|pid| Some((pid, process(pid)?)))
        .collect();
    let parents: BTreeMap<u32, u32> = all
        .iter()
        .map(|(pid, process)| (*pid, process.parent))
        .collect();
    all.retain(|pid, _| {
        std::iter::successors(Some(*pid), |pid| parents.get(pid).copied()).any(|pid| pid == top)
    });
    all
}

fn process(pid: u32) -> Option<Process> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let stat = read("stat")?;

    // The name, in parentheses, may hold anything; what follows it is numbers.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let ticks = number(11)? + number(12)? + number(13)? + number(14)?;
    let kib = |file: &str, what: &str| -> u64 {
        let text = read(file).unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            line.strip_prefix(what)?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        });
        lines.sum::<u64>() * 1024
    };
    let own = kib("smaps_rollup", "Private_Clean:") + kib("smaps_rollup", "Private_Dirty:");
    let words = read("cmdline").unwrap_or_default();
    let name = if words.contains("start") {
        "worker"
    } else {
        "spawner"
    };
    Some(Process {
        name: name.to_owned(),
        parent: u32::try_from(number(1)?).ok()?,
        cpu_s: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
        resident: kib("status", "VmRSS:"),
        own,
        threads: number(17)?,
    })
}
