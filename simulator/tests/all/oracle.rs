//! The optimum: it is the reference's on the shared days.

use simulator::oracle::Oracle;

use crate::trace::{shared, shared_day};

#[test]
fn the_optimum_is_the_reference_generators_to_a_millisecond() {
    for name in ["default-sdsc-0", "default-gimps-0"] {
        let Some(day) = shared_day(name) else { return };
        let text = std::fs::read_to_string(shared(name).join("optimal.csv")).expect("optimal.csv");
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(1)
            .map(|line| line.split(',').map(|field| field.parse().expect("a number")).collect())
            .collect();
        assert_eq!(rows.len(), 36, "{name}");
        for row in rows {
            let [start_s, tasks, work_s, cost_s, expected_s] = row[..] else { panic!("{row:?}") };
            let found_s = Oracle::new(&day, start_s, work_s, cost_s, 1).makespan_s(tasks as u32).expect("it ends");
            assert!((found_s - expected_s).abs() < 1e-3, "{name} {row:?}: {found_s}");
        }
    }
}
