//! The report on Kondo et al.: the same to the byte on any number of threads.

use papers::report::kondo::{Study, reproduce};
use simulator::experiment::JobSize;

#[test]
fn the_report_is_the_same_to_the_byte_on_one_thread_and_on_two() {
    let study = |threads| Study {
        runs: 2,
        side_runs: 1,
        per_day: 1,
        training_days: 1,
        hosts: 24,
        jobs: vec![JobSize {
            tasks: 8,
            work_s: 60.0,
        }],
        ..Study::quick(9, threads)
    };

    let mut said = Vec::new();
    let one = reproduce(&study(1), &mut |what| said.push(what.to_owned())).expect("a report");
    assert_eq!(one, reproduce(&study(2), &mut |_| {}).expect("a report"));
    assert!(said.len() > 3);

    let names: Vec<&str> = one.iter().map(|file| &*file.name).collect();
    let figures =
        (1..=16).flat_map(|n| [format!("figure-{n:02}.svg"), format!("figure-{n:02}.csv")]);
    for name in figures.chain(["report.md", "rows.csv", "summary.csv"].map(str::to_owned)) {
        assert!(names.contains(&&*name), "{name} is missing: {names:?}");
    }
}
