//! Masters and workers that die without a word.

use std::time::Duration;

use tests::Grid;

use super::{COUNT, all_gone, expect_all_counted, long_sleep, running, ten_are_finished};

#[test]
fn no_acknowledged_work_is_lost_when_the_master_is_killed_in_a_bag() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    grid.worker("h2").slots(2).start();

    let bag = grid.submit(COUNT);
    let waiting = grid.background(["job", "wait", &bag]);
    let before = ten_are_finished(&grid, &bag);

    grid.kill_master();
    grid.start_master();
    assert!(
        grid.job(&bag)["tasks"]["finished"].as_u64() >= Some(before),
        "acknowledged results are still there"
    );
    waiting.finish().expect_code(0);

    let finished = grid.job(&bag);
    assert_eq!(
        (&finished["state"], &finished["tasks"]["finished"]),
        (&"finished".into(), &60.into())
    );

    expect_all_counted(&grid, &bag);
}

#[test]
fn workers_compute_on_while_the_master_is_down_and_deliver_afterwards() {
    let mut grid = Grid::with_worker();

    let bag = grid.submit(["--", "sh", "-c", "sleep 1; echo done"]);
    grid.until_it_runs(&format!("{bag}.1"));
    grid.kill_master();
    std::thread::sleep(Duration::from_secs(2)); // The outage itself: longer than the task.
    grid.start_master();
    grid.wait(&bag);

    assert_eq!(
        grid.attempts(&format!("{bag}.1")).len(),
        1,
        "it was not run again"
    );
}

#[test]
fn tasks_of_a_killed_worker_die_with_it_and_finish_elsewhere() {
    let mut grid = Grid::start();
    grid.worker("doomed").slots(2).start();

    let sleep = long_sleep();
    let script = format!(
        "test $DESKGRID_HOST != doomed || {{ setsid sleep {sleep} & sleep {sleep}; }}; echo $DESKGRID_HOST"
    );
    let bag = grid.submit(["--array", "1-2", "--", "sh", "-c", &script]);

    running(&sleep);
    grid.until("both tasks run", &["job", "info", &bag], |j| {
        (j["tasks"]["running"] == 2).then_some(())
    });
    grid.worker("heir").slots(2).start();
    grid.kill_worker("doomed");
    all_gone(&format!("sleep {sleep}"), Duration::from_secs(30));

    grid.wait(&bag);
    assert_eq!(grid.text(["job", "cat", &bag, "stdout"]), "heir\nheir\n");

    let tries = grid.attempts(&format!("{bag}.1"));
    assert!(
        tries.len() >= 2 && tries[0]["host"] == "doomed" && tries[0]["state"] != "finished",
        "{tries:?}"
    );
    assert!(
        tries[0]["reason"].as_str().is_some_and(|r| !r.is_empty()),
        "says why: {tries:?}"
    );
}

#[test]
fn a_silent_host_is_explained_in_numbers_and_its_tasks_copy_says_why_it_was_made() {
    let mut grid = Grid::with_master("");
    grid.worker("h1").dedicated().start();
    let script = "test $DESKGRID_HOST = h2 || sleep 3600";
    let bag = grid.submit(["--", "sh", "-c", script]);
    let task = format!("{bag}.1");
    grid.until_it_runs(&task);

    let heard = grid.json(["job", "explain", &bag]);
    let row = &heard["running"][0];
    assert_eq!(
        (&row["attempt"], &row["host"], &row["gone"]),
        (
            &format!("{task}#1").into(),
            &"h1".into(),
            &serde_json::json!(0.0)
        ),
        "{heard}"
    );

    grid.kill_worker("h1");
    let silent = grid.until("h1 is doubted", &["job", "explain", &bag], |said| {
        let row = &said["running"][0];
        (row["silent_s"].as_f64()? > 0.0).then(|| row.clone())
    });
    assert!(silent["gone"].as_f64() >= Some(0.5), "{silent}");
    assert!(silent["copied_in_s"].as_f64().is_some(), "{silent}");

    grid.worker("h2").dedicated().start();
    grid.wait(&bag);
    let tries = grid.attempts(&task);
    let why = tries[1]["reason"].as_str().unwrap_or_default();
    assert!(why.contains("of whose host nothing is heard"), "{tries:?}");
    let shown = grid.text(["task", "info", &task]);
    assert!(shown.contains("of whose host nothing is heard"), "{shown}");
}

#[test]
fn a_worker_that_is_killed_comes_back_as_the_same_host() {
    let mut grid = Grid::with_worker();
    grid.kill_worker("h1");
    grid.worker("h1").start();
    assert_eq!(
        grid.json(["host", "list"])["hosts"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    grid.submit(["--wait", "--", "true"]);
}

#[test]
fn the_counts_of_a_host_and_its_orderly_end_survive_a_killed_master() {
    let mut grid = Grid::with_worker();
    grid.worker("h2").start();
    grid.submit(["--array", "1-5", "--wait", "--", "true"]);
    let finished = |grid: &Grid| -> u64 {
        let hosts = grid.json(["host", "list"]);
        let hosts = hosts["hosts"].as_array().expect("a list").clone();
        let of_each = hosts.iter().filter_map(|host| host["finished"].as_u64());
        of_each.sum()
    };
    assert_eq!(finished(&grid), 5);

    let left = |host: &serde_json::Value| {
        (host["state"] == "lost" && host["reason"] == "its worker shut down").then_some(())
    };
    grid.running("h1").terminate();
    grid.until(
        "the master knows that it left",
        &["host", "info", "h1"],
        left,
    );
    grid.kill_master();
    grid.kill_worker("h2");
    grid.start_master();
    assert_eq!(finished(&grid), 5, "finished attempts are still counted");
    assert!(left(&grid.json(["host", "info", "h1"])).is_some());
    let state = &grid.json(["host", "info", "h2"])["state"];
    assert!(state == "suspect" || state == "lost", "{state}");
}
