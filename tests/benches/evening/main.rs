//! How well starts and ends of jobs are predicted to their users: drawn bags of short tasks come to a
//! master with three workers for some minutes, each round on a grid that knows nothing yet:
//! `cargo bench -p tests --bench evening`, or with `-- --minutes 2 --rounds 1 --seed 5`. Prints the
//! table of BENCHMARKS.md. Measures the programs in `DESKGRID_BIN_DIR` where that is set, else builds
//! and measures the release. Needs `python3`, and a machine that does nothing else.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;
use tests::{Grid, argument};

const WORKERS: usize = 3;
/// The mean pause between two jobs.
const PAUSE_S: f64 = 6.0;
/// Computes for so many seconds of processor time.
const BURN: &str = "import sys, time\nwhile time.process_time() < float(sys.argv[1]): pass\n";
/// Waits for about so many seconds: each task for others, the same ones in each run.
const VARIED: &str = "import random, sys, time\n\
    random.seed(sys.argv[2])\n\
    time.sleep(float(sys.argv[1]) * random.lognormvariate(0, .6))\n";

/// The quality of one round's predictions of one kind.
struct RoundQuality {
    number: usize,
    held: usize,
    median_error_s: f64,
    correlation: f64,
}

fn main() {
    let time = Duration::from_secs_f64(60.0 * argument("--minutes", 7.0_f64));
    let rounds: u64 = argument("--rounds", 3);
    let seed: u64 = argument("--seed", 1);
    tests::build_release();

    println!(
        "| jobs | predicted | held, of 80 % | median error | correlation |\n|---|---|---|---|---|"
    );
    let mut starts = Vec::new();
    let mut ends = Vec::new();
    for round in 0..rounds {
        let mut grid = Grid::with_master("");
        for n in 1..=WORKERS {
            grid.worker(&format!("pc{n}")).slots(1).dedicated().start();
        }

        let jobs = spend(&grid, &mut StdRng::seed_from_u64(seed + round), time);
        let said = grid.json(["predict", "accuracy", "--scatter"]);
        for (kind, all) in [("first start", &mut starts), ("job's end", &mut ends)] {
            let judged = judge(&said, kind);
            println!("| {jobs} | {kind} | {judged}");
            all.push(judged);
        }
    }

    for (kind, all) in [("starts", starts), ("ends", ends)] {
        let number: usize = all.iter().map(|one| one.number).sum();
        let held: usize = all.iter().map(|one| one.held).sum();
        let part = 100.0 * held as f64 / number.max(1) as f64;
        println!("| together | {kind} | {held} of {number}: {part:.0} % | | |");
    }
}

/// Submits drawn jobs for this long, waits for all of them, and returns how many they were.
fn spend(grid: &Grid, rng: &mut StdRng, time: Duration) -> usize {
    let script = |name: &str, text| grid.file(name, text).display().to_string();
    let burn = script("burn.py", BURN);
    let varied = script("varied.py", VARIED);
    let began = Instant::now();
    let mut jobs = 0;

    while began.elapsed() < time {
        let one_of =
            |rng: &mut StdRng, values: &[f64]| *values.choose(rng).expect("there are some");
        let size = one_of(rng, &[0.3, 1.0, 3.0, 6.0]);
        let tasks = one_of(rng, &[1.0, 1.0, 2.0, 6.0, 12.0]);
        let mut words = vec![
            "submit".to_owned(),
            "--array".to_owned(),
            format!("1-{tasks}"),
        ];
        if rng.random_bool(0.4) {
            // As good as people's: some too short, more too long.
            let estimate_s = size * one_of(rng, &[0.7, 1.0, 1.0, 2.0]);
            words.extend(["--estimate".to_owned(), format!("{estimate_s:.2}s")]);
        }

        let size = size.to_string();
        let shell = format!("sleep {size}; echo done");
        let same = format!("{jobs}-%{{TASK_ID}}");
        let command: &[&str] = match rng.random_range(0..4) {
            0 => &["sleep", &size],
            1 => &["python3", &burn, &size],
            2 => &["sh", "-c", &shell],
            _ => &["python3", &varied, &size, &same],
        };
        words.push("--".to_owned());
        words.extend(command.iter().map(|word| (*word).to_owned()));
        grid.deskgrid(&words).expect_code(0);
        jobs += 1;

        // The pauses of a Poisson process.
        let pause_s = -PAUSE_S * (1.0 - rng.random::<f64>()).ln();
        std::thread::sleep(Duration::from_secs_f64(pause_s));
    }

    let all_done = (0..30).any(|_| {
        let waited = grid.deskgrid(["job", "wait", "all", "--timeout", "30s"]);
        waited.code == 0
    });
    assert!(all_done, "not all jobs are done after a quarter of an hour");
    jobs
}

fn judge(said: &Value, kind: &str) -> RoundQuality {
    let all = said["predictors"].as_array();
    let one = all.and_then(|all| all.iter().find(|one| one["name"] == kind));
    let one = one.unwrap_or_else(|| panic!("nothing of {kind} was predicted: {said}"));
    let of = |field: &str| one[field].as_f64().expect("a number");
    let number = one["scatter"].as_array().map_or(0, Vec::len);
    RoundQuality {
        number,
        held: (of("coverage") * number as f64).round() as usize,
        median_error_s: of("median_error_s"),
        correlation: of("correlation"),
    }
}

impl std::fmt::Display for RoundQuality {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = 100.0 * self.held as f64 / self.number.max(1) as f64;
        write!(
            f,
            "{} of {}: {part:.0} % | {:.1} s | {:.2} |",
            self.held, self.number, self.median_error_s, self.correlation
        )
    }
}
