//! Backups of a master that runs, and what happens on the machine where one is put in place.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tests::{Grid, Started, eventually};

use super::{COUNT, expect_all_counted, ten_are_finished};

fn both_there(grid: &Grid) {
    let up = |hosts: &Value| {
        let all = hosts["hosts"].as_array()?;
        let there = |host: &Value| matches!(host["state"].as_str(), Some("ready" | "busy"));
        (all.len() == 2 && all.iter().all(there)).then_some(())
    };
    grid.until("both workers are back", &["host", "list"], up);
}

#[test]
fn a_backup_made_in_the_middle_of_a_bag_goes_on_on_another_machine() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    grid.worker("h2").slots(2).start();

    let script = "head -c 100000 /dev/zero > out; echo before";
    let done = grid.submit(["--output-file", "out", "--wait", "--", "sh", "-c", script]);
    let token = grid.token("client");
    let bag = grid.submit(COUNT);
    ten_are_finished(&grid, &bag);

    let stray = grid.state("admin").join("master/notes: read me");
    fs::write(stray, "of a person").expect("writable");
    let to = grid.dir().join("backup.tar");
    let backup = grid.admin([
        "--output",
        "json",
        "master",
        "backup",
        &to.to_string_lossy(),
    ]);
    let backup = backup.expect_code(0).json();
    assert_eq!(
        (&backup["content_files"], &backup["content_bytes"]),
        (&1.into(), &100_000.into()),
        "{backup}"
    );
    let note = backup["notes"][0].as_str().unwrap_or_default();
    assert!(note.contains("notes: read me"), "{backup}");

    // The first master goes on for a while, and what it does then is lost with it.
    let late = grid.submit(["--wait", "--", "true"]);
    grid.wait(&bag);
    grid.kill_master();

    let restore = grid.as_user("elsewhere", ["master", "restore", &to.to_string_lossy()]);
    restore.expect_code(0);
    grid.as_user("elsewhere", ["master", "check"])
        .expect_code(0);
    grid.move_master("elsewhere");
    grid.start_master();
    both_there(&grid);
    grid.wait(&bag);

    expect_all_counted(&grid, &bag);

    let into = grid.fetch(&done, "results");
    assert_eq!(
        fs::metadata(into.join("out"))
            .expect("a fetched file")
            .len(),
        100_000
    );

    grid.deskgrid(["job", "info", &late]).expect_code(1);
    let next = grid.submit(["--wait", "--", "true"]);
    assert!(
        next.parse::<u32>().expect("a number") > late.parse().expect("a number"),
        "{late} is not given out again"
    );
    assert_eq!(grid.attempts(&format!("{next}.1")).len(), 1);

    let used = grid.as_user(
        "stranger",
        ["login", "--master", grid.listen(), "--join", &token],
    );
    assert!(
        used.stderr.contains("revoked"),
        "a token of then works no more: {}",
        used.stderr
    );
    grid.as_user("elsewhere", ["master", "check"])
        .expect_code(0);
}

#[test]
fn the_numbers_that_a_restored_master_skips_hide_no_job_and_are_called_no_events() {
    let mut grid = Grid::start();
    let submit = |grid: &Grid, name| {
        let job = grid.submit(["--name", name, "--", "true"]);
        grid.deskgrid(["job", "cancel", &job]).expect_code(0);
        job.parse::<u32>().expect("a number")
    };
    let before = submit(&grid, "of before");
    let to = grid.dir().join("backup.tar");
    grid.admin(["master", "backup", &to.to_string_lossy()])
        .expect_code(0);
    grid.kill_master();
    grid.as_user("elsewhere", ["master", "restore", &to.to_string_lossy()])
        .expect_code(0);
    grid.move_master("elsewhere");
    grid.start_master();
    assert!(submit(&grid, "of later") > before + 10_000);

    let jobs = grid.text(["top", "--once"]);
    let shown = |name: &str| jobs.contains(name);
    assert!(shown("of before") && shown("of later"), "{jobs}");

    for past in [
        &["events", "--past"][..],
        &["events", "--past", "--job", "last"],
    ] {
        let told = grid.deskgrid(past).expect_code(0);
        assert!(
            told.stdout.contains("on a copy of its store"),
            "{}",
            told.stdout
        );
        assert!(
            !told.stderr.contains("not kept any more"),
            "{}",
            told.stderr
        );
    }
}

#[test]
fn a_backup_that_is_a_directory_is_a_master_s_directory_and_damage_is_told_before_it_is_used() {
    let mut grid = Grid::with_worker();

    let bag = grid.submit([
        "--output-file",
        "out",
        "--wait",
        "--",
        "sh",
        "-c",
        "seq 5000 > out",
    ]);

    let to = grid.state("copy");
    grid.admin(["master", "backup", &to.to_string_lossy()])
        .expect_code(0);
    grid.admin(["master", "backup", &to.to_string_lossy()])
        .expect_code(1);
    grid.as_user("copy", ["master", "check"]).expect_code(0);

    let found = walk(&to.join("master/content"));
    let [blob] = &found[..] else {
        panic!("one file of content: {found:?}")
    };
    let whole = fs::read(blob).expect("readable");
    fs::write(blob, &whole[1..]).expect("writable");

    let told = grid
        .as_user("copy", ["--output", "json", "master", "check"])
        .expect_code(1)
        .json();
    assert_eq!(told["sound"], false, "{told}");
    assert!(
        told["faults"][0]["what"]
            .as_str()
            .is_some_and(|what| what.contains("damaged")),
        "{told}"
    );

    fs::write(blob, &whole).expect("writable");

    let store = to.join("master/store.sqlite");
    let sound = fs::read(&store).expect("readable");
    for (at, said) in [(60..64, "newer"), (100..3_000, "damaged")] {
        let mut bytes = sound.clone();
        bytes[at].fill(0x5A);
        fs::write(&store, &bytes).expect("writable");

        let refused = grid.as_user(
            "copy",
            [
                "master",
                "start",
                "--listen",
                "127.0.0.1:0",
                "--http",
                "none",
            ],
        );
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(
            refused.stderr.contains(said) && refused.stderr.contains("try:"),
            "{}",
            refused.stderr
        );
        assert_eq!(
            fs::read(&store).expect("readable"),
            bytes,
            "it is left as it is"
        );
    }

    fs::write(&store, sound).expect("writable");

    grid.kill_master();
    grid.move_master("copy");
    grid.start_master();
    eventually("the worker is back", Duration::from_secs(30), || {
        (grid.json(["host", "list"])["hosts"][0]["state"] == "ready").then_some(())
    });
    assert_eq!(grid.job(&bag)["state"], "finished");
    grid.submit(["--wait", "--", "true"]);
}

#[test]
fn a_backup_and_a_restoration_that_are_ended_midway_can_be_done_again() {
    let grid = Grid::start();
    grid.file("large", vec![7; 32 << 20]);
    grid.submit(["--input", "large", "--", "true"]);
    let backups = grid.dir().join("backups");
    fs::create_dir(&backups).expect("a directory");

    let mut ended_midway = 0;
    for (signal, target) in [
        (Signal::TERM, "one.tar"),
        (Signal::INT, "two"),
        (Signal::KILL, "three.tar"),
        (Signal::KILL, "four"),
    ] {
        let to = backups.join(target);
        let shown = to.to_string_lossy().into_owned();
        let words = ["master", "backup", &shown];
        let midway_there = midway(&grid, "admin", &words, (signal, &backups, &to));
        let left = fs::read_dir(&backups).expect("it is there").flatten();
        assert_eq!(
            left.map(|entry| entry.file_name()).collect::<Vec<_>>(),
            [target]
        );

        let who = format!("restored-{target}");
        let dir = grid.state(&who);
        let words = ["master", "restore", &shown];
        let midway_back = midway(&grid, &who, &words, (signal, &dir, &dir.join("master")));
        ended_midway += u32::from(midway_there) + u32::from(midway_back);
        assert!(!dir.join("master.part").exists());
        grid.as_user(&who, ["master", "check"]).expect_code(0);

        let removed = match to.is_dir() {
            true => fs::remove_dir_all(&to),
            false => fs::remove_file(&to),
        };
        removed.expect("removable");
    }
    assert!(ended_midway > 0, "every command was faster than its signal");
}

/// Sends a signal to a command as soon as it has begun to write into `dir`, and has it done again unless it has come as far as
/// to the `whole`. Returns whether it was ended before that.
#[track_caller]
fn midway(
    grid: &Grid,
    who: &str,
    words: &[&str],
    (signal, dir, whole): (Signal, &Path, &Path),
) -> bool {
    let begins = || fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    let mut command = grid.command(who);
    let mut begun = Started::new(command.args(words));
    eventually("it writes, or is over", Duration::from_secs(60), || {
        (begins() || begun.ended().is_some()).then_some(())
    });
    begun.signal(signal);

    let ended = begun.finish();
    if whole.exists() {
        return false;
    }
    if signal != Signal::KILL {
        assert!(ended.stderr.contains("was interrupted"), "{ended:?}");
        assert!(ended.code == 1 && !begins(), "it leaves nothing");
    }
    grid.as_user(who, words).expect_code(0);
    true
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| {
            if entry.path().is_dir() {
                walk(&entry.path())
            } else {
                vec![entry.path()]
            }
        })
        .collect()
}

#[test]
fn a_master_without_disk_space_for_new_work_warns_at_its_start() {
    // A reserve of an exbibyte, which no disk has.
    let grid = Grid::start_with("reserve_bytes = 1152921504606846976\n");
    let log = fs::read_to_string(grid.dir().join("master.log")).expect("it says something");
    for words in [
        "takes no new work",
        "are left on the disk of",
        "1 EiB",
        "--dir",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    grid.deskgrid(["submit", "--", "true"]).expect_code(1);
}
