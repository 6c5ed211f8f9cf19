//! How makespans and costs grow with the number of hosts: one job on generated hosts under
//! deskgrid's own policy and under EXCL-PRED-TO, from 8 hosts to 100,000, with a tenth to ten times
//! as many tasks as hosts. Prints a table row for each: the makespan over the least possible one,
//! the copies per task, the processor time per completion, and the part of that which one task alone
//! costs on these hosts, over the completions: their coming.
//!
//! Run with `cargo bench -p simulator --bench scale`, or with `-- 1000 10000` for these numbers of
//! hosts, `-- x2` for these tasks per host, `-- sdsc` for these platforms, `-- deskgrid` for these
//! policies. It counts processor time of the thread, that of the simulated hosts included.

#[path = "../../scheduler/benches/clock/mod.rs"]
mod clock;

use clock::clock;
use simulator::experiment::{Contender, DaySource, Generated, HOSTS, Knowledge, geometric_mean};
use simulator::oracle::Oracle;
use simulator::trace::Trace;
use simulator::world::{PreparedTrace, Run, Simulator};

const SEED: u64 = 1;
const DAY: u32 = 101;
const WORK_S: f64 = 300.0;
/// The starts of jobs, in seconds since the begin of the day: from nine in the morning on. Of
/// grids with more hosts than `FEW` only one is measured.
const STARTS_S: [f64; 5] = [14_400.0, 18_000.0, 21_600.0, 25_200.0, 28_800.0];
const FEW: usize = 10_000;
const PLATFORMS: [&str; 4] = ["homogeneous", "sdsc", "lri-wisc", "internet-2016"];
const POLICIES: [&str; 2] = ["deskgrid", "EXCL-PRED-TO"];
const COUNTS: [usize; 7] = [8, 100, 220, 1_000, 3_000, 10_000, 100_000];
const TASKS_PER_HOST: [f64; 5] = [0.1, 0.5, 1.0, 2.0, 10.0];

fn main() {
    // `cargo test --benches` runs this too: it should only be seen to work then.
    let whole = std::env::args().any(|arg| arg == "--bench");
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let counts: &[usize] = if whole { &COUNTS } else { &COUNTS[..1] };
    let counts = chosen(counts, &asked, ToString::to_string);
    let crowds = chosen(&TASKS_PER_HOST, &asked, |crowd| format!("x{crowd}"));
    let policies = chosen(&POLICIES, &asked, |name| (*name).to_owned());

    println!(
        "| platform | hosts | tasks | policy | times optimal | copies per task | CPU per completion | of that the hosts' coming |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for platform in chosen(&PLATFORMS, &asked, |name| (*name).to_owned()) {
        let known = knowledge(platform, &policies);
        for hosts in &counts {
            let source = Generated::named(platform, "default", SEED, *hosts).expect("it is known");
            let trace = source.day(DAY).expect("generated days are there");
            let world = PreparedTrace::new(&trace).expect("clock rates that hosts have");
            for crowd in &crowds {
                let tasks = (*hosts as f64 * crowd).ceil().max(1.0) as u32;
                for policy in &policies {
                    let case = Case {
                        world: &world,
                        trace: &trace,
                        tasks,
                        policy,
                    };
                    println!(
                        "| {platform} | {hosts} | {tasks} | {policy} {}",
                        case.row(&known)
                    );
                }
            }
        }
    }
}

/// Returns the values that were asked for; all of them where none was.
fn chosen<T: Copy>(all: &[T], asked: &[String], name: impl Fn(&T) -> String) -> Vec<T> {
    let some: Vec<T> = all
        .iter()
        .filter(|value| asked.contains(&name(value)))
        .copied()
        .collect();
    if some.is_empty() { all.to_vec() } else { some }
}

/// Returns what schedulers learn from two days of a grid of the usual size.
fn knowledge(platform: &str, policies: &[&str]) -> Knowledge {
    let contenders: Vec<Contender> = policies.iter().map(|name| Contender::named(name)).collect();
    Generated::named(platform, "default", SEED, HOSTS)
        .expect("it is known")
        .knowledge(2, &[], &contenders, 1)
        .expect("days")
}

/// One job on one day.
struct Case<'a> {
    world: &'a PreparedTrace,
    trace: &'a Trace,
    tasks: u32,
    policy: &'a str,
}

impl Case<'_> {
    /// Runs it at each start and returns the rest of its row.
    fn row(&self, known: &Knowledge) -> String {
        let starts = if self.world.hosts() > FEW {
            &STARTS_S[..1]
        } else {
            &STARTS_S
        };
        let runs: Vec<Measured> = starts
            .iter()
            .map(|start_s| self.run(*start_s, known))
            .collect();

        let mean =
            |of: &dyn Fn(&Measured) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        let ratio = geometric_mean(runs.iter().filter_map(|run| run.ratio));
        let unfinished = runs.iter().filter(|run| run.ratio.is_none()).count();
        let note = if unfinished > 0 {
            format!(" ({unfinished} not done)")
        } else {
            String::new()
        };
        format!(
            "| {:.3}{note} | {:.3} | {:.0} µs | {:.0} µs |",
            ratio.unwrap_or(f64::NAN),
            mean(&|run| run.copies),
            mean(&|run| run.each_us),
            mean(&|run| run.coming_us)
        )
    }

    /// Runs it from this second of the day on.
    fn run(&self, start_s: f64, known: &Knowledge) -> Measured {
        let least_s = Oracle::new(self.trace, start_s, WORK_S, 40.0, 1).makespan_s(self.tasks);
        let timed = |tasks| {
            let run = Run {
                watch: self.policy == "deskgrid",
                experience: Some(known.of(&Contender::named(self.policy))),
                shuffle: Some(SEED),
                ..Run::new(start_s, tasks, WORK_S, self.policy)
            };
            let began = clock();
            let outcome = Simulator::default()
                .run(self.world, &run)
                .expect("a policy of the catalogue");
            (outcome, (clock() - began).as_secs_f64() * 1e6)
        };
        let (outcome, spent_us) = timed(self.tasks);
        let (_, alone_us) = timed(1);
        let completions = outcome.completions_s.len().max(1) as f64;

        Measured {
            ratio: outcome
                .makespan_s
                .zip(least_s)
                .map(|(took_s, least_s)| took_s / least_s),
            copies: f64::from(outcome.replicas) / f64::from(self.tasks),
            each_us: spent_us / completions,
            coming_us: alone_us / completions,
        }
    }
}

/// One run: its makespan over the least possible one, if it and that ended before the trace; its
/// copies per task; its processor time per completion, in microseconds, and that of a run of one task
/// over as many completions.
struct Measured {
    ratio: Option<f64>,
    copies: f64,
    each_us: f64,
    coming_us: f64,
}
