//! One large input to one host and to eight over a master's line of 100 Mbit/s, with and without
//! hosts that pass it on: `cargo bench -p tests --bench spread`, or with `-- --mb 50 --rounds 1`.
//! Prints the table of BENCHMARKS.md. The line is a relay of this program's on loopback
//! (`line`); between hosts is loopback itself. Measures the programs in `DESKGRID_BIN_DIR` where
//! that is set, else builds and measures the release.

mod line;

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use line::Line;
use rand::Rng;
use tests::{Grid, argument, spread};

/// The master's line, in bytes a second: 100 Mbit/s.
const LINE: f64 = 12.5e6;
/// The hosts of a large job.
const HOSTS: usize = 8;

/// A grid whose hosts reach their master through a line.
struct Office {
    grid: Grid,
    line: Line,
}

impl Office {
    fn open(config: &str) -> Self {
        let mut grid = Grid::with_master(config);
        let master: SocketAddr = grid.listen().parse().expect("an address");
        let line = Line::to(master, LINE);
        let address = line.address().to_string();
        for n in 1..=HOSTS {
            // With the usual settings, at most 62.5 MB/s from each host to the others.
            let worker = grid.worker(&format!("h{n}")).via(&address);
            worker.dedicated().start();
        }
        Self { grid, line }
    }

    /// Lets so many hosts at once have this as an input. Returns the seconds until all have it, and
    /// the bytes that came over the line.
    fn spread(&self, flag: &str, what: &Path, hosts: usize) -> (f64, u64) {
        let before = self.line.passed();
        let input = format!("{}:in", what.display());
        let width = hosts.to_string();
        let words = ["--width", &width, flag, &input, "--", "true"];
        let job = self.grid.submit(words);
        let began = Instant::now();
        // No single command may take as long as the slowest way.
        let waited = ["job", "wait", &job, "--timeout", "60s"];
        let done = (0..20).any(|_| self.grid.deskgrid(waited).code == 0);
        assert!(done, "not all hosts have it after twenty minutes");
        (began.elapsed().as_secs_f64(), self.line.passed() - before)
    }
}

fn main() {
    let mb: usize = argument("--mb", 200);
    let files: usize = argument("--files", 6_003);
    let rounds: usize = argument("--rounds", 3);
    tests::build_release();

    let with = Office::open("");
    let without = Office::open("peer_transfer = false\n");
    let dir = tempfile::tempdir().expect("a temporary directory");
    println!("{mb} MB, {rounds} rounds: medians, with the least and the most\n");
    println!("| input | to | s | times the file over the line |\n|---|---|---|---|");
    for (input, flag) in [("a file", "--input"), ("a tree", "--input-tree")] {
        let cases = [
            ("1 host", &with, 1),
            ("8 hosts, which pass it on", &with, HOSTS),
            ("8 hosts, each from the master", &without, HOSTS),
        ];
        for (to, office, hosts) in cases {
            let mut seconds = Vec::new();
            let mut copies = Vec::new();
            for _ in 0..rounds {
                let what = dir.path().join(format!("{:x}", rand::random::<u64>()));
                match flag {
                    "--input" => random_file(&what, mb * 1_000_000),
                    _ => random_tree(&what, mb * 1_000_000, files),
                }
                let (took, passed) = office.spread(flag, &what, hosts);
                seconds.push(took);
                copies.push(passed as f64 / (mb as f64 * 1e6));
                eprintln!("{input}, {to}: {took:.1} s");
                std::fs::remove_file(&what)
                    .or_else(|_| std::fs::remove_dir_all(&what))
                    .expect("it can be removed");
            }
            println!(
                "| {input} | {to} | {} | {} |",
                spread(&seconds, 1),
                spread(&copies, 1)
            );
        }
    }
}

fn random_file(path: &Path, bytes: usize) {
    let mut file = File::create(path).expect("a file can be made");
    let mut random = rand::rng();
    let mut piece = vec![0; 1_000_000.min(bytes)];
    let mut left = bytes;
    while left > 0 {
        let some = left.min(piece.len());
        random.fill_bytes(&mut piece[..some]);
        file.write_all(&piece[..some]).expect("it can be written");
        left -= some;
    }
}

/// Makes files of one size in directories of a hundred.
fn random_tree(path: &Path, bytes: usize, files: usize) {
    for n in 0..files {
        let dir = path.join((n / 100).to_string());
        std::fs::create_dir_all(&dir).expect("a directory can be made");
        random_file(&dir.join(n.to_string()), bytes / files);
    }
}
