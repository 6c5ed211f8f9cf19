//! Simulating and looking at traces from the command line. No grid is asked, and none has to be
//! there.

use serde_json::Value;
use tests::{Grid, Output, lab};

use super::number;

const HOSTS: &str = "host,clock_mhz\nfast,3000\nslow,1500\n";

/// A directory with a trace, beside the grid's other files.
fn trace(grid: &Grid, name: &str, segments: &str) -> String {
    std::fs::create_dir_all(grid.dir().join(name)).expect("a directory for the trace");
    grid.file(&format!("{name}/hosts.csv"), HOSTS);
    let text = format!("host,start_s,end_s,host_available,cpu_fraction\n{segments}");
    grid.file(&format!("{name}/availability.csv"), text);
    grid.dir().join(name).display().to_string()
}

#[test]
fn a_trace_is_simulated_under_policies_and_compared_with_the_optimum() {
    let mut grid = Grid::start();
    grid.kill_master();

    // The fast host goes down at 100.5 s, which is noticed at 120 s; the slow one has the task
    // until 460 s. Whoever knows that takes the slow one at once.
    let dir = trace(
        &grid,
        "down",
        "fast,0,100.5,1,1\nfast,100.5,9000,0,0\nslow,0,9000,1,1\n",
    );
    let asked = [
        "simulate",
        "--trace",
        &dir,
        "--policy",
        "optimal,pri-cr",
        "--tasks",
        "1",
        "--size",
        "5m",
        "--start",
        "0",
    ];
    let answer = grid.json(asked);
    let rows = answer["rows"].as_array().expect("rows");
    let best = &rows[0];
    let row = &rows[1];
    assert_eq!(
        (best["policy"].as_str(), row["policy"].as_str()),
        (Some("OPTIMAL"), Some("PRI-CR"))
    );

    assert!((number(&best["makespan_s"]) - 340.0).abs() < 1e-3, "{best}");
    assert!((number(&row["makespan_s"]) - 460.0).abs() < 1e-3, "{row}");
    assert!(
        (number(&row["ratio"]) - 460.0 / 340.0).abs() < 1e-6,
        "{row}"
    );

    let known = [
        "platform",
        "trace",
        "start_s",
        "tasks",
        "task_s",
        "optimal_s",
        "replicas",
        "cpu_waste",
        "finished",
    ];
    assert!(known.iter().all(|field| !row[*field].is_null()), "{row}");

    let summary = &answer["summary"][1];
    let known = [
        "platform",
        "policy",
        "geo_ratio",
        "worst_ratio",
        "mean_replicas",
        "max_replicas",
    ];
    assert!(
        known.iter().all(|field| !summary[*field].is_null()),
        "{summary}"
    );
}

#[test]
fn an_unfinishable_run_is_reported_as_unfinished_with_the_reason() {
    let grid = Grid::start();
    let dir = trace(&grid, "never", "fast,0,9000,0,0\nslow,0,9000,0,0\n");
    let asked = ["simulate", "--trace", &dir, "--policy", "FCFS,OPTIMAL"];
    let answer = grid
        .deskgrid(
            asked
                .into_iter()
                .chain(["--output", "json", "--start", "0"]),
        )
        .expect_code(1)
        .json();
    for row in answer["rows"].as_array().expect("rows") {
        assert_eq!(
            (&row["finished"], &row["makespan_s"]),
            (&Value::Bool(false), &Value::Null),
            "{row}"
        );
    }

    let said = grid.deskgrid(asked).expect_code(1).stdout;
    for words in ["12 of 12 runs did not finish", "--tasks", "longer trace"] {
        assert!(said.contains(words), "{said}");
    }
    let late = grid
        .deskgrid(asked.into_iter().chain(["--start", "9000"]))
        .expect_code(2)
        .stderr;
    assert!(
        late.contains("the trace ends 9000 s after its start"),
        "{late}"
    );
}

#[test]
fn tasks_that_checkpoint_may_be_done_before_the_optimum_and_the_table_says_so() {
    let grid = Grid::start();
    // Hosts are up for ten minutes at a time, in which none is done with a task of this size.
    let segments: String = (0..20)
        .flat_map(|n| ["fast", "slow"].map(|host| (host, n * 660)))
        .map(|(host, from)| {
            let down = from + 600;
            let to = from + 660;
            format!("{host},{from},{down},1,1\n{host},{down},{to},0,0\n")
        })
        .collect();
    let dir = trace(&grid, "outages", &segments);
    let asked = [
        "simulate",
        "--trace",
        &dir,
        "--policy",
        "OPTIMAL,FCFS",
        "--tasks",
        "1",
        "--size",
        "30m",
        "--start",
        "0",
    ];
    let kept = [&asked[..], &["--checkpoint"]].concat();
    let answer = grid.json(&kept);
    let best = &answer["rows"][0];
    let row = &answer["rows"][1];
    assert_eq!(
        (&best["policy"], &best["finished"]),
        (&Value::from("OPTIMAL"), &Value::Bool(false)),
        "{best}"
    );
    assert_eq!(row["finished"], true, "{row}");

    let note = "OPTIMAL is of tasks that begin anew after an outage";
    let said = grid.text(&kept);
    assert!(said.contains(note), "{said}");
    let said = grid.deskgrid(asked).expect_code(1).stdout;
    assert!(!said.contains(note), "{said}");
}

#[test]
fn a_short_trace_is_simulated_from_its_first_half_and_the_makespan_is_shown() {
    let grid = Grid::start();
    let dir = trace(&grid, "hour", "fast,0,3600,1,1\nslow,0,3600,1,1\n");
    let asked = [
        "simulate", "--trace", &dir, "--policy", "FCFS", "--tasks", "2", "--size", "1m",
    ];
    let answer = grid.json(asked);
    for row in answer["rows"].as_array().expect("rows") {
        assert!(
            number(&row["start_s"]) <= 1_800.0 && row["finished"] == true,
            "{row}"
        );
    }

    // Both hosts begin at once, and the slow one needs a minute and the cost of a start.
    let makespan_s = number(&answer["summary"][0]["median_makespan_s"]);
    assert!((60.0..=200.0).contains(&makespan_s), "{makespan_s}");
    let said = grid.text(asked);
    assert!(said.contains("MAKESPAN"), "{said}");

    // No task of two hours is done in an hour.
    let long = [&asked[..asked.len() - 1], &["2h"]].concat();
    let asked = ["--output", "json"].into_iter().chain(long);
    let unfinished = grid.deskgrid(asked).expect_code(1).json();
    let summary = &unfinished["summary"][0];
    let runs = unfinished["rows"].as_array().expect("rows").len();
    assert_eq!(summary["unfinished"], runs, "{summary}");
    assert!(
        summary["geo_ratio"].is_null() && summary["worst_ratio"].is_null(),
        "{summary}"
    );
}

#[test]
fn jobs_start_all_over_a_long_trace_and_leave_room_at_its_end() {
    let grid = Grid::start();
    // For ten days only the last seven have a host.
    let dir = trace(
        &grid,
        "weeks",
        "fast,0,259200,0,0\nfast,259200,864000,1,1\nslow,0,864000,0,0\n",
    );
    let asked = ["simulate", "--trace", &dir, "--policy", "FCFS"];
    let job = ["--tasks", "1", "--size", "1m", "--runs", "40"];
    let answer = grid.json(asked.into_iter().chain(job));
    let starts: Vec<f64> = answer["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| number(&row["start_s"]))
        .collect();
    let days = |from: f64, to: f64| {
        let inside = |start_s: &&f64| (from * 86_400.0..to * 86_400.0).contains(*start_s);
        starts.iter().filter(inside).count()
    };
    assert_eq!(days(0.0, 9.0), 40, "{starts:?}");
    assert!(
        days(0.0, 3.0) > 0 && days(3.0, 6.0) > 0 && days(6.0, 9.0) > 0,
        "{starts:?}"
    );
}

#[test]
fn the_makespan_is_the_median_of_all_runs_and_unknown_where_half_of_them_did_not_finish() {
    let grid = Grid::start();
    // Before 200 s the host finishes a minute's task, and after that it is down.
    let dir = trace(
        &grid,
        "half",
        "fast,0,200,1,1\nfast,200,900,0,0\nslow,0,900,0,0\n",
    );
    let told = |starts: &str| {
        let asked = ["simulate", "--trace", &dir, "--policy", "FCFS"];
        let job = ["--tasks", "1", "--size", "1m", "--start", starts];
        grid.json(asked.into_iter().chain(job))
    };
    let median = |starts: &str| told(starts)["summary"][0]["median_makespan_s"].clone();

    assert!((number(&median("0,10,300")) - 70.0).abs() < 1e-3);
    assert_eq!(median("0,300,400"), Value::Null);
    assert_eq!(median("0,300"), Value::Null);
    let asked = ["simulate", "--trace", &dir, "--policy", "FCFS"];
    let job = ["--tasks", "1", "--size", "1m", "--start", "0,300,400"];
    let said = grid.deskgrid(asked.into_iter().chain(job)).expect_code(0);
    let row = said.stdout.lines().find(|line| line.contains("FCFS"));
    let row: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert!(row.windows(2).any(|pair| pair == ["FCFS", "-"]), "{row:?}");

    // The mean of the two in the middle, one of which waits for its host.
    let late = trace(
        &grid,
        "late",
        "fast,0,100,0,0\nfast,100,9000,1,1\nslow,0,9000,0,0\n",
    );
    let asked = ["simulate", "--trace", &late, "--policy", "FCFS"];
    let job = ["--tasks", "1", "--size", "1m", "--start", "60,200"];
    let found = grid.json(asked.into_iter().chain(job));
    let median_s = number(&found["summary"][0]["median_makespan_s"]);
    assert!((median_s - (110.0 + 70.0) / 2.0).abs() < 1e-3, "{median_s}");
}

#[test]
fn a_start_after_a_generated_day_is_refused() {
    let grid = Grid::start();
    let asked = ["simulate", "--platform", "lab", "--policy", "FCFS"];
    let late = grid
        .deskgrid(asked.into_iter().chain(["--start", "14400,100800"]))
        .expect_code(2)
        .stderr;
    let says = "a generated day ends 100800 s after its start, before a job can start at 100800 s";
    assert!(late.contains(says), "{late}");
}

#[test]
fn a_part_of_a_recorded_trace_begins_when_it_was_asked_to() {
    let grid = Grid::start();
    let lines = "0\t0\t1\t1\tpc\t1\t1000000000\t1000020000\tNULL\n";
    let file = grid.file("event_trace.tab", lines).display().to_string();
    let since = "2001-09-09T05:06:40Z";
    let stats = grid.json(["trace", "stats", "--format", "fta", &file, "--since", since]);
    assert_eq!(number(&stats["power_mean"]), 1.0, "{stats}");

    let asked = ["trace", "export", "--from", &file, "--from-format", "fta"];
    let cut = ["--since", since, "--format", "csv", "--out", "cut"];
    let answer = grid.json(asked.into_iter().chain(cut));
    assert_eq!(answer["since"], "2001-09-09T05:06:40.000000Z", "{answer}");
    let written = std::fs::read_to_string(grid.dir().join("cut/availability.csv"));
    let written = written.expect("was written");
    assert_eq!(
        written.lines().nth(1),
        Some("pc,0.000000,8000.000000,1,1.000000000"),
        "{written}"
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let grid = Grid::start();
    let run = |seed: &str, threads: &str| {
        let asked = [
            "simulate",
            "--platform",
            "lab",
            "--policy",
            "FCFS,EXCL-PRED-TO",
            "--hosts",
            "40",
            "--tasks",
        ];

        let more = [
            "30",
            "--runs",
            "14",
            "--output",
            "json",
            "--seed",
            seed,
            "--threads",
            threads,
        ];
        grid.text(asked.into_iter().chain(more))
    };
    assert_eq!(run("5", "1"), run("5", "2"));
    assert_ne!(run("5", "1"), run("6", "1"));
}

#[test]
fn a_bad_trace_is_refused_with_its_file_its_line_and_the_reason() {
    let grid = Grid::start();
    let dir = trace(
        &grid,
        "gap",
        "fast,0,10,1,1\nfast,20,30,1,1\nslow,0,30,1,1\n",
    );
    for command in [
        &["simulate", "--policy", "FCFS", "--trace"][..],
        &["trace", "stats"][..],
    ] {
        let Output { stdout, stderr, .. } = grid
            .deskgrid(command.iter().copied().chain([&*dir]))
            .expect_code(2);
        assert_eq!(stdout, "");
        for word in ["availability.csv", "line 3", "gap", "try:"] {
            assert!(stderr.contains(word), "`{word}` in: {stderr}");
        }
    }
}

#[test]
fn clock_rates_in_another_unit_are_refused_with_file_and_line() {
    let grid = Grid::start();
    let dir = trace(&grid, "hertz", "fast,0,9000,1,1\nslow,0,9000,1,1\n");
    let clocks = "host,clock_mhz\nfast,3000\nslow,1500000000\n";
    let hosts = grid.file("hertz/hosts.csv", clocks).display().to_string();
    for asked in [
        &["trace", "stats", &dir][..],
        &["simulate", "--policy", "FCFS", "--trace", &dir],
        &["simulate", "--policy", "FCFS", "--platform", &hosts],
    ] {
        let refused = grid.deskgrid(asked).expect_code(2).stderr;
        for words in ["hosts.csv, line 3", "is 1500000000 MHz", "another unit"] {
            assert!(refused.contains(words), "`{words}` in: {refused}");
        }
    }
}

#[test]
fn statistics_of_a_trace_and_of_a_model_have_the_contracts_fields() {
    let grid = Grid::start();
    let dir = trace(
        &grid,
        "fine",
        "fast,0,1000,1,1\nfast,1000,2000,0,0\nslow,0,2000,1,0.5\n",
    );
    let stats = grid.json(["trace", "stats", "--format", "csv", &dir]);
    assert_eq!(
        (&stats["hosts"], &stats["segments"]),
        (&Value::from(2), &Value::from(3))
    );
    assert_eq!(number(&stats["unavailability"]["mean_s"]), 1_000.0);

    for field in [
        "availability",
        "unavailability",
        "failure_by_task_s",
        "power_cv",
    ] {
        assert!(!stats[field].is_null(), "{field}: {stats}");
    }

    let wrong = grid
        .deskgrid(["trace", "stats", "--model", "heavy-falure"])
        .expect_code(2);
    assert!(wrong.stderr.contains("heavy-failure"), "{}", wrong.stderr);
}

#[test]
fn unknown_words_are_refused_with_the_known_ones() {
    let grid = Grid::start();
    let refused = |words: &[&str], wanted: &str| {
        let output = grid
            .deskgrid(["simulate"].iter().chain(words))
            .expect_code(2);
        assert!(
            output.stderr.contains(wanted),
            "`{wanted}` in: {}",
            output.stderr
        );
    };
    refused(&["--policy", "FCSF"], "FCFS");
    refused(&["--policy", "EXCL-PRED-TO:rever=1"], "revert");
    refused(&["--policy", "FCFS", "--platform", "sdcs"], "sdsc");
    refused(&["--policy", "FCFS", "--size", "0s"], "time");

    refused(&["--policy", "FCFS", "--start", "soon"], "soon");
}

#[test]
fn limits_are_predicted_for_a_law_and_for_runs_that_were_seen() {
    let grid = Grid::start();
    let answer = grid.json([
        "predict",
        "limits",
        "--dist",
        "truncnorm:0,20,8,2",
        "--n",
        "200",
        "--zeta",
        "0",
    ]);
    assert!(
        (number(&answer["expected_cost"]) - 11.937_460_987).abs() < 1e-9,
        "{answer}"
    );

    let limits: Vec<f64> = answer["sequence"]
        .as_array()
        .expect("limits")
        .iter()
        .map(number)
        .collect();

    let known = [10.8, 13.4, 15.4, 17.1, 18.7, 20.0];
    assert!(
        limits
            .iter()
            .zip(known)
            .all(|(limit, known)| (limit - known).abs() < 1e-9),
        "{limits:?}"
    );

    assert_eq!(limits.len(), known.len());
    assert!(
        (number(&answer["done"][0]) - 0.919).abs() < 1e-3,
        "{answer}"
    );

    let runs =
        "3.0\n3.2\n3.1\n3.3\n2.9\n3.0\n9.5 # slow\n3.4\n3.1\n10.2\n3.2\n3.0\n3.3\n9.9\n3.1\n3.2\n";

    let file = grid.file("runs.txt", runs).display().to_string();
    let answer = grid.json(["predict", "limits", "--runs", &file, "--n", "102"]);
    assert!(
        (number(&answer["expected_cost"]) - 5.3125).abs() < 1e-9,
        "{answer}"
    );
    assert_eq!(
        (&answer["runs"]["count"], &answer["runs"]["killed"]),
        (&Value::from(16), &Value::from(0))
    );
    assert!(
        number(&answer["learned"]["expected_cost"]) > 5.0,
        "{answer}"
    );
}

#[test]
fn a_prediction_of_limits_without_data_is_refused_with_the_reason() {
    let grid = Grid::start();
    let file = grid
        .file("runs.txt", "3.0\n# none\nthree\n")
        .display()
        .to_string();
    for (asked, words) in [
        (&["--dist", "truncnorm:0,20,8"][..], "takes 4 numbers"),
        (&["--dist", "pareto:0,20,2"], "must begin after 0"),
        (&["--dist", "uniform:0,10", "--zeta", "1"], "never catch up"),
        (
            &["--runs", &file],
            "runs.txt, line 3: `three` is no run time",
        ),
        (&["--runs", "/nowhere"], "/nowhere"),
    ] {
        let Output {
            stderr,
            stdout,
            code,
        } = grid.deskgrid(["predict", "limits"].iter().chain(asked));
        assert!(code != 0 && stdout.is_empty(), "{asked:?}: {stdout}");
        assert!(stderr.contains(words), "`{words}` in: {stderr}");
    }
}

#[test]
fn a_bad_log_is_refused_before_anything_is_reproduced() {
    let grid = Grid::start();
    let file = grid
        .file("bad.swf", "; MaxProcs: 100\n1 2 3\n")
        .display()
        .to_string();
    let out = grid.dir().join("report").display().to_string();
    let refused = lab(["reproduce", "gainaru", "--log", &file, "--out", &out]).expect_code(2);
    assert!(
        refused.stderr.contains("bad.swf, line 2: 3 fields"),
        "{}",
        refused.stderr
    );
    assert!(!std::path::Path::new(&out).join("report.md").exists());

    let policy = grid
        .deskgrid(["simulate", "--platform", "lab", "--policy", "TOPTIMAL"])
        .expect_code(2);
    assert!(policy.stderr.contains("learns limits"), "{}", policy.stderr);
}

#[test]
fn a_report_is_not_replaced_unless_told_to_and_a_log_that_is_not_read_is_refused() {
    let grid = Grid::start();
    let out = grid.dir().join("liars").display().to_string();
    let asked = [
        "reproduce",
        "liars",
        "--quick",
        "--runs",
        "1",
        "--out",
        &out,
    ];
    let report = grid.file("liars/report.md", "mine");
    let refused = lab(asked).expect_code(1).stderr;
    assert!(
        refused.contains("report.md is there already") && refused.contains("--force"),
        "{refused}"
    );
    let read = || std::fs::read_to_string(&report).expect("it is there");
    assert_eq!(read(), "mine");

    lab(asked.into_iter().chain(["--force"])).expect_code(0);
    assert!(read().starts_with("# Hosts that lie"), "{}", read());

    let unread = lab(["reproduce", "kondo", "--log", "nowhere.swf", "--out", &out]);
    let unread = unread.expect_code(2).stderr;
    assert!(unread.contains("reproduce kondo reads no log"), "{unread}");
}

#[test]
fn what_would_be_in_the_way_of_files_is_found_before_the_work() {
    let grid = Grid::start();
    let out = grid.dir().join("liars").display().to_string();
    grid.file("liars/liars.csv", "mine");
    let asked = [
        "reproduce",
        "liars",
        "--quick",
        "--runs",
        "1",
        "--out",
        &out,
    ];
    let refused = lab(asked).expect_code(1).stderr;
    assert!(
        refused.contains("liars.csv is there already\n"),
        "{refused}"
    );

    let job = [
        "simulate",
        "--platform",
        "lab",
        "--policy",
        "FCFS",
        "--runs",
        "1",
    ];
    grid.file("taken/rows.csv/inside", "mine");
    let file = grid.file("file", "mine").display().to_string();
    for (out, says) in [
        ("taken", "rows.csv is there already, and is no file"),
        (file.as_str(), "cannot make"),
    ] {
        for force in [&[][..], &["--force"]] {
            let words = [&job[..], &["--out", out], force].concat();
            let refused = grid.deskgrid(words).expect_code(1);
            assert!(refused.stderr.contains(says), "{refused:?}");
            assert_eq!(refused.stdout, "", "nothing was simulated");
        }
    }

    grid.file("old/summary.csv", "mine");
    let told = grid
        .deskgrid([&job[..], &["--out", "old"]].concat())
        .expect_code(1);
    let noted = "summary.csv is there already, and stays as it is if something else comes out";
    assert!(told.stderr.contains(noted), "{told:?}");
    assert!(
        told.stdout.contains("FCFS"),
        "the answer is not lost: {told:?}"
    );
}

#[test]
fn a_file_that_the_laboratory_cannot_read_is_a_mistake_of_the_command_line() {
    for words in [
        &["simulate", "--scenario"][..],
        &["predict", "calendar", "--state"],
        &["predict", "wait", "--state"],
        &["predict", "width", "--state"],
        &["predict", "accuracy", "--log"],
    ] {
        let told = lab([words, &["/nowhere/file"]].concat()).expect_code(2);
        assert!(told.stderr.contains("/nowhere/file"), "{told:?}");
    }
}

#[test]
fn flags_that_a_command_would_not_heed_are_refused() {
    let grid = Grid::start();
    let dir = trace(&grid, "plain", "fast,0,9000,1,1\nslow,0,9000,1,1\n");
    let hosts = grid.file("two.csv", HOSTS).display().to_string();
    let stats = ["trace", "stats", "--platform", "sdsc"];
    let simulate = ["simulate", "--policy", "FCFS"];
    for (command, words, named) in [
        (&stats[..], &["--hosts", "pc-1"][..], "--hosts"),
        (&stats[..], &["--since", "7d"], "--since"),
        (&stats[..], &["--until", "7d"], "--until"),
        (
            &["trace", "stats", "--model", "lab"],
            &["--hosts", "pc-1"],
            "--hosts",
        ),
        (&stats, &["--format", "fta"], "--format"),
        (
            &["trace", "stats"],
            &["--format", "fta", "--since", "7d"],
            "PATH",
        ),
        (&["trace", "stats", &dir], &["--seed", "7"], "--seed"),
        (&["trace", "stats"], &["--seed", "7"], "--platform"),
        (&simulate, &["--trace", &dir, "--hosts", "10"], "--hosts"),
        (
            &simulate,
            &["--platform", &hosts, "--hosts", "10"],
            "--hosts",
        ),
    ] {
        let refused = grid.deskgrid(command.iter().chain(words)).expect_code(2);
        assert!(refused.stderr.contains(named), "{}", refused.stderr);
    }

    let seeded = [&stats[..], &["--seed", "7"]].concat();
    assert_eq!(grid.json(seeded)["hosts"], Value::from(220));

    let asked = ["trace", "stats", &dir, "--since", "2026-02-30"];
    let refused = grid.deskgrid(asked).expect_code(2).stderr;
    assert!(
        refused.contains("`2026-02-30` is neither a date"),
        "{refused}"
    );
}

#[test]
fn tasks_that_need_more_than_a_slot_are_simulated_on_hosts_of_several_sizes() {
    let mut grid = Grid::start();
    grid.kill_master();
    let asked = |needs| {
        let hosts = ["simulate", "--platform", "homogeneous", "--hosts", "20"];
        let job = ["--tasks", "40", "--runs", "2", "--policy", "FCFS,deskgrid"];
        let asked = [&hosts[..], &job[..], &["--needs", needs][..]].concat();
        grid.json(asked)
    };
    let makespans = |told: &Value| -> Vec<f64> {
        let rows = told["rows"].as_array().expect("rows");
        let sound = rows.iter().all(|row| row["ratio"].as_f64() >= Some(1.0));
        assert!(sound, "none is shorter than the least possible: {told}");
        let of = |row: &Value| row["makespan_s"].as_f64().expect("done");
        rows.iter().map(of).collect()
    };
    let (small, large) = (asked("cpus=1"), asked("cpus=4,mem=6G"));
    let pairs = makespans(&small).into_iter().zip(makespans(&large));
    assert!(pairs.clone().all(|(small_s, large_s)| small_s < large_s));

    for (needs, says) in [
        ("os=windows", "no simulated host meets `os=windows`"),
        ("mem=65G", "no simulated host meets `mem=65G`"),
        ("mem=much", "mem"),
    ] {
        let job = [
            "simulate",
            "--platform",
            "lab",
            "--policy",
            "FCFS",
            "--needs",
            needs,
        ];
        let told = grid.deskgrid(job).expect_code(2).stderr;
        assert!(told.contains(says), "{told}");
    }
}
