//! Makespans on eight hosts of which one is disturbed: deskgrid with and without estimates, Dask and
//! HyperQueue, in turn, with real processes: `cargo bench -p tests --bench disturbed`, or with `-- --rounds
//! 3`, `-- 1s` (these tasks), `-- killed` (one disturbance), `-- dask` (one contender). Each
//! host has one slot and a network namespace of its own. Prints the makespan over (the least that is
//! possible under that very disturbance + 1 s). Needs root, `ip` and `nft`; installs Dask from PyPI.
//!
//! `-- history` keeps one grid of deskgrid's for all cases of a size of tasks. The first round teaches it and
//! is not counted: ask for `--rounds 2` or more.
//!
//! HyperQueue runs where `DESKGRID_HQ` names its program `hq`: its package on PyPI starts workers only
//! inside the server's own process, so that none of them can be killed, stopped or cut off alone.

mod contender;
mod dask;
mod hyperqueue;
mod network;
mod ours;
mod paced;
mod plan;
#[path = "../peers/python.rs"]
mod python;

use contender::{Contender, Ended, Intervals, STAGES};
use hyperqueue::HyperQueue;
use network::Network;
use ours::Ours;
use plan::{Case, DISTURBANCES, Disturbance, SIZES_S};

const CONTENDERS: [&str; 4] = ["deskgrid", "deskgrid, estimated", "dask", "hyperqueue"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if paced::is_asked(&args) {
        return paced::run(&args);
    }
    // `cargo test --benches` runs this too, and has no network of its own.
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    let rounds: u64 = tests::argument("--rounds", 1);
    let asked = |name: &str, all: &[String]| {
        let named = |arg: &String| all.contains(arg);
        !args.iter().any(named) || args.iter().any(|arg| arg == name)
    };
    let sizes: Vec<String> = SIZES_S.iter().map(named).collect();
    let kinds: Vec<String> = DISTURBANCES.iter().map(ToString::to_string).collect();
    let names = CONTENDERS.map(str::to_owned);
    let history = args.iter().any(|arg| arg == "history");
    assert!(
        !history || rounds > 1,
        "`history` counts from `--rounds 2` on"
    );
    let contenders: Vec<usize> = (0..CONTENDERS.len())
        .filter(|at| {
            let name = CONTENDERS[*at];
            let is_here = name != "hyperqueue" || HyperQueue::program().is_some();
            asked(name, &names) && is_here && (!history || is_ours(name))
        })
        .collect();

    if !Network::is_inside() {
        tests::build_release();
        // PyPI cannot be reached from inside. Why Dask is missing then stands in its rows.
        if asked("dask", &names) {
            let _ = python::python();
        }
        return Network::enter(&args);
    }

    let network = Network::lay();
    let mut ratios = vec![Vec::new(); CONTENDERS.len()];
    let mut intervals = vec![Vec::<Intervals>::new(); CONTENDERS.len()];
    println!(
        "| task | disturbance | least possible | contender | makespan | ratio | intervals, s from the end |"
    );
    println!("|---|---|---|---|---|---|---|");
    for size_s in SIZES_S.into_iter().filter(|s| asked(&named(s), &sizes)) {
        let mut runs: Vec<(usize, u64, Disturbance)> = Vec::new();
        for round in 0..rounds {
            for kind in DISTURBANCES {
                if asked(&kind.to_string(), &kinds) {
                    runs.extend(contenders.iter().map(|at| (*at, round, kind)));
                }
            }
        }
        if history {
            // One grid after the other: they would be at the same addresses.
            runs.sort_by_key(|(at, ..)| *at);
        }

        let mut grid: Option<(usize, Ours)> = None;
        for (at, round, kind) in runs {
            let name = CONTENDERS[at];
            let case = Case::draw(round, size_s, kind);
            grid = grid.filter(|(of, _)| history && *of == at);
            network.heal();
            let (ended, found) = if is_ours(name) {
                let start = || (at, Ours::start(&network, name.ends_with("estimated")));
                let (_, ours) = grid.get_or_insert_with(start);
                ours.heal(&network);
                contender::run(ours, &case, &network)
            } else {
                run(name, &case, &network)
            };

            print_row(&case, name, &ended, &found);
            if !history || round > 0 {
                ratios[at].push(case.ratio(&ended));
                intervals[at].push(found);
            }
        }
    }

    println!("\n| contender | runs | median | worst |\n|---|---|---|---|");
    for (name, mut ratios) in CONTENDERS.into_iter().zip(ratios) {
        ratios.sort_by(f64::total_cmp);
        if let Some(worst) = ratios.last() {
            let median = ratios[ratios.len() / 2];
            println!("| {name} | {} | {median:.2} | {worst:.2} |", ratios.len());
        }
    }
    print_intervals(&intervals);
}

/// Prints how many of the predicted intervals held.
fn print_intervals(intervals: &[Vec<Intervals>]) {
    println!("\n| contender | done | intervals of 80 % | held |\n|---|---|---|---|");
    for (name, runs) in CONTENDERS.into_iter().zip(intervals) {
        for (at, stage) in STAGES.into_iter().enumerate() {
            let of_stage: Vec<(f64, f64)> = runs.iter().filter_map(|of| of[at]).collect();
            let held = of_stage
                .iter()
                .filter(|(low_s, high_s)| (*low_s..=*high_s).contains(&0.0))
                .count();
            if !of_stage.is_empty() {
                println!(
                    "| {name} | {:.0} % | {} | {held} |",
                    100.0 * stage,
                    of_stage.len()
                );
            }
        }
    }
}

/// Returns the word by which tasks of this size are asked for.
fn named(size_s: &f64) -> String {
    format!("{size_s}s")
}

/// Whether a contender of this name is a grid of deskgrid's.
fn is_ours(name: &str) -> bool {
    name.starts_with("deskgrid")
}

/// Runs the case with another program.
fn run(name: &str, case: &Case, network: &Network) -> (Ended, Intervals) {
    let mut contender: Box<dyn Contender + '_> = match name {
        "dask" => match dask::Dask::start(network) {
            Ok(dask) => Box::new(dask),
            Err(why) => return (Ended::Failed(why), Intervals::default()),
        },
        "hyperqueue" => {
            let program = HyperQueue::program().expect("it was looked at before");
            match HyperQueue::start(program, network) {
                Ok(all) => Box::new(all),
                Err(why) => return (Ended::Failed(why), Intervals::default()),
            }
        }
        _ => unreachable!("the contenders are listed"),
    };
    contender::run(contender.as_mut(), case, network)
}

fn print_row(case: &Case, name: &str, ended: &Ended, intervals: &Intervals) {
    let Case { size_s, kind, .. } = case;
    let at_s = case.at_s;
    let ratio = case.ratio(ended);
    let found = intervals.iter().flatten();
    let found: Vec<String> = found
        .map(|(low_s, high_s)| format!("{low_s:.1} to {high_s:.1}"))
        .collect();
    let found = found.join(", ");
    println!(
        "| {size_s} s | {kind} after {at_s:.1} s | {:.1} s | {name} | {ended} | {ratio:.2} | {found} |",
        case.least_s(),
    );
}
