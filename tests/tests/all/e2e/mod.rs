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
use tests::{alive_with, eventually};

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

/// Returns a number of a JSON answer.
#[track_caller]
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}
