//! How slots are divided among users (B4 of the first hour, C19): on a real grid, with real tasks.

use std::time::Duration;

use tests::{Grid, eventually};

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

#[test]
fn two_users_who_flood_a_grid_have_equally_many_tasks_done() {
    let mut grid = Grid::start();
    grid.worker("desk-1").slots(2).start();
    grid.login("ann");
    grid.login("ben");

    let flood = ["submit", "--array", "1-2000", "--", "sleep", "0.1"];
    let finished = |grid: &Grid, who: &str, job: &str| {
        let told = grid.as_user(who, ["--output", "json", "job", "info", job]);
        told.expect_code(0).json()["tasks"]["finished"].as_u64()
    };
    let done = |grid: &Grid, who: &str, job: &str, least: u64| {
        eventually("tasks are done", Duration::from_secs(240), || {
            finished(grid, who, job).filter(|done| *done >= least)
        })
    };
    grid.as_user("ann", flood).expect_code(0);
    let before = done(&grid, "ann", "1", 20);
    grid.as_user("ben", flood).expect_code(0);
    let of_ben = done(&grid, "ben", "2", 60);
    let of_ann = done(&grid, "ann", "1", 0) - before;
    assert!(
        (of_ben / 2..=of_ben * 2).contains(&of_ann),
        "{of_ann} of ann's tasks beside {of_ben} of ben's"
    );

    let told = grid
        .as_user("ben", ["--output", "json", "job", "explain", "2"])
        .expect_code(0)
        .json();
    assert_eq!(told["share"]["due"].as_f64(), Some(0.5), "{told}");
    let accounts = grid
        .admin(["--output", "json", "account"])
        .expect_code(0)
        .json();
    let shares = accounts["accounts"].as_array().expect("accounts");
    let due = shares.iter().filter_map(|row| row["share"]["due"].as_f64());
    assert_eq!(due.collect::<Vec<_>>(), [0.5, 0.5], "{accounts}");
    grid.as_user("ann", ["job", "cancel", "1"]).expect_code(0);
    grid.as_user("ben", ["job", "cancel", "2"]).expect_code(0);
}
