//! The owner comes back: tasks freeze, are copied where that helps, and go on where they were.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tests::{Grid, alive_with, eventually};

use super::{attempts, job};

/// The switch with which an owner pauses a worker.
fn switch(grid: &Grid, worker: &str) -> PathBuf {
    grid.state(worker).join("worker").join("pause")
}

fn counts(grid: &Grid, state: &'static str, number: u64) {
    grid.until(&format!("{number} {state}"), &["job", "info", "last"], |j| {
        (j["tasks"][state].as_u64() == Some(number)).then_some(())
    });
}

/// The letter that the system shows as the state of the process whose command line has `mark`.
fn state_of(mark: &str) -> Option<char> {
    let (pid, _) = alive_with(mark).into_iter().find(|(_, line)| line.starts_with("sleep"))?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn a_paused_host_freezes_its_task_and_goes_on_later() {
    let mut grid = Grid::start();
    grid.worker("h1").start();
    let sleep = format!("3.{:09}", rand::random::<u32>() % 1_000_000_000);
    grid.submit(["--policy", "FCFS", "--", "sleep", &sleep]);
    counts(&grid, "running", 1);
    fs::write(switch(&grid, "h1"), "").expect("a file can be written");
    counts(&grid, "suspended", 1);
    eventually("the process is stopped", Duration::from_secs(5), || (state_of(&sleep) == Some('T')).then_some(()));
    let host = &grid.json(["host", "info", "h1"]);
    assert_eq!((&host["state"], &host["reason"]), (&"suspended".into(), &"paused-by-owner".into()));

    fs::remove_file(switch(&grid, "h1")).expect("is there");
    grid.deskgrid(["job", "wait", "last", "--timeout", "30s"]).expect_code(0);
    let tries = attempts(&grid, "1.1");
    assert_eq!(tries.len(), 1, "suspended is not lost: {tries:?}");
    assert!(tries[0]["suspended_s"].as_f64() > Some(0.0), "{tries:?}");
}

#[test]
fn a_frozen_task_is_copied_to_a_host_that_would_idle() {
    let mut grid = Grid::start();
    grid.worker("mine").start();
    grid.submit(["--", "sh", "-c", "test $DESKGRID_HOST = other || sleep 600; echo $DESKGRID_HOST"]);
    counts(&grid, "running", 1);
    grid.worker("other").start();
    fs::write(switch(&grid, "mine"), "").expect("a file can be written");
    grid.deskgrid(["job", "wait", "last", "--timeout", "30s"]).expect_code(0);
    assert_eq!(grid.deskgrid(["job", "cat", "last", "stdout"]).expect_code(0).stdout, "other\n");
    let tries = attempts(&grid, "1.1");
    assert_eq!((tries.len(), &tries[1]["duplicate"]), (2, &true.into()), "{tries:?}");
    assert!(tries[1]["reason"].as_str().is_some_and(|r| r.contains("paused-by-owner")), "says why: {tries:?}");
    assert_eq!(job(&grid, "last")["duplicates"], 1);
}
