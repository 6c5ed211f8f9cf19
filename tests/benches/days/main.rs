//! `cargo bench -p tests --bench days`: whether the live system is as fast as `simulate` says. The
//! real engines of master and workers serve the jobs of Kondo et al. 2004 (section 3.3) on generated
//! days of their platforms, and the simulator the same jobs on the same days, under three policies.
//! Means are those of starts that ended on both sides; it fails where some ended on one side alone.
//!
//! `-- STARTS` sets the number of starts in each cell (default 40, four a day).

use std::process::ExitCode;

use common::Span;
use simulator::experiment::{DaySource, Generated, HOSTS, JobSize, KONDO_JOBS, STARTS_S};
use simulator::experiment::{geometric_mean, in_parallel};
use simulator::world::{PreparedTrace, Run, Simulator};
use tests::chaos::days::{LiveOutcome, LiveRun, live};

/// The policies that are compared.
const POLICIES: [&str; 3] = ["deskgrid", "FCFS", "EXCL-PRED-TO"];
/// The platforms of Kondo et al. 2004 (section 3.2).
const PLATFORMS: [&str; 4] = ["sdsc", "gimps", "lri-wisc", "homogeneous"];
/// The starts on a day.
const STARTS_A_DAY: u32 = 4;
/// The cost of starting a task (Kondo et al. 2004, section 3.1).
const START_COST: Span = Span::from_secs(40);
/// The seed of platforms and days.
const SEED: u64 = 1;

/// The results of one start.
#[derive(Debug, Clone, Default)]
struct Pair {
    live: LiveOutcome,
    simulated_s: Option<f64>,
    simulated_attempts: u32,
}

/// A part of the work of a thread: one policy on one start of a day, with every size of job.
struct Portion {
    platform: &'static str,
    policy: &'static str,
    start: u32,
}

fn portion(portion: &Portion) -> Vec<Pair> {
    let day = simulator::experiment::FIRST_DAY + portion.start / STARTS_A_DAY;
    let source = Generated::named(portion.platform, "default", SEED, HOSTS).expect("a platform");
    let trace = source.day(day).expect("a day");
    let world = PreparedTrace::new(&trace).expect("clock rates that hosts have");
    let mut simulator = Simulator::default();

    let part = f64::from(portion.start % STARTS_A_DAY) + 0.5;
    let start_s = STARTS_S.0 + (STARTS_S.1 - STARTS_S.0) * part / f64::from(STARTS_A_DAY);
    let seed = SEED ^ u64::from(portion.start) << 32;
    let one = |JobSize { tasks, work_s }: &JobSize| {
        let live = live(&LiveRun {
            trace: &trace,
            start_s,
            tasks: *tasks,
            work_s: *work_s,
            policy: portion.policy,
            start_cost: START_COST,
            seed,
        });
        let simulated = simulator.run(
            &world,
            &Run {
                shuffle: Some(seed),
                ..Run::new(start_s, *tasks, *work_s, portion.policy)
            },
        );
        let simulated = simulated.expect("the policy exists");
        Pair {
            live: live.expect("the master does not fail"),
            simulated_s: simulated.makespan_s,
            simulated_attempts: simulated.launches,
        }
    };
    KONDO_JOBS.iter().map(one).collect()
}

/// The starts that had no end on the live side, and those that had none in the simulator.
fn unfinished(pairs: &[Pair]) -> (usize, usize) {
    let live = pairs.iter().filter(|pair| pair.live.makespan_s.is_none());
    let simulated = pairs.iter().filter(|pair| pair.simulated_s.is_none());
    (live.count(), simulated.count())
}

/// The starts that ended on one side alone.
fn lopsided(pairs: &[Pair]) -> usize {
    let one = |pair: &&Pair| pair.live.makespan_s.is_some() != pair.simulated_s.is_some();
    pairs.iter().filter(one).count()
}

/// The part of the intervals that held, of those made at this time of the jobs.
fn held(pairs: &[Pair], at: usize) -> (usize, usize) {
    let made = pairs.iter().filter_map(|pair| {
        let (low_s, high_s) = pair.live.intervals_s[at]?;
        let makespan_s = pair.live.makespan_s?;
        Some((low_s..=high_s).contains(&makespan_s))
    });
    let made: Vec<bool> = made.collect();
    (made.iter().filter(|held| **held).count(), made.len())
}

fn main() -> ExitCode {
    let asked = std::env::args().filter_map(|arg| arg.parse().ok()).next();
    let starts: u32 = asked.unwrap_or(40);
    let mut portions = Vec::new();
    for policy in POLICIES {
        for platform in PLATFORMS {
            portions.extend((0..starts).map(|start| Portion {
                platform,
                policy,
                start,
            }));
        }
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let done = in_parallel(threads, &portions, portion);

    println!("{starts} starts a cell, {HOSTS} hosts; mean makespans in seconds\n");
    println!(
        "| policy | platform | tasks | minutes | live | simulated | ratio | attempts | simulated | unfinished | simulated |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut alone = 0;
    for (place, policy) in POLICIES.iter().enumerate() {
        let mut ratios = Vec::new();
        let mut all: Vec<Pair> = Vec::new();
        for (at, platform) in PLATFORMS.iter().enumerate() {
            let first = (place * PLATFORMS.len() + at) * starts as usize;
            for (job, size) in KONDO_JOBS.iter().enumerate() {
                let pairs: Vec<Pair> = done[first..first + starts as usize]
                    .iter()
                    .map(|pairs| pairs[job].clone())
                    .collect();
                ratios.push(row(policy, platform, *size, &pairs));
                all.extend(pairs);
            }
        }

        let worst = ratios
            .iter()
            .map(|ratio| ratio.max(1.0 / ratio))
            .fold(1.0, f64::max);
        println!(
            "\n{policy}: live over simulated, geometric mean {:.3}, the farthest cell off by {:.3}",
            geometric_mean(ratios).unwrap_or(f64::NAN),
            worst
        );
        let one_side = lopsided(&all);
        alone += one_side;
        println!(
            "{policy}: {one_side} of {} starts ended on one side alone",
            all.len()
        );
        for (at, part) in ["10 %", "50 %", "90 %"].iter().enumerate() {
            let (held, made) = held(&all, at);
            println!(
                "{policy}: at {part} of the tasks, {held} of {made} live intervals of 80 % held"
            );
        }
        println!();
    }

    if alone > 0 {
        eprintln!(
            "error: {alone} starts ended on one side alone, and are in no mean: one of them hangs there, or the day was too short"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Prints a cell, and returns the mean live makespan over the mean simulated one.
fn row(policy: &str, platform: &str, size: JobSize, pairs: &[Pair]) -> f64 {
    let both = pairs
        .iter()
        .filter_map(|pair| Some((pair.live.makespan_s?, pair.simulated_s?)));
    let both: Vec<(f64, f64)> = both.collect();
    let count = both.len() as f64;
    let live_s = both.iter().map(|(live_s, _)| live_s).sum::<f64>() / count;
    let simulated_s = both.iter().map(|(_, simulated_s)| simulated_s).sum::<f64>() / count;
    let attempts = pairs.iter().map(|pair| f64::from(pair.live.attempts));
    let simulated = pairs.iter().map(|pair| f64::from(pair.simulated_attempts));
    let all = pairs.len() as f64;
    let (live_open, simulated_open) = unfinished(pairs);

    println!(
        "| {policy} | {platform} | {} | {:.0} | {live_s:.0} | {simulated_s:.0} | {:.3} | {:.1} | {:.1} | {live_open} | {simulated_open} |",
        size.tasks,
        size.work_s / 60.0,
        live_s / simulated_s,
        attempts.sum::<f64>() / all,
        simulated.sum::<f64>() / all,
    );
    live_s / simulated_s
}
