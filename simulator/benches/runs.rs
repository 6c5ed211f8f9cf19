//! How fast the simulated world goes: runs of the paper's heuristics and of ours on 220 hosts, on
//! two threads, and completions of FCFS on 10,000 hosts. Prints rates, each the median of several
//! rounds with their spread.
//!
//! Run with `cargo bench -p simulator`, or `cargo bench -p simulator -- FCFS completions` for some
//! rows. It counts processor time of the threads, not wall time, so that what else runs on the
//! machine counts as little as possible: rates of runs are those of two threads that have a
//! processor each.

#[path = "../../scheduler/benches/clock/mod.rs"]
mod clock;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clock::clock;
use simulator::experiment::{Contender, DaySource, Generated, HOSTS, KONDO_JOBS};
use simulator::trace::{Segment, Trace, TracedHost};
use simulator::world::{PreparedTrace, Run, Simulator};

const SEED: u64 = 1;
const ROUNDS: usize = 5;
const THREADS: usize = 2;
/// The aims, in runs and in completions per second.
const AIM_HEURISTICS: f64 = 3_000.0;
const AIM_OURS: f64 = 300.0;
const AIM_COMPLETIONS: f64 = 1_000_000.0;

fn main() {
    // `cargo test --benches` runs this too: it should only be seen to work then.
    let whole = std::env::args().any(|arg| arg == "--bench");
    let (runs, ours, tasks) = if whole {
        (2_000, 200, 1_000_000)
    } else {
        (4, 1, 10_500)
    };
    println!(
        "400 tasks of 5 minutes on {HOSTS} hosts (sdsc), {THREADS} threads, median of {ROUNDS} rounds"
    );

    let source = Generated::named("sdsc", "default", SEED, HOSTS)
        .expect("a platform and a model that there are");
    let world = PreparedTrace::new(&source.day(101).expect("generated days are there"))
        .expect("clock rates that hosts have");
    for row in scheduler::catalogue().iter().filter(|row| wanted(row.name)) {
        let reports = row.reports().is_some();
        let (number, aim) = if reports {
            (ours, AIM_OURS)
        } else {
            (runs, AIM_HEURISTICS)
        };

        let who = [Contender::named(row.name)];
        let known = source
            .knowledge(if whole { 4 } else { 1 }, &KONDO_JOBS[..1], &who, THREADS)
            .expect("days");
        let rate = |_| {
            let spent = many(&world, number, |start_s| Run {
                watch: reports,
                experience: reports.then(|| known.of(&who[0])),
                shuffle: Some(start_s.to_bits()),
                ..Run::new(start_s, 400, 300.0, row.name)
            });
            number as f64 * THREADS as f64 / spent.as_secs_f64()
        };
        tell(row.name, (0..ROUNDS).map(rate).collect(), "runs/s", aim);
    }

    if wanted("completions") {
        completions(tasks);
    }
}

/// Whether this row is among those that were asked for; all are where none was.
fn wanted(name: &str) -> bool {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    asked.is_empty() || asked.iter().any(|asked| asked == name)
}

/// So many runs with different starts in business hours, on all threads; gives their processor time
/// together.
fn many<'a>(world: &PreparedTrace, number: usize, run: impl Fn(f64) -> Run<'a> + Sync) -> Duration {
    let next = AtomicUsize::new(0);
    let spent = Mutex::new(Duration::ZERO);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut simulator = Simulator::default();
                let began = clock();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= number {
                        *spent.lock().expect("no thread fails") += clock() - began;
                        return;
                    }
                    let start_s = 14_400.0 + 21_600.0 * at as f64 / number as f64;
                    let outcome = simulator
                        .run(world, &run(start_s))
                        .expect("a policy of the catalogue");
                    assert_eq!(outcome.completions_s.len(), 400, "a run was not finished");
                }
            });
        }
    });

    spent.into_inner().expect("no thread fails")
}

/// FCFS with so many tasks on 10,000 hosts that are always there.
fn completions(tasks: u32) {
    let always = Segment {
        start_s: 0.0,
        end_s: 1e9,
        up: true,
        cpu: 1.0,
    };

    let host = |n: u32| {
        TracedHost::new(
            format!("h{n}"),
            600.0 + f64::from(n * 7_919 % 2_400),
            vec![always],
        )
    };
    let world = PreparedTrace::new(&Trace {
        hosts: (0..10_000).map(host).collect(),
        ..Trace::default()
    })
    .expect("clock rates that hosts have");
    let mut simulator = Simulator::default();
    let rate = |_| {
        let began = clock();
        let outcome = simulator
            .run(&world, &Run::new(0.0, tasks, 300.0, "FCFS"))
            .expect("a policy of the catalogue");
        assert_eq!(
            outcome.completions_s.len(),
            tasks as usize,
            "a run was not finished"
        );
        f64::from(tasks) / (clock() - began).as_secs_f64()
    };

    println!("{tasks} tasks on 10,000 hosts, one thread");
    tell(
        "FCFS",
        (0..ROUNDS).map(rate).collect(),
        "completions/s",
        AIM_COMPLETIONS,
    );
}

/// Prints the median of the rounds, their least and most, and the aim.
fn tell(name: &str, mut rates: Vec<f64>, unit: &str, aim: f64) {
    rates.sort_by(f64::total_cmp);
    let least = rates[0];
    let middle = rates[rates.len() / 2];
    let most = rates[rates.len() - 1];
    println!("{name:14} {middle:>10.0} {unit} ({least:.0} to {most:.0}), aim {aim:.0}");
}
