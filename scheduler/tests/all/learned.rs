//! Limits that past runs of a program teach, of jobs with a promised deadline.

use common::attempt::Outcome;
use common::view::{JobState, TaskState};
use common::{HostId, JobId, Span};
use scheduler::effect::{Offer, Refused, StartReason};
use scheduler::event::{RestoredProgress, Tried};
use scheduler::reservation::Windows;
use scheduler::{Effect, Event, LearnedLimits};

use crate::events;
use crate::world::{World, s, settled, starts};

const LEARNED: &str = "PROMISE:inflated=no:limits=learned";

/// A host that has done a program's runs: eleven of ten seconds, and one of a hundred.
fn known(world: &mut World) -> HostId {
    known_of(world, 10, 100)
}

/// The same with other run times.
pub(crate) fn known_of(world: &mut World, short: u64, long: u64) -> HostId {
    let job = world.job(12).policy("FCFS").submit();
    let host = world.host(1).joins();
    for run in (1..=12).map(|task| if task == 12 { long } else { short }) {
        world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(run));
    }
    assert_eq!(world.job_state(job), JobState::Finished);
    host
}

fn limit(effects: &[Effect]) -> Option<Span> {
    let mut limits = effects.iter().filter_map(|effect| match effect {
        Effect::Start { limit, .. } => Some(*limit),
        _ => None,
    });
    limits.next_back().expect("something was started")
}

fn offered(effects: &[Effect]) -> Offer {
    let mut offers = effects.iter().filter_map(|effect| match effect {
        Effect::Promised { offer, .. } => Some(*offer),
        _ => None,
    });
    offers.next_back().expect("it is let in")
}

fn sequence(limits: Option<LearnedLimits>) -> Vec<Span> {
    let sequence = limits
        .and_then(|limits| limits.sequence)
        .expect("enough is known");
    sequence
        .limits
        .into_iter()
        .map(Span::from_secs_f64)
        .collect()
}

#[test]
fn a_task_is_killed_at_its_limit_and_succeeds_with_the_next() {
    let mut world = World::new();
    let host = known(&mut world);
    let bag = world.job(1).policy(LEARNED).deadline(1_000).bag();
    let told = sequence(world.scheduler.limits_offered(&bag));
    let (job, effects) = world.job(1).policy(LEARNED).deadline(1_000).asks();
    let first = limit(&effects).expect("it has a limit");
    assert_eq!(first, told[0]);
    assert!(s(10) < first && first < s(60), "{first}");

    assert_eq!(
        offered(&effects).finish,
        world.now + first,
        "its limit is reserved"
    );

    world.now = world.now + first;
    let effects = world.ends(
        host,
        world.attempt_on(host),
        Outcome::TimedOut(first),
        first,
    );
    assert_eq!(
        settled(&effects),
        [],
        "it has not failed, though the job has no retries"
    );
    assert_eq!(starts(&effects)[0].2, StartReason::NextLimit(1));

    let second = limit(&effects).expect("the next one");
    assert!(
        second >= s(90) && told.contains(&second),
        "{second} of {told:?}"
    );
    world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(70));
    assert_eq!(world.job_state(job), JobState::Finished);

    // The run that was killed and the one that was done are one.
    let after = world.scheduler.limits_offered(&bag).expect("it learns");
    assert_eq!((after.runs, after.killed), (13, 0));
}

#[test]
fn second_attempts_that_should_be_needed_are_reserved_and_the_probability_says_whether_they_suffice()
 {
    let mut world = World::new();
    known(&mut world);

    let bag = |world: &mut World, tasks, deadline| {
        world.job(tasks).policy(LEARNED).deadline(deadline).bag()
    };
    let twelve = bag(&mut world, 12, 10_000);
    let told = sequence(world.scheduler.limits_offered(&twelve));
    let offer = |world: &World, bag| {
        world
            .scheduler
            .offer(&bag, world.now)
            .expect("fits")
            .expect("a deadline")
    };
    let finish = offer(&world, twelve).finish;
    let spare = Span(finish.since(world.now).0 - 12 * told[0].0);
    assert!(
        told[1..].contains(&spare),
        "one of twelve should take long: {spare} of {told:?}"
    );

    let tight = bag(&mut world, 1, told[0].0 / 1_000_000 + 1);
    let loose = bag(&mut world, 1, 10_000);
    let tight = offer(&world, tight);
    let loose = offer(&world, loose);
    assert_eq!(tight.finish, loose.finish);
    assert!(tight.probability < loose.probability, "{tight:?} {loose:?}");
}

#[test]
fn limits_need_five_runs_and_a_promise() {
    let mut world = World::new();
    let host = world.host(1).joins();
    let (_, effects) = world.job(1).policy(LEARNED).deadline(1_000).asks();
    assert!(
        matches!(
            &effects[0],
            Effect::JobRefused {
                why: Refused::NoEstimate,
                ..
            }
        ),
        "{effects:?}"
    );

    let (job, effects) = world
        .job(7)
        .policy(LEARNED)
        .estimate(s(20))
        .deadline(1_000)
        .asks();
    assert_eq!(limit(&effects), None);

    let none = LearnedLimits {
        runs: 0,
        killed: 0,
        zeta: 0.0,
        sequence: None,
    };
    assert_eq!(world.scheduler.learned_limits(job), Some(none));
    for _ in 0..4 {
        let effects = world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(10));
        assert_eq!(limit(&effects), None);
    }

    let effects = world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(10));
    assert!(limit(&effects).is_some(), "five are known");
    assert_eq!(world.task_state(job, 5), TaskState::Finished);
    assert_eq!(
        world.scheduler.learned_limits(job).expect("it learns").runs,
        5
    );

    let mut world = World::new();
    known(&mut world);

    let (job, effects) = world.job(1).policy(LEARNED).asks();
    assert_eq!(limit(&effects), None, "no time is reserved for it");
    assert_eq!(world.scheduler.learned_limits(job), None);
}

#[test]
fn attempts_within_their_learned_limit_are_not_policed() {
    let mut world = World::new();
    let host = known(&mut world);
    let policy = format!("{LEARNED}:policing=hard:when=always");
    let job = world
        .job(1)
        .policy(&policy)
        .estimate(s(2))
        .deadline(1_000)
        .submit();

    world.now = world.now + s(9);
    world
        .job(1)
        .policy(&policy)
        .estimate(s(2))
        .deadline(1_000)
        .submit();

    assert_eq!(world.attempt_on(host).task.job, job);
}

#[test]
fn a_limit_that_was_reached_before_a_restart_is_not_tried_again() {
    let mut world = World::new();
    let host = known(&mut world);
    let bag = world.job(1).policy(LEARNED).deadline(10_000).bag();
    let told = sequence(world.scheduler.limits_offered(&bag));
    let tried = Tried {
        outlived: vec![(host, told[0])],
        ..events::tried(1, 1)
    };
    let progress = Box::new(RestoredProgress {
        tried: vec![tried],
        attempts: 1,
        ..RestoredProgress::default()
    });

    let mut effects = Vec::new();
    world.scheduler.step(
        world.now,
        Event::JobRestored {
            job: JobId(9),
            bag: Box::new(bag),
            progress,
        },
        &mut effects,
    );

    assert_eq!(limit(&effects), Some(told[1]));
}

/// Windows of a host that ended after so long, whenever they began.
pub(crate) fn windows(long_s: f64) -> Box<Windows> {
    let mut windows = Windows::default();
    (0..200).for_each(|day| {
        let from_s = 86_400.0 * f64::from(day) + 30_000.0;
        windows.observe(from_s, from_s + long_s, true);
    });
    Box::new(windows)
}

#[test]
fn a_window_has_the_task_that_should_make_the_most_of_it() {
    for (long_s, windows_matter, next) in [
        (1_200.0, "yes", 2),
        (1_200.0, "no", 1),
        (400_000.0, "yes", 1),
    ] {
        let mut world = World::new();
        let host = known_of(&mut world, 600, 6_000);
        world.send(Event::HostWindows {
            host,
            windows: windows(long_s),
        });

        let policy = format!("{LEARNED}:windows={windows_matter}");
        let (_, effects) = world.job(2).policy(&policy).deadline(100_000).asks();
        let first = limit(&effects).expect("it has a limit");
        let attempt = world.attempt_on(host);
        assert_eq!(attempt.task.index, 1);

        // What is killed at its limit takes long; the other one may be short.
        let effects = world.ends(host, attempt, Outcome::TimedOut(first), first);
        assert_eq!(
            starts(&effects)[0].1.task.index,
            next,
            "windows of {long_s} s, {windows_matter}"
        );

        let over = limit(&effects).expect("it has a limit");
        assert!(
            next == 1 || over == first,
            "a limit is no shorter in a window"
        );
    }
}
