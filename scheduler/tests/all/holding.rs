//! Who makes room is frozen where its host can hold it, and goes on when there is a slot again; and
//! what becomes of disclosed work when its results are gone, or nobody has room for more of them.

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::view::{HostState, TaskState};
use common::{AttemptId, HostId, IdSet, JobId, TaskId};
use scheduler::{Effect, Event, Scheduler, Settings, Sharing};

use crate::events;
use crate::speculation::{often_drops_the_rest, request, world};
use crate::world::{World, ended, held, s, starts, stopped};

fn begun(effects: &[Effect]) -> Vec<u32> {
    starts(effects)
        .iter()
        .map(|(_, attempt, _)| attempt.task.index)
        .collect()
}

/// The attempts of a host that take its slots.
fn in_slots(world: &World, host: HostId) -> Vec<u32> {
    let books = world.books(host);
    let live = |attempt: &AttemptId| {
        let all = world.scheduler.task_attempts(attempt.task);
        all.into_iter()
            .find(|live| live.attempt == *attempt)
            .expect("it is live")
    };
    books
        .iter()
        .filter(|attempt| live(attempt).phase != Phase::Held)
        .map(|attempt| attempt.task.index)
        .collect()
}

/// A host of one slot that can hold one attempt, and runs the first task of a disclosed job of
/// four.
fn busy(world: &mut World) -> (JobId, HostId) {
    let job = world.job(4).policy("FCFSxFCFS").disclosed().submit();
    let host = world.host(1).holds_frozen(1).joins();
    world.moves(host, Phase::Running);
    world.pass(s(20));
    (job, host)
}

#[test]
fn a_preempted_attempt_is_frozen_and_resumes_in_a_free_slot() {
    let mut world = world();
    let (job, host) = busy(&mut world);
    let first = world.attempt_on(host);
    let effects = request(&mut world, job, [3]);
    assert_eq!(
        held(&effects),
        (vec![(host, first, Some(TaskId::new(job, 3)))], vec![])
    );
    assert_eq!(
        (begun(&effects), stopped(&effects), ended(&effects)),
        (vec![3], vec![], vec![])
    );

    assert_eq!(
        (world.task_state(job, 1), world.host_state(host)),
        (TaskState::Suspended, HostState::Busy)
    );

    let why = world.scheduler.explain(job).expect("it is there").tasks;
    assert!(
        why.iter()
            .any(|(why, tasks)| why.contains("made room for task 1.3") && tasks.contains(1)),
        "{why:?}"
    );

    let still = world.scheduler.task_attempts(first.task)[0].ran;
    assert_eq!(still, s(20));

    world.pass(s(100));
    world.moves(host, Phase::Running);

    let third = world.attempt_of(host, 3);
    let effects = world.ends(host, third, Outcome::Succeeded, s(100));
    assert_eq!(
        held(&effects).1,
        [first],
        "it goes before other disclosed work"
    );
    assert_eq!((begun(&effects), in_slots(&world, host)), (vec![], vec![1]));
    assert_eq!(world.task_state(job, 1), TaskState::Running);
}

#[test]
fn a_task_that_made_room_is_predicted_to_go_on_with_a_free_slot() {
    let mut world = world();
    let draft = world.job(4).policy("FCFSxFCFS").estimate(s(40));
    let job = draft.disclosed().submit();
    let host = world.host(1).holds_frozen(1).joins();
    world.moves(host, Phase::Running);
    world.pass(s(20));
    let left_s = |world: &World| {
        let finish = world.scheduler.predict_finish(job, world.now);
        finish.expect("it has an estimate").since(world.now).secs()
    };
    let before_s = left_s(&world);
    request(&mut world, job, [3]);
    let after_s = left_s(&world);
    assert_eq!(world.task_state(job, 1), TaskState::Suspended);
    assert!(
        (before_s..before_s + 60.0).contains(&after_s),
        "{before_s} s, then {after_s} s"
    );
}

#[test]
fn nothing_is_predicted_to_start_in_the_place_of_a_frozen_attempt() {
    let mut world = world();
    let draft = world.job(1).policy("FCFSxFCFS").estimate(s(40));
    let disclosed = draft.disclosed().submit();
    let host = world.host(1).holds_frozen(1).joins();
    world.moves(host, Phase::Running);
    let draft = world.job(1).policy("FCFSxFCFS").estimate(s(3_600));
    draft.submit();
    assert_eq!(world.task_state(disclosed, 1), TaskState::Suspended);

    let draft = world.job(1).policy("FCFSxFCFS").estimate(s(40));
    let waits = draft.submit();
    let start = world.scheduler.predict_start(waits, world.now);
    let start = start.expect("it waits").start;
    let finish = world.scheduler.predict_finish(waits, world.now);
    let finish = finish.expect("it has an estimate");
    for at in [start, finish] {
        let left_s = at.since(world.now).secs();
        assert!(left_s > 3_000.0, "{left_s} s behind a task of an hour");
    }
    let free_s = world.scheduler.predict_hosts(1, world.now).median_s;
    assert!(free_s.is_none_or(|s| s > 3_000.0), "{free_s:?}");
}

#[test]
fn a_frozen_attempt_is_not_charged_for_the_loss_of_its_host() {
    let mut world = world();
    let job = world
        .job(4)
        .policy("FCFSxFCFS")
        .max_losses(0)
        .disclosed()
        .submit();

    let host = world.host(1).holds_frozen(1).joins();
    world.moves(host, Phase::Running);
    request(&mut world, job, [3]);
    world.moves(host, Phase::Held);

    let third = world.attempt_of(host, 3);
    let phase = |attempt| {
        if attempt == third {
            Phase::Running
        } else {
            Phase::Held
        }
    };

    let list = world
        .held(host)
        .into_iter()
        .map(|held| HeldAttempt {
            phase: phase(held.attempt),
            ..held
        })
        .collect();
    world.heard(host, list);
    world.send(events::joined(host, 1));

    assert_eq!(
        (world.task_state(job, 1), world.task_state(job, 3)),
        (TaskState::Running, TaskState::Failed)
    );
}

#[test]
fn a_frozen_attempt_resumes_on_a_draining_host() {
    let mut world = world();
    let (job, host) = busy(&mut world);
    let first = world.attempt_on(host);

    request(&mut world, job, [3]);
    world.send(Event::HostDrained { host });

    let third = world.attempt_of(host, 3);
    let effects = world.ends(host, third, Outcome::Succeeded, s(100));
    assert_eq!(
        (held(&effects).1, begun(&effects)),
        (vec![first], vec![]),
        "what runs there ends in peace"
    );

    let effects = world.ends(host, first, Outcome::Succeeded, s(100));
    assert!(begun(&effects).is_empty() && world.books(host).is_empty());
}

#[test]
fn a_preempted_attempt_is_stopped_if_no_more_can_be_frozen() {
    let mut world = world();
    let (job, host) = busy(&mut world);
    let other = world.job(1).policy("FCFSxFCFS").disclosed().submit();
    let first = world.attempt_on(host);
    let effects = request(&mut world, job, [3]);
    assert_eq!(held(&effects).0.len(), 1);
    world.send(events::cancelled(job, Some(IdSet::from_range(3, 3))));

    assert_eq!(in_slots(&world, host), [1], "the slot is free again");
    // Two slots: one frozen, one that cannot be.
    let host = world
        .host(1)
        .slots(2)
        .holding(first, Phase::Running)
        .joins();
    assert_eq!(world.books(host).len(), 2);
    world.moves(host, Phase::Running);

    // The second, the next one by index, runs in the other one.
    let effects = request(&mut world, job, [4]);
    assert_eq!(held(&effects).0.len(), 1, "{effects:?}");

    let effects = request(&mut world, other, [1]);
    assert_eq!(
        (held(&effects).0.len(), stopped(&effects).len()),
        (0, 1),
        "{effects:?}"
    );
}

#[test]
fn a_requested_frozen_task_resumes_before_waiting_tasks() {
    let mut world = world();
    let (job, host) = busy(&mut world);
    let first = world.attempt_on(host);

    request(&mut world, job, [3]);
    request(&mut world, job, [2]);
    request(&mut world, job, [1]);

    let third = world.attempt_of(host, 3);
    let effects = world.ends(host, third, Outcome::Succeeded, s(10));
    assert_eq!((held(&effects).1, begun(&effects)), (vec![first], vec![]));

    let effects = world.ends(host, first, Outcome::Succeeded, s(30));
    assert_eq!(begun(&effects), [2]);
}

#[test]
fn a_frozen_attempt_stays_so_while_its_user_is_at_the_bound() {
    let mut world = World::with(Settings {
        sharing: Some(Sharing {
            most_running_each: Some(1),
            ..Sharing::default()
        }),
        ..Settings::default()
    });
    let host = world.host(1).slots(2).holds_frozen(1).joins();
    let ann = world.job(1).user("ann").policy("FCFS").submit();
    let draft = world.job(2).user("ben").policy("FCFSxFCFS");
    let ben = draft.disclosed().submit();
    world.moves(host, Phase::Running);

    let of = |world: &World, job, index| {
        let task = TaskId::new(job, index);
        let books = world.books(host);
        let mut own = books.into_iter().filter(|attempt| attempt.task == task);
        own.next().expect("it is live")
    };
    let first = of(&world, ben, 1);
    let effects = request(&mut world, ben, [2]);
    assert_eq!(
        held(&effects).0,
        [(host, first, Some(TaskId::new(ben, 2)))],
        "{effects:?}"
    );

    let attempt = of(&world, ann, 1);
    let effects = world.succeeds(host, attempt);
    assert_eq!(held(&effects).1, [], "ben runs one task already");
    let attempt = of(&world, ben, 2);
    let effects = world.succeeds(host, attempt);
    assert_eq!(held(&effects).1, [first]);
}

#[test]
fn a_frozen_attempt_goes_on_once_its_user_has_fewer_tasks_on_other_hosts() {
    let mut world = World::with(Settings {
        sharing: Some(Sharing {
            most_running_each: Some(1),
            ..Sharing::default()
        }),
        ..Settings::default()
    });
    let host = world.host(1).holds_frozen(1).joins();
    let draft = world.job(2).user("ben").policy("FCFSxFCFS");
    let ben = draft.disclosed().submit();
    world.moves(host, Phase::Running);
    let first = world.attempt_on(host);
    let (ann, effects) = world.job(1).user("ann").policy("FCFS").asks();
    assert_eq!(held(&effects).0, [(host, first, Some(TaskId::new(ann, 1)))]);
    let other = world.host(2).joins();
    let second = world.attempt_on(other);
    assert_eq!(second.task, TaskId::new(ben, 2));

    let books = world.books(host);
    let attempt = books.into_iter().find(|attempt| attempt.task.job == ann);
    let effects = world.succeeds(host, attempt.expect("it runs"));
    assert_eq!(held(&effects).1, [], "ben runs one task already");
    let effects = world.pass(s(10));
    assert_eq!(held(&effects).1, [], "ben still does");
    let effects = world.succeeds(other, second);
    assert_eq!(held(&effects).1, [first]);
}

#[test]
fn a_frozen_attempt_ends_with_its_job_or_its_host() {
    let mut world = world();
    let (job, host) = busy(&mut world);
    let first = world.attempt_on(host);

    request(&mut world, job, [3]);
    assert_eq!(
        stopped(&world.send(Event::UnrequestedCancelled { job })),
        [(host, first)]
    );
    assert_eq!(in_slots(&world, host), [3]);

    let mut world = self::world();
    let (job, host) = busy(&mut world);
    request(&mut world, job, [3]);
    world.send(Event::HostLeft { host });
    assert_eq!(
        (world.task_state(job, 1), world.task_state(job, 3)),
        (TaskState::Disclosed, TaskState::Waiting)
    );
}

#[test]
fn an_idle_host_copies_a_requested_task_frozen_elsewhere() {
    let mut world = world();
    let (job, host) = busy(&mut world);
    let needed = world.job(1).policy("FCFS").submit();

    assert_eq!(world.task_state(job, 1), TaskState::Suspended);
    let (other, effects) = world.host(2).slots(4).joins_with();
    assert_eq!(begun(&effects), [2, 3, 4], "nobody waits for it");

    let effects = request(&mut world, job, [1]);
    assert_eq!(
        (begun(&effects), starts(&effects)[0].0),
        (vec![1], other),
        "{effects:?}"
    );

    let attempt = world
        .books(host)
        .into_iter()
        .find(|attempt| attempt.task.job == needed)
        .expect("it runs");
    assert_eq!(held(&world.succeeds(host, attempt)).1.len(), 1);

    let copy = world.attempt_of(other, 1);
    let effects = world.succeeds(other, copy);
    assert_eq!(
        stopped(&effects).first().map(|(at, _)| *at),
        Some(host),
        "the first one wins"
    );
}

#[test]
fn an_ended_attempt_is_not_preempted_and_its_result_counts() {
    let mut world = world();
    let job = world.job(2).policy("FCFSxFCFS").disclosed().submit();
    let host = world.host(1).joins();
    world.moves(host, Phase::Ended);

    let first = world.attempt_on(host);
    assert!(
        stopped(&request(&mut world, job, [2])).is_empty(),
        "its slot is free in a moment"
    );

    let effects = world.ends(host, first, Outcome::Succeeded, s(5));
    assert_eq!(
        (world.task_state(job, 1), begun(&effects)),
        (TaskState::Finished, vec![2])
    );
}

#[test]
fn a_preempted_attempt_only_delivers_its_result_after_a_restart() {
    let now = common::Time(1_000_000);
    let attempt = AttemptId {
        task: TaskId::new(JobId(1), 1),
        number: 1,
        incarnation: common::Incarnation(0),
    };
    let host = HostId(1);
    let tried = scheduler::event::Tried {
        ended: vec![(attempt, host)],
        ..events::tried(1, 1)
    };

    let restored = || {
        let rules = common::job::Rules {
            policy: "FCFSxFCFS".into(),
            ..Default::default()
        };
        let bag = scheduler::event::Bag {
            disclosed: true,
            ..scheduler::event::Bag::new(IdSet::from_range(1, 1), rules)
        };
        let progress = scheduler::event::RestoredProgress {
            tried: vec![tried.clone()],
            attempts: 1,
            ..Default::default()
        };

        Event::JobRestored {
            job: JobId(1),
            bag: Box::new(bag),
            progress: Box::new(progress),
        }
    };
    let joins = |phase| {
        let mut scheduler = Scheduler::new(Settings::default(), common::Incarnation(1));
        let mut effects = Vec::new();
        scheduler.step(now, restored(), &mut effects);

        let held = vec![common::attempt::HeldAttempt {
            attempt,
            phase,
            ran: s(1),
            frozen_for: common::Span::ZERO,
            progress: None,
        }];

        let status = common::host::OwnerState::Away.into();
        let joined = Event::HostJoined {
            host,
            slots: 1,
            speed: common::Speed::REFERENCE,
            status,
            held,
        };
        scheduler.step(now, joined, &mut effects);

        (scheduler, effects)
    };
    let (_, effects) = joins(Phase::Running);
    assert_eq!(crate::world::abandoned(&effects), [attempt]);

    let (mut scheduler, mut effects) = joins(Phase::Ended);
    assert!(crate::world::abandoned(&effects).is_empty(), "{effects:?}");
    scheduler.step(now, events::succeeded(host, attempt, s(1)), &mut effects);

    assert_eq!(
        scheduler.task_state(attempt.task),
        Some(TaskState::Finished)
    );
}

#[test]
fn a_host_that_missed_an_order_is_told_again_when_it_is_back() {
    let mut world = world();
    let (job, host) = busy(&mut world);
    let first = world.attempt_on(host);

    request(&mut world, job, [3]);
    world.parts(host);

    // Neither the order to freeze nor the new task has arrived.
    let (_, effects) = world.host(1).holding(first, Phase::Running).joins_with();
    assert_eq!(
        (held(&effects), begun(&effects)),
        ((vec![(host, first, None)], vec![]), vec![3])
    );

    let mut world = self::world();
    let (job, host) = busy(&mut world);
    let first = world.attempt_on(host);

    request(&mut world, job, [3]);
    let third = world.attempt_of(host, 3);
    let (_, effects) = world
        .host(1)
        .holding(first, Phase::Running)
        .holding(third, Phase::Staging)
        .joins_with();
    assert_eq!(held(&effects), (vec![(host, first, None)], vec![]));
    assert_eq!(
        in_slots(&world, host).len(),
        2,
        "until its host says that it stands still"
    );
}

#[test]
fn a_restarted_master_learns_of_frozen_attempts() {
    let mut world = world();
    let (job, host) = busy(&mut world);
    let first = world.attempt_on(host);

    request(&mut world, job, [3]);
    let third = world.attempt_of(host, 3);
    world.restart();

    let joining = world
        .host(1)
        .holds_frozen(1)
        .holding(first, Phase::Held)
        .holding(third, Phase::Running);
    let (_, effects) = joining.joins_with();
    assert_eq!(
        (held(&effects), in_slots(&world, host)),
        ((vec![], vec![]), vec![3])
    );

    let effects = world.ends(host, third, Outcome::Succeeded, s(10));
    assert_eq!(held(&effects).1, [first]);
    assert_eq!(in_slots(&world, host), [1]);
}

#[test]
fn a_full_share_holds_back_disclosed_but_not_requested_tasks() {
    let mut world = world();
    world.send(Event::ShareFull {
        user: "anna".into(),
        full: true,
    });

    let job = world
        .job(3)
        .policy("FCFSxNEED")
        .user("anna")
        .disclosed()
        .submit();

    let (host, effects) = world.host(1).joins_with();
    assert!(begun(&effects).is_empty());

    let why = world.scheduler.explain(job).expect("it is there").tasks;
    assert!(
        why.iter()
            .any(|(why, tasks)| why.contains("as much is kept") && tasks.len() == 3),
        "{why:?}"
    );
    assert_eq!(begun(&request(&mut world, job, [2])), [2]);

    let others = world
        .job(1)
        .policy("FCFSxNEED")
        .user("berta")
        .disclosed()
        .submit();

    let attempt = world.attempt_on(host);
    let effects = world.ends(host, attempt, Outcome::Succeeded, s(1));
    assert_eq!(starts(&effects)[0].1.task.job, others);

    let attempt = world.attempt_on(host);
    assert!(begun(&world.ends(host, attempt, Outcome::Succeeded, s(1))).is_empty());
    assert_eq!(
        begun(&world.send(Event::ShareFull {
            user: "anna".into(),
            full: false
        }))
        .len(),
        1
    );
}

fn share(world: &mut World, full: bool) -> Vec<Effect> {
    let user = "anna".into();
    world.send(Event::ShareFull { user, full })
}

#[test]
fn a_retried_dropped_task_heeds_the_share_as_it_is_now() {
    for full in [false, true] {
        let mut world = world();
        share(&mut world, !full);
        let draft = world.job(3).policy("FCFSxNEED").user("anna");
        let job = draft.disclosed().submit();
        let host = world.host(1).joins();
        request(&mut world, job, [1]);
        world.send(Event::UnrequestedCancelled { job });

        share(&mut world, full);
        let tasks = IdSet::from_range(2, 3);
        world.send(Event::JobRetried { job, tasks });
        let attempt = world.attempt_on(host);
        let effects = world.ends(host, attempt, Outcome::Succeeded, s(1));
        assert_eq!(begun(&effects).is_empty(), full, "{effects:?}");
        if full {
            assert_eq!(begun(&share(&mut world, false)), [2]);
        }
    }
}

#[test]
fn a_disclosed_task_whose_result_is_lost_heeds_the_share_as_it_is_now() {
    let mut world = world();
    let draft = world.job(1).policy("FCFSxNEED").user("anna");
    let job = draft.disclosed().submit();
    let host = world.host(1).joins();
    let first = world.attempt_on(host);
    world.ends(host, first, Outcome::Succeeded, s(1));

    share(&mut world, true);
    let tasks = vec![(1, first.number)];
    let effects = world.send(Event::ResultsGone { job, tasks });
    assert!(begun(&effects).is_empty(), "{effects:?}");
    assert_eq!(begun(&share(&mut world, false)), [1]);
}

#[test]
fn a_requested_task_runs_again_after_its_result_is_lost() {
    let mut world = world();
    let job = world.job(2).policy("FCFSxNEED").disclosed().submit();
    let host = world.host(1).joins();
    let first = world.attempt_on(host);
    world.ends(host, first, Outcome::Succeeded, s(5));
    assert_eq!(world.task_state(job, 1), TaskState::Finished);
    request(&mut world, job, [1]);

    let effects = world.send(events::gone(job, vec![(1, 1), (2, 7)]));
    let reopened = Effect::TasksReopened {
        job,
        tasks: IdSet::from_range(1, 1),
    };
    assert!(
        effects.contains(&reopened),
        "what was not finished stays as it is: {effects:?}"
    );

    let started = starts(&effects);
    assert_eq!(
        (started[0].1.task.index, started[0].1.number),
        (1, 2),
        "it takes the place of the disclosed one"
    );
    assert!(world.send(events::gone(job, vec![(1, 1)])).is_empty());

    assert_eq!(world.task_state(job, 1), TaskState::Running);
}

#[test]
fn the_drop_rates_of_users_outlive_the_scheduler() {
    let mut world = world();
    often_drops_the_rest(&mut world, "anna");

    let experience = world.scheduler.experience();
    assert_eq!(experience.drops.get("anna"), Some(&(6, 6)));

    let mut world = self::world();
    world.send(Event::Learned(Box::new(experience.clone())));
    assert_eq!(world.scheduler.experience().drops, experience.drops);

    let fickle = world
        .job(2)
        .policy("FCFSxNEED:later=100")
        .user("anna")
        .disclosed()
        .submit();

    let steady = world
        .job(2)
        .policy("FCFSxNEED:later=100")
        .user("berta")
        .disclosed()
        .submit();

    let (host, effects) = world.host(1).joins_with();
    assert_eq!(starts(&effects)[0].1.task.job, steady);

    let attempt = world.attempt_on(host);
    let effects = world.ends(host, attempt, Outcome::Succeeded, s(1));
    assert_eq!(
        starts(&effects)[0].1.task.job,
        steady,
        "her second goes before the other's first"
    );

    let attempt = world.attempt_on(host);
    let effects = world.ends(host, attempt, Outcome::Succeeded, s(1));
    assert_eq!(starts(&effects)[0].1.task.job, fickle);
    assert_eq!(
        Scheduler::new(Settings::default(), common::Incarnation(1))
            .experience()
            .drops
            .len(),
        0
    );
}
