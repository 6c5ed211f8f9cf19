//! Deadlines on a real grid: a refusal with a counter-offer, which is then accepted and kept.

use serde_json::Value;
use tests::Grid;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// A bag of ten tasks that are said to take a minute each, with this deadline.
fn asked<'a>(deadline: &'a str, array: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let head = ["submit", "--estimate", "1m", "--deadline", deadline, "--array", array];
    head.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn a_bag_that_cannot_be_done_in_time_is_refused_with_an_offer_that_is_accepted_and_kept() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    grid.until("the host is ready", &["host", "list"], |hosts| (hosts["hosts"][0]["state"] == "ready").then_some(()));
    let jobs = |grid: &Grid| grid.json(["job", "list", "--all"])["jobs"].as_array().map_or(0, Vec::len);

    let refused = asked("1s", "1-10", &["--noop", "--output", "json"]);
    let answer: Value =
        serde_json::from_str(&grid.deskgrid(refused).expect_code(5).stdout).expect("a refusal is an answer");
    assert_eq!((&answer["accepted"], &answer["fits_tasks"]), (&Value::Bool(false), &Value::from(0)), "{answer}");
    assert!(answer["refused_because"].as_str().is_some_and(|why| why.contains("deadline")), "{answer}");
    assert!(answer["earliest_deadline"].is_string(), "{answer}");
    let earliest_s = number(&answer["earliest_deadline_s"]).ceil();
    let told = grid.deskgrid(asked("1s", "1-10", &["--noop"])).expect_code(5).stderr;
    assert!(told.contains("--deadline") && told.contains("not taken"), "{told}");

    // Half of the time is enough for some of the tasks, which are named.
    let half = format!("{}s", (0.55 * earliest_s).ceil());
    let refused = asked(&half, "1-10", &["--noop", "--output", "json"]);
    let answer: Value = serde_json::from_str(&grid.deskgrid(refused).expect_code(5).stdout).expect("an answer");
    let fits = answer["fits"].as_str().expect("indices").to_owned();
    assert!((1..10).contains(&answer["fits_tasks"].as_u64().expect("a number")), "{answer}");
    let dry = grid.json(asked(&half, &fits, &["--noop", "--dry-run"]));
    assert_eq!((&dry["accepted"], &dry["job"]), (&Value::Bool(true), &Value::Null), "{dry}");
    assert_eq!(jobs(&grid), 0, "asking enters nothing");

    let deadline = format!("{}s", earliest_s + 1.0);
    let taken = grid.json(asked(&deadline, "1-10", &["--noop", "--wait"]));
    assert_eq!(taken["accepted"], Value::Bool(true), "{taken}");
    assert!((0.0..=1.0).contains(&number(&taken["probability"])), "{taken}");
    let (finished, deadline) = (&taken["info"]["finished"], &taken["deadline"]);
    // ISO times of the same length compare as text.
    assert!(finished.as_str().expect("it is finished") <= deadline.as_str().expect("a deadline"), "{taken}");
    assert_eq!(taken["info"]["policy"], "PROMISE", "{taken}");

    // Its tasks took next to nothing of the minute that was said.
    let again = grid.json(asked("1h", "1-10", &["--noop", "--dry-run"]));
    assert_eq!(again["estimates"]["tasks"], 10, "{again}");
    assert!(number(&again["estimates"]["ratio"]) < 0.1, "{again}");
}

#[test]
fn scenarios_of_deadlines_are_replayed() {
    let grid = Grid::start();
    let script =
        r#"{"now": 10, "hosts": 2, "running_start_est": [[0, 5], [0, 8]], "waiting_est": [7], "new_est": [1, 1, 12]}"#;
    let path = grid.file("script.json", script).display().to_string();
    let answer = grid.json(["simulate", "--scenario", &path]);
    assert_eq!(answer["starts"], serde_json::json!([10.0, 11.0, 12.0]), "{answer}");
    assert_eq!(answer["earliest_feasible_deadline"], 24.0, "{answer}");
    let path = grid.file("bad.json", r#"{"now": 1, "hosts": 0, "new_est": [1]}"#).display().to_string();
    let told = grid.deskgrid(["simulate", "--scenario", &path]).expect_code(2).stderr;
    assert!(told.contains("bad.json") && told.contains("hosts") && told.contains("try:"), "{told}");
}
