//! Tasks that keep their state leave hosts whose owners are there.

use common::attempt::Phase;
use common::{AttemptId, HostId, JobId, Span, TaskId};
use proptest::prelude::*;
use scheduler::effect::{EndReason, StartReason};
use scheduler::{Effect, Event, Settings};

use crate::events;
use crate::world::{World, ended, s, starts};

/// The starts and ends of attempts.
type Seen = (
    Vec<(HostId, AttemptId, StartReason)>,
    Vec<(AttemptId, EndReason)>,
);

/// Four tasks of ten minutes run on as many hosts; after a minute the owner of host 2 comes, and
/// `idle_after` later an idle host. Returns what happens within `span` from then on.
fn owner_of_second_host_comes(keeps: bool, idle_after: Span, span: Span) -> (World, JobId, Seen) {
    let mut w = World::new();
    for host in 1..=4 {
        w.host(host).joins();
    }
    let job = w.job(4).estimate(s(600));
    let job = if keeps { job.keeps_state() } else { job };
    let job = job.submit();
    (1..=4).for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
    w.pass(s(60));
    w.owner_comes(HostId(2));
    w.pass(idle_after);
    let (_, effects) = w.host(5).joins_with();
    let (mut started, mut over) = (starts(&effects), ended(&effects));
    let come = w.now;
    while w.now.since(come) < span {
        let effects = w.pass(s(1));
        started.extend(starts(&effects));
        over.extend(ended(&effects));
        (1..=5).for_each(|host| drop(w.beats(HostId(host))));
    }
    (w, job, (started, over))
}

#[test]
fn a_task_that_keeps_its_state_moves_from_a_host_whose_owner_comes() {
    let (w, job, (started, over)) = owner_of_second_host_comes(true, s(15), s(120));
    let [(attempt, EndReason::Moved)] = over[..] else {
        panic!("{over:?}");
    };
    assert_eq!(attempt.task.index, 2);
    let [(HostId(5), next, StartReason::Requeued(1))] = started[..] else {
        panic!("{started:?}");
    };
    assert_eq!(next.task, attempt.task);
    assert!(w.books(HostId(2)).is_empty());
    assert_eq!(
        w.scheduler.job_attempts(job),
        Some((5, 0)),
        "a move is no copy"
    );
}

#[test]
fn no_task_moves_before_its_state_can_have_reached_the_master() {
    let (_, _, (started, over)) = owner_of_second_host_comes(true, s(0), s(9));
    assert!(over.is_empty(), "{over:?}");
    let of_second = |(_, attempt, _): &(HostId, AttemptId, StartReason)| attempt.task.index == 2;
    assert!(!started.iter().any(of_second), "{started:?}");
}

#[test]
fn a_task_without_kept_state_is_copied_and_not_moved() {
    let (_, _, (started, over)) = owner_of_second_host_comes(false, s(15), s(120));
    assert!(over.is_empty(), "{over:?}");
    let copied = |(host, attempt, why): &(HostId, AttemptId, StartReason)| {
        *host == HostId(5) && attempt.task.index == 2 && matches!(why, StartReason::Duplicate(1, _))
    };
    assert!(matches!(&started[..], [one] if copied(one)), "{started:?}");
}

/// Lets a minute pass in which all hosts report, and returns what happens.
fn minute(w: &mut World) -> Vec<Effect> {
    let mut effects = Vec::new();
    for _ in 0..60 {
        effects.extend(w.pass(s(1)));
        let hosts: Vec<HostId> = w.scheduler.hosts().collect();
        for host in hosts {
            effects.extend(w.beats(host));
        }
    }
    effects
}

/// The hosts on which attempts of the same task as this one start.
fn started_on(effects: &[Effect], like: AttemptId) -> Vec<HostId> {
    let starts = starts(effects).into_iter();
    let own = starts.filter(|(_, attempt, _)| attempt.task == like.task);
    own.map(|(host, ..)| host).collect()
}

#[test]
fn a_task_that_failed_on_an_idle_host_is_neither_moved_nor_copied_there() {
    for keeps in [false, true] {
        let mut w = World::with(Settings {
            max_copies: 2,
            benching: true,
            ..Settings::default()
        });
        let failing = HostId(5);
        for host in [1, 3, 4, 5] {
            w.host(host).joins();
        }
        let job = w.job(4).estimate(s(600)).retries(1);
        let job = if keeps { job.keeps_state() } else { job };
        job.submit();
        for host in [1, 3, 4, 5] {
            w.moves(HostId(host), Phase::Running);
        }

        let failed = w.attempt_on(failing);
        w.send(Event::HostDrained { host: failing });
        w.fails(failing, failed);
        let retries = w.host(2).joins();
        assert_eq!(w.attempt_on(retries).task, failed.task);
        w.moves(retries, Phase::Running);
        w.pass(s(60));
        w.owner_comes(retries);
        w.pass(s(15));

        let mut effects = w.send(Event::HostUndrained { host: failing });
        effects.extend(minute(&mut w));
        assert_eq!(started_on(&effects, failed), [], "it failed there");

        let (other, mut effects) = w.host(6).joins_with();
        effects.extend(minute(&mut w));
        // Heartbeats of this world say that the owner has just come: nothing moves away then.
        if !keeps {
            assert_eq!(started_on(&effects, failed), [other]);
        }
    }
}

#[test]
fn a_task_that_was_given_back_waits_with_what_is_saved_of_it() {
    let mut w = World::new();
    let job = w.job(1).estimate(s(600)).keeps_state().submit();
    let host = w.host(1).joins();
    for ran in [100, 200, 300] {
        w.pass(s(100));
        let mut held = w.held(host);
        held[0].phase = Phase::Running;
        held[0].ran = s(ran);
        w.heard(host, held);
    }
    w.owner_comes(host);
    let attempts = w.books(host);
    w.send(Event::AttemptsReturned { host, attempts });
    assert!(w.scheduler.task_attempts(TaskId::new(job, 1)).is_empty());

    w.pass(s(100));
    w.host(2).joins();
    let end = w.scheduler.predict_finish(job, w.now);
    let left = end.expect("it goes on").since(w.now);
    assert!(s(200) < left && left < s(450), "{left}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However tasks that keep their state run, wait and end: the scheduler's own check after each step compares the
    /// sum that it keeps of what is saved of waiting ones with a count.
    #[test]
    fn what_is_saved_of_waiting_tasks_is_summed_as_they_change(
        acts in prop::collection::vec((0_u8..8, 1_u32..4, 1_u64..400), 1..60),
    ) {
        let mut w = World::new();
        let job = w.job(9).estimate(s(600)).max_losses(1_000).retries(3).keeps_state();
        let job = job.submit();
        for host in 1..=3 {
            w.host(host).joins();
        }

        for (act, host, secs) in acts {
            let host = HostId(host);
            let held = w.books(host);
            match (act, held.first().copied()) {
                (0, _) => {
                    w.host(host.0).joins();
                }
                (1, _) => {
                    w.parts(host);
                    w.pass(s(5 * secs));
                    w.host(host.0).joins();
                }
                (2, _) => {
                    w.owner_comes(host);
                    w.pass(s(secs));
                    w.owner_goes(host);
                }
                (3, Some(_)) => drop(w.send(events::returned(host, held))),
                (4, Some(attempt)) => drop(w.succeeds(host, attempt)),
                (5, Some(attempt)) => drop(w.fails(host, attempt)),
                (6, _) => drop(w.send(events::cancelled(job, Some((1..4).collect())))),
                _ => drop(w.moves(host, Phase::Running)),
            }
            w.pass(s(secs));
            w.beats(host);
        }
    }
}
