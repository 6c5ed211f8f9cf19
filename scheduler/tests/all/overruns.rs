//! Attempts that outlive their estimates while a job with a promise waits for their slots: the
//! scheduler wakes for them, and evicts as few as let the promise be kept.

use common::attempt::{Outcome, Phase};
use common::{HostId, JobId, Span};
use scheduler::effect::{EndReason, Settled};
use scheduler::{Event, Settings};

use crate::events;
use crate::world::{World, abandoned, ended, s, settled};

const HARD: &str = "PROMISE:inflated=no:policing=hard:when=needed";

/// A host that runs a task of this estimate, for which a task of ten seconds waits with a deadline;
/// nothing is heard of the first one's end.
fn waiting(
    policy: &str,
    estimate_s: u64,
    deadline: u64,
    settings: Settings,
) -> (World, [JobId; 2]) {
    let mut world = World::with(Settings {
        lease: s(1_000_000),
        suspect_after: s(1_000_000),
        ..settings
    });
    let host = world.host(1).joins();
    let draft = |world: &mut World, estimate: u64, deadline| {
        let job = world.job(1).policy(policy).estimates(&[estimate]);
        job.deadline(deadline).submit()
    };
    let long = draft(&mut world, estimate_s, 1_000);
    world.moves(host, Phase::Running);
    let waits = draft(&mut world, 10, deadline);
    (world, [long, waits])
}

/// Lets so many seconds pass, and returns those after which an attempt was evicted.
fn evicted_after(world: &mut World, secs: u64) -> Option<f64> {
    let begin = world.now;
    let effects = world.pass(s(secs));
    let evicted = |(_, why): &(_, EndReason)| matches!(why, EndReason::Policed { .. });
    let any = ended(&effects).iter().any(evicted);
    let at = world
        .history
        .iter()
        .find(|(_, _, effects)| ended(effects).iter().any(evicted));
    at.filter(|_| any).map(|(at, ..)| at.since(begin).secs())
}

#[test]
fn an_attempt_that_outlives_its_estimate_is_evicted_once_a_waiting_job_would_be_late() {
    let (mut world, [long, waits]) = waiting(HARD, 10, 25, Settings::default());
    let attempt = world.attempt_on(HostId(1));

    let at_s = evicted_after(&mut world, 30).expect("it holds up a promise");
    assert!(
        (10.0..15.0).contains(&at_s),
        "late enough for what needs ten seconds until 25: {at_s}"
    );
    let next = world.attempt_on(HostId(1));
    assert_eq!(
        (next.task.job, world.job_state(long).settled()),
        (waits, true)
    );

    let effects = world
        .history
        .iter()
        .flat_map(|(_, _, effects)| effects)
        .cloned();
    let [
        (
            _,
            Settled::Failed(
                failed,
                EndReason::Policed {
                    estimate,
                    elapsed,
                    by,
                },
            ),
        ),
    ] = settled(&effects.collect::<Vec<_>>())[..]
    else {
        panic!("the evicted task alone is settled")
    };
    assert_eq!((failed, estimate, by), (attempt, s(10), waits));
    assert!(elapsed > s(10) && elapsed < s(15));
}

#[test]
fn an_evicted_attempt_does_not_come_back_with_a_list_that_was_on_its_way() {
    let mut world = World::with(Settings {
        lease: s(1_000_000),
        suspect_after: s(1_000_000),
        ..Settings::default()
    });
    let host = world.host(1).joins();
    let job = world.job(1).policy(HARD).estimates(&[10]).retries(1);
    job.deadline(1_000).submit();
    world.moves(host, Phase::Running);
    let listed = world.held(host);
    world
        .job(1)
        .policy(HARD)
        .estimates(&[10])
        .deadline(25)
        .submit();

    evicted_after(&mut world, 30).expect("it holds up a promise");
    let next = world.books(host);
    let effects = world.heard(host, listed.clone());
    assert_eq!(abandoned(&effects), [listed[0].attempt]);
    assert!(!world.books(host).contains(&listed[0].attempt), "{next:?}");
}

#[test]
fn where_the_slot_is_needed_at_once_an_attempt_has_its_estimate_and_the_way_of_a_report() {
    let (mut world, _) = waiting(HARD, 10, 21, Settings::default());
    let at_s = evicted_after(&mut world, 30).expect("it holds up a promise");
    assert!((10.1..10.5).contains(&at_s), "{at_s}");

    let (mut world, _) = waiting(HARD, 10, 21, Settings::default());
    world.pass(s(10));
    let host = HostId(1);
    world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(10));
    assert_eq!(evicted_after(&mut world, 5), None);
}

#[test]
fn an_attempt_beyond_its_estimate_goes_on_while_all_promises_can_be_kept() {
    let (mut world, [long, _]) = waiting(HARD, 10, 500, Settings::default());
    assert_eq!(evicted_after(&mut world, 100), None);
    assert!(!world.job_state(long).settled());
    assert!(
        evicted_after(&mut world, 500).is_some(),
        "in the end the other one would be late"
    );
}

#[test]
fn nobody_is_evicted_for_a_promise_that_is_lost_anyway() {
    let (mut world, _) = waiting(HARD, 10, 20, Settings::default());
    world.now = world.now + s(15);
    assert_eq!(evicted_after(&mut world, 600), None);
}

#[test]
fn a_late_job_whose_own_attempts_alone_are_beyond_their_estimates_evicts_none() {
    let mut world = World::with(Settings {
        lease: s(1_000_000),
        suspect_after: s(1_000_000),
        ..Settings::default()
    });
    let host = world.host(1).joins();
    let job = world.job(2).policy(HARD).estimates(&[10, 10]).retries(1);
    let job = job.deadline(30).submit();
    world.moves(host, Phase::Running);
    let attempt = world.attempt_on(host);

    assert_eq!(evicted_after(&mut world, 29), None, "it is late from 20 on");
    assert_eq!(world.attempt_on(host), attempt);
    assert_eq!(attempt.task.job, job);
}

#[test]
fn only_rules_without_chance_evict_after_an_admission() {
    let grace = "PROMISE:inflated=no:policing=grace0.2";
    for (policy, setting, evicted) in [
        (grace, None, true),
        ("PROMISE:inflated=no", None, false),
        ("PROMISE:inflated=no", Some("hard"), true),
        ("PROMISE:inflated=no:policing=off", None, false),
        (HARD, Some("off"), false),
        ("CALENDAR-HARD", None, false),
    ] {
        let policing = setting.map(|text| text.parse().expect("it makes sense"));
        let (mut world, _) = waiting(
            policy,
            10,
            25,
            Settings {
                policing,
                ..Settings::default()
            },
        );
        let at_s = evicted_after(&mut world, 60);
        assert_eq!(at_s.is_some(), evicted, "{policy} {setting:?}");
        assert!(
            policy != grace || at_s >= Some(12.0),
            "the grace is kept: {at_s:?}"
        );
    }
}

#[test]
fn one_attempt_of_two_beyond_their_estimates_is_evicted_for_one_task() {
    let mut world = World::with(Settings {
        stops_when_reported: true,
        ..Settings::default()
    });
    for host in 1..=2 {
        world.host(host).joins();
        world
            .job(1)
            .policy(HARD)
            .estimates(&[20 / u64::from(host)])
            .deadline(1_000)
            .submit();
        world.moves(HostId(host), Phase::Running);
    }
    let farthest = world.attempt_on(HostId(2));
    world
        .job(1)
        .policy(HARD)
        .estimates(&[10])
        .deadline(45)
        .submit();

    let mut evicted = Vec::new();
    for _ in 0..600 {
        let effects = world.pass(Span::from_millis(100));
        evicted.extend(ended(&effects).into_iter().map(|(attempt, _)| attempt));
    }
    assert_eq!(
        evicted,
        [farthest],
        "and no other while its host has not said that it has stopped"
    );
}

#[test]
fn an_attempt_that_begins_after_the_job_that_waits_is_evicted_too() {
    let mut world = World::new();
    let job = |world: &mut World, estimates: &[u64], deadline| {
        let job = world.job(1).policy(HARD).estimates(estimates);
        job.deadline(deadline).submit()
    };
    let host = world.host(1).joins();
    job(&mut world, &[10, 10], 1_000);
    let waits = job(&mut world, &[10], 40);
    world.moves(host, Phase::Running);
    world.pass(s(10));
    world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(10));
    world.moves(host, Phase::Running);
    assert!(evicted_after(&mut world, 20).is_some());
    assert_eq!(world.attempt_on(host).task.job, waits);
}

#[test]
fn a_run_time_that_cannot_be_true_keeps_no_later_bag_out() {
    let mut world = World::new();
    let host = world.host(1).joins();
    let job = world.job(1).policy("CALENDAR").estimates(&[10]);
    job.deadline(1_000).submit();
    world.moves(host, Phase::Running);
    world.pass(s(5));

    let attempt = world.attempt_on(host);
    let mut held = world.held(host);
    held[0].ran = Span(u64::MAX);
    held[0].frozen_for = Span(u64::MAX);
    world.heard(host, held);
    world.send(events::returned(host, vec![attempt]));
    world.send(Event::HostLeft { host });

    // What it claimed is no reason to believe that the task takes for ever on another host.
    let other = world.host(2).joins();
    assert_eq!(world.attempt_on(other).task, attempt.task);
    let bag = world.job(1).policy("CALENDAR").estimates(&[5]);
    let bag = bag.deadline(900).bag();
    let finish_s = world.offer(&bag).finish.since(world.now).secs();
    assert!(finish_s < 300.0, "{finish_s}");
}
