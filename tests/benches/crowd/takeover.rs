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
    let handing_over = match change {
        MasterChange::Kill => {
            grid.take_over();
            None
        }
        MasterChange::HandOver => Some(grid.background_as("admin", ["master", "hand-over"])),
    };
    let (unserved, back) = std::thread::scope(|scope| {
        let returns = scope.spawn(|| {
            herds.iter_mut().for_each(|herd| herd.wait_for("back"));
            began.elapsed()
        });
        let unserved = longest_wait(&grid, || returns.is_finished());
        (unserved, returns.join().expect("the herds come back"))
    });
    if let Some(command) = handing_over {
        command.finish().expect_code(0);
        grid.take_over();
    }

    let view = super::delivered(&grid, &mut herds, job);
    println!("| workers | processes | a user waits at most | all back after | attempts | tasks |");
    println!("|---|---|---|---|---|---|");
    println!(
        "| {workers} | {processes} | {:.1} s | {:.1} s | {} | {} |",
        unserved.as_secs_f64(),
        back.as_secs_f64(),
        view["attempts"],
        view["tasks"]["total"],
    );
    let (soon, all) = change.promised();
    let kept = unserved <= soon && back <= all && view["attempts"] == workers;
    println!(
        "\nServed within {} s, all back within {} s, no lease lost: {}.",
        soon.as_secs(),
        all.as_secs(),
        if kept { "kept" } else { "not kept" }
    );
}

/// Has a user ask for the jobs again and again, until it is answered once more after `is_over`. Returns the longest time
/// without an answer.
fn longest_wait(grid: &Grid, is_over: impl Fn() -> bool) -> Duration {
    let mut answered = Instant::now();
    let mut longest = Duration::ZERO;
    loop {
        let last = is_over();
        while grid.deskgrid(["job", "list"]).code != 0 {}
        longest = longest.max(answered.elapsed());
        answered = Instant::now();
        if last {
            return longest;
        }
    }
}
