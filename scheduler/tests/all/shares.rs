//! How slots are divided among users.

use std::collections::BTreeMap;

use common::needs::{Demand, Needs};
use common::{HostId, JobId};
use scheduler::{Settings, Sharing};

use crate::world::{World, s, starts};

fn sharing(change: impl FnOnce(&mut Sharing)) -> World {
    let mut sharing = Sharing::default();
    change(&mut sharing);
    World::with(Settings {
        sharing: Some(sharing),
        ..Settings::default()
    })
}

/// How many tasks of each job run.
fn running(w: &World) -> BTreeMap<JobId, usize> {
    let mut counts = BTreeMap::new();
    for host in w.scheduler.hosts() {
        for attempt in w.books(host) {
            *counts.entry(attempt.task.job).or_default() += 1;
        }
    }
    counts
}

/// Each host is done with its task in turn, a second apart, so many times.
fn rounds(w: &mut World, hosts: u32, rounds: usize) {
    for _ in 0..rounds {
        for host in (1..=hosts).map(HostId) {
            w.pass(s(1));
            if let Some(attempt) = w.books(host).first().copied() {
                w.succeeds(host, attempt);
            }
        }
    }
}

#[test]
fn a_late_user_gets_the_next_free_slot_behind_a_long_bag() {
    for policy in ["deskgrid", "FCFS", "PRI-CR", "EXCL-PRED-TO"] {
        let mut w = sharing(|_| {});
        for host in 1..=2 {
            w.host(host).joins();
        }

        w.job(500).policy(policy).user("ann").submit();
        rounds(&mut w, 2, 20);

        let late = w.job(3).policy(policy).user("ben").submit();
        w.pass(s(1));

        let attempt = w.attempt_on(HostId(1));
        let began = starts(&w.succeeds(HostId(1), attempt));
        assert_eq!(
            began
                .iter()
                .map(|(_, attempt, _)| attempt.task.job)
                .collect::<Vec<_>>(),
            [late],
            "{policy}"
        );
    }
}

#[test]
fn equal_users_have_equally_many_slots_in_the_long_run() {
    let mut w = sharing(|sharing| sharing.half_life = s(20));
    for host in 1..=6 {
        w.host(host).joins();
    }

    let jobs: Vec<JobId> = ["ann", "ben", "cleo"]
        .into_iter()
        .map(|user| w.job(200).user(user).submit())
        .collect();

    // Long enough for what the first one had at the beginning to be forgotten.
    rounds(&mut w, 6, 40);
    let mut had: BTreeMap<JobId, usize> = BTreeMap::new();
    for _ in 0..25 {
        rounds(&mut w, 6, 1);
        running(&w)
            .into_iter()
            .for_each(|(job, count)| *had.entry(job).or_default() += count);
    }

    for job in jobs {
        assert!(
            (40..=60).contains(&had[&job]),
            "{job} had {} of 150",
            had[&job]
        );
    }
}

#[test]
fn a_user_of_more_weight_gets_a_larger_share() {
    let mut w = sharing(|sharing| {
        sharing.weights.insert("ann".to_owned(), 3.0);
        sharing.half_life = s(20);
    });
    for host in 1..=8 {
        w.host(host).joins();
    }

    let ann = w.job(600).user("ann").submit();
    let ben = w.job(600).user("ben").submit();
    rounds(&mut w, 8, 40);

    let mut had: BTreeMap<JobId, usize> = BTreeMap::new();
    for _ in 0..20 {
        rounds(&mut w, 8, 1);
        running(&w)
            .into_iter()
            .for_each(|(job, count)| *had.entry(job).or_default() += count);
    }

    let ratio = had[&ann] as f64 / had[&ben] as f64;
    assert!((2.6..=3.4).contains(&ratio), "{had:?}");
}

#[test]
fn priorities_order_the_jobs_of_one_user_and_of_nobody_else() {
    let mut w = sharing(|_| {});
    w.host(1).joins();
    w.job(300).user("ann").submit();
    rounds(&mut w, 1, 10);

    let urgent = w.job(10).user("ann").priority(i32::MAX).submit();
    let other = w.job(1).user("ben").submit();
    let attempt = w.attempt_on(HostId(1));
    w.succeeds(HostId(1), attempt);
    assert_eq!(
        w.attempt_on(HostId(1)).task.job,
        other,
        "ben had nothing so far"
    );

    let attempt = w.attempt_on(HostId(1));
    w.succeeds(HostId(1), attempt);
    assert_eq!(
        w.attempt_on(HostId(1)).task.job,
        urgent,
        "of ann's jobs the one of higher priority"
    );
}

#[test]
fn a_bound_holds_and_is_told() {
    let mut w = sharing(|sharing| sharing.most_running_each = Some(2));
    w.host(1).slots(5).joins();

    let ann = w.job(10).user("ann").submit();
    assert_eq!(running(&w)[&ann], 2);

    let told = w.scheduler.explain(ann).expect("a job");
    assert!(
        told.tasks[0]
            .0
            .contains("the admin lets you run 2 at a time"),
        "{told:?}"
    );

    let ben = w.job(10).user("ben").submit();
    assert_eq!(running(&w)[&ben], 2);
    rounds(&mut w, 1, 4);
    assert!(running(&w).values().all(|count| *count <= 2));
}

#[test]
fn a_job_at_its_users_bound_takes_no_slot_from_another_users_long_bag() {
    let began = |of_ann: u32| -> Vec<HostId> {
        let mut w = sharing(|sharing| {
            sharing.most_running.insert("ann".to_owned(), 1);
        });
        for host in 1..=12 {
            let speed = if host % 3 == 0 { 2.0 } else { 1.0 };
            w.host(host).slots(1 + host % 2).speed(speed).joins();
        }
        w.job(of_ann).user("ann").submit();
        let ben = w.job(100).user("ben").estimate(s(600));
        let (_, effects) = ben.asks();
        starts(&effects).iter().map(|(host, ..)| *host).collect()
    };
    let sorted = |mut hosts: Vec<HostId>| {
        hosts.sort_unstable();
        hosts
    };

    // While tasks of hers wait, ben's start one by one: the best host comes first.
    let beside = began(5);
    assert_eq!(beside.len(), 18 - 1);
    assert!(beside[..5].iter().all(|host| host.0 % 3 == 0), "{beside:?}");
    assert_eq!(sorted(beside), sorted(began(1)));
}

#[test]
fn slots_that_become_free_at_once_are_divided() {
    let mut w = sharing(|_| {});
    let ann = w.job(100).user("ann").submit();
    let ben = w.job(100).user("ben").submit();
    w.host(1).slots(8).joins();
    assert_eq!((running(&w)[&ann], running(&w)[&ben]), (4, 4));
}

#[test]
fn recent_usage_of_users_outlives_a_restart() {
    let mut w = sharing(|_| {});
    w.host(1).joins();
    w.job(300).user("ann").submit();
    rounds(&mut w, 1, 100);
    let learned = w.scheduler.experience();
    let mut again = sharing(|_| {});
    again.send(scheduler::Event::Learned(Box::new(learned)));
    again.job(10).user("ann").submit();
    let ben = again.job(10).user("ben").submit();
    again.host(1).joins();
    assert_eq!(again.attempt_on(HostId(1)).task.job, ben);
}

#[test]
fn a_job_is_told_that_others_had_fewer_slots() {
    let mut w = sharing(|_| {});
    w.host(1).joins();
    let ann = w.job(300).user("ann").submit();
    rounds(&mut w, 1, 60);
    w.job(10).user("ben").submit();
    let told = w.scheduler.explain(ann).expect("a job");
    assert!(
        told.tasks[0].0.starts_with("another user's job goes first"),
        "{told:?}"
    );
}

#[test]
fn a_deadline_that_is_far_off_takes_no_more_than_its_users_share() {
    let mut w = sharing(|_| {});
    for host in 1..=4 {
        w.host(host).joins();
    }

    let far = w
        .job(240)
        .policy("PROMISE")
        .user("ann")
        .deadline(7 * 86_400)
        .estimate(s(10))
        .submit();
    let other = w.job(200).user("ben").submit();
    rounds(&mut w, 4, 20);
    let counts = running(&w);
    assert_eq!((counts[&far], counts[&other]), (2, 2), "{counts:?}");
}

#[test]
fn of_work_that_nobody_has_measured_one_task_at_a_time_gets_the_slots_of_a_promise() {
    let mut w = sharing(|_| {});
    for host in 1..=4 {
        w.host(host).joins();
    }
    let promised = w.job(400).policy("PROMISE").user("ann").estimate(s(60));
    promised.deadline(7 * 86_400).submit();

    let other = w.job(200).user("ben").estimate(s(1)).submit();
    let held = |w: &World| running(w).get(&other).copied().unwrap_or(0);
    for _ in 0..5 {
        w.pass(s(60));
        for host in (1..=4).map(HostId) {
            let attempt = w.attempt_on(host);
            if attempt.task.job == other {
                w.beats(host);
            } else {
                w.succeeds(host, attempt);
            }
        }
        assert!(held(&w) <= 1, "its estimate may be wrong: {}", held(&w));
    }
    assert_eq!(held(&w), 1);

    rounds(&mut w, 4, 20);
    assert_eq!(held(&w), 2, "its tasks are known now");
}

#[test]
fn a_long_promise_with_much_time_takes_none_of_the_time_of_the_one_ahead() {
    let mut w = sharing(|_| {});
    for host in 1..=4 {
        w.host(host).joins();
    }

    let mut promised = |tasks: u32, deadline| {
        let job = w.job(tasks).policy("PROMISE").user("ann").estimate(s(10));
        job.deadline(deadline).submit()
    };
    let near = promised(100, 20_000);
    promised(9_000, 30 * 86_400);
    let other = w.job(200).user("ben").submit();
    rounds(&mut w, 4, 20);
    let counts = running(&w);
    assert_eq!((counts[&near], counts[&other]), (2, 2), "{counts:?}");
}

#[test]
fn a_deadline_that_is_close_goes_before_all_users() {
    let mut w = sharing(|_| {});
    for host in 1..=4 {
        w.host(host).joins();
    }

    let other = w.job(200).user("ben").submit();
    let close = w
        .job(120)
        .policy("PROMISE")
        .user("ann")
        .deadline(900)
        .estimate(s(10))
        .submit();
    rounds(&mut w, 4, 10);
    let counts = running(&w);
    assert_eq!(counts.get(&close), Some(&4), "{counts:?}");
    assert_eq!(counts.get(&other), None);
}

#[test]
fn a_deadline_that_left_time_goes_first_once_it_does_not() {
    let mut w = sharing(|_| {});
    for host in 1..=2 {
        w.host(host).joins();
    }

    let far = w
        .job(40)
        .policy("PROMISE")
        .user("ann")
        .deadline(2_400)
        .estimate(s(30))
        .submit();
    w.job(400).user("ben").submit();
    let mut elapsed = 0;
    while w.job_state(far) != common::view::JobState::Finished {
        assert!(elapsed < 2_400, "the deadline is kept");
        w.pass(s(30));
        elapsed += 30;
        for host in (1..=2).map(HostId) {
            let attempt = w.attempt_on(host);
            w.ends(host, attempt, common::attempt::Outcome::Succeeded, s(30));
        }
    }
}

#[test]
fn a_task_counts_as_the_processors_that_it_takes() {
    let mut w = sharing(|_| {});
    let wide = Needs {
        takes: Demand {
            cores: 4,
            ..Demand::PLAIN
        },
        ..Needs::default()
    };
    let ann = w.job(100).user("ann").needs(wide).submit();
    let ben = w.job(100).user("ben").submit();
    w.host(1).slots(8).joins();

    assert_eq!((running(&w)[&ann], running(&w)[&ben]), (2, 6));
    let shares = w.scheduler.user_shares(w.now);
    let slots: Vec<_> = shares
        .iter()
        .map(|share| (share.user.as_str(), share.slots))
        .collect();
    assert_eq!(slots, [("ann", 8), ("ben", 6)]);
}

#[test]
fn shares_tell_what_users_had_and_what_is_due_to_them() {
    let mut w = sharing(|sharing| {
        sharing.half_life = s(20);
        sharing.weights.insert("ann".to_owned(), 3.0);
        sharing.most_running.insert("cleo".to_owned(), 2);
    });
    w.host(1).slots(4).joins();
    let early = w.job(2).user("cleo").submit();
    w.pass(s(100));
    w.send(scheduler::Event::JobCancelled {
        job: early,
        tasks: None,
    });
    w.job(100).user("ann").submit();
    w.job(100).user("ben").submit();

    let now = w.now + s(20);
    let [ann, ben, cleo] = w
        .scheduler
        .user_shares(now)
        .try_into()
        .expect("three users");
    assert_eq!(
        (ann.user.as_str(), ann.slots, ben.slots, cleo.slots),
        ("ann", 4, 0, 0)
    );
    assert_eq!((ann.due, ben.due), (0.75, 0.25));
    assert_eq!((cleo.due, cleo.most), (1.0 / 5.0, Some(2)));
    // Half of ann's four slots after a half-life, and half of the two that cleo had.
    let near =
        |found: f64, want: f64| assert!((found - want).abs() < 0.05, "{found} and not {want}");
    near(ann.average, 2.0);
    near(ben.average, 0.0);
    near(cleo.average, 1.0);
    near(ann.part, 2.0 / 3.0);
}
