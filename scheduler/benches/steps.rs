//! What a step costs: completions and heartbeats, half and half, at 10,000 hosts, with jobs of one
//! task, of a thousand and of a million; and what a no-op task costs from start to settlement.
//! Prints rates and ratios.
//!
//! Run with `cargo bench -p scheduler`. It counts processor time, not wall time, and of several
//! rounds the best one.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and its arguments"
)]

mod clock;

use std::time::Duration;

use clock::clock;
use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::OwnerState;
use common::job::Rules;
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, Time};
use scheduler::event::Bag;
use scheduler::{Effect, Event, Scheduler, Settings};

const HOSTS: u32 = 10_000;
const EVENTS: u64 = 400_000;
const ROUNDS: usize = 3;

fn main() {
    // `cargo test --benches` runs this too: it should only be seen to work then.
    let events = if std::env::args().any(|arg| arg == "--bench") {
        EVENTS
    } else {
        2_000
    };
    println!(
        "{HOSTS} hosts, {events} events (completion, heartbeat, ...), best of {ROUNDS} rounds"
    );
    for policy in ["FCFS", "PRI-CR", "deskgrid"] {
        let single = best(policy, 1, events);
        let few = best(policy, 1_000, events);
        let many = best(policy, 1_000_000, events);
        let rate = |cost: Duration| 1.0 / cost.as_secs_f64();
        println!(
            "{policy:9} {:>10.0} events/s with jobs of 1 task, {:>10.0} of 1,000, {:>10.0} of 1,000,000; cost ratio of the last two {:.2}",
            rate(single),
            rate(few),
            rate(many),
            many.as_secs_f64() / few.as_secs_f64()
        );
    }

    noops(events);
    submit();
}

/// Cost of one event, the best of the rounds.
fn best(policy: &str, tasks: u32, events: u64) -> Duration {
    (0..ROUNDS)
        .map(|_| round(policy, tasks, events))
        .min()
        .unwrap_or_default()
}

/// Hosts of mixed speeds with two slots each work on jobs of `tasks` tasks; whenever a job is
/// through, the next of the same size is there. Hosts report in a scattered order, so that
/// completions come out of order as well.
fn round(policy: &str, tasks: u32, events: u64) -> Duration {
    let mut scheduler = Scheduler::new(Settings::default(), Incarnation(1));
    let mut fx = Vec::new();
    let mut now = Time(0);
    let mut next_job = 0;
    let mut waiting = 0_u64;
    let mut live: Vec<Vec<AttemptId>> = vec![Vec::new(); HOSTS as usize];

    for host in 0..HOSTS {
        let speed =
            Speed::new(0.3 + f64::from(host * 7_919 % 1_000) / 400.0).expect("a positive number");
        let joined = Event::HostJoined {
            host: HostId(host),
            slots: 2,
            speed,
            status: OwnerState::Away.into(),
            held: Vec::new(),
        };
        scheduler.step(now, joined, &mut fx);
    }

    let mut spent = Duration::ZERO;
    let mut turn = 0_u64;
    let mut done = 0;

    while done < events {
        while waiting < u64::from(tasks).max(2 * u64::from(HOSTS)) {
            next_job += 1;
            let rules = Rules {
                policy: policy.to_owned(),
                ..Rules::default()
            };
            let bag = Bag::new(IdSet::from_range(1, tasks), rules);

            scheduler.step(
                now,
                Event::JobSubmitted {
                    job: JobId(next_job),
                    bag: Box::new(bag),
                    tested: None,
                },
                &mut fx,
            );

            waiting += u64::from(tasks);
        }

        waiting -= collect(&mut fx, &mut live);
        let batch = batch(&mut live, &mut turn);
        done += batch.len() as u64;

        let began = clock();
        for event in batch {
            now = now + Span(1_000);
            scheduler.step(now, event, &mut fx);
        }

        spent += clock() - began;
    }

    spent / u32::try_from(done).unwrap_or(u32::MAX)
}

/// Moves what was started into the hosts' lists; says how many there were.
fn collect(fx: &mut Vec<Effect>, live: &mut [Vec<AttemptId>]) -> u64 {
    let mut started = 0;
    for effect in fx.drain(..) {
        if let Effect::Start { host, attempt, .. } = effect {
            live[host.0 as usize].push(attempt);
            started += 1;
        }
    }
    started
}

/// The next thousand events: a completion of one host, a heartbeat of another, in turn.
fn batch(live: &mut [Vec<AttemptId>], turn: &mut u64) -> Vec<Event> {
    let mut events = Vec::with_capacity(1_000);
    for _ in 0..500 {
        *turn += 1;
        let host = (*turn * 6_151 % u64::from(HOSTS)) as u32;
        if let Some(attempt) = live[host as usize].pop() {
            let outcome = Outcome::Succeeded;
            let ran = Span::from_secs(60);
            events.push(Event::AttemptEnded {
                host: HostId(host),
                attempt,
                outcome,
                ran,
            });
        }

        let host = (*turn * 3_571 % u64::from(HOSTS)) as u32;
        let running = |attempt: &AttemptId| HeldAttempt {
            attempt: *attempt,
            phase: Phase::Running,
            ran: Span(1),
            frozen_for: Span::ZERO,
            progress: None,
        };
        let held = live[host as usize].iter().map(running).collect();
        events.push(Event::HostHeard {
            host: HostId(host),
            status: OwnerState::Away.into(),
            held,
        });
    }

    events
}

/// One host of two slots works off tasks that take no time, in batches as they would come over a
/// connection.
fn noops(events: u64) {
    let mut scheduler = Scheduler::new(Settings::default(), Incarnation(1));
    let mut fx = Vec::new();
    let joined = Event::HostJoined {
        host: HostId(1),
        slots: 2,
        speed: Speed::REFERENCE,
        status: OwnerState::Away.into(),
        held: Vec::new(),
    };
    scheduler.step(Time(0), joined, &mut fx);

    let bag = Bag::new(IdSet::from_range(1, 10_000_000), Rules::default());
    scheduler.step(
        Time(0),
        Event::JobSubmitted {
            job: JobId(1),
            bag: Box::new(bag),
            tested: None,
        },
        &mut fx,
    );

    let mut live = vec![Vec::new(); 2];
    let mut done = 0;
    let mut longest = 0;
    let began = clock();

    while done < events {
        collect(&mut fx, &mut live);
        longest = longest.max(live[1].len());
        for attempt in std::mem::take(&mut live[1]) {
            let outcome = Outcome::Succeeded;
            let ran = Span::ZERO;
            scheduler.step(
                Time(done),
                Event::AttemptEnded {
                    host: HostId(1),
                    attempt,
                    outcome,
                    ran,
                },
                &mut fx,
            );

            done += 1;
        }
    }

    let rate = done as f64 / (clock() - began).as_secs_f64();
    println!("no-op tasks, one host of 2 slots: {rate:.0} tasks/s, up to {longest} prefetched");
}

/// A job of a million tasks is as cheap to submit as one of a single task.
fn submit() {
    let mut scheduler = Scheduler::new(Settings::default(), Incarnation(1));
    let mut fx = Vec::new();
    let bag = Bag::new(IdSet::from_range(1, 1_000_000), Rules::default());
    let began = clock();

    scheduler.step(
        Time(0),
        Event::JobSubmitted {
            job: JobId(1),
            bag: Box::new(bag),
            tested: None,
        },
        &mut fx,
    );

    println!("submit of 1,000,000 tasks: {:?}", clock() - began);
}
