//! The cost of a crowd to a master: `cargo bench -p tests --bench crowd` runs all parts, `--
//! reconnect`, `-- takeover`, `-- hand-over`, `-- gateways`, `-- flood`, `-- viewers` and `-- followers` one.
//!
//! `reconnect [--workers 10000] [--processes 4]`: simulated workers, each with an identity and a
//! task of its own, come back after the master was killed and started again; how long that takes,
//! and whether a lease was lost. `takeover [--workers 1000]`: the same where another master on the
//! same PostgreSQL takes over (`tests/postgres cargo bench …`), and how long a user waits; `hand-over` the same in order. `gateways
//! [--workers 10000] [--gateways 5]`: what so many cost their master directly and behind gateways, and
//! what they cost those. `flood [--timed 300]`: how long requests of one user take in calm
//! and while another asks as fast as it can, and the master's memory. `viewers [--workers 10000]`:
//! what pages cost with a million tasks behind them, alone and with a hundred viewers. `followers
//! [--tasks 100000]`: whether each event of so many tasks is seen exactly once through kills of
//! followers and master, and what it costs. Measures the programs in
//! `DESKGRID_BIN_DIR` where that is set, else builds and measures the release.

mod flood;
mod followers;
mod gateways;
mod herd;
mod takeover;
mod viewers;

use std::time::{Duration, Instant};

use common::wire::client::{Reply, Request};
use common::{IdSet, JobSpec, RequestId, TaskSet};
use link::{Client, Identity};
use tests::{Grid, argument};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "herd") {
        return herd::run(&args[args.iter().position(|arg| arg == "herd").unwrap_or(0) + 1..]);
    }
    tests::build_release();

    let parts = [
        "reconnect",
        "takeover",
        "hand-over",
        "gateways",
        "flood",
        "viewers",
        "followers",
    ];
    let all = !parts.iter().any(|part| args.iter().any(|arg| arg == part));
    let wanted = |part: &str| all || args.iter().any(|arg| arg == part);
    let workers: u32 = argument("--workers", 10_000);
    let processes: u32 = argument("--processes", 4);
    if wanted("reconnect") {
        reconnect(workers, processes);
    }
    if wanted("takeover") {
        takeover::run(
            takeover::MasterChange::Kill,
            argument("--workers", 1_000),
            processes,
        );
    }
    if wanted("hand-over") {
        takeover::run(
            takeover::MasterChange::HandOver,
            argument("--workers", 1_000),
            processes,
        );
    }
    if wanted("gateways") {
        gateways::run(workers, argument("--gateways", 5));
    }
    if wanted("flood") {
        flood::run(argument("--timed", 300));
    }
    if wanted("viewers") {
        viewers::run(workers, processes);
    }
    if wanted("followers") {
        followers::run(argument("--tasks", 100_000));
    }
}

/// A grid whose leases are those of a usual master.
fn grid() -> Grid {
    Grid::with_master("")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

fn noops(count: u32) -> JobSpec {
    let tasks = TaskSet {
        ids: IdSet::from_range(1, count),
        items: Vec::new(),
    };
    let rules = common::job::Rules {
        policy: "FCFS".to_owned(),
        ..common::job::Rules::default()
    };

    JobSpec {
        name: "crowd".to_owned(),
        tasks,
        work: common::job::Work::Noop,
        rules,
    }
}

async fn submit(client: &Client, spec: &JobSpec) -> common::JobId {
    let id = RequestId(uuid::Uuid::from_u128(rand::random()));
    let request = Request::Submit {
        id,
        spec: spec.clone().into(),
        disclosed: false,
        dry_run: false,
    };
    match client.ask(&request).await.expect("the job is taken").pop() {
        Some(Reply::Submitted { job: Some(job), .. }) => job,
        other => panic!("{other:?}"),
    }
}

async fn connect(grid: &Grid, who: &str) -> Client {
    Client::connect(&Identity::load(&grid.state(who).join("client")).expect("an identity"))
        .await
        .expect("lets in")
}

fn reconnect(workers: u32, processes: u32) {
    let mut grid = grid();
    let ways = [grid.listen().to_owned()];
    let (mut herds, job) = busy_herds(&grid, &ways, workers, processes);

    let resident = tests::resident(grid.master_pid());
    grid.kill_master();

    let began = Instant::now();
    grid.start_master();

    let up = began.elapsed();
    herds.iter_mut().for_each(|herd| herd.wait_for("back"));

    let back = began.elapsed();
    let view = delivered(&grid, &mut herds, job);
    println!(
        "| workers | processes | master up after | all back after | attempts | tasks | master's memory |"
    );
    println!("|---|---|---|---|---|---|---|");
    println!(
        "| {workers} | {processes} | {:.1} s | {:.1} s | {} | {} | {:.0} MiB |",
        up.as_secs_f64(),
        back.as_secs_f64(),
        view["attempts"],
        view["tasks"]["total"],
        resident as f64 / f64::from(1 << 20),
    );

    let kept = back <= Duration::from_secs(60) && view["attempts"] == workers;
    println!(
        "\nAll back within 60 s, no lease lost: {}.",
        if kept { "kept" } else { "not kept" }
    );
}

/// Starts workers that come by these ways, and waits until each holds a task of one job.
fn busy_herds(
    grid: &Grid,
    ways: &[String],
    workers: u32,
    processes: u32,
) -> (Vec<herd::Herd>, common::JobId) {
    let began = Instant::now();
    let mut herds = herd::start(grid, ways, workers, processes);
    herds.iter_mut().for_each(|herd| herd.wait_for("joined"));
    eprintln!(
        "{workers} workers of {processes} processes joined in {:.1} s",
        began.elapsed().as_secs_f64()
    );

    let submitted = async { submit(&connect(grid, "user").await, &noops(workers)).await };
    let job = runtime().block_on(submitted);
    herds.iter_mut().for_each(|herd| herd.wait_for("holds"));
    (herds, job)
}

/// Lets all workers deliver; returns what the master says of the job once it is finished.
fn delivered(grid: &Grid, herds: &mut [herd::Herd], job: common::JobId) -> serde_json::Value {
    herds.iter_mut().for_each(|herd| herd.say("deliver"));
    herds.iter_mut().for_each(|herd| herd.wait_for("done"));

    let number = job.to_string();
    grid.until("the job is settled", &["job", "info", &number], |job| {
        (job["state"] == "finished").then(|| job.clone())
    })
}
