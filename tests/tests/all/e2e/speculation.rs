//! Disclosed tasks on a real grid: what is requested is there at once if it was executed, takes the
//! place of what nobody waits for if not, and the rest is gone at a word.

use std::time::Duration;

use serde_json::Value;
use tests::{Grid, Started};

use super::number;

fn state<'a>(job: &'a Value, state: &str) -> &'a Value {
    &job["tasks"][state]
}

#[test]
fn an_executed_task_is_delivered_at_once_when_requested() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();

    let told = grid
        .deskgrid([
            "submit",
            "--disclose",
            "--policy",
            "BATCH-FCFS",
            "--",
            "true",
        ])
        .expect_code(2)
        .stderr;
    assert!(
        told.contains("BATCH-FCFS does not tell") && told.contains("FCFSxNEED"),
        "{told}"
    );

    let job = grid.submit([
        "--disclose",
        "--array",
        "1-3",
        "--",
        "sh",
        "-c",
        "sleep 0.3; echo result %{TASK_ID}",
    ]);
    let one = format!("{job}.1");
    let info = |grid: &Grid| grid.json(["task", "info", &one]);
    let before = info(&grid);
    assert_eq!(
        (&before["requested"], &before["speculation"]["requested"]),
        (&Value::Bool(false), &Value::Null)
    );
    grid.until("the first is executed", &["task", "info", &one], |task| {
        (task["state"] == "finished").then_some(())
    });

    let told = grid.deskgrid(["request", &one, "--wait"]).expect_code(0);
    assert_eq!(told.stdout, "result 1\n", "{}", told.stderr);

    let after = info(&grid);
    let life = &after["speculation"];
    assert_eq!(
        (&after["requested"], number(&life["visible_response_s"])),
        (&Value::Bool(true), 0.0),
        "{after}"
    );
    assert_eq!(
        life["delivered"], life["requested"],
        "it was there when it was requested: {after}"
    );
    assert!(
        life["executed"].as_str() <= life["requested"].as_str(),
        "{after}"
    );

    // The others come one after the other; a request for all of them waits for the last.
    let told = grid.text(["request", &job, "--wait"]);
    assert!(
        told.contains("result 2") && told.contains("result 3"),
        "{told}"
    );
    assert_eq!(grid.job(&job)["state"], "finished");
}

#[test]
fn a_request_takes_the_place_of_disclosed_work_and_the_rest_is_dropped() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    grid.worker("h2").slots(1).start();

    let idle = grid.submit(["--disclose", "--array", "1-4", "--", "sleep", "600"]);
    grid.until("both hosts work on it", &["job", "info", &idle], |job| {
        (*state(job, "running") == 2).then_some(())
    });
    assert_eq!(*state(&grid.job(&idle), "disclosed"), 2);

    let wanted = grid.submit([
        "--disclose",
        "--array",
        "1-2",
        "--",
        "sh",
        "-c",
        "echo here",
    ]);
    let told = grid
        .deskgrid(["request", &format!("{wanted}.2"), "--wait"])
        .expect_code(0);
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

    grid.deskgrid(["job", "cancel", &idle, "--unrequested"])
        .expect_code(0);
    grid.until("nothing runs any more", &["job", "info", &idle], |job| {
        (job["state"] == "cancelled").then_some(())
    });
    grid.deskgrid(["job", "cancel", &wanted, "--unrequested"])
        .expect_code(0);
    grid.until_ready();
}

#[test]
fn the_account_bills_only_requested_work_and_matches_the_workers() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();

    let burn = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo done";
    let job = grid.submit(["--disclose", "--array", "1-4", "--", "sh", "-c", burn]);
    grid.deskgrid(["request", &format!("{job}.1-2"), "--wait"])
        .expect_code(0);
    grid.until("all are executed", &["job", "info", &job], |job| {
        (*state(job, "finished") == 4).then_some(())
    });

    let tasks = grid.json(["task", "list", &job]);
    let spent = |wanted: fn(&Value) -> bool| -> f64 {
        let tasks = tasks["tasks"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|task| wanted(task));
        tasks
            .flat_map(|task| task["attempts"].as_array().expect("a list"))
            .map(|a| number(&a["cpu_s"]))
            .sum()
    };

    let look = |grid: &Grid| grid.json(["account", "--jobs"])["accounts"].clone();
    let accounts = look(&grid);
    for account in [&accounts[0], &accounts[1]] {
        assert!(
            (number(&account["used_s"]) - spent(|_| true)).abs() < 1e-6,
            "{accounts}"
        );
        assert!(
            (number(&account["billed_s"]) - spent(|task| task["requested"] == true)).abs() < 1e-6,
            "{accounts}"
        );
        assert!(number(&account["free_s"]) > 0.0, "{accounts}");
        assert_eq!(
            (&account["requested"], &account["finished"]),
            (&Value::from(2), &Value::from(2)),
            "{accounts}"
        );
        assert!(number(&account["scaled_if_all_billed"]) > 1.0, "{accounts}");
    }

    assert_eq!(
        (&accounts[0]["job"], accounts[1]["job"].to_string()),
        (&Value::Null, job.clone()),
        "{accounts}"
    );

    // What is forgotten stays in the account.
    grid.deskgrid(["job", "forget", &job]).expect_code(0);
    let kept = look(&grid);
    assert_eq!(
        (kept.as_array().map(Vec::len), &kept[0]["used_s"]),
        (Some(1), &accounts[0]["used_s"]),
        "{kept}"
    );
}

/// The attempts of a task.
#[test]
fn a_user_who_thinks_during_execution_waits_less_and_drops_the_rest() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    grid.worker("h2").slots(1).start();

    let job = grid.submit([
        "--disclose",
        "--array",
        "1-6",
        "--",
        "sh",
        "-c",
        "sleep 4; echo %{TASK_ID}",
    ]);
    grid.deskgrid(["request", &format!("{job}.1"), "--wait"])
        .expect_code(0);

    let third = format!("{job}.3");
    // From here on the user waits for less than the task runs.
    grid.until(
        "it has run for a while",
        &["task", "info", &third],
        |info| {
            let run_s = info["attempts"].as_array()?.last()?["run_s"].as_f64()?;
            (run_s >= 2.0).then_some(())
        },
    );

    let told = grid.text(["request", &third, "--wait"]);
    assert_eq!(told, "3\n");

    let info = grid.json(["task", "info", &third]);
    let response_s = number(&info["speculation"]["visible_response_s"]);
    let took_s = number(&info["attempts"][0]["run_s"]);
    assert!(
        (0.0..took_s).contains(&response_s) && took_s >= 4.0,
        "{info}"
    );
    grid.deskgrid(["job", "cancel", &job, "--unrequested"])
        .expect_code(0);

    let info = grid.job(&job);
    assert_eq!(info["state"], "finished", "{info}");
    grid.until_ready();
}

#[test]
fn an_evicted_task_is_frozen_on_its_host_without_loss() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();

    let gate = grid.dir().join("gate");
    let script = format!(
        "while test ! -e {}; do sleep 0.05; done; echo done",
        gate.display()
    );
    let idle = grid.submit(["--disclose", "--", "sh", "-c", &script]);
    let task = format!("{idle}.1");
    grid.until_it_runs(&task);

    let hold = grid.dir().join("hold");
    let script = format!(
        "while test ! -e {}; do sleep 0.05; done; echo here",
        hold.display()
    );
    let wanted = grid.submit(["--", "sh", "-c", &script]);
    let by = format!("made room for task {wanted}.1");
    let state = |state: &'static str| {
        move |info: &Value| {
            (info["attempts"][0]["state"] == state && info["state"] == state).then_some(())
        }
    };
    grid.until(
        "it stands still",
        &["task", "info", &task],
        state("suspended"),
    );

    grid.until_it_runs(&format!("{wanted}.1"));
    let explained = grid.text(["job", "explain", &idle]);
    assert!(
        explained.contains(&by) && explained.contains("frozen"),
        "{explained}"
    );

    // What it waits for is there; it does not see it.
    grid.file("gate", "");
    grid.kill_master();
    grid.start_master();
    grid.until("still", &["task", "info", &task], state("suspended"));
    assert_eq!(
        grid.json(["host", "list"])["hosts"][0]["attempts"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );

    grid.file("hold", "");
    grid.wait(&wanted);
    grid.wait(&idle);

    let all = grid.attempts(&task);
    let reason = all[0]["reason"].as_str().expect("a reason");
    assert_eq!(
        (all.len(), &all[0]["state"]),
        (1, &Value::from("finished")),
        "{all:?}"
    );
    assert!(
        reason.contains(&by) && number(&all[0]["suspended_s"]) > 0.0,
        "{all:?}"
    );
}

#[test]
fn a_host_that_cannot_freeze_saves_and_resumes_the_task() {
    let mut grid = Grid::start_with("frozen_per_slot = 0\n");
    grid.worker("h1").unconfined().start();

    let gate = grid.dir().join("gate");
    let step = "n=$((n+1)); echo $n > $DESKGRID_CHECKPOINT_DIR/new; mv $DESKGRID_CHECKPOINT_DIR/new $state";
    let script = format!(
        "state=$DESKGRID_CHECKPOINT_DIR/n; n=0; test -e $state && read n < $state; from=$n; \
         {step}; while test ! -e {}; do {step}; sleep 0.05; done; echo $from",
        gate.display()
    );
    let idle = grid.submit([
        "--disclose",
        "--checkpoint",
        "1h",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let task = format!("{idle}.1");
    grid.until_it_runs(&task);

    let written = || {
        let mut files = walkdir::WalkDir::new(grid.state("h1"))
            .into_iter()
            .flatten();
        files.any(|file| file.file_name() == "n").then_some(())
    };
    tests::eventually(
        "there is a state to be saved",
        Duration::from_secs(60),
        written,
    );

    let hold = grid.dir().join("hold");
    let script = format!("while test ! -e {}; do sleep 0.05; done", hold.display());
    let wanted = grid.submit(["--", "sh", "-c", &script]);
    let saved =
        |info: &Value| (info["attempts"][0]["checkpoint"]["bytes"].as_u64()? > 0).then_some(());
    grid.until(
        "its state is saved, an hour before its time",
        &["task", "info", &task],
        saved,
    );
    grid.file("hold", "");
    grid.wait(&wanted);
    grid.until_it_runs(&task);

    let all = grid.attempts(&task);
    assert_eq!(
        (all.len(), &all[0]["state"]),
        (2, &Value::from("killed")),
        "{all:?}"
    );

    let reason = all[0]["reason"].as_str().expect("a reason");
    assert!(
        reason.contains(&format!(
            "made room for task {wanted}.1, its state being kept"
        )),
        "{all:?}"
    );

    grid.file("gate", "");
    grid.deskgrid(["request", &idle, "--wait"]).expect_code(0);

    let all = grid.attempts(&task);
    let from: u64 = grid
        .text(["job", "cat", &idle, "stdout"])
        .trim()
        .parse()
        .expect("a number");
    assert!(
        from > 0 && all[1]["started_from"]["attempt"] == 1,
        "{all:?}"
    );
}

#[test]
fn stopped_attempts_are_in_the_account() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();

    let burn = "i=0; while :; do i=$((i+1)); done";
    let job = grid.submit(["--disclose", "--array", "1-2", "--", "sh", "-c", burn]);
    for task in 1..=2 {
        grid.until_it_runs(&format!("{job}.{task}"));
    }

    grid.deskgrid(["request", &format!("{job}.1")])
        .expect_code(0);
    grid.deskgrid(["job", "cancel", &job, "--unrequested"])
        .expect_code(0);
    grid.deskgrid(["job", "cancel", &job]).expect_code(0);

    let spent = |tasks: &Value| -> Option<Vec<f64>> {
        let tasks = tasks["tasks"].as_array()?.iter();
        let spent: Vec<f64> = tasks
            .map(|task| number(&task["attempts"][0]["cpu_s"]))
            .collect();
        spent.iter().all(|cpu_s| *cpu_s > 0.0).then_some(spent)
    };
    let spent = grid.until(
        "the worker has said what both took",
        &["task", "list", &job],
        spent,
    );
    let account = &grid.json(["account"])["accounts"][0];
    assert!(
        (number(&account["used_s"]) - spent.iter().sum::<f64>()).abs() < 1e-6,
        "{account} {spent:?}"
    );
    assert!(
        (number(&account["billed_s"]) - spent[0]).abs() < 1e-6,
        "{account} {spent:?}"
    );
    assert!(
        (number(&account["free_s"]) - spent[1]).abs() < 1e-6,
        "{account} {spent:?}"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn unrequested_output_is_bounded_and_evicted_output_runs_again() {
    let mut grid = Grid::start_with("[limits]\nunrequested_bytes_per_user = 1100\n");
    grid.worker("h1").unconfined().slots(2).start();

    let gate = grid.dir().join("gate");
    let wait = format!("while test ! -e {}; do sleep 0.05; done", gate.display());
    let script = format!("{wait}; head -c 999 /dev/zero | tr '\\0' x; echo %{{TASK_ID}}");
    let job = grid.submit(["--disclose", "--array", "1-5", "--", "sh", "-c", &script]);
    for task in 1..=2 {
        grid.until_it_runs(&format!("{job}.{task}"));
    }

    grid.file("gate", "");
    // The second result is more than there may be: the first one goes, and nothing else is started.
    let removed = |info: &Value| {
        info["speculation"]["removed"]
            .is_string()
            .then(|| info.clone())
    };
    let gone = |tasks: &Value| tasks["tasks"].as_array()?.iter().find_map(removed);
    let info = grid.until("the oldest is removed", &["task", "list", &job], gone);
    let first = info["task"].as_str().expect("a task").to_owned();
    let second = if first.ends_with(".1") {
        format!("{job}.2")
    } else {
        format!("{job}.1")
    };

    assert_eq!(
        (&info["state"], &info["requested"]),
        (&Value::from("finished"), &Value::Bool(false)),
        "{info}"
    );
    assert!(
        info["reason"]
            .as_str()
            .is_some_and(|why| why.contains("a request runs it again")),
        "{info}"
    );

    let still = |grid: &Grid| {
        let info = grid.job(&job);
        assert_eq!(
            (state(&info, "finished"), state(&info, "disclosed")),
            (&2.into(), &3.into()),
            "{info}"
        );
        assert_eq!(
            grid.json(["task", "info", &format!("{job}.5")])["state"],
            "disclosed"
        );

        let explained = grid.text(["job", "explain", &job]);
        assert!(
            explained.contains("as much is kept of its user's unrequested output as may be"),
            "{explained}"
        );
    };
    still(&grid);
    assert_eq!(grid.json(["account"])["accounts"][0]["kept_bytes"], 1001);

    let index = first.rsplit('.').next().expect("an index");
    let told = grid
        .deskgrid(["job", "cat", &job, "stdout", index])
        .expect_code(0);
    assert!(
        told.stdout.is_empty() && told.stderr.contains(&format!("deskgrid request {first}")),
        "{}",
        told.stderr
    );

    grid.kill_master();
    grid.start_master();
    grid.until_ready();
    still(&grid);

    let told = grid.text(["request", &first, "--wait"]);
    assert!(
        told.len() == 1001 && told.ends_with(&format!("x{index}\n")),
        "{told}"
    );

    let all = grid.attempts(&first);
    assert_eq!(
        (all.len(), &all[0]["state"], &all[1]["state"]),
        (2, &"lost".into(), &"finished".into()),
        "{all:?}"
    );

    let told = grid.text(["request", &second, "--wait"]);
    assert_eq!(told.len(), 1001, "{told}");
    assert_eq!(
        grid.attempts(&second).len(),
        1,
        "what was not removed is there at once"
    );

    // There is room for more of it now; and what was requested stays whatever comes.
    grid.until("others are executed", &["job", "info", &job], |job| {
        (*state(job, "finished") == 4).then_some(())
    });
    assert!(grid.json(["task", "info", &first])["speculation"]["removed"].is_null());

    // Also a job that was settled in the meantime runs again.
    grid.deskgrid(["job", "cancel", &job, "--unrequested"])
        .expect_code(0);
    grid.deskgrid(["job", "forget", &job]).expect_code(0);

    let other = grid.submit(["--disclose", "--", "sh", "-c", "head -c 2600 /dev/zero"]);
    let one = format!("{other}.1");
    grid.until(
        "what is too large at once is removed at once",
        &["task", "info", &one],
        removed,
    );
    assert_eq!(grid.job(&other)["state"], "finished");

    let told = grid.text(["request", &other, "--wait"]);
    assert_eq!((told.len(), grid.attempts(&one).len()), (2600, 2));
    assert_eq!(grid.job(&other)["state"], "finished");
}

#[test]
fn a_result_that_cannot_be_read_ends_the_wait_for_it() {
    let grid = Grid::with_worker();
    let long = "head -c 2000%{TASK_ID} /dev/zero";
    let job = grid.submit(["--disclose", "--array", "1-2", "--", "sh", "-c", long]);
    grid.until("both are executed", &["task", "list", &job], |list| {
        let executed = |task: &Value| task["state"] == "finished";
        list["tasks"].as_array()?.iter().all(executed).then_some(())
    });

    let content = grid.state("admin").join("master/content");
    let mut short = 0;
    let mut odd = 0;
    for entry in walkdir::WalkDir::new(content).into_iter().flatten() {
        match entry.metadata().expect("it is there").len() {
            20_001 => {
                std::fs::write(entry.path(), "short").expect("writable");
                short += 1;
            }
            20_002 => {
                std::fs::remove_file(entry.path()).expect("a file");
                std::fs::create_dir(entry.path()).expect("nothing is in its place");
                odd += 1;
            }
            _ => {}
        }
    }
    assert_eq!((short, odd), (1, 1), "what the tasks printed");

    for (task, why) in [(1, "arrived damaged"), (2, "--damaged")] {
        let task = format!("{job}.{task}");
        let ended = grid.deskgrid(["request", &task, "--wait"]);
        let ended = ended.expect_code(1).stderr;
        assert!(ended.contains(why), "{why}: {ended}");
    }
}

#[test]
fn tasks_in_more_ranges_than_a_message_holds_are_listed_and_awaited_and_not_changed_at_once() {
    let grid = Grid::start();
    let every_other = "1-100001:2";
    let job = grid.submit(["--disclose", "--noop", "--array", every_other]);
    let listed = |tasks: &str| {
        let words = ["task", "list", &job, "--tasks", tasks, "--output", "quiet"];
        grid.text(words)
    };
    let all = listed(every_other);
    let last = format!("{job}.100001");
    assert_eq!(
        (all.lines().count(), all.lines().last()),
        (50_001, Some(last.as_str()))
    );
    // Only the first of these is a task of the job.
    assert_eq!(listed("1,2-100000:2").trim(), format!("{job}.1"));
    let none = ["task", "list", &job, "--tasks", "2-100000:2"];
    let told = grid.deskgrid(none).expect_code(1).stderr;
    assert!(told.contains("has no task"), "{told}");

    let told = grid
        .deskgrid(["job", "cancel", &job, "--tasks", every_other])
        .expect_code(2)
        .stderr;
    assert!(
        told.contains("does not fit into a message") && told.contains("try: name fewer at once"),
        "{told}"
    );

    // As cancelled ones they are all settled: a request that waits for them names each, and is told.
    let mut waiting = grid.command("user");
    let waiting = Started::new(waiting.args(["request", &job, "--wait", "--output", "quiet"]));
    grid.until("they are requested", &["job", "info", &job], |info| {
        (info["tasks"]["waiting"] == 50_001).then_some(())
    });
    grid.deskgrid(["job", "cancel", &job]).expect_code(0);
    let told = waiting.finish().expect_code(3).stdout;
    assert_eq!(told.lines().count(), 50_001);
}
