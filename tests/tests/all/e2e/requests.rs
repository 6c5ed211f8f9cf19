//! `deskgrid request` as people use it: what it says of what cannot be requested, and waiting for
//! results through whatever happens to the master.

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::Grid;

/// How many tasks of a job are in this state.
fn count(grid: &Grid, job: &str, state: &str) -> Value {
    grid.job(job)["tasks"][state].clone()
}

/// A script that waits for a file in the grid's directory.
fn wait_for(grid: &Grid, gate: &str) -> String {
    format!(
        "while test ! -e {}; do sleep 0.05; done",
        grid.dir().join(gate).display()
    )
}

#[test]
fn a_waiting_request_outlives_a_restart_of_the_master_and_prints_each_result_once() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();

    let script = format!(
        "test %{{TASK_ID}} = 1 || {{ {}; }}; echo %{{TASK_ID}}",
        wait_for(&grid, "gate")
    );
    let job = grid.submit(["--disclose", "--array", "1-3", "--", "sh", "-c", &script]);
    let waiting = grid.background(["request", &format!("{job}.1-3"), "--wait"]);

    // From then on it waits: before, a master that goes takes the question with it.
    let last = ["task", "info", &format!("{job}.3")];
    grid.until("it is requested", &last, |task| {
        (task["requested"] == true).then_some(())
    });
    grid.until("the first is there", &["job", "info", &job], |job| {
        (job["tasks"]["finished"] == 1).then_some(())
    });
    grid.kill_master();
    grid.start_master();
    grid.file("gate", "");

    let told = waiting.finish().expect_code(0);
    assert_eq!(told.stdout, "1\n2\n3\n", "{}", told.stderr);
    assert!(told.stderr.contains("connecting again"), "{}", told.stderr);
}

#[test]
fn an_impossible_request_is_refused_and_changes_nothing() {
    let grid = Grid::start();
    let job = grid.submit(["--disclose", "--noop", "--array", "1-3"]);
    let of = |tasks: &str| format!("{job}.{tasks}");
    let changes = [
        vec!["request", "7"],
        vec!["request", "2-900"],
        vec!["cancel", "99"],
        vec!["retry", "99"],
    ];
    for change in changes {
        let told = match change[..] {
            ["request", tasks] => grid.deskgrid(["request", &of(tasks)]),
            [verb, tasks] => grid.deskgrid(["job", verb, &job, "--tasks", tasks]),
            _ => unreachable!("there are two words each"),
        };
        let told = told.expect_code(1).stderr;
        assert!(told.contains(&format!("job {job} has no task")), "{told}");
    }

    assert_eq!(count(&grid, &job, "disclosed"), 3);

    grid.deskgrid(["job", "cancel", &job, "--tasks", "3"])
        .expect_code(0);
    let told = grid.deskgrid(["request", &of("3")]).expect_code(1).stderr;
    assert!(
        told.contains("cancelled") && told.contains(&format!("job retry {job} --tasks 3")),
        "{told}"
    );

    let told = grid.text(["request", &of("2-3")]);
    assert!(
        told.contains("1 task requested") && told.contains(&format!("job retry {job} --tasks 3")),
        "{told}"
    );

    let told = grid.json(["request", &job]);
    assert_eq!(
        (&told["requested"], &told["cancelled"]),
        (&Value::from(1), &Value::from(1)),
        "{told}"
    );

    let told = grid.text(["request", &of("1-2")]);
    assert!(
        told.contains("0 tasks requested") && told.contains("2 had been before"),
        "{told}"
    );

    let other = grid.submit(["--noop"]);
    let told = grid.text(["request", &other]);
    assert!(
        told.contains("was not disclosed") && told.contains("since it was submitted"),
        "{told}"
    );
}

#[test]
fn many_results_that_are_there_come_in_a_few_requests() {
    let mut grid = Grid::start_with("[limits]\nrequests_per_s = 10\n");
    grid.worker("h1").slots(4).start();

    let job = grid.submit(["--disclose", "--noop", "--array", "1-300"]);
    grid.wait(&job);

    let began = Instant::now();
    let told = grid
        .deskgrid(["request", &job, "--wait"])
        .expect_code(0)
        .stderr;
    assert_eq!(told.matches("is finished").count(), 300, "{told}");
    assert!(
        began.elapsed() < Duration::from_secs(25),
        "one request each takes half a minute, and this {:?}",
        began.elapsed()
    );
}

#[test]
fn a_failed_task_without_its_output_shows_how_to_rerun_it() {
    let mut grid = Grid::start_with("[limits]\nunrequested_bytes_per_user = 1100\n");
    grid.worker("h1").unconfined().slots(2).start();

    let script = format!(
        "{}; head -c 999 /dev/zero | tr '\\0' x; exit 3",
        wait_for(&grid, "gate")
    );
    let job = grid.submit(["--disclose", "--array", "1-2", "--", "sh", "-c", &script]);
    grid.until("both run", &["job", "info", &job], |job| {
        (job["tasks"]["running"] == 2).then_some(())
    });
    grid.file("gate", "");

    let removed = |info: &Value| {
        info["speculation"]["removed"]
            .is_string()
            .then(|| info.clone())
    };
    let gone = |tasks: &Value| tasks["tasks"].as_array()?.iter().find_map(removed);
    let info = grid.until("the oldest is removed", &["task", "list", &job], gone);
    assert_eq!(info["state"], "failed", "{info}");

    let task = info["task"].as_str().expect("a task");
    let index = task.rsplit('.').next().expect("an index");
    let again = format!("job retry {job} --tasks {index} runs it again");
    let told = grid
        .deskgrid(["request", task, "--wait"])
        .expect_code(3)
        .stderr;
    assert!(
        told.contains(&again) && !told.contains("deskgrid request"),
        "{told}"
    );

    let told = grid.deskgrid(["job", "cat", &job, "stdout"]).expect_code(0);
    assert!(
        told.stderr.contains(&again) && told.stdout.len() == 999,
        "{}",
        told.stderr
    );
    grid.deskgrid(["job", "retry", &job, "--tasks", index])
        .expect_code(0);

    let told = grid.deskgrid(["request", task, "--wait"]).expect_code(3);
    assert_eq!(
        (told.stdout.len(), grid.attempts(task).len()),
        (999, 2),
        "{}",
        told.stderr
    );

    assert!(grid.json(["task", "info", task])["speculation"]["removed"].is_null());
}

#[test]
fn lists_show_unrequested_tasks_and_only_real_drops_are_reported() {
    let grid = Grid::start();
    let plain = grid.submit(["--noop"]);
    grid.deskgrid(["job", "cancel", &plain]).expect_code(0);

    let job = grid.submit(["--disclose", "--noop", "--array", "1-2"]);
    grid.deskgrid(["request", &format!("{job}.2")])
        .expect_code(0);

    let list = grid.text(["task", "list", &job]);
    let lines: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let column = lines[0]
        .iter()
        .position(|head| *head == "REQUESTED")
        .expect("a column");
    assert_eq!(
        (lines[1][column], lines[2][column]),
        ("no", "yes"),
        "{list}"
    );
    assert!(!grid.text(["task", "list", &plain]).contains("REQUESTED"));

    let account = &grid.json(["account"])["accounts"][0];
    // Nothing was tried; what was not disclosed was requested when it was submitted.
    assert_eq!(
        (&account["tasks"], &account["requested"]),
        (&Value::from(2), &Value::from(2)),
        "{account}"
    );

    let told = grid.text(["job", "cancel", "all", "--unrequested"]);
    assert_eq!(told, format!("job {job}: 1 task cancelled\n"));

    let told = grid.text(["job", "cancel", "all", "--unrequested"]);
    assert_eq!(told, "nothing to do\n");
}

#[test]
fn a_search_whose_rest_is_dropped_has_finished() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    let job = grid.submit(["--disclose", "--array", "1-3", "--", "true"]);
    grid.deskgrid(["request", &format!("{job}.1")])
        .expect_code(0);
    grid.deskgrid(["job", "cancel", &job, "--unrequested"])
        .expect_code(0);

    grid.wait(&job);
    assert_eq!(grid.job(&job)["state"], "finished");
}
