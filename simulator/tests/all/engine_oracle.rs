//! No policy beats the optimum.

use simulator::oracle::Oracle;
use simulator::world::{Run, Simulator, World};

use crate::grid::shared_day;

#[test]
fn no_policy_beats_the_optimum_on_the_shared_days() {
    for name in ["default-sdsc-0", "default-gimps-0"] {
        let Some(day) = shared_day(name) else { return };
        let world = World::new(&day);
        for (start_s, tasks, work_s) in [(14_400.0, 100, 300.0), (16_000.5, 200, 900.0), (30_000.0, 37, 2_100.0)] {
            let best_s = Oracle::new(&day, start_s, work_s, 40.0, 1).makespan_s(tasks).expect("the day is long");
            for policy in scheduler::catalogue() {
                let run = Run::new(start_s, tasks, work_s, policy.name);
                let outcome = Simulator::default().run(&world, &run).expect("taken");
                let took_s = outcome.makespan_s.unwrap_or(f64::INFINITY);
                assert!(took_s >= best_s - 1e-4, "{}: {took_s} < {best_s}", policy.name);
            }
        }
    }
}
