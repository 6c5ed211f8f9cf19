//! What becomes of a promise: it is made anew or withdrawn, is over, or comes back after a restart,
//! and whoever must remember it is told.

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::{OwnerState, Status};
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Speed, TaskId, Time};
use scheduler::effect::Refused;
use scheduler::event::{RestoredProgress, Tried};
use scheduler::experience::JobStage;
use scheduler::{Effect, Event, Scheduler, Settings, Sharing};

use crate::events;
use crate::world::{World, ended, s, starts};

fn world() -> World {
    World::with(Settings {
        lease: s(1_000_000),
        suspect_after: s(1_000_000),
        ..Settings::default()
    })
}

/// What these effects say about promises that exist already: the job, and the time and end of a new
/// promise.
fn renewed(effects: &[Effect]) -> Vec<(JobId, Option<(Time, Time)>)> {
    let told = |effect: &Effect| match effect {
        Effect::PromiseRenewed { job, made, finish } => Some((*job, Some((*made, *finish)))),
        Effect::PromiseWithdrawn { job } => Some((*job, None)),
        _ => None,
    };
    effects.iter().filter_map(told).collect()
}

#[test]
fn what_a_kill_makes_of_a_promise_is_an_effect() {
    for (deadline, kept) in [(500, true), (80, false)] {
        let mut world = world();
        world.host(1).joins();
        let job = world.job(2).policy("CALENDAR-HARD").retries(1);
        let long = job.estimates(&[10, 10]).deadline(deadline).submit();

        world.now = world.now + s(30);
        let job = world.job(1).policy("CALENDAR-HARD");
        let (_, effects) = job.estimates(&[5]).deadline(40).asks();
        let times = (world.now, world.now + s(5 + 60 + 10));
        assert_eq!(renewed(&effects), [(long, kept.then_some(times))]);

        let keeping = world.scheduler.keeping(long, world.now);
        let known = keeping.map(|keeping| (keeping.made, keeping.promised));
        assert_eq!(known, kept.then_some(times));
    }
}

#[test]
fn what_a_retry_makes_of_a_promise_is_an_effect() {
    for (deadline, kept) in [(100, true), (15, false)] {
        let mut world = world();
        let host = world.host(1).joins();
        let job = world.job(1).policy("CALENDAR").estimates(&[10]);
        let first = job.deadline(deadline).submit();
        world.fails(host, world.attempt_on(host));
        let job = world.job(1).policy("CALENDAR").estimates(&[10]);
        job.deadline(30).submit();

        let effects = world.send(events::retried(first, IdSet::from_range(1, 1)));
        let times = (world.now, world.now + s(20));
        assert_eq!(renewed(&effects), [(first, kept.then_some(times))]);
    }
}

#[test]
fn results_that_are_gone_delay_no_bag_that_was_accepted_since() {
    for (deadline, kept) in [(1_000, true), (320, false)] {
        let mut world = world();
        let host = world.host(1).joins();
        let job = world.job(2).policy("CALENDAR").estimates(&[100, 100]);
        let first = job.deadline(deadline).submit();
        world.now = world.now + s(100);
        world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(100));
        let job = world.job(1).policy("CALENDAR").estimates(&[100]);
        let second = job.deadline(250).submit();

        world.now = world.now + s(10);
        let effects = world.send(events::gone(first, vec![(1, 1)]));
        let told = renewed(&effects);
        assert!(
            matches!(told[..], [(job, times)] if job == first && times.is_some() == kept),
            "{told:?}"
        );

        world.now = world.now + s(90);
        world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(100));
        assert_eq!(world.attempt_on(host).task, TaskId::new(second, 1));
    }
}

#[test]
fn a_killed_task_is_expected_to_take_as_long_again_after_a_restart_too() {
    let mut world = world();
    let host = world.host(1).joins();
    let draft = world.job(1).policy("CALENDAR-HARD").retries(1);
    let bag = draft.estimates(&[10]).deadline(500).bag();
    let tried = Tried {
        failures: 1,
        policed: s(30),
        ..events::tried(1, 1)
    };
    for (job, tried) in [(1, Vec::new()), (2, vec![tried])] {
        let progress = RestoredProgress {
            tried,
            ..RestoredProgress::default()
        };
        world.send(events::restored(JobId(job), bag.clone(), progress));
    }
    assert_eq!(world.attempt_on(host).task.job, JobId(1));

    let keeping = world.scheduler.keeping(JobId(2), world.now).unwrap();
    assert_eq!(keeping.expected, Some(world.now + s(10 + 60)));
}

/// The errors of promises that a scheduler has noted.
fn noted(world: &World) -> Vec<f32> {
    let experience = world.scheduler.experience();
    let noted = experience.errors.of("CALENDAR", JobStage::Early);
    noted.to_vec()
}

#[test]
fn a_promise_is_judged_by_what_was_said_at_first_after_a_restart_too() {
    let errors = |restarts: bool| {
        let mut world = world();
        let host = world.host(1).joins();
        let job = world.job(1).policy("CALENDAR").estimates(&[10]);
        let job = job.deadline(1_000).submit();
        let attempt = world.attempt_on(host);
        let made = world.now;
        world.now = world.now + s(4);
        if restarts {
            world.restart();
            let (_, effects) = world.host(1).holding(attempt, Phase::Running).joins_with();
            assert_eq!(starts(&effects), [], "it goes on");
        }
        let keeping = world.scheduler.keeping(job, world.now).unwrap();
        assert_eq!((keeping.made, keeping.promised), (made, made + s(10)));
        world.now = made + s(12);
        world.ends(host, attempt, Outcome::Succeeded, s(12));
        noted(&world)
    };
    assert_eq!(errors(false).len(), 1);
    assert_eq!(errors(true), errors(false));
}

#[test]
fn a_promise_of_which_no_more_is_known_than_its_deadline_teaches_nothing() {
    let mut world = world();
    let host = world.host(1).joins();
    let draft = world.job(1).policy("CALENDAR").estimates(&[10]);
    let bag = Box::new(draft.deadline(1_000).bag());
    let job = JobId(9);
    world.send(Event::JobRestored {
        job,
        bag,
        progress: Box::default(),
    });
    world.now = world.now + s(10);
    world.succeeds(host, world.attempt_on(host));
    assert_eq!(noted(&world), [0.0; 0]);

    // One whose results were lost is judged by what was said then.
    let draft = world.job(2).policy("CALENDAR").estimates(&[10, 10]);
    let job = draft.deadline(1_000).submit();
    world.succeeds(host, world.attempt_on(host));
    world.send(events::gone(job, vec![(1, 1)]));
    for _ in 0..2 {
        world.now = world.now + s(300);
        world.succeeds(host, world.attempt_on(host));
    }
    assert!(world.job_state(job).settled());
    let errors = noted(&world);
    assert!(errors.len() == 1 && errors[0] > 1.0, "{errors:?}");
}

#[test]
fn a_promise_for_tasks_that_were_cancelled_teaches_nothing() {
    let mut world = world();
    let host = world.host(1).joins();
    let job = world.job(3).policy("CALENDAR").estimates(&[10, 10, 10]);
    let job = job.deadline(1_000).submit();
    world.send(events::cancelled(job, Some(IdSet::from_range(2, 3))));
    world.now = world.now + s(10);
    world.succeeds(host, world.attempt_on(host));
    assert!(world.job_state(job).settled());
    assert_eq!(noted(&world), [0.0; 0]);
}

#[test]
fn a_broken_promise_is_not_judged_by_tasks_that_are_retried_by_hand() {
    for retries in [false, true] {
        let mut world = world();
        let host = world.host(1).joins();
        let job = world.job(2).policy("PROMISE:inflated=no:policing=off");
        let job = job.estimates(&[1, 1]).deadline(20).submit();
        world.fails(host, world.attempt_on(host));
        world.now = world.now + s(21);
        world.send(Event::Tick);
        if retries {
            world.send(events::retried(job, IdSet::from_range(1, 1)));
        }

        world.work_off();
        assert!(world.job_state(job).settled());
        let experience = world.scheduler.experience();
        let errors = experience.errors.of("PROMISE", JobStage::Early);
        assert_eq!(errors.len(), usize::from(!retries), "{errors:?}");
    }
}

/// A host that runs the first of a bag's three tasks, each estimated at a second, beyond the bag's
/// deadline, with a plain job of higher priority behind it.
fn late(policy: &str) -> (World, HostId, [JobId; 2]) {
    let mut world = world();
    let host = world.host(1).joins();
    let job = world.job(3).policy(policy).estimates(&[1, 1, 1]);
    let late = job.retries(3).deadline(20).submit();
    world.moves(host, Phase::Running);
    let plain = world.job(2).policy("FCFS").priority(1).submit();
    world.now = world.now + s(21);
    (world, host, [late, plain])
}

/// The jobs whose tasks the host is done with, one after the other.
fn order(world: &mut World, host: HostId, tasks: usize) -> Vec<JobId> {
    let done = |_| {
        let attempt = world.attempt_on(host);
        world.succeeds(host, attempt);
        attempt.task.job
    };
    (0..tasks).map(done).collect()
}

#[test]
fn a_job_whose_deadline_is_over_takes_its_ordinary_place() {
    let (mut world, host, [late, plain]) = late("PROMISE:inflated=no:policing=off");
    assert_eq!(
        order(&mut world, host, 5),
        [late, plain, plain, late, late],
        "the plain job has the higher priority"
    );
    assert_eq!(noted(&world), [0.0; 0]);
    let experience = world.scheduler.experience();
    let errors = experience.errors.of("PROMISE", JobStage::Early);
    assert!(
        errors.len() == 1 && errors[0] > 1.0,
        "it was late: {errors:?}"
    );

    // The paper has no other place for it.
    let (mut world, host, [late, plain]) = self::late("CALENDAR");
    assert_eq!(order(&mut world, host, 5), [late, late, late, plain, plain]);
}

#[test]
fn a_promise_that_was_broken_stays_so() {
    let policy = "PROMISE:inflated=no:policing=hard:when=always";
    let (mut world, host, [late, _]) = late(policy);
    world.send(Event::Tick);
    let status = |world: &World| {
        let keeping = world.scheduler.keeping(late, world.now).unwrap();
        (keeping.deadline < world.now, keeping.expected, keeping.open)
    };
    assert_eq!(status(&world), (true, None, 3));
    let explained = world.scheduler.explain_at(late, world.now).unwrap();
    assert!(!explained.tasks.is_empty());

    // What runs beyond its estimate is in the way of others as before.
    let bag = world.job(1).policy(policy).user("ben").estimates(&[5]);
    let (next, effects) = bag.deadline(8).asks();
    assert_eq!(ended(&effects).len(), 1, "{effects:?}");
    assert_eq!(world.attempt_on(host).task.job, next);
    assert_eq!(renewed(&effects), [], "there is nothing to make anew");
    assert_eq!(status(&world), (true, None, 3));

    world.restart();
    world.host(1).joins();
    assert!(status(&world).0);
}

#[test]
fn slots_are_divided_with_a_job_whose_deadline_is_over() {
    let mut world = World::with(Settings {
        lease: s(1_000_000),
        suspect_after: s(1_000_000),
        sharing: Some(Sharing::default()),
        ..Settings::default()
    });
    for host in 1..=4 {
        world.host(host).joins();
    }
    let job = world.job(100).policy("PROMISE:policing=off").user("ann");
    let late = job.estimate(s(1)).deadline(100).submit();
    let plain = world.job(100).user("ben").submit();

    let mut before = 0;
    let mut after = 0;
    for _ in 0..8 {
        for host in (1..=4).map(HostId) {
            world.now = world.now + s(30);
            let attempt = world.attempt_on(host);
            let over = world.now > Time(1_000_000) + s(100);
            let others = u32::from(attempt.task.job == plain);
            let count = if over { &mut after } else { &mut before };
            *count += others;
            world.ends(host, attempt, Outcome::Succeeded, s(120));
        }
    }
    assert_eq!(before, 0, "the deadline is close");
    assert!((10..=20).contains(&after), "{after} of 29 slots");
    assert!(!world.job_state(late).settled());
}

#[test]
fn a_deadline_for_more_tasks_than_the_calendar_takes_is_refused_with_the_bound() {
    let mut world = world();
    world.host(1).joins();
    let draft = world.job(200_000).policy("PROMISE").estimate(s(60));
    let bag = draft.deadline(3_600).bag();
    let refused = world.scheduler.would_admit(&bag, world.now).unwrap_err();
    let Refused::TooMany { tasks, most } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(tasks, 200_000);
    assert!(refused.to_string().contains(&most.to_string()), "{refused}");

    let (_, effects) = world
        .job(tasks as u32)
        .policy("PROMISE")
        .deadline(60)
        .asks();
    let told =
        |effect: &Effect| matches!(effect, Effect::JobRefused { why, .. } if *why == refused);
    assert!(effects.iter().any(told), "{effects:?}");
    world.job(tasks as u32).policy("PROMISE").submit();
}

#[test]
fn the_part_of_a_bag_that_would_be_in_time_is_the_largest_of_equal_tasks() {
    let mut world = world();
    world.host(1).joins();
    world.host(2).speed(2.0).joins();
    for estimates in [vec![10; 50], (0..50).map(|at| 10 + at % 2).collect()] {
        let draft = world.job(1).policy("CALENDAR").estimates(&estimates);
        let bag = draft.deadline(100).bag();
        match world.scheduler.would_admit(&bag, world.now).unwrap_err() {
            Refused::TooLate { fits, .. } if estimates[1] == 10 => assert_eq!(fits.len(), 30),
            Refused::TooLate { fits, .. } => assert!((25..30).contains(&fits.len()), "{fits:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_promise_counts_on_as_many_slots_as_its_user_may_have() {
    for (policy, speeds) in [
        ("PROMISE:inflated=no", [1.0, 1.0, 1.0, 1.0]),
        ("PROMISE:inflated=no", [1.0, 1.0, 1.0, 0.5]),
        ("PROMISE", [1.0, 1.0, 1.0, 1.0]),
    ] {
        let mut world = World::with(Settings {
            lease: s(1_000_000),
            suspect_after: s(1_000_000),
            sharing: Some(Sharing {
                most_running: [("ann".to_owned(), 2)].into(),
                ..Sharing::default()
            }),
            ..Settings::default()
        });
        for (host, speed) in (1..).zip(speeds) {
            world.host(host).speed(speed).joins();
        }
        let plain = world.job(1).user("ann").submit();
        let first = world.attempt_on(HostId(1));
        assert_eq!(first.task.job, plain);

        // One after the other beside it, or two once it is over, which is expected in a minute.
        let ask = |world: &mut World, user: &str, deadline| {
            let job = world.job(1).policy(policy).user(user);
            job.estimates(&[100, 100, 100]).deadline(deadline).asks()
        };
        let (_, effects) = ask(&mut world, "ann", 190);
        let Some(Effect::JobRefused { why, .. }) = effects.first() else {
            panic!("{effects:?}")
        };
        assert!(
            matches!(why, Refused::TooLate { fits, .. } if fits.len() == 2),
            "{why:?}"
        );

        let (capped, effects) = ask(&mut world, "ann", 400);
        assert_eq!(
            starts(&effects).len(),
            1,
            "with the plain one there are two"
        );
        let (next, effects) = ask(&mut world, "ben", 400);
        let others = starts(&effects)
            .into_iter()
            .map(|(_, attempt, _)| attempt.task.job);
        let began: Vec<JobId> = others.collect();
        assert!(
            began.len() >= 2 && began.iter().all(|job| *job == next),
            "{began:?}"
        );

        world.now = world.now + s(60);
        let effects = world.succeeds(HostId(1), first);
        let began = starts(&effects);
        assert!(
            began
                .iter()
                .any(|(_, attempt, _)| attempt.task.job == capped)
        );
        let running = world.scheduler.user_shares(world.now);
        let ann = running.iter().find(|share| share.user == "ann").unwrap();
        assert_eq!(ann.slots, 2);
    }
}

/// Two hosts of one slot, and a user who may run one task at a time.
fn bound_to_one(user: &str) -> World {
    let mut world = World::with(Settings {
        sharing: Some(Sharing {
            most_running: [(user.to_owned(), 1)].into(),
            ..Sharing::default()
        }),
        ..Settings::default()
    });
    world.host(1).joins();
    world.host(2).joins();
    world
}

fn promised_to(world: &mut World, user: &str, tasks: usize) -> JobId {
    let draft = world.job(1).policy("PROMISE:inflated=no").user(user);
    draft.estimates(&vec![100; tasks]).deadline(1_000).submit()
}

#[test]
fn a_task_of_a_bounded_user_is_promised_where_it_is_done_first() {
    let mut world = bound_to_one("ann");
    let promised = |world: &mut World, user: &str, secs: &[u64]| {
        let draft = world.job(1).policy("CALENDAR").user(user);
        draft.estimates(secs).deadline(1_000).submit()
    };
    promised(&mut world, "ann", &[100, 100]);
    promised(&mut world, "ben", &[100, 100, 100]);

    // One host is free after 200 s, when she may run one more; on that of her last task ben has one next.
    let draft = world.job(1).policy("CALENDAR").user("ann");
    let bag = draft.estimates(&[100]).deadline(1_000).bag();
    assert_eq!(world.offer(&bag).finish, world.now + s(300));
}

#[test]
fn a_promise_is_kept_whatever_other_users_are_bound_to() {
    let mut world = bound_to_one("ann");
    let plain = world.job(5).user("ann").submit();
    let of_ann = world.attempt_on(HostId(1));
    assert_eq!(of_ann.task.job, plain);

    let ben = promised_to(&mut world, "ben", 2);
    for number in [1, 2] {
        let attempt = world.attempt_on(HostId(2));
        assert_eq!(
            attempt.task,
            TaskId::new(ben, number),
            "ann is at her bound"
        );
        world.succeeds(HostId(2), attempt);
    }
    assert_eq!(world.attempt_on(HostId(1)), of_ann);
}

#[test]
fn a_promised_job_of_a_user_at_the_bound_lets_others_pass() {
    let mut world = bound_to_one("ben");
    let first = world.job(1).user("ann").submit();
    let attempt = world.attempt_on(HostId(1));
    assert_eq!(attempt.task.job, first);
    world.succeeds(HostId(1), attempt);

    let ben = promised_to(&mut world, "ben", 3);
    let of_ben = world.attempt_on(HostId(1));
    assert_eq!(of_ben.task, TaskId::new(ben, 1));
    let next = world.job(1).user("ann").submit();
    assert_eq!(world.attempt_on(HostId(2)).task.job, next);
}

/// When the job should be done, in seconds from now.
fn expected_s(world: &World, job: JobId) -> f64 {
    let keeping = world.scheduler.keeping(job, world.now);
    let keeping = keeping.expect("it has a promise");
    let end = keeping.expected.expect("there is a host");
    end.since(world.now).secs()
}

/// Twenty tasks that were estimated to take five seconds each, of which two run.
fn underestimated(world: &mut World) -> (JobId, [HostId; 2]) {
    let hosts = [1, 2].map(|host| world.host(host).joins());
    let job = world.job(20).policy("PROMISE").estimates(&[5; 20]);
    let job = job.deadline(100).submit();
    hosts
        .iter()
        .for_each(|host| drop(world.moves(*host, Phase::Running)));
    (job, hosts)
}

#[test]
fn a_promise_is_at_risk_once_its_first_tasks_took_far_longer_than_estimated() {
    let mut world = world();
    let (job, hosts) = underestimated(&mut world);
    assert!(expected_s(&world, job) < 100.0);
    world.pass(s(17));
    for host in hosts {
        let attempt = world.attempt_on(host);
        world.ends(host, attempt, Outcome::Succeeded, s(17));
    }

    // Nine rounds of 17 s are left.
    let left_s = expected_s(&world, job);
    assert!((150.0..200.0).contains(&left_s), "{left_s}");
}

#[test]
fn a_promise_is_at_risk_while_all_its_running_tasks_are_beyond_their_estimates() {
    let mut world = world();
    let (job, _) = underestimated(&mut world);
    world.pass(s(15));
    let left_s = expected_s(&world, job);
    assert!(left_s > 100.0, "nine rounds of 15 s and more: {left_s}");
}

#[test]
fn one_quick_task_does_not_make_the_rest_of_a_promised_job_look_short() {
    let mut world = world();
    let hosts: Vec<HostId> = (1..=10).map(|host| world.host(host).joins()).collect();
    let job = world.job(100).policy("PROMISE").estimates(&[100; 100]);
    let job = job.deadline(3_000).submit();
    for host in &hosts {
        world.moves(*host, Phase::Running);
    }
    world.pass(s(1));
    let attempt = world.attempt_on(hosts[0]);
    world.ends(hosts[0], attempt, Outcome::Succeeded, s(1));

    let left_s = expected_s(&world, job);
    assert!((700.0..1_300.0).contains(&left_s), "ten rounds: {left_s}");
}

#[test]
fn one_task_far_beyond_a_small_estimate_does_not_speak_for_those_with_larger_ones() {
    let mut world = world();
    let hosts: Vec<HostId> = (1..=4).map(|host| world.host(host).joins()).collect();
    let estimates = [&[1], &[600; 7][..]].concat();
    let job = world
        .job(8)
        .policy("PROMISE:stacking=given")
        .estimates(&estimates);
    let job = job.deadline(100_000).submit();
    for host in &hosts {
        world.moves(*host, Phase::Running);
    }
    world.pass(s(10));
    let left_s = expected_s(&world, job);
    assert!((1_000.0..1_800.0).contains(&left_s), "two rounds: {left_s}");
}

#[test]
fn at_admission_nobody_is_killed_for_what_others_estimated_too_little() {
    let mut world = world();
    let policy = "PROMISE:policing=hard:when=needed";
    let beyond = world.host(1).joins();
    let other = world.job(1).policy(policy).estimates(&[30]);
    let other = other.deadline(10_000).submit();
    world.moves(beyond, Phase::Running);
    world.pass(s(40));

    // It takes 20 s where 5 were estimated: ten of its tasks are left.
    let low_host = world.host(2).joins();
    let low = world.job(11).policy(policy).estimates(&[5; 11]);
    let low = low.deadline(10_000).submit();
    world.moves(low_host, Phase::Running);
    world.pass(s(20));
    let attempt = world.attempt_on(low_host);
    world.ends(low_host, attempt, Outcome::Succeeded, s(20));
    world.moves(low_host, Phase::Running);

    let bag = world.job(1).policy(policy).estimates(&[10]).deadline(130);
    let (_, effects) = bag.asks();
    let killed = ended(&effects);
    let of_other = killed.iter().filter(|(id, _)| id.task.job == other);
    assert_eq!(of_other.count(), 0, "by estimates it is done in 70 s");
    assert!(killed.iter().all(|(id, _)| id.task.job == low));
}

#[test]
fn a_task_that_was_estimated_to_take_no_time_says_nothing_of_the_others() {
    let mut world = world();
    let host = world.host(1).joins();
    let job = world
        .job(2)
        .policy("PROMISE:stacking=given")
        .estimates(&[0, 100]);
    let job = job.deadline(3_000).submit();
    world.moves(host, Phase::Running);
    world.pass(s(5));
    assert!(expected_s(&world, job) < 200.0);
    let attempt = world.attempt_on(host);
    world.ends(host, attempt, Outcome::Succeeded, s(5));
    let left_s = expected_s(&world, job);
    assert!((90.0..200.0).contains(&left_s), "{left_s}");
}

#[test]
fn a_task_on_a_busy_host_is_not_beyond_its_estimate_for_the_bags_behind_it() {
    let mut world = world();
    let host = world.host(1).joins();
    let hears = |world: &mut World, ran| {
        let mut held = world.held(host);
        held.iter_mut().for_each(|held| held.ran = ran);
        let status = Status {
            cpu: 0.2,
            ..OwnerState::Away.into()
        };
        world.send(Event::HostHeard { host, status, held });
    };
    for _ in 0..60 {
        world.now = world.now + s(60);
        hears(&mut world, s(0));
    }
    world.job(1).estimate(s(100)).submit();
    world.moves(host, Phase::Running);
    for minute in 1..=5 {
        world.now = world.now + s(60);
        hears(&mut world, s(60 * minute));
    }

    // It has done 60 s of its 100, and goes on for 200 s.
    let bag = world.job(1).policy("PROMISE").estimates(&[10]);
    let bag = bag.deadline(20_000).bag();
    let finish_s = world.offer(&bag).finish.since(world.now).secs();
    assert!((200.0..400.0).contains(&finish_s), "{finish_s}");
}

#[test]
fn nobody_is_evicted_for_a_job_whose_own_estimates_were_too_low() {
    let mut world = world();
    let policy = "PROMISE:policing=hard:when=needed";
    let host = world.host(1).joins();
    let other = world.job(1).policy(policy).estimates(&[30]);
    let other = other.deadline(1_000).submit();
    world.moves(host, Phase::Running);
    world.pass(s(40));

    let second = world.host(2).joins();
    let low = world.job(10).policy(policy).estimates(&[5; 10]);
    let low = low.deadline(140).submit();
    world.moves(second, Phase::Running);
    world.pass(s(20));
    let attempt = world.attempt_on(second);
    world.ends(second, attempt, Outcome::Succeeded, s(20));
    world.moves(second, Phase::Running);

    // With both hosts it would be in time.
    let effects = world.pass(s(30));
    let left_s = expected_s(&world, low);
    assert!(left_s > 140.0 - 50.0, "it will be late: {left_s}");
    let of_other = ended(&effects)
        .into_iter()
        .filter(|(id, _)| id.task.job == other);
    assert_eq!(of_other.count(), 0, "it is far beyond its estimate");
}

#[test]
fn a_task_with_several_attempts_should_be_done_with_the_first_of_them() {
    let mut world = world();
    let draft = world.job(1).policy("PROMISE:inflated=no").estimates(&[100]);
    let bag = Box::new(draft.deadline(5_000).bag());
    let attempt = |number| AttemptId {
        task: TaskId::new(JobId(1), 1),
        number,
        incarnation: Incarnation(0),
    };
    let tried = Tried {
        live: vec![(attempt(1), HostId(1), true), (attempt(2), HostId(2), true)],
        policed: s(0),
        ..events::tried(1, 2)
    };
    let progress = RestoredProgress {
        tried: vec![tried],
        attempts: 2,
        duplicates: 1,
        ..RestoredProgress::default()
    };
    // The model knows nothing of attempts from before its time.
    let mut scheduler = Scheduler::new(Settings::default(), Incarnation(1));
    let now = world.now;
    let restored = Event::JobRestored {
        job: JobId(1),
        bag,
        progress: Box::new(progress),
    };
    scheduler.step(now, restored, &mut Vec::new());
    for (number, speed) in [(1, 0.1), (2, 1.0)] {
        let held = HeldAttempt {
            attempt: attempt(number),
            phase: Phase::Running,
            ran: s(1),
            frozen_for: s(0),
            progress: None,
        };
        let joined = Event::HostJoined {
            host: HostId(number),
            slots: 1,
            speed: Speed::new(speed).unwrap(),
            status: OwnerState::Away.into(),
            held: vec![held],
        };
        scheduler.step(now, joined, &mut Vec::new());
    }

    let keeping = scheduler.keeping(JobId(1), now).unwrap();
    let expected_s = keeping.expected.unwrap().since(now).secs();
    assert!((90.0..110.0).contains(&expected_s), "{expected_s}");
}

#[test]
fn a_promise_whose_attempt_stands_still_should_be_kept_later() {
    let mut world = world();
    let host = world.host(1).joins();
    let job = world
        .job(1)
        .policy("PROMISE:policing=off")
        .estimates(&[100]);
    let job = job.deadline(5_000).submit();
    world.moves(host, Phase::Running);
    world.pass(s(10));

    let before_s = expected_s(&world, job);
    world.owner_comes(host);
    let still_s = expected_s(&world, job);
    assert!(still_s >= before_s + 50.0, "{before_s}, then {still_s}");
    world.pass(s(1_000));
    assert!(expected_s(&world, job) > still_s + 500.0);
}

#[test]
fn an_attempt_with_part_of_a_processor_is_not_beyond_an_estimate_that_is_right() {
    for (policy, beyond) in [
        ("PROMISE:policing=hard:when=always", false),
        ("PROMISE:policing=hard:when=always:inflated=no", true),
    ] {
        let mut world = world();
        let host = world.host(1).joins();
        let status = Status {
            cpu: 0.25,
            ..OwnerState::Away.into()
        };
        let hears = |world: &mut World, ran| {
            let mut held = world.held(host);
            held.iter_mut().for_each(|held| held.ran = ran);
            world.send(Event::HostHeard { host, status, held });
        };
        hears(&mut world, s(0));
        let job = world.job(1).policy(policy).estimates(&[3_600]);
        let job = job.deadline(50_000).submit();
        world.moves(host, Phase::Running);
        for minute in 1..=180 {
            world.now = world.now + s(60);
            hears(&mut world, s(60 * minute));
        }

        let keeping = world.scheduler.keeping(job, world.now).unwrap();
        assert_eq!(
            keeping.overdue > 0,
            beyond,
            "three quarters are done: {keeping:?}"
        );
        let left_s = expected_s(&world, job);
        assert!(beyond || (3_000.0..5_000.0).contains(&left_s), "{left_s}");

        let other = world.job(1).policy(policy).estimates(&[10]);
        let (_, effects) = other.deadline(50_000).asks();
        assert_eq!(ended(&effects).len(), usize::from(beyond), "{policy}");
    }
}

#[test]
fn many_jobs_are_predicted_together_as_each_is_alone() {
    let mut world = world();
    let hosts: Vec<HostId> = (1..4).map(|host| world.host(host).joins()).collect();
    let mut jobs: Vec<JobId> = Vec::new();
    for (number, policy) in (0..12).zip(
        ["CALENDAR", "PROMISE", "PROMISE:inflated=no"]
            .iter()
            .cycle(),
    ) {
        let estimates = [20 + 7 * (u64::from(number) % 5), 30, 40];
        let job = world
            .job(1 + number % 2)
            .policy(policy)
            .estimates(&estimates);
        jobs.push(job.deadline(5_000 - 100 * u64::from(number)).submit());
    }
    jobs.push(world.job(2).estimates(&[50]).submit());
    world.moves(hosts[0], Phase::Running);
    world.pass(s(10));

    let scheduler = &world.scheduler;
    let keeping = scheduler.keeping_all(&jobs, world.now);
    let predicted = scheduler.predict_all(&jobs, world.now);
    assert_eq!((keeping.len(), predicted.len()), (12, 13));
    for job in jobs {
        let alone = scheduler.keeping(job, world.now);
        assert_eq!(keeping.get(&job).copied(), alone);
        let alone = scheduler.predict(job, world.now);
        assert_eq!(predicted.get(&job).copied(), alone);
    }
}
