//! No policy beats the optimum, on the shared days and on small worlds at random. What is not here:
//! whether the optimum is one.

use proptest::prelude::{Strategy, proptest};
use proptest::{collection, prop_assert};
use simulator::oracle::Oracle;
use simulator::world::{PreparedTrace, Run, Simulator};

use crate::grid::{Piece, shared_day, trace};

#[test]
fn no_policy_beats_the_optimum_on_the_shared_days() {
    for name in ["default-sdsc-0", "default-gimps-0"] {
        let Some(day) = shared_day(name) else { return };
        let world = PreparedTrace::new(&day).expect("clock rates that hosts have");
        for (start_s, tasks, work_s) in [
            (14_400.0, 100, 300.0),
            (16_000.5, 200, 900.0),
            (30_000.0, 37, 2_100.0),
        ] {
            let best_s = Oracle::new(&day, start_s, work_s, 40.0, 1)
                .makespan_s(tasks)
                .expect("the day is long");
            for policy in scheduler::catalogue() {
                let run = Run::new(start_s, tasks, work_s, policy.name);
                let outcome = Simulator::default().run(&world, &run).expect("taken");
                let took_s = outcome.makespan_s.unwrap_or(f64::INFINITY);
                assert!(
                    took_s >= best_s - 1e-4,
                    "{}: {took_s} < {best_s}",
                    policy.name
                );
            }
        }
    }
}

/// A host: its clock rate, and stretches with a length and a part of the processor each; below none
/// it is down.
fn host() -> impl Strategy<Value = (f64, Vec<(u32, i32)>)> {
    (
        300.0..3_500.0_f64,
        collection::vec((1_u32..900, -40_i32..=100), 1..40),
    )
}

/// Stretches one behind the other.
fn pieces(stretches: &[(u32, i32)]) -> Vec<Piece> {
    let mut at_s = 0.0;
    let piece = |(length, percent): &(u32, i32)| {
        let start_s = at_s;
        at_s += f64::from(*length);
        // Owners leave nothing as often as something.
        let cpu = if *percent < 0 {
            -1.0
        } else {
            f64::from((*percent - 20).max(0)) / 80.0
        };
        (start_s, at_s, cpu)
    };
    stretches.iter().map(piece).collect()
}

proptest! {
    #[test]
    fn no_policy_beats_the_optimum_on_small_worlds(
        hosts in collection::vec(host(), 1..5),
        tasks in 1_u32..9,
        work_s in 1.0..400.0_f64,
        start_s in 0.0..3_000.0_f64,
    ) {
        let cut: Vec<(f64, Vec<Piece>)> = hosts.iter().map(|(mhz, stretches)| (*mhz, pieces(stretches))).collect();
        let whole: Vec<(f64, &[Piece])> = cut.iter().map(|(mhz, pieces)| (*mhz, &pieces[..])).collect();
        let day = trace(&whole);
        let best_s = Oracle::new(&day, start_s, work_s, 40.0, 1).makespan_s(tasks).unwrap_or(f64::INFINITY);
        let world = PreparedTrace::new(&day).expect("clock rates that hosts have");
        let mut simulator = Simulator::default();

        for policy in scheduler::catalogue() {
            let run = Run { watch: policy.reports().is_some(), ..Run::new(start_s, tasks, work_s, policy.name) };
            let outcome = simulator.run(&world, &run).expect("taken");
            let took_s = outcome.makespan_s.unwrap_or(f64::INFINITY);
            prop_assert!(took_s >= best_s - 1e-4, "{}: {took_s} < {best_s}", policy.name);
            prop_assert!(outcome.completions_s.len() <= tasks as usize);
            prop_assert!(outcome.wasted_cpu_s <= outcome.cpu_s + 1e-9);
        }
    }
}
