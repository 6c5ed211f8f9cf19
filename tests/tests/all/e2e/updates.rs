//! An admin rolls a new program out to the workers. The second program of these tests is a copy of the built one in which
//! the version that stands in its file was replaced; broken ones are scripts that say a version and then fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tests::{Grid, Http, Output, eventually, program};

use super::long_sleep;

const PATIENCE: Duration = Duration::from_secs(120);
/// The mark before the version in a program.
const MARK: &str = "deskgrid-program-version=";
/// The flags with which stages follow at once.
const AT_ONCE: [&str; 4] = ["--settle", "0s", "--settle-tasks", "0"];

/// `deskgrid host update`, by an admin.
fn update(grid: &Grid, words: &[&str]) -> Output {
    grid.admin([&["host", "update"], words].concat())
}

fn start(grid: &Grid, program: &Path, more: &[&str]) -> Output {
    let program = program.display().to_string();
    let key = key_file(grid);
    update(
        grid,
        &[&["start", "--program", &program, "--key", &key], more].concat(),
    )
}

fn key_file(grid: &Grid) -> String {
    grid.dir().join("update.key").display().to_string()
}

/// Makes the key, and returns its public half.
fn make_key(grid: &Grid) -> String {
    let made = grid.admin(["--output", "json", "host", "update", "key", &key_file(grid)]);
    made.expect_code(0).json()["update_key"]
        .as_str()
        .expect("a key")
        .to_owned()
}

fn own_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// A version as long as our own, with another last digit.
fn version(digit: char) -> String {
    let own = own_version();
    format!("{}{digit}", &own[..own.len() - 1])
}

/// A copy of the program that says another version.
fn as_version(grid: &Grid, version: &str) -> PathBuf {
    let mut bytes = fs::read(program("deskgrid")).expect("the program");
    let own = format!("{MARK}{};", own_version());
    let places: Vec<usize> = memchr::memmem::find_iter(&bytes, &own).collect();
    assert!(!places.is_empty(), "the version stands in the program");
    let other = format!("{MARK}{version};");
    for at in places {
        bytes[at..at + own.len()].copy_from_slice(other.as_bytes());
    }
    runnable(grid, &format!("deskgrid-{version}"), &bytes)
}

/// A script that says this version, and otherwise does this.
fn script(grid: &Grid, version: &str, does: &str) -> PathBuf {
    let text = format!(
        "#!/bin/sh\n# {MARK}{version};\ncase \"$1\" in --version) echo deskgrid {version}; exit 0;; esac\n{does}\n"
    );
    runnable(grid, &format!("script-{version}"), text.as_bytes())
}

fn runnable(grid: &Grid, name: &str, bytes: &[u8]) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = grid.file(name, bytes);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is made executable");
    file
}

fn status(grid: &Grid) -> Value {
    let shown = grid.admin(["--output", "json", "host", "update", "status"]);
    shown.expect_code(0).json()["rollouts"][0].clone()
}

/// Waits until the rollout is in this state.
fn until_rollout(grid: &Grid, state: &str) -> Value {
    eventually(&format!("the rollout is {state}"), PATIENCE, || {
        let status = status(grid);
        (status["state"] == state).then_some(status)
    })
}

/// Waits until this host stands so in the rollout; returns the reason.
fn until_host(grid: &Grid, host: &str, state: &str) -> String {
    eventually(&format!("{host} is {state}"), PATIENCE, || {
        let status = status(grid);
        let of = status["hosts"]
            .as_array()?
            .iter()
            .find(|of| of["host"] == host)?
            .clone();
        (of["state"] == state).then(|| of["why"].as_str().unwrap_or_default().to_owned())
    })
}

/// What the worker tells its owner, once it runs and is connected.
fn worker_status(grid: &Grid, worker: &str) -> Value {
    eventually(&format!("{worker} answers its owner"), PATIENCE, || {
        let said = grid.as_user(worker, ["--output", "json", "worker", "status"]);
        let told = (said.code == 0).then(|| said.json())?;
        (told["connected"] == true).then_some(told)
    })
}

fn version_of(grid: &Grid, worker: &str) -> String {
    worker_status(grid, worker)["version"]
        .as_str()
        .expect("a version")
        .to_owned()
}

/// Expects the program in the API and on the admin's page.
fn expect_shown(grid: &Grid, version: &str) {
    let gateway = grid.gateway("admin");
    let shown = gateway.programs().get("/api/v1/updates").expect(200);
    assert_eq!(shown.json()["rollouts"][0], status(grid));

    let token = grid.bearer("admin", "admin");
    let way_in = Http::tcp(grid.http())
        .with("Sec-Fetch-Site", "same-origin")
        .with("Content-Type", "application/x-www-form-urlencoded");
    let answer = way_in.send("POST", "/in", Some(format!("token={token}").as_bytes()));
    let cookie = answer.expect(303).headers["set-cookie"].clone();
    let pair = cookie.split(';').next().expect("a pair");
    let page = Http::tcp(grid.http()).with("Cookie", pair).get("/admin");
    let page = page.expect(200);
    let text = page.text();
    assert!(
        text.contains("New programs for workers") && text.contains(&format!("version {version}")),
        "{text}"
    );
}

#[test]
fn a_signed_program_goes_round_stage_by_stage_while_tasks_go_on_and_outlives_restarts() {
    let mut grid = Grid::start();
    make_key(&grid);
    for host in ["h1", "h2", "h3"] {
        grid.worker(host).config("update_wait = \"1s\"\n").start();
    }
    grid.submit(["--", "sleep", &long_sleep()]);
    grid.until_it_runs("1.1");

    let next = as_version(&grid, &version('1'));
    let dry = start(&grid, &next, &["--dry-run"]).expect_code(0);
    assert!(dry.stderr.contains("nothing was begun"), "{dry:?}");
    assert_eq!(status(&grid), Value::Null);

    start(&grid, &next, &AT_ONCE).expect_code(0);
    let done = until_rollout(&grid, "done");
    assert_eq!(
        (&done["percent"], &done["version"]),
        (&100.into(), &version('1').into())
    );
    for host in ["h1", "h2", "h3"] {
        assert_eq!(version_of(&grid, host), version('1'));
        let told = worker_status(&grid, host);
        assert_eq!(told["update"]["instead_of"], *own_version());
        let events = told["update"]["events"].as_array().expect("events");
        assert_eq!(events.len(), 2, "{events:?}");
    }
    expect_shown(&grid, &version('1'));
    // The task was given back and not failed.
    grid.until("the task runs again", &["task", "info", "1.1"], |task| {
        (task["state"] == "running" && task["failures"].as_u64().unwrap_or(0) == 0).then_some(())
    });

    // The installed program starts it again, also after both were killed.
    grid.kill_worker("h1");
    grid.worker("h1").launch();
    assert_eq!(version_of(&grid, "h1"), version('1'));

    // A replay is harmless, and an older one is refused unless that is signed.
    start(&grid, &next, &AT_ONCE).expect_code(0);
    until_rollout(&grid, "done");
    let old = as_version(&grid, &own_version());
    start(&grid, &old, &AT_ONCE).expect_code(0);
    let why = until_host(&grid, "h2", "refused");
    assert!(why.contains("is older than"), "{why}");
    assert_eq!(version_of(&grid, "h2"), version('1'));

    let audit = grid.admin(["audit"]).expect_code(0).stdout;
    for part in [
        "update key",
        "goes on to 10 in a hundred hosts",
        "is older than",
    ] {
        assert!(audit.contains(part), "{part}: {audit}");
    }
}

#[test]
fn a_program_that_ends_at_once_is_rolled_back_stops_the_rollout_and_is_not_tried_again() {
    let mut grid = Grid::start();
    make_key(&grid);
    for host in ["h1", "h2", "h3"] {
        grid.worker(host).start();
    }
    let broken = script(&grid, &version('2'), "exit 9");
    start(&grid, &broken, &AT_ONCE).expect_code(0);

    let stopped = until_rollout(&grid, "stopped");
    let why = stopped["why"].as_str().expect("a reason");
    assert!(
        why.contains("ended 2 times before it had reached the master"),
        "{why}"
    );
    let hosts = stopped["hosts"].as_array().expect("hosts");
    assert_eq!((hosts.len(), &hosts[0]["state"]), (1, &"failed".into()));
    let first = hosts[0]["host"].as_str().expect("a name").to_owned();
    assert_eq!(version_of(&grid, &first), own_version());

    // The same once more: the host says at once that it knows it.
    start(&grid, &broken, &AT_ONCE).expect_code(0);
    until_rollout(&grid, "stopped");
    let told = worker_status(&grid, &first);
    let events = told["update"]["events"].as_array().expect("events");
    assert_eq!(events.len(), 2, "{events:?}");

    // A good one of a newer version is taken.
    let good = as_version(&grid, &version('3'));
    start(&grid, &good, &AT_ONCE).expect_code(0);
    until_rollout(&grid, "done");
    assert_eq!(version_of(&grid, &first), version('3'));
}

#[test]
fn a_program_that_does_not_reach_the_master_in_time_is_rolled_back() {
    let mut grid = Grid::start();
    make_key(&grid);
    grid.worker("h1").config("update_trial = \"2s\"\n").start();
    let deaf = script(&grid, &version('2'), "exec sleep 600");
    start(&grid, &deaf, &AT_ONCE).expect_code(0);
    let stopped = until_rollout(&grid, "stopped");
    let why = stopped["why"].as_str().expect("a reason");
    assert!(
        why.contains("did not reach the master within 2.0s"),
        "{why}"
    );
    assert_eq!(version_of(&grid, "h1"), own_version());
}

#[test]
fn settings_that_only_a_program_from_the_master_knows_do_not_keep_it_from_its_start() {
    let mut grid = Grid::start();
    make_key(&grid);
    grid.worker("h1").start();
    let settings = grid.dir().join("h1.toml");
    let text = fs::read_to_string(&settings).expect("the settings");
    fs::write(&settings, format!("newer_key = 1\n{text}")).expect("is written");

    let started = grid.dir().join("started");
    let does = format!("touch '{}'; exec sleep 30", started.display());
    let newer = script(&grid, &version('2'), &does);
    start(&grid, &newer, &AT_ONCE).expect_code(0);
    eventually("the newer program is started", PATIENCE, || {
        started.exists().then_some(())
    });
}

#[test]
fn a_mistake_in_the_settings_ends_the_worker_and_does_not_condemn_a_program_on_trial() {
    let mut grid = Grid::start();
    make_key(&grid);
    grid.worker("h1").start();
    let settings = grid.dir().join("h1.toml");
    let text = fs::read_to_string(&settings).expect("the settings");
    fs::write(&settings, format!("slotz = 1\n{text}")).expect("is written");

    let [mended, started] = ["mended", "started"].map(|name| grid.dir().join(name));
    let does = format!(
        "test -e '{}' || exit 2; touch '{}'; exec sleep 30",
        mended.display(),
        started.display()
    );
    let newer = script(&grid, &version('2'), &does);
    start(&grid, &newer, &AT_ONCE).expect_code(0);
    let code = eventually("the worker ends", PATIENCE, || grid.running("h1").ended());
    assert_eq!(code, 2);

    fs::write(&mended, "").expect("is written");
    // With the settings as they were.
    grid.worker("h1").launch();
    eventually("the program is tried again", PATIENCE, || {
        started.exists().then_some(())
    });
}

#[test]
fn hosts_refuse_what_their_owner_forbids_what_they_cannot_check_and_what_is_not_what_was_signed() {
    let mut grid = Grid::start();
    grid.worker("early").start();
    let key = make_key(&grid);
    grid.worker("closed").config("updates = false\n").start();
    let other = format!("update_key = \"du1.{}\"\n", "ab".repeat(32));
    grid.worker("foreign").config(&other).start();

    // What says another version than was signed is not started.
    let liar = script(&grid, &version('2'), "exit 0");
    let text = fs::read_to_string(&liar)
        .expect("a script")
        .replace("echo deskgrid ", "echo deskgrid 9");
    fs::write(&liar, text).expect("it is changed");
    grid.worker("open").start();
    start(&grid, &liar, &AT_ONCE).expect_code(0);
    let whys =
        ["early", "closed", "foreign", "open"].map(|host| until_host(&grid, host, "refused"));
    for (why, part) in whys.iter().zip([
        "knows no key",
        "updates = false",
        "signature is not by",
        "not the signed version",
    ]) {
        assert!(why.contains(part), "{part}: {why}");
    }
    let waits = eventually("the rollout says what it waits for", PATIENCE, || {
        let status = status(&grid);
        let why = status["why"].as_str()?.to_owned();
        why.contains("takes it").then_some(status)
    });
    assert_eq!(waits["state"], "running");

    // An owner names the key, and the host takes programs from then on.
    let named = format!("update_key = \"{key}\"\n");
    grid.kill_worker("early");
    grid.worker("early").config(&named).start();
    let good = as_version(&grid, &version('3'));
    start(&grid, &good, &AT_ONCE).expect_code(0);
    until_host(&grid, "early", "runs");
    assert_eq!(version_of(&grid, "early"), version('3'));
}

#[test]
fn a_program_of_the_version_that_runs_counts_as_running_only_if_it_is_that_program() {
    let mut grid = Grid::start();
    make_key(&grid);
    grid.worker("pc").start();
    let mut bytes = fs::read(program("deskgrid")).expect("the program");
    start(&grid, &runnable(&grid, "same", &bytes), &AT_ONCE).expect_code(0);
    until_host(&grid, "pc", "runs");

    bytes.push(0);
    start(&grid, &runnable(&grid, "other", &bytes), &AT_ONCE).expect_code(0);
    let why = until_host(&grid, "pc", "refused");
    assert!(why.contains("with other content"), "{why}");
}

#[test]
fn the_master_refuses_what_its_key_has_not_signed_and_a_program_for_another_platform() {
    let grid = Grid::start();
    let next = script(&grid, &version('1'), "exit 0");
    fs::write(key_file(&grid), "no key").expect("a file");
    let bad = start(&grid, &next, &[]).expect_code(2);
    assert!(bad.stderr.contains("cannot sign updates"), "{bad:?}");
    fs::remove_file(key_file(&grid)).expect("it goes");

    make_key(&grid);
    fs::rename(key_file(&grid), grid.dir().join("first.key")).expect("another place");
    make_key(&grid);
    fs::rename(grid.dir().join("first.key"), key_file(&grid)).expect("back");
    let foreign = start(&grid, &next, &[]);
    assert!(
        foreign.code != 0 && foreign.stderr.contains("signature is not by the key"),
        "{foreign:?}"
    );
    let audit = grid.admin(["audit"]).expect_code(0).stdout;
    assert!(audit.contains("signature is not by the key"), "{audit}");

    let whole = program("deskgrid");
    let elsewhere = start(&grid, &whole, &["--platform", "linux-riscv64"]).expect_code(2);
    assert!(
        elsewhere.stderr.contains("not for linux-riscv64"),
        "{elsewhere:?}"
    );
    let none = start(&grid, Path::new("/bin/true"), &[]).expect_code(2);
    assert!(none.stderr.contains("no version in it"), "{none:?}");
}

#[test]
fn a_worker_that_is_killed_at_any_moment_of_an_update_starts_again_and_comes_to_its_end() {
    let mut grid = Grid::start();
    make_key(&grid);
    grid.worker("h1").start();
    let next = as_version(&grid, &version('1'));
    start(&grid, &next, &[]).expect_code(0);

    // Each time a file has come that was not there the last time: a part, the program, the state.
    let dir = grid.state("h1").join("worker").join("program");
    let mut seen = 0;
    for _ in 0..8 {
        eventually("a step of the update", PATIENCE, || {
            let files = fs::read_dir(&dir).map_or(0, Iterator::count);
            (files > seen || status(&grid)["hosts"][0]["state"] == "runs").then_some(())
        });
        seen = fs::read_dir(&dir).map_or(0, Iterator::count);
        grid.kill_worker("h1");
        grid.worker("h1").launch();
    }
    until_host(&grid, "h1", "runs");
    assert_eq!(version_of(&grid, "h1"), version('1'));
}

#[test]
fn a_worker_that_is_stopped_while_a_new_program_waits_for_its_task_ends_and_takes_no_more_tasks_before()
 {
    let mut grid = Grid::start();
    make_key(&grid);
    grid.worker("h1").slots(2).start();
    grid.submit(["--", "sleep", &long_sleep()]);
    grid.until_it_runs("1.1");
    let next = as_version(&grid, &version('1'));
    start(&grid, &next, &AT_ONCE).expect_code(0);
    until_host(&grid, "h1", "ready");

    // Its other slot stays free for the new program's sake.
    grid.submit(["--", "true"]);
    grid.running("h1").terminate();
    let code = eventually("the worker ends", PATIENCE, || grid.running("h1").ended());
    assert_eq!(code, 0);
    let second = grid.json(["task", "info", "2.1"]);
    assert_eq!(second["state"], "waiting", "{second}");

    // The next start tries it.
    grid.worker("h1").slots(2).launch();
    until_host(&grid, "h1", "runs");
    grid.until(
        "the second task is done",
        &["task", "info", "2.1"],
        |task| (task["state"] == "finished").then_some(()),
    );
}
