//! What `deskgrid reproduce downey` writes, with how long it took; for tuning, without building the whole program.
//!
//! `cargo run --release -p simulator --example downey -- DIR [RUNS] [DAYS] [LOG] [SEED]`, with 0 runs for the log alone.

use std::path::{Path, PathBuf};
use std::time::Instant;

use simulator::batch::{Log, foretell};
use simulator::report::downey::{Study, reproduce};

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, or: &str| given.get(at).cloned().unwrap_or_else(|| or.to_owned());
    let number = |at: usize, or: u32| word(at, &or.to_string()).parse::<u32>().expect("a number");
    let log = given.get(3).map(PathBuf::from).filter(|log| log.is_file());
    let start = Instant::now();
    let runs = number(1, 5);
    if runs == 0 {
        let log = Log::read(&log.expect("a log")).unwrap_or_else(|error| panic!("{error}"));
        for way in foretell(&log).ways {
            let (error, ratio) = (way.accuracy.median_error_s, way.accuracy.median_ratio);
            println!(
                "{:>14}: median error {error:.0} s, mean {:.0} s, held {:.3}, width {:.0} s, correlation {:.2}, ratio {ratio:.2}",
                way.name, way.mean_error_s, way.coverage, way.median_width_s, way.accuracy.correlation
            );
        }
    } else {
        let seed = u64::from(number(4, 1));
        let study = Study { runs, days: number(2, 120), log, ..Study::full(seed, 2) };
        let files = reproduce(&study, &mut |what| println!("{what}")).unwrap_or_else(|error| panic!("{error}"));
        let dir = word(0, "downey");
        std::fs::create_dir_all(&dir).expect("a directory");
        for file in files {
            std::fs::write(Path::new(&dir).join(file.name), file.text).expect("a file");
        }
    }
    println!("{:.1} s", start.elapsed().as_secs_f64());
}
