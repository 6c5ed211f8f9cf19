//! Hosts: silence, suspension, coming back, leaving.

use common::HostId;
use common::attempt::Phase;
use common::host::{OwnerState, YieldReason};
use common::view::{HostState, JobState, TaskState};
use scheduler::effect::{EndReason, Verdict};
use scheduler::{Effect, Event};

use crate::events;
use crate::world::{World, abandoned, ended, s, starts, verdict};

fn executing(effects: &[Effect]) -> usize {
    effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Executing { .. }))
        .count()
}

#[test]
fn a_silent_host_is_suspect_then_lost_and_its_work_goes_elsewhere() {
    let mut w = World::new();
    let job = w.job(1).policy("FCFS").submit();
    let silent = w.host(1).joins();
    let attempt = w.attempt_on(silent);

    w.pass(s(149));
    assert_eq!(w.host_state(silent), HostState::Busy);
    w.pass(s(1));
    assert_eq!(w.host_state(silent), HostState::Suspect);
    assert_eq!(w.books(silent), [attempt], "a suspect keeps its attempts");
    w.pass(s(749));
    assert_eq!(w.host_state(silent), HostState::Suspect);

    let effects = w.pass(s(1));
    assert_eq!(
        ended(&effects),
        [(attempt, EndReason::LeaseExpired(s(900)))]
    );
    assert_eq!(w.host_state(silent), HostState::Lost);
    assert_eq!(w.task_state(job, 1), TaskState::Waiting);
    assert_eq!(w.scheduler.host(silent).unwrap().lost, 1);
    w.host(2).joins();

    assert_eq!(w.task_state(job, 1), TaskState::Running);
}

#[test]
fn heartbeats_renew_the_lease() {
    let mut w = World::new();
    w.job(1).submit();

    let host = w.host(1).joins();
    for _ in 0..50 {
        w.pass(s(140));
        w.beats(host);
    }

    assert_eq!(w.host_state(host), HostState::Busy);
    w.pass(s(150));
    assert_eq!(
        w.host_state(host),
        HostState::Suspect,
        "from the latest heartbeat on"
    );
    w.beats(host);
    assert_eq!(w.host_state(host), HostState::Busy);
    w.pass(s(150));

    assert_eq!(w.host_state(host), HostState::Suspect, "and again");
}

#[test]
fn a_suspect_gets_no_new_work() {
    let mut w = World::new();
    let host = w.host(1).joins();
    w.pass(s(150));
    let job = w.job(1).submit();
    assert_eq!(w.task_state(job, 1), TaskState::Waiting);
    w.beats(host);
    assert_eq!(w.task_state(job, 1), TaskState::Running);
}

#[test]
fn the_masters_own_pause_is_nobodys_silence() {
    let mut w = World::new();
    w.job(1).submit();
    let host = w.host(1).joins();
    w.now = w.now + s(5_000);
    w.send(Event::MasterPaused { span: s(5_000) });
    w.send(Event::Tick);
    assert_eq!(w.host_state(host), HostState::Busy);
    w.pass(s(150));
    assert_eq!(w.host_state(host), HostState::Suspect);
}

#[test]
fn a_disconnected_host_keeps_its_attempts_but_gets_no_more() {
    let mut w = World::new();
    let host = w.host(1).slots(2).joins();
    let job = w.job(1).submit();
    let attempt = w.attempt_on(host);

    w.parts(host);
    let second = w.job(1).submit();
    assert_eq!(w.books(host), [attempt]);
    assert_eq!(w.task_state(second, 1), TaskState::Waiting);

    let (_, effects) = w
        .host(1)
        .slots(2)
        .holding(attempt, Phase::Running)
        .joins_with();
    assert_eq!(ended(&effects), []);
    assert_eq!(
        executing(&effects),
        1,
        "it began while nobody could be told"
    );
    assert_eq!(w.books(host).len(), 2);
    w.work_off();
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn attempts_returned_by_a_closing_host_are_not_sent_back_to_it() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);

    w.moves(host, Phase::Running);
    w.send(Event::HostClosing { host });
    assert_eq!(w.host_state(host), HostState::Draining);
    w.send(events::returned(host, vec![attempt]));
    assert_eq!(
        (w.books(host), w.task_state(job, 1)),
        (vec![], TaskState::Waiting)
    );
    w.send(Event::HostLeft { host });

    assert_eq!(w.scheduler.host(host).unwrap().lost, 0);
    w.host(1).joins();
    assert_eq!(w.task_state(job, 1), TaskState::Running, "it is back");
}

#[test]
fn suspended_is_not_lost() {
    let mut w = World::new();
    let job = w.job(1).policy("FCFS").submit();
    let host = w.host(1).joins();
    w.moves(host, Phase::Running);
    w.owner_comes(host);
    assert_eq!(w.host_state(host), HostState::Suspended);
    assert_eq!(w.task_state(job, 1), TaskState::Suspended);

    for _ in 0..100 {
        w.pass(s(120));
        w.beats(host);
    }

    assert_eq!(
        w.task_state(job, 1),
        TaskState::Suspended,
        "as long as heartbeats come, for ever"
    );
    w.owner_goes(host);
    assert_eq!(w.task_state(job, 1), TaskState::Running);
    w.work_off();
    assert_eq!(w.scheduler.job_attempts(job), Some((1, 0)));
}

#[test]
fn a_suspended_host_gets_no_new_work_and_says_why() {
    let mut w = World::new();
    let owner = OwnerState::Present(YieldReason::OnBattery);
    let (host, effects) = w.host(1).owner(owner).joins_with();
    let changed = Effect::HostChanged {
        host,
        state: HostState::Suspended,
        owner: Some(YieldReason::OnBattery),
    };
    assert_eq!(effects, [changed]);

    let job = w.job(1).submit();
    assert_eq!(w.task_state(job, 1), TaskState::Waiting);
    assert_eq!(
        w.scheduler.host(host).unwrap().reason.as_deref(),
        Some("on-battery")
    );
}

#[test]
fn attempts_forgotten_by_a_restarted_worker_are_requeued_at_once() {
    let mut w = World::new();
    w.job(1).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);
    let (_, effects) = w.host(1).joins_with();
    assert_eq!(ended(&effects), [(attempt, EndReason::Forgotten)]);
    assert_eq!(starts(&effects).len(), 1);
}

#[test]
fn one_heartbeat_without_an_attempt_may_have_crossed_its_assignment() {
    let mut w = World::new();
    w.job(1).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);
    assert_eq!(ended(&w.heard(host, vec![])), []);
    w.pass(s(60));
    let effects = w.heard(host, vec![]);
    assert_eq!(
        ended(&effects),
        [(attempt, EndReason::Forgotten)],
        "two have not"
    );
}

#[test]
fn heartbeats_that_waited_together_say_nothing_of_what_was_assigned_before_them() {
    let mut w = World::new();
    w.job(1).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);
    for _ in 0..5 {
        assert_eq!(ended(&w.heard(host, vec![])), []);
    }
    w.pass(s(60));
    w.beats(host);
    assert_eq!(w.attempt_on(host), attempt);
}

#[test]
fn a_lost_host_that_returns_keeps_its_attempts() {
    let mut w = World::new();
    let job = w.job(1).max_losses(1).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);

    for _ in 0..3 {
        w.moves(host, Phase::Running);
        w.parts(host);
        w.pass(s(2_000));
        assert_eq!(w.task_state(job, 1), TaskState::Waiting);

        let (_, effects) = w.host(1).holding(attempt, Phase::Running).joins_with();
        assert_eq!(
            starts(&effects),
            [],
            "its slot is taken by the attempt that it still has"
        );
        assert_eq!(
            w.books(host),
            [attempt],
            "and that was not lost after all, so nothing is charged"
        );
    }

    assert_eq!(verdict(&w.succeeds(host, attempt)), Verdict::Taken);
}

#[test]
fn held_attempts_of_no_use_are_abandoned() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);
    w.send(Event::JobCancelled { job, tasks: None });
    let (_, effects) = w.host(1).holding(attempt, Phase::Running).joins_with();
    assert_eq!(abandoned(&effects), [attempt]);
    let (_, effects) = w.host(2).holding(attempt, Phase::Running).joins_with();
    assert_eq!(abandoned(&effects), [attempt], "another host's");
}

#[test]
fn an_attempt_that_is_listed_twice_is_held_once() {
    let mut w = World::new();
    w.job(1).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);
    w.pass(s(2_000));
    let (_, effects) = w
        .host(1)
        .holding(attempt, Phase::Running)
        .holding(attempt, Phase::Running)
        .joins_with();
    assert_eq!(abandoned(&effects), []);
    assert_eq!(w.books(host), [attempt]);
}

#[test]
fn a_finished_attempt_of_a_lost_host_is_waited_for_even_beyond_the_copies() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let first = w.host(1).joins();
    let attempt = w.attempt_on(first);

    w.moves(first, Phase::Running);
    w.pass(s(2_000));

    let second = w.host(2).joins();
    w.moves(second, Phase::Running);
    w.owner_comes(second);
    w.host(3).joins();

    let (_, effects) = w.host(1).holding(attempt, Phase::Ended).joins_with();
    assert_eq!(abandoned(&effects), []);
    assert_eq!(w.books(first), []);
    assert_eq!(verdict(&w.succeeds(first, attempt)), Verdict::Taken);
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn a_host_that_leaves_in_order_charges_nobody() {
    let mut w = World::new();
    let job = w.job(2).max_losses(0).submit();
    let host = w.host(1).slots(2).joins();
    w.moves(host, Phase::Running);

    let effects = w.send(Event::HostLeft { host });
    assert_eq!(ended(&effects).len(), 2);
    assert!(
        ended(&effects)
            .iter()
            .all(|(_, why)| *why == EndReason::HostLeft)
    );
    assert_eq!(w.scheduler.job_counts(job).unwrap().waiting, 2);
    assert_eq!(
        w.heard(host, vec![]),
        [],
        "nothing is heard from it until it joins again"
    );
    w.host(1).joins();

    assert_eq!(w.scheduler.job_counts(job).unwrap().running, 1);
}

#[test]
fn a_draining_host_finishes_its_attempts_and_gets_no_more() {
    let mut w = World::new();
    let job = w.job(2).submit();
    let host = w.host(1).joins();
    w.send(Event::HostDrained { host });
    assert_eq!(w.host_state(host), HostState::Draining);
    w.succeeds(host, w.attempt_on(host));
    assert_eq!(w.books(host), []);
    w.host(1).joins();
    assert_eq!(w.books(host), [], "a drain outlives a reconnection");
    w.send(Event::HostUndrained { host });
    w.work_off();
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn after_a_restart_hosts_have_a_full_lease_to_come_back() {
    let mut w = World::new();
    let job = w.job(2).submit();
    let host = w.host(1).slots(2).joins();
    let held = w.books(host);

    w.now = w.now + s(3_600);
    w.restart();
    assert_eq!(w.host_state(host), HostState::Suspect);

    let reason = w.scheduler.host(host).unwrap().reason;
    assert_eq!(
        reason.as_deref(),
        Some("not reconnected since the master restarted")
    );

    let other = w.host(2).joins();
    assert_eq!(
        w.books(other),
        [],
        "a fleet that is about to reconnect is not duplicated"
    );
    w.pass(s(39));
    assert_eq!(w.books(other), [], "it has its time");
    w.pass(s(860));
    assert_eq!(w.books(host), held);
    w.pass(s(1));
    assert_eq!(w.host_state(host), HostState::Lost);

    assert_eq!(w.scheduler.job_counts(job).unwrap().suspended, 0);
}

#[test]
fn events_from_hosts_that_nobody_knows_change_nothing() {
    let mut w = World::new();
    let host = HostId(66);
    assert_eq!(w.heard(host, vec![]), []);
    assert_eq!(w.send(events::owner(host, OwnerState::Away)), []);

    assert_eq!(w.parts(host), []);
    assert_eq!(w.send(Event::HostLeft { host }), []);
    assert_eq!(w.send(events::returned(host, vec![])), []);

    assert_eq!(w.scheduler.host(host), None);
}

#[test]
fn time_that_runs_backwards_is_ignored() {
    let mut w = World::new();
    w.job(1).submit();
    let host = w.host(1).joins();
    w.pass(s(100));
    w.beats(host);
    w.now = common::Time(0);
    w.beats(host);
    assert_eq!(
        w.scheduler.host(host).unwrap().heard,
        Some(common::Time(101_000_000))
    );
}

#[test]
fn the_end_of_time_is_survived() {
    let mut w = World::new();
    w.job(40).submit();

    let host = w.host(1).joins();
    w.ends(
        host,
        w.attempt_on(host),
        common::attempt::Outcome::Succeeded,
        common::Span(1),
    );

    let mut effects = Vec::new();
    w.scheduler
        .step(common::Time(u64::MAX), Event::Tick, &mut effects);
    assert_eq!(w.host_state(host), HostState::Lost);
    w.scheduler
        .step(common::Time(u64::MAX), Event::Tick, &mut effects);
    assert_eq!(w.scheduler.next_wakeup(), None);
}

#[test]
fn a_shared_host_gets_fewer_tasks_and_its_frozen_ones_are_copied() {
    let mut w = World::new();
    let host = w.host(1).slots(3).joins();
    let job = w.job(2).submit();

    w.moves(host, Phase::Running);
    assert_eq!(w.books(host).len(), 2);

    let frozen = w.books(host)[1];
    let (idle, effects) = w.host(2).slots(2).joins_with();
    assert_eq!(starts(&effects), []);

    let owner = OwnerState::Sharing(YieldReason::Busy, 1);
    w.send(Event::OwnerChanged { host, owner });

    let mut held = w.held(host);
    held[1].phase = Phase::Suspended(YieldReason::Busy);
    held[1].frozen_for = s(5);

    let effects = w.send(Event::AttemptsMoved { host, held });
    let copied: Vec<_> = starts(&effects)
        .iter()
        .map(|(to, attempt, _)| (*to, attempt.task))
        .collect();
    assert_eq!(copied, [(idle, frozen.task)], "the other one goes on");
    assert_eq!(
        (w.host_state(host), w.task_state(job, 1)),
        (HostState::Busy, TaskState::Running)
    );

    let shown = w.scheduler.host(host).unwrap();
    assert_eq!((shown.slots, shown.usable_slots), (3, 1));
    assert_eq!(shown.reason.unwrap(), "busy: tasks may use 1 of 3 slots");

    let live = w.scheduler.task_attempts(frozen.task);
    assert_eq!(live[0].suspended_since, Some(w.now - s(5)));
    for attempt in w.books(host) {
        w.succeeds(host, attempt);
    }

    w.job(9).submit();
    assert_eq!((w.books(host).len(), w.books(idle).len()), (1, 2));
    w.send(events::owner(
        host,
        OwnerState::Sharing(YieldReason::Busy, 0),
    ));
    assert_eq!(
        w.host_state(host),
        HostState::Suspended,
        "who shares nothing is not away"
    );
}

#[test]
fn suspended_time_is_counted_over_all_suspensions() {
    let mut w = World::new();
    w.job(1).policy("FCFS").submit();

    let host = w.host(1).joins();
    w.moves(host, Phase::Running);

    let task = w.attempt_on(host).task;
    for _ in 0..2 {
        w.owner_comes(host);
        w.pass(s(30));
        w.owner_goes(host);
        w.pass(s(20));
    }

    let live = w.scheduler.task_attempts(task);
    assert_eq!((live[0].suspended, live[0].suspended_since), (s(60), None));
}

#[test]
fn a_run_time_goes_on_between_reports_while_the_attempt_runs_and_its_host_is_connected() {
    let mut w = World::new();
    w.job(1).policy("FCFS").submit();

    let host = w.host(1).joins();
    let task = w.attempt_on(host).task;
    let ran = |w: &World| w.scheduler.task_attempts(task)[0].ran_by(w.now);
    let report = |w: &mut World, phase, ran| {
        let mut held = w.held(host);
        held[0].phase = phase;
        held[0].ran = ran;
        w.send(Event::AttemptsMoved { host, held });
    };
    w.pass(s(10));
    assert_eq!(ran(&w), s(0), "it has not begun");

    report(&mut w, Phase::Running, s(0));
    w.pass(s(20));
    assert_eq!(ran(&w), s(20));

    let owner = OwnerState::Present(YieldReason::Busy);
    w.send(Event::OwnerChanged { host, owner });
    w.pass(s(30));
    assert_eq!(ran(&w), s(20), "its report is still to come");

    report(&mut w, Phase::Suspended(YieldReason::Busy), s(21));
    w.pass(s(30));
    assert_eq!(ran(&w), s(21), "it stands still");

    let owner = OwnerState::Away;
    w.send(Event::OwnerChanged { host, owner });
    report(&mut w, Phase::Running, s(21));
    w.pass(s(5));
    w.parts(host);
    w.pass(s(30));
    assert_eq!(ran(&w), s(26), "nobody knows more");
}

#[test]
fn a_host_tells_how_likely_an_hour_without_its_owner_is() {
    let mut w = World::new();
    let (calm, busy) = (w.host(1).joins(), w.host(2).joins());
    let says = |w: &mut World, host, owner| drop(w.send(Event::OwnerChanged { host, owner }));
    for _ in 0..50 {
        for _ in 0..6 {
            w.pass(s(100));
            says(&mut w, calm, OwnerState::Away);
            says(&mut w, busy, OwnerState::Away);
        }
        says(&mut w, busy, OwnerState::Present(YieldReason::Busy));
        let none = w.scheduler.undisturbed_1h(busy);
        assert_eq!(none, None, "nothing runs there now");
        w.pass(s(60));
        says(&mut w, busy, OwnerState::Away);
    }

    let chance = |host| w.scheduler.undisturbed_1h(host);
    let (calm, busy) = (chance(calm).unwrap_or(0.0), chance(busy).unwrap_or(1.0));
    assert!(
        busy > 0.0 && busy < 0.1 && calm > 2.0 * busy,
        "{calm} {busy}"
    );
}
