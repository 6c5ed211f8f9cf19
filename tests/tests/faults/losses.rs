//! Buckets that vanish, lie or are asked too much while a master runs: what is said, that nothing is lost,
//! and that it goes on when they are back. They need storage (`tests/s3 cargo nextest run …`).

use std::fs;
use std::path::PathBuf;

use tests::{Grid, eventually};

use super::bucket::{
    LONG, bytes, fetch_fails, fetched, forget_cache_of_running, grid, output, submit,
};
use super::front::Front;
use super::storage::Storage;
use super::worker;

/// A task that runs until the test says so, and leaves a file.
struct HeldTask {
    job: String,
    go: PathBuf,
}

impl HeldTask {
    fn run(grid: &Grid) -> Self {
        let go = grid.dir().join(format!("go-{}", rand::random::<u32>()));
        let script = format!(
            "while [ ! -e {} ]; do sleep 0.1; done; seq 30000 > out",
            go.display()
        );
        let job = grid.submit(["--output-file", "out", "--", "sh", "-c", &script]);
        grid.until_it_runs(&format!("{job}.1"));
        Self { job, go }
    }

    fn go(&self) {
        fs::write(&self.go, "").expect("a file can be written");
    }

    /// Its result is still to come.
    fn expect_waits(&self, grid: &Grid) {
        let seen = grid.job(&self.job);
        assert_eq!(seen["tasks"]["finished"], 0, "{seen}");
    }

    /// Its result has come whole.
    fn expect_whole(&self, grid: &Grid) {
        grid.wait(&self.job);
        let lines = fetched(grid, &self.job, &format!("held-{}", self.job));
        let lines = String::from_utf8(lines).expect("UTF-8");
        assert_eq!(lines.lines().count(), 30_000);
    }
}

/// Submits a task with an input, which is refused. Returns the words.
fn refused(grid: &Grid) -> String {
    let input = grid.file("refused", bytes("refused", 1_000));
    let place = format!("{}:in", input.display());
    let refused = grid.deskgrid(["submit", "--input", &place, "--", "cat", "in"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("try:"), "{refused:?}");
    refused.stderr
}

/// Waits until the master's log has these words.
fn until_said(grid: &Grid, words: &str) {
    eventually(words, LONG, || grid.logs().contains(words).then_some(()));
}

#[test]
fn while_a_bucket_has_lost_its_mark_nothing_in_it_is_swept_or_given_up() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 1).start();
    let (kept, done_with) = (bytes("kept", 30_000), bytes("done with", 20_000));
    let (job, other) = (submit(&grid, &kept), submit(&grid, &done_with));
    grid.wait(&job);
    grid.wait(&other);
    forget_cache_of_running(&mut grid);
    let result = storage.objects_of(&output(&kept)).pop().expect("an object");

    // As if something else were there: no mark, and not the object either.
    let (mark, text) = storage.mark();
    storage.remove(&mark);
    storage.remove(&result);
    grid.deskgrid(["job", "forget", &other]).expect_code(0);
    until_said(
        &grid,
        "content is not swept: its place has not the mark of this grid",
    );
    let told = fetch_fails(&grid, &job);
    assert!(told.contains("cannot be had or kept now"), "{told}");
    until_said(&grid, "its content counts as away");
    assert_eq!(storage.objects_of(&done_with).len(), 1);

    // What runs meanwhile goes on, and so does everything once the bucket is itself again.
    let meanwhile = bytes("meanwhile", 10_000);
    let new = submit(&grid, &meanwhile);
    grid.wait(&new);
    storage.write(&result, &output(&kept));
    storage.write(&mark, &text);
    assert_eq!(fetched(&grid, &job, "kept"), output(&kept));
    assert_eq!(fetched(&grid, &new, "new"), output(&meanwhile));
    eventually("it is swept again", LONG, || {
        storage.objects_of(&done_with).is_empty().then_some(())
    });
    grid.admin(["master", "check"]).expect_code(0);
}

#[test]
fn while_a_bucket_is_gone_results_wait_and_it_goes_on_when_it_is_back() {
    let Some(storage) = Storage::in_own_bucket() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 2).start();
    let content = bytes("before", 30_000);
    let job = submit(&grid, &content);
    grid.wait(&job);
    let held = HeldTask::run(&grid);
    forget_cache_of_running(&mut grid);

    let had = storage.remove_bucket();
    let said = refused(&grid);
    assert!(said.contains("there is no such bucket"), "{said}");
    held.go();
    until_said(&grid, "there is no such bucket");
    let plain = grid.submit(["--", "echo", "no file"]);
    grid.wait(&plain);
    held.expect_waits(&grid);
    let told = fetch_fails(&grid, &job);
    assert!(told.contains("there is no such bucket"), "{told}");

    storage.restore_bucket(&had);
    held.expect_whole(&grid);
    assert_eq!(fetched(&grid, &job, "before"), output(&content));
    grid.admin(["master", "check"]).expect_code(0);
}

#[test]
fn a_bucket_that_is_asked_too_much_is_named_so_and_waited_for() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 2).start();
    let held = HeldTask::run(&grid);
    storage.set(Front::SlowDown);
    held.go();
    let said = refused(&grid);
    assert!(said.contains("is asked too much"), "{said}");
    until_said(&grid, "Please reduce your request rate");
    held.expect_waits(&grid);

    storage.set(Front::Open);
    held.expect_whole(&grid);
}

#[test]
fn an_object_that_the_bucket_acknowledges_and_drops_is_sent_again() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 2).start();
    let held = HeldTask::run(&grid);
    storage.set(Front::Drops);
    held.go();
    until_said(&grid, "does not have what it has just acknowledged");
    assert!(storage.proxy().dropped() > 0);
    let said = refused(&grid);
    assert!(
        said.contains("does not have what it has just acknowledged"),
        "{said}"
    );
    held.expect_waits(&grid);

    storage.set(Front::Open);
    held.expect_whole(&grid);
    forget_cache_of_running(&mut grid);
    held.expect_whole(&grid);
}

#[test]
fn a_bucket_that_lies_is_found_out_when_content_is_asked_for_and_the_job_is_named() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 2).start();
    let held = HeldTask::run(&grid);
    storage.set(Front::Lies);
    held.go();
    grid.wait(&held.job);
    assert!(storage.proxy().dropped() > 0);

    storage.set(Front::Open);
    forget_cache_of_running(&mut grid);
    let told = fetch_fails(&grid, &held.job);
    assert!(told.contains("try:"), "{told}");
    let told = grid.admin(["master", "check"]).expect_code(1).stdout;
    assert!(told.contains(&format!("of job {}", held.job)), "{told}");

    grid.deskgrid(["job", "retry", &held.job, "--damaged"])
        .expect_code(0);
    held.expect_whole(&grid);
    grid.admin(["master", "check"]).expect_code(0);
}
