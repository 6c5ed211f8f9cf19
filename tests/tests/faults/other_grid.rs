//! A bridge whose other grid fails it: its master is killed and another one takes over, or takes nothing for a
//! while, or a result is damaged in its store.

use std::fs;

use serde_json::Value;
use tests::{Grid, Replicated, Started, eventually};
use uuid::Uuid;

use super::bridge::{Bridged, HeldTasks, LONG, MASTER, files_named};
use super::pair::Pair;

/// A grid, and a bridge with so many slots from it to the one of these masters.
fn bridge_to(pair: &Pair, slots: &str) -> (Grid, Started) {
    let from = Grid::with_master(MASTER);
    let both = pair.both();
    let client = pair.token("client");
    let login = ["login", "--master", &both, "--join", &client];
    pair.run("bridge", &[&login[..], &["--name", "bridge"]].concat())
        .expect_code(0);

    let mut command = pair.command("bridge");
    command.args(["bridge", "start", "--slots", slots, "--name", "bridge"]);
    command.args(["--master", from.listen(), "--join", &from.token("worker")]);
    let bridge = Started::server(&mut command, &pair.log("bridge"));
    (from, bridge)
}

/// The jobs of the bridge at these masters.
fn jobs_at(pair: &Pair) -> Vec<Value> {
    let there = pair.run("bridge", &["--output", "json", "job", "list", "--all"]);
    let there = there.expect_code(0).json();
    there["jobs"].as_array().expect("jobs").clone()
}

#[test]
fn a_bridge_follows_another_grid_whose_master_is_taken_over_and_nothing_runs_twice() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let (from, _bridge) = bridge_to(&pair, "2");

    let tasks = HeldTasks::submit(&from, pair.dir.path(), 4);
    tasks.until_begun(2);
    pair.kill(0);
    pair.until_active(1);
    tasks.go();
    tasks.expect_once_in(&from, 4);
    let jobs = jobs_at(&pair);
    assert_eq!(jobs.len(), 4, "a job for each: {jobs:?}");

    // None of it has cost a task another attempt.
    let told = from.json(["task", "list", &tasks.job]);
    let listed = told["tasks"].as_array().expect("tasks");
    let attempts = |task: &Value| task["attempts"].as_array().map(Vec::len);
    assert!(
        listed.iter().all(|task| attempts(task) == Some(1)),
        "{told}"
    );
}

#[test]
fn a_cancellation_that_the_other_grid_refuses_for_a_while_is_asked_for_again() {
    let Some(servers) = Replicated::start(true) else {
        super::skip("DESKGRID_TEST_PG_BIN names no PostgreSQL (tests/postgres does)");
        return;
    };
    let mut pair = Pair::on(servers.database());
    pair.begin();
    let (from, _bridge) = bridge_to(&pair, "1");
    let tasks = HeldTasks::submit(&from, pair.dir.path(), 1);
    from.until_it_runs(&format!("{}.1", tasks.job));

    // As long as nobody confirms its commits, the other grid takes nothing.
    servers.follow(false);
    pair.until_refused(&Uuid::from_bytes(rand::random()).to_string());
    from.deskgrid(["job", "cancel", &tasks.job]).expect_code(0);
    eventually("the cancellation is refused", LONG, || {
        let told = pair.said("bridge");
        let refused = told.contains("an attempt does not come on")
            && told.contains("has kept changes waiting for");
        refused.then_some(())
    });

    servers.follow(true);
    pair.until_active(0);
    eventually("it is cancelled there", LONG, || {
        let jobs = jobs_at(&pair);
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        (jobs[0]["state"] == "cancelled").then_some(())
    });
    from.until("its slot is free", &["host", "list"], |told| {
        (told["hosts"][0]["state"] == "ready").then_some(())
    });
}

#[test]
fn a_result_that_is_damaged_in_the_other_grid_is_not_delivered_and_computed_again() {
    let mut bridged = Bridged::start(1, 1);
    let dir = bridged.to.dir().to_owned();
    let script = format!(
        "echo begun >> {0}/begun; until test -e {0}/go; do sleep 0.05; done; seq 50000 > out",
        dir.display()
    );
    let job = bridged
        .from
        .submit(["--output-file", "out", "--", "sh", "-c", &script]);
    let begun = || fs::read_to_string(dir.join("begun")).unwrap_or_default();
    eventually("it has begun", LONG, || (!begun().is_empty()).then_some(()));
    bridged.kill();
    fs::write(dir.join("go"), "").expect("a file can be written");
    bridged.until_there("finished", 1);

    // The other grid has the result, and its disk changes it before the bridge has fetched it.
    let whole: String = (1..=50_000).map(|n| format!("{n}\n")).collect();
    let hash = blake3::hash(whole.as_bytes()).to_string();
    let content = bridged.to.state("admin").join("master/content");
    let stored = content.join(&hash[..2]).join(&hash[2..]);
    let damaged = whole.replacen("25000\n", "25001\n", 1);
    fs::write(&stored, &damaged).expect("the result is there");

    bridged.start_again();
    bridged.wait(&job, 0);
    let fetched = bridged.from.fetch(&job, "results");
    let out = files_named(&fetched, "out");
    assert_eq!(fs::read(&out[0]).expect("it was fetched"), whole.as_bytes());
    assert_eq!(begun(), "begun\nbegun\n", "it was computed again");
    let told = bridged.from.json(["task", "info", &format!("{job}.1")]);
    let first = &told["attempts"][0];
    let why = first["reason"].as_str().unwrap_or_default();
    assert!(why.contains("the other grid says: content"), "{told}");
    assert_eq!(
        bridged.jobs_there().len(),
        2,
        "another attempt is another job"
    );
}
