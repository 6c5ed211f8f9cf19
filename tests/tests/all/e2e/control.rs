//! The owner looks and says no, on the machine itself, whatever the master does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;
use tests::{Grid, eventually};

use super::{long_sleep, running};

const PATIENCE: Duration = Duration::from_secs(30);

/// What the worker's own machine is told of it.
#[track_caller]
fn told(grid: &Grid, args: &[&str]) -> Value {
    let command = [&["--output", "json", "worker"], args].concat();
    grid.as_user("h1", command).expect_code(0).json()
}

/// The same of a worker that was started a moment ago.
fn told_soon(grid: &Grid) -> Value {
    eventually("a new worker answers", PATIENCE, || {
        let said = grid.as_user("h1", ["--output", "json", "worker", "status"]);
        (said.code == 0).then(|| said.json())
    })
}

/// The phase of the only attempt that the worker holds.
fn phase(grid: &Grid) -> Option<String> {
    let status = told(grid, &["status"]);
    let held = status["attempts"]
        .as_array()
        .filter(|held| held.len() == 1)?;
    held[0]["phase"].as_str().map(str::to_owned)
}

fn until_phase(grid: &Grid, phase_wanted: &str) {
    eventually(&format!("the attempt is {phase_wanted}"), PATIENCE, || {
        (phase(grid).as_deref() == Some(phase_wanted)).then_some(())
    });
}

#[test]
fn the_owner_looks_pauses_and_resumes_while_the_master_is_away() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();

    let sleep = long_sleep();
    grid.submit(["--", "sleep", &sleep]);
    running(&format!("sleep {sleep}"));
    until_phase(&grid, "running");

    let status = told(&grid, &["status"]);
    assert_eq!(
        (&status["schema"], &status["host"], &status["connected"]),
        (&1.into(), &"h1".into(), &true.into())
    );
    assert_eq!(
        (&status["decision"], &status["reason"], &status["slots"]),
        (&"run".into(), &Value::Null, &2.into())
    );
    assert_eq!(status["sensors"][0]["sees"], "not paused");

    let socket = grid.state("h1").join("worker").join("control");
    let mode = fs::metadata(&socket)
        .expect("is there")
        .permissions()
        .mode();
    assert_eq!(
        mode & 0o777,
        0o600,
        "nobody but the worker's own account may ask"
    );

    grid.kill_master();
    let paused = told(&grid, &["pause"]);
    assert_eq!(
        (&paused["paused"], &paused["decision"]),
        (&true.into(), &"freeze".into()),
        "{paused}"
    );

    let status = told(&grid, &["status"]);
    assert_eq!(
        (&status["reason"], &status["slots_usable"]),
        (&"paused-by-owner".into(), &0.into())
    );

    let attempt = &status["attempts"][0];
    assert_eq!(
        (&attempt["phase"], &attempt["reason"]),
        (&"suspended".into(), &"paused-by-owner".into())
    );

    let why = grid
        .as_user("h1", ["worker", "status", "--why"])
        .expect_code(0)
        .stdout;
    for part in [
        "suspended: paused-by-owner",
        "connected for",
        "`deskgrid worker resume` ends",
        "pause file",
        "confinement",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }

    let resumed = told(&grid, &["resume"]);
    assert_eq!(
        (&resumed["paused"], &resumed["decision"]),
        (&false.into(), &"run".into()),
        "{resumed}"
    );
    assert_eq!(phase(&grid).as_deref(), Some("running"));

    let said = |verb| grid.as_user("h1", ["worker", verb]).expect_code(0).stdout;
    assert_eq!(said("resume"), "nothing was paused\n");
    assert!(said("pause").starts_with("paused"));
    assert_eq!(said("resume"), "resumed\n");
}

#[test]
fn the_status_tells_of_the_masters_silence_before_it_counts_as_its_end() {
    let mut grid = Grid::with_worker();
    eventually("the worker knows that it has joined", PATIENCE, || {
        (told(&grid, &["status"])["connected"] == true).then_some(())
    });

    grid.kill_master();
    eventually("the status tells of a silence", PATIENCE, || {
        let status = told(&grid, &["status"]);
        assert_eq!(
            status["connected"], true,
            "nothing was told before: {status}"
        );
        (status["silent_for_s"].as_f64()? >= 1.0).then_some(())
    });
    eventually("the silence counts as the master's end", PATIENCE, || {
        (told(&grid, &["status"])["connected"] == false).then_some(())
    });
}

#[test]
fn a_pause_for_a_while_ends_by_itself() {
    let grid = Grid::with_worker();

    let sleep = long_sleep();
    grid.submit(["--", "sleep", &sleep]);
    until_phase(&grid, "running");

    let paused = told(&grid, &["pause", "--for", "2s"]);
    assert!(
        paused["until"]
            .as_str()
            .is_some_and(|until| until.ends_with('Z')),
        "{paused}"
    );

    assert_eq!(paused["decision"], "freeze", "{paused}");
    until_phase(&grid, "running");
    assert_eq!(told(&grid, &["status"])["decision"], "run");

    // A later word replaces the one before; one that says nothing does not.
    told(&grid, &["pause", "--for", "1h"]);
    let none = grid.as_user("h1", ["worker", "pause", "--for", "0s"]);
    let refused = none.expect_code(2).stderr;
    assert!(refused.contains("pauses nothing"), "{refused}");
    assert_eq!(told(&grid, &["status"])["reason"], "paused-by-owner");
    told(&grid, &["pause"]);

    let says = told(&grid, &["status"])["why"][0]["says"].clone();
    assert!(
        says.as_str().is_some_and(|says| !says.contains("until")),
        "{says}"
    );
}

#[test]
fn a_pause_survives_the_worker_and_can_be_made_without_one() {
    let mut grid = Grid::with_worker();
    told(&grid, &["pause", "--for", "1h"]);
    grid.kill_worker("h1");

    let gone = grid.as_user("h1", ["worker", "status"]).expect_code(1);
    assert!(
        gone.stderr.contains("no worker runs in") && gone.stderr.contains("paused by"),
        "{}",
        gone.stderr
    );
    grid.worker("h1").start();

    let status = told_soon(&grid);
    assert_eq!(
        (&status["decision"], &status["reason"]),
        (&"freeze".into(), &"paused-by-owner".into())
    );
    grid.until("the master knows", &["host", "info", "h1"], |host| {
        (host["reason"] == "paused-by-owner").then_some(())
    });
    grid.kill_worker("h1");

    let resumed = told(&grid, &["resume"]);
    assert_eq!(
        (&resumed["running"], &resumed["paused"]),
        (&false.into(), &false.into())
    );

    let paused = grid
        .as_user("h1", ["worker", "pause"])
        .expect_code(0)
        .stdout;
    assert!(
        paused.contains("no worker runs in") && paused.contains("is paused from its start"),
        "{paused}"
    );
    grid.worker("h1").start();
    assert_eq!(told_soon(&grid)["reason"], "paused-by-owner");

    let nobody = grid.as_user("nobody", ["worker", "pause"]).expect_code(1);
    assert!(
        nobody.stderr.contains("error: ") && nobody.stderr.contains("because: "),
        "{}",
        nobody.stderr
    );
}

#[test]
fn a_switch_of_the_owners_choice_pauses_too_and_resume_says_so() {
    let mut grid = Grid::start();
    let switch = grid.dir().join("office-is-open");
    let quiet = ["input", "load", "memory", "battery", "programs"]
        .map(|rule| format!("[owner.{rule}]\nheed = false\n"));
    let config = format!(
        "[owner]\nfirst_watch = \"0s\"\npause_files = [{switch:?}]\n{}",
        quiet.concat()
    );
    grid.worker("h1").config(&config).start();
    assert_eq!(told(&grid, &["status"])["decision"], "run");

    fs::write(&switch, "").expect("a file can be written");
    let paused = || (told(&grid, &["status"])["reason"] == "paused-by-owner").then_some(());
    eventually("the switch is seen", PATIENCE, paused);

    let resumed = told(&grid, &["resume"]);
    assert_eq!(resumed["paused"], true, "{resumed}");
    assert!(
        resumed["says"]
            .as_str()
            .is_some_and(|says| says.contains("office-is-open")),
        "{resumed}"
    );

    fs::remove_file(&switch).expect("is there");
    eventually("it is gone", PATIENCE, || {
        (told(&grid, &["status"])["decision"] == "run").then_some(())
    });
}
