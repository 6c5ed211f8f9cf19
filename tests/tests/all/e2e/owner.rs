//! The owner comes back: tasks freeze, are copied where that helps, and go on where they were.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tests::{Grid, alive_with, eventually};

use super::{all_gone, attempts, job, long_sleep, running};

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
    // Of a process that sleeps anyway, only a signal's stop can be seen from here.
    grid.worker("h1").config("freezer = \"signals\"").start();
    let sleep = format!("3.{:09}", rand::random::<u32>() % 1_000_000_000);
    grid.submit(["--policy", "FCFS", "--", "sleep", &sleep]);
    counts(&grid, "running", 1);
    fs::write(switch(&grid, "h1"), "").expect("a file can be written");
    counts(&grid, "suspended", 1);
    eventually("the process is stopped", Duration::from_secs(5), || (state_of(&sleep) == Some('T')).then_some(()));
    let frozen = attempts(&grid, "1.1");
    assert_eq!(
        (&frozen[0]["state"], &frozen[0]["reason"]),
        (&"suspended".into(), &"first attempt; paused-by-owner".into())
    );
    assert!(frozen[0]["suspended_since"].is_string(), "{frozen:?}");
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

#[test]
fn a_copy_that_is_outrun_is_stopped_at_once_and_a_lost_stop_is_made_up_for() {
    // No heartbeat comes to the help within the test.
    let mut grid = Grid::with_master("heartbeat = \"1h\"\nsuspect_after = \"2h\"\nlease = \"3h\"\n");
    let (sleep, go) = (long_sleep(), grid.dir().join("go"));
    grid.worker("mine").start();
    let script =
        format!("test $DESKGRID_HOST = other || sleep {sleep}; while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let job = grid.submit(["--policy", "deskgrid", "--", "sh", "-c", &script]);
    running(&format!("sleep {sleep}"));
    counts(&grid, "running", 1);
    grid.worker("other").start();
    fs::write(switch(&grid, "mine"), "").expect("a file can be written");
    let task = format!("{job}.1");
    eventually("a copy is started", Duration::from_secs(30), || (attempts(&grid, &task).len() == 2).then_some(()));
    let explained = grid.json(["job", "explain", &job]);
    let copy = &explained["duplicates"][0];
    assert_eq!((&copy["attempt"], &copy["host"]), (&format!("{task}#2").into(), &"other".into()), "{explained}");
    assert!(copy["reason"].as_str().is_some_and(|why| why.contains("duplicate of attempt 1")), "{explained}");
    fs::remove_file(switch(&grid, "mine")).expect("it is there");
    counts(&grid, "suspended", 0);
    fs::write(&go, "").expect("a file can be written");
    grid.deskgrid(["job", "wait", &job, "--timeout", "60s"]).expect_code(0);
    all_gone(&format!("sleep {sleep}"), Duration::from_secs(30));

    // The master that knew of the stop is gone before it could be heard: the worker's hello is answered with it.
    let sleep = long_sleep();
    let job = grid.submit(["--", "sleep", &sleep]);
    running(&format!("sleep {sleep}"));
    let host = attempts(&grid, &format!("{job}.1"))[0]["host"].as_str().expect("a host").to_owned();
    grid.running(&host).signal(Signal::STOP);
    grid.deskgrid(["job", "cancel", &job]).expect_code(0);
    grid.kill_master();
    grid.start_master();
    grid.running(&host).signal(Signal::CONT);
    all_gone(&format!("sleep {sleep}"), Duration::from_secs(60));
}
