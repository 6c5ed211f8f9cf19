//! A bridge whose other grid fails it: its master is killed and another one takes over, or a result is
//! damaged in its store.

use std::fs;

use serde_json::Value;
use tests::{Grid, Started, eventually};

use super::bridge::{Bridged, HeldTasks, LONG, MASTER, files_named};
use super::pair::Pair;

#[test]
fn a_bridge_follows_another_grid_whose_master_is_taken_over_and_nothing_runs_twice() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let from = Grid::with_master(MASTER);
    let (both, client) = (pair.both(), pair.token("client"));
    let login = ["login", "--master", &both, "--join", &client];
    pair.run("bridge", &[&login[..], &["--name", "bridge"]].concat())
        .expect_code(0);
    let mut command = pair.command("bridge");
    command.args(["bridge", "start", "--slots", "2", "--name", "bridge"]);
    command.args(["--master", from.listen(), "--join", &from.token("worker")]);
    let _bridge = Started::server(&mut command, &pair.log("bridge"));

    let tasks = HeldTasks::submit(&from, pair.dir.path(), 4);
    tasks.until_begun(2);
    pair.kill(0);
    pair.until_active(1);
    tasks.go();
    tasks.expect_once_in(&from, 4);
    let there = pair.run("bridge", &["--output", "json", "job", "list", "--all"]);
    let there = there.expect_code(0).json();
    let jobs = there["jobs"].as_array().expect("jobs");
    assert_eq!(jobs.len(), 4, "a job for each: {there}");

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
