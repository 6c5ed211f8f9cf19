//! One large file through deskgrid beside `cp`, a plain QUIC stream and `scp` of the same bytes, in
//! turn, on loopback: `cargo bench -p tests --bench transfer`, or with `-- --mb 300 --rounds 3`.
//! Prints the table of BENCHMARKS.md: megabytes a second, and the processor time of each process
//! for a megabyte. Measures the programs in `DESKGRID_BIN_DIR` where that is set, else builds and
//! measures the release. For `scp` it installs `sshd` where it may.

mod others;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rand::Rng;
use tests::{Grid, argument, spread};

const MB: f64 = 1e6;

/// The cost of one transfer: time on the clock, and processor time by process.
pub(crate) struct Cost {
    wall_s: f64,
    cpu_s: Vec<(&'static str, f64)>,
}

/// All costs of one kind of transfer.
#[derive(Default)]
struct Row {
    rates: Vec<f64>,
    cpu_ms: BTreeMap<&'static str, Vec<f64>>,
    failed: Option<String>,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if others::is_end(&args) {
        return;
    }
    let mb: usize = argument("--mb", 500);
    let rounds: usize = argument("--rounds", 5);

    tests::build_release();

    let mut grid = Grid::with_master("");
    // The first look of a worker at its machine takes ten seconds, in which it takes no task.
    grid.worker("bench").slots(1).start();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut rows = BTreeMap::<usize, (&'static str, Row)>::new();

    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        let file = dir.path().join("file");
        random_file(&file, mb);
        for (at, (name, measured)) in contenders(&mut grid, &file, dir.path())
            .into_iter()
            .enumerate()
        {
            let (_, row) = rows.entry(at).or_insert((name, Row::default()));
            match measured {
                Ok(cost) => row.add(&cost, mb as f64),
                Err(why) => row.failed = Some(why),
            }
        }
    }

    println!(
        "{mb} MB, {rounds} rounds: medians, with the least and the most\n\n\
         | transfer | MB/s | ms of processor time a MB |\n|---|---|---|"
    );
    for (name, row) in rows.values() {
        println!("| {name} | {} |", row.text());
    }
}

/// Measures every way once.
fn contenders(
    grid: &mut Grid,
    file: &Path,
    dir: &Path,
) -> Vec<(&'static str, Result<Cost, String>)> {
    let copy = dir.join("copy");
    let mut all = vec![
        ("`cp`", others::cp(file, &copy)),
        (
            "a plain QUIC stream, file to file",
            others::plain(file, &copy),
        ),
        ("`scp`", others::scp(file, &copy)),
    ];
    all.extend(deskgrid(grid, file, dir).map(|(name, cost)| (name, Ok(cost))));
    all
}

/// Submits the file as an input, lets a task copy it to its output, and fetches that.
fn deskgrid(grid: &mut Grid, file: &Path, dir: &Path) -> [(&'static str, Cost); 3] {
    let into = dir.join("fetched");
    let _ = fs::remove_dir_all(&into);
    let master = grid.master_pid();
    let worker = grid.running("bench").pid();

    let input = format!("{}:in.dat", file.display());
    // With three bytes more it is other content, which has to be sent as well.
    let other = "cp in.dat out.dat && printf end >> out.dat";
    let files = ["submit", "--input", &input, "--output-file", "out.dat"];
    let words = ["--", "sh", "-c", other];

    let upload = cost(&[("client", 0), ("master", master)], || {
        grid.deskgrid([&files[..], &words[..]].concat())
            .expect_code(0);
    });
    let run = cost(&[("master", master), ("worker", worker)], || {
        grid.deskgrid(["job", "wait", "last"]).expect_code(0);
    });
    let fetch = cost(&[("client", 0), ("master", master)], || {
        let into = into.to_string_lossy().into_owned();
        grid.deskgrid(["job", "fetch", "last", "--into", &into])
            .expect_code(0);
    });

    [
        ("deskgrid `submit --input`", upload),
        ("deskgrid, task: input to the worker, output back", run),
        ("deskgrid `job fetch`", fetch),
    ]
}

/// Runs `action` on a disk that has nothing left to do, and returns its cost: of these processes, and of this one's ended children where
/// the process is 0.
pub(crate) fn cost(of: &[(&'static str, u32)], action: impl FnOnce()) -> Cost {
    let spent = || -> Vec<f64> { of.iter().map(|(_, pid)| cpu_s(*pid)).collect() };
    rustix::fs::sync();
    let before = spent();
    let began = Instant::now();
    action();

    let wall_s = began.elapsed().as_secs_f64();
    let after = spent();
    let cpu_s = of
        .iter()
        .zip(before.iter().zip(after))
        .map(|((name, _), (before, after))| (*name, after - before));
    Cost {
        wall_s,
        cpu_s: cpu_s.collect(),
    }
}

/// Returns the processor time of a process; for 0, of the ended children of this one.
fn cpu_s(pid: u32) -> f64 {
    match pid {
        0 => tests::children_processor_s(std::process::id()),
        pid => tests::processor_s(pid),
    }
}

fn random_file(path: &PathBuf, mb: usize) {
    let mut file = File::create(path).expect("a file can be made");
    let mut random = rand::rng();
    let mut piece = vec![0; 1_000_000];
    for _ in 0..mb {
        random.fill_bytes(&mut piece);
        file.write_all(&piece).expect("the file can be written");
    }
    // So that nobody pays for it later.
    file.sync_all().expect("the file can be synced");
}

impl Row {
    fn add(&mut self, cost: &Cost, mb: f64) {
        self.rates.push(mb * 1e6 / MB / cost.wall_s);
        let all: f64 = cost.cpu_s.iter().map(|(_, s)| s).sum();
        let each = cost.cpu_s.iter().copied();
        for (name, s) in each.chain([("together", all)]) {
            self.cpu_ms.entry(name).or_default().push(1e3 * s / mb);
        }
    }

    fn text(&self) -> String {
        if let Some(why) = &self.failed {
            return format!("not measured: {why} | ");
        }

        let single = self.cpu_ms.len() == 2;
        let each: Vec<String> = self
            .cpu_ms
            .iter()
            .filter(|(name, _)| !single || **name != "together")
            .map(|(name, ms)| format!("{name} {}", spread(ms, 2)))
            .collect();
        format!("{} | {}", spread(&self.rates, 0), each.join(", "))
    }
}
