//! Bytes that change on a disk between two looks: at a worker's cache, in its spool, at the master.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::{Grid, eventually};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The files of this content below a directory, save those of attempts that run and those that are
/// still being copied in: what is changed there is not in the store yet.
fn files_of(dir: &Path, content: &[u8]) -> Vec<PathBuf> {
    let files = walkdir::WalkDir::new(dir)
        .into_iter()
        .filter_entry(|entry| entry.file_name() != "incoming")
        .flatten()
        .filter(|entry| entry.file_type().is_file());
    let whole = |path: &PathBuf| std::fs::read(path).is_ok_and(|found| found == content);
    files
        .map(walkdir::DirEntry::into_path)
        .filter(whole)
        .collect()
}

/// Changes one byte of each of these, and leaves their sizes.
fn damage(files: &[PathBuf]) {
    assert!(!files.is_empty(), "there is nothing to damage");
    for path in files {
        let mut bytes = std::fs::read(path).expect("it was there a moment ago");
        bytes[0] ^= 1;
        std::fs::write(path, bytes).expect("writes");
    }
}

#[test]
fn an_input_that_was_damaged_in_a_workers_cache_is_fetched_again_and_not_computed_on() {
    let grid = Grid::with_worker();
    grid.file("in.txt", "what the user sent");

    let computed = |grid: &Grid| {
        let job = grid.submit(["--input", "in.txt", "--wait", "--", "cat", "in.txt"]);
        grid.text(["job", "cat", &job, "stdout"])
    };
    assert_eq!(computed(&grid).trim(), "what the user sent");
    damage(&files_of(&grid.state("h1"), b"what the user sent"));
    assert_eq!(computed(&grid).trim(), "what the user sent");
    assert_eq!(
        files_of(&grid.state("h1"), b"what the user sent").len(),
        1,
        "it is in the cache again"
    );
}

#[test]
fn a_result_that_was_damaged_in_a_workers_spool_is_given_up_with_its_reason_and_computed_again() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();

    let go = grid.dir().join("go");
    let command = format!(
        "while ! test -e {}; do sleep 0.05; done; head -c 100000 /dev/zero | tr '\\0' x",
        go.display()
    );
    let bag = grid.submit(["--", "sh", "-c", &command]);
    grid.until_it_runs(&format!("{bag}.1"));
    grid.kill_master();
    std::fs::write(&go, "").expect("the grid's directory can be written");

    let result = vec![b'x'; 100_000];
    let spool = grid.state("h1");
    let spooled = eventually("the result is in the spool", PATIENCE, || {
        let here: Vec<_> = files_of(&spool, &result)
            .into_iter()
            .filter(|path| !path.ends_with("out"))
            .collect();
        here.iter()
            .any(|path| path.to_string_lossy().contains("spool"))
            .then_some(here)
    });
    damage(&spooled);
    grid.start_master();
    grid.wait(&bag);

    let attempts = grid.json(["task", "info", &format!("{bag}.1")])["attempts"].clone();
    let first = attempts[0].to_string();
    assert!(
        first.contains("lost on its host")
            && first.contains("standard output in the worker's spool"),
        "{first}"
    );
    assert_eq!(attempts[1]["state"], "finished", "{attempts}");
    assert_eq!(
        grid.text(["job", "cat", &bag, "stdout"]).trim().len(),
        100_000
    );
}

#[test]
fn a_result_that_was_damaged_at_the_master_is_told_of_and_can_be_computed_again() {
    let grid = Grid::with_worker();

    let bag = grid.submit([
        "--output-file",
        "out",
        "--wait",
        "--",
        "sh",
        "-c",
        "head -c 100000 /dev/zero > out",
    ]);

    damage(&files_of(
        &grid.state("admin").join("master/content"),
        &vec![0; 100_000],
    ));

    let into = grid.dir().join("back");
    let fetch = || {
        grid.deskgrid([
            "job",
            "fetch",
            &bag,
            "--into",
            into.to_str().expect("UTF-8"),
        ])
    };
    let told = fetch().expect_code(1).stderr;
    assert!(
        told.contains("job retry") && told.contains("--damaged"),
        "{told}"
    );
    grid.deskgrid(["job", "retry", &bag, "--damaged"])
        .expect_code(0);
    grid.wait(&bag);

    fetch().expect_code(0);
    assert!(
        std::fs::read(into.join("out"))
            .expect("is back")
            .iter()
            .all(|byte| *byte == 0)
    );
}
