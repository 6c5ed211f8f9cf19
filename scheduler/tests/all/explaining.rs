//! Why tasks wait, why hosts were passed over, and when a job will be done.

use common::attempt::{Outcome, Phase};
use common::host::{Confinement, OwnerState, Status, YieldReason};
use common::needs::{Capacity, Demand, Needs, Offers};
use common::{HostId, IdSet, JobId, Time};
use scheduler::{Event, catalogue};

use crate::events;
use crate::world::{World, s, starts};

fn reasons(w: &World, job: JobId) -> Vec<String> {
    w.scheduler
        .explain(job)
        .expect("the job is there")
        .tasks
        .into_iter()
        .map(|(reason, _)| reason)
        .collect()
}

/// The reason of each host, which is the same whether the job or the host is asked about.
fn passed_over(w: &World, job: JobId) -> Vec<String> {
    let explained = w.scheduler.explain(job).expect("the job is there");
    let rows = explained.hosts.into_iter().map(|(host, reason)| {
        let alone = w.scheduler.explain_host_at(host, job, w.now);
        assert_eq!(alone.as_ref(), Some(&reason));
        reason
    });
    rows.collect()
}

#[test]
fn without_hosts_that_is_the_reason() {
    let mut w = World::new();
    let job = w.job(3).submit();
    let explanation = w.scheduler.explain(job).unwrap();
    assert_eq!(
        explanation.tasks,
        [("no host has joined".to_owned(), IdSet::from_range(1, 3))]
    );
    assert_eq!(explanation.hosts, []);
    assert_eq!(w.scheduler.explain(JobId(9)), None);
}

#[test]
fn busy_hosts_and_jobs_ahead_are_named() {
    let mut w = World::new();
    w.job(5).submit();
    w.job(5).priority(1).submit();
    w.host(1).joins();
    w.host(2).joins();

    let job = w.job(2).submit();
    let reasons = reasons(&w, job);
    assert_eq!(
        reasons,
        [
            "behind job 2 of higher priority, job 1 of earlier arrival",
            "every slot is taken: 2 hosts busy"
        ]
    );

    assert_eq!(
        passed_over(&w, job),
        [
            "busy: 1 slot, 1 attempt held",
            "busy: 1 slot, 1 attempt held"
        ]
    );
}

#[test]
fn suspended_hosts_are_named_with_their_owners_reasons() {
    let mut w = World::new();
    w.host(1)
        .owner(OwnerState::Present(YieldReason::InUse))
        .joins();
    w.host(2)
        .owner(OwnerState::Present(YieldReason::InUse))
        .joins();
    w.host(3)
        .owner(OwnerState::Present(YieldReason::OnBattery))
        .joins();

    let job = w.job(1).submit();
    assert_eq!(
        reasons(&w, job),
        ["all hosts suspended: 2 in-use, 1 on-battery"]
    );
    assert_eq!(passed_over(&w, job)[2], "suspended: on-battery");
}

#[test]
fn mixed_fleets_are_counted_by_state() {
    let mut w = World::new();
    for host in 1..=5 {
        w.host(host).joins();
    }

    w.send(Event::HostDrained { host: HostId(1) });
    w.send(events::owner(
        HostId(2),
        OwnerState::Present(YieldReason::Busy),
    ));
    w.parts(HostId(3));
    w.send(Event::HostLeft { host: HostId(4) });

    let job = w.job(2).submit();
    let expected = "no slot is free; hosts: 1 busy, 1 draining, 1 not connected, 1 shut down, 1 suspended (1 busy)";
    assert_eq!(reasons(&w, job), [expected]);

    let expected = [
        "draining: gets no new work",
        "suspended: busy",
        "not connected: not connected at the moment",
        "shut down: its worker shut down",
        "busy: 1 slot, 1 attempt held",
    ];
    assert_eq!(passed_over(&w, job), expected);
}

#[test]
fn a_job_without_waiting_tasks_has_nothing_to_explain() {
    let mut w = World::new();
    let job = w.job(1).submit();
    w.host(1).slots(2).joins();
    assert_eq!(reasons(&w, job), Vec::<String>::new());
    let none = "ready: no task of the job waits, and none is copied before it is known how long they take (try: submit --estimate)";
    assert_eq!(passed_over(&w, job), [none]);
}

#[test]
fn a_policy_that_copies_nothing_on_idle_hosts_says_so() {
    let mut w = World::new();
    w.host(1).slots(2).joins();
    let job = w.job(1).policy("FCFS").estimate(s(2)).submit();
    let none = "ready: no task of the job waits; what policy FCFS copies: none";
    assert_eq!(passed_over(&w, job), [none]);
}

fn held_up(w: &World, job: JobId) -> Vec<String> {
    let explanation = w.scheduler.explain(job).expect("the job is there");
    explanation
        .held_up
        .iter()
        .map(|row| format!("{}: {}", row.tasks, row.words("desk")))
        .collect()
}

#[test]
fn a_silent_host_is_shown_with_the_probability_of_its_loss_and_the_time_of_the_copy() {
    let mut w = World::new();
    let job = w.job(1).estimate(s(600)).submit();
    let host = w.host(1).joins();
    w.moves(host, Phase::Running);

    w.parts(host);
    w.pass(common::Span::from_millis(400));
    w.send(Event::Tick);
    let expected = "1: on desk, of which nothing has been heard for 400ms; lost with a probability of 80 %, copied in 600ms if a host is idle then";
    assert_eq!(held_up(&w, job), [expected]);

    w.pass(s(9));
    w.send(Event::Tick);
    let expected = "1: on desk, of which nothing has been heard for 9.4s; lost with a probability of 89 %, copied as soon as a host is idle";
    assert_eq!(held_up(&w, job), [expected]);
}

#[test]
fn a_suspended_task_is_explained_by_its_host_and_its_owner_and_by_no_quorum() {
    let mut w = World::new();
    let host = w.host(1).joins();
    let job = w.job(1).submit();

    w.moves(host, Phase::Running);
    w.owner_comes(host);
    w.pass(s(100));
    w.send(Event::Tick);
    assert_eq!(reasons(&w, job), Vec::<String>::new());

    let [row] = &held_up(&w, job)[..] else {
        panic!("one reason: {:?}", held_up(&w, job))
    };
    assert!(
        row.starts_with("1: suspended on desk (in-use) for 1m"),
        "{row}"
    );

    // Nothing happens on a quiet grid, and time goes on.
    let later = w.scheduler.explain_at(job, w.now + s(100));
    let later = &later.expect("the job is there").held_up[0];
    assert_eq!(later.words("desk"), "suspended on desk (in-use) for 3m20s");
}

#[test]
fn an_overdue_task_and_the_host_that_would_copy_it_are_explained() {
    let mut w = World::new();
    let first = w.host(1).joins();
    let second = w.host(2).joins();
    let job = w.job(2).submit();

    [first, second]
        .into_iter()
        .for_each(|host| drop(w.moves(host, Phase::Running)));
    w.pass(s(2));
    w.ends(first, w.attempt_on(first), Outcome::Succeeded, s(2));

    let passed = passed_over(&w, job);
    assert!(
        passed[0].ends_with("none is overdue; the first one would be copied in 4.0s at the latest"),
        "{passed:?}"
    );
    w.send(Event::HostDrained { host: first });
    w.pass(s(60));
    w.send(Event::Tick);

    let [row] = &held_up(&w, job)[..] else {
        panic!("one reason: {:?}", held_up(&w, job))
    };
    assert!(
        row.contains("overdue on desk: it has run for ")
            && row.contains("where the longest of its kind took 2"),
        "{row}"
    );
}

#[test]
fn jobs_ahead_are_told_by_their_promises_and_counted_where_they_want_the_same_hosts() {
    let mut w = World::new();
    let gpu = Needs {
        takes: Demand {
            gpus: 1,
            ..Demand::PLAIN
        },
        ..Needs::default()
    };
    let host = w.host(1).joins();
    w.send(events::offered(
        host,
        Offers {
            capacity: Capacity {
                cores: 1,
                memory_mib: 1_024,
                gpus: 0,
            },
            ..Offers::default()
        },
    ));
    w.job(1).estimate(s(100)).submit();
    let elsewhere = w.job(3).estimate(s(100)).needs(gpu).submit();
    let job = w.job(2).estimate(s(100)).submit();
    assert_eq!(reasons(&w, job), ["every slot is taken: 1 host busy"]);
    assert!(!reasons(&w, elsewhere).is_empty());

    let promised = w
        .job(2)
        .policy("PROMISE")
        .estimate(s(50))
        .deadline(10_000)
        .submit();
    assert_eq!(
        reasons(&w, job)[0],
        format!("behind job {promised} with a promised end")
    );
}

#[test]
fn a_paused_fleet_has_no_predicted_start_or_finish() {
    let mut w = World::new();
    let host = w.host(1).joins();
    let running = w.job(1).estimate(s(10)).submit();

    w.moves(host, Phase::Running);
    let waiting = w.job(1).estimate(s(10)).submit();
    assert!(
        w.scheduler.predict_finish(running, w.now).is_some()
            && w.scheduler.predict_start(waiting, w.now).is_some()
    );

    let paused = YieldReason::PausedByOwner;
    w.send(events::owner(host, OwnerState::Present(paused)));
    w.moves(host, Phase::Suspended(paused));

    let foretold = |w: &World| {
        let finishes = [running, waiting].map(|job| w.scheduler.predict_finish(job, w.now));
        (finishes, w.scheduler.predict_start(waiting, w.now))
    };
    assert_eq!(foretold(&w), ([None; 2], None));
    w.host(2).joins();
    assert!(
        foretold(&w).0[0].is_some(),
        "there is a host that can do it"
    );
}

#[test]
fn the_predicted_finish_of_a_stuck_job_moves_as_far_as_it_is_beyond_everything_seen() {
    let mut w = World::new();
    let first = w.host(1).joins();
    let second = w.host(2).joins();
    let job = w.job(2).policy("FCFS").submit();

    [first, second]
        .into_iter()
        .for_each(|host| drop(w.moves(host, Phase::Running)));
    w.pass(s(2));
    w.ends(first, w.attempt_on(first), Outcome::Succeeded, s(2));

    for _ in 0..3 {
        w.pass(s(30));
        let finish = w
            .scheduler
            .predict_finish(job, w.now)
            .expect("it is predicted");
        assert!(
            finish.since(w.now).0 + s(2).0 >= w.now.since(Time(1_000_000)).0,
            "{finish:?}"
        );
    }
}

/// Predictions add what owners usually take, which is some part of the time.
fn assert_near(finish: Option<Time>, now: Time, left_s: f64) {
    let found_s = finish.expect("it can be predicted").since(now).secs();
    assert!(
        (left_s..=1.2 * left_s).contains(&found_s),
        "{found_s} s, not {left_s} s and a little"
    );
}

#[test]
fn run_times_learned_on_a_busy_host_count_its_processor_share_once() {
    let mut w = World::new();
    let host = w.host(1).joins();
    let busy = Status {
        cpu: 0.25,
        ..OwnerState::Away.into()
    };
    w.send(events::heard(host, busy, Vec::new()));
    let job = w.job(4).submit();
    for _ in 0..2 {
        w.pass(s(60));
        let held = w.held(host);
        w.send(events::heard(host, busy, held));
        let attempt = w.attempt_on(host);
        w.succeeds(host, attempt);
    }

    // Two are left. The one that runs takes a minute, as those before did; the one that waits may
    // find a share that is more usual than this.
    let finish = w.scheduler.predict_finish(job, w.now);
    let left_s = finish.expect("it can be predicted").since(w.now).secs();
    assert!((65.0..130.0).contains(&left_s), "{left_s} s");
}

#[test]
fn a_finish_is_predicted_from_estimates_then_from_observed_runs() {
    let mut w = World::new();
    let blind = w.job(1).submit();
    assert_eq!(w.scheduler.predict_finish(blind, w.now), None);
    w.send(events::cancelled(blind, None));
    w.host(1).speed(2.0).slots(2).joins();

    let job = w.job(6).estimate(s(60)).submit();
    // Two rounds of 30 s wait, and two tasks of 30 s run.
    assert_near(w.scheduler.predict_finish(job, w.now), w.now, 90.0);
    w.pass(s(60));
    w.succeeds(HostId(1), w.books(HostId(1))[0]);

    // Far from the estimate: tasks take 60 s here after all; of two that run one is due now, the
    // other has just begun, and three wait.
    assert_near(w.scheduler.predict_finish(job, w.now), w.now, 2.0 * 60.0);
    w.work_off();
    assert_eq!(
        w.scheduler.predict_finish(job, w.now),
        None,
        "it is finished"
    );
}

#[test]
fn reported_progress_beats_the_mean() {
    let mut w = World::new();
    let job = w.job(1).estimate(s(100)).submit();
    let host = w.host(1).joins();
    w.now = w.now + s(300);
    let mut held = w.held(host);
    held[0].phase = Phase::Running;
    held[0].ran = s(300);
    held[0].progress = Some(0.75);
    w.heard(host, held);
    let finish = w.scheduler.predict_finish(job, w.now).unwrap();
    assert_near(Some(finish), w.now, 100.0);
}

#[test]
fn a_finish_is_predicted_from_progress_before_any_task_has_finished() {
    let mut w = World::new();
    let job = w.job(3).submit();
    let host = w.host(1).speed(2.0).joins();
    let report = |w: &mut World, ran, progress| {
        let mut held = w.held(host);
        held[0].phase = Phase::Running;
        held[0].ran = ran;
        held[0].progress = Some(progress);
        w.heard(host, held);
        w.scheduler.predict_finish(job, w.now)
    };

    assert_eq!(report(&mut w, s(1), 0.01), None, "too early to tell");
    w.now = w.now + s(119);
    assert_eq!(report(&mut w, s(120), f32::NAN), None);
    // Half is done after two minutes: two more, and four for each of the tasks that wait.
    assert_near(report(&mut w, s(120), 0.5), w.now, 120.0 + 2.0 * 240.0);
    w.pass(s(60));
    let finish = w.scheduler.predict_finish(job, w.now);
    assert_near(finish, w.now, 60.0 + 2.0 * 240.0);
}

/// A host that confines so well at most.
fn offers(w: &mut World, host: u32, confinement: Confinement, network: bool) {
    w.send(events::offered(
        HostId(host),
        Offers {
            confinement,
            network,
            ..Offers::default()
        },
    ));
}

#[test]
fn hosts_lacking_a_jobs_needs_are_passed_over_with_the_reason() {
    let mut w = World::new();
    offers(&mut w, 1, Confinement::Process, true);
    offers(&mut w, 2, Confinement::Landlock, false);
    w.host(1).joins();
    w.host(2).joins();

    let needs = |confinement, network| Needs {
        confinement,
        network,
        ..Needs::default()
    };
    let job = w
        .job(3)
        .needs(needs(Some(Confinement::Namespace), false))
        .submit();
    assert!(reasons(&w, job)[0].starts_with("no host qualifies; 1 host: it confines at most"));

    let passed = passed_over(&w, job);
    assert_eq!(
        passed[0],
        "passed over: it confines at most at the level `process`, and the job needs `namespace`"
    );
    assert_eq!(
        passed[1],
        "passed over: it confines at most at the level `landlock`, and the job needs `namespace`"
    );

    let online = w
        .job(1)
        .needs(needs(Some(Confinement::Landlock), true))
        .submit();
    assert!(passed_over(&w, online)[1].contains("network"));

    // One that needs less goes ahead, and one that offers enough is taken as soon as it comes.
    let (_, effects) = {
        w.job(1).submit();
        offers(&mut w, 3, Confinement::Account, true);
        w.host(3).slots(4).joins_with()
    };
    assert!(starts(&effects).iter().all(|(host, ..)| *host == HostId(3)));
    assert_eq!(
        starts(&effects)
            .iter()
            .filter(|(_, attempt, _)| attempt.task.job == job)
            .count(),
        3
    );
}

#[test]
fn no_policy_ever_starts_an_attempt_where_its_needs_are_not_met() {
    for row in catalogue() {
        let mut w = World::new();
        offers(&mut w, 1, Confinement::Process, true);
        offers(&mut w, 3, Confinement::Landlock, true);

        let hosts = [1, 2, 3].map(|host| w.host(host).slots(2).speed(f64::from(host)).joins());
        let needs = Needs {
            confinement: Some(Confinement::Namespace),
            network: false,
            ..Needs::default()
        };
        let job = w.job(12).policy(row.name).needs(needs).submit();
        let mut done = 0;

        for _ in 0..2_000 {
            for host in [hosts[0], hosts[2]] {
                assert_eq!(w.books(host), [], "{}", row.name);
            }
            if let Some(attempt) = w.books(hosts[1]).first().copied() {
                w.succeeds(hosts[1], attempt);
                done += 1;
            }
            for host in hosts {
                w.beats(host);
            }
            w.pass(s(5));
        }

        assert_eq!(
            w.job_state(job),
            common::view::JobState::Finished,
            "{}: {done} of 12",
            row.name
        );
    }
}
