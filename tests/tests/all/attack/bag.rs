//! One bad PC does not eat the bag: rows C18 of the attack and B2 of a new user's first hour.

use serde_json::Value;
use tests::Grid;

use crate::e2e::attempts;

/// A host on which no program is found.
const BROKEN: &str = "path = \"/nonexistent\"\n";

#[test]
fn a_host_that_finds_no_program_does_not_eat_a_bag_without_retries() {
    let mut grid = Grid::start();
    grid.worker("good").slots(1).start();
    grid.worker("broken").slots(1).config(BROKEN).start();
    let job = grid.submit(["--array", "1-60", "--", "sleep", "0.1"]);
    grid.deskgrid(["job", "wait", &job]).expect_code(0);
    let info = &grid.json(["job", "info", &job]);
    let attempts = info["attempts"].as_u64().expect("a number");
    assert_eq!(info["state"], Value::from("finished"), "{info}");
    assert!((61..=75).contains(&attempts), "the broken host was tried a few times: {info}");
}

#[test]
fn a_program_that_no_host_has_fails_its_job_at_once_and_says_so() {
    for hosts in [1, 3] {
        let mut grid = Grid::start();
        for host in 0..hosts {
            grid.worker(&format!("h{host}")).slots(1).start();
        }
        grid.deskgrid(["submit", "--wait", "--retries", "10", "--", "no-such-program-here"]).expect_code(3);
        let reason = attempts(&grid, "1.1")[0]["reason"].to_string();
        assert!(reason.contains("no-such-program-here"), "{reason}");
        assert_eq!(grid.json(["job", "info", "last"])["attempts"], Value::from(hosts));
    }
}
