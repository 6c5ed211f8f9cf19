//! The report on Gainaru et al.: what must hold of it however few runs it has.

use papers::report::File;
use papers::report::gainaru::{Study, reproduce};

fn report(threads: usize) -> Vec<File> {
    let study = Study {
        runs: 1,
        ..Study::quick(7, threads)
    };
    reproduce(&study, &mut |_| {}).expect("a report without a log needs nothing")
}

#[test]
fn the_report_has_every_figure_and_is_the_same_on_any_number_of_threads() {
    let files = report(1);
    for number in [
        "2-utilisation",
        "2-response",
        "3",
        "4-utilisation",
        "5-response",
        "6-utilisation",
        "7",
        "8-response",
    ] {
        for ending in ["svg", "csv"] {
            let name = format!("figure-{number}.{ending}");
            let file = files
                .iter()
                .find(|file| file.name == name)
                .unwrap_or_else(|| panic!("no {name}"));
            assert!(
                file.text.lines().count() > 4 && !file.text.contains("NaN"),
                "{name}: {}",
                file.text
            );
        }
    }

    let text = &files
        .iter()
        .find(|file| file.name == "report.md")
        .expect("a report")
        .text;
    assert!(!text.contains("NaN"), "{text}");
    assert!(
        text.contains("| 5 of 5 to the printed digits | reproduced |"),
        "{text}"
    );
    assert!(
        text.contains("10.8000, 13.4000, 15.4000, 17.1000, 18.7000, 20.0000 | 11.9375 |"),
        "{text}"
    );
    assert!(text.contains("no log was given"), "{text}");

    let scenarios = text.split("## Scenario 1").nth(1).expect("a section");
    let scenarios = scenarios.split("## Owners' absences").next();
    assert!(
        scenarios.is_some_and(|told| !told.contains('±'))
            && text.contains("| PRI-CR | no | 1.000 |"),
        "one run has no interval: {text}"
    );
    assert_eq!(files, report(3));
}
