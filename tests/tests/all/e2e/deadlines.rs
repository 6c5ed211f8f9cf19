//! Deadlines on a real grid: a refusal with a counter-offer, which is then accepted and kept; and a
//! task that is killed to make room, and done again in time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tests::{Grid, lab, lab_json};

use super::{all_gone, long_sleep, number};

/// A bag of ten tasks that are said to take a minute each, with this deadline.
fn asked<'a>(deadline: &'a str, array: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let head = [
        "submit",
        "--estimate",
        "1m",
        "--deadline",
        deadline,
        "--array",
        array,
    ];
    head.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn a_bag_that_cannot_be_done_in_time_is_refused_with_an_offer_that_is_accepted_and_kept() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    grid.until_ready();

    let refused = asked("1s", "1-10", &["--noop", "--output", "json"]);
    let answer: Value = serde_json::from_str(&grid.deskgrid(refused).expect_code(5).stdout)
        .expect("a refusal is an answer");
    assert_eq!(
        (&answer["accepted"], &answer["fits_tasks"]),
        (&Value::Bool(false), &Value::from(0)),
        "{answer}"
    );
    assert!(
        answer["refused_because"]
            .as_str()
            .is_some_and(|why| why.contains("deadline")),
        "{answer}"
    );

    // What is printed can be asked for.
    let date = answer["earliest_deadline"].as_str().expect("a date");
    let again = grid.json(asked(date, "1-10", &["--noop", "--dry-run"]));
    assert_eq!(
        (&again["accepted"], &again["deadline"]),
        (&Value::Bool(true), &Value::from(date)),
        "{again}"
    );

    let earliest_s = number(&answer["earliest_deadline_s"]).ceil();
    let told = grid
        .deskgrid(asked("1s", "1-10", &["--noop"]))
        .expect_code(5)
        .stderr;
    assert!(
        told.contains("--deadline") && told.contains("not taken"),
        "{told}"
    );

    // Half of the time is enough for some of the tasks, which are named.
    let half = format!("{}s", (0.55 * earliest_s).ceil());
    let refused = asked(&half, "1-10", &["--noop", "--output", "json"]);
    let answer: Value =
        serde_json::from_str(&grid.deskgrid(refused).expect_code(5).stdout).expect("an answer");

    let fits = answer["fits"].as_str().expect("indices").to_owned();
    assert!(
        (1..10).contains(&answer["fits_tasks"].as_u64().expect("a number")),
        "{answer}"
    );

    let dry = grid.json(asked(&half, &fits, &["--noop", "--dry-run"]));
    assert_eq!(
        (&dry["accepted"], &dry["job"]),
        (&Value::Bool(true), &Value::Null),
        "{dry}"
    );
    assert!(grid.jobs().is_empty(), "asking enters nothing");

    let deadline = format!("{earliest_s}s");
    let taken = grid.json(asked(&deadline, "1-10", &["--noop", "--wait"]));
    assert_eq!(taken["accepted"], Value::Bool(true), "{taken}");
    assert!(
        (0.0..=1.0).contains(&number(&taken["probability"])),
        "{taken}"
    );

    let finished = &taken["info"]["finished"];
    let deadline = &taken["deadline"];

    // ISO times of the same length compare as text.
    assert!(
        finished.as_str().expect("it is finished") <= deadline.as_str().expect("a deadline"),
        "{taken}"
    );
    assert_eq!(taken["info"]["policy"], "PROMISE", "{taken}");

    let info = grid.job("last");
    assert_eq!(
        (&info["promise"], &info["deadline"]),
        (&Value::from("kept"), deadline),
        "{info}"
    );
    assert_eq!(info["promised_finish"], taken["promised_finish"], "{info}");

    let told = grid.text(["job", "info", "last"]);
    assert!(
        told.contains("kept: done ") && told.contains("% likely"),
        "{told}"
    );

    // Its tasks took next to nothing of the minute that was said.
    let again = grid.json(asked("1h", "1-10", &["--noop", "--dry-run"]));
    assert_eq!(again["estimates"]["tasks"], 10, "{again}");
    assert!(number(&again["estimates"]["ratio"]) < 0.1, "{again}");

    let account = grid.json(["account"]);
    let of = &account["estimates"][0];
    assert_eq!(
        (&of["user"], &of["program"], &of["tasks"]),
        (&"user".into(), &"noop".into(), &10.into()),
        "{account}"
    );
    assert_eq!(of["quality"], again["estimates"], "{account}");

    let told = grid
        .deskgrid(["account", "--user", "somebody-else"])
        .expect_code(6)
        .stderr;
    assert!(told.contains("admin"), "{told}");

    let all = grid
        .admin(["account", "--user", "user"])
        .expect_code(0)
        .stdout;
    assert!(
        all.contains("noop") && all.contains("TOOK/ESTIMATED"),
        "{all}"
    );
}

#[test]
fn a_date_without_an_offset_is_utc_and_the_answer_says_which_moment_it_is() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).config("speed = 1.0\n").start();
    grid.until_ready();
    let noop = ["--noop", "--dry-run"];
    let answer = grid.json(asked("30d", "1-10", &noop));
    let month = answer["deadline"].as_str().expect("a date");

    let date = &month[..16];
    let (day, minute) = date.split_once('T').expect("a date and a time");
    let said = format!("the deadline of {day} {minute}:00 UTC");
    let dry = grid.deskgrid(asked(date, "1-10", &noop)).expect_code(0);
    assert!(dry.stdout.contains(&said), "{dry:?}");
    // A minute each, on one slot: 69 days.
    let refused = grid.deskgrid(asked(date, "1-100000", &noop)).expect_code(5);
    assert!(refused.stderr.contains(&said), "{refused:?}");

    let taken = grid.text(asked(date, "1-10", &["--noop"]));
    assert!(taken.contains(&said), "{taken}");
    let help = grid.text(["submit", "--help"]);
    assert!(help.contains("UTC"), "{help}");
}

#[test]
fn an_overrunning_task_is_evicted_once_a_waiting_promise_would_be_broken() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).config("speed = 1.0\n").start();
    grid.until_ready();

    let sleep = long_sleep();
    let policy = ["--policy", "PROMISE:policing=hard:inflated=no"];
    let long = [
        "--estimate",
        "8s",
        "--deadline",
        "10m",
        "--",
        "sleep",
        &sleep,
    ];
    let long = grid.submit(policy.into_iter().chain(long));
    // It is let in behind the first one, which is expected to end in time.
    let next = [
        "--estimate",
        "1s",
        "--deadline",
        "25s",
        "--wait",
        "--",
        "true",
    ];
    let taken = grid.json(["submit"].into_iter().chain(policy).chain(next));
    assert_eq!(
        (&taken["accepted"], &taken["info"]["state"]),
        (&true.into(), &"finished".into()),
        "{taken}"
    );

    let told = grid.text(["job", "explain", &long]);
    let why = format!("killed to make room for job {}", taken["job"]);
    assert!(told.contains(&why), "{told}");
    all_gone(&sleep, Duration::from_secs(30));
}

#[test]
fn a_task_beyond_its_estimate_is_evicted_and_still_meets_its_deadline() {
    let mut grid = Grid::start();
    // On a much faster PC the first task is expected to end in time for the second one, and on a slower one it is not late yet.
    grid.worker("h1").slots(1).config("speed = 1.7\n").start();
    grid.until_ready();

    // What is known of the program: it took much longer than was estimated.
    grid.submit(["--estimate", "1s", "--wait", "--", "sh", "-c", "sleep 6"]);

    // How busy this machine is must not matter here: so nothing is inflated.
    let sleep = long_sleep();
    let policy = "PROMISE:policing=hard:inflated=no";
    let script = format!("test $DESKGRID_ATTEMPT_ID = 2 || exec sleep {sleep}");
    let asked = [
        "--estimate",
        "5s",
        "--deadline",
        "10m",
        "--policy",
        policy,
        "--",
        "sh",
        "-c",
    ];
    let long = grid.submit(asked.iter().copied().chain([script.as_str()]));

    // Longer than was expected even of such estimates: from then on it is expected to take as long
    // as the other one.
    let beyond = |info: &Value| {
        let later = info["predicted_finish"].as_str()? > info["promised_finish"].as_str()?;
        (later
            && info["promise_why"]
                .as_str()?
                .contains("1 attempt runs for longer than was estimated"))
        .then_some(())
    };
    grid.until(
        "it runs beyond its estimate",
        &["job", "info", &long],
        beyond,
    );
    // A late start alone makes the prediction later than the promise: so it runs beyond that.
    let task = format!("{long}.1");
    grid.until(
        "it runs beyond its promise",
        &["task", "info", &task],
        |task| {
            let run_s = task["attempts"][0]["run_s"].as_f64()?;
            (run_s > 5.0).then_some(())
        },
    );

    let next = [
        "--estimate",
        "1s",
        "--deadline",
        "10s",
        "--policy",
        "PROMISE:inflated=no",
        "--wait",
        "--",
        "true",
    ];
    let taken = grid.json(["submit"].into_iter().chain(next));
    assert_eq!(
        (&taken["accepted"], &taken["info"]["state"]),
        (&true.into(), &"finished".into()),
        "{taken}"
    );

    let why = format!("killed to make room for job {}", taken["job"]);
    let info = grid.job(&long);
    assert_eq!(
        (&info["state"], &info["promise"]),
        (&"failed".into(), &"broken".into()),
        "{info}"
    );

    let log = grid.text(["job", "list", "--joblog", &long]);
    let explained = grid.text(["job", "explain", &long]);
    let task = grid.text(["task", "info", &format!("{long}.1")]);

    let shown = grid.text(["job", "info", &long]);
    for told in [log, explained, task, shown] {
        assert!(
            told.contains(&why) && told.contains("beyond its estimate of 5.0s"),
            "{why}: {told}"
        );
    }

    all_gone(&sleep, Duration::from_secs(30));

    // There is time enough to do it again.
    grid.deskgrid(["job", "retry", &long]).expect_code(0);
    let info = grid.until("it is done again", &["job", "info", &long], |info| {
        (info["state"] == "finished").then(|| info.clone())
    });
    assert_eq!(
        (&info["promise"], &info["tasks"]["finished"]),
        (&"kept".into(), &1.into()),
        "{info}"
    );

    let attempts = grid.attempts(&format!("{long}.1"));
    let states: Vec<&Value> = attempts.iter().map(|attempt| &attempt["state"]).collect();
    assert_eq!(states, ["killed", "finished"], "{attempts:?}");
}

#[test]
fn a_long_task_of_a_new_user_is_on_probation_and_starts_first() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    grid.until_ready();

    let items = r#"[{"n": 1, "estimate": 1}, {"n": 2, "estimate": "3h"}, {"n": 3, "estimate": 2}, {"n": 4, "estimate": 2}]"#;
    let path = grid.file("items.json", items).display().to_string();
    let ask = |deadline: &str, more: &[&str]| -> Vec<String> {
        let words = ["submit", "--from-json", &path, "--deadline", deadline]
            .into_iter()
            .chain(more.iter().copied());
        words.map(str::to_owned).collect()
    };

    // Without the one long task it would not take long: it is judged as if none were longer than
    // the median one.
    let told = grid.text(ask("10m", &["--dry-run", "--", "true"]));
    assert!(told.contains("on probation"), "{told}");
    grid.deskgrid(ask("1s", &["--dry-run", "--", "true"]))
        .expect_code(5);

    let taken = grid.json(ask("10m", &["--wait", "--", "true"]));
    assert_eq!(
        (&taken["accepted"], &taken["probation"]),
        (&true.into(), &true.into()),
        "{taken}"
    );

    let started =
        |task: u32| grid.attempts(&format!("{}.{task}", taken["job"]))[0]["assigned"].clone();

    let order: Vec<String> = [2, 3, 4, 1]
        .map(|task| started(task).as_str().unwrap_or("never").to_owned())
        .to_vec();
    assert!(order.is_sorted(), "the longest first: {order:?}");

    // The order and the estimates are those of the job, whoever reads them back.
    let short = grid.file("times.txt", "1s\n3h\n").display().to_string();
    for short in [&short, "1s,3h"] {
        let told = grid
            .deskgrid(["submit", "--estimates", short, "--array", "1-3", "--noop"])
            .expect_code(2)
            .stderr;
        assert!(told.contains("3 tasks but 2 estimates"), "{told}");
    }
}

#[test]
fn a_date_is_the_same_submission_whenever_it_comes_and_the_answer_repeats_the_promise() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    grid.until_ready();

    let date = "2090-03-01T09:30:00.000000Z";
    let words = [
        "submit",
        "--request-id",
        "6f1d7a9e-4a4b-4a61-9d0e-3c5f1f0c0001",
        "--estimate",
        "1m",
        "--deadline",
        date,
    ];
    let submit = |array: &'static str| words.into_iter().chain(["--array", array, "--noop"]);
    let first = grid.json(submit("1-3"));
    assert_eq!(
        (&first["again"], &first["deadline"]),
        (&false.into(), &date.into()),
        "{first}"
    );

    let again = grid.json(submit("1-3"));
    assert_eq!(
        (&again["again"], &again["job"]),
        (&true.into(), &first["job"]),
        "{again}"
    );
    for field in ["deadline", "promised_finish", "probability", "probation"] {
        assert_eq!(again[field], first[field], "{field}: {again}");
    }

    grid.kill_master();
    grid.start_master();
    assert_eq!(grid.json(submit("1-3"))["job"], first["job"]);

    let told = grid.deskgrid(submit("1-4")).expect_code(1).stderr;
    assert!(told.contains("another submission"), "{told}");
}

#[test]
fn a_deadline_that_nobody_could_promise_is_refused_with_the_reason() {
    let mut grid = Grid::start();
    let told = |grid: &Grid, words: &[&str], code| {
        grid.deskgrid(["submit"].iter().chain(words).chain(&["--noop"]))
            .expect_code(code)
            .stderr
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("after 1970").as_micros();
    let now = common::time::iso(common::Time(u64::try_from(now).expect("small")));
    let today = now.split('T').next().expect("a day");
    let end = format!("first moment (00:00 UTC): --deadline {today}T23:59:59Z is its end");
    for (past, words) in [
        ("2020-01-01T00:00:00Z", "in the past"),
        ("2020-01-01", "try: a future date (UTC"),
        (today, end.as_str()),
        ("0s", "no time at all"),
    ] {
        let why = told(&grid, &["--estimate", "1m", "--deadline", past], 2);
        assert!(why.contains(words), "{why}");
    }

    let why = told(&grid, &["--deadline", "1h", "--policy", "FCFS"], 2);
    assert!(
        why.contains("FCFS promises no deadlines") && why.contains("PROMISE"),
        "{why}"
    );

    let why = told(&grid, &["--estimate", "1m", "--deadline", "1h"], 5);
    assert!(
        why.contains("no host takes work") && why.contains("there is none yet"),
        "{why}"
    );
    grid.worker("h1").slots(1).start();
    grid.until_ready();

    let why = told(&grid, &["--deadline", "1h"], 5);
    assert!(
        why.contains("nothing is known of how long") && why.contains("--estimate"),
        "{why}"
    );
    grid.admin(["host", "drain", "h1"]).expect_code(0);

    let why = told(&grid, &["--estimate", "1m", "--deadline", "1h"], 5);
    assert!(
        why.contains("1 drained") && !why.contains("--estimate"),
        "{why}"
    );

    let words = [
        "submit",
        "--estimate",
        "1m",
        "--deadline",
        "1h",
        "--noop",
        "--output",
        "json",
    ];

    let answer: Value =
        serde_json::from_str(&grid.deskgrid(words).expect_code(5).stdout).expect("an answer");
    assert!(
        answer["refused_because"]
            .as_str()
            .is_some_and(|why| why.contains("1 drained")),
        "{answer}"
    );

    assert_eq!(
        (&answer["accepted"], answer.get("earliest_deadline")),
        (&false.into(), None),
        "{answer}"
    );
    assert_eq!(answer["fits_tasks"], 0, "{answer}");
}

#[test]
fn a_promise_is_broken_once_a_task_has_failed_for_good() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();

    let sleep = long_sleep();
    let script = format!("test $DESKGRID_TASK_ID = 2 || exit 3; exec sleep {sleep}");
    let asked = [
        "--estimate",
        "1m",
        "--deadline",
        "1h",
        "--array",
        "1-2",
        "--",
        "sh",
        "-c",
        script.as_str(),
    ];
    let job = grid.submit(asked);
    let broken = |info: &Value| {
        let failed = info["tasks"]["failed"] == 1 && info["tasks"]["running"] == 1;
        failed.then(|| (info["promise"].clone(), info["promise_why"].clone()))
    };
    let (promise, why) = grid.until(
        "one failed and the other runs",
        &["job", "info", &job],
        broken,
    );
    assert_eq!(promise, "broken", "{why}");

    assert!(
        why.as_str()
            .is_some_and(|why| why.contains("1 task has failed")),
        "{why}"
    );
    grid.deskgrid(["job", "cancel", &job]).expect_code(0);
    all_gone(&sleep, Duration::from_secs(30));
}

#[test]
fn a_restart_keeps_the_line_of_accepted_bags_with_the_retried_one_at_its_end() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();

    let sleep = long_sleep();
    let blocker = grid.submit([
        "--estimate",
        "1m",
        "--deadline",
        "1h",
        "--",
        "sleep",
        &sleep,
    ]);
    grid.until("it runs", &["job", "info", &blocker], |info| {
        (info["state"] == "running").then_some(())
    });

    let times = grid.file("times.txt", "1s\n9m\n2s\n").display().to_string();
    let uneven = grid.submit([
        "--estimates",
        &times,
        "--deadline",
        "1h",
        "--array",
        "4-6",
        "--noop",
    ]);

    let bag = |grid: &Grid| grid.submit(["--estimate", "1m", "--deadline", "1h", "--noop"]);
    let first = bag(&grid);
    let second = bag(&grid);

    grid.deskgrid(["job", "cancel", &first]).expect_code(0);
    let third = bag(&grid);
    let told = grid.text(["job", "retry", &first]);
    assert!(told.contains("its promise is renewed"), "{told}");

    let told = grid.text(["job", "retry", &first]);
    assert!(
        !told.contains("promise"),
        "nothing was to be tried again: {told}"
    );

    let promised = |grid: &Grid, id: &str| {
        grid.job(id)["promise_made"]
            .as_str()
            .expect("a promise")
            .to_owned()
    };

    // A retry that comes too late for its deadline says that too.
    let tight = grid.submit(["--estimate", "1m", "--deadline", "20m", "--noop"]);
    grid.deskgrid(["job", "cancel", &tight]).expect_code(0);

    let last = grid.submit(["--estimate", "2h", "--deadline", "9h", "--noop"]);
    let retried = grid.json(["job", "retry", &tight]);
    assert_eq!(
        (&retried["jobs"][0]["tasks"], &retried["promise"]),
        (&1.into(), &"withdrawn".into()),
        "{retried}"
    );
    grid.deskgrid(["job", "cancel", &last]).expect_code(0);

    let made = promised(&grid, &first);
    assert!(made > promised(&grid, &third), "it was made anew");
    grid.kill_master();
    grid.start_master();
    assert_eq!(promised(&grid, &first), made, "it was kept");
    grid.deskgrid(["job", "cancel", &blocker]).expect_code(0);
    grid.wait(&first);

    let started: Vec<String> = [&second, &third, &first]
        .map(|id| {
            grid.job(id)["started"]
                .as_str()
                .unwrap_or("never")
                .to_owned()
        })
        .to_vec();
    assert!(started.is_sorted(), "{started:?}");

    let assigned =
        |task: &u32| grid.attempts(&format!("{uneven}.{task}"))[0]["assigned"].to_string();
    assert!(
        [5, 6, 4].iter().is_sorted_by_key(assigned),
        "its longest task is the first still"
    );
    all_gone(&sleep, Duration::from_secs(30));
}

#[test]
fn policing_and_the_calendar_answer_for_themselves() {
    let grid = Grid::start();
    let kill = lab_json(["predict", "kill", "--est", "10", "--elapsed", "16"]);
    assert_eq!(
        (&kill["hard"], &kill["grace"]),
        (&true.into(), &true.into()),
        "{kill}"
    );
    assert!((number(&kill["prob"]) - 0.375).abs() < 1e-9, "{kill}");
    assert_eq!(
        lab_json([
            "predict",
            "kill",
            "--est",
            "10",
            "--elapsed",
            "16",
            "--grace",
            "1"
        ])["grace"],
        false
    );

    let entry = r#"{"now": 10, "hosts": 2, "running_start_est": [[0, 5], [0, 8]], "waiting_est": [7], "new_est": [1, 1, 12]}"#;
    let path = grid.file("calendar.json", entry).display().to_string();
    let want = serde_json::json!({ "schema": 1, "starts": [10.0, 11.0, 12.0], "finishes": [11.0, 12.0, 24.0],
        "earliest_feasible_deadline": 24.0 });
    assert_eq!(lab_json(["predict", "calendar", "--state", &path]), want);

    let path = grid
        .file("kill.json", r#"{"est": 1, "elapsed": 2}"#)
        .display()
        .to_string();
    let told = lab(["predict", "calendar", "--state", &path])
        .expect_code(2)
        .stderr;
    assert!(
        told.contains("kill.json") && told.contains("an entry of `kill`"),
        "{told}"
    );
}

#[test]
fn scenarios_of_deadlines_are_replayed() {
    let grid = Grid::start();
    let script = r#"{"now": 10, "hosts": 2, "running_start_est": [[0, 5], [0, 8]], "waiting_est": [7], "new_est": [1, 1, 12]}"#;
    let path = grid.file("script.json", script).display().to_string();
    let answer = lab_json(["simulate", "--scenario", &path]);
    assert_eq!(
        answer["starts"],
        serde_json::json!([10.0, 11.0, 12.0]),
        "{answer}"
    );
    assert_eq!(answer["earliest_feasible_deadline"], 24.0, "{answer}");

    let path = grid
        .file("bad.json", r#"{"now": 1, "hosts": 0, "new_est": [1]}"#)
        .display()
        .to_string();
    let told = lab(["simulate", "--scenario", &path]).expect_code(2).stderr;
    assert!(
        told.contains("bad.json") && told.contains("hosts") && told.contains("try:"),
        "{told}"
    );
}
