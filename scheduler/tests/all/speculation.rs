//! Disclosed tasks: nobody who waits is held up by what nobody waits for, and what is dropped is
//! gone at once.

use common::attempt::{Outcome, Phase};
use common::host::Loan;
use common::needs::{Capacity, Needs, Offers};
use common::view::{JobState, TaskState};
use common::{HostId, IdSet, JobId, Span, TaskId};
use scheduler::effect::{CancelReason, EndReason};
use scheduler::{Effect, Event, Settings, Sharing};

use crate::events;
use crate::world::{World, ended, s, starts, stopped};

pub(super) fn world() -> World {
    World::with(Settings {
        lease: s(1_000_000),
        suspect_after: s(1_000_000),
        ..Settings::default()
    })
}

pub(super) fn request(
    world: &mut World,
    job: JobId,
    tasks: impl IntoIterator<Item = u32>,
) -> Vec<Effect> {
    world.send(Event::TasksRequested {
        job,
        tasks: Some(IdSet::from_iter(tasks)),
    })
}

/// Six times the user needs one of two disclosed tasks and drops the other.
pub(super) fn often_drops_the_rest(world: &mut World, user: &str) {
    for _ in 0..6 {
        let job = world
            .job(2)
            .policy("FCFSxNEED:later=100")
            .user(user)
            .disclosed()
            .submit();
        request(world, job, [1]);
        world.send(Event::UnrequestedCancelled { job });
        world.send(Event::JobCancelled { job, tasks: None });
    }
}

/// Which tasks these effects start.
fn begun(effects: &[Effect]) -> Vec<(u32, u32)> {
    starts(effects)
        .iter()
        .map(|(_, attempt, _)| (attempt.task.job.0, attempt.task.index))
        .collect()
}

/// The attempt on this host is done; which tasks start then.
fn done(world: &mut World, host: HostId) -> Vec<(u32, u32)> {
    let attempt = world.attempt_on(host);
    begun(&world.ends(host, attempt, Outcome::Succeeded, s(10)))
}

#[test]
fn requested_tasks_go_first_then_disclosed_ones_in_their_order() {
    let mut world = world();
    let first = world.job(3).policy("FCFSxFCFS").disclosed().submit();
    let second = world.job(2).policy("FCFSxFCFS").disclosed().submit();

    assert_eq!(world.task_state(first, 1), TaskState::Disclosed);
    assert_eq!(
        world
            .scheduler
            .job_counts(first)
            .expect("it is there")
            .disclosed,
        3
    );

    request(&mut world, second, [2]);
    request(&mut world, first, [3]);
    assert_eq!(world.task_state(first, 3), TaskState::Waiting);

    let (host, effects) = world.host(1).joins_with();
    let mut order = begun(&effects);
    for _ in 0..4 {
        order.extend(done(&mut world, host));
    }

    let first = first.0;
    let second = second.0;
    assert_eq!(
        order,
        [(second, 2), (first, 3), (first, 1), (first, 2), (second, 1)]
    );
}

#[test]
fn disclosed_tasks_before_a_requested_one_go_by_index_or_last_where_need_counts() {
    for (policy, then) in [
        ("FCFSxFCFS", [1, 3, 4]),
        ("SRPTxFCFS", [1, 3, 4]),
        ("FCFSxNEED", [3, 4, 1]),
        ("SRPTxNEED", [3, 4, 1]),
    ] {
        let mut world = world();
        let job = world.job(4).policy(policy).disclosed().submit();
        request(&mut world, job, [2]);
        let (host, effects) = world.host(1).joins_with();
        let mut order = begun(&effects);
        for _ in 0..3 {
            order.extend(done(&mut world, host));
        }

        let order: Vec<u32> = order.into_iter().map(|(_, index)| index).collect();
        assert_eq!(order[0], 2, "{policy}");
        assert_eq!(order[1..], then, "{policy}");
    }
}

#[test]
fn tasks_before_a_requested_one_that_start_last_are_explained_as_passed_over() {
    let passed_over = |world: &World, job| {
        let why = world.scheduler.explain(job).expect("it is there");
        let mut tasks = why.tasks.into_iter();
        tasks.find(|(why, _)| why.contains("expected to be needed first"))
    };
    for (policy, requested, explained) in [
        ("FCFSxNEED", 4, true),
        ("FCFSxFCFS", 4, false),
        ("INTERACTIVE-FCFS", 4, false),
        ("FCFSxNEED", 6, false),
    ] {
        let mut world = world();
        let job = world.job(6).policy(policy).disclosed().submit();
        assert_eq!(passed_over(&world, job), None, "{policy}");
        request(&mut world, job, [1, requested]);
        let found = passed_over(&world, job);
        assert_eq!(found.is_some(), explained, "{policy}");
        if let Some((why, tasks)) = found {
            assert!(why.contains("though task 4, which is behind it,"), "{why}");
            assert_eq!(tasks, IdSet::from_range(2, 3));
        }

        let tasks = Some(IdSet::from_range(5, 6));
        world.send(Event::JobCancelled { job, tasks });
        assert_eq!(passed_over(&world, job), None, "no other waits");
    }
}

#[test]
fn a_request_takes_the_place_of_the_disclosed_task_that_loses_least() {
    let mut world = world();
    let job = world.job(4).policy("FCFSxFCFS").disclosed().submit();
    let old = world.host(1).joins();

    world.pass(s(50));
    let young = world.host(2).joins();
    world.pass(s(5));

    let effects = request(&mut world, job, [4]);
    let by = TaskId::new(job, 4);
    let why = EndReason::Preempted { by, kept: false };
    let victim = ended(&effects)[0].0;
    assert_eq!(
        (
            victim.task.index,
            ended(&effects).len(),
            ended(&effects)[0].1.clone()
        ),
        (2, 1, why)
    );

    assert_eq!(stopped(&effects), [(young, victim)]);
    assert_eq!(starts(&effects)[0].0, young);
    assert_eq!(world.attempt_on(old).task.index, 1);
    assert_eq!(world.task_state(job, 2), TaskState::Disclosed);

    // Another request moves what runs from the disclosed to the requested ones: then nobody has to
    // make room for it.
    assert!(request(&mut world, job, [1]).is_empty());
    assert!(
        ended(&request(&mut world, job, [3])).is_empty(),
        "both hosts run what was requested"
    );
}

#[test]
fn work_of_any_other_policy_takes_the_place_of_disclosed_work_too() {
    let mut world = world();
    let disclosed = world.job(2).policy("FCFSxFCFS").disclosed().submit();
    let host = world.host(1).joins();
    let (job, effects) = world.job(1).policy("FCFS").asks();
    assert_eq!(begun(&effects), [(job.0, 1)]);
    assert_eq!(ended(&effects)[0].0.task.job, disclosed);
    assert_eq!(done(&mut world, host), [(disclosed.0, 1)]);
}

#[test]
fn an_undisclosed_task_is_not_evicted_without_saving_its_state() {
    let mut world = world();
    world.job(0).policy("SRPTxFCFS").estimates(&[100]).submit();
    world.host(1).joins();
    let (_, effects) = world.job(0).policy("SRPTxFCFS").estimates(&[1]).asks();
    assert!(starts(&effects).is_empty(), "{effects:?}");
}

#[test]
fn nothing_makes_room_for_a_task_beyond_its_users_bound() {
    let mut world = World::with(Settings {
        sharing: Some(Sharing {
            most_running_each: Some(1),
            ..Sharing::default()
        }),
        ..Settings::default()
    });
    let ann = world.job(2).user("ann").policy("FCFS").submit();
    let first = world.host(1).joins();
    assert_eq!(world.attempt_on(first).task.job, ann);

    let draft = world.job(2).user("ben").policy("FCFSxFCFS");
    let ben = draft.disclosed().submit();
    let second = world.host(2).joins();
    assert_eq!(world.attempt_on(second).task.job, ben);
    assert_eq!(world.beats(second), []);

    // At the bound, a task may still take the place of its own user's.
    request(&mut world, ben, [2]);
    assert_eq!(world.attempt_on(second).task, TaskId::new(ben, 2));
}

#[test]
fn a_requested_task_gets_room_behind_many_jobs_of_a_user_at_the_bound() {
    let mut world = World::with(Settings {
        sharing: Some(Sharing {
            most_running_each: Some(1),
            ..Sharing::default()
        }),
        ..Settings::default()
    });
    let ann = world.job(1).user("ann").policy("FCFS").submit();
    let first = world.host(1).joins();
    for _ in 0..300 {
        world.job(1).user("ann").policy("FCFS").submit();
    }
    let draft = world.job(1).user("carl").policy("FCFSxFCFS");
    let carl = draft.disclosed().submit();
    let second = world.host(2).joins();
    assert_eq!(world.attempt_on(second).task.job, carl);

    let ben = world.job(1).user("ben").policy("FCFS").submit();
    assert_eq!(world.attempt_on(second).task.job, ben);
    assert_eq!(world.attempt_on(first).task.job, ann);
}

#[test]
fn several_requested_tasks_get_room_behind_jobs_of_a_user_at_the_bound() {
    let mut world = World::with(Settings {
        sharing: Some(Sharing {
            most_running: [("ann".to_owned(), 1)].into(),
            ..Sharing::default()
        }),
        ..Settings::default()
    });
    let ann = world.job(1).user("ann").policy("FCFS").submit();
    let first = world.host(1).joins();
    for _ in 0..300 {
        world.job(1).user("ann").policy("FCFS").submit();
    }
    let draft = world.job(3).user("carl").policy("FCFSxFCFS");
    draft.disclosed().submit();
    let others = [2, 3, 4].map(|host| world.host(host).joins());

    let ben = world.job(2).user("ben").policy("FCFS").submit();
    let dora = world.job(1).user("dora").policy("FCFS").submit();
    let mut on: Vec<JobId> = others
        .iter()
        .map(|host| world.attempt_on(*host).task.job)
        .collect();
    on.sort();
    assert_eq!(on, [ben, ben, dora]);
    assert_eq!(world.attempt_on(first).task.job, ann);
}

#[test]
fn a_requested_task_gets_room_behind_many_jobs_that_wait_for_another_host() {
    let mut world = world();
    let joins = |world: &mut World, host, gpus| {
        let capacity = Capacity {
            cores: 1,
            memory_mib: 4_096,
            gpus,
        };
        let offers = Offers {
            capacity,
            ..Offers::default()
        };
        world.send(events::offered(HostId(host), offers));
        world.host(host).joins()
    };
    let large = |world: &mut World| {
        let needs = Needs::parse(["gpu=1"]).expect("needs");
        world.job(1).policy("FCFS").needs(needs).submit()
    };

    let first = joins(&mut world, 1, 1);
    let running = large(&mut world);
    assert_eq!(world.attempt_on(first).task.job, running);
    for _ in 0..100 {
        large(&mut world);
    }

    let disclosed = world.job(1).policy("FCFSxFCFS").disclosed().submit();
    let second = joins(&mut world, 2, 0);
    assert_eq!(world.attempt_on(second).task.job, disclosed);
    let plain = world.job(1).policy("FCFS").submit();
    assert_eq!(world.attempt_on(second).task.job, plain);
}

#[test]
fn nothing_makes_room_for_a_task_that_would_not_be_done_before_the_loan_ends() {
    let mut world = world();
    let lent = |world: &mut World, host, left| {
        let loan = Some(Loan {
            left: s(left),
            again: s(100_000),
            longest: s(10_000),
        });
        world.send(Event::HostLent { host, loan });
    };
    let short = world.host(1).joins();
    lent(&mut world, short, 100);
    world.job(2).policy("FCFSxFCFS").disclosed().submit();
    let disclosed = world.attempt_on(short);

    let long = world.job(1).policy("FCFS").estimate(s(5_000)).submit();
    assert_eq!(world.attempt_on(short), disclosed);
    let other = world.host(2).joins();
    lent(&mut world, other, 9_000);
    world.beats(other);
    assert_eq!(world.attempt_on(other).task.job, long);
    assert_eq!(world.attempt_on(short), disclosed);
}

#[test]
fn the_shortest_requested_task_goes_first_and_takes_the_place_of_a_longer_one_that_keeps_its_state()
{
    let mut world = world();
    let long = world
        .job(0)
        .policy("SRPTxFCFS")
        .estimates(&[100])
        .keeps_state()
        .submit();

    let host = world.host(1).joins();
    world.pass(s(95));

    let (short, effects) = world
        .job(0)
        .policy("SRPTxFCFS")
        .estimates(&[9, 4])
        .keeps_state()
        .asks();
    assert_eq!(
        begun(&effects),
        [(short.0, 2)],
        "5 s are left of the long one"
    );
    assert_eq!(
        ended(&effects)[0].1,
        EndReason::Preempted {
            by: TaskId::new(short, 2),
            kept: true
        }
    );

    assert_eq!(done(&mut world, host), [(long.0, 1)]);
    assert_eq!(done(&mut world, host), [(short.0, 1)]);
}

#[test]
fn unrequested_tasks_are_dropped_at_once_running_or_not() {
    let mut world = world();
    let job = world.job(5).policy("FCFSxFCFS").disclosed().submit();
    request(&mut world, job, [1]);

    let hosts = [world.host(1).joins(), world.host(2).joins()];
    assert_eq!(world.attempt_on(hosts[1]).task.index, 2);

    let effects = world.send(Event::UnrequestedCancelled { job });
    assert_eq!(stopped(&effects).len(), 1);

    let dropped = effects.iter().find_map(|effect| match effect {
        Effect::TasksCancelled {
            tasks,
            why: CancelReason::Unrequested,
            ..
        } => Some(tasks.clone()),
        _ => None,
    });
    assert_eq!(dropped, Some(IdSet::from_range(2, 5)));
    assert!(
        world.send(Event::UnrequestedCancelled { job }).is_empty(),
        "there is nothing left to drop"
    );
    done(&mut world, hosts[0]);
    assert_eq!(
        world.job_state(job),
        JobState::Finished,
        "all that was requested is there"
    );
}

#[test]
fn a_disclosed_job_of_which_a_requested_task_is_cancelled_is_cancelled() {
    let mut world = world();
    let job = world.job(5).policy("FCFSxFCFS").disclosed().submit();
    request(&mut world, job, [1, 2]);
    let host = world.host(1).joins();
    done(&mut world, host);
    world.send(Event::UnrequestedCancelled { job });
    world.send(Event::JobCancelled { job, tasks: None });
    assert_eq!(world.job_state(job), JobState::Cancelled);

    let idle = world.job(5).policy("FCFSxFCFS").disclosed().submit();
    world.send(Event::UnrequestedCancelled { job: idle });
    assert_eq!(world.job_state(idle), JobState::Cancelled);
}

#[test]
fn interactive_keeps_disclosed_tasks_back_and_batch_takes_them_as_requested() {
    let mut world = world();
    let held = world.job(2).policy("INTERACTIVE-FCFS").disclosed().submit();
    let batch = world.job(2).policy("BATCH-FCFS").disclosed().submit();
    let (host, effects) = world.host(1).joins_with();
    assert_eq!(begun(&effects), [(batch.0, 1)]);
    request(&mut world, held, [2]);
    assert_eq!(
        done(&mut world, host),
        [(batch.0, 2)],
        "it was disclosed before the request"
    );

    assert_eq!(done(&mut world, host), [(held.0, 2)]);
    assert_eq!(done(&mut world, host), []);
    assert_eq!(world.task_state(held, 1), TaskState::Disclosed);
}

#[test]
fn by_need_the_next_task_of_each_user_goes_before_later_ones() {
    let mut world = world();
    let first = world
        .job(3)
        .policy("FCFSxNEED")
        .user("anna")
        .disclosed()
        .submit();

    let second = world
        .job(3)
        .policy("FCFSxNEED")
        .user("berta")
        .disclosed()
        .submit();
    for job in [first, second] {
        request(&mut world, job, [1]);
    }

    let (host, effects) = world.host(1).joins_with();
    let mut order = begun(&effects);
    for _ in 0..5 {
        order.extend(done(&mut world, host));
    }

    let a = first.0;
    let b = second.0;
    assert_eq!(order, [(a, 1), (b, 1), (a, 2), (b, 2), (a, 3), (b, 3)]);
}

#[test]
fn ranking_by_need_favours_users_who_rarely_drop_tasks() {
    let mut world = world();
    often_drops_the_rest(&mut world, "anna");

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
    assert_eq!(begun(&effects), [(steady.0, 1)]);
    assert_eq!(
        done(&mut world, host),
        [(steady.0, 2)],
        "its second task is likelier needed than her first"
    );
    assert_eq!(done(&mut world, host), [(fickle.0, 1)]);
}

#[test]
fn ranking_by_need_ignores_how_tasks_are_split_into_jobs() {
    let mut world = world();
    let alone: Vec<JobId> = (0..6)
        .map(|_| {
            world
                .job(1)
                .policy("FCFSxNEED")
                .user("fay")
                .disclosed()
                .submit()
        })
        .collect();

    let together = world
        .job(6)
        .policy("FCFSxNEED")
        .user("gus")
        .disclosed()
        .submit();

    let (host, effects) = world.host(1).joins_with();
    let mut order = begun(&effects);
    order.extend((0..11).flat_map(|_| done(&mut world, host)));

    let expected: Vec<(u32, u32)> = (0..6)
        .flat_map(|place| [(alone[place].0, 1), (together.0, place as u32 + 1)])
        .collect();

    // Of equals the one that came first: fay's jobs did.
    assert_eq!(
        order[..2],
        expected[..2],
        "the first task of each user goes before the second one of anybody"
    );

    let gus = |first: usize| {
        order[..first]
            .iter()
            .filter(|(job, _)| *job == together.0)
            .count()
    };
    assert!(
        (2..=12).all(|first| gus(first) >= first / 2 - 1),
        "{order:?}"
    );
}

#[test]
fn dropping_whole_jobs_counts_as_dropping_their_rest() {
    let mut world = world();
    for user in ["dan", "eve"] {
        for _ in 0..6 {
            let job = world
                .job(2)
                .policy("FCFSxNEED")
                .user(user)
                .disclosed()
                .submit();
            request(&mut world, job, [1]);
            if user == "eve" {
                world.send(Event::UnrequestedCancelled { job });
            }
            world.send(Event::JobCancelled { job, tasks: None });
        }
    }

    let decisions = world.scheduler.experience().drops;
    assert!(
        decisions["dan"] == decisions["eve"] && decisions["dan"].0 == 6,
        "{decisions:?}"
    );
}

#[test]
fn a_retried_dropped_task_can_be_dropped_again() {
    let mut world = world();
    let job = world.job(4).policy("FCFSxNEED").disclosed().submit();
    let host = world.host(1).joins();

    request(&mut world, job, [1]);
    world.send(Event::UnrequestedCancelled { job });
    world.send(events::retried(job, IdSet::from_range(2, 4)));
    assert_eq!(world.task_state(job, 3), TaskState::Disclosed);
    world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(1));

    let effects = world.send(Event::UnrequestedCancelled { job });
    assert_eq!(stopped(&effects).len(), 1, "the one that ran");
    assert_eq!(world.job_state(job), JobState::Finished);
}

#[test]
fn requests_survive_a_restart() {
    let mut world = world();
    let job = world.job(3).policy("FCFSxFCFS").disclosed().submit();
    request(&mut world, job, [2]);
    world.restart();
    assert_eq!(world.task_state(job, 2), TaskState::Waiting);
    assert_eq!(world.task_state(job, 1), TaskState::Disclosed);
    let (_, effects) = world.host(1).joins_with();
    assert_eq!(begun(&effects), [(job.0, 2)]);
}

#[test]
fn a_preempted_attempt_is_not_taken_back() {
    let mut world = world();
    let job = world.job(2).policy("FCFSxFCFS").disclosed().submit();
    let host = world.host(1).joins();
    let victim = world.attempt_on(host);

    world.moves(host, Phase::Running);
    request(&mut world, job, [2]);

    let mut held = world.held(host);
    held.push(common::attempt::HeldAttempt {
        attempt: victim,
        phase: Phase::Running,
        ran: s(1),
        frozen_for: Span::ZERO,
        progress: None,
    });

    world.heard(host, held);
    assert_eq!(world.books(host).len(), 1);
    assert_eq!(world.attempt_on(host).task.index, 2);
}

#[test]
fn orderings_go_with_any_placement() {
    let mut world = world();
    world.host(1).speed(1.0).joins();

    let fast = world.host(2).speed(3.0).joins();
    let job = world
        .job(1)
        .policy("FCFSxFCFS:with=EXCL-PRED-DUP")
        .disclosed()
        .submit();
    assert_eq!(
        world.books(fast).first().map(|attempt| attempt.task.job),
        Some(job)
    );

    let refused = scheduler::policy::parse("FCFSxFCFS:with=PROMISE").map_err(|why| why.to_string());
    assert!(refused.is_err_and(|why| why.contains("promises nothing")));
}

/// Settings under which a task that failed on a host is kept from there.
fn blaming() -> Settings {
    Settings {
        benching: true,
        ..Settings::default()
    }
}

#[test]
fn a_task_that_failed_on_the_only_free_host_lets_the_next_of_its_job_start_there() {
    let mut world = World::with(blaming());
    world.job(1).policy("FCFSxFCFS").submit();
    world.host(1).joins();
    let job = world.job(3).policy("FCFSxFCFS").retries(1).submit();
    let host = world.host(2).joins();
    let failed = world.attempt_on(host);

    let effects = world.fails(host, failed);
    assert_eq!(
        begun(&effects),
        [(job.0, 2)],
        "the first one waits for the other host"
    );
    let effects = world.ends(
        HostId(1),
        world.attempt_on(HostId(1)),
        Outcome::Succeeded,
        s(10),
    );
    assert_eq!(begun(&effects), [(job.0, 1)]);
}

#[test]
fn a_task_that_failed_on_a_host_lets_the_next_of_its_job_and_other_jobs_preempt_there() {
    for other in [false, true] {
        let mut world = World::with(blaming());
        world.job(1).policy("FCFSxFCFS").submit();
        world.host(1).joins();
        let disclosed = world.job(5).policy("FCFSxFCFS").disclosed().submit();
        let host = world.host(2).joins();
        let draft = world.job(3).policy("FCFSxFCFS").retries(1);
        let job = draft.disclosed().submit();
        request(&mut world, job, [1]);

        let failed = world.attempt_on(host);
        assert_eq!((failed.task.job, failed.task.index), (job, 1));
        let effects = world.fails(host, failed);
        assert_eq!(begun(&effects).len(), 1);
        assert_eq!(world.attempt_on(host).task.job, disclosed);

        let (next, index) = if other {
            let draft = world.job(1).policy("FCFSxFCFS").user("ben");
            (draft.disclosed().submit(), 1)
        } else {
            (job, 2)
        };
        let effects = request(&mut world, next, [index]);
        assert_eq!(begun(&effects), [(next.0, index)], "{other}");
    }
}

#[test]
fn a_task_preempts_others_by_its_own_run_time_though_a_shorter_one_of_its_job_failed_there() {
    let mut world = World::with(blaming());
    world.job(1).policy("SRPTxFCFS").estimate(s(5)).submit();
    world.host(1).joins();
    let draft = world.job(2).policy("SRPTxFCFS").retries(1);
    let two = draft.keeps_state().estimates(&[10, 200]).submit();
    let host = world.host(2).joins();
    let failed = world.attempt_on(host);
    assert_eq!((failed.task.job, failed.task.index), (two, 1));
    let draft = world.job(1).policy("SRPTxFCFS").keeps_state();
    let between = draft.estimate(s(100)).submit();

    world.fails(host, failed);
    assert_eq!(world.attempt_on(host).task.job, between);
    world.succeeds(host, world.attempt_on(host));
    assert_eq!(world.attempt_on(host).task, TaskId::new(two, 2));
}
