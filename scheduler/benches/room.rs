//! What it costs that somebody has to make room: a grid whose hosts are full of disclosed work,
//! more of which waits. Prints the processor time of a request, which takes somebody's slot, and of
//! a heartbeat, by the number of hosts; and that of many requests at once, while jobs that no host
//! suits wait before them.
//!
//! Run with `cargo bench -p scheduler --bench room`. Of several rounds the best one counts.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and its arguments"
)]

mod grid;

use std::time::{Duration, Instant};

use common::host::OwnerState;
use common::job::Rules;
use common::needs::Needs;
use common::{HostId, IdSet, JobId, Time};
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::{Effect, Event, Settings, Sharing};

const JOBS: u32 = 100;
const ROUNDS: usize = 3;

fn main() {
    // `cargo test --benches` runs this too: it should only be seen to work then.
    let bench = std::env::args().any(|arg| arg == "--bench");
    let (sizes, events) = if bench {
        (&[100, 1_000, 10_000][..], 1_000)
    } else {
        (&[100][..], 20)
    };
    println!(
        "{JOBS} disclosed jobs on full hosts, {events} requests and as many heartbeats, best of {ROUNDS} rounds"
    );

    for keeps in [false, true] {
        for hosts in sizes {
            let best = (0..ROUNDS)
                .map(|_| round(*hosts, keeps, events))
                .min_by_key(|(request, beat)| *request + *beat);
            let (request, beat) = best.unwrap_or_default();
            let what = if keeps {
                "keeping their states"
            } else {
                "beginning anew"
            };
            println!(
                "{hosts:6} hosts, tasks {what:20}  request {request:>10.1?}  heartbeat {beat:>10.1?}"
            );
        }
    }

    let (hosts, requests, hopeless) = if bench {
        (2_000, 1_000, 900)
    } else {
        (40, 20, 10)
    };
    let took = (0..ROUNDS).map(|_| burst(hosts, requests, hopeless)).min();
    println!(
        "{hosts:6} hosts, {requests} requests at once behind {hopeless} jobs that no host suits {:>10.1?}",
        took.unwrap_or_default()
    );
}

/// The cost of so many requests at once, while jobs of others wait that no host suits.
fn burst(hosts: u32, requests: u32, hopeless: u32) -> Duration {
    let settings = Settings {
        sharing: Some(Sharing::default()),
        ..Settings::default()
    };
    let mut scheduler = grid::of_hosts(hosts, settings);
    let mut fx = Vec::new();
    let mut submit = |job: u32, user: String, mut bag: Bag| {
        bag.terms.estimator.user = user;
        let event = Event::JobSubmitted {
            job: JobId(job),
            bag: Box::new(bag),
            tested: None,
        };
        scheduler.step(Time(u64::from(job)), event, &mut fx);
    };
    for job in 1..=hopeless {
        let label = "nowhere".parse().expect("a label");
        let needs = Needs {
            labels: [label].into(),
            ..Needs::default()
        };
        let rules = Rules {
            needs,
            ..Rules::default()
        };
        // With more of one user the others of hers would be skipped.
        let user = format!("user {}", job % 4);
        submit(job, user, Bag::new(IdSet::from_range(1, 10), rules));
    }

    let rules = Rules {
        policy: "FCFSxFCFS".to_owned(),
        ..Rules::default()
    };
    let disclosed = Bag {
        disclosed: true,
        ..Bag::new(IdSet::from_range(1, 100_000), rules)
    };
    submit(hopeless + 1, "late".to_owned(), disclosed);

    fx.clear();
    let began = Instant::now();
    let tasks = Some(IdSet::from_range(100_001 - requests, 100_000));
    let job = JobId(hopeless + 1);
    let now = Time(1_000_000);
    scheduler.step(now, Event::TasksRequested { job, tasks }, &mut fx);
    let took = began.elapsed();
    let started = fx
        .iter()
        .filter(|effect| matches!(effect, Effect::Start { .. }))
        .count();
    assert_eq!(started, requests as usize, "each of them takes a slot");
    took
}

/// Costs of a request and of a heartbeat.
fn round(hosts: u32, keeps: bool, events: u32) -> (Duration, Duration) {
    let mut scheduler = grid::of_hosts(hosts, Settings::default());
    let mut fx = Vec::new();
    for job in 1..=JOBS {
        let rules = Rules {
            policy: "FCFSxNEED".to_owned(),
            checkpoint: keeps,
            ..Rules::default()
        };
        let estimator = Estimator {
            user: format!("user {job}"),
            program: "search".to_owned(),
        };
        let terms = Terms {
            estimator,
            ..Terms::default()
        };
        let bag = Bag {
            terms,
            disclosed: true,
            ..Bag::new(IdSet::from_range(1, 100_000), rules)
        };
        scheduler.step(
            Time(u64::from(job)),
            Event::JobSubmitted {
                job: JobId(job),
                bag: Box::new(bag),
                tested: None,
            },
            &mut fx,
        );
    }

    let held = |host| {
        scheduler
            .host(HostId(host))
            .map_or(0, |host| host.attempts.len())
    };
    assert_eq!(
        (1..=hosts).map(held).sum::<usize>(),
        hosts as usize,
        "the grid is full"
    );

    let mut request = Duration::ZERO;
    let mut beat = Duration::ZERO;
    for event in 0..events {
        let now = Time(1_000_000 * u64::from(event + 1));
        let job = JobId(event % JOBS + 1);
        let task = 100_000 - event / JOBS;

        fx.clear();
        let began = Instant::now();
        let tasks = Some(IdSet::from_range(task, task));
        scheduler.step(now, Event::TasksRequested { job, tasks }, &mut fx);
        request += began.elapsed();

        let host = HostId(event * 6_151 % hosts + 1);
        let heard = Event::HostHeard {
            host,
            status: OwnerState::Away.into(),
            held: Vec::new(),
        };
        let began = Instant::now();

        scheduler.step(now, heard, &mut fx);
        beat += began.elapsed();
    }

    (request / events, beat / events)
}
