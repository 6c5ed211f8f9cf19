//! Which task goes where: placement, copies, prefetch.

use std::collections::BTreeSet;

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::YieldReason;
use common::needs::{Capacity, Demand, Needs, Offers};
use common::view::{JobState, TaskState};
use common::{HostId, Span};
use scheduler::effect::{CopyReason, StartReason, Verdict};
use scheduler::{Event, Settings, catalogue};

use crate::events;
use crate::world::{World, abandoned, s, starts, stopped, verdict};

#[test]
fn fcfs_takes_the_host_that_has_been_ready_for_longest() {
    let mut w = World::new();
    w.host(1).speed(1.0).joins();
    w.pass(s(1));
    w.host(2).speed(3.0).joins();
    w.job(1).policy("FCFS").submit();
    assert_eq!(w.books(HostId(1)).len(), 1);
}

#[test]
fn pri_cr_takes_the_fastest_ready_host() {
    let mut w = World::new();
    for (host, speed) in [(1, 1.0), (2, 3.0), (3, 2.0), (4, 3.0)] {
        w.host(host).speed(speed).joins();
        w.pass(s(1));
    }

    w.job(3).policy("PRI-CR").submit();
    let order: Vec<u32> = starts(&w.history[4].2)
        .iter()
        .map(|(host, ..)| host.0)
        .collect();
    assert_eq!(
        order,
        [2, 4, 3],
        "of equals the one that has been ready for longer"
    );
}

#[test]
fn excl_s_waits_for_no_host_that_gets_none_of_the_job() {
    let mut w = World::with(Settings {
        benching: true,
        ..Settings::default()
    });
    for (host, speed) in [(1, 3.0), (2, 1.0), (3, 1.0), (4, 3.0)] {
        w.host(host).speed(speed).joins();
    }
    w.job(60).policy("EXCL-S.5").retries(100).submit();
    for _ in 0..30 {
        w.pass(s(1));
        if let Some(attempt) = w.books(HostId(1)).first().copied() {
            w.fails(HostId(1), attempt);
        }
        if let Some(attempt) = w.books(HostId(4)).first().copied() {
            w.succeeds(HostId(4), attempt);
        }
    }
    let on = |w: &World| [1, 2, 3].map(|host| w.books(HostId(host)).len());
    assert_eq!(on(&w), [0, 0, 0], "one fails everything, and two are slow");

    // The only fast host that is left is the one that fails.
    w.send(Event::HostDrained { host: HostId(4) });
    w.pass(s(1));
    assert_eq!(on(&w), [0, 1, 1]);
}

#[test]
fn excl_s_waits_for_no_host_that_lacks_what_the_job_needs() {
    let takes = |memory_mib| Needs {
        takes: Demand {
            memory_mib,
            ..Demand::PLAIN
        },
        ..Needs::default()
    };
    let mut w = World::new();
    for (host, speed, memory_mib) in [(1, 3.0, 256), (2, 1.0, 256), (3, 1.0, 4_096)] {
        let offers = Offers {
            capacity: Capacity {
                cores: 1,
                memory_mib,
                gpus: 0,
            },
            ..Offers::default()
        };
        w.send(events::offered(HostId(host), offers));
        w.host(host).speed(speed).joins();
    }

    // The hosts of the first needs are kept apart from others, and then those of no more.
    for more in 0..40 {
        w.job(1).needs(takes(8_192 + more)).submit();
    }
    w.job(1).policy("EXCL-S.5").needs(takes(512)).submit();
    assert_eq!(w.books(HostId(3)).len(), 1);
}

#[test]
fn a_failed_task_among_thousands_of_idle_hosts_goes_at_once_to_a_fast_one_that_may_run_it() {
    let mut w = World::with(Settings {
        benching: true,
        ..Settings::default()
    });
    let fast = 1..=200;
    for host in 1..=1_100 {
        let speed = if fast.contains(&host) { 2.0 } else { 1.0 };
        w.host(host).speed(speed).joins();
    }
    w.pass(s(1));
    let policy = "deskgrid:copies_max=0.1";
    let job = w
        .job(10)
        .policy(policy)
        .estimate(s(600))
        .retries(1)
        .submit();
    let of = |w: &World, host| w.books(HostId(host)).first().copied();
    for host in 1..=1_100 {
        if of(&w, host).is_some() {
            w.moves(HostId(host), Phase::Running);
        }
    }

    // By then all idle hosts have been ranked for copies. A task without one fails.
    w.pass(s(40));
    let held: Vec<_> = (1..=1_100)
        .filter_map(|host| Some((HostId(host), of(&w, host)?)))
        .collect();
    let alone = |task| held.iter().filter(|(_, other)| other.task == task).count() == 1;
    let (failing, attempt) = held
        .iter()
        .copied()
        .find(|(_, attempt)| alone(attempt.task))
        .expect("not every task has a copy");
    let effects = w.ends(failing, attempt, Outcome::Exited(1), s(40));
    let again: Vec<_> = starts(&effects)
        .into_iter()
        .filter(|(_, started, _)| started.task == attempt.task)
        .collect();
    let [(host, _, StartReason::Retry(..))] = again[..] else {
        panic!("it starts again, once: {again:?}");
    };
    assert!(host != failing && fast.contains(&host.0), "{host}");
    assert_eq!(w.job_state(job), JobState::Running);
}

#[test]
fn lost_tasks_go_to_all_slots_of_the_fastest_hosts_among_many() {
    let mut w = World::new();
    for host in 1..=140 {
        let speed = if host <= 6 { 2.0 } else { 1.0 };
        w.host(host).slots(8).speed(speed).joins();
    }
    w.pass(s(1));
    w.job(16)
        .policy("deskgrid:copies_max=0.01")
        .estimate(s(600))
        .submit();
    for host in 1..=6 {
        w.moves(HostId(host), Phase::Running);
    }

    // By then all idle hosts have been ranked for copies.
    w.pass(s(40));
    let busiest = (1..=6).map(HostId).max_by_key(|host| w.books(*host).len());
    let busiest = busiest.expect("there are six");
    let lost = w.books(busiest).len();
    assert!(lost > 6, "more than there are fast hosts: {lost}");
    let effects = w.send(Event::HostLeft { host: busiest });
    let again: Vec<u32> = starts(&effects).iter().map(|(host, ..)| host.0).collect();
    assert_eq!(again.len(), lost);
    assert!(again.iter().all(|host| *host <= 6), "{again:?}");
}

#[test]
fn a_suspended_task_is_copied_to_a_host_that_would_idle() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let first = w.host(1).joins();
    w.moves(first, Phase::Running);

    let second = w.host(2).joins();
    assert_eq!(w.books(second), [], "nothing is stuck yet");

    let effects = w.owner_comes(first);
    let why = StartReason::Duplicate(1, CopyReason::Suspended(YieldReason::InUse));
    assert_eq!(starts(&effects), [(second, w.attempt_on(second), why)]);
    assert_eq!(w.task_state(job, 1), TaskState::Running);
    assert_eq!(w.scheduler.job_attempts(job), Some((2, 1)));
    w.host(3).joins();
    assert_eq!(
        w.books(HostId(3)),
        [],
        "one copy runs: nothing is stuck any more"
    );

    w.moves(second, Phase::Running);
    w.owner_comes(second);
    assert_eq!(w.books(HostId(3)), [], "and two live attempts are enough");
}

#[test]
fn a_task_on_a_silent_host_is_copied_before_the_lease_runs_out() {
    let mut w = World::new();
    w.job(1).submit();
    w.host(1).joins();
    let second = w.host(2).joins();
    w.pass(s(149));
    w.beats(second);
    let effects = w.pass(s(1));
    assert_eq!(
        starts(&effects)[0].2,
        StartReason::Duplicate(1, CopyReason::Suspect)
    );
    assert_eq!(w.books(second).len(), 1);
}

#[test]
fn waiting_tasks_come_before_copies() {
    let mut w = World::new();
    w.job(1).submit();
    let first = w.host(1).joins();
    w.moves(first, Phase::Running);
    w.owner_comes(first);
    let waiting = w.job(1).submit();
    let second = w.host(2).joins();
    assert_eq!(w.attempt_on(second).task.job, waiting);
}

#[test]
fn an_unexecuted_attempt_is_given_back_and_not_copied() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let first = w.host(1).joins();
    let second = w.host(2).joins();
    let attempt = w.attempt_on(first);

    w.send(events::owner(
        first,
        common::host::OwnerState::Present(YieldReason::Busy),
    ));
    assert_eq!(w.books(second), []);
    w.send(events::returned(first, vec![attempt]));
    assert_eq!(w.books(second).len(), 1);
    assert_eq!(w.scheduler.job_attempts(job), Some((2, 0)));
}

#[test]
fn fcfs_and_pri_cr_copy_nothing() {
    for policy in ["FCFS", "PRI-CR"] {
        let mut w = World::new();
        w.job(1).policy(policy).submit();
        let first = w.host(1).joins();
        w.moves(first, Phase::Running);
        let second = w.host(2).joins();
        w.owner_comes(first);
        assert_eq!(w.books(second), [], "{policy}");
    }
}

#[test]
fn short_tasks_are_prefetched_once_they_are_known_to_be_short() {
    let mut w = World::new();
    w.job(10_000).submit();

    let host = w.host(1).slots(2).joins();
    assert_eq!(w.books(host).len(), 2, "nothing is known yet");
    w.ends(
        host,
        w.books(host)[0],
        Outcome::Succeeded,
        Span::from_millis(10),
    );

    let held = w.books(host).len();
    assert!(
        (2 + 2 * 9..=2 + 2 * 10).contains(&held),
        "about 100 ms of 10 ms tasks for each slot, not {held}"
    );
}

#[test]
fn tasks_without_any_run_time_fill_the_host_up_to_the_limit() {
    let mut w = World::with(Settings {
        max_prefetch: 100,
        ..Settings::default()
    });
    w.job(10_000).submit();
    let host = w.host(1).slots(2).joins();
    w.ends(host, w.books(host)[0], Outcome::Succeeded, Span::ZERO);
    assert_eq!(w.books(host).len(), 102);
}

#[test]
fn long_tasks_are_never_prefetched() {
    let mut w = World::new();
    w.job(100).submit();
    let host = w.host(1).slots(2).joins();
    for _ in 0..10 {
        w.ends(host, w.books(host)[0], Outcome::Succeeded, s(1));
        assert_eq!(w.books(host).len(), 2);
    }
}

#[test]
fn one_long_task_among_short_ones_ends_the_prefetch() {
    let mut w = World::new();
    w.job(1_000).submit();

    let host = w.host(1).joins();
    w.ends(
        host,
        w.books(host)[0],
        Outcome::Succeeded,
        Span::from_millis(1),
    );

    assert!(w.books(host).len() > 10);
    w.ends(host, w.books(host)[0], Outcome::Succeeded, s(10));
    while w.books(host).len() > 1 {
        w.ends(host, w.books(host)[0], Outcome::Succeeded, s(10));
    }

    w.ends(host, w.books(host)[0], Outcome::Succeeded, s(10));
    assert_eq!(w.books(host).len(), 1);
}

#[test]
fn hosts_do_not_prefetch_tasks_that_fit_a_free_slot_elsewhere() {
    let mut w = World::new();
    w.job(8).submit();

    let first = w.host(1).slots(1).joins();
    let second = w.host(2).slots(1).joins();
    w.ends(
        first,
        w.attempt_on(first),
        Outcome::Succeeded,
        Span::from_millis(1),
    );

    assert_eq!(w.books(second).len(), 1);
    let held = w.books(first).len();
    assert!(
        held <= 4,
        "no more than its share of what waits, not {held}"
    );
}

#[test]
fn a_returned_backlog_goes_where_there_is_room() {
    let mut w = World::new();
    let job = w.job(50).submit();
    let first = w.host(1).joins();
    w.ends(
        first,
        w.attempt_on(first),
        Outcome::Succeeded,
        Span::from_millis(1),
    );

    let backlog = w.books(first);
    assert!(backlog.len() > 10);
    w.owner_comes(first);
    w.send(events::returned(first, backlog));
    w.host(2).slots(5).joins();
    assert_eq!(w.books(HostId(2)).len(), 5);

    w.work_off();
    assert_eq!(w.scheduler.job_counts(job).unwrap().finished, 50);
}

/// Host 1 with one slot and everything that waited, after one task of a millisecond.
fn with_a_backlog(w: &mut World) -> HostId {
    w.job(50).submit();
    let host = w.host(1).joins();
    w.ends(
        host,
        w.attempt_on(host),
        Outcome::Succeeded,
        Span::from_millis(1),
    );
    assert_eq!(w.books(host).len(), 49);
    host
}

#[test]
fn a_backlog_behind_a_long_task_is_taken_back() {
    let mut w = World::new();
    let first = with_a_backlog(&mut w);
    let second = w.host(2).slots(3).joins();
    assert_eq!(w.books(second), []);
    w.pass(Span::from_millis(1_999));
    assert_eq!(w.books(first).len(), 49);

    let effects = w.pass(Span::from_millis(1));
    assert_eq!(stopped(&effects).len(), 48);
    assert_eq!((w.books(first).len(), w.books(second).len()), (1, 3));

    let next: Vec<u32> = starts(&effects)
        .iter()
        .map(|(_, attempt, _)| attempt.task.index)
        .collect();
    assert_eq!(next, [3, 4, 5], "the one that should run by now stays");
}

#[test]
fn a_master_that_stood_still_takes_no_backlog_back() {
    let mut w = World::new();
    let host = with_a_backlog(&mut w);
    w.now = w.now + s(30);
    w.send(Event::Tick);
    w.ends(
        host,
        w.books(host)[0],
        Outcome::Succeeded,
        Span::from_millis(1),
    );
    w.pass(s(1));
    assert_eq!(w.books(host).len(), 48);
}

#[test]
fn a_backlog_that_moves_stays() {
    let mut w = World::new();
    let host = with_a_backlog(&mut w);
    for left in (40..49).rev() {
        w.pass(Span::from_millis(900));
        w.ends(
            host,
            w.books(host)[0],
            Outcome::Succeeded,
            Span::from_millis(1),
        );
        assert_eq!(w.books(host).len(), left);
    }
}

#[test]
fn tasks_taken_back_are_abandoned_but_their_results_count() {
    let mut w = World::new();
    let host = with_a_backlog(&mut w);
    let running = w.books(host)[0];
    let waiting = w.books(host)[1];
    let done = w.books(host)[2];

    w.pass(s(2));
    assert_eq!(w.books(host), [running]);

    let held = |attempt, phase| HeldAttempt {
        attempt,
        phase,
        ran: Span::ZERO,
        frozen_for: Span::ZERO,
        progress: None,
    };
    let list = vec![
        held(running, Phase::Running),
        held(waiting, Phase::Queued),
        held(done, Phase::Ended),
    ];
    assert_eq!(abandoned(&w.heard(host, list)), [waiting]);
    assert_eq!(verdict(&w.succeeds(host, done)), Verdict::Taken);
}

#[test]
fn a_task_with_one_attempt_that_can_go_on_is_not_copied() {
    let mut w = World::with(Settings {
        max_copies: 3,
        ..Settings::default()
    });
    w.job(1).submit();
    for host in [1, 2] {
        let host = w.host(host).joins();
        w.moves(host, Phase::Running);
        if host == HostId(1) {
            w.owner_comes(host);
        }
    }

    let third = w.host(3).joins();
    assert_eq!(w.books(third), []);
    w.owner_comes(HostId(2));
    assert_eq!(w.books(third).len(), 1);
}

#[test]
fn names_and_summaries_of_policies_are_unique_and_rows_complete() {
    let mut names: Vec<&str> = catalogue().iter().map(|policy| policy.name).collect();
    assert_eq!(names[0], common::job::DEFAULT_POLICY);
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    let summaries: BTreeSet<&str> = catalogue().iter().map(|policy| policy.summary).collect();
    assert_eq!(summaries.len(), count);
    for policy in catalogue() {
        assert!(
            !policy.name.is_empty() && !policy.source.is_empty() && policy.summary.ends_with('.'),
            "{policy:?}"
        );
    }
}

#[test]
fn lookahead_lets_a_slow_host_idle_only_for_hosts_of_its_own_job() {
    let mut w = World::new();
    let fast = w.host(1).speed(8.0).joins();
    w.job(1).estimate(s(36_000)).submit();
    assert_eq!(w.books(fast).len(), 1);

    let slow = w.host(2).speed(0.5).joins();
    w.job(1).estimate(s(600)).submit();
    assert_eq!(
        w.books(slow).len(),
        1,
        "nobody knows when the other job's host is free"
    );

    let mut w = World::new();
    let fast = w.host(1).speed(8.0).joins();
    let job = w.job(2).estimate(s(600)).submit();
    let slow = w.host(2).speed(0.5).joins();
    assert_eq!(
        (w.books(fast).len(), w.books(slow).len()),
        (1, 0),
        "two on the fast host take 150 s, one here 1,200 s"
    );

    let why = &w.scheduler.explain(job).unwrap().hosts[1].1;
    assert!(
        why.starts_with("ready: a busy host should be done sooner"),
        "{why}"
    );
}
