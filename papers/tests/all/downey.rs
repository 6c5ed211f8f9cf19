//! The report on Downey's paper.

use papers::report::downey::{Study, reproduce};

#[test]
fn the_report_has_every_table_and_figure_and_is_the_same_on_any_number_of_threads() {
    let study = |threads| Study {
        runs: 2,
        days: 1,
        ..Study::quick(3, threads)
    };
    let files = reproduce(&study(1), &mut |_| ()).expect("no log is read");
    assert_eq!(
        files,
        reproduce(&study(2), &mut |_| ()).expect("no log is read")
    );

    let report = &files
        .iter()
        .find(|file| file.name == "report.md")
        .expect("a report")
        .text;
    for figure in ["2", "3", "4", "5a", "5b", "6a", "6b"] {
        let name = format!("figure-{figure}.svg");
        assert!(
            report.contains(&format!("({name})")),
            "{name} is not in the report"
        );
        assert!(
            files.iter().any(|file| file.name == name),
            "{name} is not there"
        );
    }

    for words in [
        "Table 1, HEUR: of them lose",
        "Table 2, BIAS, lock-in: turnaround",
        "Figure 5b: slope",
        "PRICED",
    ] {
        assert!(report.contains(words), "{words}: {report}");
    }

    assert!(!report.contains("NaN"), "{report}");
}
