//! Learned limits on a real grid: what runs into its limit is tried again with the next, and is
//! done by its deadline.

use serde_json::Value;
use tests::{Grid, Output};

use super::number;

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn a_bag_with_a_deadline_runs_with_limits_that_earlier_runs_taught() {
    let mut grid = Grid::start();
    // All runs are of one program: a second's sleep, but for one task.
    grid.file(
        "nap.sh",
        "[ \"$DESKGRID_TASK_ID\" = \"$1\" ] && exec sleep \"$2\"; exec sleep 1\n",
    );
    let nap = ["--input", "nap.sh", "--", "sh", "nap.sh"];
    grid.worker("h1").slots(2).start();
    grid.until_ready();

    let bag = |deadline: bool, more: &[&str]| {
        let with = ["--deadline", "10m", "--timeout", "auto"];
        let words = ["submit"]
            .into_iter()
            .chain(with.into_iter().filter(|_| deadline));
        words
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };

    // Nothing is known of the program yet, and where nothing is promised limits do not pay.
    let asked = grid.json(bag(
        true,
        &[&["--dry-run", "--estimate", "2s"][..], &nap, &["0", "0"]].concat(),
    ));
    assert_eq!(
        (&asked["accepted"], &asked["limits"]["runs"]),
        (&true.into(), &0.into()),
        "{asked}"
    );
    assert!(
        asked["limits"]["why"]
            .as_str()
            .is_some_and(|why| why.contains("0 of the 5 runs")),
        "{asked}"
    );

    let Output { stdout, stderr, .. } = grid
        .deskgrid([
            "--output",
            "json",
            "submit",
            "--timeout",
            "auto",
            "--dry-run",
            "--",
            "true",
        ])
        .expect_code(0);
    assert!(
        stdout.contains("pay only where time is reserved")
            && stderr.contains("note: --timeout auto"),
        "{stderr}"
    );

    // Most runs are short, and one is not: so will the next ones be.
    grid.json(bag(
        false,
        &[&["--array", "1-12", "--wait"][..], &nap, &["12", "8"]].concat(),
    ));

    let short = [&["--array", "1-6", "--dry-run"][..], &nap, &["0", "0"]].concat();
    let words = grid.text(bag(true, &short));
    assert!(
        words.contains("limits ")
            && words.contains("first succeeds with ")
            && words.contains("12 runs"),
        "{words}"
    );

    let known: Vec<f64> = grid.json(bag(true, &short))["limits"]["sequence_s"]
        .as_array()
        .map_or_else(Vec::new, |limits| limits.iter().map(number).collect());
    assert!(known.len() >= 2, "{known:?}");

    // One task takes longer than the first limit, and less than the second.
    let speed = number(&grid.json(["host", "info", "h1"])["speed"]);
    let between_s = (f64::midpoint(known[0], known[1]) / speed).to_string();
    let taken = grid.json(bag(
        true,
        &[&["--array", "1-6", "--wait"][..], &nap, &["3", &between_s]].concat(),
    ));
    let limits = &taken["limits"];
    let sequence: Vec<f64> = limits["sequence_s"]
        .as_array()
        .expect("limits")
        .iter()
        .map(number)
        .collect();
    assert!(sequence.len() >= 2 && sequence.is_sorted(), "{limits}");

    let first = number(&limits["p_first"]);
    assert!(
        (0.5..1.0).contains(&first) && limits["runs"] == 12,
        "{limits}"
    );
    assert_eq!(
        (&taken["info"]["state"], &taken["info"]["promise"]),
        (&"finished".into(), &"kept".into()),
        "{taken}"
    );
    assert_eq!(taken["info"]["policy"], "PROMISE:limits=learned", "{taken}");

    let id = taken["job"].to_string();
    let slow = grid.attempts(&format!("{id}.3"));
    let killed = &slow[0];
    let last = slow.last().expect("attempts");
    let says = |attempt: &Value, what: &str| {
        attempt["reason"]
            .as_str()
            .is_some_and(|why| why.contains(what))
    };

    assert!(slow.len() >= 2, "{slow:?}");
    assert_eq!(
        (&killed["state"], &last["state"]),
        (&"killed".into(), &"finished".into()),
        "{slow:?}"
    );
    assert!(
        says(killed, "killed at its time limit") && says(killed, "killed if it takes longer than"),
        "{slow:?}"
    );
    assert!(says(last, "next limit"), "{slow:?}");
    assert_eq!(
        grid.job(&id)["limits"]["runs"],
        12,
        "as it was told when the job was taken"
    );
}
