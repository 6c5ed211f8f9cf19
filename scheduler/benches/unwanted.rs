//! The cost of an event while one host is idle that no waiting job can use, on a grid that is full
//! otherwise: the processor time of a heartbeat by the number of waiting jobs, which fifty users
//! share. And the cost of a submission on an idle grid, beside a job of another user that may not start.
//!
//! Run with `cargo bench -p scheduler --bench unwanted`. Of several rounds the best one counts.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and its arguments"
)]

mod clock;
mod grid;

use std::time::Duration;

use clock::clock;
use common::host::OwnerState;
use common::job::Rules;
use common::needs::{Needs, Offers};
use common::{HostId, IdSet, JobId, Span, Speed, Time};
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::{Event, Settings, Sharing};

const HOSTS: u32 = 1_000;
const USERS: u32 = 50;
const ROUNDS: usize = 3;

fn main() {
    // `cargo test --benches` runs this too: it should only be seen to work then.
    let bench = std::env::args().any(|arg| arg == "--bench");
    let (sizes, events) = if bench {
        (&[10, 100, 1_000, 10_000][..], 200)
    } else {
        (&[10][..], 5)
    };
    println!("{HOSTS} hosts full, one idle that no job can use; {USERS} users, best of {ROUNDS}");

    for jobs in sizes {
        let beat = (0..ROUNDS).map(|_| round(*jobs, events)).min();
        println!(
            "{jobs:6} waiting jobs  heartbeat {:>10.1?}",
            beat.unwrap_or_default()
        );
    }

    let sizes = if bench {
        &[1_000, 10_000][..]
    } else {
        &[20][..]
    };
    for hosts in sizes {
        let submitted = (0..ROUNDS).map(|_| beside_a_bound(*hosts)).min();
        println!(
            "{hosts:6} idle hosts    submission of half as many tasks {:>10.1?}",
            submitted.unwrap_or_default()
        );
    }
}

/// The processor time of a submission of tasks for half of so many idle hosts, while a job of another
/// user waits who runs as many tasks as she may.
fn beside_a_bound(hosts: u32) -> Duration {
    let sharing = Sharing {
        most_running: [("ann".to_owned(), 1)].into(),
        ..Sharing::default()
    };
    let settings = Settings {
        sharing: Some(sharing),
        ..Settings::default()
    };
    let mut scheduler = grid::of_hosts(hosts, settings);
    let mut fx = Vec::new();
    let bag = |user: &str, tasks: u32| {
        let rules = Rules {
            estimate: Some(Span::from_secs(600)),
            ..Rules::default()
        };
        let mut bag = Bag::new(IdSet::from_range(1, tasks), rules);
        user.clone_into(&mut bag.terms.estimator.user);
        Box::new(bag)
    };
    let submitted = |job: u32, bag| Event::JobSubmitted {
        job: JobId(job),
        bag,
        tested: None,
    };
    scheduler.step(Time(1), submitted(1, bag("ann", 2)), &mut fx);
    fx.clear();

    let began = clock();
    scheduler.step(Time(2), submitted(2, bag("ben", hosts / 2)), &mut fx);
    let took = clock() - began;
    assert!(fx.len() > 1, "it is admitted, and tasks start");
    took
}

/// The processor time of a heartbeat while so many jobs wait.
fn round(jobs: u32, events: u32) -> Duration {
    let settings = Settings {
        sharing: Some(Sharing::default()),
        ..Settings::default()
    };
    let mut scheduler = grid::of_hosts(HOSTS, settings);
    let mut fx = Vec::new();
    let idle = HostId(HOSTS + 1);
    let offers = Event::HostOffers {
        host: idle,
        offers: Box::new(Offers {
            network: false,
            ..Offers::default()
        }),
    };
    let joined = Event::HostJoined {
        host: idle,
        slots: 1,
        speed: Speed::REFERENCE,
        status: OwnerState::Away.into(),
        held: Vec::new(),
    };
    scheduler.step(Time(0), offers, &mut fx);
    scheduler.step(Time(0), joined, &mut fx);

    for job in 1..=jobs {
        let rules = Rules {
            needs: Needs {
                network: true,
                ..Needs::default()
            },
            ..Rules::default()
        };
        let terms = Terms {
            estimator: Estimator {
                user: format!("user {}", job % USERS),
                program: "crawl".to_owned(),
            },
            ..Terms::default()
        };
        let bag = Bag {
            terms,
            ..Bag::new(IdSet::from_range(1, HOSTS + 1), rules)
        };
        let submitted = Event::JobSubmitted {
            job: JobId(job),
            bag: Box::new(bag),
            tested: None,
        };
        scheduler.step(Time(u64::from(job)), submitted, &mut fx);
    }

    let held = scheduler.host(idle).map_or(0, |host| host.attempts.len());
    assert_eq!(held, 0, "no job can use it");

    let began = clock();
    for event in 0..events {
        fx.clear();
        let heard = Event::HostHeard {
            host: HostId(event % HOSTS + 1),
            status: OwnerState::Away.into(),
            held: Vec::new(),
        };
        scheduler.step(Time(1_000_000 + u64::from(event)), heard, &mut fx);
    }
    (clock() - began) / events
}
