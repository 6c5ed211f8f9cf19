//! The shell blocks of the pages that are marked to run (the words `sh run` behind the backticks):
//! each page's in their order, in a directory of their own, as the admin of a grid with a worker.
//! README.md has a stricter test of its own, the pages on Python have theirs in Python.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::{Grid, Started, program};

/// The line that opens a block to run.
const MARK: &str = "```sh run";

/// The files that the blocks of pages speak of.
const FILES: [(&str, &str); 8] = [
    ("sim", "#!/bin/sh\necho \"$1\"\n"),
    ("simulate", "#!/bin/sh\necho \"$1\"\n"),
    ("explore", "#!/bin/sh\necho \"$1\"\n"),
    ("summarise", "#!/bin/sh\n"),
    ("first.txt", "one\ntwo\n"),
    ("more.txt", "three\n"),
    ("past-runs.txt", "10\n11\n12\n14\n18\n"),
    (
        "machine.json",
        r#"{"jobs": [[600, 8], [3600, 4]], "free": 2, "need": 6, "L": 20000, "A": 12, "sigma": 0.5, "behind": 3}"#,
    ),
];

/// The replacements for words of the blocks, so that they are cheap: the pages' jobs are larger than
/// a test needs.
const REPLACED: [(&str, &str); 2] = [("--array 1-100 ", "--array 1-4 "), ("1-50 ", "1-6 ")];

/// The blocks of a page that are marked, each with the number of its first line.
fn marked(page: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(page.lines()) {
        if line.starts_with("```") {
            open = line == MARK;
            if open {
                blocks.push((number + 1, String::new()));
            }
        } else if let Some((_, text)) = blocks.last_mut().filter(|_| open) {
            text.push_str(line);
            text.push('\n');
        }
    }
    blocks
}

/// The pages with blocks to run.
fn pages() -> Vec<(PathBuf, Vec<(usize, String)>)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let mut paths: Vec<PathBuf> = fs::read_dir(docs)
        .expect("docs/ can be read")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == "md"))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a page can be read");
        (path, marked(&text))
    };
    let read = paths.into_iter().map(read);
    read.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

#[test]
fn the_marked_blocks_of_the_pages_work_word_by_word_in_their_order() {
    let pages = pages();
    assert!(pages.len() > 5, "blocks of {} pages only", pages.len());

    let mut grid = Grid::start();
    grid.worker("desk").slots(16).start();
    let ours = program("deskgrid");
    let usual = std::env::var("PATH").expect("a PATH");
    let path = format!("{}:{usual}", ours.parent().expect("a directory").display());

    for (page, blocks) in pages {
        let name = page.file_stem().expect("a name").to_string_lossy();
        for (file, text) in FILES {
            let path = grid.file(&format!("{name}/{file}"), text);
            let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode can be set");
        }

        for (line, block) in blocks {
            let replace = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
            let block = REPLACED.iter().fold(block, replace);
            let mut shell = Command::new("sh");
            shell
                .args(["-e", "-c", &block])
                .current_dir(grid.dir().join(&*name))
                .env("PATH", &path)
                .env("DESKGRID_DIR", grid.state("admin"));
            let ended = Started::new(&mut shell).finish();
            assert_eq!(ended.code, 0, "docs/{name}.md:{line}: {ended:?}");
        }
    }
}

#[test]
fn only_blocks_with_the_mark_are_run() {
    let page = "```sh\nno\n```\n```sh run\nyes\nand this\n```\n```\nnor this\n```\n";
    assert_eq!(marked(page), [(5, "yes\nand this\n".to_owned())]);
}
