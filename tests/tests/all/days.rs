//! Recorded days: the real engines of master and workers are as fast as the simulator says, since
//! both drive the same scheduler.

use common::Span;
use simulator::experiment::{DaySource, FIRST_DAY, Generated};
use simulator::world::{PreparedTrace, Run, Simulator};
use tests::chaos::days::{LiveOutcome, LiveRun, live};

/// The number of hosts.
const HOSTS: usize = 60;
const TASKS: u32 = 50;
const WORK_S: f64 = 600.0;
/// The time at which the jobs are submitted, in seconds of the day.
const START_S: f64 = 6.0 * 3_600.0;
const START_COST: Span = Span::from_secs(40);

/// The live outcome of a job and its simulated makespan in seconds, on a day of 60 hosts.
fn both(day: u32, policy: &str) -> (LiveOutcome, f64) {
    let source = Generated::named("homogeneous", "default", 1, HOSTS).expect("a platform");
    let trace = source.day(FIRST_DAY + day).expect("a day");
    let seed = u64::from(day);
    let live = live(&LiveRun {
        trace: &trace,
        start_s: START_S,
        tasks: TASKS,
        work_s: WORK_S,
        policy,
        start_cost: START_COST,
        seed,
    });

    let run = Run {
        shuffle: Some(seed),
        ..Run::new(START_S, TASKS, WORK_S, policy)
    };
    let simulated = Simulator::default().run(&PreparedTrace::new(&trace), &run);
    let simulated_s = simulated.expect("the policy exists").makespan_s;
    (
        live.expect("the master does not fail"),
        simulated_s.expect("the job ends on that day"),
    )
}

/// The sums of live and simulated makespans over some days, in seconds.
fn sums(policy: &str, days: u32) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for day in 0..days {
        let (live, simulated_s) = both(day, policy);
        sums.0 += live.makespan_s.expect("the job ends on that day");
        sums.1 += simulated_s;
    }
    sums
}

#[test]
fn the_live_system_takes_as_long_as_the_simulator_says() {
    for policy in ["FCFS", "deskgrid", "EXCL-PRED-TO"] {
        let (live_s, simulated_s) = sums(policy, 8);
        let ratio = live_s / simulated_s;
        assert!(
            (0.95..=1.05).contains(&ratio),
            "{policy}: {live_s:.0} s live, {simulated_s:.0} s simulated"
        );
    }
}

#[test]
fn a_recorded_day_is_one_run_whenever_it_is_lived() {
    assert_eq!(both(3, "deskgrid"), both(3, "deskgrid"));
}
