//! Disclosed tasks on a real grid: what is requested is there at once if it was executed, takes the place of what nobody waits
//! for if not, and the rest is gone at a word.

use serde_json::Value;
use tests::Grid;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn state<'a>(job: &'a Value, state: &str) -> &'a Value {
    &job["tasks"][state]
}

#[test]
fn what_was_executed_is_there_at_once_when_it_is_requested() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    let told = grid.deskgrid(["submit", "--disclose", "--policy", "BATCH-FCFS", "--", "true"]).expect_code(2).stderr;
    assert!(told.contains("BATCH-FCFS does not tell") && told.contains("FCFSxNEED"), "{told}");
    let job = grid.submit(["--disclose", "--array", "1-3", "--", "sh", "-c", "sleep 0.3; echo result %{TASK_ID}"]);
    let one = format!("{job}.1");
    let info = |grid: &Grid| grid.json(["task", "info", &one]);
    let before = info(&grid);
    assert_eq!((&before["requested"], &before["speculation"]["requested"]), (&Value::Bool(false), &Value::Null));
    grid.until("the first is executed", &["task", "info", &one], |task| (task["state"] == "finished").then_some(()));
    let told = grid.deskgrid(["request", &one, "--wait"]).expect_code(0);
    assert_eq!(told.stdout, "result 1\n", "{}", told.stderr);
    let after = info(&grid);
    let life = &after["speculation"];
    assert_eq!((&after["requested"], number(&life["visible_response_s"])), (&Value::Bool(true), 0.0), "{after}");
    assert_eq!(life["delivered"], life["requested"], "it was there when it was requested: {after}");
    assert!(life["executed"].as_str() <= life["requested"].as_str(), "{after}");

    // The others come one after the other; a request for all of them waits for the last.
    let told = grid.deskgrid(["request", &job, "--wait"]).expect_code(0).stdout;
    assert!(told.contains("result 2") && told.contains("result 3"), "{told}");
    assert_eq!(grid.json(["job", "info", &job])["state"], "finished");
}

#[test]
fn a_request_takes_the_place_of_disclosed_work_and_the_rest_is_dropped() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    grid.worker("h2").slots(1).start();
    let idle = grid.submit(["--disclose", "--array", "1-4", "--", "sleep", "600"]);
    grid.until("both hosts work on it", &["job", "info", &idle], |job| (*state(job, "running") == 2).then_some(()));
    assert_eq!(*state(&grid.json(["job", "info", &idle]), "disclosed"), 2);

    let wanted = grid.submit(["--disclose", "--array", "1-2", "--", "sh", "-c", "echo here"]);
    let told = grid.deskgrid(["request", &format!("{wanted}.2"), "--wait"]).expect_code(0);
    assert_eq!(told.stdout, "here\n", "{}", told.stderr);
    let tasks = grid.json(["task", "list", &idle]);
    let reasons: Vec<&str> = tasks["tasks"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|task| task["attempts"].as_array().expect("a list"))
        .filter_map(|attempt| attempt["reason"].as_str())
        .collect();
    let by = format!("made room for task {wanted}.2");
    assert!(reasons.iter().any(|why| why.contains(&by)), "{reasons:?}");

    grid.deskgrid(["job", "cancel", &idle, "--unrequested"]).expect_code(0);
    grid.until("nothing runs any more", &["job", "info", &idle], |job| (job["state"] == "cancelled").then_some(()));
    grid.deskgrid(["job", "cancel", &wanted, "--unrequested"]).expect_code(0);
    grid.until("both hosts are free", &["host", "list"], |hosts| {
        hosts["hosts"].as_array()?.iter().all(|host| host["state"] == "ready").then_some(())
    });
}

#[test]
fn the_account_adds_up_to_what_the_workers_reported_and_bills_only_what_was_requested() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    let burn = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo done";
    let job = grid.submit(["--disclose", "--array", "1-4", "--", "sh", "-c", burn]);
    grid.deskgrid(["request", &format!("{job}.1-2"), "--wait"]).expect_code(0);
    grid.until("all are executed", &["job", "info", &job], |job| (*state(job, "finished") == 4).then_some(()));
    let tasks = grid.json(["task", "list", &job]);
    let spent = |wanted: fn(&Value) -> bool| -> f64 {
        let tasks = tasks["tasks"].as_array().expect("a list").iter().filter(|task| wanted(task));
        tasks.flat_map(|task| task["attempts"].as_array().expect("a list")).map(|a| number(&a["cpu_s"])).sum()
    };
    let look = |grid: &Grid| grid.json(["account", "--jobs"])["accounts"].clone();
    let accounts = look(&grid);
    for account in [&accounts[0], &accounts[1]] {
        assert!((number(&account["used_s"]) - spent(|_| true)).abs() < 1e-6, "{accounts}");
        assert!((number(&account["billed_s"]) - spent(|task| task["requested"] == true)).abs() < 1e-6, "{accounts}");
        assert!(number(&account["free_s"]) > 0.0, "{accounts}");
        assert_eq!((&account["requested"], &account["finished"]), (&Value::from(2), &Value::from(2)), "{accounts}");
        assert!(number(&account["scaled_if_all_billed"]) > 1.0, "{accounts}");
    }
    assert_eq!((&accounts[0]["job"], accounts[1]["job"].to_string()), (&Value::Null, job.clone()), "{accounts}");

    // What is forgotten stays in the account.
    grid.deskgrid(["job", "forget", &job]).expect_code(0);
    let kept = look(&grid);
    assert_eq!((kept.as_array().map(Vec::len), &kept[0]["used_s"]), (Some(1), &accounts[0]["used_s"]), "{kept}");
}
