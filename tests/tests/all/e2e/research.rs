//! Simulating and looking at traces from the command line. No grid is asked, and none has to be there.

use serde_json::Value;
use tests::{Grid, Output};

const HOSTS: &str = "host,clock_mhz\nfast,3000\nslow,1500\n";

/// A directory with a trace, beside the grid's other files.
fn trace(grid: &Grid, name: &str, segments: &str) -> String {
    std::fs::create_dir_all(grid.dir().join(name)).expect("a directory for the trace");
    grid.file(&format!("{name}/hosts.csv"), HOSTS);
    let text = format!("host,start_s,end_s,host_available,cpu_fraction\n{segments}");
    grid.file(&format!("{name}/availability.csv"), text);
    grid.dir().join(name).display().to_string()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn a_trace_is_simulated_under_policies_and_compared_with_the_optimum() {
    let mut grid = Grid::start();
    grid.kill_master();
    // The fast host goes down at 100.5 s, which is noticed at 120 s; the slow one has the task until 460 s. Whoever
    // knows that takes the slow one at once.
    let dir = trace(&grid, "down", "fast,0,100.5,1,1\nfast,100.5,9000,0,0\nslow,0,9000,1,1\n");
    let asked =
        ["simulate", "--trace", &dir, "--policy", "optimal,pri-cr", "--tasks", "1", "--size", "5m", "--start", "0"];
    let answer = grid.json(asked);
    let rows = answer["rows"].as_array().expect("rows");
    let (best, row) = (&rows[0], &rows[1]);
    assert_eq!((best["policy"].as_str(), row["policy"].as_str()), (Some("OPTIMAL"), Some("PRI-CR")));
    assert!((number(&best["makespan_s"]) - 340.0).abs() < 1e-3, "{best}");
    assert!((number(&row["makespan_s"]) - 460.0).abs() < 1e-3, "{row}");
    assert!((number(&row["ratio"]) - 460.0 / 340.0).abs() < 1e-6, "{row}");
    let known = ["platform", "trace", "start_s", "tasks", "task_s", "optimal_s", "replicas", "cpu_waste", "finished"];
    assert!(known.iter().all(|field| !row[*field].is_null()), "{row}");
    let summary = &answer["summary"][1];
    let known = ["platform", "policy", "geo_ratio", "worst_ratio", "mean_replicas", "max_replicas"];
    assert!(known.iter().all(|field| !summary[*field].is_null()), "{summary}");
}

#[test]
fn what_cannot_be_finished_is_told_as_unfinished() {
    let grid = Grid::start();
    let dir = trace(&grid, "never", "fast,0,9000,0,0\nslow,0,9000,0,0\n");
    let answer = grid.json(["simulate", "--trace", &dir, "--policy", "FCFS,OPTIMAL", "--start", "0"]);
    for row in answer["rows"].as_array().expect("rows") {
        assert_eq!((&row["finished"], &row["makespan_s"]), (&Value::Bool(false), &Value::Null), "{row}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let grid = Grid::start();
    let run = |seed: &str, threads: &str| {
        let asked = ["simulate", "--platform", "lab", "--policy", "FCFS,EXCL-PRED-TO", "--hosts", "40", "--tasks"];
        let more = ["30", "--runs", "14", "--output", "json", "--seed", seed, "--threads", threads];
        grid.deskgrid(asked.into_iter().chain(more)).expect_code(0).stdout
    };
    assert_eq!(run("5", "1"), run("5", "2"));
    assert_ne!(run("5", "1"), run("6", "1"));
}

#[test]
fn a_bad_trace_is_refused_with_its_file_its_line_and_the_reason() {
    let grid = Grid::start();
    let dir = trace(&grid, "gap", "fast,0,10,1,1\nfast,20,30,1,1\nslow,0,30,1,1\n");
    for command in [&["simulate", "--policy", "FCFS", "--trace"][..], &["trace", "stats"][..]] {
        let Output { stdout, stderr, .. } = grid.deskgrid(command.iter().copied().chain([&*dir])).expect_code(2);
        assert_eq!(stdout, "");
        for word in ["availability.csv", "line 3", "gap", "try:"] {
            assert!(stderr.contains(word), "`{word}` in: {stderr}");
        }
    }
}

#[test]
fn statistics_of_a_trace_and_of_a_model_have_the_contracts_fields() {
    let grid = Grid::start();
    let dir = trace(&grid, "fine", "fast,0,100,1,1\nfast,100,200,0,0\nslow,0,200,1,0.5\n");
    let stats = grid.json(["trace", "stats", "--format", "csv", &dir]);
    assert_eq!((&stats["hosts"], &stats["segments"]), (&Value::from(2), &Value::from(3)));
    assert_eq!(number(&stats["unavailability"]["mean_s"]), 100.0);
    for field in ["availability", "unavailability", "failure_by_task_s", "power_cv"] {
        assert!(!stats[field].is_null(), "{field}: {stats}");
    }
    let wrong = grid.deskgrid(["trace", "stats", "--model", "heavy-falure"]).expect_code(2);
    assert!(wrong.stderr.contains("heavy-failure"), "{}", wrong.stderr);
}

#[test]
fn unknown_words_are_refused_with_what_there_is() {
    let grid = Grid::start();
    let refused = |words: &[&str], wanted: &str| {
        let output = grid.deskgrid(["simulate"].iter().chain(words)).expect_code(2);
        assert!(output.stderr.contains(wanted), "`{wanted}` in: {}", output.stderr);
    };
    refused(&["--policy", "FCSF"], "FCFS");
    refused(&["--policy", "EXCL-PRED-TO:rever=1"], "revert");
    refused(&["--policy", "FCFS", "--platform", "sdcs"], "sdsc");
    refused(&["--policy", "FCFS", "--size", "0s"], "time");
    refused(&["--policy", "FCFS", "--start", "soon"], "soon");
}
