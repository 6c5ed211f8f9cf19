//! A bucket that is reached by https. These need storage with a certificate (`tests/s3 cargo nextest run
//! …`), and are skipped without.

use tests::{Grid, eventually};

use super::bucket::{LONG, bytes, fetched, forget_cache, output, submit};
use super::storage::Storage;
use super::worker;

#[test]
fn content_goes_to_a_bucket_and_back_by_https_where_the_authority_is_trusted() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let Some(settings) = storage.settings_by_https() else {
        return;
    };
    let authority = std::env::var("DESKGRID_TEST_S3_CA").expect("tests/s3 names it");
    let mut grid = Grid::start_with(&format!("{settings}certificates = \"{authority}\"\n"));
    worker(&mut grid, "h1", 1).start();

    // One in a piece, and one in parts.
    for size in [100_000, 20 << 20] {
        let content = bytes("by https", size);
        let job = submit(&grid, &content);
        grid.wait(&job);
        assert_eq!(storage.objects_of(&output(&content)).len(), 1);

        grid.kill_master();
        forget_cache(&grid);
        grid.start_master();
        let fetched = fetched(&grid, &job, &format!("fetched-{size}"));
        assert!(fetched == output(&content), "it came whole");
    }
}

#[test]
fn a_bucket_whose_authority_nobody_trusts_is_refused_at_the_start() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let Some(settings) = storage.settings_by_https() else {
        return;
    };
    let mut grid = Grid::prepared_fast(&settings);
    grid.launch_master();

    let code = eventually("it ends", LONG, || grid.master().ended());
    assert_ne!(code, 0);
    let logs = grid.logs();
    assert!(logs.contains("certificate is not trusted"), "{logs}");
    assert!(logs.contains("UnknownIssuer"), "says of what: {logs}");
    assert!(logs.contains("s3.certificates"), "says what to do: {logs}");
    assert!(storage.objects().is_empty(), "nothing was sent");
}
