//! Attempts that hold a job up though hosts are idle: on hosts of which nothing is heard, and such
//! as run beyond everything seen.

use std::collections::BTreeMap;

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::view::JobState;
use common::{AttemptId, HostId, JobId, Span, Time};
use proptest::prelude::*;
use scheduler::Event;
use scheduler::effect::{CopyReason, Effect, StartReason};

use crate::needs::first_of;
use crate::world::{World, s, starts};

fn millis(span_ms: u64) -> Span {
    Span::from_millis(span_ms)
}

/// Copies for gain come earlier than those that rescue: where these are shown, there are none.
const RESCUES: &str = "deskgrid:copies_max=0";

/// A job of `tasks` tasks that run on as many hosts at once.
fn all_running(w: &mut World, tasks: u32) -> JobId {
    for host in 1..=tasks {
        w.host(host).joins();
    }
    let job = w.job(tasks).policy(RESCUES).submit();
    (1..=tasks).for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
    job
}

fn done(w: &mut World, host: u32, ran: Span) {
    let (host, attempt) = (HostId(host), w.attempt_on(HostId(host)));
    w.ends(host, attempt, Outcome::Succeeded, ran);
}

#[test]
fn an_attempt_that_runs_for_three_times_the_longest_seen_is_copied_to_an_idle_host() {
    let mut w = World::new();
    let job = all_running(&mut w, 3);
    let stuck = w.attempt_on(HostId(3));

    w.pass(s(2));
    done(&mut w, 1, s(2));
    done(&mut w, 2, s(2));
    assert_eq!(
        starts(&w.pass(millis(3_900))),
        [],
        "not yet three times two seconds"
    );

    let effects = w.pass(millis(200));
    let [(host, copy, StartReason::Duplicate(1, CopyReason::Overdue { ran, longest }))] =
        starts(&effects)[..]
    else {
        panic!("one copy starts, and says why: {effects:?}");
    };
    assert_eq!((copy.task, longest), (stuck.task, s(2)));
    assert!(
        host != HostId(3) && (s(6)..=millis(6_100)).contains(&ran),
        "{host} {ran}"
    );
    w.moves(host, Phase::Running);

    assert_eq!(
        starts(&w.pass(s(100))),
        [],
        "a copy goes on: another one would hardly end sooner"
    );
    w.ends(host, copy, Outcome::Succeeded, s(2));
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn an_overdue_attempt_of_a_job_with_a_promise_is_copied_to_an_idle_host() {
    let mut w = World::new();
    for host in 1..=3 {
        w.host(host).joins();
    }
    let promised = w.job(3).policy("PROMISE").estimate(s(2));
    let job = promised.deadline(60).submit();
    (1..=3).for_each(|host| drop(w.moves(HostId(host), Phase::Running)));

    w.pass(s(2));
    done(&mut w, 1, s(2));
    done(&mut w, 2, s(2));
    assert_eq!(starts(&w.pass(millis(3_900))), []);
    let rows = w.scheduler.explain(job).expect("the job is there").hosts;
    let waits = "none is overdue; the first one would be copied in";
    assert!(rows.iter().any(|(_, why)| why.contains(waits)), "{rows:?}");

    let copies = starts(&w.pass(millis(200)));
    let [(host, copy, StartReason::Duplicate(1, CopyReason::Overdue { .. }))] = copies[..] else {
        panic!("one copy starts: {copies:?}");
    };
    w.moves(host, Phase::Running);
    w.ends(host, copy, Outcome::Succeeded, s(2));
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn an_attempt_whose_end_the_master_could_not_hear_of_in_its_own_pause_is_not_overdue() {
    let mut w = World::new();
    all_running(&mut w, 3);
    w.pass(s(2));
    done(&mut w, 1, s(2));
    w.pass(s(1));

    w.now = w.now + s(60);
    let mut effects = w.send(Event::MasterPaused { span: s(60) });
    effects.extend(w.send(Event::Tick));
    assert_eq!(starts(&effects), [], "its result may be on its way");
    done(&mut w, 2, s(3));

    assert_eq!(starts(&w.pass(millis(2_900))), []);
    let rest = starts(&w.pass(s(4)));
    assert_eq!(rest.len(), 1, "the other one hangs: {rest:?}");
}

#[test]
fn no_attempt_is_overdue_within_five_seconds() {
    let mut w = World::new();
    all_running(&mut w, 2);
    w.pass(millis(10));
    done(&mut w, 1, millis(10));
    assert_eq!(starts(&w.pass(millis(4_900))), []);
    assert_eq!(starts(&w.pass(millis(200))).len(), 1);
}

#[test]
fn run_times_are_normalised_by_the_speed_of_the_host() {
    let mut w = World::new();
    w.host(1).speed(2.0).joins();
    w.host(2).speed(1.0).joins();
    w.job(2).policy(RESCUES).submit();
    [1, 2]
        .into_iter()
        .for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
    w.pass(s(5));

    done(&mut w, 1, s(5));
    assert_eq!(
        starts(&w.pass(s(24))),
        [],
        "five seconds there are ten here"
    );
    assert_eq!(starts(&w.pass(millis(1_100))).len(), 1);
}

#[test]
fn the_estimate_counts_while_no_task_has_finished() {
    let mut w = World::new();
    w.host(1).joins();
    w.host(2).joins();
    w.job(1).estimate(s(4)).submit();
    w.job(1).submit();
    [1, 2]
        .into_iter()
        .for_each(|host| drop(w.moves(HostId(host), Phase::Running)));

    w.host(3).joins();
    assert_eq!(starts(&w.pass(s(3))), [], "it is not overdue");

    let copies = starts(&w.pass(s(9)));
    assert_eq!(copies.len(), 1);
    assert_eq!(
        copies[0].1.task.job,
        JobId(1),
        "of the other nothing is known"
    );
}

#[test]
fn time_in_which_an_attempt_stands_still_makes_it_no_older() {
    let mut w = World::new();
    let waiting = |w: &mut World, host: u32| {
        w.owner_comes(HostId(host));
    };
    all_running(&mut w, 2);
    w.pass(s(1));
    waiting(&mut w, 2);

    // Both hosts are taken while it stands still, so that it is not copied for that.
    w.job(1).submit();
    done(&mut w, 1, s(1));
    w.moves(HostId(1), Phase::Running);
    w.pass(s(60));
    w.owner_goes(HostId(2));
    done(&mut w, 1, s(60));
    assert_eq!(starts(&w.pass(s(3))), [], "it has run for four seconds");
    assert_eq!(starts(&w.pass(millis(2_100))).len(), 1);
}

#[test]
fn no_task_is_copied_while_tasks_of_its_job_wait() {
    let mut w = World::new();
    w.host(1).joins();
    w.host(2).joins();
    w.job(4).submit();
    [1, 2]
        .into_iter()
        .for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
    w.pass(s(1));

    done(&mut w, 1, s(1));
    w.moves(HostId(1), Phase::Running);

    let effects = w.pass(s(30));
    assert_eq!(starts(&effects), []);
    done(&mut w, 1, s(31));
    assert_eq!(
        w.attempt_on(HostId(1)).number,
        1,
        "the last waiting task first"
    );
}

#[test]
fn a_copy_that_is_stuck_as_well_is_rescued_only_once_its_host_is_gone() {
    let mut w = World::new();
    all_running(&mut w, 4);
    (1..=3).for_each(|host| done(&mut w, host, s(1)));
    let copies = starts(&w.pass(s(6)));
    let [(copier, ..)] = copies[..] else {
        panic!("one copy: {copies:?}")
    };
    w.moves(copier, Phase::Running);
    assert_eq!(starts(&w.pass(s(60))), []);
}

#[test]
fn a_task_that_failed_too_often_is_not_tried_again_while_another_host_is_silent() {
    let mut w = World::new();
    let job = w.job(1).retries(0).submit();
    let gone = w.host(1).joins();
    w.moves(gone, Phase::Running);
    let other = w.host(2).joins();
    w.dies(gone);
    w.pass(s(2));

    let effects = w.fails(other, w.attempt_on(other));
    assert_eq!(starts(&effects), []);
    let running = w.scheduler.running(job, w.now);
    let told: Vec<_> = running
        .iter()
        .map(|row| (row.host, row.copied_in))
        .collect();
    assert_eq!(told, [(gone, None)]);
    let held_up = w.scheduler.explain(job).expect("the job is there").held_up;
    let doubts = held_up.iter().filter_map(|row| row.doubt);
    let told: Vec<Option<Span>> = doubts.map(|doubt| doubt.copied_in).collect();
    assert_eq!(told, [None], "no copy is announced");

    assert_eq!(starts(&w.pass(s(60))), [], "it has no retry left");
    w.pass(s(3_600));
    assert_eq!(w.job_state(job), JobState::Failed);
}

#[test]
fn a_host_that_is_not_connected_for_a_second_has_its_tasks_copied() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let gone = w.host(1).joins();
    w.moves(gone, Phase::Running);

    let idle = w.host(2).joins();
    w.pass(s(3));
    w.parts(gone);
    assert_eq!(starts(&w.pass(millis(900))), []);

    let effects = w.pass(millis(100));
    assert_eq!(
        starts(&effects)[0].2,
        StartReason::Duplicate(1, CopyReason::Suspect)
    );
    assert_eq!((starts(&effects).len(), w.books(idle).len()), (1, 1));
    w.host(3).joins();
    assert_eq!(starts(&w.pass(s(100))), [], "one copy goes on");
    assert_eq!(
        w.books(gone).len(),
        1,
        "and the first attempt may still win"
    );

    w.succeeds(idle, w.attempt_on(idle));
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn a_host_that_comes_back_within_a_second_is_left_alone() {
    let mut w = World::new();
    w.job(1).submit();
    let host = w.host(1).joins();
    w.host(2).joins();
    let attempt = w.attempt_on(host);
    for _ in 0..5 {
        w.parts(host);
        assert_eq!(starts(&w.pass(millis(900))), []);
        w.host(1).holding(attempt, Phase::Running).joins();
        assert_eq!(starts(&w.pass(millis(900))), []);
    }
}

/// A grid whose first host runs a task, has been away twenty times in this way and for so long, and was back with the task
/// each time. A second host is idle.
fn often_away(leave: fn(&mut World, HostId) -> Vec<Effect>, away: Span) -> (World, HostId) {
    let mut w = World::new();
    let job = w.job(1).policy("deskgrid:copies_max=0");
    job.estimate(s(6_000)).submit();
    let host = w.host(1).joins();
    w.moves(host, Phase::Running);
    let attempt = w.attempt_on(host);
    for _ in 0..20 {
        leave(&mut w, host);
        w.pass(away);
        w.host(1).holding(attempt, Phase::Running).joins();
    }

    w.host(2).joins();
    (w, host)
}

#[test]
fn hosts_that_often_come_back_after_some_seconds_are_waited_for_so_long() {
    let (mut w, host) = often_away(World::parts, s(5));
    w.parts(host);
    assert_eq!(starts(&w.pass(millis(7_900))), []);
    assert_eq!(
        starts(&w.pass(millis(100)))[0].2,
        StartReason::Duplicate(1, CopyReason::Suspect)
    );
}

#[test]
fn where_hosts_are_often_silent_for_seconds_one_whose_process_died_is_doubted_at_once() {
    let (mut w, host) = often_away(World::parts, s(25));
    w.dies(host);
    assert_eq!(starts(&w.pass(millis(900))), []);
    assert_eq!(
        starts(&w.pass(millis(100)))[0].2,
        StartReason::Duplicate(1, CopyReason::Suspect)
    );
}

#[test]
fn hosts_whose_workers_are_back_with_their_attempts_after_they_died_are_waited_for_so_long() {
    let (mut w, host) = often_away(World::dies, s(5));
    w.dies(host);
    assert_eq!(starts(&w.pass(millis(7_900))), []);
    assert_eq!(starts(&w.pass(millis(100))).len(), 1);
}

/// Of a grid of `hosts`, `parting` run a task each, and part one after the other, `apart`. Returns the starts until the
/// last has parted, in the half minute after that, and in the two seconds that follow.
fn starts_where_many_part(hosts: u32, parting: u32, apart: Span) -> [usize; 3] {
    let mut w = World::new();
    for host in 1..=parting {
        w.host(host).joins();
    }
    let job = w.job(parting).policy(RESCUES);
    job.estimate(s(600)).submit();
    (1..=parting).for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
    for host in parting + 1..=hosts {
        w.host(host).joins();
    }

    let mut started = 0;
    for host in (1..=parting).map(HostId) {
        w.parts(host);
        started += starts(&w.pass(apart)).len();
    }
    let after = [s(31), s(2)].map(|span| starts(&w.pass(span)).len());
    [started, after[0], after[1]]
}

#[test]
fn many_hosts_that_part_at_once_are_taken_to_come_back() {
    let of_24 = starts_where_many_part(24, 12, millis(50));
    assert_eq!(of_24, [0, 0, 12], "a switch starts again");

    let of_600 = starts_where_many_part(600, 24, millis(50));
    assert_eq!(of_600[0], 0, "a switch of 24 ports, a twenty-fifth of all");
    assert_eq!(of_600.iter().sum::<usize>(), 24);
}

/// A grid of so many hosts with a task each, after a restart of the master; with the attempts on them.
fn restarted(hosts: u32) -> (World, Vec<AttemptId>) {
    let mut w = World::new();
    for host in 1..=hosts {
        w.host(host).joins();
    }
    let job = w.job(hosts).policy(RESCUES);
    job.estimate(s(600)).submit();
    let attempts = (1..=hosts).map(HostId).map(|host| {
        w.moves(host, Phase::Running);
        w.attempt_on(host)
    });
    let attempts = attempts.collect();
    w.restart();
    (w, attempts)
}

#[test]
fn after_a_restart_a_host_that_does_not_come_back_with_the_others_is_doubted() {
    let (mut w, attempts) = restarted(2);
    w.pass(s(2));
    w.host(1).holding(attempts[0], Phase::Running).joins();
    w.host(3).joins();

    assert_eq!(starts(&w.pass(s(37))), []);
    let copies = starts(&w.pass(s(2)));
    let doubted = StartReason::Duplicate(1, CopyReason::Suspect);
    assert_eq!((copies.len(), copies[0].2.clone()), (1, doubted));

    w.host(2).holding(attempts[1], Phase::Running).joins();
    assert_eq!(w.books(HostId(2)), [attempts[1]], "and may still win");
}

#[test]
fn hundreds_of_hosts_that_are_back_within_half_a_minute_of_a_restart_cause_no_copy() {
    let (mut w, attempts) = restarted(200);
    for host in 201..=210 {
        w.host(host).joins();
    }
    let mut copies = starts(&w.pass(s(10)));
    for (host, attempt) in (1..).zip(attempts) {
        w.host(host).holding(attempt, Phase::Running).joins();
        copies.extend(starts(&w.pass(millis(100))));
    }
    copies.extend(starts(&w.pass(s(60))));
    assert_eq!(copies, []);
}

#[test]
fn after_a_restart_hosts_are_waited_for_while_others_come_back() {
    let (mut w, attempts) = restarted(20);
    w.host(21).joins();
    let mut copies = Vec::new();
    for (host, attempt) in (1..).zip(attempts) {
        copies.extend(starts(&w.pass(s(5))));
        w.host(host).holding(attempt, Phase::Running).joins();
    }
    assert_eq!(copies, []);
}

#[test]
fn a_silent_hosts_task_is_copied_beyond_the_copy_budget() {
    let mut w = World::new();
    w.job(1)
        .policy("deskgrid:copies_max=0")
        .estimate(s(3_600))
        .submit();
    let gone = w.host(1).joins();
    w.moves(gone, Phase::Running);
    let idle = w.host(2).joins();
    w.parts(gone);
    w.pass(s(10));
    assert_eq!(w.books(idle).len(), 1);
}

#[test]
fn no_ready_host_is_kept_for_a_faster_one_that_is_not_connected() {
    let mut w = World::new();
    for (host, speed) in [(1, 2.86), (2, 2.89), (3, 2.86)] {
        w.host(host).speed(speed).joins();
    }

    w.job(6).submit();
    (1..=3).for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
    w.pass(s(6));
    w.parts(HostId(2));
    w.pass(s(14));
    done(&mut w, 1, s(20));
    done(&mut w, 3, s(20));

    let taken = |w: &World, host| w.books(HostId(host)).len();
    assert_eq!((taken(&w, 1), taken(&w, 3)), (1, 1), "four tasks wait");
    [1, 3]
        .into_iter()
        .for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
    w.pass(s(20));
    done(&mut w, 1, s(20));
    assert_eq!(taken(&w, 1), 1, "and the next one is not kept back either");
}

#[test]
fn policies_of_papers_copy_as_their_papers_say() {
    for policy in ["FCFS", "PRI-CR", "EXCL-PRED"] {
        let mut w = World::new();
        w.job(2).policy(policy).submit();
        for host in 1..=2 {
            w.host(host).joins();
        }
        (1..=2).for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
        w.pass(s(1));
        done(&mut w, 1, s(1));
        assert_eq!(starts(&w.pass(s(100))), [], "{policy}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is stuck where, as long as one host is sound: once every other task is done the job
    /// ends within three times the longest seen, five seconds at least, and the time of a task; and
    /// no task has more than two attempts.
    #[test]
    fn tasks_that_are_stuck_on_some_hosts_do_not_hold_the_job(
        tasks_ms in prop::collection::vec(100_u64..8_000, 2..16),
        hosts in 2_u32..8,
        stuck in prop::collection::btree_set(0_u32..16, 1..5),
    ) {
        let mut w = World::new();
        let tasks = tasks_ms.len() as u32;

        // One task at least shows how long they take, and there are fewer stuck ones than hosts.
        let stuck: Vec<u32> = stuck.into_iter().filter(|index| *index < tasks).take(hosts as usize - 1).collect();
        prop_assume!(!stuck.is_empty() && stuck.len() < tasks_ms.len());
        for host in 1..=hosts {
            w.host(host).joins();
        }

        let job = w.job(tasks).submit();
        let longest = millis(*tasks_ms.iter().max().expect("there are tasks"));
        let patience = s(10) + Span(longest.0 * (4 + u64::from(tasks)));
        let deadline = w.now + patience;
        let mut began: BTreeMap<AttemptId, Time> = BTreeMap::new();

        while !w.job_state(job).settled() && w.now < deadline {
            for host in (1..=hosts).map(HostId) {
                let Some(attempt) = w.books(host).first().copied() else { continue };
                let index = attempt.task.index - 1;
                let takes = millis(tasks_ms[index as usize]);
                let ran = w.now.since(*began.entry(attempt).or_insert(w.now));
                if ran >= takes && !(attempt.number == 1 && stuck.contains(&index)) {
                    w.ends(host, attempt, Outcome::Succeeded, takes);
                } else {
                    let progress = None;
                    let held = vec![HeldAttempt { attempt, phase: Phase::Running, ran, frozen_for: Span::ZERO, progress }];
                    w.send(Event::AttemptsMoved { host, held });
                }
            }

            w.pass(millis(500));
        }

        prop_assert_eq!(w.job_state(job), JobState::Finished);
        let (attempts, duplicates) = w.scheduler.job_attempts(job).expect("the job is there");
        prop_assert!(duplicates <= u64::from(tasks) && attempts <= 2 * u64::from(tasks));
    }
}

/// Two hosts that are held responsible for what they do not begin; all of a job is on the first.
fn mute_host() -> (World, JobId) {
    let mut w = World::with(scheduler::Settings {
        benching: true,
        ..scheduler::Settings::default()
    });
    w.host(1).joins();
    let job = w.job(1).submit();
    w.host(2).joins();
    (w, job)
}

#[test]
fn an_attempt_that_its_host_does_not_begin_for_ten_seconds_is_copied_to_an_idle_host() {
    let (mut w, job) = mute_host();
    w.pass(s(5));
    w.beats(HostId(1));
    w.beats(HostId(2));
    assert_eq!(starts(&w.pass(millis(4_900))), [], "not yet ten seconds");

    let effects = w.pass(millis(200));
    let [(host, copy, StartReason::Duplicate(1, CopyReason::NotBegun(waited)))] =
        starts(&effects)[..]
    else {
        panic!("one copy starts, and says why: {effects:?}");
    };
    assert!(host == HostId(2) && waited >= s(10), "{host} {waited}");
    w.moves(host, Phase::Running);
    w.ends(host, copy, Outcome::Succeeded, s(2));
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn an_attempt_that_fetches_inputs_is_not_taken_for_idle() {
    let (mut w, _) = mute_host();
    w.moves(HostId(1), Phase::Staging);
    for _ in 0..10 {
        w.pass(s(5));
        w.beats(HostId(2));
        assert_eq!(starts(&w.beats(HostId(1))), []);
    }
}

/// A grid where a start took this long; a task of another job, or of the same one, is fetched on a
/// host while another host is idle.
fn staging(start: Span, same_job: bool) -> (World, HostId) {
    let mut w = World::new();
    let taught = w.host(1).joins();
    let tasks = if same_job { 2 } else { 1 };
    w.job(tasks).policy(RESCUES).submit();
    w.pass(start);
    w.moves(taught, Phase::Running);
    w.pass(s(1));
    w.ends(taught, w.attempt_on(taught), Outcome::Succeeded, s(1));
    if !same_job {
        w.job(1).policy(RESCUES).submit();
    }
    w.moves(taught, Phase::Staging);
    w.host(2).joins();
    (w, taught)
}

/// Lets so many seconds pass; returns those after which the attempt on
/// the first is copied, and why.
fn copied_after(w: &mut World, secs: u64) -> Option<(u64, CopyReason)> {
    (1..=secs).find_map(|at_s| {
        let mut copies = starts(&w.pass(s(1)));
        if at_s.is_multiple_of(20) {
            copies.extend(starts(&w.moves(HostId(1), Phase::Staging)));
            copies.extend(starts(&w.moves(HostId(2), Phase::Running)));
        }
        assert!(copies.len() < 2, "one copy goes on: {copies:?}");
        match copies.into_iter().next()?.2 {
            StartReason::Duplicate(1, why) => Some((at_s, why)),
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn an_attempt_whose_inputs_are_fetched_for_much_longer_than_its_jobs_others_is_copied() {
    for (start, due_s) in [(millis(20), 30), (s(20), 100)] {
        let (mut w, host) = staging(start, true);
        let (at_s, why) = copied_after(&mut w, 150).expect("it hangs");
        assert!((due_s..=due_s + 1).contains(&at_s), "{at_s} of {due_s}");
        let CopyReason::NotStaged(fetched) = why else {
            panic!("{why}")
        };
        assert!(fetched >= s(due_s), "{fetched}");

        w.moves(HostId(2), Phase::Running);
        assert_eq!(copied_after(&mut w, 30), None, "a copy goes on");
        w.moves(host, Phase::Running);
        w.succeeds(host, w.attempt_on(host));
        assert_eq!(
            w.books(HostId(2)),
            [],
            "and the first attempt may still win"
        );
    }
}

#[test]
fn inputs_of_a_job_of_which_no_start_is_known_have_ten_minutes_at_least() {
    for (start, due_s) in [(millis(20), 600), (s(130), 650)] {
        let (mut w, _) = staging(start, false);
        let (at_s, _) = copied_after(&mut w, 700).expect("it hangs");
        assert!((due_s..=due_s + 1).contains(&at_s), "{at_s} of {due_s}");
    }
}

#[test]
fn an_attempt_whose_inputs_hang_is_copied_though_its_host_holds_a_frozen_one() {
    let mut w = World::new();
    let host = w.host(1).holds_frozen(1).joins();
    w.job(1).policy("FCFSxFCFS").disclosed().submit();
    w.moves(host, Phase::Running);
    let job = w.job(2).policy(RESCUES).submit();
    let says = |w: &mut World, phase: Phase| {
        let mut held = w.held(host);
        let own = held.iter_mut().filter(|held| held.attempt.task.job == job);
        own.for_each(|held| held.phase = phase);
        w.send(Event::AttemptsMoved { host, held })
    };
    w.pass(millis(20));
    says(&mut w, Phase::Running);
    w.pass(s(1));
    w.ends(host, first_of(&w, host, job), Outcome::Succeeded, s(1));
    says(&mut w, Phase::Staging);
    w.host(2).joins();

    let copied = (1..=40).find_map(|at_s| {
        let mut effects = w.pass(s(1));
        if at_s % 10 == 0 {
            effects.extend(says(&mut w, Phase::Staging));
            effects.extend(w.beats(HostId(2)));
        }
        let (on, _, why) = starts(&effects).into_iter().next()?;
        Some((at_s, on, why))
    });
    let (at_s, on, why) = copied.expect("it hangs");
    assert!((30..=31).contains(&at_s) && on == HostId(2), "{at_s} {on}");
    let hangs = matches!(why, StartReason::Duplicate(1, CopyReason::NotStaged(_)));
    assert!(hangs, "{why:?}");
}

#[test]
fn an_attempt_of_which_its_host_says_nothing_is_copied_once_others_idle() {
    let mut w = World::new();
    for host in 1..=3 {
        w.host(host).joins();
    }
    let job = w.job(9).estimate(s(1)).submit();

    // The third host gets its first task, and nothing is heard of it again.
    for step in 1..=100 {
        w.pass(millis(100));
        if step % 10 == 0 {
            for host in [HostId(1), HostId(2)] {
                if let Some(attempt) = w.books(host).first().copied() {
                    w.ends(host, attempt, Outcome::Succeeded, s(1));
                }
            }
        }
        w.send(Event::Tick);
        if w.job_state(job).settled() {
            break;
        }
    }
    assert_eq!(w.job_state(job), JobState::Finished);
    assert!(w.now <= Time(0) + s(7), "at {:?}", w.now);
}

#[test]
fn short_tasks_of_a_host_that_delivers_nothing_are_copied_soon() {
    for estimated in [false, true] {
        let mut w = World::new();
        for host in 1..=3 {
            w.host(host).joins();
        }
        let job = w.job(30);
        let job = if estimated {
            job.estimate(millis(200))
        } else {
            job
        };
        let job = job.submit();

        // The third host works for a while, too.
        for step in 0..200 {
            w.pass(millis(100));
            let works = if w.now < Time(0) + s(2) { 3 } else { 2 };
            for host in (1..=works).filter(|_| step % 2 == 0) {
                let mut due = w.books(HostId(host)).into_iter();
                if let Some(attempt) = due.next() {
                    w.ends(HostId(host), attempt, Outcome::Succeeded, millis(200));
                }
            }
            if w.job_state(job).settled() {
                break;
            }
        }
        assert_eq!(w.job_state(job), JobState::Finished);
        assert!(w.now < Time(0) + s(4), "at {:?}, {estimated}", w.now);
    }
}

#[test]
fn a_job_with_a_host_that_stands_still_is_expected_to_end_once_its_task_can_be_copied() {
    let mut w = World::new();
    for host in 1..=4 {
        w.host(host).joins();
    }
    let job = w.job(40).submit();
    (1..=4).for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
    // Nothing is heard of the fourth one, though its connection is there.
    for _ in 0..9 {
        w.pass(s(1));
        for host in 1..=3 {
            done(&mut w, host, s(1));
            w.moves(HostId(host), Phase::Running);
        }
    }

    let left = w.scheduler.job_counts(job).expect("the job is there");
    assert_eq!(left.finished, 27);
    // Twelve tasks on three hosts, those that wait at the fourth included, and a copy.
    let end = w.scheduler.predict_finish(job, w.now).expect("known");
    let left_s = end.since(w.now).secs();
    assert!((4.0..6.0).contains(&left_s), "{left_s}");
}
