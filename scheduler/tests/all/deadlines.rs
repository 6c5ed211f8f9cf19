//! Deadlines: what is promised is kept if everything goes as said, nobody is delayed by who comes
//! later, and nobody is killed who is within the estimate.

use std::collections::BTreeMap;

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::job::Rules;
use common::{AttemptId, HostId, IdSet, JobId, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use scheduler::effect::{EndReason, Offer, Refused, Settled};
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::{Effect, Event, Settings};

use crate::events;
use crate::world::{World, ended, s, settled, starts};

fn config(seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases: 150,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    }
}

fn world() -> World {
    World::with(Settings {
        lease: s(1_000_000),
        suspect_after: s(1_000_000),
        ..Settings::default()
    })
}

fn offered(effects: &[Effect]) -> Option<Offer> {
    effects.iter().find_map(|effect| match effect {
        Effect::Promised { offer, .. } => Some(*offer),
        _ => None,
    })
}

fn refused(effects: &[Effect]) -> Refused {
    match effects.first() {
        Some(Effect::JobRefused { why, .. }) => why.clone(),
        other => panic!("not refused, but {other:?}"),
    }
}

/// A bag: seconds after the one before, slack of its deadline beyond the earliest one that can be
/// had (may be missing), and the tasks as (estimate, run time).
type Asked = (u64, i64, Vec<(u64, u64)>);

/// What became of the bags.
#[derive(Default)]
struct Story {
    /// When each accepted bag's last task was done, and the offer.
    finished: BTreeMap<JobId, Time>,
    offers: BTreeMap<JobId, Offer>,
    refused: BTreeMap<JobId, Refused>,
    /// Estimate and run time so far of who was killed, in seconds of work.
    killed: Vec<(AttemptId, f64, f64)>,
    /// Bags for which somebody was killed, with the earliest deadline that they could have had
    /// otherwise.
    killers: BTreeMap<JobId, Time>,
    deadlines: BTreeMap<JobId, Time>,
}

/// Plays bags on hosts of these speeds; tasks take what they take. Bags from `only` on do not come.
fn play(speeds: &[f64], policy: &str, bags: &[Asked], only: usize) -> Story {
    let mut world = world();
    for (id, speed) in (1..).zip(speeds) {
        world.host(id).speed(*speed).joins();
    }

    let mut story = Story::default();
    let mut running = BTreeMap::new();
    let mut at = world.now;

    for (number, (later, slack, tasks)) in (1_u32..).zip(bags).take(only) {
        at = at + s(*later);
        until(&mut world, &mut story, &mut running, bags, speeds, at);

        let estimates = tasks.iter().map(|(estimate, _)| s(*estimate)).collect();
        let tasks = IdSet::from_range(1, tasks.len() as u32);
        let rules = Rules {
            policy: policy.to_owned(),
            ..Rules::default()
        };
        let terms = Terms {
            deadline: Some(at),
            estimates,
            estimator: Estimator::default(),
        };
        let mut bag = Bag {
            tasks,
            rules,
            terms,
            disclosed: false,
            ranks: None,
            after: Vec::new(),
            open: false,
        };
        let earliest = match world.scheduler.offer(&bag, at) {
            Ok(offer) => offer.expect("it has a deadline").finish,
            Err(Refused::TooLate { earliest, .. }) => earliest,
            Err(other) => panic!("{other:?}"),
        };
        let deadline = Time(earliest.0.saturating_add_signed(*slack * 1_000_000));
        bag.terms.deadline = Some(deadline);

        story.deadlines.insert(JobId(number), deadline);
        let effects = world.send(events::submitted(JobId(number), bag));
        if ended(&effects)
            .iter()
            .any(|(_, why)| matches!(why, EndReason::Policed { .. }))
        {
            story.killers.insert(JobId(number), earliest);
        }
        note(&world, &mut story, &mut running, bags, speeds, &effects);
    }

    until(
        &mut world,
        &mut story,
        &mut running,
        bags,
        speeds,
        Time(u64::MAX),
    );

    story
}

type Running = BTreeMap<AttemptId, (Time, HostId)>;

/// Everything that is done before this time.
fn until(
    world: &mut World,
    story: &mut Story,
    running: &mut Running,
    bags: &[Asked],
    speeds: &[f64],
    at: Time,
) {
    while let Some((attempt, (done, host))) = running
        .iter()
        .map(|(a, b)| (*a, *b))
        .min_by_key(|(a, (done, _))| (*done, *a))
        && done < at
    {
        running.remove(&attempt);
        world.now = done;

        let ran = Span::from_secs_f64(takes_s(bags, attempt) / speeds[host.0 as usize - 1]);
        let effects = world.ends(host, attempt, Outcome::Succeeded, ran);
        note(world, story, running, bags, speeds, &effects);
    }

    if at.0 < u64::MAX {
        world.now = at;
    }
}

fn takes_s(bags: &[Asked], attempt: AttemptId) -> f64 {
    bags[attempt.task.job.0 as usize - 1].2[attempt.task.index as usize - 1].1 as f64
}

fn note(
    world: &World,
    story: &mut Story,
    running: &mut Running,
    bags: &[Asked],
    speeds: &[f64],
    effects: &[Effect],
) {
    for effect in effects {
        match effect {
            Effect::Start { host, attempt, .. } => {
                let ran =
                    Span::from_secs_f64(takes_s(bags, *attempt) / speeds[host.0 as usize - 1]);
                running.insert(*attempt, (world.now + ran, *host));
            }
            Effect::Ended {
                attempt,
                why:
                    EndReason::Policed {
                        estimate, elapsed, ..
                    },
                ..
            } => {
                running.remove(attempt);
                story
                    .killed
                    .push((*attempt, estimate.secs(), elapsed.secs()));
            }
            Effect::Promised { job, offer } => drop(story.offers.insert(*job, *offer)),
            Effect::JobRefused { job, why } => drop(story.refused.insert(*job, why.clone())),
            Effect::TaskSettled {
                task,
                settled: Settled::Finished(_),
            } => {
                story.finished.insert(task.job, world.now);
            }
            _ => {}
        }
    }
}

fn bags(exact: bool) -> impl Strategy<Value = Vec<Asked>> {
    let task = (1..60_u64, 1..60_u64)
        .prop_map(move |(estimate, takes)| (estimate, if exact { estimate } else { takes }));
    let bag = (
        0..40_u64,
        -20..60_i64,
        proptest::collection::vec(task, 1..8),
    );
    proptest::collection::vec(bag, 1..9)
}

fn speeds() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(
        prop_oneof![Just(0.5), Just(1.0), Just(1.0), Just(2.0), Just(3.0)],
        1..5,
    )
}

proptest! {
    #![proptest_config(config(601))]

    #[test]
    fn accepted_bags_finish_as_predicted_despite_later_bags(
        speeds in speeds(), bags in bags(true),
        policy in prop_oneof![Just("CALENDAR"), Just("CALENDAR-HARD"), Just("CALENDAR:stacking=longest-first")],
    ) {
        let all = play(&speeds, policy, &bags, bags.len());
        prop_assert!(all.killed.is_empty());
        for (job, offer) in &all.offers {
            prop_assert_eq!(all.finished[job], offer.finish, "{}", job);
        }

        for only in 1..bags.len() {
            let fewer = play(&speeds, policy, &bags, only);
            for (job, finished) in &fewer.finished {
                prop_assert_eq!(finished, &all.finished[job], "{} is delayed by bag {} or a later one", job, only);
            }
        }
    }

    #[test]
    fn only_attempts_beyond_their_estimates_are_killed_and_only_when_a_bag_arrives(
        speeds in speeds(), bags in bags(false),
        (policy, grace) in prop_oneof![
            Just(("CALENDAR", f64::INFINITY)), Just(("CALENDAR-HARD", 0.0)), Just(("CALENDAR-GRACE", 0.5)),
            Just(("CALENDAR-GRACE:policing=grace0.25:when=needed", 0.25)), Just(("CALENDAR-PROB", 0.0)),
            Just(("CALENDAR-HARD:when=needed", 0.0)), Just(("PROMISE:inflated=no", 0.0)),
        ],
    ) {
        // That kills follow from the arrival of a bag is what the model asserts: see
        // `Model::apply`.
        let all = play(&speeds, policy, &bags, bags.len());
        for (attempt, estimate_s, elapsed_s) in &all.killed {
            prop_assert!(*elapsed_s > estimate_s * (1.0 + grace), "{} ran {} of {}", attempt, elapsed_s, estimate_s);
            let said = bags[attempt.task.job.0 as usize - 1].2[attempt.task.index as usize - 1].0;
            prop_assert_eq!(*estimate_s, said as f64);
        }
    }

    #[test]
    fn alternatives_offered_to_a_refused_bag_are_accepted(speeds in speeds(), bags in bags(true)) {
        let mut world = world();
        for (id, speed) in (1..).zip(&speeds) {
            world.host(id).speed(*speed).joins();
        }

        for (at, (_, deadline, tasks)) in bags.iter().enumerate() {
            let estimates: Vec<u64> = tasks.iter().map(|(estimate, _)| *estimate).collect();
            let deadline = deadline.unsigned_abs();
            let (job, effects) = world.job(1).policy("CALENDAR").estimates(&estimates).deadline(deadline).asks();
            if offered(&effects).is_some() {
                continue;
            }

            let Refused::TooLate { earliest, fits } = refused(&effects) else { panic!("{effects:?}") };
            prop_assert!(earliest > world.now + s(deadline));
            prop_assert!(world.scheduler.job_state(job).is_none());

            let later = earliest.since(world.now);
            let mut bag = world.job(1).policy("CALENDAR").estimates(&estimates).bag();
            let sooner = Some(world.now + Span(later.0 - 1));
            bag.terms.deadline = sooner;
            prop_assert!(world.scheduler.offer(&bag, world.now).is_err(), "earlier than the earliest");

            if at % 2 == 0 {
                bag.terms.deadline = Some(earliest);
                let offer = world.scheduler.offer(&bag, world.now);
                prop_assert_eq!(offer.map(|offer| offer.map(|offer| offer.finish)), Ok(Some(earliest)));
            }

            let part: Vec<u64> = fits.iter().map(|index| estimates[index as usize - 1]).collect();
            prop_assert!(part.len() < estimates.len());
            if !part.is_empty() {
                let (_, effects) = world.job(1).policy("CALENDAR").estimates(&part).deadline(deadline).asks();
                prop_assert!(offered(&effects).is_some(), "{:?} of {:?}: {:?}", part, estimates, effects);
            }
        }
    }

    #[test]
    fn policing_when_needed_kills_only_for_bags_otherwise_refused(
        speeds in speeds(), bags in bags(false),
        policy in prop_oneof![
            Just("CALENDAR-HARD:when=needed:calibrated=yes"), Just("PROMISE:inflated=no"),
            Just("CALENDAR-GRACE:when=needed:calibrated=yes:policing=grace0.1"),
        ],
    ) {
        let all = play(&speeds, policy, &bags, bags.len());
        for (job, earliest) in &all.killers {
            prop_assert!(all.offers.contains_key(job), "{} kills and is refused", job);
            prop_assert!(all.deadlines[job] < *earliest, "{} kills, and would have been let in anyway", job);
        }
    }
}

#[test]
fn a_late_bag_is_refused_with_its_earliest_end_and_fitting_tasks() {
    let mut world = world();
    world.host(1).joins();
    world.host(2).joins();

    let (_, first) = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[50, 60])
        .deadline(60)
        .asks();
    assert_eq!(offered(&first).expect("it fits").finish, world.now + s(60));

    let (job, second) = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[30, 40, 10])
        .deadline(80)
        .asks();

    let earliest = world.now + s(100);
    assert_eq!(
        refused(&second),
        Refused::TooLate {
            earliest,
            fits: IdSet::from_iter([1, 3])
        }
    );

    assert_eq!(world.scheduler.job_state(job), None);
    let (_, again) = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[30, 40, 10])
        .deadline(100)
        .asks();
    assert_eq!(offered(&again).expect("as offered").finish, earliest);
}

#[test]
fn without_hosts_estimates_or_a_calendar_nothing_is_promised() {
    let mut world = world();
    let (_, effects) = world
        .job(2)
        .policy("CALENDAR")
        .estimate(s(10))
        .deadline(100)
        .asks();
    assert_eq!(refused(&effects), Refused::NoHost);
    world.host(1).joins();

    let (_, effects) = world.job(2).policy("CALENDAR").deadline(100).asks();
    assert_eq!(refused(&effects), Refused::NoEstimate);

    let (_, effects) = world
        .job(2)
        .policy("FCFS")
        .estimate(s(10))
        .deadline(100)
        .asks();
    assert_eq!(refused(&effects), Refused::NoPromises("FCFS".into()));

    let mut bag = world.job(3).policy("CALENDAR").bag();
    bag.terms.estimates = vec![s(1)];
    assert_eq!(
        world.scheduler.offer(&bag, world.now),
        Err(Refused::Estimates { tasks: 3, given: 1 })
    );
    world.job(2).policy("CALENDAR").submit();
}

#[test]
fn asking_changes_nothing() {
    let mut world = world();
    world.host(1).joins();

    let bag = world
        .job(1)
        .policy("CALENDAR-HARD")
        .estimates(&[10])
        .deadline(50)
        .bag();

    let before = format!("{:?}", world.scheduler);
    let offer = world.offer(&bag);
    assert_eq!(offer.finish, world.now + s(10));
    assert_eq!(format!("{:?}", world.scheduler), before);
}

#[test]
fn promised_tasks_start_before_jobs_of_any_priority() {
    let mut world = world();
    let host = world.host(1).joins();
    world.job(5).policy("FCFS").priority(9).submit();

    let promised = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[10, 10])
        .deadline(200)
        .submit();

    world.job(5).policy("FCFS").priority(9).submit();
    for index in [1, 2] {
        let attempt = world.attempt_on(host);
        world.now = world.now + s(60);
        let effects = world.succeeds(host, attempt);
        assert_eq!(
            starts(&effects)[0].1.task,
            common::TaskId::new(promised, index)
        );
    }
}

#[test]
fn a_policed_task_is_its_owners_to_know_and_fails_unless_it_has_retries() {
    let mut world = world();
    let host = world.host(1).joins();
    let long = world
        .job(1)
        .policy("CALENDAR-HARD")
        .estimates(&[10])
        .deadline(10)
        .submit();

    let attempt = world.attempt_on(host);
    world.now = world.now + s(30);

    let (by, effects) = world
        .job(1)
        .policy("CALENDAR-HARD")
        .estimates(&[5])
        .deadline(5)
        .asks();
    let why = EndReason::Policed {
        estimate: s(10),
        elapsed: s(30),
        by,
    };
    assert_eq!(ended(&effects), [(attempt, why.clone())]);
    assert_eq!(
        why.to_string(),
        format!(
            "did what takes 30.0s on a host of speed 1, which is beyond its estimate of 10.0s; killed to make room for job {by}"
        )
    );

    assert_eq!(settled(&effects), [(1, Settled::Failed(attempt, why))]);
    assert_eq!(world.attempt_on(host).task.job, by);
    assert!(world.job_state(long).settled());
}

#[test]
fn an_admins_policing_setting_overrides_that_of_jobs() {
    for (said, own, killed) in [
        (None, "off", 0),
        (Some("hard:always"), "off", 1),
        (Some("grace5:always"), "hard", 0),
        (Some("off"), "hard", 0),
        (None, "hard", 1),
    ] {
        let policing = said.map(|said| said.parse().expect("it makes sense"));
        let mut world = World::with(Settings {
            policing,
            ..Settings::default()
        });
        world.host(1).joins();

        let policy = format!("CALENDAR-HARD:policing={own}");
        world
            .job(1)
            .policy(&policy)
            .estimates(&[10])
            .deadline(500)
            .submit();

        world.now = world.now + s(30);
        let (_, effects) = world
            .job(1)
            .policy(&policy)
            .estimates(&[5])
            .deadline(500)
            .asks();
        assert_eq!(ended(&effects).len(), killed, "{said:?} over {own}");
    }
}

#[test]
fn policing_spares_attempts_not_running_or_within_their_estimate() {
    for (phase, ran, killed) in [
        (Phase::Running, Span(17_666_667), 0),
        (Phase::Running, Span(17_700_000), 1),
        (Phase::Staging, s(60), 0),
        (Phase::Ended, s(60), 0),
    ] {
        let mut world = world();
        let host = world.host(1).speed(3.0).joins();
        world
            .job(1)
            .policy("CALENDAR-HARD")
            .estimates(&[53])
            .deadline(500)
            .submit();

        world.moves(host, phase);
        world.now = world.now + ran;

        let (_, effects) = world
            .job(1)
            .policy("CALENDAR-HARD")
            .estimates(&[5])
            .deadline(500)
            .asks();
        assert_eq!(ended(&effects).len(), killed, "{phase:?} for {ran:?}");
    }
}

#[test]
fn a_killed_task_with_retries_is_tried_again_behind_the_bag_it_made_room_for() {
    for (deadline, kept) in [(500, true), (80, false)] {
        let mut world = world();
        let host = world.host(1).joins();
        let long = world
            .job(2)
            .policy("CALENDAR-HARD")
            .retries(1)
            .estimates(&[10, 10])
            .deadline(deadline)
            .submit();

        world.now = world.now + s(30);
        let (bag, effects) = world
            .job(1)
            .policy("CALENDAR-HARD")
            .estimates(&[5])
            .deadline(40)
            .asks();
        assert_eq!(
            offered(&effects).expect("there is time").finish,
            world.now + s(5)
        );
        assert_eq!(
            world.attempt_on(host).task.job,
            bag,
            "its slot is not the killed one's again"
        );

        // It takes longer than it has run: as long again, as far as is known.
        let keeping = world.scheduler.keeping(long, world.now);
        assert_eq!(
            keeping.map(|keeping| keeping.expected),
            kept.then_some(Some(world.now + s(5 + 60 + 10)))
        );
        world.now = world.now + s(5);
        world.ends(host, world.attempt_on(host), Outcome::Succeeded, s(5));
        assert_eq!(
            (
                world.attempt_on(host).task.job,
                world.attempt_on(host).number
            ),
            (long, 2)
        );
    }
}

#[test]
fn killed_attempts_count_towards_their_users_estimate_quality() {
    let mut world = world();
    world.host(1).joins();
    for _ in 0..3 {
        world
            .job(1)
            .policy("CALENDAR-HARD")
            .user("low")
            .estimates(&[10])
            .deadline(500)
            .submit();

        world.now = world.now + s(30);
        let (bag, _) = world
            .job(1)
            .policy("CALENDAR-HARD")
            .user("other")
            .estimates(&[5])
            .deadline(500)
            .asks();
        world.send(events::cancelled(bag, None));
    }

    let of = Estimator {
        user: "low".into(),
        program: String::new(),
    };
    let quality = world
        .scheduler
        .experience()
        .estimates
        .source(&of)
        .map(scheduler::estimates::EstimateSource::quality);
    assert_eq!(
        quality.map(|quality| (quality.tasks, quality.ratio)),
        Some((3, Some((3.0, 3.0, 3.0))))
    );
}

#[test]
fn a_task_takes_as_many_slots_as_results_of_it_are_wanted() {
    for alike in [true, false] {
        let mut world = world();
        for id in 1..=3 {
            world
                .host(id)
                .speed(if alike {
                    1.0
                } else {
                    1.0 + f64::from(id) * 1e-6
                })
                .joins();
        }

        let ask = |world: &mut World, tasks: usize, size: u32| {
            let mut bag = world
                .job(tasks as u32)
                .policy("CALENDAR")
                .estimates(&vec![10; tasks])
                .deadline(1_000)
                .bag();
            bag.rules.quorum.size = size;
            bag
        };
        let one = ask(&mut world, 1, 1);
        let three = ask(&mut world, 3, 2);
        let finish_s =
            |world: &World, bag: &Bag| world.offer(bag).finish.since(world.now).secs().round();
        assert_eq!(
            (finish_s(&world, &one), finish_s(&world, &three)),
            (10.0, 20.0),
            "six attempts on three hosts"
        );

        let effects = world.send(events::submitted(JobId(1), three));
        let begun: Vec<u32> = starts(&effects)
            .iter()
            .map(|(_, attempt, _)| attempt.task.index)
            .collect();
        assert_eq!(
            begun,
            [1, 1, 2],
            "each task at once with all of its attempts"
        );
        assert_eq!(
            finish_s(&world, &one),
            30.0,
            "the second one's other result and both of the third's come before"
        );
    }
}

#[test]
fn promised_tasks_preempt_disclosed_ones_and_start_first() {
    for (speeds, frozen) in [([1.0, 1.0], 0), ([1.0, 2.0], 1)] {
        let mut world = world();
        let disclosed = world.job(4).policy("FCFSxNEED").disclosed().submit();
        let hosts: Vec<HostId> = (1..)
            .zip(speeds)
            .map(|(id, speed)| world.host(id).speed(speed).holds_frozen(frozen).joins())
            .collect();
        for host in &hosts {
            world.moves(*host, Phase::Running);
        }

        world.pass(s(20));
        let (bag, effects) = world
            .job(1)
            .policy("CALENDAR")
            .estimates(&[10, 10])
            .deadline(11)
            .asks();
        assert!(offered(&effects).is_some(), "{effects:?}");
        assert_eq!(
            starts(&effects)
                .iter()
                .filter(|(_, attempt, _)| attempt.task.job == bag)
                .count(),
            2
        );

        let ordinary = world.job(1).policy("FCFS").submit();
        assert_eq!(
            world
                .scheduler
                .job_counts(ordinary)
                .map(|counts| counts.waiting),
            Some(1),
            "nothing is left for it"
        );

        let why = world
            .scheduler
            .explain(disclosed)
            .expect("it is there")
            .tasks;
        assert!(
            why.iter()
                .any(|(why, _)| why.contains(&format!("made room for task {bag}."))),
            "{why:?}"
        );
        world.work_off();
        assert_eq!(world.job_state(bag), common::view::JobState::Finished);
    }
}

#[test]
fn the_age_of_a_running_attempt_survives_a_restart() {
    let mut world = world();
    let host = world.host(1).joins();
    world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[100])
        .deadline(1_000)
        .submit();

    let attempt = world.attempt_on(host);
    world.now = world.now + s(60);
    world.restart();

    let held = HeldAttempt {
        attempt,
        phase: Phase::Running,
        ran: s(60),
        frozen_for: Span::ZERO,
        progress: None,
    };

    world.send(Event::HostJoined {
        host,
        slots: 1,
        speed: common::Speed::REFERENCE,
        status: common::host::OwnerState::Away.into(),
        held: vec![held],
    });

    let bag = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[5])
        .deadline(500)
        .bag();
    let offer = world.offer(&bag);
    assert_eq!(offer.finish.since(world.now), s(45));
}

#[test]
fn a_promised_job_should_start_where_the_calendar_has_it() {
    let mut world = world();
    let host = world.host(1).joins();
    world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[100])
        .deadline(1_000)
        .submit();

    let second = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[40])
        .deadline(1_000)
        .submit();

    let third = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[7])
        .deadline(1_000)
        .submit();

    world.moves(host, Phase::Running);
    let starts = world.scheduler.predict_starts(&[second, third], world.now);
    let at = |job| starts[&job].start.since(world.now);
    assert_eq!((at(second), at(third)), (s(100), s(140)));
}

#[test]
fn a_bag_waits_for_an_overdue_host_only_if_others_would_be_late() {
    for (deadline, waits_s) in [(1_000, 0), (25, 17)] {
        let mut world = world();
        let fast = world.host(1).speed(2.0).joins();
        world
            .job(1)
            .policy("CALENDAR")
            .estimates(&[10])
            .deadline(1_000)
            .submit();

        world.moves(fast, Phase::Running);
        let slow = world.host(2).speed(0.5).joins();
        world.now = world.now + s(6);

        // Half a minute on the slow host, seven seconds and a half on the fast one, where another
        // one runs that is overdue: that should run on for as long as it has run.
        let (bag, _) = world
            .job(1)
            .policy("CALENDAR")
            .estimates(&[15])
            .deadline(deadline)
            .asks();

        let mut waited_s = 0;
        while world.books(slow).is_empty() && waited_s < 100 {
            world.pass(s(1));
            world.beats(slow);
            waited_s += 1;
        }

        assert_eq!(waited_s, waits_s, "deadline {deadline}");
        assert_eq!(world.attempt_on(slow).task.job, bag);
    }
}

#[test]
fn policing_spares_attempts_if_a_kill_would_change_no_decision() {
    const POLICY: &str = "CALENDAR-HARD:when=needed:calibrated=yes";
    for (deadline, accepted, killed) in [(100, true, 0), (15, true, 1), (2, false, 0)] {
        let mut world = world();
        // Who exceeds the estimate takes four times as long.
        let host = taught(&mut world, "moody", &[0.5, 0.5, 0.5, 4.0]);
        world
            .job(1)
            .policy(POLICY)
            .estimates(&[10])
            .deadline(1_000)
            .user("moody")
            .submit();

        let running = world.attempt_on(host);
        world.now = world.now + s(20);

        let (_, effects) = world
            .job(1)
            .policy(POLICY)
            .estimates(&[10])
            .deadline(deadline)
            .user("moody")
            .asks();
        assert_eq!(offered(&effects).is_some(), accepted, "deadline {deadline}");
        assert_eq!(ended(&effects).len(), killed, "deadline {deadline}");
        assert!(
            ended(&effects)
                .iter()
                .all(|(attempt, _)| *attempt == running)
        );
    }
}

#[test]
fn retried_tasks_do_not_delay_bags_accepted_before_the_retry() {
    let mut world = world();
    let host = world.host(1).joins();
    let first = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[10, 10])
        .deadline(100)
        .submit();

    let attempt = world.attempt_on(host);
    world.fails(host, attempt);

    let second = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[10])
        .deadline(30)
        .submit();

    world.send(events::retried(first, IdSet::from_range(1, 2)));

    let third = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[10])
        .deadline(300)
        .submit();

    let mut order = Vec::new();
    for _ in 0..4 {
        let attempt = world.attempt_on(host);
        order.push(attempt.task.job);
        world.now = world.now + s(10);
        world.succeeds(host, attempt);
    }

    assert_eq!(order, [first, second, first, third]);
}

#[test]
fn a_promise_outlives_a_restart_of_the_master() {
    let mut world = world();
    let host = world.host(1).joins();
    world.job(4).policy("FCFS").priority(5).submit();

    let promised = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[10, 10])
        .deadline(900)
        .submit();

    world.restart();
    world.host(1).joins();

    let attempt = world.attempt_on(host);
    assert_eq!(attempt.task.job, promised);

    let (_, effects) = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&[10])
        .deadline(15)
        .asks();
    assert!(matches!(refused(&effects), Refused::TooLate { .. }));
}

/// A host, on which a user's tasks take these parts of what is estimated, in turns.
fn taught(world: &mut World, user: &str, ratios: &[f64]) -> HostId {
    let host = world.host(1).joins();
    for _ in 0..2 {
        world
            .job(200)
            .policy("PROMISE:inflated=no")
            .estimate(s(10))
            .user(user)
            .submit();
        for ratio in ratios.iter().cycle().take(200) {
            let attempt = world.attempt_on(host);
            let ran = Span::from_secs_f64(10.0 * ratio);
            world.now = world.now + ran;
            world.ends(host, attempt, Outcome::Succeeded, ran);
        }
    }

    host
}

#[test]
fn estimating_too_low_gains_nothing_once_it_is_known() {
    let mut world = world();
    taught(&mut world, "sly", &[4.0]);
    for (user, promised_s) in [("sly", 200.0), ("new", 50.0)] {
        let bag = world
            .job(1)
            .policy("PROMISE:inflated=no")
            .estimates(&[10; 5])
            .deadline(100_000)
            .user(user)
            .bag();
        let found_s = world.offer(&bag).finish.since(world.now).secs();
        assert!(
            (found_s / promised_s - 1.0).abs() < 0.1,
            "{user}: {found_s}"
        );
    }
}

#[test]
fn a_bag_without_estimates_is_predicted_from_its_users_past_runs() {
    let mut world = world();
    taught(&mut world, "anna", &[0.5]);

    let bag = world
        .job(10)
        .policy("PROMISE:inflated=no")
        .deadline(60)
        .user("anna")
        .bag();
    let offer = world.offer(&bag);
    assert_eq!(offer.finish, world.now + s(50));

    let other = world
        .job(10)
        .policy("PROMISE:inflated=no")
        .deadline(60)
        .user("ben")
        .bag();
    assert_eq!(
        world.scheduler.offer(&other, world.now),
        Err(Refused::NoEstimate)
    );

    let quality: Vec<_> = world
        .scheduler
        .estimates()
        .quality()
        .map(|(of, q)| (of.user.clone(), q.tasks))
        .collect();
    assert_eq!(quality, [("anna".to_owned(), 400)]);
}

#[test]
fn the_first_bag_of_an_unknown_user_is_taken_on_probation_and_only_that() {
    let mut world = world();
    world.host(1).joins();

    let estimates = [10, 10, 10, 1_000];
    let ask = |world: &mut World| {
        world
            .job(1)
            .policy("PROMISE:inflated=no")
            .estimates(&estimates)
            .deadline(60)
            .user("new")
            .asks()
    };
    let (_, first) = ask(&mut world);
    assert!(offered(&first).expect("on probation").probation);

    let (_, second) = ask(&mut world);
    assert!(matches!(refused(&second), Refused::TooLate { .. }));

    let paper = world
        .job(1)
        .policy("CALENDAR")
        .estimates(&estimates)
        .deadline(60)
        .user("new")
        .asks()
        .1;
    assert!(
        matches!(refused(&paper), Refused::TooLate { .. }),
        "the paper's calendar knows no probation"
    );
}

#[test]
fn an_unknown_user_is_told_the_earliest_deadline_that_is_taken_on_probation() {
    let mut world = world();
    world.host(1).joins();
    let ask = |world: &mut World, deadline| {
        let job = world.job(1).policy("PROMISE:inflated=no").user("new");
        let job = job.estimates(&[10, 10, 10, 1_000]);
        job.deadline(deadline).asks().1
    };

    let Refused::TooLate { earliest, .. } = refused(&ask(&mut world, 5)) else {
        panic!("it is too late");
    };
    assert_eq!(earliest, world.now + s(40));
    let taken = ask(&mut world, 40);
    assert!(offered(&taken).expect("as told").probation);
}

#[test]
fn owner_activity_inflates_the_predicted_finish() {
    let mut world = world();
    world.host(1).joins();

    let finish = |world: &mut World, policy: &str| {
        let bag = world
            .job(1)
            .policy(policy)
            .estimates(&[100; 4])
            .deadline(10_000)
            .bag();
        let offer = world.offer(&bag);
        assert!((0.0..=1.0).contains(&offer.probability));

        offer.finish.since(world.now).secs()
    };
    let plain_s = finish(&mut world, "PROMISE:inflated=no");
    let inflated_s = finish(&mut world, "PROMISE");

    assert_eq!(plain_s, 400.0);
    assert!(inflated_s > 410.0 && inflated_s < 600.0, "{inflated_s}");
}

#[test]
fn the_probability_of_a_promise_grows_with_its_slack() {
    let mut world = world();
    world.host(1).joins();

    let probability = |world: &mut World, deadline| {
        let bag = world
            .job(1)
            .policy("CALENDAR")
            .estimates(&[100])
            .deadline(deadline)
            .bag();
        world
            .scheduler
            .offer(&bag, world.now)
            .expect("time enough")
            .expect("it has a deadline")
            .probability
    };
    let found = [100, 110, 140, 300].map(|deadline| probability(&mut world, deadline));
    assert!(
        found.is_sorted() && found[0] < found[3] && found[3] == 1.0,
        "{found:?}"
    );
}

#[test]
fn a_promise_is_as_likely_as_its_users_estimates_are_good() {
    let mut world = world();
    let host = world.host(1).joins();
    let promised = |world: &mut World, estimate, deadline| {
        let bag = world.job(1).estimates(&[estimate]).policy("PROMISE");
        let bag = bag.deadline(deadline).bag();
        world.offer(&bag).probability
    };
    let unproven = [140, 200, 300].map(|deadline| promised(&mut world, 100, deadline));
    assert!(
        unproven.is_sorted() && unproven[0] < 0.75 && (0.9..1.0).contains(&unproven[2]),
        "nothing is known of the user: {unproven:?}"
    );

    // Estimates that are right, in many jobs.
    for _ in 0..60 {
        world.job(1).estimates(&[100]).submit();
        world.moves(host, Phase::Running);
        world.pass(s(100));
        let attempt = world.attempt_on(host);
        world.ends(host, attempt, Outcome::Succeeded, s(100));
    }
    let proven = promised(&mut world, 100, 140);
    assert!(proven > unproven[0], "{proven}, after {unproven:?}");
}

#[test]
fn an_admission_test_is_taken_over_by_the_next_event_and_made_anew_after_another_one() {
    let ask = |world: &mut World| {
        let bag = world.job(2).policy("CALENDAR").estimates(&[10, 10]);
        bag.deadline(25).bag()
    };
    let submit = |world: &mut World, job, bag: &Bag, tested| {
        world.send(Event::JobSubmitted {
            job: JobId(job),
            bag: Box::new(bag.clone()),
            tested,
        })
    };
    let [mut fresh, mut plain] = [world(), world()];
    for world in [&mut fresh, &mut plain] {
        world.host(1).joins();
    }

    let bag = ask(&mut fresh);
    let tested = fresh.scheduler.would_admit(&bag, fresh.now).map(Box::new);
    let tested = Some(tested.expect("there is time enough"));
    let effects = submit(&mut fresh, 1, &bag, tested.clone());
    assert_eq!(effects, submit(&mut plain, 1, &bag, None));

    for world in [&mut fresh, &mut plain] {
        let effects = submit(world, 2, &bag, tested.clone());
        let refused = |effect: &Effect| matches!(effect, Effect::JobRefused { job: JobId(2), .. });
        assert!(effects.iter().any(refused), "{effects:?}");
    }
}
