//! The views of a store in PostgreSQL for people and for what draws numbers: what they show while a master
//! runs, and to whom. They need a PostgreSQL (`tests/postgres cargo nextest run -p tests --test faults
//! views`), and pass without one.

use std::collections::BTreeSet;

use tests::{Postgres, eventually};

use super::pair::{LONG, Pair};

const DOC: &str = include_str!("../../../docs/metrics.md");

/// The views and columns in the table of the docs.
fn documented() -> BTreeSet<(String, String)> {
    let of_line = |line: &str| {
        let mut cells = line
            .split('|')
            .map(|cell| cell.trim().trim_matches('`').to_owned());
        Some((cells.nth(1)?, cells.next()?))
    };
    let rows = DOC.lines().filter(|line| line.starts_with("| `people_"));
    rows.filter_map(of_line).collect()
}

/// The blocks of SQL in the docs that begin so.
fn block(start: &str) -> String {
    let mut blocks = DOC.split("```sql\n").skip(1);
    let found = blocks.find(|block| block.starts_with(start));
    let found = found.and_then(|block| block.split("```").next());
    found.expect("a block of SQL").to_owned()
}

/// The database for a role of its own, made as the docs say.
fn viewer(server: &Postgres) -> Postgres {
    let role = format!("view_{:032x}", rand::random::<u128>());
    server.psql(&block("CREATE ROLE").replace("grafana", &role));
    let mut viewer = server.clone();
    viewer.url = server.url.replace("//deskgrid@", &format!("//{role}@"));
    viewer
}

#[test]
fn the_views_of_a_database_are_read_by_a_role_that_can_do_nothing_else_while_a_master_runs() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let viewer = viewer(&pair.server);
    let there = viewer.psql(
        "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_name LIKE 'people%'",
    );
    let there: BTreeSet<(String, String)> = there
        .lines()
        .filter_map(|line| line.split_once('.'))
        .map(|(view, column)| (view.to_owned(), column.to_owned()))
        .collect();
    assert_eq!(there, documented());

    pair.json(&[
        "submit", "--wait", "--name", "first", "--array", "1-3", "--", "true",
    ]);
    let (job, _) = pair.submit(40, 0.2);
    let sql = format!(
        "SELECT tasks_finished, attempts_running, tasks, submitted_by, ended IS NULL FROM deskgrid.people_jobs WHERE job = {job}"
    );
    eventually("the view counts what goes on", LONG, || {
        let row = viewer.psql(&sql);
        let cells: Vec<&str> = row.split('|').collect();
        assert_eq!(cells[2..], ["40", "user", "t"], "{row}");
        let finished: u64 = cells[0].parse().expect("a number");
        (finished >= 2 && cells[1] == "2").then_some(())
    });

    let ended = "SELECT tasks_finished, attempts_running, waited_seconds >= 0, took_seconds >= 0,
                 ended BETWEEN now() - interval '1 hour' AND now() FROM deskgrid.people_jobs WHERE name = 'first'";
    assert_eq!(viewer.psql(ended), "3|0|t|t|t");
    assert_eq!(viewer.psql("SELECT host FROM deskgrid.people_hosts"), "pc");
    let attempts = "SELECT count(*), min(host), bool_and(ended >= started), bool_and(ran_seconds >= 0) FROM deskgrid.people_attempts
                    WHERE job_name = 'first' AND state = 'finished'";
    assert_eq!(viewer.psql(attempts), "3|pc|t|t");
    let drawn = block("SELECT date_trunc");
    let drawn = drawn.replace("$__timeFilter(ended)", "ended > now() - interval '1 hour'");
    assert!(viewer.psql(&drawn).contains("|finished|"));

    // Of the tables it sees nothing, and it changes nothing.
    for what in [
        "PERFORM 1 FROM deskgrid.job",
        "PERFORM 1 FROM deskgrid.token",
        "UPDATE deskgrid.people_jobs SET name = 'x'",
        "DELETE FROM deskgrid.people_hosts",
    ] {
        viewer.psql(&format!(
            "DO $$ BEGIN {what}; RAISE 'it may'; EXCEPTION WHEN insufficient_privilege OR object_not_in_prerequisite_state THEN NULL; END $$"
        ));
    }
    pair.run("user", &["job", "cancel", &job]).expect_code(0);
}
