//! How long the report on Petrou et al. takes: makes it on all processors and says the seconds of each part. What is not
//! here: the report itself (`deskgrid reproduce petrou`).
//!
//! Run with `cargo run --release -p simulator --example petrou -- DIR [quick]`.

use std::path::PathBuf;
use std::time::Instant;

use simulator::report::petrou::{Study, reproduce};

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let out = PathBuf::from(words.next().unwrap_or_else(|| "petrou".to_owned()));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let study = if words.next().is_some() { Study::quick(1, threads) } else { Study::full(1, threads) };
    let start = Instant::now();
    let files = reproduce(&study, &mut |what| eprintln!("{:7.1} s  {what}", start.elapsed().as_secs_f64()));
    eprintln!("{:7.1} s  done", start.elapsed().as_secs_f64());
    std::fs::create_dir_all(&out)?;
    files.iter().try_for_each(|file| std::fs::write(out.join(&file.name), &file.text))
}
