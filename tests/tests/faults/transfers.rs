//! Files on their way over a long line: people are told how far they are, and what an interruption leaves.

use std::time::Duration;

use rustix::process::Signal;
use tests::{Grid, eventually};

use super::proxy::{Proxy, Weather};
use super::{seed, worker};

/// The user at the far end.
const FAR: &str = "remote";
/// Over a line on which an answer takes so long, QUIC needs more than five seconds for so many bytes.
const BYTES: usize = 2_000_000;

/// A grid whose user is at the end of a long line.
fn far_user(grid: &Grid) -> Proxy {
    let delay = Duration::from_millis(300);
    let weather = Weather {
        delay,
        ..Weather::FINE
    };
    let proxy = Proxy::new(grid.listen().parse().expect("an address"), weather, seed());
    let token = grid.token("client");
    let address = proxy.address();
    let login = [
        "login", "--master", &address, "--join", &token, "--name", FAR,
    ];
    grid.as_user(FAR, login).expect_code(0);
    proxy
}

/// Whether the master has received a part of a file.
fn has_begun(grid: &Grid) -> bool {
    let incoming = grid.state("admin").join("master/content/incoming");
    let parts = std::fs::read_dir(incoming).into_iter().flatten().flatten();
    parts
        .filter_map(|part| part.metadata().ok())
        .any(|part| part.len() > 0)
}

/// A line has told of a part of the bytes.
fn assert_partly(verb: &str, told: &str) {
    let parts = told.lines().filter_map(|line| {
        let (part, _) = line.strip_prefix(verb)?.split_once(" MB of 2.0 MB")?;
        part.parse::<f64>().ok()
    });
    let parts: Vec<f64> = parts.collect();
    assert!(parts.iter().any(|part| *part < 2.0), "{parts:?} in {told}");
}

#[test]
fn a_long_upload_and_a_long_download_say_how_far_they_are_and_an_interruption_what_it_leaves() {
    let mut grid = Grid::start();
    worker(&mut grid, "near", 1).start();
    let _line = far_user(&grid);
    let content: Vec<u8> = (0..BYTES).map(|at| (at * 7 / 5 + at / 251) as u8).collect();
    let file = grid.dir().join("large");
    std::fs::write(&file, &content).expect("a file can be written");
    let input = format!("{}:in", file.display());
    let submit = [
        "submit",
        "--input",
        &input,
        "--output-file",
        "out",
        "--",
        "cp",
        "in",
        "out",
    ];

    let upload = grid.background_as(FAR, submit);
    eventually("the upload has begun", Duration::from_secs(60), || {
        has_begun(&grid).then_some(())
    });
    upload.signal(Signal::INT);
    let told = upload.finish().expect_code(1).stderr;
    assert!(told.contains("nothing was submitted"), "{told}");
    assert!(told.contains("run the same command again"), "{told}");
    let jobs = ["--output", "json", "job", "list", "--all"];
    let jobs = grid.as_user(FAR, jobs).expect_code(0).json();
    assert_eq!(jobs["jobs"], serde_json::json!([]));

    let told = grid.as_user(FAR, submit).expect_code(0).stderr;
    assert_partly("sent ", &told);
    grid.as_user(FAR, ["job", "wait", "1", "--timeout", "60s"])
        .expect_code(0);

    let results = grid.dir().join("results");
    let fetch = [
        "job",
        "fetch",
        "1",
        "--into",
        results.to_str().expect("a path"),
    ];
    let told = grid.as_user(FAR, fetch).expect_code(0).stderr;
    assert_partly("fetched ", &told);
    let out = std::fs::read(results.join("out")).expect("the output");
    assert!(out == content, "the output is the input");
}
