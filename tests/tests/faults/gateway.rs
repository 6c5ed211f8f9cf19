//! Workers behind gateways: their tasks end with the right results, inputs come once, who is revoked is
//! put out, and neither the death of a gateway nor that of a master costs an attempt.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::{Grid, Http, Started, eventually, free_addresses};

use super::worker;

/// The longest that anything here may take.
const LONG: Duration = Duration::from_secs(60);
/// A lease that does not run out within a test: what ends an attempt then is not its lease.
const MASTER: &str = "heartbeat = \"1s\"\nsuspect_after = \"30s\"\nlease = \"10m\"\n";

/// A gateway: its name, its address and its process.
struct Gateway {
    name: &'static str,
    address: String,
    process: Started,
}

impl Gateway {
    /// One that has joined this grid, and has a connection to its master.
    fn start(grid: &Grid, name: &'static str) -> Self {
        let (address, _) = free_addresses();
        let token = grid.token("gateway");
        let process = grid.server(
            name,
            [
                "gateway",
                "start",
                "--master",
                grid.listen(),
                "--join",
                &token,
                "--name",
                name,
                "--listen",
                &address,
            ],
        );
        let gateway = Self {
            name,
            address,
            process,
        };
        eventually("the gateway is connected", LONG, || {
            said(grid, name)
                .contains("connected to the master")
                .then_some(())
        });
        gateway
    }
}

fn said(grid: &Grid, who: &str) -> String {
    fs::read_to_string(grid.dir().join(format!("{who}.log"))).unwrap_or_default()
}

/// How often a worker was let in so far.
fn joins(grid: &Grid, who: &str) -> usize {
    said(grid, who).matches("joined the master").count()
}

fn audit(grid: &Grid) -> String {
    grid.as_user("admin", ["audit"]).expect_code(0).stdout
}

/// A number of the master's at `/metrics`.
fn number(grid: &Grid, name: &str) -> u64 {
    let text = Http::tcp(grid.http()).get("/metrics");
    let found = text
        .text()
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.unwrap_or(0)
}

/// Submits tasks that sleep for so long and then write a line each to a common file.
fn naps(grid: &Grid, tasks: u32, nap_s: f64) -> (String, PathBuf) {
    let file = grid.dir().join(format!("lines-{tasks}-{nap_s}"));
    let script = format!(
        "sleep {nap_s}; echo $DESKGRID_TASK_ID >> {}",
        file.display()
    );
    let array = format!("1-{tasks}");
    let job = grid.submit(["--array", &array, "--", "sh", "-c", &script]);
    (job, file)
}

/// Waits for a job of which each task must have run once, in one attempt.
fn expect_once(grid: &Grid, job: &str, tasks: usize, file: &Path) {
    grid.deskgrid(["job", "wait", job, "--timeout", "100s"])
        .expect_code(0);
    let text = fs::read_to_string(file).expect("a file of the test's own");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(
        (lines.len(), text.lines().count()),
        (tasks, tasks),
        "{text}"
    );
    let view = grid.json(["job", "info", job]);
    assert_eq!(
        view["attempts"].as_u64(),
        Some(tasks as u64),
        "no attempt was lost: {view}"
    );
}

fn lost(grid: &Grid) -> u64 {
    let hosts = grid.json(["host", "list"]);
    let hosts = hosts["hosts"].as_array().expect("hosts");
    hosts
        .iter()
        .map(|host| host["lost"].as_u64().expect("a number"))
        .sum()
}

#[test]
fn tasks_behind_a_gateway_end_with_the_right_results_and_join_and_upload_through_it() {
    let mut grid = Grid::with_master(MASTER);
    let gateway = Gateway::start(&grid, "gw1");
    worker(&mut grid, "pc", 2).via(&gateway.address).start();
    let input = grid.file("in.txt", "of the user\n");
    let script = "cat in.txt; head -c 3000000 /dev/zero | tr '\\0' $DESKGRID_TASK_ID > big.bin";
    let job = grid.submit([
        "--array",
        "1-6",
        "--input",
        input.to_str().unwrap(),
        "--output-file",
        "big.bin",
        "--",
        "sh",
        "-c",
        script,
    ]);
    grid.deskgrid(["job", "wait", &job, "--timeout", "60s"])
        .expect_code(0);

    let printed = grid
        .deskgrid(["job", "cat", &job, "stdout"])
        .expect_code(0)
        .stdout;
    assert_eq!(printed, "of the user\n".repeat(6));
    let fetched = grid.fetch(&job, "results");
    let mut bytes: Vec<u8> = Vec::new();
    for entry in walkdir(&fetched, "big.bin") {
        let content = fs::read(&entry).expect("it was fetched");
        assert_eq!(content.len(), 3_000_000, "{}", entry.display());
        assert!(content.iter().all(|byte| *byte == content[0]));
        bytes.push(content[0]);
    }
    bytes.sort_unstable();
    assert_eq!(bytes, b"123456");
    assert_eq!(joins(&grid, "pc"), 1);
}

/// The files of this name below a directory.
fn walkdir(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("it can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(walkdir(&path, name));
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
    found
}
