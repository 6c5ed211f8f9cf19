//! What ends a fleet: a master without its store, a store without its log, clocks that lie, bits
//! that flip. Workers outlive all of that, and a master that would turn everybody away does not
//! start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tests::{Grid, Started, eventually};

const PATIENCE: Duration = Duration::from_secs(60);
/// Where `time` is moved by so many seconds for whatever is started with this in front of it.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int got = real(id, at);
    const char *by = getenv("CLOCK_IS_OFF_BY");
    if (got == 0 && by && id == CLOCK_REALTIME) at->tv_sec += atol(by);
    return got;
}
"#;

/// Words that start a program with a clock that is off by so many days.
fn off_by(grid: &Grid, days: i64) -> Vec<String> {
    let library = grid.dir().join("clock.so");
    if !library.exists() {
        let source = grid.file("clock.c", CLOCK);
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(source)
            .arg("-ldl")
            .status();
        assert!(
            made.expect("a C compiler").success(),
            "the library is compiled"
        );
    }

    let preload = format!("LD_PRELOAD={}", library.display());
    [
        "env".to_owned(),
        preload,
        format!("CLOCK_IS_OFF_BY={}", days * 86_400),
    ]
    .into()
}

/// Reconnects soon, so that the slow tries of a refused worker are fast enough for a test.
const SOON: &str = "reconnect_base = \"5ms\"\nreconnect_cap = \"20ms\"\n";

fn home(grid: &Grid) -> PathBuf {
    grid.state("admin").join("master")
}

/// Ends the master in order.
fn stop(grid: &mut Grid) {
    grid.master().terminate();
    eventually("the master ends", PATIENCE, || grid.master().ended());
}

/// Starts a master that is expected to end by itself; what it says.
fn refused_start(grid: &Grid, more: &[&str]) -> String {
    let args = [
        "master",
        "start",
        "--listen",
        "127.0.0.1:0",
        "--http",
        "none",
    ];
    let ended = grid.admin(args.iter().chain(more)).expect_code(1);
    assert!(ended.stderr.contains("try:"), "{}", ended.stderr);

    ended.stderr
}

/// A master that an admin has start all the same, by this flag.
fn accepting(grid: &Grid, flag: &str) -> Started {
    let words = ["master", "start", "--listen", grid.listen()];
    let words = words.into_iter().chain(["--http", "none", flag]);
    grid.background_as("admin", words)
}

/// Ends such a master in order.
fn end(mut master: Started) {
    master.terminate();
    eventually("the master ends", PATIENCE, || master.ended());
}

fn is_back(grid: &Grid, worker: &str) {
    eventually(&format!("{worker} is back"), PATIENCE, || {
        let hosts = grid.json(["host", "list"]);
        let up = |host: &serde_json::Value| {
            host["host"] == worker && matches!(host["state"].as_str(), Some("ready" | "busy"))
        };
        hosts["hosts"]
            .as_array()
            .is_some_and(|all| all.iter().any(up))
            .then_some(())
    });
}

/// The worker's owner reads there why it is not connected.
fn says(grid: &Grid, worker: &str, words: &str) {
    eventually(&format!("{worker} says `{words}`"), PATIENCE, || {
        let told = grid.as_user(worker, ["worker", "status"]);
        told.stdout.contains(words).then_some(())
    });
}

#[test]
fn a_master_without_its_store_does_not_start_and_workers_return_with_it() {
    let mut grid = Grid::start();
    grid.worker("w1").config(SOON).start();

    let job = grid.submit([
        "--array",
        "1-30",
        "--wait",
        "--",
        "sh",
        "-c",
        "echo result $DESKGRID_TASK_ID",
    ]);

    stop(&mut grid);
    let store = home(&grid).join("store.sqlite");
    let aside = grid.dir().join("aside");
    let log = home(&grid).join("store.sqlite-wal");
    assert_eq!(
        fs::metadata(log).map_or(0, |log| log.len()),
        0,
        "after an orderly end the store's file alone is whole"
    );
    fs::rename(&store, &aside).expect("can be moved");

    assert!(refused_start(&grid, &[]).contains("the store is missing"));
    grid.admin(["master", "check"]).expect_code(1);
    fs::write(&store, "").expect("can be written");
    assert!(refused_start(&grid, &["--accept-store"]).contains("the store is empty"));
    grid.admin(["master", "check"]).expect_code(1);
    fs::copy(&aside, &store).expect("can be copied");
    grid.admin(["master", "check"]).expect_code(0);
    grid.start_master();

    is_back(&grid, "w1");
    assert_eq!(grid.job(&job)["tasks"]["finished"], 30);
}

#[test]
fn a_worker_outlives_a_master_that_knows_nobody_and_a_revocation_that_is_taken_back() {
    let mut grid = Grid::start();
    grid.worker("w1").config(SOON).start();
    stop(&mut grid);

    let real = home(&grid);
    let aside = grid.dir().join("aside");
    fs::rename(&real, &aside).expect("can be moved");

    let client = grid.state("admin").join("client");
    let admin = grid.dir().join("admin-aside");
    fs::rename(&client, &admin).expect("can be moved");

    // Another grid at the same address.
    grid.start_master();
    says(&grid, "w1", "not the master that this identity");
    stop(&mut grid);
    fs::remove_dir_all(&real)
        .and_then(|()| fs::remove_dir_all(&client))
        .expect("can be removed");
    fs::rename(&aside, &real)
        .and_then(|()| fs::rename(&admin, &client))
        .expect("can be moved");

    // One whose store does not let it in, which is put back.
    let store = real.join("store.sqlite");
    let before = fs::read(&store).expect("readable");
    grid.start_master();
    is_back(&grid, "w1");
    grid.admin(["host", "revoke", "w1"]).expect_code(0);
    says(&grid, "w1", "revoked");
    stop(&mut grid);

    let revoked = fs::read(&store).expect("readable");
    assert_ne!(before, revoked);
    fs::write(&store, before).expect("writable");

    let told = refused_start(&grid, &[]);
    assert!(told.contains("the store lacks the last"), "{told}");

    let told = grid.admin(["master", "check"]).expect_code(1);
    assert!(
        told.stdout.contains("the store lacks the last"),
        "{}",
        told.stdout
    );
    grid.admin(["--output", "json", "master", "check"])
        .expect_code(1);

    // An admin takes it as it is, once.
    let accepting = accepting(&grid, "--accept-store");
    is_back(&grid, "w1");
    end(accepting);
    grid.start_master();
    is_back(&grid, "w1");
    assert_eq!(grid.running("w1").ended(), None, "it is the same process");
}

#[test]
fn a_log_that_is_cut_after_a_kill_is_noticed() {
    let mut grid = Grid::start();
    grid.worker("w1").start();
    grid.submit(["--array", "1-30", "--wait", "--", "true"]);
    grid.kill_master();
    grid.admin(["master", "check"]).expect_code(0);

    let log = home(&grid).join("store.sqlite-wal");
    let bytes = fs::read(&log).expect("a log");
    assert!(bytes.len() > 10_000, "{}", bytes.len());

    let _ = fs::remove_file(home(&grid).join("store.sqlite-shm"));
    for (what, cut) in [
        ("half", bytes[..bytes.len() / 4].to_vec()),
        ("a flipped byte", flipped(&bytes, bytes.len() / 8)),
    ] {
        fs::write(&log, &cut).expect("writable");
        assert!(
            refused_start(&grid, &[]).contains("the store lacks the last"),
            "{what}"
        );
        let told = grid.admin(["master", "check"]).expect_code(1);
        assert!(
            told.stdout.contains("the store lacks the last"),
            "{what}: {}",
            told.stdout
        );
        let _ = fs::remove_file(home(&grid).join("store.sqlite-shm"));
    }

    fs::write(&log, bytes).expect("writable");
    grid.start_master();
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

/// Changes a text in a file, to another of the same length, wherever it stands.
fn replace(path: &Path, from: &[u8], to: &[u8]) -> usize {
    let mut bytes = fs::read(path).expect("readable");
    let places: Vec<usize> = (0..bytes.len() - from.len())
        .filter(|at| bytes[*at..].starts_with(from))
        .collect();
    for at in &places {
        bytes[*at..at + to.len()].copy_from_slice(to);
    }
    fs::write(path, bytes).expect("writable");
    places.len()
}

#[test]
fn a_changed_digit_of_a_stored_output_is_an_error_and_never_shown() {
    let mut grid = Grid::start();
    grid.worker("w1").start();

    let job = grid.submit([
        "--array",
        "1-9",
        "--wait",
        "--",
        "sh",
        "-c",
        "echo the result is $DESKGRID_TASK_ID",
    ]);

    stop(&mut grid);
    let store = home(&grid).join("store.sqlite");
    assert!(
        replace(&store, b"the result is 7", b"the result is 9") > 0,
        "it stands in the store"
    );
    assert!(refused_start(&grid, &[]).contains("the store was changed, or damaged"));

    let told = grid.admin(["master", "check"]).expect_code(1).stdout;
    assert!(
        told.contains("was changed") && told.contains(&format!("task {job}.7")),
        "{told}"
    );

    // An admin goes on with it all the same.
    let accepting = accepting(&grid, "--accept-store");
    is_back(&grid, "w1");
    let damaged = grid
        .deskgrid(["job", "cat", &job, "stdout", "7"])
        .expect_code(1);
    assert!(
        !damaged.stdout.contains("the result") && damaged.stderr.contains("damaged"),
        "{damaged:?}"
    );
    grid.deskgrid(["job", "fetch", &job, "--into", "fetched"])
        .expect_code(1);
    grid.deskgrid(["task", "list", &job]).expect_code(0);

    let whole = grid
        .deskgrid(["job", "cat", &job, "stdout", "8"])
        .expect_code(0);
    assert!(whole.stdout.contains("the result is 8"), "{whole:?}");
    end(accepting);
}

#[test]
fn a_master_with_a_clock_of_the_past_does_not_start_and_its_workers_do_not_end() {
    let mut grid = Grid::start();
    grid.worker("w1").config(SOON).start();
    stop(&mut grid);
    grid.wrap("admin", off_by(&grid, -1_460));

    let told = refused_start(&grid, &[]);
    assert!(
        told.contains("clock")
            && told.contains("4 years behind")
            && told.contains("--accept-clock"),
        "{told}"
    );

    grid.wrap("admin", Vec::<String>::new());
    grid.start_master();
    is_back(&grid, "w1");
    assert_eq!(grid.running("w1").ended(), None, "it is the same process");
}

#[test]
fn a_master_once_started_in_the_future_locks_nobody_out() {
    let mut grid = Grid::start();
    grid.worker("w1").config(SOON).start();
    stop(&mut grid);
    grid.wrap("admin", off_by(&grid, 40));

    // Everybody's certificate has expired by this clock, while the master was away: all are
    // renewed, and are of the future then.
    grid.start_master();
    grid.wrap("admin", Vec::<String>::new());
    grid.deskgrid(["job", "list"]).expect_code(0);
    eventually("the worker has renewed its certificate", PATIENCE, || {
        let hosts = grid.admin(["--output", "json", "host", "list"]);
        (hosts.code == 0 && hosts.json()["hosts"][0]["state"] == "ready").then_some(())
    });
    stop(&mut grid);
    assert!(refused_start(&grid, &[]).contains("40 days behind"));

    let accepting = accepting(&grid, "--accept-clock");
    is_back(&grid, "w1");
    grid.admin(["token", "list"]).expect_code(0);
    end(accepting);
    grid.start_master();
    is_back(&grid, "w1");
    grid.admin(["token", "list"]).expect_code(0);
    grid.submit(["--wait", "--", "true"]);
}

#[test]
fn a_pc_with_a_wrong_clock_joins_works_and_is_told_of_its_clock() {
    let mut grid = Grid::start();
    for (name, days, words) in [
        ("behind", -3, "3 days) behind"),
        ("ahead", 3_650, "10 years) ahead of"),
    ] {
        grid.wrap(name, off_by(&grid, days));
        grid.worker(name).config(SOON).start();
        let told = grid.as_user(name, ["doctor"]);
        assert!(told.stdout.contains(words), "{name}: {}", told.stdout);
        assert_eq!(grid.running(name).ended(), None);
    }

    grid.submit(["--array", "1-4", "--wait", "--", "true"]);
    // After another start, too.
    for (name, ..) in [("behind", 0), ("ahead", 0)] {
        grid.kill_worker(name);
        grid.worker(name).config(SOON).start();
    }
}

#[test]
fn certificates_that_could_not_be_renewed_in_time_are_refused_in_the_configuration() {
    let grid = Grid::prepared("certificate_life = \"40s\"");
    let config = grid.dir().join("master.toml");
    let ended = grid
        .admin(["master", "start", "--config", &config.to_string_lossy()])
        .expect_code(2);
    assert!(
        ended.stderr.contains("40s") && ended.stderr.contains("the least is 10m"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_reserve_of_which_nothing_is_left_for_results_is_refused_in_the_configuration() {
    for bytes in [16 << 20, 1] {
        let grid = Grid::prepared(&format!("reserve_bytes = {bytes}"));
        let config = grid.dir().join("master.toml");
        let ended = grid
            .admin(["master", "start", "--config", &config.to_string_lossy()])
            .expect_code(2);
        assert!(
            ended.stderr.contains("the least is 33554432"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn the_doctor_tells_of_a_master_without_room_for_new_work_and_of_its_clock() {
    let mut grid = Grid::start();
    let surroundings = |output: tests::Output| {
        let found = output.json();
        let all = found["findings"].as_array().expect("findings").iter();
        let of_it = all.filter(|finding| finding["check"] == "master: surroundings");
        of_it
            .map(|finding| format!("{}: {}", finding["severity"], finding["what"]))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let doctor = ["--output", "json", "doctor"];
    let well = surroundings(grid.admin(doctor));
    assert!(well.starts_with("\"ok\""), "{well}");

    let exbibyte = grid.file("full.toml", "reserve_bytes = 1152921504606846976\n");
    let exbibyte = exbibyte.to_str().expect("UTF-8");
    let full = [&doctor[..], &["--master-config", exbibyte]].concat();
    let full = surroundings(grid.admin(full));
    assert!(
        full.starts_with("\"wrong\"") && full.contains("takes no new work"),
        "{full}"
    );

    grid.kill_master();
    grid.wrap("admin", off_by(&grid, -730));
    let behind = surroundings(grid.admin(doctor));
    assert!(
        behind.starts_with("\"wrong\"") && behind.contains("clock"),
        "{behind}"
    );
}
