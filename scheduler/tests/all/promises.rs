//! What becomes of a promise: it is made anew or withdrawn, is over, or comes back after a restart,
//! and whoever must remember it is told.

use common::attempt::{Outcome, Phase};
use common::{IdSet, JobId, Time};
use scheduler::event::{RestoredProgress, Tried};
use scheduler::experience::JobStage;
use scheduler::{Effect, Event, Settings};

use crate::world::{World, s, starts};

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

        let effects = world.send(Event::JobRetried {
            job: first,
            tasks: IdSet::from_range(1, 1),
        });
        let times = (world.now, world.now + s(20));
        assert_eq!(renewed(&effects), [(first, kept.then_some(times))]);
    }
}

#[test]
fn a_killed_task_is_expected_to_take_as_long_again_after_a_restart_too() {
    let mut world = world();
    let host = world.host(1).joins();
    let draft = world.job(1).policy("CALENDAR-HARD").retries(1);
    let bag = draft.estimates(&[10]).deadline(500).bag();
    let tried = Tried {
        task: 1,
        attempts: 1,
        failures: 1,
        losses: 0,
        live: Vec::new(),
        lost: Vec::new(),
        ended: Vec::new(),
        outlived: Vec::new(),
        policed: s(30),
    };
    for (job, tried) in [(1, Vec::new()), (2, vec![tried])] {
        let progress = RestoredProgress {
            tried,
            ..RestoredProgress::default()
        };
        world.send(Event::JobRestored {
            job: JobId(job),
            bag: Box::new(bag.clone()),
            progress: Box::new(progress),
        });
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

    // Nor does one whose results were lost, and were computed anew.
    let draft = world.job(2).policy("CALENDAR").estimates(&[10, 10]);
    let job = draft.deadline(1_000).submit();
    world.succeeds(host, world.attempt_on(host));
    world.send(Event::ResultsGone {
        job,
        tasks: vec![(1, 1)],
    });
    for _ in 0..2 {
        world.now = world.now + s(300);
        world.succeeds(host, world.attempt_on(host));
    }
    assert!(world.job_state(job).settled());
    assert_eq!(noted(&world), [0.0; 0]);
}
