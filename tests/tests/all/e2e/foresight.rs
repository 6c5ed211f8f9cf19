//! Predicting waits and widths from the command line. No grid is asked, and none has to be there.

use serde_json::Value;
use tests::{Grid, Output, lab, lab_json};

use super::number;

/// The known answers, computed by independent programs.
fn vectors() -> Value {
    let text = include_str!("../../../../scheduler/tests/vectors/downey.json");
    serde_json::from_str(text).expect("the known answers are JSON")
}

/// Compares a field with a known one; nothing is nothing.
#[track_caller]
fn same(found: &Value, known: &Value) {
    match (found.as_f64(), known.as_f64()) {
        (Some(a), Some(b)) => assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} for {b}"),
        (a, b) => assert_eq!(a, b),
    }
}

#[test]
fn waits_and_widths_are_predicted_for_a_state_in_a_file() {
    let mut grid = Grid::start();
    grid.kill_master();

    let known = vectors();
    for case in [0, 7, 20, 91] {
        let case = &known["predict"][case];
        let file = grid
            .file("state.json", case.to_string())
            .display()
            .to_string();
        let answer = lab_json(["predict", "wait", "--state", &file]);
        for field in ["A", "B", "used", "benefactors"] {
            same(&answer[field], &case[field]);
        }

        let interval = &answer["interval"];
        assert!(
            number(&interval["low"]) <= number(&interval["median"]),
            "{answer}"
        );
        assert!(
            number(&interval["median"]) <= number(&interval["high"]),
            "{answer}"
        );
    }

    for case in [1, 6, 9] {
        let case = &known["decisions"][case];
        let file = grid
            .file("state.json", case.to_string())
            .display()
            .to_string();
        let answer = lab_json(["predict", "width", "--state", &file]);

        for (field, known) in [
            ("n_star", "n_star"),
            ("q_star", "Q_star"),
            ("r_free", "R_free"),
            ("total", "total"),
        ] {
            same(&answer[field], &case[known]);
        }
    }

    // Whoever has others behind does not wait for long.
    let state =
        r#"{"jobs": [[60, 32]], "free": 4, "L": 20000, "A": 64, "sigma": 0.5, "behind": 40}"#;

    let file = grid.file("state.json", state).display().to_string();
    let answer = lab_json(["predict", "width", "--state", &file, "--policy", "PRICED"]);
    assert!(number(&answer["n_star"]) < 13.0, "{answer}");
}

#[test]
fn an_invalid_machine_state_is_refused_with_the_reason() {
    let grid = Grid::start();
    for (asked, text, words) in [
        ("wait", "{", "no state of the machine"),
        ("wait", r#"{"jobs": []}"#, "how many hosts are needed"),
        (
            "wait",
            r#"{"jobs": [[-1, 3]], "need": 1}"#,
            "job 1 has run for -1 s",
        ),
        (
            "wait",
            r#"{"jobs": [[1, 3]], "need": 1, "b1": 0}"#,
            "no law of lifetimes",
        ),
        (
            "wait",
            r#"{"jobs": [[1, 3000000]], "need": 1}"#,
            "more than 1000000 hosts",
        ),
        (
            "width",
            r#"{"jobs": [[1, 3]], "free": 1}"#,
            "tells of no job",
        ),
        (
            "width",
            r#"{"jobs": [], "free": 0, "L": 5, "A": 2}"#,
            "no host that is or will be free",
        ),
    ] {
        let file = grid.file("state.json", text).display().to_string();
        let Output {
            stderr,
            stdout,
            code,
        } = lab(["predict", asked, "--state", &file]);
        assert!(code == 2 && stdout.is_empty(), "{text}: {code} {stdout}");
        assert!(stderr.contains(words), "`{words}` in: {stderr}");
    }

    let file = grid
        .file("state.json", r#"{"jobs": [], "free": 2, "L": 5, "A": 2}"#)
        .display()
        .to_string();
    let refused = lab(["predict", "width", "--state", &file, "--policy", "AVG"]).expect_code(2);
    assert!(
        refused.stderr.contains("BIAS-LOCK-RISK or PRICED: they do"),
        "{}",
        refused.stderr
    );
}

#[test]
fn predictions_are_judged_on_a_log() {
    let grid = Grid::start();
    let mut log = String::from("; MaxProcs: 4\n");
    let mut free = 0;

    for job in 1..=200 {
        let submit = job * 50;
        let start = free.max(submit);
        let run = 40 + job * 13 % 21;
        free = start + run;
        log.push_str(&format!(
            "{job} {submit} {} {run} 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1\n",
            start - submit
        ));
    }

    let file = grid.file("log.swf", log).display().to_string();
    let answer = lab_json(["predict", "accuracy", "--log", &file, "--scatter"]);
    assert_eq!(
        (&answer["judged"], &answer["processors"]),
        (&Value::from(100), &Value::from(4))
    );

    let names: Vec<&str> = answer["predictors"]
        .as_array()
        .expect("three")
        .iter()
        .filter_map(|p| p["name"].as_str())
        .collect();
    assert_eq!(names, ["deskgrid", "last 10 waits", "all waits"]);
    assert_eq!(
        answer["predictors"][0]["scatter"].as_array().map(Vec::len),
        Some(100)
    );

    let bad = grid
        .file("bad.swf", "; MaxProcs: 4\n1 2 3\n")
        .display()
        .to_string();
    let refused = lab(["predict", "accuracy", "--log", &bad]).expect_code(2);
    assert!(
        refused.stderr.contains("bad.swf, line 2: 3 fields"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_waiting_job_says_when_it_should_start_and_hosts_when_they_should_be_free() {
    let mut grid = Grid::start();
    let empty = grid.json(["predict", "wait", "--width", "1"]);
    assert_eq!(
        (&empty["free"], &empty["hosts"], &empty["used"]),
        (&Value::from(0), &Value::from(0), &Value::Null)
    );
    let said = grid.text(["predict", "wait", "--width", "1", "--work", "90s"]);
    assert!(
        said.contains(": never, as things are\n") && !said.contains("likely"),
        "{said}"
    );
    assert!(said.ends_with("then 1m30s of work\n"), "{said}");
    grid.worker("alone").slots(1).start();
    grid.until("it is free", &["predict", "wait", "--width", "1"], |wait| {
        (wait["free"] == 1).then_some(())
    });

    let done = grid.json(["predict", "wait", "--width", "1", "--work", "90s"]);
    assert_eq!(
        (
            number(&done["used"]),
            number(&done["run_s"]),
            number(&done["total_s"])
        ),
        (0.0, 90.0, 90.0)
    );

    let mark = super::long_sleep();
    let first = grid.submit(["--", "sleep", &mark]);
    grid.until("it runs", &["job", "info", &first], |job| {
        (job["tasks"]["running"] == 1).then_some(())
    });

    let second = grid.submit(["--", "true"]);
    let waiting = grid.job(&second);
    assert!(grid.job(&first)["predicted_start"].is_null());

    let time = |field: &str| {
        waiting[field]
            .as_str()
            .unwrap_or_else(|| panic!("no {field} in {waiting}"))
            .to_owned()
    };

    // ISO times in UTC sort as they follow each other.
    assert!(
        time("predicted_start_low") <= time("predicted_start"),
        "{waiting}"
    );
    assert!(
        time("predicted_start") <= time("predicted_start_high"),
        "{waiting}"
    );

    let listed = grid.text(["job", "list"]);
    assert!(listed.contains("START"), "{listed}");

    let busy = grid.json(["predict", "wait", "--width", "1"]);
    assert!(
        (&busy["free"], &busy["benefactors"]) == (&Value::from(0), &Value::from(1)),
        "{busy}"
    );
    assert!(number(&busy["interval"]["median"]) > 0.0, "{busy}");
    grid.deskgrid(["job", "cancel", "all"]).expect_code(0);
}

#[test]
fn the_makespan_told_on_submission_is_kept_beside_the_actual_one() {
    let mut grid = Grid::start();
    grid.worker("alone").slots(1).start();
    grid.until("it is free", &["predict", "wait", "--width", "1"], |wait| {
        (wait["free"] == 1).then_some(())
    });

    grid.submit(["--estimate", "3s", "--", "sleep", "3"]);
    let second = grid.submit(["--estimate", "1s", "--", "sleep", "1"]);
    let said = |grid: &Grid| grid.job(&second);
    let told = number(&said(&grid)["predicted_makespan_s"]);
    grid.kill_master();
    grid.start_master();
    grid.wait(&second);
    let info = said(&grid);
    assert_eq!(number(&info["predicted_makespan_s"]), told, "{info}");
    let speed = number(&grid.json(["host", "list"])["hosts"][0]["speed"]);
    let both = 4.0 / speed;
    assert!(
        (0.7 * both..2.0 * both).contains(&told),
        "{told} s, not about {both} s: {info}"
    );

    let judged = grid.json(["predict", "accuracy"]);
    assert!(
        number(&judged["judged"]) >= 2.0,
        "a start and an end: {judged}"
    );
}
