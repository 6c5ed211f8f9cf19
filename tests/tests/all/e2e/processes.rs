//! Whole process trees end, whatever they try.

use std::time::Duration;

use tests::Grid;

use super::{all_gone, long_sleep, running};

/// A script whose grandchild is in a session of its own and, like itself, ignores SIGTERM.
fn stubborn(sleep: &str) -> String {
    format!(
        "trap '' TERM; setsid sh -c \"trap '' TERM; sleep {sleep}; sleep {sleep}\" & sleep {sleep}; sleep {sleep}"
    )
}

#[test]
fn cancelling_kills_the_whole_tree_of_a_task() {
    let grid = Grid::with_worker();
    let sleep = long_sleep();
    let bag = grid.submit(["--", "sh", "-c", &stubborn(&sleep)]);
    running(&format!("sleep {sleep}"));
    grid.deskgrid(["job", "cancel", &bag]).expect_code(0);
    all_gone(&format!("sleep {sleep}"), Duration::from_secs(30));
    assert_eq!(grid.job(&bag)["state"], "cancelled");
}

#[test]
fn a_time_limit_kills_the_whole_tree_of_a_task() {
    let grid = Grid::with_worker();

    let sleep = long_sleep();
    let script = format!("echo before; {}", stubborn(&sleep));
    grid.deskgrid([
        "submit",
        "--timeout",
        "1s",
        "--wait",
        "--",
        "sh",
        "-c",
        &script,
    ])
    .expect_code(3);

    all_gone(&format!("sleep {sleep}"), Duration::from_secs(30));
    let tries = grid.attempts("1.1");
    assert!(
        tries[0]["reason"]
            .as_str()
            .is_some_and(|r| r.contains("limit")),
        "{tries:?}"
    );

    assert_eq!(grid.text(["job", "cat", "1", "stdout"]), "before\n");
}

#[test]
fn processes_left_by_a_task_are_killed_at_its_end() {
    let grid = Grid::with_worker();
    let sleep = long_sleep();
    let bag = grid.submit([
        "--wait",
        "--",
        "sh",
        "-c",
        &format!("setsid sleep {sleep} > /dev/null 2>&1 & echo started"),
    ]);
    all_gone(&format!("sleep {sleep}"), Duration::from_secs(30));
    assert_eq!(grid.job(&bag)["state"], "finished");
}

#[test]
fn a_flood_on_standard_output_is_bounded_and_the_task_still_ends() {
    let grid = Grid::with_worker();
    let bag = grid.submit(["--wait", "--", "sh", "-c", "head -c 200000000 /dev/zero"]);
    assert_eq!(grid.job(&bag)["state"], "finished");
    let disk: u64 = walkdir::WalkDir::new(grid.dir())
        .into_iter()
        .flatten()
        .filter_map(|e| e.metadata().ok())
        .map(|m| m.len())
        .sum();
    assert!(disk < 150_000_000, "{disk} bytes are kept");
}

#[test]
fn a_worker_that_is_asked_to_end_leaves_nothing_behind() {
    let mut grid = Grid::with_worker();
    let sleep = long_sleep();
    grid.submit(["--", "sleep", &sleep]);
    running(&format!("sleep {sleep}"));
    grid.running("h1").terminate();
    all_gone(&format!("sleep {sleep}"), Duration::from_secs(30));
    let mut worker = std::iter::repeat_with(|| grid.running("h1").ended());
    tests::eventually("the worker ends", Duration::from_secs(20), || {
        worker.next().flatten()
    });
}
