//! The catalogue is the one list of policies, and the worked example of an answer in
//! CONTRIBUTING.md is the answer that is built.

use std::collections::BTreeSet;

use common::job::DEFAULT_POLICY;

use super::{files, text};

/// The rooms of the product. The papers' reports have the papers' own tables of heuristics.
const PRODUCT: [&str; 7] = [
    "common",
    "scheduler",
    "simulator",
    "link",
    "master",
    "worker",
    "cli",
];

/// The place of the list.
const CATALOGUE: &str = "scheduler/src/policy/catalogue.rs";

/// The names of policies on a line of code.
fn named<'a>(line: &'a str, known: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.'))
        .filter(|word| known.contains(word))
        .collect()
}

#[test]
fn no_line_of_code_lists_policies_beside_the_catalogue() {
    let known: BTreeSet<&str> = scheduler::catalogue()
        .iter()
        .map(|row| row.name)
        .filter(|name| *name != DEFAULT_POLICY)
        .collect();
    assert_eq!(named("of FCFS, PRI-CR and PRI", &known).len(), 2);

    for room in PRODUCT {
        for file in files(&format!("{room}/src"), "rs") {
            let path = file.to_string_lossy();
            if path.ends_with(CATALOGUE) || path.contains("tests") {
                continue;
            }

            let whole = text(&file);
            let code = whole.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = (1..).zip(code.lines());
            for (number, line) in lines.filter(|(_, line)| !line.trim_start().starts_with("//")) {
                let names = named(line, &known);
                assert!(
                    names.len() < 3,
                    "{path}:{number} lists {names:?}: take them from the catalogue"
                );
            }
        }
    }
}

#[test]
fn the_worked_example_of_an_answer_equals_the_built_one() {
    let answer = text("scheduler/src/policy/placement/excl_s.rs");
    let recipes = text("CONTRIBUTING.md");
    assert!(
        recipes.contains(&format!("```rust\n{answer}```")),
        "the worked example in CONTRIBUTING.md is not the file any more"
    );
}
