//! Workers that a package, a script or an image installed: they join by a file at their first
//! start, with no person watching.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tests::{Grid, Started, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the worker `name`, which joins by the file `join` of the grid's directory.
fn unattended(grid: &Grid, name: &str) -> Started {
    let mut command = tests::clean("deskgrid", grid.dir());
    command.current_dir(grid.dir()).arg("--dir");
    command.arg(grid.state(name)).args(["worker", "start"]);
    command.args(["--dedicated", "--tied", "--first-start", "join.toml"]);
    Started::server(&mut command, &grid.dir().join(format!("{name}.log")))
}

/// Writes the file to join by.
fn by(grid: &Grid, name: &str, token: &str) {
    let text = format!(
        "master = \"{}\"\ntoken = \"{token}\"\nname = \"{name}\"\n",
        grid.listen()
    );
    grid.file("join.toml", text);
}

fn log(grid: &Grid, name: &str) -> String {
    fs::read_to_string(grid.dir().join(format!("{name}.log"))).unwrap_or_default()
}

#[track_caller]
fn says(grid: &Grid, name: &str, words: &str) {
    eventually(words, PATIENCE, || {
        log(grid, name).contains(words).then_some(())
    });
}

#[track_caller]
fn joined(grid: &Grid, name: &str) {
    grid.until(name, &["host", "list"], |list| {
        let hosts = list["hosts"].as_array()?;
        hosts.iter().any(|host| host["host"] == name).then_some(())
    });
}

#[test]
fn a_refused_token_is_tried_again_until_the_file_has_a_good_one() {
    let grid = Grid::start();
    let used = grid.token("worker");
    let join = [
        "--name",
        "early",
        "--join",
        &used,
        "--master",
        grid.listen(),
    ];
    let early = [&["worker", "start", "--tied"][..], &join].concat();
    let early = Started::server(
        tests::clean("deskgrid", grid.dir())
            .arg("--dir")
            .arg(grid.state("early"))
            .args(early),
        &grid.dir().join("early.log"),
    );
    joined(&grid, "early");
    drop(early);

    by(&grid, "late", &used);
    let late = unattended(&grid, "late");
    says(&grid, "late", "cannot join the grid yet");
    let told = log(&grid, "late");
    assert!(
        told.contains("again_in=") && !told.contains("again_in=0s"),
        "{told}"
    );
    assert!(!told.contains("because="), "it says so once: {told}");
    eventually("the doctor says what it waits for", PATIENCE, || {
        let checked = grid.as_user("late", ["doctor"]).stdout;
        let told = "/join.toml yet; it tries again: ";
        let told = checked.contains(told) && checked.contains("cannot join the grid with /");
        (told && checked.contains("WRONG  worker ") && !checked.contains("no identity"))
            .then_some(())
    });
    let status = grid.as_user("late", ["worker", "status"]).expect_code(6);
    for told in [
        "cannot join the grid",
        "used up",
        "another address or token",
    ] {
        assert!(status.stderr.contains(told), "{told}: {status:?}");
    }
    assert!(!status.stderr.contains("write that file"), "{status:?}");
    for (switch, told) in [
        ("pause", "has not joined a grid yet; it is paused from its"),
        ("resume", "has not joined a grid yet; it is not paused"),
    ] {
        let turned = grid.as_user("late", ["worker", switch]).expect_code(0);
        assert!(turned.stdout.contains(told), "{turned:?}");
    }
    let audit = grid.admin(["audit"]).expect_code(0).stdout;
    assert!(audit.contains("used up"), "an admin sees it: {audit}");
    let list = grid.admin(["host", "list"]).expect_code(0).stdout;
    let told = "joining was refused to 1 within the last hour: deskgrid audit";
    assert!(list.contains(told), "and where the hosts are: {list}");
    let words = ["--output", "json", "host", "list"];
    let json = grid.admin(words).expect_code(0).stdout;
    assert!(json.contains("\"refused_last_hour\":1"), "{json}");
    assert!(
        grid.json(["host", "list"])
            .get("refused_last_hour")
            .is_none(),
        "for admins alone"
    );

    by(&grid, "late", &grid.token("worker"));
    joined(&grid, "late");
    eventually("the file's removal", PATIENCE, || {
        (!grid.dir().join("join.toml").exists()).then_some(())
    });
    assert!(!log(&grid, "late").contains("dg1."), "{}", grid.logs());

    // It needs no file later.
    drop(late);
    let _again = unattended(&grid, "late");
    grid.submit(["--wait", "--", "true"]);
}

#[test]
fn tokens_that_are_wrong_expired_or_revoked_are_tried_again_with_a_word_and_a_growing_pause() {
    let grid = Grid::start();
    let make = |ttl: &str| {
        let words = ["--output", "quiet", "token", "create", "--role", "worker"];
        let made = grid.admin([&words[..], &["--ttl", ttl]].concat());
        made.expect_code(0).stdout.trim().to_owned()
    };
    let number = |token: &str| token.split('.').nth(1).expect("a number").to_owned();
    let good = make("1h");
    let mut parts: Vec<&str> = good.split('.').collect();
    parts[2] = "00000000000000000000000000000000";
    let wrong = parts.join(".");
    let revoked = make("1h");
    let revoke = ["token", "revoke", &number(&revoked)];
    grid.admin(revoke).expect_code(0);
    let expired = make("1ms");

    by(&grid, "pc", &wrong);
    let _worker = unattended(&grid, "pc");
    for (token, why) in [
        (wrong, "there is no such join token"),
        (revoked, "was revoked"),
        (expired, "has expired"),
    ] {
        by(&grid, "pc", &token);
        eventually(why, PATIENCE, || {
            let log = log(&grid, "pc");
            let mut lines = log.lines();
            lines
                .any(|line| line.contains("again_in=") && line.contains(why))
                .then_some(())
        });
        let audit = grid.admin(["audit"]).expect_code(0).stdout;
        assert!(audit.contains(why), "an admin sees it: {audit}");
    }

    // An editor that writes, or a slip: the service goes on, and takes the next one.
    grid.file("join.toml", "master = ");
    says(&grid, "pc", "makes no sense and is not taken");
    by(&grid, "pc", &good);
    joined(&grid, "pc");
    assert!(!log(&grid, "pc").contains("dg1."), "{}", grid.logs());
}

#[test]
fn a_file_that_is_gone_while_its_token_is_refused_is_told_and_goes_on_counting() {
    let grid = Grid::start();
    let good = grid.token("worker");
    let mut parts: Vec<&str> = good.split('.').collect();
    parts[2] = "00000000000000000000000000000000";
    by(&grid, "pc", &parts.join("."));
    let _worker = unattended(&grid, "pc");
    says(&grid, "pc", "cannot join the grid yet");

    fs::remove_file(grid.dir().join("join.toml")).unwrap();
    says(&grid, "pc", "counts until the worker ends");
    by(&grid, "pc", &good);
    joined(&grid, "pc");
    assert!(!log(&grid, "pc").contains("remove it by hand"));
}

#[test]
fn a_worker_that_comes_before_its_master_joins_once_the_master_is_there() {
    let mut grid = Grid::start();
    let token = grid.token("worker");
    by(&grid, "h1", &token);
    grid.kill_master();

    let _worker = unattended(&grid, "h1");
    says(&grid, "h1", "does not answer");
    let told = eventually("its own exit code", PATIENCE, || {
        let asked = grid.as_user("h1", ["--output", "json", "worker", "status"]);
        (asked.code == 7).then_some(asked.stdout + &asked.stderr)
    });
    assert!(told.contains("\"unreachable\""), "{told}");
    let checked = grid.as_user("h1", ["doctor"]).expect_code(1).stdout;
    assert!(checked.contains("WRONG  worker "), "{checked}");
    grid.start_master();
    joined(&grid, "h1");
}

#[test]
fn a_file_on_a_pc_that_has_joined_changes_the_masters_address_and_goes() {
    let grid = Grid::start();
    by(&grid, "h1", &grid.token("worker"));
    let first = unattended(&grid, "h1");
    says(&grid, "h1", "joined the grid");
    drop(first);

    let link = grid.state("h1").join("worker/identity/link.toml");
    let before = fs::read_to_string(&link).expect("an identity");
    fs::write(&link, before.replace(grid.listen(), "127.0.0.1:9")).expect("is written");
    by(&grid, "h1", "");
    let _second = unattended(&grid, "h1");
    grid.submit(["--wait", "--", "true"]);
    assert!(!grid.dir().join("join.toml").exists());
    assert_eq!(fs::read_to_string(&link).ok(), Some(before));
}

#[test]
fn a_file_that_makes_no_sense_does_not_keep_a_pc_that_has_joined_from_its_work() {
    let grid = Grid::start();
    by(&grid, "h1", &grid.token("worker"));
    let first = unattended(&grid, "h1");
    says(&grid, "h1", "joined the grid");
    drop(first);

    grid.file("join.toml", "master = ");
    let _second = unattended(&grid, "h1");
    grid.submit(["--wait", "--", "true"]);
    says(&grid, "h1", "makes no sense and is not taken");
}

#[test]
fn a_first_start_without_a_sensible_file_ends_with_the_cure() {
    let grid = Grid::start();
    let start = |file: &Path| {
        let file = file.to_str().expect("UTF-8");
        grid.as_user("pc", ["worker", "start", "--first-start", file])
    };

    let missing = start(Path::new("nowhere.toml")).expect_code(6);
    assert!(missing.stderr.contains("--join @FILE"), "{missing:?}");

    let slip = format!("{}x", grid.token("worker"));
    let text = format!("master = \"{}\"\ntoken = \"{slip}\"\n", grid.listen());
    let wrong = start(&grid.file("state/pc/join.toml", text)).expect_code(2);
    assert!(
        wrong.stderr.contains("join.toml") && !wrong.stderr.contains(&slip),
        "{wrong:?}"
    );

    let checked = grid.as_user("pc", ["doctor"]).expect_code(1).stdout;
    let told = ["WRONG  worker ", "joins a grid by /", "--first-start /"];
    assert!(told.iter().all(|told| checked.contains(told)), "{checked}");
    assert!(!checked.contains("no identity"), "{checked}");
}
