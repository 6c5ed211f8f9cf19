//! The rules of Kondo, Chien and Casanova (SC 2004), one behaviour each, with numbers worked out by
//! hand.

use common::{HostId, Span};
use scheduler::effect::{CopyReason, StartReason};
use scheduler::policy::{BadPolicy, parse};
use scheduler::{Event, Settings};

use crate::world::{World, s, starts};

/// Hosts of these speeds, numbered from 1, that have joined in this order.
fn world(speeds: &[f64]) -> World {
    let suspect_after = s(100_000);
    let lease = s(200_000);
    let mut world = World::with(Settings {
        suspect_after,
        lease,
        ..Settings::default()
    });
    for (id, speed) in (1..).zip(speeds) {
        world.host(id).speed(*speed).joins();
    }
    world
}

/// The hosts that hold something.
fn busy(world: &World) -> Vec<u32> {
    world
        .scheduler
        .hosts()
        .filter(|host| !world.books(*host).is_empty())
        .map(|host| host.0)
        .collect()
}

#[test]
fn pri_cr_wait_waits_for_ten_minutes_or_for_ten_hosts_for_each_task() {
    let mut w = world(&[1.0, 2.0]);
    w.job(1).policy("PRI-CR-WAIT").submit();
    w.pass(s(599));
    assert_eq!(busy(&w), [0; 0], "two hosts are not ten");
    w.pass(s(1));
    assert_eq!(busy(&w), [2], "the wait is over, and the fastest is taken");

    let mut w = world(&[1.0; 10]);
    w.job(1).policy("PRI-CR-WAIT").submit();
    assert_eq!(
        busy(&w).len(),
        1,
        "ten hosts for one task are enough at once"
    );
}

#[test]
fn pri_history_takes_hosts_first_that_stayed_for_a_whole_task() {
    let mut w = World::new();
    let record = |interval_work_s, rate| scheduler::experience::TrackRecord {
        interval_work_s,
        rate,
    };
    for (host, speed, record) in [
        (1, 2.0, record(50.0, 1.9)),
        (2, 1.0, record(400.0, 0.8)),
        (3, 1.0, record(300.0, 0.9)),
    ] {
        let speed = common::Speed::new(speed).unwrap();
        w.send(Event::HostKnown {
            host: HostId(host),
            speed,
            record: Some(record),
            habit: Default::default(),
        });
        w.host(host).speed(speed.factor()).joins();
    }

    w.job(1).policy("PRI-HISTORY").estimate(s(100)).submit();
    assert_eq!(
        busy(&w),
        [3],
        "host 1 is fast but never stays; of the others host 3 did more per second"
    );
}

#[test]
fn excl_s_leaves_out_hosts_that_are_slow_among_all() {
    // Mean 1.5, standard deviation 0.5: the line is at 1.25.
    let mut w = world(&[1.0, 2.0]);
    let job = w.job(2).policy("EXCL-S.5").submit();
    assert_eq!(busy(&w), [2]);
    let why = &w.scheduler.explain(job).unwrap().hosts[0].1;
    assert!(why.contains("too slow: speed 1.00 is below 1.25"), "{why}");
    let mut w = world(&[1.0, 2.0]);
    w.job(2).policy("EXCL-S1.5").submit();
    assert_eq!(busy(&w), [1, 2], "1.5 standard deviations leave nobody out");
}

#[test]
fn excl_pred_leaves_out_hosts_that_would_be_done_after_the_predicted_end_until_then() {
    // One round of two tasks on two hosts of mean speed 1.5: 100 / 1.5 = 67 s, and the slow host
    // needs 100 s.
    let mut w = world(&[1.0, 2.0]);
    let job = w.job(2).policy("EXCL-PRED").estimate(s(100)).submit();
    assert_eq!(busy(&w), [2]);

    let why = &w.scheduler.explain(job).unwrap().hosts[0].1;
    assert!(why.contains("would take 1m40s there"), "{why}");
    w.pass(s(66));
    assert_eq!(busy(&w), [2]);
    w.pass(s(1));
    assert_eq!(
        busy(&w),
        [1, 2],
        "it goes back to PRI-CR at the predicted end"
    );
}

#[test]
fn excl_pred_reverts_earlier_where_that_is_asked_for() {
    let mut w = world(&[1.0, 2.0]);
    w.job(2)
        .policy("EXCL-PRED:revert=0.5")
        .estimate(s(100))
        .submit();
    w.pass(s(33));
    assert_eq!(busy(&w), [2]);
    w.pass(s(1));
    assert_eq!(
        busy(&w),
        [1, 2],
        "half of a task's time on a mean host before the end"
    );
}

#[test]
fn excl_pred_dup_copies_starting_tasks_to_spare_hosts() {
    let mut w = world(&[2.0, 2.0, 2.0]);
    w.job(2).policy("EXCL-PRED-DUP").estimate(s(100)).submit();
    assert_eq!(busy(&w), [1, 2, 3], "three hosts for two tasks");
    let copies = w.history.iter().flat_map(|(_, _, effects)| starts(effects));
    let copies: Vec<_> = copies
        .filter(|(_, _, why)| matches!(why, StartReason::Duplicate(_, CopyReason::Spare)))
        .collect();
    assert_eq!(copies.len(), 1);
    let mut w = world(&[2.0, 2.0]);
    w.job(2).policy("EXCL-PRED-DUP").estimate(s(100)).submit();
    w.host(3).speed(2.0).joins();
    assert_eq!(busy(&w), [1, 2], "both began before a host was to spare");
}

#[test]
fn excl_pred_to_copies_a_task_that_is_not_done_by_the_predicted_end() {
    let mut w = world(&[1.0, 1.0]);
    w.job(1).policy("EXCL-PRED-TO").estimate(s(100)).submit();
    w.pass(s(99));
    assert_eq!(busy(&w), [1]);

    let effects = w.pass(s(1));
    let why = StartReason::Duplicate(1, CopyReason::TimedOut);
    assert_eq!(
        starts(&effects)
            .into_iter()
            .map(|(host, _, why)| (host, why))
            .collect::<Vec<_>>(),
        [(HostId(2), why)]
    );
}

#[test]
fn a_lost_primary_is_started_again_beside_its_copy_unless_that_is_not_wanted() {
    for (policy, again) in [
        ("EXCL-PRED-TO", true),
        ("EXCL-PRED-TO:requeue=never", false),
    ] {
        let mut w = world(&[1.0, 1.0, 1.0]);
        w.job(1).policy(policy).estimate(s(100)).submit();
        w.pass(s(100));
        assert_eq!(busy(&w), [1, 2], "the task timed out");
        let effects = w.send(Event::HostLeft { host: HostId(1) });
        let why: Vec<_> = starts(&effects)
            .into_iter()
            .map(|(_, _, why)| why)
            .collect();
        let wanted = again.then_some(StartReason::Duplicate(2, CopyReason::PrimaryLost));
        assert_eq!(why, wanted.into_iter().collect::<Vec<_>>(), "{policy}");
    }
}

#[test]
fn names_take_the_parameters_of_their_row_and_no_others() {
    assert_eq!(parse("excl-pred").unwrap().name, "EXCL-PRED");
    assert_eq!(parse("PRI-CR-WAIT:wait=60").unwrap().placement, {
        let wait = scheduler::policy::placement::PriCrWait {
            wait: Span::from_secs(60),
            ratio: 10.0,
        };
        scheduler::policy::Placement::PriCrWait(wait)
    });

    assert!(matches!(parse("EXCL"), Err(BadPolicy::Unknown(_))));
    assert!(matches!(
        parse("FCFS:wait=60"),
        Err(BadPolicy::NoSuchParameter { .. })
    ));
    assert!(matches!(
        parse("PRI-CR-WAIT:wait=60:wait=90"),
        Err(BadPolicy::Twice { parameter: "wait" })
    ));

    for wrong in [
        "PRI-CR-WAIT:wait",
        "PRI-CR-WAIT:wait=-1",
        "PRI-CR-WAIT:wait=NaN",
        "EXCL-PRED-TO:chain=perhaps",
    ] {
        assert!(
            matches!(parse(wrong), Err(BadPolicy::BadValue { .. })),
            "{wrong}"
        );
    }
}
