//! Scenarios of jobs on a grid.

use papers::scenario::{answer, read};
use serde_json::json;

#[test]
fn a_scenario_on_a_grid_reports_starts_suspensions_and_losses() {
    let entry = json!({
        "hosts": 4, "frozen": 1, "start_cost": 40, "owners": [[1, 100, 250]], "down": [[2, 100.5, 5000]],
        "jobs": [
            { "policy": "AVG", "width": [3, 3], "work": 900 },
            { "at": 10, "policy": "FCFSxFCFS", "tasks": 2, "work": 1000, "disclosed": true },
        ],
        "requests": [[200, 2, 2]],
    });
    let found = answer(&read(&entry.to_string()).expect("a scenario")[0].1);
    let trace = found["trace"].as_array().expect("a list");

    for moment in [
        json!([40.0, "compute", 1, 0, 1, 1]),
        json!([100.5, "lost", 1, 1, 1, 2]),
        json!([490.0, "finish", 1, 0, 1, 1]),
        json!([340.0, "finish", 1, 2, 1, 3]),
    ] {
        assert!(trace.contains(&moment), "{moment}: {trace:?}");
    }

    assert!(
        found["settled"]
            .as_array()
            .expect("a list")
            .iter()
            .all(serde_json::Value::is_number),
        "{found}"
    );

    for (field, value, why) in [
        ("jobs", json!([]), "there must be jobs"),
        (
            "jobs",
            json!([{ "policy": "FCFS", "width": [1, 2], "work": 5 }]),
            "do not go together",
        ),
        (
            "jobs",
            json!([{ "policy": "AVG", "width": [3, 2], "work": 5 }]),
            "not 3 to 2",
        ),
        (
            "jobs",
            json!([{ "policy": "TOPTIMAL", "tasks": 9, "work": 5 }]),
            "TOPTIMAL learns limits",
        ),
        ("owners", json!([[5, 0, 1]]), "no host between 1 and 4"),
        ("requests", json!([[1, 9, 1]]), "there is no job 9"),
        ("slots", json!(0), "a host has 1 to"),
        ("color", json!("red"), "unknown field `color`"),
    ] {
        let mut bad = entry.clone();
        bad[field] = value;
        let error = read(&bad.to_string()).expect_err(why).to_string();
        assert!(
            error.contains(why) && error.contains("entry 1 of `grids`"),
            "{error}"
        );
    }
    // Its limits only choose hosts, and end no attempt.
    let mut chosen = entry.clone();
    chosen["jobs"] = json!([{ "policy": "WINDOWS", "tasks": 1, "work": 5 }]);
    chosen["requests"] = json!([]);
    assert!(read(&chosen.to_string()).is_ok());
}
