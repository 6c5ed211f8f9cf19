//! What the simulated world does, with answers that were worked out by hand. What is not here:
//! whether a policy is good.

use common::Span;
use common::needs::{Capacity, Needs};
use scheduler::Experience;
use scheduler::policy::catalogue;
use simulator::platform::sizes::OFFICE;
use simulator::replay;
use simulator::world::{AttemptFate, PreparedTrace, Run, RunOutcome, Simulator};

use crate::grid::{always, prepared, shared_day, trace};

/// Seconds between an answer and what may be taken for it: times are whole microseconds, and
/// progress travels as a single-precision number.
const CLOSE_S: f64 = 1e-4;

fn run(world: &PreparedTrace, run: &Run<'_>) -> RunOutcome {
    Simulator::default()
        .run(world, run)
        .expect("the job is taken")
}

fn makespan(world: &PreparedTrace, asked: &Run<'_>) -> f64 {
    run(world, asked).makespan_s.expect("the job is finished")
}

fn close(found: f64, want: f64) {
    assert!((found - want).abs() < CLOSE_S, "{found} and not {want}");
}

#[test]
fn a_task_takes_its_start_cost_and_its_work_at_the_hosts_speed_and_share() {
    for (mhz, cpu, want) in [
        (1_500.0, 1.0, 340.0),
        (3_000.0, 1.0, 190.0),
        (1_500.0, 0.5, 640.0),
    ] {
        let world = prepared(&[(mhz, &[(0.0, 10_000.0, cpu)])]);
        close(makespan(&world, &Run::new(0.0, 1, 300.0, "FCFS")), want);
        close(
            makespan(&world, &Run::new(77.25, 2, 300.0, "FCFS")),
            2.0 * want,
        );
    }
}

#[test]
fn a_clock_rate_of_which_there_is_no_speed_is_refused() {
    for mhz in [0.0, -1_500.0, 3e9, f64::NAN] {
        let refused = PreparedTrace::new(&trace(&[(mhz, &always())]));
        let why = refused.expect_err("no host has it").to_string();
        assert!(why.contains("is not a speed"), "{mhz}: {why}");
    }
}

#[test]
fn a_suspended_task_goes_on_where_it_was() {
    let world = prepared(&[(
        1_500.0,
        &[
            (0.0, 100.0, 1.0),
            (100.0, 250.0, 0.0),
            (250.0, 10_000.0, 1.0),
        ],
    )]);

    // 60 s before the owner comes, 240 s after.
    close(makespan(&world, &Run::new(0.0, 1, 300.0, "FCFS")), 490.0);
    // Less than one part in a hundred is as good as nothing.
    let world = prepared(&[(
        1_500.0,
        &[
            (0.0, 100.0, 1.0),
            (100.0, 250.0, 0.009),
            (250.0, 10_000.0, 1.0),
        ],
    )]);
    close(makespan(&world, &Run::new(0.0, 1, 300.0, "FCFS")), 490.0);
}

#[test]
fn a_task_stays_suspended_while_its_owner_is_there_and_another_host_is_idle() {
    let fast: &[_] = &[
        (0.0, 100.0, 1.0),
        (100.0, 10_000.0, 0.0),
        (10_000.0, 20_000.0, 1.0),
    ];
    let world = prepared(&[(3_000.0, fast), (1_500.0, &always())]);
    // 60 s at twice the speed before the owner comes, 90 s after.
    close(
        makespan(&world, &Run::new(0.0, 1, 300.0, "PRI-CR")),
        10_090.0,
    );
}

#[test]
fn the_start_cost_passes_while_the_owner_is_there() {
    let world = prepared(&[(
        1_500.0,
        &[(0.0, 20.0, 1.0), (20.0, 30.0, 0.0), (30.0, 10_000.0, 1.0)],
    )]);
    close(makespan(&world, &Run::new(0.0, 1, 300.0, "FCFS")), 340.0);
}

#[test]
fn a_failure_is_noticed_at_the_first_heartbeat_that_is_missed() {
    let fast: &[_] = &[(0.0, 100.5, 1.0), (100.5, 10_000.0, -1.0)];
    let world = prepared(&[(3_000.0, fast), (1_500.0, &always())]);
    let asked = Run {
        story: true,
        ..Run::new(0.0, 1, 300.0, "PRI-CR")
    };
    let outcome = run(&world, &asked);
    close(outcome.makespan_s.expect("done"), 120.0 + 340.0);
    close(outcome.wasted_cpu_s, 60.5);

    close(outcome.cpu_s, 360.5);
    assert_eq!((outcome.launches, outcome.replicas), (2, 0));

    let fates: Vec<_> = outcome
        .story
        .iter()
        .map(|attempt| (attempt.host, attempt.number, attempt.fate))
        .collect();
    assert_eq!(
        fates,
        [(0, 1, AttemptFate::Lost), (1, 2, AttemptFate::Delivered)]
    );

    // Heartbeats are counted from the attempt's start, not from the trace's.
    let later = Run {
        heartbeat: Span::from_secs(30),
        ..Run::new(7.0, 1, 300.0, "PRI-CR")
    };
    close(makespan(&world, &later), 120.0 + 340.0);
}

#[test]
fn a_host_that_is_back_before_its_heartbeat_says_at_once_that_it_has_nothing() {
    let fast: &[_] = &[(0.0, 70.0, 1.0), (70.0, 90.0, -1.0), (90.0, 10_000.0, 1.0)];
    let world = prepared(&[(3_000.0, fast), (1_500.0, &always())]);
    close(
        makespan(&world, &Run::new(0.0, 1, 300.0, "PRI-CR")),
        90.0 + 190.0,
    );
}

#[test]
fn a_host_that_comes_up_is_used_at_once() {
    let world = prepared(&[(1_500.0, &[(0.0, 1_000.0, -1.0), (1_000.0, 10_000.0, 1.0)])]);
    close(makespan(&world, &Run::new(0.0, 1, 300.0, "FCFS")), 1_340.0);
}

#[test]
fn slots_compute_side_by_side() {
    let world = prepared(&[(1_500.0, &always())]);
    close(
        makespan(
            &world,
            &Run {
                slots: 2,
                ..Run::new(0.0, 4, 300.0, "FCFS")
            },
        ),
        680.0,
    );
}

#[test]
fn a_stopped_copy_computes_on_until_its_host_reports() {
    // Both hosts have the only task at once. The first one gets a quarter of its processor and
    // would need 40 + 1,200 s; the second one is done at 340 s, and the first one hears of it at
    // 360 s.
    let world = prepared(&[(1_500.0, &[(0.0, 10_000.0, 0.25)]), (1_500.0, &always())]);
    let outcome = run(
        &world,
        &Run {
            story: true,
            ..Run::new(0.0, 1, 300.0, "EXCL-PRED-DUP")
        },
    );
    close(outcome.makespan_s.expect("done"), 340.0);
    assert_eq!((outcome.launches, outcome.replicas), (2, 1));

    let fates: Vec<_> = outcome
        .story
        .iter()
        .map(|attempt| (attempt.host, attempt.fate, attempt.replica))
        .collect();
    assert_eq!(
        fates,
        [
            (0, AttemptFate::Stopped, false),
            (1, AttemptFate::Delivered, true)
        ]
    );
    close(outcome.story[0].ended_s, 360.0);
    close(outcome.wasted_cpu_s, 320.0 * 0.25);
    close(outcome.cpu_s, 320.0 * 0.25 + 300.0);
}

#[test]
fn a_stopped_attempt_ends_at_a_heartbeat_of_its_host() {
    let Some(day) = shared_day("default-sdsc-0") else {
        return;
    };
    let world = PreparedTrace::new(&day).expect("clock rates that hosts have");
    let outcome = run(
        &world,
        &Run {
            story: true,
            ..Run::new(16_000.0, 150, 300.0, "EXCL-PRED-DUP:copies=running")
        },
    );
    let stopped: Vec<_> = outcome
        .story
        .iter()
        .filter(|attempt| attempt.fate == AttemptFate::Stopped)
        .collect();
    let regular = |attempt: &&&simulator::world::AttemptStory| {
        let beats = (attempt.ended_s - attempt.began_s) / 60.0;
        (beats - beats.round()).abs() < 1e-6
    };

    // The others' hosts went down, or were done, before they heard of it.
    let heard = stopped.iter().filter(regular).count();
    assert!(
        stopped.len() > 10 && heard * 10 > stopped.len() * 8,
        "{heard} of {}",
        stopped.len()
    );
}

#[test]
fn a_checkpoint_holds_the_work_up_to_the_last_heartbeat() {
    let fast: &[_] = &[(0.0, 100.5, 1.0), (100.5, 10_000.0, -1.0)];
    let world = prepared(&[(3_000.0, fast), (1_500.0, &always())]);
    let asked = Run {
        checkpoint: true,
        ..Run::new(0.0, 1, 300.0, "PRI-CR")
    };
    // 20 s of computing were safe at 60 s, at twice the speed, less 2 %.
    let left_s = 300.0 - 20.0 * 2.0 * 0.98;
    close(makespan(&world, &asked), 120.0 + 40.0 + left_s / 0.98);
}

#[test]
fn an_impossible_bag_ends_unfinished_instead_of_hanging() {
    let never: &[_] = &[(0.0, 5_000.0, -1.0)];
    let suspended: &[_] = &[(0.0, 5_000.0, 0.0)];

    // Up for a minute, down for a minute: no task of five minutes fits.
    let flapping: Vec<(f64, f64, f64)> = (0..40)
        .map(|i| {
            (
                f64::from(i) * 60.0,
                f64::from(i + 1) * 60.0,
                if i % 2 == 0 { 1.0 } else { -1.0 },
            )
        })
        .collect();
    for segments in [never, suspended, &flapping, &[]] {
        for policy in scheduler::catalogue() {
            let world = prepared(&[(1_500.0, segments), (900.0, segments)]);
            let outcome = run(&world, &Run::new(0.0, 3, 300.0, policy.name));
            assert_eq!(
                (outcome.makespan_s, outcome.completions_s.len()),
                (None, 0),
                "{}",
                policy.name
            );
        }
    }

    let world = prepared(&[(1_500.0, &always())]);
    let early = Run {
        horizon_s: Some(339.0),
        ..Run::new(0.0, 1, 300.0, "FCFS")
    };
    let outcome = run(&world, &early);
    assert_eq!(outcome.makespan_s, None);
    close(outcome.cpu_s, 299.0);
}

#[test]
fn a_job_that_the_scheduler_does_not_take_is_an_error() {
    let world = prepared(&[(1_500.0, &always())]);
    let refused = Simulator::default().run(&world, &Run::new(0.0, 1, 300.0, "NO-SUCH-POLICY"));
    assert!(
        refused
            .expect_err("no such policy")
            .to_string()
            .contains("NO-SUCH-POLICY")
    );

    assert!(
        Simulator::default()
            .run(&world, &Run::new(0.0, 0, 300.0, "FCFS"))
            .is_err()
    );
}

#[test]
fn equal_runs_have_equal_outcomes_in_any_order() {
    let Some(day) = shared_day("default-sdsc-0") else {
        return;
    };
    let world = PreparedTrace::new(&day).expect("clock rates that hosts have");
    let mut used = Simulator::default();

    for policy in scheduler::catalogue() {
        let asked = Run {
            story: true,
            shuffle: Some(7),
            ..Run::new(15_000.0, 150, 300.0, policy.name)
        };
        let first = used.run(&world, &asked).expect("taken");
        assert_eq!(first, run(&world, &asked), "{}", policy.name);
        assert_eq!(first.completions_s.len(), 150);
    }
}

#[test]
fn heartbeats_that_say_nothing_new_change_nothing() {
    for name in ["default-sdsc-0", "default-gimps-0"] {
        let Some(day) = shared_day(name) else { return };
        let world = PreparedTrace::new(&day).expect("clock rates that hosts have");
        let mut simulator = Simulator::default();

        // One that asks for reports thinks again with each of them.
        for policy in scheduler::catalogue()
            .iter()
            .filter(|policy| policy.reports().is_none())
        {
            for (start_s, tasks) in [(14_400.0, 60), (19_321.5, 130), (25_000.0, 250)] {
                let asked = Run::new(start_s, tasks, 300.0, policy.name);
                let few = simulator.run(&world, &asked).expect("taken");
                let all = simulator
                    .run(
                        &world,
                        &Run {
                            every_heartbeat: true,
                            ..asked
                        },
                    )
                    .expect("taken");
                assert_eq!(
                    few.makespan_s, all.makespan_s,
                    "{} {start_s} {tasks}",
                    policy.name
                );
                assert_eq!(
                    few.completions_s, all.completions_s,
                    "{} {start_s} {tasks}",
                    policy.name
                );
            }
        }
    }
}

#[test]
fn whether_predictions_are_asked_for_changes_no_run() {
    let Some(day) = shared_day("default-sdsc-0") else {
        return;
    };
    let world = PreparedTrace::new(&day).expect("clock rates that hosts have");
    for policy in scheduler::catalogue() {
        let quiet = Run::new(20_000.0, 120, 300.0, policy.name);
        let asked = Run {
            foretell: true,
            learn: true,
            ..quiet.clone()
        };

        let (quiet, asked) = (run(&world, &quiet), run(&world, &asked));
        assert_eq!(quiet.completions_s, asked.completions_s, "{}", policy.name);
        assert!(
            asked.foretold.iter().all(Option::is_some),
            "{} {:?}",
            policy.name,
            asked.foretold
        );
        let errors = asked.learned.expect("what it learned").errors;
        let learned = errors != Experience::default().errors;
        assert!(learned || policy.name != "deskgrid");
    }
}

#[test]
fn a_recorded_run_replays_with_the_same_effects() {
    let Some(day) = shared_day("default-sdsc-0") else {
        return;
    };
    let world = PreparedTrace::new(&day).expect("clock rates that hosts have");
    for policy in scheduler::catalogue() {
        let asked = Run::new(20_000.0, 120, 300.0, policy.name);
        let (outcome, record) = Simulator::default().record(&world, &asked).expect("taken");
        let effects: Vec<_> = replay(&record).into_iter().flatten().collect();
        let starts = effects
            .iter()
            .filter(|effect| matches!(effect, scheduler::Effect::Start { .. }))
            .count();
        let settled = effects
            .iter()
            .filter(|effect| matches!(effect, scheduler::Effect::TaskSettled { .. }))
            .count();
        assert_eq!(
            (starts, settled),
            (outcome.launches as usize, outcome.completions_s.len()),
            "{}",
            policy.name
        );
    }
}

#[test]
fn deskgrid_copies_a_task_that_is_stuck_on_a_loaded_or_suspended_host() {
    let loaded: &[_] = &[
        (0.0, 400.0, 1.0),
        (400.0, 500.0, 0.0),
        (500.0, 100_000.0, 0.27),
    ];
    let suspended: &[_] = &[(0.0, 400.0, 1.0), (400.0, 100_000.0, 0.0)];
    for stuck in [loaded, suspended] {
        // The other host is slower, so that it is not taken at first.
        let world = prepared(&[(1_500.0, stuck), (1_200.0, &always())]);
        let asked = Run {
            watch: true,
            ..Run::new(0.0, 1, 900.0, "deskgrid")
        };
        let outcome = run(&world, &asked);
        assert_eq!(outcome.replicas, 1);
        let makespan_s = outcome.makespan_s.expect("done");
        // Started anew elsewhere once that pays; alone, the loaded host would take 2,500 s.
        assert!(makespan_s < 2_200.0, "{makespan_s}");
    }
}

fn needs(text: &str) -> Needs {
    Needs::parse([text]).expect("needs")
}

#[test]
fn a_host_runs_as_many_tasks_at_a_time_as_its_processors_and_its_memory_hold() {
    let world = prepared(&[(1_500.0, &[(0.0, 100_000.0, 1.0)])]);
    let sizes = [Capacity {
        cores: 4,
        memory_mib: 8_192,
        gpus: 0,
    }];
    // Eight tasks of 300 s and the start: all four at a time, three, two or one.
    for (asked, rounds) in [
        ("cpus=1", 2.0),
        ("mem=2560M", 3.0),
        ("cpus=2", 4.0),
        ("mem=5G", 8.0),
    ] {
        let needs = needs(asked);
        let run = Run {
            sizes: Some(&sizes),
            needs: Some(&needs),
            ..Run::new(0.0, 8, 300.0, "FCFS")
        };
        close(makespan(&world, &run), rounds * 340.0);
    }
}

#[test]
fn on_an_office_of_different_pcs_every_policy_finishes_what_some_of_them_can_run() {
    let sizes = OFFICE.draw(7, 20);
    let large = |size: &Capacity| size.cores >= 3 && size.memory_mib >= 6_144;
    assert!(sizes.iter().any(large) && !sizes.iter().all(large));

    let always = &[(0.0, 1e6, 1.0)][..];
    let host = |n: i32| (1_500.0 + 100.0 * f64::from(n), always);
    let hosts: Vec<_> = (0..20).map(host).collect();
    let world = prepared(&hosts);
    let needs = needs("cpus=3,mem=6G");
    for row in catalogue() {
        let run = Run {
            sizes: Some(&sizes),
            needs: Some(&needs),
            story: true,
            ..Run::new(0.0, 40, 600.0, row.name)
        };
        let outcome = self::run(&world, &run);
        assert!(outcome.makespan_s.is_some(), "{}", row.name);
        let fits = |host: usize| large(&sizes[host]);
        assert!(
            outcome
                .story
                .iter()
                .all(|attempt| fits(attempt.host as usize)),
            "{}",
            row.name
        );
    }
}
