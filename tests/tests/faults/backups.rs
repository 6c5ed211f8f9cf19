//! A grid on PostgreSQL is backed up and checked while its masters run, and comes back from the backup in
//! a file and in another database. They need a PostgreSQL (`tests/postgres cargo nextest run -p tests
//! --test faults backups`), and pass without one.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tests::{Started, eventually};

use super::pair::{LONG, Pair};

/// The tasks of the bag.
const TASKS: u64 = 30;

/// The words that say where the store and content of the pair are.
fn places(pair: &Pair) -> [String; 4] {
    let master = &pair.masters[0];
    ["--store", &master.store, "--content", &master.content].map(str::to_owned)
}

/// Runs `master WHAT` on the directory of this master, with the words for the places of store and content.
fn master(pair: &Pair, who: &str, what: &str, more: &[&str]) -> tests::Output {
    let places = places(pair);
    let mut words = vec!["--output", "json", "master", what];
    words.extend(places.iter().map(String::as_str));
    words.extend(more);
    pair.run(who, &words)
}

/// Each task of the bag has left its number, once.
fn expect_each_result_once(pair: &Pair, bag: &str) {
    pair.wait(bag);
    let said = pair.run("user", &["job", "cat", bag, "stdout"]);
    let said = said.expect_code(0).stdout;
    let mut numbers: Vec<u64> = said
        .lines()
        .map(|line| line.trim().parse().expect("a number"))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=TASKS).collect::<Vec<_>>());
}

/// Runs a job that leaves the file `out` by this script; gives its number.
fn leave_file(pair: &Pair, script: &str) -> String {
    let words = ["submit", "--output-file", "out", "--wait", "--", "sh", "-c"];
    pair.json(&[&words[..], &[script]].concat())["job"].to_string()
}

/// The file that this job has left, as it is fetched.
fn fetched(pair: &Pair, job: &str, into: &str) -> Vec<u8> {
    let into: PathBuf = pair.dir.path().join(into);
    let words = ["job", "fetch", job, "--into", &into.to_string_lossy()];
    pair.run("user", &words).expect_code(0);
    fs::read(into.join("out")).expect("a fetched file")
}

#[test]
fn a_grid_in_a_database_is_backed_up_while_tasks_run_and_comes_back_in_a_file_and_in_a_database() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let done = leave_file(&pair, "head -c 100000 /dev/zero > out");
    let array = format!("1-{TASKS}");
    let script = "sleep 0.2; echo $DESKGRID_TASK_ID";
    let bag = ["submit", "--array", &array, "--", "sh", "-c", script];
    let bag = pair.json(&bag)["job"].to_string();
    eventually("some tasks are finished", LONG, || {
        let finished = pair.json(&["job", "info", &bag])["tasks"]["finished"].as_u64();
        finished.filter(|finished| *finished >= 4)
    });

    let to = pair.dir.path().join("backup.tar");
    let to = to.to_string_lossy().into_owned();
    let refused = pair.run("first", &["master", "backup", &to]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("--store postgres://"),
        "{}",
        refused.stderr
    );

    // On either machine; the second one's is thrown away.
    let other = pair.dir.path().join("other");
    master(&pair, "second", "backup", &[&other.to_string_lossy()]).expect_code(0);
    let told = master(&pair, "first", "backup", &[&to])
        .expect_code(0)
        .json();
    assert_eq!(told["content_bytes"].as_u64(), Some(100_000), "{told}");
    for who in ["first", "second"] {
        let told = master(&pair, who, "check", &[]).expect_code(0).json();
        assert_eq!(told["jobs"].as_u64(), Some(2), "{told}");
        let notes = told["notes"].to_string();
        assert!(notes.contains("pg_amcheck"), "{notes}");
    }

    // What is done from here on is lost with the masters.
    let late = pair.json(&["submit", "--wait", "--", "true"])["job"].to_string();
    expect_each_result_once(&pair, &bag);
    pair.kill(1);
    pair.kill(0);

    pair.run("file", &["master", "restore", &to]).expect_code(0);
    pair.run("file", &["master", "check"]).expect_code(0);
    let mut command = pair.command("file");
    let config = pair.dir.path().join("first.toml");
    command.args(["master", "start", "--tied", "--http", "none", "--config"]);
    command
        .arg(config)
        .args(["--listen", &pair.masters[0].listen]);
    let started = Started::server(&mut command, &pair.log("file"));
    expect_each_result_once(&pair, &bag);
    assert_eq!(fetched(&pair, &done, "from-file").len(), 100_000);
    let gone = pair.run("user", &["job", "info", &late]);
    assert_eq!(gone.code, 1, "{}", gone.stdout);
    drop(started);

    // Into another database of the server.
    pair.server
        .psql("CREATE DATABASE again_grid TEMPLATE template0");
    let store = pair.server.beside("again_grid").url;
    pair.run("again", &["master", "restore", &to])
        .expect_code(0);
    pair.run("again", &["master", "move", "--to", &store])
        .expect_code(0);
    pair.masters[0].name = "again";
    pair.masters[0].store = store;
    let content = pair.state("again").join("master/content");
    pair.masters[0].content = content.to_string_lossy().into_owned();
    pair.launch(0);
    pair.until_active(0);
    expect_each_result_once(&pair, &bag);
    assert_eq!(fetched(&pair, &done, "from-database").len(), 100_000);
    master(&pair, "again", "check", &[]).expect_code(0);
    pair.kill(0);
    pair.server.psql("DROP DATABASE again_grid WITH (FORCE)");
}

/// The faults that a check of the first master finds, each with its remedy.
fn faults(pair: &Pair) -> Vec<String> {
    let told = master(pair, "first", "check", &[]).expect_code(1).json();
    let faults = told["faults"].as_array().expect("a list").clone();
    let text = |fault: &Value, name: &str| fault[name].as_str().unwrap_or_default().to_owned();
    let both = |fault: &Value| text(fault, "what") + " | " + &text(fault, "hint");
    faults.iter().map(both).collect()
}

#[test]
fn a_check_beside_a_master_finds_what_is_damaged_in_its_database_and_its_content() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    leave_file(&pair, "echo text > out");
    master(&pair, "first", "check", &[]).expect_code(0);

    pair.server
        .psql("INSERT INTO deskgrid.availability VALUES (9999, 1, 2, 1.0, NULL, NULL)");
    let content = pair.dir.path().join("content");
    let kept = fs::read_dir(&content).expect("the content").flatten();
    let kept = kept
        .map(|entry| entry.path())
        .find(|path| path.is_dir() && path.file_name().is_some_and(|name| name.len() == 2));
    let moved = pair.dir.path().join("moved");
    fs::rename(kept.expect("content"), &moved).expect("a file of the test's own");
    let found = faults(&pair);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("availability of a host that is not there 9999"),
        "{found:?}"
    );
    assert!(found[0].contains("PostgreSQL's tools"), "{found:?}");
    assert!(
        found[1].contains("is missing") && found[1].contains("into content;"),
        "{found:?}"
    );

    // Content that lies elsewhere is not called missing, file by file.
    pair.masters[0].content = pair
        .dir
        .path()
        .join("elsewhere")
        .to_string_lossy()
        .into_owned();
    let found = faults(&pair);
    assert!(
        found[0].contains("lies in another place") && found[0].contains("--content"),
        "{found:?}"
    );

    let there = pair.masters[0].store.clone();
    "postgres://deskgrid@127.0.0.1:1/grid".clone_into(&mut pair.masters[0].store);
    let found = faults(&pair);
    assert!(
        found[0].contains("cannot be reached") && found[0].contains("--store"),
        "{found:?}"
    );
    pair.masters[0].store = there;

    // A database that was brought back to an older state lacks what the master has noted.
    pair.masters[0].content = "content".to_owned();
    pair.kill(1);
    pair.kill(0);
    pair.server
        .psql("UPDATE deskgrid.lease SET commits = 0; DELETE FROM deskgrid.turn; DELETE FROM deskgrid.availability WHERE host = 9999");
    let found = faults(&pair);
    assert!(found[0].contains("lacks the last"), "{found:?}");
}
