//! Disclosed tasks: the known answers, and the paper's report.

use std::path::Path;

use common::Time;
use papers::report::petrou::{Study, grid, reproduce};
use papers::scenario::{answer, read};
use serde_json::{Value, json};
use simulator::users::{Audience, Random, StudyPoint, TaskFate, Which, run};

/// The known answers: beside the project, or where `DESKGRID_SHARED` says.
fn vectors() -> Option<String> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("DESKGRID_SHARED").map_or_else(beside, Into::into);
    let path = shared.join("data/vectors/petrou.json");
    if !path.is_file() {
        eprintln!("skipped: no {}", path.display());
        return None;
    }
    Some(std::fs::read_to_string(path).expect("it can be read"))
}

/// The same value, numbers to within a millionth.
fn agree(known: &Value, found: &Value, place: &str) {
    match (known, found) {
        (Value::Array(known), Value::Array(found)) => {
            assert_eq!(
                known.len(),
                found.len(),
                "{place}: {found:?}, not {known:?}"
            );
            for (at, (known, found)) in known.iter().zip(found).enumerate() {
                agree(known, found, &format!("{place}[{at}]"));
            }
        }
        _ => match (known.as_f64(), found.as_f64()) {
            (Some(a), Some(b)) => assert!((a - b).abs() <= 1e-6, "{place}: {b}, not {a}"),
            _ => assert_eq!(known, found, "{place}"),
        },
    }
}

#[test]
fn every_known_answer_comes_out() {
    let Some(text) = vectors() else { return };
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let scenarios = read(&text).expect("scenarios");
    let known = file["scenarios"].as_array().expect("a list");
    assert_eq!(scenarios.len(), known.len());

    let answers = [
        "mean_vresp",
        "finished",
        "billed",
        "requested",
        "finished_cols",
        "finished_tasks",
        "usage_cols",
        "usage",
        "trace",
    ];

    for (known, (_, scenario)) in known.iter().zip(&scenarios) {
        let found = answer(scenario);
        let place = format!(
            "{} {} {} {}",
            known["name"], known["model"], known["policy"], known["servers"]
        );
        for field in answers {
            agree(&known[field], &found[field], &format!("{place} {field}"));
        }
    }
}

/// One user whose second task is executed while the first result is looked at.
fn scenario(change: impl FnOnce(&mut Value)) -> Value {
    let mut entry = json!({
        "model": "Batchactive", "policy": "Srpt", "servers": 1, "think": 10.0,
        "sets": [[[5.0, 5.0, 5.0]]], "cancel_after": [[3]],
    });
    change(&mut entry);
    entry
}

#[test]
fn a_task_executed_before_its_request_is_not_waited_for() {
    let entry = scenario(|_| ());
    let found = answer(&read(&entry.to_string()).expect("a scenario")[0].1);
    assert_eq!(
        found["finished_tasks"][1],
        json!([0, 0, 1, 15.0, 10.0, 0.0])
    );
    assert_eq!(
        (&found["mean_vresp"], &found["billed"]),
        (&json!(5.0 / 3.0), &json!(15.0))
    );
}

#[test]
fn a_scenario_may_name_any_policy_that_tells_disclosed_tasks_apart() {
    let entry = scenario(|entry| {
        entry["policy"] = json!("FCFSxNEED");
        entry.as_object_mut().expect("fields").remove("model");
    });
    let found = answer(&read(&entry.to_string()).expect("a scenario")[0].1);
    assert_eq!(found["finished"], 3);
}

#[test]
fn a_scenario_reports_the_fate_of_preempted_tasks() {
    // At 14 s the other user's second set takes the place of a disclosed task of 20 s, of which 9
    // are done; its user wants it at 21 s.
    let told = |frozen: u32, keep: bool| {
        let entry = scenario(|entry| {
            entry["policy"] = json!("Fcfs");
            entry["sets"] = json!([[[1.0, 1.0, 20.0]], [[3.0], [3.0]]]);
            entry["cancel_after"] = json!([]);
            entry["frozen"] = json!(frozen);
            entry["keep"] = json!(keep);
        });
        answer(&read(&entry.to_string()).expect("a scenario")[0].1)
    };

    for (frozen, keep, executed_s, used_s) in [
        (0, true, 28.0, 20.0),
        (1, false, 28.0, 20.0),
        (0, false, 37.0, 29.0),
    ] {
        let found = told(frozen, keep);
        assert_eq!(
            found["finished_tasks"][2],
            json!([0, 0, 2, 21.0, executed_s, executed_s - 21.0]),
            "{frozen} {keep}"
        );
        assert_eq!(
            found["usage"][2],
            json!([0, 0, 2, used_s, true]),
            "{frozen} {keep}"
        );

        let trace = found["trace"].as_array().expect("a list");
        for moment in [
            json!([14.0, "preempt", 0, 0, 2]),
            json!([17.0, "start", 0, 0, 2]),
        ] {
            assert!(trace.contains(&moment), "{frozen} {keep}: {trace:?}");
        }
    }

    assert_eq!(
        told(0, true),
        told(1, true),
        "one server, and nothing is lost either way"
    );
}

#[test]
fn a_scenario_that_makes_no_sense_says_why() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 6] = [
        (|entry| entry["model"] = json!("Eager"), "not `Eager`"),
        (
            |entry| entry["policy"] = json!("SRPTxFCFS"),
            "with a model the policy is",
        ),
        (|entry| entry["servers"] = json!(0), "1 to 100000 servers"),
        (
            |entry| entry["sets"] = json!([[[5.0, -1.0]]]),
            "what a task takes must be seconds",
        ),
        (|entry| entry["sets"] = json!([[[]]]), "a set has no tasks"),
        (
            |entry| entry["cancel_after"] = json!([[0]]),
            "cancel_after counts from 1",
        ),
    ];
    for (change, why) in cases {
        let error = read(&scenario(change).to_string())
            .expect_err(why)
            .to_string();
        assert!(
            error.contains(why) && error.contains("entry 1 of `scenarios`"),
            "{error}"
        );
    }
}

#[test]
fn the_grid_has_as_many_points_as_the_paper() {
    let points = grid();
    assert_eq!(points.len(), 3_168);
    assert_eq!(
        points
            .iter()
            .filter(|point| point.change_max == 0.0 || point.tasks_max == 1)
            .count(),
        1_584
    );
}

/// What is spent and got.
#[derive(Default, PartialEq, Debug)]
struct Sums {
    busy_s: f64,
    used_s: f64,
    finished: Vec<Which>,
}

impl Audience for Sums {
    fn finished(&mut self, _at: Time, which: Which, fate: &TaskFate) {
        assert_eq!(fate.used, fate.takes, "{which:?} was executed");
        self.finished.push(which);
    }

    fn ran(&mut self, from: Time, to: Time) {
        self.busy_s += to.since(from).secs();
    }

    fn through(&mut self, _at: Time, _user: usize, _set: usize, fates: &[TaskFate]) {
        self.used_s += fates.iter().map(|fate| fate.used.secs()).sum::<f64>();
    }
}

#[test]
fn users_are_the_same_under_every_policy_and_no_work_is_lost_or_done_twice() {
    let parameters = StudyPoint {
        users: 6,
        change_max: 0.4,
        tasks_max: 13,
        service_s: 400.0,
        think_s: 2_000.0,
    };

    let mut orders = Vec::new();
    for policy in [
        "INTERACTIVE-SRPT",
        "BATCH-FCFS",
        "SRPTxFCFS",
        "FCFSxNEED",
        "SRPTxNEED",
    ] {
        for servers in [1, 3] {
            let mut sums = Sums::default();
            let days = Time(10 * 86_400 * 1_000_000);
            run(
                &Random::new(7, parameters),
                policy,
                servers,
                days,
                &mut sums,
            );

            assert!(
                sums.used_s <= sums.busy_s && sums.busy_s <= sums.used_s * 1.2,
                "{policy}: {sums:?}"
            );
            assert!(sums.busy_s <= 10.0 * 86_400.0 * servers as f64);

            let first: Vec<Which> = sums
                .finished
                .iter()
                .filter(|which| which.user == 0)
                .copied()
                .collect();
            orders.push(first);
        }
    }

    for pair in orders.windows(2) {
        assert!(
            pair[0].iter().zip(&pair[1]).all(|(a, b)| a == b),
            "a user asks for the same tasks, sooner or later"
        );
    }
}

#[test]
fn a_small_report_says_everything_and_comes_out_the_same_on_any_number_of_threads() {
    let study = |threads| Study {
        seed: 3,
        threads,
        stride: 1_000,
        value_stride: 4,
        repetitions: 1,
        days: 3,
    };
    let files = reproduce(&study(2), &mut |_| ());
    let report = &files[0].text;

    for part in [
        "Table 3",
        "Figures 4 and 5",
        "3.647",
        "SRPTxNEED",
        "figure-13.svg",
        "`deskgrid-lab reproduce petrou --quick --seed 3 --runs 1` gives",
    ] {
        assert!(report.contains(part), "{part} is missing:\n{report}");
    }

    assert!(!report.contains("NaN"), "{report}");
    for number in 4..=13 {
        let name = format!("figure-{number:02}.csv");
        assert!(
            files
                .iter()
                .any(|file| file.name == name && file.text.lines().count() > 4),
            "{name}"
        );
    }

    // One run has no interval.
    let bars = files.iter().find(|file| file.name == "figure-07.csv");
    let bars = &bars.expect("a table").text;
    assert!(
        bars.lines().skip(1).all(|line| line.ends_with(",,")),
        "{bars}"
    );

    assert!(files == reproduce(&study(1), &mut |_| ()));
}
