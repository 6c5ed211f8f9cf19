//! Attempts that stand still in the simulated world: ranks that wait for each other, and what makes
//! room for what somebody waits for. What is not here: whether that is wise.

use common::needs::{Capacity, Needs};
use common::{IdSet, Ranks};
use scheduler::Effect;
use simulator::replay;
use simulator::world::{
    AttemptFate, AttemptStory, PreparedTrace, Run, RunJob, RunOutcome, Simulator, Standstill,
    UserRequest, UserRequestKind,
};

use crate::grid::{Piece, always, prepared};

const CLOSE_S: f64 = 1e-4;

fn run(world: &PreparedTrace, run: &Run<'_>) -> RunOutcome {
    Simulator::default()
        .run(
            world,
            &Run {
                story: true,
                ..run.clone()
            },
        )
        .expect("the jobs are taken")
}

#[track_caller]
fn close(found: f64, want: f64) {
    assert!((found - want).abs() < CLOSE_S, "{found} and not {want}");
}

fn hosts(pieces: &[&[Piece]]) -> PreparedTrace {
    prepared(
        &pieces
            .iter()
            .map(|pieces| (1_500.0, *pieces))
            .collect::<Vec<_>>(),
    )
}

fn request<'a>(at_s: f64, job: u32, tasks: impl IntoIterator<Item = u32>) -> UserRequest<'a> {
    UserRequest {
        at_s,
        what: UserRequestKind::Request(job, Some(tasks.into_iter().collect())),
    }
}

/// Two disclosed tasks of five minutes, of which the second one is requested while the first one
/// runs.
fn overtaken<'a>(asks: &'a [UserRequest<'a>], frozen: u32) -> Run<'a> {
    Run {
        disclosed: true,
        asks,
        frozen,
        ..Run::new(0.0, 2, 300.0, "FCFSxFCFS")
    }
}

#[test]
fn evicted_tasks_resume_without_loss() {
    let world = hosts(&[&always()]);
    let asks = [request(140.0, 1, [2])];
    let outcome = run(&world, &overtaken(&asks, 1));

    // 100 s of the first are done when it is frozen; the second takes 40 + 300 s, the rest of the
    // first 200 s.
    close(outcome.completions_s[0], 480.0);
    close(outcome.makespan_s.expect("done"), 680.0);
    close(outcome.cpu_s, 600.0);
    assert_eq!((outcome.launches, outcome.wasted_cpu_s), (2, 0.0));

    let still = Standstill {
        job: 1,
        task: 1,
        number: 1,
        host: 0,
        from_s: 140.0,
        to_s: 480.0,
    };
    assert_eq!(outcome.still, [still]);
}

/// A PC with four processors and 8 GiB, on which four disclosed tasks run when a task comes that
/// needs three processors and 5 GiB.
fn small_and_large<'a>(asks: &'a [UserRequest<'a>], frozen: u32) -> Run<'a> {
    const PC: Capacity = Capacity {
        cores: 4,
        memory_mib: 8_192,
        gpus: 0,
    };
    Run {
        disclosed: true,
        asks,
        frozen,
        sizes: Some(&[PC]),
        ..Run::new(0.0, 4, 300.0, "FCFSxFCFS")
    }
}

#[test]
fn several_tasks_make_room_for_one_that_needs_more_and_lose_nothing_if_they_can_be_frozen() {
    let world = hosts(&[&always()]);
    let needs = Needs::parse(["cpus=3,mem=5G"]).expect("needs");
    let asks = [UserRequest {
        at_s: 140.0,
        what: UserRequestKind::Submit(RunJob {
            needs: Some(&needs),
            ..plain(1, 100.0, "FCFSxFCFS")
        }),
    }];

    // Three of four stand still for 140 s.
    let outcome = run(&world, &small_and_large(&asks, 3));
    close(outcome.settled_s[1].expect("done"), 280.0);
    close(outcome.settled_s[0].expect("done"), 480.0);
    assert_eq!((outcome.launches, outcome.wasted_cpu_s), (5, 0.0));
    let still: Vec<_> = outcome.still.iter().map(|s| (s.from_s, s.to_s)).collect();
    assert_eq!(still, [(140.0, 280.0); 3]);

    // The host hears at 180 s that three are to end.
    let outcome = run(&world, &small_and_large(&asks, 0));
    close(outcome.settled_s[1].expect("done"), 320.0);
    close(outcome.wasted_cpu_s, 3.0 * 140.0);
    assert_eq!((outcome.launches, outcome.still.len()), (8, 0));
}

#[test]
fn a_host_that_holds_nothing_frozen_does_it_again() {
    let world = hosts(&[&always()]);
    let asks = [request(140.0, 1, [2])];
    let outcome = run(&world, &overtaken(&asks, 0));
    // It hears with its heartbeat at 180 s that the first one is to end.
    close(outcome.completions_s[0], 520.0);
    close(outcome.makespan_s.expect("done"), 860.0);
    close(outcome.wasted_cpu_s, 140.0);
    assert_eq!((outcome.launches, outcome.still.len()), (3, 0));
}

#[test]
fn one_request_ends_one_attempt_however_late_its_host_hears_of_it() {
    let world = hosts(&[&always(), &always(), &always(), &always()]);
    let asks = [
        request(130.0, 1, [6]),
        request(140.0, 1, [6]),
        request(150.0, 1, [6]),
    ];
    let outcome = run(
        &world,
        &Run {
            tasks: 6,
            ..overtaken(&asks, 0)
        },
    );
    let fates = outcome
        .story
        .iter()
        .filter(|attempt| attempt.fate == AttemptFate::Stopped);
    assert_eq!(fates.count(), 1, "{:?}", outcome.story);

    let sixth = outcome
        .story
        .iter()
        .find(|attempt| attempt.task == 6)
        .expect("it ran");
    close(sixth.began_s, 180.0);
}

#[test]
fn a_standstill_lasts_while_the_owner_is_there_and_ends_with_its_host() {
    let owner: &[Piece] = &[
        (0.0, 450.0, 1.0),
        (450.0, 600.0, 0.0),
        (600.0, 10_000.0, 1.0),
    ];
    let world = hosts(&[owner]);
    let asks = [request(140.0, 1, [2])];
    let outcome = run(&world, &overtaken(&asks, 1));
    close(outcome.completions_s[0], 630.0);

    // That the owner has left is heard with the heartbeat at 660 s.
    close(outcome.makespan_s.expect("done"), 860.0);
    let fails: &[Piece] = &[
        (0.0, 400.0, 1.0),
        (400.0, 500.0, -1.0),
        (500.0, 10_000.0, 1.0),
    ];
    let outcome = run(&hosts(&[fails]), &overtaken(&asks, 1));

    // Both are lost with it, and begin anew: the requested one first.
    close(outcome.completions_s[0], 840.0);
    close(outcome.makespan_s.expect("done"), 1_180.0);
    close(outcome.still[0].to_s, 400.0);
    close(outcome.wasted_cpu_s, 100.0 + 220.0);
}

#[test]
fn a_suspended_task_that_is_not_needed_ends() {
    let drop = UserRequest {
        at_s: 200.0,
        what: UserRequestKind::Drop(1),
    };
    let world = hosts(&[&always()]);
    let asks = [request(140.0, 1, [2]), drop];
    let outcome = run(&world, &overtaken(&asks, 1));
    close(outcome.settled_s[0].expect("settled"), 480.0);
    assert_eq!(outcome.completions_s.len(), 1);

    let first = outcome
        .story
        .iter()
        .find(|attempt| attempt.task == 1)
        .expect("it ran");
    assert_eq!(first.fate, AttemptFate::Stopped);
    close(first.ended_s, 240.0);
}

/// A stream of numbers below a bound.
fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    }
}

/// Hosts that come and go, and whose owners do.
fn restless(seed: u64, count: usize) -> PreparedTrace {
    let mut draw = draws(seed);
    let course = |draw: &mut dyn FnMut(u64) -> u64| -> Vec<Piece> {
        let mut at = 0.0;
        let mut pieces = Vec::new();
        while at < 40_000.0 {
            let end = at + 60.0 + draw(4_000) as f64 / 2.0;
            let cpu = [1.0, 1.0, 1.0, 0.6, 0.0, -1.0][draw(6) as usize];
            pieces.push((at, end, cpu));
            at = end;
        }
        pieces.push((at, 400_000.0, 1.0));
        pieces
    };
    let courses: Vec<Vec<Piece>> = (0..count).map(|_| course(&mut draw)).collect();

    prepared(
        &courses
            .iter()
            .map(|pieces| (1_500.0, &pieces[..]))
            .collect::<Vec<_>>(),
    )
}

fn plain(tasks: u32, work_s: f64, policy: &'static str) -> RunJob<'static> {
    RunJob {
        tasks,
        work_s,
        policy,
        checkpoint: false,
        disclosed: false,
        ranks: None,
        needs: None,
        after: &[],
        user: "another",
    }
}

/// Disclosed jobs, requests, needed jobs and jobs of ranks, at times of this seed.
fn wishes(seed: u64) -> Vec<UserRequest<'static>> {
    let mut draw = draws(seed ^ 0xA5A5);
    let mut asks = Vec::new();
    let mut at_s = 0.0;
    let mut jobs = vec![(1, 20)];

    for number in 2..14 {
        at_s += draw(900) as f64;
        let what = match draw(4) {
            0 => {
                jobs.push((number, 10));
                RunJob {
                    disclosed: true,
                    checkpoint: draw(2) == 0,
                    ..plain(10, 200.0, "FCFSxNEED")
                }
            }
            1 => {
                let least = 1 + draw(3) as u32;
                let ranks = Ranks::new(least, Some(least + draw(2) as u32));
                RunJob {
                    ranks: Some(ranks),
                    ..plain(0, 900.0, "AVG")
                }
            }
            _ => plain(1 + draw(3) as u32, 150.0, "FCFS"),
        };

        asks.push(UserRequest {
            at_s,
            what: UserRequestKind::Submit(what),
        });
        for _ in 0..2 {
            at_s += draw(400) as f64;
            let (job, tasks) = jobs[draw(jobs.len() as u64) as usize];
            asks.push(request(at_s, job, [1 + draw(tasks) as u32]));
        }
    }

    asks.push(UserRequest {
        at_s: at_s + 500.0,
        what: UserRequestKind::Drop(1),
    });
    asks
}

fn busy<'a>(asks: &'a [UserRequest<'a>], frozen: u32, slots: u32) -> Run<'a> {
    Run {
        disclosed: true,
        asks,
        frozen,
        slots,
        ..Run::new(0.0, 20, 400.0, "FCFSxFCFS")
    }
}

/// How many of these intervals overlap at most.
fn overlap(intervals: &[(f64, f64)]) -> usize {
    let at = |s: f64| {
        intervals
            .iter()
            .filter(|(from, to)| *from <= s + CLOSE_S && s + CLOSE_S < *to)
            .count()
    };
    intervals
        .iter()
        .map(|(from, _)| at(*from))
        .max()
        .unwrap_or(0)
}

/// The times in which an attempt was in a slot.
fn in_slot(attempt: &AttemptStory, still: &[Standstill]) -> Vec<(f64, f64)> {
    let of = (attempt.job, attempt.task, attempt.number);
    let mut from = attempt.began_s;
    let mut spans = Vec::new();
    for pause in still
        .iter()
        .filter(|pause| (pause.job, pause.task, pause.number) == of)
    {
        spans.push((from, pause.from_s));
        from = pause.to_s;
    }
    spans.push((from, attempt.ended_s));
    spans
}

#[test]
fn a_slot_runs_one_task_and_frozen_ones_take_none() {
    let mut frozen = 0;
    for seed in 0..30 {
        let slots = 1 + (seed % 2) as u32;
        let places = 1 + (seed % 3) as u32;
        let asks = wishes(seed);
        let outcome = run(&restless(seed, 5), &busy(&asks, places, slots));
        assert!(
            outcome.settled_s.iter().all(Option::is_some),
            "seed {seed}: {:?}",
            outcome.settled_s
        );
        frozen += outcome.still.len();

        for host in 0..5 {
            let here = outcome.story.iter().filter(|attempt| attempt.host == host);
            let spans: Vec<_> = here
                .flat_map(|attempt| in_slot(attempt, &outcome.still))
                .collect();
            assert!(
                overlap(&spans) <= slots as usize,
                "seed {seed}: host {host} runs {spans:?}"
            );

            let still = outcome.still.iter().filter(|pause| pause.host == host);
            let still: Vec<_> = still.map(|pause| (pause.from_s, pause.to_s)).collect();
            assert!(
                overlap(&still) <= places as usize,
                "seed {seed}: host {host} holds {still:?}"
            );
        }
    }

    assert!(frozen > 100, "only {frozen} were frozen");
}

#[test]
fn a_run_with_standstills_and_ranks_is_the_same_again_and_replays() {
    let kinds = |effects: &[Effect]| {
        let count = |of: fn(&Effect) -> bool| effects.iter().filter(|effect| of(effect)).count();
        [
            count(|effect| matches!(effect, Effect::Freeze { .. })),
            count(|effect| matches!(effect, Effect::Thaw { .. })),
            count(|effect| matches!(effect, Effect::Begin { .. })),
            count(|effect| matches!(effect, Effect::Start { .. })),
        ]
    };

    let mut seen = [0; 4];
    for seed in 0..8 {
        let world = restless(seed, 5);
        let asks = wishes(seed);
        let asked = Run {
            story: true,
            ..busy(&asks, 1, 1)
        };
        let mut simulator = Simulator::default();
        let (outcome, record) = simulator.record(&world, &asked).expect("taken");
        assert_eq!(
            outcome,
            simulator.run(&world, &asked).expect("taken"),
            "seed {seed}"
        );

        let untold = simulator
            .run(
                &world,
                &Run {
                    story: false,
                    ..asked.clone()
                },
            )
            .expect("taken");
        assert_eq!(outcome.completions_s, untold.completions_s, "seed {seed}");

        let effects: Vec<Effect> = replay(&record).into_iter().flatten().collect();
        let kinds = kinds(&effects);
        assert_eq!(kinds[3], outcome.launches as usize, "seed {seed}");
        assert!(kinds[0] >= outcome.still.len(), "seed {seed}");
        (0..4).for_each(|at| seen[at] += kinds[at]);
    }

    assert!(seen.iter().all(|count| *count > 10), "{seen:?}");
}

fn ranks(least: u32, most: u32) -> Option<Ranks> {
    Some(Ranks::new(least, Some(most)))
}

/// Three ranks that share a quarter of an hour.
fn three<'a>() -> Run<'a> {
    Run {
        ranks: ranks(3, 3),
        ..Run::new(0.0, 0, 900.0, "AVG")
    }
}

#[test]
fn ranks_begin_together_and_share_the_work() {
    let world = hosts(&[&always(), &always(), &always()]);
    let outcome = run(&world, &three());
    close(outcome.makespan_s.expect("done"), 340.0);
    assert!(
        outcome
            .story
            .iter()
            .all(|rank| rank.computed_s == Some(40.0)),
        "{:?}",
        outcome.story
    );

    assert_eq!(
        outcome
            .story
            .iter()
            .map(|rank| rank.task)
            .collect::<Vec<_>>(),
        [0, 1, 2]
    );

    // Where hosts help each other less, all of them take longer: 900 s of a parallelism of 2 take
    // 450.
    let limited = Ranks {
        parallelism: Some(2.0),
        ..Ranks::new(3, Some(3))
    };
    close(
        run(
            &world,
            &Run {
                ranks: Some(limited),
                ..three()
            },
        )
        .makespan_s
        .expect("done"),
        490.0,
    );

    let fewer = hosts(&[&always(), &always()]);
    assert_eq!(
        run(&fewer, &three()).makespan_s,
        None,
        "two hosts are not three"
    );
    close(
        run(
            &fewer,
            &Run {
                ranks: ranks(1, 3),
                ..three()
            },
        )
        .makespan_s
        .expect("done"),
        490.0,
    );
}

#[test]
fn no_rank_begins_before_the_last_one_is_ready() {
    let late: &[Piece] = &[(0.0, 500.0, -1.0), (500.0, 10_000.0, 1.0)];
    let world = hosts(&[&always(), late, &always()]);
    let outcome = run(&world, &three());
    assert!(
        outcome
            .story
            .iter()
            .all(|rank| rank.computed_s == Some(540.0)),
        "{:?}",
        outcome.story
    );

    close(outcome.makespan_s.expect("done"), 840.0);
    // An owner comes while files are put in place: that rank goes to another host, and the others
    // wait for it.
    let owner: &[Piece] = &[
        (0.0, 20.0, 1.0),
        (20.0, 5_000.0, 0.0),
        (5_000.0, 10_000.0, 1.0),
    ];
    let world = hosts(&[owner, &always(), &always(), &always()]);
    let outcome = run(&world, &three());
    let fates: Vec<_> = outcome
        .story
        .iter()
        .map(|rank| (rank.host, rank.fate, rank.computed_s))
        .collect();
    let done = |host| (host, AttemptFate::Delivered, Some(60.0));
    assert_eq!(
        fates,
        [(0, AttemptFate::Returned, None), done(1), done(2), done(3)]
    );
}

#[test]
fn hosts_of_ranks_are_held_until_the_last_one_is_done() {
    let half: &[Piece] = &[(0.0, 10_000.0, 0.5)];
    let world = hosts(&[&always(), half, &always()]);
    let asks = [UserRequest {
        at_s: 1.0,
        what: UserRequestKind::Submit(plain(3, 100.0, "FCFS")),
    }];
    let outcome = run(
        &world,
        &Run {
            asks: &asks,
            ..three()
        },
    );
    close(outcome.settled_s[0].expect("done"), 640.0);

    let others: Vec<f64> = outcome
        .story
        .iter()
        .filter(|of| of.job == 2)
        .map(|of| of.began_s)
        .collect();
    assert_eq!(
        others, [640.0; 3],
        "two ranks were done at 340 s, and their hosts were still held"
    );
}

#[test]
fn ranks_preempt_disclosed_tasks_that_can_be_frozen() {
    let world = hosts(&[&always(), &always(), &always(), &always()]);
    let ranks = RunJob {
        ranks: ranks(3, 3),
        ..plain(0, 900.0, "AVG")
    };
    let asks = [UserRequest {
        at_s: 130.0,
        what: UserRequestKind::Submit(ranks),
    }];
    let disclosed = |frozen| Run {
        disclosed: true,
        asks: &asks,
        frozen,
        ..Run::new(0.0, 4, 1_000.0, "FCFSxFCFS")
    };
    let outcome = run(&world, &disclosed(1));
    close(outcome.settled_s[1].expect("done"), 130.0 + 340.0);

    assert_eq!(
        (outcome.still.len(), outcome.launches, outcome.wasted_cpu_s),
        (3, 7, 0.0)
    );
    close(outcome.settled_s[0].expect("done"), 1_040.0 + 340.0);

    // Where nothing can be held their hosts hear at 180 s that they are to end what they do, and no
    // fourth one has to.
    let outcome = run(&world, &disclosed(0));
    close(outcome.settled_s[1].expect("done"), 180.0 + 340.0);

    let stopped = outcome
        .story
        .iter()
        .filter(|attempt| attempt.fate == AttemptFate::Stopped)
        .count();
    assert_eq!((stopped, outcome.launches), (3, 10));
}

#[test]
fn a_job_after_another_starts_when_that_has_ended() {
    let world = hosts(&[&always(), &always()]);
    let second = RunJob {
        after: &[1],
        ..plain(1, 100.0, "FCFS")
    };
    let asks = [UserRequest {
        at_s: 10.0,
        what: UserRequestKind::Submit(second),
    }];
    let run_of = |asks| Run {
        asks,
        ..Run::new(0.0, 3, 100.0, "FCFS")
    };
    let outcome = run(&world, &run_of(&asks[..]));
    let [first, second] = [0, 1].map(|job| outcome.settled_s[job].expect("done"));
    close(first, 280.0);
    close(second, 420.0);

    let at_once = [UserRequest {
        at_s: 10.0,
        what: UserRequestKind::Submit(plain(1, 100.0, "FCFS")),
    }];
    let outcome = run(&world, &run_of(&at_once[..]));
    close(outcome.settled_s[1].expect("done"), 280.0);
}

#[test]
fn a_lost_rank_starts_elsewhere_and_disturbs_no_other() {
    let fails: &[Piece] = &[(0.0, 100.5, 1.0), (100.5, 10_000.0, -1.0)];
    let world = hosts(&[fails, &always(), &always(), &always()]);
    let outcome = run(&world, &three());
    let fates: Vec<_> = outcome
        .story
        .iter()
        .map(|rank| (rank.task, rank.host, rank.fate, rank.computed_s))
        .collect();
    let done = |task, host, from| (task, host, AttemptFate::Delivered, Some(from));
    let lost = (0, 0, AttemptFate::Lost, Some(40.0));
    assert_eq!(
        fates,
        [lost, done(1, 1, 40.0), done(2, 2, 40.0), done(0, 3, 160.0)]
    );

    close(outcome.completions_s[1], 340.0);
    close(outcome.makespan_s.expect("done"), 460.0);
}

#[test]
fn a_returning_owner_holds_up_one_rank() {
    let owner: &[Piece] = &[
        (0.0, 100.0, 1.0),
        (100.0, 250.0, 0.0),
        (250.0, 10_000.0, 1.0),
    ];
    let outcome = run(&hosts(&[owner, &always(), &always(), &always()]), &three());
    assert_eq!(outcome.launches, 3, "it goes on where it was");
    let ends: Vec<f64> = outcome.completions_s.clone();
    close(ends[1], 340.0);
    close(ends[2], 490.0);
}

#[test]
fn in_restless_worlds_all_ranks_of_a_first_start_begin_at_one_time() {
    let mut together = 0;
    for seed in 0..30 {
        let asks = wishes(seed);
        let outcome = run(&restless(seed, 6), &busy(&asks, 1, 1));
        for job in 1..=outcome.settled_s.len() as u32 {
            let mut jobs = asks.iter().filter_map(|ask| match &ask.what {
                UserRequestKind::Submit(job) => Some(*job),
                _ => None,
            });
            if job == 1
                || jobs
                    .nth(job as usize - 2)
                    .is_none_or(|job| job.ranks.is_none())
            {
                continue;
            }

            let own: Vec<&AttemptStory> = outcome.story.iter().filter(|of| of.job == job).collect();
            let begun: Vec<f64> = own.iter().filter_map(|rank| rank.computed_s).collect();
            let first = begun.iter().copied().fold(f64::INFINITY, f64::min);

            let tasks: IdSet = own.iter().map(|rank| rank.task).collect();
            for task in tasks.iter() {
                // Whoever had not begun then was lost or given back before.
                let there = own.iter().filter(|rank| {
                    rank.task == task && rank.began_s <= first && first < rank.ended_s
                });
                assert!(
                    there.clone().count() <= 1,
                    "seed {seed}: rank {job}.{task} lives twice"
                );
                assert!(
                    there.clone().all(|rank| rank.computed_s == Some(first)),
                    "seed {seed}: job {job}: {own:?}"
                );
                assert_eq!(
                    there.count(),
                    1,
                    "seed {seed}: job {job} began without rank {task}: {own:?}"
                );
            }

            together += usize::from(tasks.len() > 1);
        }
    }

    assert!(together > 20, "only {together} jobs had several ranks");
}
