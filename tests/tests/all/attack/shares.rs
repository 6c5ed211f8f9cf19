//! How slots are divided among users (B4 of the first hour, C19): on a real grid, with real tasks.

use tests::Grid;

#[test]
fn a_user_behind_a_long_bag_is_served_next_at_any_priority() {
    let mut grid = Grid::start();
    grid.worker("desk-1").start();
    grid.login("ann");
    grid.login("ben");

    let long = [
        "submit",
        "--array",
        "1-2000",
        "--priority",
        "2147483647",
        "--",
        "sleep",
        "0.2",
    ];
    grid.as_user("ann", long).expect_code(0);
    grid.as_user("ben", ["submit", "--array", "1-3", "--wait", "--", "true"])
        .expect_code(0);

    let left = grid
        .as_user("ann", ["--output", "json", "job", "info", "1"])
        .expect_code(0)
        .json();
    assert!(
        left["tasks"]["waiting"].as_u64() > Some(1_000),
        "ann's bag is far from done: {left}"
    );

    let told = grid
        .as_user("ben", ["submit", "--array", "1-300", "--", "sleep", "0.2"])
        .expect_code(0);
    assert!(told.stderr.is_empty(), "{told:?}");

    let why = grid.as_user("ann", ["job", "explain", "1"]).expect_code(0);
    assert!(
        why.stdout.contains("another user's job goes first"),
        "{why:?}"
    );
    grid.as_user("ann", ["job", "cancel", "1"]).expect_code(0);
}

#[test]
fn a_user_behind_a_deadline_that_is_days_off_is_served_next() {
    let mut grid = Grid::start();
    grid.worker("desk-1").start();
    grid.login("ann");
    grid.login("ben");

    let far = [
        "submit",
        "--deadline",
        "7d",
        "--estimate",
        "2s",
        "--array",
        "1-500",
        "--",
        "sleep",
        "0.2",
    ];
    grid.as_user("ann", far).expect_code(0);
    grid.as_user("ben", ["submit", "--array", "1-3", "--wait", "--", "true"])
        .expect_code(0);

    let left = grid
        .as_user("ann", ["--output", "json", "job", "info", "1"])
        .expect_code(0)
        .json();
    assert!(left["tasks"]["waiting"].as_u64() > Some(300), "{left}");
    grid.as_user("ann", ["job", "cancel", "1"]).expect_code(0);
}
