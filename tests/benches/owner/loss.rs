//! How much a busy program of the owner loses while tasks run: one on each processor, with the
//! tasks frozen and with the tasks running, in turns.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use tests::{Grid, eventually};

use super::quantile;
use super::task::{PROCESSES, Process, TASK};

/// One measurement.
const SLICE: Duration = Duration::from_secs(3);
/// Steps of a unit of work: some milliseconds.
const STEPS: u64 = 4_000_000;

/// Nothing looks for the owner: the tasks are to run beside his program.
const SETTINGS: &str = "[sensors]\nevdev = \"off\"\nlogind = \"off\"\nx11 = \"off\"\nload = \"off\"\nmemory = \"off\"\npower = \"off\"\n";

/// What one program got done in one slice.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    units: f64,
    cpu_s: f64,
    wall_s: f64,
}

/// Measures and prints.
pub(super) fn measure(rounds: u32) {
    let processors = sched_getaffinity(None).expect("a process may run somewhere");
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| processors.is_set(*cpu))
        .collect();
    let mut grid = Grid::start();
    grid.worker("pc")
        .slots(processors.len() as u32)
        .config(SETTINGS)
        .start();

    let program = std::env::current_exe().expect("this program has a path");
    let input = format!("{}:busy", program.display());
    grid.submit([
        "--array",
        &format!("1-{}", processors.len()),
        "--input",
        &input,
        "--",
        "./busy",
        TASK,
    ]);

    let mark = grid.dir().to_string_lossy().into_owned();
    let switch = grid.state("pc").join("worker").join("pause");
    let tasks = processors.len() * PROCESSES;
    as_wanted(&mark, tasks, false);

    let mut by_wall = Vec::new();
    let mut by_cpu = Vec::new();
    for round in 1..=rounds {
        // A B B A: what changes steadily on the machine falls on both alike.
        let [alone, beside] = if round % 2 == 1 {
            let alone = slice(&mark, tasks, &switch, true, &processors);
            [alone, slice(&mark, tasks, &switch, false, &processors)]
        } else {
            let beside = slice(&mark, tasks, &switch, false, &processors);
            [slice(&mark, tasks, &switch, true, &processors), beside]
        };

        let rate = |done: Done| done.units / done.wall_s;
        let cost = |done: Done| done.cpu_s / done.units;
        by_wall.push((1.0 - rate(beside) / rate(alone)) * 100.0);
        by_cpu.push((cost(beside) / cost(alone) - 1.0) * 100.0);
        eprintln!(
            "round {round} of {rounds}: {:.2} % by wall, {:.2} % by processor time",
            by_wall[by_wall.len() - 1],
            by_cpu[by_cpu.len() - 1]
        );
    }

    for (what, mut loss) in [
        ("less work in the same time", by_wall),
        ("more processor time for the same work", by_cpu),
    ] {
        loss.sort_by(f64::total_cmp);
        let at = |share| quantile(&loss, share);
        println!(
            "owner's program on each of {} processors beside {tasks} busy processes of tasks, {rounds} rounds: {:.2} % {what} \
             (quartiles {:.2} and {:.2}, all {:.2} to {:.2})",
            processors.len(),
            at(0.5),
            at(0.25),
            at(0.75),
            at(0.0),
            at(1.0)
        );
    }
}

/// Waits until every process of every task is there, and frozen or running.
fn as_wanted(mark: &str, tasks: usize, frozen: bool) {
    eventually("the tasks are as wanted", Duration::from_secs(120), || {
        let all = Process::all(mark);
        (all.len() == tasks && all.iter().all(|process| process.at_rest() == frozen)).then_some(())
    });
}

/// The owner's programs for one slice, once the tasks are frozen or running as wanted.
fn slice(mark: &str, tasks: usize, switch: &Path, frozen: bool, processors: &[usize]) -> Done {
    let set = if frozen {
        fs::write(switch, "")
    } else {
        fs::remove_file(switch).or(Ok(()))
    };
    set.unwrap_or_else(|error: std::io::Error| panic!("{}: {error}", switch.display()));
    as_wanted(mark, tasks, frozen);

    let programs: Vec<_> = processors
        .iter()
        .map(|cpu| {
            std::thread::spawn({
                let cpu = *cpu;
                move || work(cpu)
            })
        })
        .collect();
    programs
        .into_iter()
        .map(|program| program.join().expect("a program works"))
        .fold(Done::default(), |sum, done| Done {
            units: sum.units + done.units,
            cpu_s: sum.cpu_s + done.cpu_s,
            wall_s: sum.wall_s + done.wall_s,
        })
}

fn work(cpu: usize) -> Done {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).expect("a program may choose its processor");

    let start = Instant::now();
    let used = thread_cpu_s();
    let mut units = 0.0;
    let mut number = 1u64;

    while start.elapsed() < SLICE {
        for step in 0..STEPS {
            number = black_box(
                number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(step),
            );
        }
        units += 1.0;
    }

    Done {
        units,
        cpu_s: thread_cpu_s() - used,
        wall_s: start.elapsed().as_secs_f64(),
    }
}

fn thread_cpu_s() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
