//! What the scheduler keeps in memory: for each host, for each attempt that runs, and for each task that waits or has ended.
//! Prints bytes, as the growth of this process's resident memory over their number.
//!
//! Run with `cargo bench -p scheduler --bench memory`, on Linux.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads its arguments"
)]

mod grid;

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::OwnerState;
use common::job::Rules;
use common::{AttemptId, HostId, IdSet, JobId, Span, Time};
use scheduler::event::Bag;
use scheduler::{Effect, Event, Scheduler, Settings};

fn main() {
    // `cargo test --benches` runs this too: it should only be seen to work then.
    let bench = std::env::args().any(|arg| arg == "--bench");
    let sizes: &[u32] = if bench {
        &[1_000, 10_000, 100_000]
    } else {
        &[100]
    };
    println!(
        "bytes of the scheduler's memory under `deskgrid`: one slot a host, one job with ten tasks for each slot"
    );
    println!("| hosts | a host | an attempt that runs and was reported | a task that has ended |");
    println!("|---|---|---|---|");
    for hosts in sizes {
        let [host, attempt, ended] = measure(*hosts).map(|bytes| bytes / u64::from(*hosts));
        println!("| {hosts} | {host} | {attempt} | {ended} |");
    }
}

/// Returns the growth by that many hosts, by an attempt on each of them, and by the end of each with the start of the next.
fn measure(hosts: u32) -> [u64; 3] {
    let begin = resident();
    let mut scheduler = grid::of_hosts(hosts, Settings::default());
    let joined = resident();

    let mut fx = Vec::new();
    let bag = Bag::new(IdSet::from_range(1, 10 * hosts), Rules::default());
    let submitted = Event::JobSubmitted {
        job: JobId(1),
        bag: Box::new(bag),
        tested: None,
    };
    scheduler.step(Time(0), submitted, &mut fx);
    let live = started(&mut fx);
    assert_eq!(live.len(), hosts as usize, "each host has a task");
    report(&mut scheduler, Time(60_000_000), &live, &mut fx);
    let running = resident();

    for (host, attempt) in &live {
        let ended = Event::AttemptEnded {
            host: *host,
            attempt: *attempt,
            outcome: Outcome::Succeeded,
            ran: Span::from_secs(300),
        };
        scheduler.step(Time(300_000_000), ended, &mut fx);
    }
    let next = started(&mut fx);
    report(&mut scheduler, Time(360_000_000), &next, &mut fx);
    let after = resident();

    // What it has is not given back, so that the next size does not begin with it.
    std::mem::forget(scheduler);
    [
        joined.saturating_sub(begin),
        running.saturating_sub(joined),
        after.saturating_sub(running),
    ]
}

/// Each host says that its attempt has run for a minute.
fn report(
    scheduler: &mut Scheduler,
    now: Time,
    live: &[(HostId, AttemptId)],
    fx: &mut Vec<Effect>,
) {
    for (host, attempt) in live {
        let held = HeldAttempt {
            attempt: *attempt,
            phase: Phase::Running,
            ran: Span::from_secs(60),
            frozen_for: Span::ZERO,
            progress: None,
        };
        let heard = Event::HostHeard {
            host: *host,
            status: OwnerState::Away.into(),
            held: vec![held],
        };
        scheduler.step(now, heard, fx);
    }
}

/// Takes what was started out of the effects, of which no room is kept.
fn started(fx: &mut Vec<Effect>) -> Vec<(HostId, AttemptId)> {
    let effects = std::mem::take(fx);
    let start = |effect| match effect {
        Effect::Start { host, attempt, .. } => Some((host, attempt)),
        _ => None,
    };
    effects.into_iter().filter_map(start).collect()
}

/// Returns the resident memory of this process, in bytes; zero where the system does not say it so.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4_096
}
