//! The store in a file beside the store in PostgreSQL, in turn, on loopback:
//!
//! ```sh
//! tests/postgres cargo bench -p tests --bench store                # or with: -- --rounds 9 latency
//! ```
//!
//! With some of the words `narrow`, `wide`, `latency` and `queued` it measures that alone. Prints the table of BENCHMARKS.md; without a server only the half of it. Measures the programs in `DESKGRID_BIN_DIR` where that is
//! set, else builds and measures the release.

mod engine;
mod report;
#[path = "../peers/session.rs"]
mod session;

use std::time::Instant;

use common::job::Work;
use engine::{EngineGrid, EngineKind};
use report::{EngineRow, EngineSamples};

/// The tasks of a job of which the rate is measured, with 2 slots and with 1,024.
const NARROW: u32 = 10_000;
const WIDE: u32 = 50_000;
/// The single tasks of which the latency is measured, in each round.
const SINGLES: u32 = 20;
const QUEUED: u32 = 1_000_000;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let rounds = tests::argument("--rounds", 5);
    tests::build_release();

    let parts = ["narrow", "wide", "latency", "queued"];
    let is_all = !parts.iter().any(|part| args.iter().any(|a| a == part));
    let is_wanted = |part: &str| is_all || args.iter().any(|a| a == part);
    let mut rows = Vec::new();
    if is_wanted("narrow") {
        rows.extend(rates("no-op tasks, 2 slots", 2, NARROW, rounds));
    }
    if is_wanted("wide") {
        rows.extend(rates("no-op tasks, 1,024 slots", 1_024, WIDE, rounds));
    }
    if is_wanted("latency") {
        rows.push(latency(rounds));
    }
    if is_wanted("queued") {
        rows.extend(queued(rounds));
    }
    report::print(&rows, rounds);
}

/// A grid on each engine that there is, with a worker of so many slots.
fn engines(slots: u32) -> Vec<EngineGrid> {
    let kinds = [EngineKind::Sqlite, EngineKind::Postgres];
    let started = kinds
        .into_iter()
        .filter_map(|kind| EngineGrid::start(kind, slots));
    started.collect()
}

/// The rate of tasks without a process, and what one costs the master and the database's server.
fn rates(title: &'static str, slots: u32, tasks: u32, rounds: u32) -> Vec<EngineRow> {
    let engines = engines(slots);
    let count = f64::from(tasks);
    let mut rate = EngineRow::new(title, "tasks/s", 1.0, &engines);
    let mut master = EngineRow::new("processor time of the master for each", "µs", 1e6, &engines);
    let mut server = EngineRow::new("of the database's server", "µs", 1e6, &engines);
    // The first time statements are prepared, and files grow.
    for engine in &engines {
        engine.noops(tasks / 10);
    }
    for round in 1..=rounds {
        for (at, engine) in engines.iter().enumerate() {
            eprintln!("{title}: round {round} of {rounds}, {}", engine.name());
            let before = (engine.master_s(), engine.server_s());
            let start = Instant::now();
            engine.noops(tasks);
            rate.add(at, count / start.elapsed().as_secs_f64());
            master.add(at, (engine.master_s() - before.0) / count);
            server.add(at, (engine.server_s() - before.1) / count);
        }
    }
    vec![rate, master, server]
}

/// The time from submitting one task to its end in a session that is open.
fn latency(rounds: u32) -> EngineRow {
    let engines = engines(2);
    let mut row = EngineRow::new("one no-op in an open session", "ms", 1e3, &engines);
    let sessions: Vec<_> = engines.iter().map(EngineGrid::session).collect();
    for _ in 0..rounds {
        for (at, session) in sessions.iter().enumerate() {
            let seconds: EngineSamples = (0..SINGLES).map(|_| session.one(Work::Noop)).collect();
            row.add(at, seconds.middle());
        }
    }
    row
}

/// A million tasks for which there is no worker: submitted, and read back by a master that starts.
fn queued(rounds: u32) -> Vec<EngineRow> {
    let mut engines = engines(0);
    let mut submit = EngineRow::new("a million tasks submitted", "ms", 1e3, &engines);
    let mut restart = EngineRow::new("start of a master that has them", "ms", 1e3, &engines);
    for round in 1..=rounds {
        for (at, engine) in engines.iter().enumerate() {
            let start = Instant::now();
            let job = engine.queue(QUEUED);
            submit.add(at, start.elapsed().as_secs_f64());
            if round < rounds {
                engine.cancel(&job);
            }
        }
    }
    for _ in 0..rounds {
        for (at, engine) in engines.iter_mut().enumerate() {
            restart.add(at, engine.restarted_s());
        }
    }
    vec![submit, restart]
}
