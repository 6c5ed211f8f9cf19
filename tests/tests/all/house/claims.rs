//! What the documentation says of "never" and "always": each such paragraph, list entry or table
//! row names the tests that hold it, in a comment that readers do not see: `<!-- held by:
//! name_of_a_test, name_of_another -->`.

use std::collections::BTreeSet;

use super::{ROOMS, files, text};

/// Words that claim something of all times.
const WORDS: [&str; 2] = ["never", "always"];

/// Where a block of tests is named.
const MARK: &str = "<!-- held by:";

/// A paragraph, list entry, table row or heading, with the number of its first line.
type Block = (usize, String);

/// The documents whose claims count.
fn documents() -> Vec<std::path::PathBuf> {
    let top = ["README.md", "SECURITY.md", "ARCHITECTURE.md"].map(std::path::PathBuf::from);
    top.into_iter().chain(files("docs", "md")).collect()
}

/// The blocks of a document, without fenced code.
fn blocks(document: &str) -> Vec<Block> {
    let (mut all, mut fenced): (Vec<Block>, bool) = (Vec::new(), false);
    let mut open = false;
    for (number, line) in (1..).zip(document.lines()) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            fenced = !fenced;
            open = false;
        } else if fenced || trimmed.is_empty() {
            open = false;
        } else {
            let entry = trimmed.split_once(' ').is_some_and(|(mark, _)| {
                matches!(mark, "-" | "*")
                    || mark
                        .strip_suffix('.')
                        .is_some_and(|n| n.parse::<u32>().is_ok())
            });
            if !open || entry || trimmed.starts_with('|') || trimmed.starts_with('#') {
                all.push((number, String::new()));
            }

            open = !trimmed.starts_with('#');
            let (_, block) = all.last_mut().expect("pushed");
            block.push_str(trimmed);
            block.push('\n');
        }
    }

    all
}

/// Whether a block claims something: code spans and comments do not.
fn claims(block: &str) -> bool {
    let prose: String = block.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let prose = prose.split(MARK).next().unwrap_or_default().to_lowercase();
    prose
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| WORDS.contains(&word))
}

/// The tests that a block names.
fn holders(block: &str) -> Vec<&str> {
    let named = block
        .split(MARK)
        .skip(1)
        .filter_map(|rest| rest.split_once("-->"));
    named
        .flat_map(|(names, _)| names.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect()
}

/// The names of the tests of the Python library.
fn python_tests() -> impl Iterator<Item = String> {
    let name = |line: &str| {
        let name = line.strip_prefix("def ")?.split_once('(')?.0;
        name.starts_with("test_").then(|| name.to_owned())
    };
    let files = files("python/tests", "py").into_iter();
    files.flat_map(move |path| text(path).lines().filter_map(name).collect::<Vec<_>>())
}

/// The names of all tests in the rooms, and of those in Python.
fn tests() -> BTreeSet<String> {
    let mut all: BTreeSet<String> = python_tests().collect();
    for path in ROOMS.iter().flat_map(|room| files(room, "rs")) {
        let source = text(path);
        let mut marked = false;
        for line in source.lines().map(str::trim) {
            if line.starts_with("#[") {
                marked |= line.contains("test]") || line.contains("test(");
            } else if let Some((before, rest)) = line.split_once("fn ") {
                if marked
                    && before
                        .split_whitespace()
                        .all(|word| matches!(word, "async" | "pub"))
                {
                    all.extend(rest.split_once('(').map(|(name, _)| name.to_owned()));
                }
                marked = false;
            } else if !line.is_empty() && !line.starts_with("//") {
                marked = false;
            }
        }
    }

    all
}

#[test]
fn statements_with_never_or_always_are_held_by_an_existing_test() {
    let tests = tests();
    assert!(tests.len() > 100, "only {} tests found", tests.len());

    let mut wrong = Vec::new();
    for path in documents() {
        for (line, block) in blocks(&text(&path)) {
            let place = format!("{}:{line}", path.display());
            let holders = holders(&block);
            if claims(&block) && holders.is_empty() {
                wrong.push(format!("{place}: no test is named; add {MARK} NAME -->"));
            }
            let missing = holders.iter().filter(|name| !tests.contains(**name));
            wrong.extend(missing.map(|name| format!("{place}: there is no test `{name}`")));
        }
    }

    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The sections of README.md that claim nothing themselves: they point to other pages.
const POINTERS: &str = "## Where to go on";

/// The paragraphs of README.md that no test holds, by their beginnings, each with the reason.
const NOT_HELD: [(&str, &str); 3] = [
    (
        "This is the first version.",
        "says for which systems there are programs",
    ),
    ("You need Rust", "the build of the tests needs the same"),
    ("To pass all tests", "that is what runs here"),
];

/// The paragraphs of README.md that claim something.
fn paragraphs_of_the_readme(readme: &str) -> Vec<Block> {
    let all = blocks(readme).into_iter();
    let all = all.filter(|(_, block)| !block.starts_with("# "));
    let claiming = all.take_while(|(_, block)| !block.starts_with(POINTERS));
    claiming
        .filter(|(_, block)| !block.starts_with('#'))
        .collect()
}

#[test]
fn each_paragraph_of_the_readme_is_held_by_a_test_or_listed_with_a_reason() {
    let readme = text("README.md");
    assert!(readme.contains(POINTERS));
    let paragraphs = paragraphs_of_the_readme(&readme);
    assert!(paragraphs.len() > 12, "{paragraphs:?}");

    let listed = |block: &str| NOT_HELD.iter().any(|(start, _)| block.starts_with(start));
    let open = paragraphs
        .iter()
        .filter(|(_, block)| holders(block).is_empty() && !listed(block));
    let open: Vec<String> = open
        .map(|(line, block)| format!("README.md:{line}: {block}"))
        .collect();
    assert!(open.is_empty(), "no test is named by\n{}", open.join("\n"));

    for (start, why) in NOT_HELD {
        let there = paragraphs.iter().any(|(_, block)| block.starts_with(start));
        assert!(there, "not in README.md any more ({why}): {start}");
    }
}

#[test]
fn a_paragraph_of_the_readme_without_a_test_is_found() {
    let text = "# Name\n\nIt flies.\n<!-- held by: a -->\n\n## Use\n\nIt swims.\n\n```sh\nrun\n```\n\n## Where to go on\n\nElsewhere.\n";
    let found: Vec<(usize, usize)> = paragraphs_of_the_readme(text)
        .iter()
        .map(|(line, block)| (*line, holders(block).len()))
        .collect();
    assert_eq!(found, [(3, 1), (8, 0)]);
}

#[test]
fn claims_are_told_from_code_and_tests_from_functions() {
    let text = "# Always here\n\nPlain.\n- It never\n  ends. <!-- held by: a, b -->\n- `never`\n\n```\nnever\n```\n| x | always |\n";
    let found: Vec<(usize, bool, usize)> = blocks(text)
        .iter()
        .map(|(line, block)| (*line, claims(block), holders(block).len()))
        .collect();
    assert_eq!(
        found,
        [
            (1, true, 0),
            (3, false, 0),
            (4, true, 2),
            (6, false, 0),
            (11, true, 0)
        ]
    );

    let tests = tests();
    assert!(
        tests.contains("claims_are_told_from_code_and_tests_from_functions")
            && !tests.contains("holders")
    );
}
