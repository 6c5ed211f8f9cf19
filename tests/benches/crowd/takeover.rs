//! The time for which a crowd and a user have no master when the active one of two is killed.

use std::time::{Duration, Instant};

use tests::{Grid, Postgres};

/// The promised times after `kill -9` of the active master, with a thousand workers.
const SERVED: Duration = Duration::from_secs(10);
const BACK: Duration = Duration::from_secs(30);

/// Kills the active one of two masters on one PostgreSQL while each of so many workers holds a task.
pub(super) fn run(workers: u32, processes: u32) {
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
    grid.take_over();
    while grid.deskgrid(["job", "list"]).code != 0 {}
    let served = began.elapsed();
    herds.iter_mut().for_each(|herd| herd.wait_for("back"));
    let back = began.elapsed();

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
    let kept = served <= SERVED && back <= BACK && view["attempts"] == workers;
    println!(
        "\nServed within {} s, all back within {} s, no lease lost: {}.",
        SERVED.as_secs(),
        BACK.as_secs(),
        if kept { "kept" } else { "not kept" }
    );
}
