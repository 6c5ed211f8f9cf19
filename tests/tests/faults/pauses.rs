//! Processes that stand still for ten leases, and go on as if nothing had been.

use std::time::Duration;

use rustix::process::Signal;
use tests::{Grid, eventually};

use super::ledger::Ledger;
use super::worker;

/// Leases so short that ten of them are seconds.
const SHORT: &str = "heartbeat = \"250ms\"\nsuspect_after = \"700ms\"\nlease = \"1500ms\"\n";
/// Ten of them.
const TEN_LEASES: Duration = Duration::from_secs(15);

#[test]
fn a_master_that_stands_still_for_ten_leases_takes_nobodys_work_away() {
    let mut grid = Grid::with_master(SHORT);
    worker(&mut grid, "h1", 2).start();

    let mut ledger = Ledger::new(10.0);
    let job = ledger.submit(&grid, 2).to_string();
    grid.until("both tasks run", &["job", "info", &job], |j| {
        (j["tasks"]["running"] == 2).then_some(())
    });
    grid.master().signal(Signal::STOP);
    std::thread::sleep(TEN_LEASES);
    grid.master().signal(Signal::CONT);

    ledger.settle(&grid);
    for task in 1..=2 {
        assert_eq!(
            grid.attempts(&format!("{job}.{task}")).len(),
            1,
            "no lease ran out while nobody counted"
        );
    }
}

#[test]
fn the_work_of_a_worker_that_stands_still_for_ten_leases_is_done_elsewhere_and_counts_once() {
    let mut grid = Grid::with_master(SHORT);
    worker(&mut grid, "still", 2).start();

    let mut ledger = Ledger::new(3.0);
    let job = ledger.submit(&grid, 2).to_string();
    grid.until("both tasks run", &["job", "info", &job], |j| {
        (j["tasks"]["running"] == 2).then_some(())
    });
    grid.running("still").signal(Signal::STOP);

    // It is missed before there is another host, so that nothing but the lease moves the tasks.
    let lost = |host: &serde_json::Value| host["state"] == "lost";
    eventually("it is given up", TEN_LEASES, || {
        grid.json(["host", "list"])["hosts"]
            .as_array()
            .is_some_and(|all| all.iter().any(lost))
            .then_some(())
    });

    worker(&mut grid, "heir", 2).start();
    std::thread::sleep(TEN_LEASES);
    grid.running("still").signal(Signal::CONT);
    ledger.settle(&grid);

    for task in 1..=2 {
        let tries = grid.attempts(&format!("{job}.{task}"));
        let finished = tries.iter().filter(|a| a["state"] == "finished").count();
        assert!(tries.len() >= 2 && finished >= 1, "{tries:?}");
    }

    // The one that stood still is a host like any other again.
    grid.until("it is back", &["host", "info", "still"], |h| {
        (h["state"] == "ready").then_some(())
    });
}
