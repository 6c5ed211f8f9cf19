//! One bad PC does not eat the bag: rows C18 of the attack and B2 of a new user's first hour.

use std::time::Duration;

use serde_json::Value;
use tests::Grid;

/// A host on which no program is found.
const BROKEN: &str = "path = \"/nonexistent\"\n";

#[test]
fn a_host_that_finds_no_program_does_not_eat_a_bag_without_retries() {
    let mut grid = Grid::start();
    grid.worker("good").slots(1).start();
    grid.worker("broken").slots(1).config(BROKEN).start();
    let job = grid.submit(["--array", "1-60", "--", "sleep", "0.1"]);
    grid.wait(&job);
    let info = &grid.job(&job);
    let attempts = info["attempts"].as_u64().expect("a number");
    assert_eq!(info["state"], Value::from("finished"), "{info}");
    assert!(
        (61..=75).contains(&attempts),
        "the broken host was tried a few times: {info}"
    );
}

#[test]
fn a_failed_job_begins_with_its_failures_by_cause_and_host() {
    let mut grid = Grid::start();
    grid.worker("desk-1").slots(1).start();

    let script = "echo lost the licence server >&2; exit $((DESKGRID_TASK_ID % 2 + 3))";
    let job = grid.deskgrid([
        "--output", "quiet", "submit", "--array", "1-9", "--", "sh", "-c", script,
    ]);
    let job = job.expect_code(0).stdout.trim().to_owned();
    grid.deskgrid(["job", "wait", &job]).expect_code(3);

    let info = grid.text(["job", "info", &job]);
    let first: Vec<&str> = info.lines().take(2).collect();
    assert!(
        first[0].starts_with("5 attempts: ended with exit code 4 (5 on desk-1), as task "),
        "{info}"
    );
    assert_eq!(first[1], "    lost the licence server", "{info}");

    let info = grid.job(&job);
    assert_eq!(info["failures"][1]["attempts"], 4, "{info}");
    assert_eq!(info["failures"][1]["hosts"][0]["host"], "desk-1", "{info}");
}

#[test]
fn a_program_that_no_host_has_fails_its_job_at_once_and_says_so() {
    for hosts in [1, 3] {
        let mut grid = Grid::start();
        for host in 0..hosts {
            grid.worker(&format!("h{host}")).slots(1).start();
        }

        grid.deskgrid([
            "submit",
            "--wait",
            "--retries",
            "10",
            "--",
            "no-such-program-here",
        ])
        .expect_code(3);

        let reason = grid.attempts("1.1")[0]["reason"].to_string();
        assert!(reason.contains("no-such-program-here"), "{reason}");
        assert_eq!(grid.job("last")["attempts"], Value::from(hosts));
    }
}

#[test]
fn a_benched_host_shows_its_next_task_and_how_to_end_the_bench_and_its_pc_says_why() {
    let mut grid = Grid::start();
    grid.worker("good").slots(1).start();
    grid.worker("bad").slots(1).start();

    let job = "--array 1-30 --retries 9 --wait -- sh -c";
    let fails_there = ["sleep 0.05; test $DESKGRID_HOST = good"];
    for _ in 0..3 {
        let words = std::iter::once("submit").chain(job.split(' '));
        grid.deskgrid(words.chain(fails_there)).expect_code(0);
    }
    grid.until("it is benched", &["host", "info", "bad"], |host| {
        (host["state"] == "benched").then_some(())
    });

    let waits = grid.submit(["--array", "1-2", "--", "sleep", "600"]);
    let next = "it gets one task at a time after a pause, until one succeeds; an admin can end that with: \
                deskgrid host resume bad";
    for words in [
        &["host", "list"][..],
        &["host", "info", "bad"],
        &["job", "explain", &waits],
    ] {
        // On a busy machine it may be silent for a moment, and is suspect first.
        tests::eventually(&format!("{words:?}"), Duration::from_secs(60), || {
            let told = grid.text(words);
            told.contains(next).then_some(())
        });
    }

    let on_the_pc = |verb: &[&str]| {
        grid.as_user("bad", verb.iter().copied())
            .expect_code(0)
            .stdout
    };
    let service = "out of service  benched: ";
    for verb in [&["worker", "status"][..], &["doctor"]] {
        let told = on_the_pc(verb);
        assert!(
            told.contains("benched: ") && told.contains("it gets one task at a time"),
            "{told}"
        );
    }
    grid.admin(["host", "resume", "bad"]).expect_code(0);
    let told = grid.text(["host", "list"]);
    assert!(!told.contains(next), "{told}");
    tests::eventually(
        "the PC is in service again",
        Duration::from_secs(60),
        || (!on_the_pc(&["worker", "status"]).contains(service)).then_some(()),
    );
}
