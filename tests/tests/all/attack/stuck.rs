//! Stuck tasks do not hold their jobs while hosts idle: such as sleep on one host only, and such
//! whose hosts are gone. The master has its default settings.

use rustix::process::Signal;
use serde_json::Value;
use tests::Grid;

/// A grid of default settings with these workers.
fn grid(workers: &[&str]) -> Grid {
    let mut grid = Grid::with_master("");
    workers.iter().for_each(|name| grid.worker(name).start());
    grid
}

/// A bag of twelve short tasks; the first attempts of these hang, for longer than [`Grid::wait`] waits.
fn bag(grid: &Grid, stuck: &str) -> String {
    let script = format!(
        "case \"$DESKGRID_ATTEMPT_ID $DESKGRID_TASK_ID\" in {stuck}) sleep 400;; esac; sleep 0.$((DESKGRID_TASK_ID % 4 + 3))"
    );
    grid.submit(["--array", "1-12", "--", "sh", "-c", &script])
}

fn duplicates(grid: &Grid, job: &str) -> u64 {
    grid.job(job)["duplicates"].as_u64().expect("a number")
}

fn ends_by_copies(grid: &Grid, stuck: &str, copies: u64) {
    let job = bag(grid, stuck);
    grid.wait(&job);
    assert!(duplicates(grid, &job) >= copies, "{}", grid.job(&job));
}

#[test]
fn a_bag_whose_first_task_is_stuck_ends() {
    ends_by_copies(&grid(&["h1", "h2", "h3"]), "'1 1'", 1);
}

#[test]
fn a_bag_whose_last_task_is_stuck_ends() {
    ends_by_copies(&grid(&["h1", "h2", "h3"]), "'1 12'", 1);
}

#[test]
fn a_bag_with_several_stuck_tasks_ends() {
    ends_by_copies(&grid(&["h1", "h2", "h3"]), "'1 2'|'1 7'", 2);
}

#[test]
fn a_stuck_task_is_explained_until_it_is_copied() {
    let mut grid = grid(&["h1"]);
    let job = bag(&grid, "'1 1'|'1 12'");
    let row = |view: &Value| {
        let rows = view["waiting"].as_array()?;
        let overdue = |row: &&Value| {
            row["reason"]
                .as_str()
                .is_some_and(|why| why.starts_with("overdue on h1"))
        };
        rows.iter().find(overdue).map(drop)
    };

    // One host, on which the first task hangs: nothing has finished, so nothing is known until
    // another host comes.
    grid.worker("h2").start();
    grid.until("it is overdue", &["job", "explain", &job], row);
    grid.worker("h3").start();
    grid.wait(&job);
}

/// One long task on a host that then goes away in this way, and one that idles.
fn outlives(away: impl FnOnce(&mut Grid)) {
    let mut grid = grid(&["doomed"]);
    let job = grid.submit([
        "--",
        "sh",
        "-c",
        "test $DESKGRID_HOST != doomed || sleep 400",
    ]);
    grid.until("it runs", &["job", "info", &job], |job| {
        (job["tasks"]["running"] == 1).then_some(())
    });
    grid.worker("heir").start();
    away(&mut grid);
    grid.wait(&job);

    assert_eq!(hosts_of_the_first_task(&grid, &job), ["doomed", "heir"]);
    // Nothing was copied: the first attempt counts as gone.
    assert_eq!(duplicates(&grid, &job), 0);
}

/// The hosts of the attempts of the job's first task, in their order.
fn hosts_of_the_first_task(grid: &Grid, job: &str) -> Vec<String> {
    let task = grid.json(["task", "info", &format!("{job}.1")]);
    let attempts = task["attempts"].as_array().expect("a list");

    let host = |attempt: &Value| attempt["host"].as_str().expect("a name").to_owned();
    attempts.iter().map(host).collect()
}

#[test]
fn the_task_of_a_worker_that_was_killed_starts_again_within_seconds() {
    outlives(|grid| grid.kill_worker("doomed"));
}

#[test]
fn the_task_of_a_worker_that_stands_still_starts_again_within_seconds() {
    outlives(|grid| grid.running("doomed").signal(Signal::STOP));
}

#[test]
fn a_worker_that_shuts_down_is_not_given_its_attempt_again() {
    let mut grid = grid(&["leaving"]);
    let job = grid.submit([
        "--",
        "sh",
        "-c",
        "test $DESKGRID_HOST != leaving || sleep 400",
    ]);
    grid.until("it runs", &["job", "info", &job], |job| {
        (job["tasks"]["running"] == 1).then_some(())
    });
    grid.running("leaving").terminate();
    grid.until("it waits", &["job", "info", &job], |job| {
        (job["tasks"]["waiting"] == 1).then_some(())
    });
    grid.worker("heir").start();

    grid.wait(&job);
    assert_eq!(hosts_of_the_first_task(&grid, &job), ["leaving", "heir"]);
}
