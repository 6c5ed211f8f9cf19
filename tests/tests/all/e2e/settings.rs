//! An admin keeps settings for workers at the master; workers take them or refuse them, keep them
//! while the master is away, and show them to their owners.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tests::{Grid, Output, eventually};

use super::long_sleep;

const PATIENCE: Duration = Duration::from_secs(60);

/// Hours that have none in common: together they close a host whatever time it is.
const EARLY: &str = "[owner]\nhours = [\"mon-thu\"]\n";
const LATE: &str = "slots = 1\n[owner]\nhours = [\"fri-sun\"]\n";

/// `deskgrid host settings`, by an admin.
fn settings(grid: &Grid, verb: &[&str]) -> Output {
    grid.admin([&["host", "settings"], verb].concat())
}

/// The settings and the hosts that have them.
fn shown(grid: &Grid) -> Value {
    let words = ["--output", "json", "host", "settings", "show"];
    grid.admin(words).expect_code(0).json()
}

/// The state of the owner's worker.
fn status(grid: &Grid, worker: &str) -> Value {
    eventually("the worker answers its owner", PATIENCE, || {
        let said = grid.as_user(worker, ["--output", "json", "worker", "status"]);
        (said.code == 0).then(|| said.json())
    })
}

/// Waits until this host's settings stand so; returns the reason.
fn until_standing(grid: &Grid, host: &str, standing: &str) -> Value {
    let what = format!("the settings of {host} are {standing}");
    eventually(&what, PATIENCE, || {
        let shown = shown(grid);
        let hosts = shown["hosts"].as_array()?;
        let of_host = hosts.iter().find(|of| of["host"] == host)?;
        (of_host["standing"] == standing).then(|| of_host["why"].clone())
    })
}

fn until_state(grid: &Grid, host: &str, state: &str) -> Value {
    grid.until(
        &format!("{host} is {state}"),
        &["host", "info", host],
        |of| (of["state"] == state).then(|| of["reason"].clone()),
    )
}

#[test]
fn settings_from_the_master_hold_at_once_while_it_is_away_and_until_they_are_withdrawn() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    let early = grid.file("early.toml", EARLY);
    let late = grid.file("late.toml", LATE);
    grid.submit(["--", "sleep", &long_sleep()]);
    grid.until_it_runs("1.1");

    settings(&grid, &["set", &late.display().to_string(), "--host", "h1"]).expect_code(0);
    let stored = settings(&grid, &["set", &early.display().to_string()]).expect_code(0);
    assert!(stored.stdout.contains("stored for all"), "{stored:?}");
    assert_eq!(until_state(&grid, "h1", "suspended"), "outside-hours");
    assert_eq!(until_standing(&grid, "h1", "taken"), Value::Null);

    let told = status(&grid, "h1");
    let site = &told["site"];
    let keys: Vec<(&str, &str, bool)> = site["settings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|of| {
            let word = |key: &str| of[key].as_str().expect("a word");
            (word("key"), word("scope"), of["in_force"] == true)
        })
        .collect();
    assert_eq!(
        keys,
        [
            ("owner.hours", "all", true),
            ("owner.hours", "host h1", true),
            ("slots", "host h1", false),
        ]
    );
    assert!(site["changes"].as_array().is_some_and(|all| all.len() == 3));
    let says = told["why"][0]["says"].as_str().expect("a sentence");
    assert!(says.ends_with("by the settings from the master"), "{says}");
    let why = grid.as_user("h1", ["worker", "status", "--why"]).stdout;
    assert!(why.contains("owner.hours  [\"mon-thu\"]"), "{why}");

    // The worker knows them without the master, and a limit counts from its start on.
    grid.kill_master();
    grid.kill_worker("h1");
    grid.worker("h1").slots(2).launch();
    let told = status(&grid, "h1");
    assert_eq!(
        (&told["reason"], &told["slots"]),
        (&"outside-hours".into(), &1.into())
    );
    grid.start_master();
    assert_eq!(until_standing(&grid, "h1", "taken"), Value::Null);

    let withdrawn = settings(&grid, &["clear"]).expect_code(0);
    assert_eq!(withdrawn.stdout, "withdrawn for all\n");
    settings(&grid, &["clear", "--host", "h1"]).expect_code(0);
    grid.until("tasks run again", &["host", "info", "h1"], |host| {
        (host["reason"] != "outside-hours" && host["state"] != "lost").then_some(())
    });
    let told = status(&grid, "h1");
    assert_eq!(told["site"]["settings"], Value::Array(Vec::new()));

    let audit = grid.admin(["audit"]).expect_code(0).stdout;
    let stored = audit.lines().filter(|line| line.contains("settings"));
    let done: Vec<&str> = stored
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    assert_eq!(
        done,
        ["stored", "stored", "withdrawn", "withdrawn"],
        "{audit}"
    );
}

#[test]
fn an_owner_who_takes_no_settings_gets_none_and_the_admin_sees_who_refused() {
    let mut grid = Grid::start();
    grid.worker("open").start();
    grid.worker("closed")
        .config("settings_from_master = false\n")
        .start();
    grid.worker("elsewhere").start();
    let file = grid.file("lab.toml", "[owner.battery]\ncharge_above = 1.0\n");
    let file = file.display().to_string();
    let early = settings(&grid, &["set", &file, "--label", "lab3"]).expect_code(0);
    let warned = early.stderr.contains("no host has the label `lab3`")
        && early.stderr.contains("deskgrid host label HOST lab3");
    assert!(warned && !early.stdout.contains("hosts"), "{early:?}");
    let shown = shown(&grid);
    assert_eq!(shown["hosts"], Value::Array(Vec::new()), "{shown}");

    // A label that comes later brings the settings of its hosts.
    for host in ["open", "closed"] {
        grid.admin(["host", "label", host, "lab3"]).expect_code(0);
    }
    assert_eq!(until_standing(&grid, "open", "taken"), Value::Null);
    let why = until_standing(&grid, "closed", "refused");
    let why = why.as_str().expect("a reason");
    assert!(why.contains("settings_from_master = false"), "{why}");
    let late = settings(&grid, &["set", &file, "--label", "lab3"]).expect_code(0);
    assert!(
        late.stdout.contains("for label lab3, 2 hosts for now"),
        "{late:?}"
    );
    assert_eq!(late.stderr, "");
    let table = settings(&grid, &["show"]).expect_code(0).stdout;
    assert!(table.contains("hosts: 1 refused, 1 taken"), "{table}");
    assert!(!table.contains("elsewhere"), "{table}");

    let told = status(&grid, "closed");
    let site = &told["site"];
    assert_eq!(site["takes"], false);
    assert_eq!(site["settings"], Value::Array(Vec::new()));
    assert_eq!(told["decision"], "run");
    let audit = grid.admin(["audit"]).expect_code(0).stdout;
    assert!(
        audit.contains("takes no settings from the master"),
        "{audit}"
    );

    grid.admin(["host", "label", "open", "--remove", "lab3"])
        .expect_code(0);
    eventually("its settings go with the label", PATIENCE, || {
        let told = status(&grid, "open");
        (told["site"]["settings"] == Value::Array(Vec::new())).then_some(())
    });
}

#[test]
fn settings_that_make_no_sense_or_would_loosen_something_are_refused_where_they_are_stored() {
    let grid = Grid::start();
    grid.login("ann");
    let set = |text: &str| {
        let file = grid.file("site.toml", text);
        settings(&grid, &["set", &file.display().to_string()])
    };
    for (text, why) in [
        ("slotz = 1", "there is no setting `slotz`"),
        ("slots = \"two\"", "expected u32"),
        (
            "confinement = \"process\"",
            "`confinement` cannot come from the master",
        ),
        (
            "share_inputs = true",
            "only `false` can come from the master",
        ),
        ("memory_limit_bytes = 0", "none at all would be no limit"),
        ("slots = 1 # \u{1b}[2J", "a control character in line 1"),
        (&"#".repeat(3_001), "3001 bytes long, and 3000 at most"),
    ] {
        let refused = set(text).expect_code(2).stderr;
        assert!(refused.contains(why), "{text}: {refused}");
        assert!(
            refused.contains("try: see what can be set: deskgrid host settings example"),
            "{refused}"
        );
    }

    let marked = set("\u{feff}slots = 1\r\n").expect_code(0);
    assert!(
        marked.stderr.contains("no host has joined yet"),
        "{marked:?}"
    );
    settings(&grid, &["clear"]).expect_code(0);

    let example = settings(&grid, &["example"]).expect_code(0).stdout;
    assert_eq!(
        example,
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/site.toml"))
            .expect("is there")
    );
    let file = grid.file("all.toml", example).display().to_string();
    let nobody = settings(&grid, &["set", &file, "--host", "nobody"]);
    let nobody = nobody.expect_code(1).stderr;
    assert!(nobody.contains("there is no host `nobody`"), "{nobody}");
    let none = settings(&grid, &["clear"]).expect_code(1).stderr;
    assert!(none.contains("there are no settings for all"), "{none}");
    let missing = settings(&grid, &["set", "nowhere.toml"]);
    assert!(
        missing
            .expect_code(2)
            .stderr
            .contains("cannot read nowhere.toml")
    );

    for verb in [&["show"][..], &["set", &file], &["clear"]] {
        let refused = grid
            .as_user("ann", [&["host", "settings"], verb].concat())
            .expect_code(6)
            .stderr;
        assert!(refused.contains("needs the role admin"), "{refused}");
    }
    assert!(
        shown(&grid)["settings"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
}
