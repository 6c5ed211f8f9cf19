//! The numbers at `/metrics`, and the files that use them: alert rules, and a dashboard for Grafana.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use master::{METRICS, Metric};
use serde_json::Value;
use tests::Grid;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn text(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).expect(path)
}

/// Prometheus' own checker, if it is here: `./test` fetches it where it can.
fn promtool() -> Option<PathBuf> {
    let fetched = repository().join("target/tools/promtool");
    let there = |path: &PathBuf| path.exists();
    let found = Some(fetched).filter(there).or_else(|| {
        let path = std::env::var_os("PATH")?;
        let mut all = std::env::split_paths(&path).map(|dir| dir.join("promtool"));
        all.find(there)
    });
    if found.is_none() {
        eprintln!("skipped in part: there is no promtool");
    }
    found
}

fn checked(command: &mut Command) {
    let output = command.output().expect("promtool starts");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The words of an expression that could name a number of the master.
fn named(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let ours = words.filter(|word| word.starts_with("deskgrid_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

/// Whether the master has a number of this name, or a series that a histogram makes.
fn exists(name: &str) -> bool {
    let plain = name.strip_suffix("_bucket").unwrap_or(name);
    METRICS.iter().any(|metric| metric.name == plain)
}

#[test]
fn each_number_of_a_master_at_work_is_described() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    grid.submit(["--array", "1-3", "--wait", "--", "true"]);
    let bad = grid.submit(["--", "false"]);
    grid.deskgrid(["job", "wait", &bad]).expect_code(3);
    let waits = grid.submit(["--needs", "mem=900G", "--", "true"]);

    let served = grid.metrics();
    let value = |series: &str| {
        let line = served.lines().find_map(|line| line.strip_prefix(series));
        let value = line.unwrap_or_else(|| panic!("no {series} in {served}"));
        value.trim().parse::<f64>().expect("a number")
    };
    assert_eq!(
        value("deskgrid_tasks_settled_total{state=\"finished\"}"),
        3.0
    );
    assert_eq!(value("deskgrid_tasks_settled_total{state=\"failed\"}"), 1.0);
    assert_eq!(
        value("deskgrid_attempts_ended_total{state=\"finished\"}"),
        3.0
    );
    assert_eq!(value("deskgrid_jobs{state=\"waiting\"}"), 1.0);
    assert_eq!(value("deskgrid_tasks{state=\"waiting\"}"), 1.0);
    assert_eq!(value("deskgrid_hosts{state=\"ready\"}"), 1.0);
    assert_eq!(value("deskgrid_slots{state=\"free\"}"), 2.0);
    assert_eq!(value("deskgrid_users"), 1.0);
    assert!(value("deskgrid_store_bytes") > 4_096.0 && value("deskgrid_disk_free_bytes") > 0.0);
    assert!(value("deskgrid_commit_seconds_count") >= 4.0);
    assert!(value("process_resident_memory_bytes") > 1e6);

    // Nothing was sent to a worker, and there is no gateway: such numbers have no series yet.
    let unseen = [
        "deskgrid_content_sent_bytes_total",
        "deskgrid_gateway_workers",
    ];
    for Metric {
        name, about, kind, ..
    } in METRICS
    {
        if !unseen.contains(&name) {
            assert!(
                served.contains(&format!("# HELP {name} {about}\n")),
                "{name}"
            );
            assert!(
                served.contains(&format!("# TYPE {name} {kind}\n")),
                "{name}"
            );
        }
    }
    for line in served
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let name = named(line).pop_first().unwrap_or_default();
        let plain = name.strip_suffix("_sum").or(name.strip_suffix("_count"));
        assert!(exists(&name) || plain.is_some_and(exists), "{line}");
    }

    if let Some(promtool) = promtool() {
        let mut check = Command::new(promtool);
        let check = check.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut check = check
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool");
        let mut into = check.stdin.take().expect("a pipe");
        into.write_all(served.as_bytes()).expect("promtool reads");
        drop(into);
        let output = check.wait_with_output().expect("promtool ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.trim().is_empty(), "{said}");
    }
    grid.deskgrid(["job", "cancel", &waits]).expect_code(0);
}

#[test]
fn the_documented_numbers_are_those_of_the_master() {
    let documented = text("docs/metrics.md");
    let rows = documented
        .lines()
        .filter(|line| line.starts_with("| `deskgrid_") || line.starts_with("| `process_"));
    let rows: Vec<&str> = rows.collect();
    let expected = METRICS.map(|metric| {
        let label = metric
            .label
            .map_or(String::new(), |label| format!("`{label}`"));
        format!(
            "| `{}` | {} | {label} | {} |",
            metric.name, metric.kind, metric.about
        )
    });
    assert_eq!(rows, expected, "docs/metrics.md");

    for Metric {
        name, kind, unit, ..
    } in METRICS
    {
        let counts = kind == master::MetricKind::Counter;
        assert_eq!(name.ends_with("_total"), counts, "{name}");
        let stem = name.strip_suffix("_total").unwrap_or(name);
        if let Some(unit) = unit {
            assert!(stem.ends_with(unit.as_str()), "{name} ends with its unit");
        }
    }
}

#[test]
fn alert_rules_and_dashboard_use_numbers_that_exist() {
    let board: Value = serde_json::from_str(&text("configs/grafana.json")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let mut shown = BTreeSet::new();
    for target in targets {
        shown.append(&mut named(target["expr"].as_str().expect("an expression")));
    }
    let rules = text("configs/alerts.yml");
    let expressions = rules.split("expr:").skip(1);
    let mut used: BTreeSet<String> = expressions
        .flat_map(|rest| named(rest.split("labels:").next().unwrap_or_default()))
        .collect();
    assert!(shown.len() > 8 && used.len() > 4, "{shown:?} {used:?}");

    used.append(&mut shown);
    let unknown: Vec<&String> = used.iter().filter(|name| !exists(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn alerts_fire_for_their_cause_and_not_before() {
    let Some(promtool) = promtool() else {
        return;
    };
    let configs = repository().join("configs");
    checked(Command::new(&promtool).current_dir(&configs).args([
        "check",
        "config",
        "prometheus.yml",
    ]));

    let place = tempfile::tempdir().expect("a directory");
    std::fs::copy(configs.join("alerts.yml"), place.path().join("alerts.yml")).expect("a copy");
    let cases = repository().join("tests/tests/alerts_test.yml");
    std::fs::copy(cases, place.path().join("cases.yml")).expect("a copy");
    checked(
        Command::new(&promtool)
            .current_dir(place.path())
            .args(["test", "rules", "cases.yml"]),
    );
}
