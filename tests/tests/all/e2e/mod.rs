//! Scenarios: what people at a terminal do with deskgrid, and what goes wrong around them.

mod api;
mod api_jobs;
mod availability;
mod browser;
mod checkpoints;
mod confinement;
mod control;
mod dashboard;
mod deadlines;
mod demo;
mod errors;
mod events;
mod files;
mod first_start;
mod foresight;
mod help;
mod identity;
mod jobs;
mod kills;
mod limits;
mod loopback;
mod metrics;
mod msi;
mod needs;
mod notices;
mod operations;
mod order;
mod owner;
mod package;
mod page;
mod pages;
mod processes;
mod quorum;
mod readme;
mod record;
mod renewals;
mod requests;
mod research;
mod service;
mod settings;
pub(crate) mod sharing;
mod speculation;
mod tail;
mod together;
mod top;
mod trees;
mod udp_blocked;
#[cfg(target_os = "linux")]
mod updates;
mod windows;

use std::time::Duration;

use serde_json::Value;
use tests::{Grid, alive_with, eventually};

/// A duration for `sleep` that no other process on this machine sleeps, so that it can be found by
/// it.
fn long_sleep() -> String {
    format!("86{}.{}", std::process::id(), rand::random::<u32>())
}

/// Waits until no process mentions `mark`.
#[track_caller]
fn all_gone(mark: &str, within: Duration) {
    let mut left = Vec::new();
    let look = || {
        left = alive_with(mark);
        left.is_empty().then_some(())
    };
    eventually(&format!("no process with {mark} is left"), within, look);
}

/// Waits until some process mentions `mark`.
#[track_caller]
fn running(mark: &str) {
    eventually(
        &format!("a process with {mark} runs"),
        Duration::from_secs(30),
        || (!alive_with(mark).is_empty()).then_some(()),
    );
}

/// A bag of sixty short tasks of which each prints its number.
const COUNT: [&str; 6] = [
    "--array",
    "1-60",
    "--",
    "sh",
    "-c",
    "sleep 0.1; echo $DESKGRID_TASK_ID",
];

/// Waits until ten tasks of such a bag are finished; returns how many are.
#[track_caller]
fn ten_are_finished(grid: &Grid, bag: &str) -> u64 {
    let some = |job: &Value| job["tasks"]["finished"].as_u64().filter(|n| *n >= 10);
    grid.until("ten tasks are finished", &["job", "info", bag], some)
}

/// Expects each result of such a bag to be there exactly once.
#[track_caller]
fn expect_all_counted(grid: &Grid, bag: &str) {
    let text = grid.text(["job", "cat", bag, "stdout"]);
    let mut numbers: Vec<u32> = text
        .lines()
        .map(|line| line.trim().parse().expect("a number"))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=60).collect::<Vec<_>>());
}

/// Returns a number of a JSON answer.
#[track_caller]
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}
