//! The owner comes back: tasks freeze, are copied where that helps, and go on where they were.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tests::{Display, Grid, Started, alive_with, eventually};

use super::{all_gone, long_sleep, running};

/// The switch with which an owner pauses a worker.
fn switch(grid: &Grid, worker: &str) -> PathBuf {
    grid.state(worker).join("worker").join("pause")
}

fn counts(grid: &Grid, state: &'static str, number: u64) {
    grid.until(
        &format!("{number} {state}"),
        &["job", "info", "last"],
        |j| (j["tasks"][state].as_u64() == Some(number)).then_some(()),
    );
}

/// The letter that the system shows as the state of the process whose command line has `mark`.
fn state_of(mark: &str) -> Option<char> {
    let (pid, _) = alive_with(mark)
        .into_iter()
        .find(|(_, line)| line.starts_with("sleep") || line.starts_with("/usr/bin/sleep"))?;
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
    grid.until_it_runs("1.1");
    fs::write(switch(&grid, "h1"), "").expect("a file can be written");
    counts(&grid, "suspended", 1);
    eventually("the process is stopped", Duration::from_secs(30), || {
        (state_of(&sleep) == Some('T')).then_some(())
    });

    let frozen = grid.attempts("1.1");
    assert_eq!(
        (&frozen[0]["state"], &frozen[0]["reason"]),
        (
            &"suspended".into(),
            &"first attempt; paused-by-owner".into()
        )
    );

    assert!(frozen[0]["suspended_since"].is_string(), "{frozen:?}");
    let host = &grid.json(["host", "info", "h1"]);
    assert_eq!(
        (&host["state"], &host["reason"]),
        (&"suspended".into(), &"paused-by-owner".into())
    );

    fs::remove_file(switch(&grid, "h1")).expect("is there");
    grid.wait("last");

    let tries = grid.attempts("1.1");
    assert_eq!(tries.len(), 1, "suspended is not lost: {tries:?}");
    assert!(tries[0]["suspended_s"].as_f64() > Some(0.0), "{tries:?}");
}

#[test]
fn a_waiting_user_is_told_why_no_host_takes_work() {
    let grid = Grid::with_worker();
    fs::write(switch(&grid, "h1"), "").expect("a file can be written");
    grid.until("the pause is seen", &["host", "info", "h1"], |host| {
        (host["state"] == "suspended").then_some(())
    });

    let waits = grid.background(["submit", "--wait", "--", "true"]);
    grid.until("the job is there", &["job", "list"], |list| {
        list["jobs"].get(0).map(drop)
    });

    let progress = grid.background(["job", "progress", "1", "--timeout", "9s"]);
    let script = ["--output", "json", "job", "wait", "1", "--timeout", "9s"];
    let script = grid.deskgrid(script).expect_code(4);
    let progress = progress.finish();
    fs::remove_file(switch(&grid, "h1")).expect("is there");

    let why = "note: no host takes work: 1 suspended (paused by the owner); see 'deskgrid job explain 1'\n";
    let told = waits.finish().expect_code(0).stderr;
    assert_eq!(told.matches(why).count(), 1, "{told}");
    assert_eq!(progress.stderr.matches(why).count(), 1, "{progress:?}");
    assert_eq!(script.stderr, "");
}

/// Whether the process handles SIGINT itself.
fn heeds_interruption(pid: u32) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))?;
    let mask = u64::from_str_radix(caught.trim(), 16).ok()?;
    Some(mask & (1 << 1) != 0)
}

#[test]
fn an_interrupted_wait_says_that_the_job_goes_on() {
    let grid = Grid::with_worker();
    grid.submit(["--", "sleep", "60"]);

    for command in [["job", "wait", "1"], ["job", "progress", "last"]] {
        let waits = grid.background(command);
        eventually("it waits", Duration::from_secs(30), || {
            heeds_interruption(waits.pid())?.then_some(())
        });
        waits.signal(Signal::INT);

        let told = waits.finish().expect_code(1).stderr;
        let why = "the wait was interrupted; job 1 goes on";
        assert!(told.contains(why), "{told}");
        assert!(told.contains("deskgrid job wait 1"), "{told}");
    }

    counts(&grid, "running", 1);
    let info = grid.json(["task", "info", "last.1"]);
    assert_eq!(
        (&info["task"], &info["state"]),
        (&"1.1".into(), &"running".into()),
        "{info}"
    );
}

#[test]
fn an_interrupted_submission_with_wait_says_that_the_job_goes_on() {
    let grid = Grid::start();
    let log = grid.file("waits.log", "");
    let mut command = grid.command("user");
    command.args(["submit", "--wait", "--progress", "--", "sleep", "60"]);
    let mut waits = Started::server(&mut command, &log);
    let said = || fs::read_to_string(&log).expect("it was made");
    // It writes its first line while it waits.
    eventually("it waits", Duration::from_secs(30), || {
        said().contains("0/1").then_some(())
    });
    waits.signal(Signal::INT);

    let code = eventually("it ends", Duration::from_secs(30), || waits.ended());
    let told = said();
    assert_eq!(code, 1, "{told}");
    let why = "the wait was interrupted; job 1 goes on";
    assert!(told.contains(why), "{told}");
    let hint = "deskgrid job wait 1, or deskgrid job cancel 1";
    assert!(told.contains(hint), "{told}");
    counts(&grid, "waiting", 1);
}

#[test]
fn a_worker_started_as_dedicated_does_not_watch_for_an_owner_first() {
    let mut grid = Grid::start();
    let watches = "[owner]\nfirst_watch = \"1h\"\n";
    grid.worker("h1").config(watches).dedicated().start();
    grid.submit(["--wait", "--", "true"]);
}

#[test]
fn a_workers_log_is_in_words_and_shows_no_types_of_the_program() {
    let grid = Grid::with_worker();
    fs::write(switch(&grid, "h1"), "").expect("a file can be written");
    grid.until("the pause is seen", &["host", "info", "h1"], |host| {
        (host["state"] == "suspended").then_some(())
    });

    let log = fs::read_to_string(grid.dir().join("h1.log")).expect("it says something");
    for words in ["not paused", "tasks are suspended: paused-by-owner"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    for code in ["Seen(", "HostFacts", "Some(", "Freeze("] {
        assert!(!log.contains(code), "{code}: {log}");
    }
}

#[test]
fn a_frozen_task_is_copied_to_a_host_that_would_idle() {
    let mut grid = Grid::start();
    grid.worker("mine").start();
    grid.submit([
        "--",
        "sh",
        "-c",
        "test $DESKGRID_HOST = other || sleep 600; echo $DESKGRID_HOST",
    ]);

    grid.until_it_runs("1.1");
    grid.worker("other").start();
    fs::write(switch(&grid, "mine"), "").expect("a file can be written");
    grid.wait("last");
    assert_eq!(grid.text(["job", "cat", "last", "stdout"]), "other\n");

    let tries = grid.attempts("1.1");
    assert_eq!(
        (tries.len(), &tries[1]["duplicate"]),
        (2, &true.into()),
        "{tries:?}"
    );
    assert!(
        tries[1]["reason"]
            .as_str()
            .is_some_and(|r| r.contains("paused-by-owner")),
        "says why: {tries:?}"
    );

    assert_eq!(grid.job("last")["duplicates"], 1);
}

#[test]
fn a_copy_that_is_outrun_is_stopped_at_once_and_a_lost_stop_is_made_up_for() {
    // No heartbeat comes to the help within the test.
    let mut grid =
        Grid::with_master("heartbeat = \"1h\"\nsuspect_after = \"2h\"\nlease = \"3h\"\n");

    let sleep = long_sleep();
    let go = grid.dir().join("go");
    grid.worker("mine").unconfined().start();

    let script = format!(
        "test $DESKGRID_HOST = other || sleep {sleep}; while [ ! -e {} ]; do sleep 0.05; done",
        go.display()
    );
    let job = grid.submit(["--policy", "deskgrid", "--", "sh", "-c", &script]);
    grid.until_it_runs(&format!("{job}.1"));
    grid.worker("other").unconfined().start();
    fs::write(switch(&grid, "mine"), "").expect("a file can be written");

    let task = format!("{job}.1");
    eventually("a copy is started", Duration::from_secs(30), || {
        (grid.attempts(&task).len() == 2).then_some(())
    });

    let explained = grid.json(["job", "explain", &job]);
    let copy = &explained["duplicates"][0];
    assert_eq!(
        (&copy["attempt"], &copy["host"]),
        (&format!("{task}#2").into(), &"other".into()),
        "{explained}"
    );
    assert!(
        copy["reason"]
            .as_str()
            .is_some_and(|why| why.contains("duplicate of attempt 1")),
        "{explained}"
    );

    fs::remove_file(switch(&grid, "mine")).expect("it is there");
    counts(&grid, "suspended", 0);
    fs::write(&go, "").expect("a file can be written");
    grid.wait(&job);
    all_gone(&format!("sleep {sleep}"), Duration::from_secs(30));

    // The master that knew of the stop is gone before it could be heard: the worker's hello is
    // answered with it.
    let sleep = long_sleep();
    let job = grid.submit(["--", "sleep", &sleep]);
    running(&format!("sleep {sleep}"));

    let host = grid.attempts(&format!("{job}.1"))[0]["host"]
        .as_str()
        .expect("a host")
        .to_owned();
    grid.running(&host).signal(Signal::STOP);
    grid.deskgrid(["job", "cancel", &job]).expect_code(0);
    grid.kill_master();
    grid.start_master();
    grid.running(&host).signal(Signal::CONT);

    all_gone(&format!("sleep {sleep}"), Duration::from_secs(60));
}

#[test]
fn a_task_that_stays_suspended_is_given_back_with_its_state_and_not_charged() {
    let mut grid = Grid::start();
    let quiet = ["input", "load", "memory", "battery", "programs"]
        .map(|rule| format!("[owner.{rule}]\nheed = false\n"));
    let config = format!(
        "[owner]\nfirst_watch = \"0s\"\nevict_after = \"1s\"\n{}",
        quiet.concat()
    );
    grid.worker("h1").config(&config).start();

    let sleep = long_sleep();
    let state = "\"$DESKGRID_CHECKPOINT_DIR\"/state";
    let script =
        format!("if [ -e {state} ]; then echo on; else echo 1 > {state}; sleep {sleep}; fi");
    // No copy while it runs: only what the eviction saves can be there.
    grid.submit([
        "--retries",
        "0",
        "--checkpoint",
        "1h",
        "--",
        "sh",
        "-c",
        &script,
    ]);

    eventually("the state is written", Duration::from_secs(30), || {
        state_of(&sleep)
    });
    grid.as_user("h1", ["worker", "pause"]).expect_code(0);
    counts(&grid, "waiting", 1);
    all_gone(&format!("sleep {sleep}"), Duration::from_secs(30));

    let tries = grid.attempts("1.1");
    assert_eq!(tries.len(), 1, "{tries:?}");
    grid.as_user("h1", ["worker", "resume"]).expect_code(0);
    grid.wait("last");
    assert_eq!(
        grid.text(["job", "cat", "last", "stdout"]),
        "on\n",
        "goes on where it was"
    );

    let tries = grid.attempts("1.1");
    assert_eq!(
        (tries.len(), &tries[1]["duplicate"]),
        (2, &false.into()),
        "{tries:?}"
    );

    let host = grid.json(["host", "info", "h1"]);
    assert_eq!(
        (&host["lost"], &host["finished"]),
        (&0.into(), &1.into()),
        "given back is not lost: {host}"
    );
}

/// Only the display is looked at.
pub(super) fn only(display: &Display) -> String {
    let off = ["evdev", "logind", "load", "memory", "power"]
        .map(|sensor| format!("{sensor} = \"off\"\n"));
    format!(
        "[sensors]\ndisplays = [\"{}\"]\n{}",
        display.name(),
        off.concat()
    )
}

#[test]
fn with_a_slot_left_to_the_grid_a_touch_suspends_the_other_task_only() {
    let Some(display) = Display::open() else {
        return println!("SKIPPED: no Xvfb here (Debian: xvfb)");
    };
    let mut grid = Grid::start();
    let rules = "[owner]\nfirst_watch = \"0s\"\nslots_when_active = 1\n[owner.input]\nidle = \"2s\"\nresume = \"2s\"\n";
    grid.worker("pc")
        .slots(2)
        .config(&format!("{rules}{}", only(&display)))
        .start();

    let sleep = long_sleep();
    grid.submit(["--array", "1-2", "--", "sleep", &sleep]);
    for task in ["1.1", "1.2"] {
        grid.until_it_runs(task);
    }

    // The person types on until that is seen: tasks go on two seconds after the last key.
    grid.until(
        "one slot is left, and one task suspended",
        &["host", "info", "pc"],
        |host| {
            display.press_key();
            let tasks = &grid.job("last")["tasks"];
            let shared =
                host["reason"] == "in-use: tasks may use 1 of 2 slots" && host["slots_usable"] == 1;
            (shared && tasks["suspended"] == 1 && tasks["running"] == 1).then_some(())
        },
    );

    let mut tries: Vec<_> = (1..=2)
        .flat_map(|index| grid.attempts(&format!("1.{index}")))
        .collect();
    tries.retain(|attempt| attempt["state"] == "suspended");
    assert_eq!(tries.len(), 1, "{tries:?}");
    assert!(
        tries[0]["reason"]
            .as_str()
            .is_some_and(|why| why.contains("in-use")),
        "{tries:?}"
    );

    // Nobody types any more.
    counts(&grid, "running", 2);
}

#[test]
fn the_shipped_rules_start_nothing_where_an_owner_types() {
    let Some(display) = Display::open() else {
        return println!("SKIPPED: no Xvfb here (Debian: xvfb)");
    };
    let shipped = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../configs/worker.toml"
    ))
    .expect("is shipped");
    let (rules, _) = shipped
        .split_once("\n[sensors]")
        .expect("its sensors come last");
    let (_, rules) = rules
        .split_once("\n[owner]")
        .expect("it has the owner's rules");
    let mut grid = Grid::start();

    // The sensors are those of this test: what a machine that runs tests is busy with says nothing.
    grid.worker("pc")
        .config(&format!("[owner]{rules}\n{}", only(&display)))
        .start();
    display.press_key();

    let job = grid.submit(["--", "echo", "here"]);
    let waits = grid.until("the touch is seen", &["host", "info", "pc"], |host| {
        (host["reason"] == "in-use").then(|| grid.json(["job", "explain", &job]))
    });
    assert!(waits.to_string().contains("in-use"), "{waits}");

    let status = grid
        .as_user("pc", ["worker", "status", "--why"])
        .expect_code(0)
        .stdout;
    assert!(
        status.contains("tasks resume after 3m00s without input"),
        "{status}"
    );
    assert_eq!(grid.job(&job)["tasks"]["waiting"], 1);
}
