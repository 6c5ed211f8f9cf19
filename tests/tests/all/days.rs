//! Recorded days: the real engines of master and workers are as fast as the simulator says, since
//! both drive the same scheduler.

use common::Span;
use common::units::REFERENCE_MHZ;
use simulator::experiment::{DaySource, FIRST_DAY, Generated};
use simulator::trace::{Segment, Trace};
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
    let simulated = Simulator::default().run(
        &PreparedTrace::new(&trace).expect("clock rates that hosts have"),
        &run,
    );
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

/// The part of a processor that one of eight hosts has for tasks at some times, each from a number
/// of seconds after the job's start on: `None` where it is off.
type Turns = Vec<(f64, Option<f64>)>;

/// Serves 96 tasks of a second on eight hosts, of which one changes, and returns whether the
/// interval held that was made when nine tenths of them were done.
fn held_at_the_end(changed: usize, turns: &Turns) -> bool {
    let end_s = START_S + 1_000.0;
    let segments = (0..8).map(|host| {
        let own = if host == changed { &turns[..] } else { &[] };
        let begins = own.iter().map(|(at_s, cpu)| (START_S + at_s, *cpu));
        let begins: Vec<_> = std::iter::once((0.0, Some(1.0))).chain(begins).collect();
        let ends = begins.iter().skip(1).map(|begin| begin.0).chain([end_s]);
        let segment = |(begin, end_s): (&(f64, Option<f64>), f64)| Segment {
            start_s: begin.0,
            end_s,
            up: begin.1.is_some(),
            cpu: begin.1.unwrap_or(0.0),
        };
        begins.iter().zip(ends).map(segment).collect()
    });
    let trace = Trace::from_parts(vec![REFERENCE_MHZ; 8], segments.collect());

    let outcome = live(&LiveRun {
        trace: &trace,
        start_s: START_S,
        tasks: 96,
        work_s: 1.0,
        policy: "deskgrid",
        start_cost: Span::from_millis(20),
        seed: changed as u64,
    });
    let outcome = outcome.expect("the master does not fail");
    let (low_s, high_s) = outcome.intervals_s[2].expect("the end is predicted");
    let makespan_s = outcome.makespan_s.expect("the job ends");
    (low_s..=high_s).contains(&makespan_s)
}

#[test]
fn intervals_made_near_the_end_know_of_hosts_that_are_lost_slow_or_their_owners() {
    let disturb: [fn(f64) -> Turns; 3] = [
        |at_s| vec![(at_s, None)],
        |at_s| vec![(at_s, Some(0.0)), (at_s + 15.0, Some(1.0))],
        |at_s| vec![(at_s, Some(0.1))],
    ];
    for (kind, turns) in disturb.into_iter().enumerate() {
        let moments = (0..10).map(|draw| (draw % 8, 1.2 + 0.8 * draw as f64));
        let held = moments.filter(|(host, at_s)| held_at_the_end(*host, &turns(*at_s)));
        let held = held.count();
        assert!(held >= 7, "{kind}: {held} of 10");
    }
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
