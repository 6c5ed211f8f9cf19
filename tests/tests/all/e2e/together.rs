//! Jobs that run on several hosts at once, with real workers: ranks know each other's numbers and
//! start together, a lost one starts elsewhere, and a job waits for more hosts because a prediction
//! says so, and is right.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tests::Grid;

use super::{all_gone, long_sleep, running};

/// Patient enough for a worker that stands still for a moment.
const PATIENT: &str = "heartbeat = \"500ms\"\nsuspect_after = \"60s\"\nlease = \"120s\"\n";
/// No host is faster than another.
const EVEN: &str = "speed = 1.0\n";

fn ready(grid: &Grid, hosts: u64) {
    let look = |wait: &Value| (wait["free"] == hosts).then_some(());
    grid.until(
        "the hosts are free",
        &["predict", "wait", "--width", "1"],
        look,
    );
}

fn states(grid: &Grid, job: &str) -> Vec<(String, String)> {
    let tasks = grid.json(["task", "list", job]);
    let all = tasks["tasks"].as_array().expect("a list of tasks");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.iter()
        .map(|task| (text(&task["state"]), text(&task["attempts"][0]["reason"])))
        .collect()
}

#[test]
fn ranks_start_together_each_on_a_host_of_its_own_and_know_their_numbers() {
    let mut grid = Grid::with_master(PATIENT);
    for name in ["a", "b"] {
        grid.worker(name).config(EVEN).start();
    }

    ready(&grid, 2);
    let script =
        "echo $DESKGRID_RANK of $DESKGRID_WIDTH on $DESKGRID_HOST; echo %{RANK}/%{WIDTH} >&2";

    let solve = grid.submit(["--width", "3", "--", "sh", "-c", script]);
    let waiting = grid.job(&solve);
    assert_eq!(
        (&waiting["state"], &waiting["width"]["hosts"]),
        (&"waiting".into(), &2.into()),
        "{waiting}"
    );

    let told = grid.text(["job", "explain", &solve]);
    assert!(told.contains("3 hosts at once"), "{told}");

    grid.worker("c").config(EVEN).start();
    grid.wait(&solve);

    let done = grid.job(&solve);
    assert_eq!(
        (&done["tasks"]["total"], &done["tasks"]["finished"]),
        (&3.into(), &3.into()),
        "{done}"
    );

    let text = grid.text(["job", "cat", &solve, "stdout"]);
    let lines: BTreeSet<&str> = text.lines().collect();
    let ranks: BTreeSet<&str> = lines
        .iter()
        .filter_map(|line| line.split(" on ").next())
        .collect();
    let hosts: BTreeSet<&str> = lines
        .iter()
        .filter_map(|line| line.split(" on ").nth(1))
        .collect();

    assert_eq!(
        ranks,
        BTreeSet::from(["0 of 3", "1 of 3", "2 of 3"]),
        "{text}"
    );
    assert_eq!(hosts, BTreeSet::from(["a", "b", "c"]), "{text}");

    let text = grid.text(["job", "cat", &solve, "stderr"]);
    assert_eq!(
        text.lines().collect::<BTreeSet<_>>(),
        BTreeSet::from(["0/3", "1/3", "2/3"])
    );

    let refused = grid
        .deskgrid(["job", "retry", &solve])
        .expect_code(1)
        .stderr;
    assert!(refused.contains("submit it again"), "{refused}");
}

#[test]
fn no_rank_runs_before_the_slowest_is_ready() {
    let mut grid = Grid::with_master(PATIENT);
    for name in ["a", "b", "slow"] {
        grid.worker(name).config(EVEN).start();
    }

    ready(&grid, 3);
    grid.running("slow").signal(Signal::STOP);

    let mark = long_sleep();
    let solve = grid.submit(["--width", "2..3", "--", "sleep", &mark]);
    let two_wait = |_: &Value| {
        let ready = states(&grid, &solve)
            .into_iter()
            .filter(|(_, why)| why.contains("waits for the other ranks"))
            .count();
        (ready == 2).then_some(())
    };
    grid.until("two ranks are ready", &["job", "info", &solve], two_wait);
    assert!(tests::alive_with(&mark).is_empty(), "none of them runs");

    let told = grid.text(["job", "info", &solve]);
    assert!(
        told.contains("its ranks wait until all of them are ready"),
        "{told}"
    );
    grid.running("slow").signal(Signal::CONT);
    running(&mark);

    let all_run = |job: &Value| {
        (job["tasks"]["running"] == 3 && job["width"]["begun"].is_string()).then_some(())
    };
    grid.until("all of them run", &["job", "info", &solve], all_run);
    grid.deskgrid(["job", "cancel", &solve]).expect_code(0);
    all_gone(&mark, Duration::from_secs(30));
}

#[test]
fn a_rank_whose_worker_is_killed_restarts_elsewhere() {
    let mut grid = Grid::start();
    for name in ["a", "b", "c"] {
        grid.worker(name).config(EVEN).start();
    }

    ready(&grid, 3);
    let mark = long_sleep();
    let solve = grid.submit(["--width", "3", "--", "sleep", &mark]);
    let begun = |job: &Value| job["width"]["begun"].as_str().map(drop);
    grid.until("all ranks run", &["job", "info", &solve], begun);

    let before: Vec<Value> = (0..3)
        .map(|rank| grid.attempts(&format!("{solve}.{rank}"))[0].clone())
        .collect();
    let victim = before[1]["host"].as_str().expect("a host").to_owned();
    grid.worker("spare").config(EVEN).start();
    grid.kill_worker(&victim);

    let second = format!("{solve}.1");
    let again = |task: &Value| {
        let tries = task["attempts"].as_array()?;
        (tries.len() == 2 && tries[1]["state"] == "running").then(|| tries.clone())
    };
    let tries = grid.until(
        "the lost rank runs again",
        &["task", "info", &second],
        again,
    );
    assert_eq!(
        (&tries[0]["state"], &tries[1]["host"]),
        (&"lost".into(), &"spare".into()),
        "{tries:?}"
    );

    for rank in [0, 2] {
        let now = grid.attempts(&format!("{solve}.{rank}"));
        assert_eq!(
            (now.len(), &now[0]["assigned"]),
            (1, &before[rank]["assigned"]),
            "rank {rank} was not disturbed"
        );
    }

    grid.deskgrid(["job", "cancel", &solve, "--tasks", "2"])
        .expect_code(0);
    assert_eq!(
        grid.job(&solve)["state"],
        "cancelled",
        "no rank is of use without the others"
    );
}

#[test]
fn a_job_waits_for_more_hosts_because_a_prediction_says_so_and_is_right() {
    let mut grid = Grid::start();
    for name in ["a", "b", "c"] {
        grid.worker(name).config(EVEN).start();
    }

    ready(&grid, 3);
    // What is known of `sleep`: it takes about two seconds, and sometimes three. So one that takes
    // a little longer than two does not go on for nobody knows how long.
    for (tasks, seconds) in [("1-12", "2"), ("1-6", "3")] {
        let taught = grid.submit(["--array", tasks, "--", "sleep", seconds]);
        grid.wait(&taught);
    }

    let solve = ["--width", "auto", "--work", "30s", "--parallelism", "3:0"];
    let script = "sleep $((30 / DESKGRID_WIDTH)); echo $DESKGRID_WIDTH";
    let asked: Vec<&str> = ["submit"]
        .into_iter()
        .chain(solve)
        .chain(["--dry-run", "--", "sh", "-c", script])
        .collect();
    let free = grid.json(&asked);
    assert_eq!(
        (&free["width"]["chosen"]["hosts"], &free["width"]["free"]),
        (&3.into(), &3.into()),
        "{free}"
    );

    let busy = grid.submit(["--", "sleep", "2"]);
    grid.until("a host is busy", &["job", "info", &busy], |job| {
        (job["tasks"]["running"] == 1).then_some(())
    });

    let asked: Vec<&str> = ["submit"]
        .into_iter()
        .chain(solve)
        .chain(["--", "sh", "-c", script])
        .collect();
    let taken = grid.json(&asked);
    let width = &taken["width"];
    assert_eq!(width["chosen"]["hosts"], 3, "{taken}");

    let ways = width["ways"].as_array().expect("ways");
    let now = ways
        .iter()
        .find(|way| way["hosts"] == 2)
        .unwrap_or_else(|| panic!("two hosts are free: {taken}"));
    let time = |value: &Value| {
        value
            .as_str()
            .unwrap_or_else(|| panic!("no time in {taken}"))
            .to_owned()
    };

    // ISO times in UTC sort as they follow each other.
    let hasty = time(&now["finish"]);
    assert!(time(&width["chosen"]["finish"]) < hasty, "{taken}");

    let number = taken["job"].as_u64().expect("a number").to_string();
    let told = grid.text(["job", "info", &number]);
    assert!(
        told.contains("start now on 2 hosts: done") && told.contains("(chosen)"),
        "{told}"
    );
    assert!(told.contains("for 3: done"), "{told}");

    grid.wait(&number);
    let done = grid.job(&number);
    assert_eq!(
        done["tasks"]["finished"], 3,
        "it ran on three hosts: {done}"
    );
    assert!(
        time(&done["finished"]) < hasty,
        "and was done before it would have been on two: {done}"
    );

    let text = grid.text(["job", "cat", &number, "stdout"]);
    assert_eq!(
        text.lines().filter(|line| line.trim() == "3").count(),
        3,
        "{text}"
    );

    let accuracy = grid.json(["predict", "accuracy", "--scatter"]);
    let hosts = &accuracy["predictors"][0];
    assert_eq!(
        (&hosts["name"], hosts["scatter"].as_array().map(Vec::len)),
        (&"hosts together".into(), Some(1)),
        "{accuracy}"
    );

    // What it learned of itself is told to the next one.
    let next = grid.json([
        "submit",
        "--width",
        "auto",
        "--dry-run",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(next["width"]["scaling"]["runs"], 1, "{next}");
}

#[test]
fn options_that_contradict_a_width_are_refused_with_the_reason() {
    let grid = Grid::start();
    for (words, code, why) in [
        (vec!["--width", "0", "--", "x"], 2, "no number of hosts"),
        (vec!["--width", "9..4", "--", "x"], 2, "no number of hosts"),
        (
            vec!["--width", "2", "--array", "1-3", "--", "x"],
            2,
            "cannot be used with",
        ),
        (
            vec!["--width", "2", "--deadline", "2h", "--", "x"],
            2,
            "cannot be used with",
        ),
        (
            vec!["--width", "2", "--quorum", "2", "--", "x"],
            2,
            "cannot be used with",
        ),
        (
            vec!["--width", "2", "--policy", "FCFS", "--", "x"],
            2,
            "does not decide on how many hosts",
        ),
        (vec!["--policy", "PRED", "--", "x"], 2, "--width"),
        (vec!["--work", "2h", "--", "x"], 2, "--width"),
        (
            vec!["--width", "2", "--parallelism", "0.5", "--", "x"],
            2,
            "no average parallelism",
        ),
    ] {
        let words: Vec<&str> = ["submit"].into_iter().chain(words).collect();
        let refused = grid.deskgrid(&words).expect_code(code).stderr;
        assert!(refused.contains(why), "{words:?}: {refused}");
    }

    let width = grid.json(["submit", "--width", "auto", "--dry-run", "--", "x"])["width"].clone();
    assert!(
        width["why"]
            .as_str()
            .is_some_and(|why| why.contains("hosts at once")),
        "{width}"
    );
}
