//! Time that is over before a task has to be done: hosts that their owners lend until a given time,
//! and hosts that are kept for jobs of several ranks.

use std::collections::{BTreeMap, BTreeSet};

use common::attempt::{Outcome, Phase};
use common::host::Loan;
use common::job::Rules;
use common::needs::{Label, Needs, Offers};
use common::view::TaskState;
use common::{AttemptId, HostId, IdSet, JobId, Span, TaskId};
use scheduler::effect::{EndReason, Gap, Refused, StartReason};
use scheduler::event::Bag;
use scheduler::policy::width::WidthChoice;
use scheduler::{Effect, Event, Settings, Sharing};

use super::learned::{known_of, windows};
use super::office::{Office, exactly};
use super::world::{World, s, settled, starts};
use crate::events;

/// A host that has done so many runs of a program: one in four takes long.
fn known(world: &mut World, short: u64, long: u64) -> HostId {
    world.job(12).policy("FCFS").submit();
    let host = world.host(1).joins();
    for task in 1..=12 {
        let run = if task % 4 == 0 { long } else { short };
        world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(run));
    }
    host
}

fn lend(world: &mut World, host: HostId, left: u64, longest: u64) -> Vec<Effect> {
    world.send(Event::HostLent {
        host,
        loan: Some(Loan {
            left: s(left),
            again: s(left + 36_000),
            longest: s(longest),
        }),
    })
}

fn limit(effects: &[Effect]) -> Option<Span> {
    let mut limits = effects.iter().filter_map(|effect| match effect {
        Effect::Start { limit, .. } => Some(*limit),
        _ => None,
    });
    limits.next().expect("something was started")
}

#[test]
fn tasks_too_long_for_a_loan_wait_for_a_longer_one() {
    let mut world = World::new();
    let host = world.host(1).joins();
    lend(&mut world, host, 600, 36_000);

    for policy in [
        "deskgrid",
        "FCFS",
        "PRI-CR",
        "PRI-HISTORY",
        "EXCL-S1",
        "WINDOWS",
    ] {
        let (job, effects) = world
            .job(1)
            .policy(policy)
            .user(policy)
            .estimate(s(1_000))
            .asks();
        assert_eq!(starts(&effects), [], "{policy}");

        let why = world
            .scheduler
            .explain(job)
            .expect("it is there")
            .hosts
            .swap_remove(0)
            .1;
        assert!(
            why.contains("lend it for 10m00s") && why.contains("16m40s"),
            "{policy}: {why}"
        );

        // Another job that is short enough starts there meanwhile.
        let short = world
            .job(1)
            .policy(policy)
            .user(policy)
            .estimate(s(500))
            .submit();
        assert_eq!(world.attempt_on(host).task.job, short, "{policy}");

        let attempt = world.attempt_on(host);
        assert_eq!(
            starts(&world.ends(host, attempt, Outcome::Succeeded, s(500))),
            [],
            "{policy}"
        );

        let effects = lend(&mut world, host, 36_000, 36_000);
        assert_eq!(starts(&effects).len(), 1, "{policy}");

        let attempt = world.attempt_on(host);
        assert_eq!(attempt.task.job, job);
        world.ends(host, attempt, Outcome::Succeeded, s(1_000));
        lend(&mut world, host, 600, 36_000);
    }
}

#[test]
fn a_loan_admits_checkpointing_oversized_and_unknown_tasks() {
    let mut world = World::new();
    let host = world.host(1).joins();
    lend(&mut world, host, 600, 36_000);

    let drafts: [fn(&mut World) -> JobId; 3] = [
        |world| {
            world
                .job(1)
                .policy("FCFS")
                .estimate(s(1_000))
                .keeps_state()
                .submit()
        },
        |world| world.job(1).policy("FCFS").estimate(s(40_000)).submit(),
        |world| world.job(1).policy("FCFS").submit(),
    ];
    for draft in drafts {
        let job = draft(&mut world);
        let attempt = world.attempt_on(host);
        assert_eq!(attempt.task.job, job);
        world.ends(host, attempt, Outcome::Succeeded, s(1));
    }

    // A loan that is over says nothing any more.
    world.now = world.now + s(700);
    world.job(1).policy("FCFS").estimate(s(1_000)).submit();
    world.attempt_on(host);
}

#[test]
fn an_attempt_cut_off_by_the_end_of_a_loan_has_not_failed() {
    let mut world = World::new();
    let host = known(&mut world, 100, 1_000);
    lend(&mut world, host, 200, 36_000);

    let (job, effects) = world.job(2).policy("FCFS").asks();
    let StartReason::Gap(Gap {
        left,
        done,
        kept_for,
    }) = starts(&effects)[0].2
    else {
        panic!("{effects:?}")
    };

    assert_eq!((left, kept_for), (s(200), None));
    assert!(
        done.is_some_and(|done| (60..90).contains(&done)),
        "{done:?}"
    );
    assert_eq!(
        limit(&effects),
        Some(s(196)),
        "it ends just before the loan"
    );

    let first = world.attempt_on(host);

    // It takes longer, and is not tried again in a loan that is hardly longer; the other task is.
    world.now = world.now + s(196);
    lend(&mut world, host, 250, 36_000);

    let effects = world.ends(host, first, Outcome::TimedOut(s(196)), s(196));
    assert_eq!(
        (settled(&effects), starts(&effects)[0].1.task.index),
        (vec![], 2)
    );
    world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(100));
    assert_eq!(world.task_state(job, 1), TaskState::Waiting);
    lend(&mut world, host, 36_000, 36_000);
    assert_eq!(world.task_state(job, 1), TaskState::Running);
}

#[test]
fn a_gap_is_not_filled_with_tasks_beyond_their_users_bound() {
    let sharing = Sharing {
        most_running_each: Some(1),
        ..Sharing::default()
    };
    let mut world = World::with(Settings {
        sharing: Some(sharing),
        ..Settings::default()
    });
    let host = known(&mut world, 100, 1_000);
    world.job(1).policy("FCFS").submit();
    world.attempt_on(host);

    let other = world.host(2).joins();
    lend(&mut world, other, 200, 36_000);
    world.job(2).policy("FCFS").submit();
    assert_eq!(world.books(other), []);
    world.succeeds(host, world.attempt_on(host));
    assert_eq!(world.books(host).len() + world.books(other).len(), 1);
}

#[test]
fn a_gap_starts_the_task_expected_to_fill_it_best() {
    let mut world = World::new();
    let host = known(&mut world, 60, 1_000);

    // Runs of somebody else are all of about the same length.
    let other = |world: &mut World, tasks| world.job(tasks).policy("FCFS").user("b").submit();
    other(&mut world, 6);
    for run in 146..=151 {
        world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(run));
    }

    // They nearly fill the one, and cannot be done in the other.
    for (left, user) in [(152, "b"), (100, "")] {
        lend(&mut world, host, 1, 36_000);
        let first = world.job(1).policy("FCFS").submit();
        let second = other(&mut world, 1);
        let effects = lend(&mut world, host, left, 36_000);
        let expected = if user == "b" { second } else { first };
        assert_eq!(starts(&effects)[0].1.task.job, expected, "{left}");
        lend(&mut world, host, 36_000, 36_000);
        world.work_off();
    }
}

#[test]
fn a_host_that_was_recorded_to_stay_idle_for_so_long_gets_the_task_that_makes_the_most_of_that() {
    for (policy, long_s, next) in [
        ("WINDOWS:limits=learned", 1_200.0, 2),
        ("WINDOWS:limits=learned", 400_000.0, 1),
    ] {
        let mut world = World::new();
        let host = known_of(&mut world, 600, 6_000);
        world.send(Event::HostWindows {
            host,
            windows: windows(long_s),
        });

        let (_, effects) = world.job(2).policy(policy).asks();
        let first = limit(&effects).expect("it has a limit");

        // What is killed at its limit takes long; the other one may be short.
        let effects = world.ends(
            host,
            world.attempt_on(host),
            Outcome::TimedOut(first),
            first,
        );
        assert_eq!(
            starts(&effects)[0].1.task.index,
            next,
            "windows of {long_s} s"
        );
    }

    let mut world = World::new();
    known_of(&mut world, 600, 6_000);

    let (_, effects) = world.job(2).policy("WINDOWS:limits=learned").asks();
    assert_eq!(limit(&effects), None, "nothing is known of its owner");
}

fn benching() -> World {
    World::with(Settings {
        benching: true,
        ..Settings::default()
    })
}

#[test]
fn a_window_is_not_given_to_a_task_that_failed_on_its_host() {
    let mut world = benching();
    let host = known_of(&mut world, 600, 6_000);
    world.send(Event::HostWindows {
        host,
        windows: windows(400_000.0),
    });
    world.host(2).joins();
    let draft = world.job(4).policy("WINDOWS:limits=learned").retries(3);
    draft.submit();

    let first = world.attempt_on(host);
    let effects = world.fails(host, first);
    let second = world.attempt_on(host);
    assert_ne!(second.task, first.task, "{effects:?}");
}

#[test]
fn a_gap_is_not_filled_with_a_task_that_failed_on_its_host() {
    let mut world = benching();
    let host = known(&mut world, 100, 1_000);
    lend(&mut world, host, 1, 36_000);
    let other = world.host(2).joins();
    let busy = world.job(1).policy("FCFS").submit();
    assert_eq!(world.attempt_on(other).task.job, busy);

    lend(&mut world, host, 200, 36_000);
    let job = world.job(3).policy("FCFS").retries(3).submit();
    let first = world.attempt_on(host);
    assert_eq!(first.task, TaskId::new(job, 1));
    let effects = world.fails(host, first);
    let second = world.attempt_on(host);
    assert_eq!(second.task, TaskId::new(job, 2), "{effects:?}");
}

/// Hosts of one slot, from number 2 on, which are lent for so many seconds.
fn lend_more(world: &mut World, hosts: u32, left: u64) {
    for number in 2..2 + hosts {
        let host = world.host(number).joins();
        lend(world, host, left, 36_000);
    }
}

#[test]
fn idle_hosts_that_suit_no_waiting_job_hide_no_gap() {
    let mut world = World::new();
    let host = known(&mut world, 100, 1_000);
    lend(&mut world, host, 200, 36_000);
    lend_more(&mut world, 20, 200);

    let last = HostId(30);
    let labels: BTreeSet<Label> = ["lab".parse().expect("a label")].into();
    let offers = Offers {
        labels: labels.clone(),
        ..Offers::default()
    };
    world.send(events::offered(last, offers));
    world.host(last.0).joins();
    lend(&mut world, last, 200, 36_000);

    let needs = Needs {
        labels,
        ..Needs::default()
    };
    let job = world.job(1).policy("FCFS").needs(needs).submit();
    assert_eq!(world.attempt_on(last).task.job, job);
}

#[test]
fn idle_hosts_with_too_short_a_loan_hide_a_longer_one_for_a_moment_only() {
    let mut world = World::new();
    let host = known(&mut world, 100, 1_000);
    lend(&mut world, host, 50, 36_000);
    lend_more(&mut world, 20, 50);
    let last = world.host(30).joins();
    lend(&mut world, last, 200, 36_000);

    let job = world.job(1).policy("FCFS").submit();
    world.send(Event::Tick);
    assert_eq!(world.attempt_on(last).task.job, job);
}

#[test]
fn a_promise_counts_on_a_host_until_its_loan_ends_and_again_from_the_next_one_on() {
    let mut world = World::new();
    let host = world.host(1).joins();
    lend(&mut world, host, 600, 36_000);

    let offered = |effects: &[Effect]| match &effects[1] {
        Effect::Promised { offer, .. } => offer.finish,
        other => panic!("{other:?}"),
    };
    let (_, effects) = world
        .job(1)
        .policy("CALENDAR")
        .estimate(s(1_000))
        .deadline(100_000)
        .asks();
    assert_eq!(
        (offered(&effects), starts(&effects)),
        (world.now + s(600 + 36_000 + 1_000), vec![])
    );

    let (_, effects) = world
        .job(1)
        .policy("CALENDAR")
        .estimate(s(500))
        .deadline(100_000)
        .asks();
    assert_eq!(
        (offered(&effects), starts(&effects).len()),
        (world.now + s(500), 1),
        "it fits"
    );

    let (_, effects) = world
        .job(1)
        .policy("CALENDAR")
        .estimate(s(1_000))
        .deadline(20_000)
        .asks();
    assert!(
        matches!(
            &effects[0],
            Effect::JobRefused {
                why: Refused::TooLate { .. },
                ..
            }
        ),
        "{effects:?}"
    );

    // The next loan has come.
    world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(500));
    assert_eq!(starts(&lend(&mut world, host, 36_000, 36_000)).len(), 1);
}

/// An office in which two hosts are busy, and runs of a hundred seconds are as frequent as long
/// ones.
fn taught(hosts: u32) -> (Office, JobId) {
    let mut o = Office::of(hosts);
    let teacher = o.bag(60, |_| ());
    for run in 0..58 {
        let (host, attempt) = *o.places(teacher).values().next().expect("some are live");
        let ran = if run % 2 == 0 { s(100) } else { s(5_000) };
        o.send(events::succeeded(host, attempt, ran));
    }

    for (host, _) in o.places(teacher).into_values() {
        o.moves(host, teacher, Phase::Running);
    }

    o.now = o.now + s(500);
    o.beats_but(&[]);
    (o, teacher)
}

/// The same with a host that is kept for a job of three ranks.
fn kept() -> (Office, JobId, JobId) {
    let (mut o, teacher) = taught(3);
    let job = o.submit(exactly(3), "AVG");
    let offer = o
        .scheduler
        .together(job, o.now)
        .expect("it waits")
        .offer
        .expect("it waits");
    assert!(
        matches!(offer.choice, Some(WidthChoice::Hold(_))),
        "{offer:?}"
    );
    (o, teacher, job)
}

fn end_all(o: &mut Office, job: JobId) -> Vec<Effect> {
    let live: Vec<(HostId, AttemptId)> = o.places(job).into_values().collect();
    let end = |(host, attempt)| o.send(events::succeeded(host, attempt, s(600)));
    live.into_iter().flat_map(end).collect()
}

#[test]
fn a_host_that_is_kept_for_ranks_is_used_until_they_start_and_they_start_no_later() {
    for holds in [false, true] {
        let (mut o, teacher, job) = kept();
        let frozen = u32::from(holds);
        (1..=3).for_each(|host| {
            let offers = Offers {
                frozen,
                ..Offers::default()
            };
            o.send(events::offered(HostId(host), offers));
        });

        let bag = o.bag(2, |rules| rules.policy = "FCFS".into());
        let (host, attempt) = o.places(bag)[&1];
        assert_eq!(
            (o.places(bag).len(), o.places(job).len()),
            (1, 0),
            "one host is kept"
        );
        o.moves(host, bag, Phase::Running);
        o.pass(s(20));

        let still = o
            .scheduler
            .together(job, o.now)
            .expect("it waits")
            .offer
            .expect("it waits");
        assert_eq!(still.free, 1, "it counts as free for them");

        let effects = end_all(&mut o, teacher);
        assert_eq!(o.places(job).len(), 3, "as soon as the others are free");

        let made_room = |effect: &Effect| match effect {
            Effect::Freeze {
                attempt: frozen,
                by,
                ..
            } => holds && *frozen == attempt && by.is_some(),
            Effect::Ended {
                attempt: ended,
                why: EndReason::Preempted { by, kept: false },
                ..
            } => !holds && *ended == attempt && by.job == job,
            _ => false,
        };
        assert_eq!(
            effects.iter().filter(|effect| made_room(effect)).count(),
            1,
            "{effects:?}"
        );

        let why = o.scheduler.explain(bag).expect("it is there");
        assert!(
            why.tasks
                .iter()
                .any(|(why, _)| why.contains("made room for task")),
            "{why:?}"
        );

        assert!(
            !effects.iter().any(
                |effect| matches!(effect, Effect::TaskSettled { task, .. } if task.job == bag)
            )
        );
    }
}

/// The same with a host that no rank of the first job may have, and another job of two ranks, for which it
/// is kept. Both jobs, and that host.
fn kept_for_two() -> (Office, JobId, [JobId; 2], HostId) {
    let (mut o, teacher) = taught(3);
    let first = o.submit_with(exactly(3), |rules| rules.needs.network = true);
    let second = HostId(4);
    let offers = Offers {
        network: false,
        ..Offers::default()
    };
    o.send(events::offered(second, offers));
    o.joins(second.0);
    let other = o.submit(exactly(2), "AVG");
    assert!(o.places(first).is_empty() && o.places(other).is_empty());
    (o, teacher, [first, other], second)
}

#[test]
fn hosts_that_are_kept_for_other_ranks_are_not_free_for_a_job_of_ranks() {
    let (o, _, jobs, _) = kept_for_two();
    for job in jobs {
        let together = o.scheduler.together(job, o.now).expect("it waits");
        let offer = together.offer.expect("it waits");
        assert_eq!(offer.free, 1, "its own: {offer:?}");
        let Some(WidthChoice::Hold(held)) = offer.choice else {
            panic!("{offer:?}");
        };
        assert!(held.predicted_s > 0.0, "{held:?}");
    }
}

#[test]
fn a_gap_is_told_with_the_job_of_ranks_for_which_its_own_host_is_kept() {
    let (mut o, teacher, [first, other], second) = kept_for_two();
    o.jobs += 1;
    let rules = Rules {
        policy: "FCFS".into(),
        ..Rules::default()
    };
    let effects = o.send(events::submitted(
        JobId(o.jobs),
        Bag::new(IdSet::from_range(1, 2), rules),
    ));
    let gaps = starts(&effects)
        .into_iter()
        .map(|(host, _, why)| match why {
            StartReason::Gap(gap) => (host, gap.kept_for),
            other => panic!("{other}"),
        });
    let gaps: BTreeMap<HostId, Option<JobId>> = gaps.collect();

    let busy: Vec<HostId> = o.places(teacher).into_values().map(|at| at.0).collect();
    let idle = (1..=3).map(HostId).find(|host| !busy.contains(host));
    let idle = idle.expect("two of three are busy");
    let expected = BTreeMap::from([(idle, Some(first)), (second, Some(other))]);
    assert_eq!(gaps, expected);
}

#[test]
fn a_host_counts_once_for_ranks_though_several_of_its_slots_are_used_until_they_start() {
    let (mut o, teacher) = taught(2);
    o.joins_with(3, 2);

    let job = o.submit(exactly(3), "AVG");
    let bag = o.bag(3, |rules| rules.policy = "FCFS".into());
    let attempt = o
        .places(bag)
        .into_values()
        .map(|(_, attempt)| attempt)
        .next()
        .expect("one slot is nobody's");
    o.send(events::succeeded(HostId(3), attempt, s(5_000)));

    assert!(
        o.places(bag).len() == 2
            && o.places(bag)
                .into_values()
                .all(|(host, _)| host == HostId(3))
    );

    for _ in 0..2 {
        assert!(o.places(job).is_empty(), "one of three hosts is busy");
        let (host, attempt) = *o.places(teacher).values().next().expect("it runs");
        o.send(events::succeeded(host, attempt, s(600)));
    }

    assert_eq!(
        (o.places(job).len(), o.places(bag).len()),
        (3, 1),
        "only one has to go"
    );
}

#[test]
fn a_backfilled_attempt_continues_after_the_gang_is_cancelled() {
    let (mut o, _, job) = kept();
    let bag = o.bag(1, |rules| rules.policy = "FCFS".into());
    let place = o.places(bag)[&1];
    o.send(Event::JobCancelled { job, tasks: None });
    assert_eq!(o.places(bag)[&1], place);
    let other = o.submit(exactly(1), "AVG");
    assert_eq!(
        (o.places(bag)[&1], o.places(other).len()),
        (place, 0),
        "it is an attempt as any other"
    );
}

#[test]
fn gaps_stay_empty_while_a_promised_task_waits() {
    let (mut o, ..) = kept();
    let bag = o.bag(2, |rules| rules.policy = "FCFS".into());
    let (host, _) = o.places(bag)[&1];
    let mut promised = o.promised(1, 100_000);
    assert_eq!(
        o.places(promised)[&1].0,
        host,
        "the slot is its own at once"
    );
    assert!(o.places(bag).is_empty());

    promised = o.promised(1, 100_000);
    o.send(Event::Tick);
    assert!(
        o.places(promised).is_empty() && o.places(bag).is_empty(),
        "and nobody else is there while it waits"
    );
}
