//! The time for which a crowd and a user have no master when the active one of two is killed, or hands over.

use std::time::{Duration, Instant};

use tests::{Grid, Postgres};

/// How another master comes into its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MasterChange {
    /// The active one is killed ([`Grid::take_over`]).
    Kill,
    /// It hands over.
    HandOver,
}

impl MasterChange {
    /// The promised times until a user is served and a thousand workers are back.
    fn promised(self) -> (Duration, Duration) {
        let served_s = match self {
            MasterChange::Kill => 10,
            MasterChange::HandOver => 1,
        };
        (Duration::from_secs(served_s), Duration::from_secs(30))
    }
}

/// Has the active one of two masters on one PostgreSQL followed by the other one while each of so many workers holds a task.
pub(super) fn run(change: MasterChange, workers: u32, processes: u32) {
    let Some(database) = Postgres::with_database() else {
        eprintln!("no PostgreSQL: run this by `tests/postgres cargo bench -p tests --bench crowd`");
        return;
    };
    let mut grid = Grid::prepared("");
    let content = grid.dir().join("content");
    let config = format!(
        "store = \"{}\"\ncontent = \"{}\"\n",
        database.url,
        content.display()
    );
    grid.file("master.toml", config);
    grid.begin();
    let masters = grid.start_standby(&["user"]);
    let (mut herds, job) = super::busy_herds(&grid, &[masters], workers, processes);

    let began = Instant::now();
    match change {
        MasterChange::Kill => grid.take_over(),
        MasterChange::HandOver => {
            grid.as_user("admin", ["master", "hand-over"])
                .expect_code(0);
        }
    }
    while grid.deskgrid(["job", "list"]).code != 0 {}
    let served = began.elapsed();
    herds.iter_mut().for_each(|herd| herd.wait_for("back"));
    let back = began.elapsed();
    if change == MasterChange::HandOver {
        grid.take_over();
    }

    let view = super::delivered(&grid, &mut herds, job);
    println!(
        "| workers | processes | a user is served after | all back after | attempts | tasks |"
    );
    println!("|---|---|---|---|---|---|");
    println!(
        "| {workers} | {processes} | {:.1} s | {:.1} s | {} | {} |",
        served.as_secs_f64(),
        back.as_secs_f64(),
        view["attempts"],
        view["tasks"]["total"],
    );
    let (soon, all) = change.promised();
    let kept = served <= soon && back <= all && view["attempts"] == workers;
    println!(
        "\nServed within {} s, all back within {} s, no lease lost: {}.",
        soon.as_secs(),
        all.as_secs(),
        if kept { "kept" } else { "not kept" }
    );
}
