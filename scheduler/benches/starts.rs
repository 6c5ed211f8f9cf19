//! What it costs to say when each of a list's waiting jobs should start: a hundred of them, behind
//! full hosts. Prints the processor time of one list and of one job alone, by the number of hosts,
//! for bags and for jobs of several ranks. And what it costs to say when most of the hosts should be
//! free.
//!
//! Run with `cargo bench -p scheduler --bench starts`. Of several rounds the best one counts.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and its arguments"
)]

mod grid;

use std::time::{Duration, Instant};

use common::job::{Rules, WIDTH_POLICY};
use common::{IdSet, JobId, Ranks, Span, Time};
use scheduler::event::Bag;
use scheduler::{Event, Scheduler, Settings};

const JOBS: u32 = 100;
const ROUNDS: usize = 5;

fn main() {
    // `cargo test --benches` runs this too: it should only be seen to work then.
    let sizes = if std::env::args().any(|arg| arg == "--bench") {
        &[100, 1_000, 10_000][..]
    } else {
        &[20][..]
    };

    println!("starts of {JOBS} waiting jobs behind full hosts, best of {ROUNDS} rounds");
    for ranks in [false, true] {
        for hosts in sizes {
            let (scheduler, jobs) = full(*hosts, ranks);
            let best = |jobs: &[JobId]| {
                (0..ROUNDS)
                    .map(|_| cost(&scheduler, jobs))
                    .min()
                    .unwrap_or_default()
            };

            let what = if ranks { "of ranks" } else { "bags" };
            println!(
                "{hosts:6} hosts, {what:8}  list {:>10.1?}  one {:>10.1?}",
                best(&jobs),
                best(&jobs[50..51])
            );
        }
    }

    for hosts in sizes {
        let (scheduler, _) = full(*hosts, false);
        let best = (0..ROUNDS)
            .map(|_| wait_cost(&scheduler, hosts / 10 * 9))
            .min();
        println!(
            "{hosts:6} hosts  wait for nine in ten of them {:>10.1?}",
            best.unwrap_or_default()
        );
    }
}

/// The time that it takes to say when this many hosts should be free.
fn wait_cost(scheduler: &Scheduler, wanted: u32) -> Duration {
    let began = Instant::now();
    let told = scheduler.predict_hosts(wanted, Time(100_000_000));
    let took = began.elapsed();
    assert!(told.hosts >= wanted, "there are as many");
    took
}

fn cost(scheduler: &Scheduler, jobs: &[JobId]) -> Duration {
    let began = Instant::now();
    let starts = scheduler.predict_starts(jobs, Time(100_000_000));
    let took = began.elapsed();
    assert_eq!(starts.len(), jobs.len(), "each of them should start");
    took
}

/// A grid with a task on each host, and jobs that wait.
fn full(hosts: u32, ranks: bool) -> (Scheduler, Vec<JobId>) {
    let mut scheduler = grid::of_hosts(hosts, Settings::default());
    let mut fx = Vec::new();
    let mut submit = |job: u32, bag: Bag| {
        fx.clear();
        scheduler.step(
            Time(u64::from(job)),
            Event::JobSubmitted {
                job: JobId(job),
                bag: Box::new(bag),
                tested: None,
            },
            &mut fx,
        );
    };

    let estimate = |seconds: u32| Some(Span::from_secs(u64::from(seconds)));
    let rules = |policy: &str, seconds| Rules {
        policy: policy.to_owned(),
        estimate: estimate(seconds),
        ..Rules::default()
    };
    submit(1, Bag::new(IdSet::from_range(1, hosts), rules("FCFS", 600)));

    let jobs: Vec<JobId> = (2..2 + JOBS).map(JobId).collect();
    for job in &jobs {
        // Half of the line is beyond the slots.
        let tasks = 1 + hosts / (JOBS / 2);
        let bag = if ranks {
            let widths = Ranks {
                work: estimate(36_000),
                parallelism: Some(8.0),
                sigma: Some(0.5),
                ..Ranks::new(1, Some(16))
            };
            Bag {
                ranks: Some(widths),
                ..Bag::new(
                    Ranks::tasks(1),
                    Rules {
                        policy: WIDTH_POLICY.to_owned(),
                        ..Rules::default()
                    },
                )
            }
        } else {
            Bag::new(IdSet::from_range(1, tasks), rules("FCFS", 100 + job.0))
        };

        submit(job.0, bag);
    }

    (scheduler, jobs)
}
