//! The disk of the database is full while two masters work on it.

use std::fs;

use serde_json::Value;
use tests::{Replicated, Started, eventually};
use uuid::Uuid;

use super::disk::Disk;
use super::pair::{LEASE_AND_MORE, LONG, Pair};

/// The hashes in the words of each submission: 64 KB, so that its row needs new pages.
const HASHES: u32 = 1_000;

/// Begins to submit a task with many words, the same for the same request.
fn submit(pair: &Pair, request: &str) -> Started {
    let hash = |n: u32| blake3::hash(format!("{request} {n}").as_bytes()).to_string();
    let large: String = (0..HASHES).map(hash).collect();
    let words = ["--output", "json", "submit", "--request-id", request];
    let mut command = pair.command("user");
    Started::new(command.args(words).args(["--", "true", &large]))
}

fn new_request() -> String {
    Uuid::from_bytes(rand::random()).to_string()
}

/// The answer to that.
fn answer(submitting: Started) -> Value {
    submitting.finish().expect_code(0).json()
}

#[test]
fn while_the_disk_of_the_database_is_full_nothing_is_told_and_nothing_ends() {
    let Some(disk) = Disk::new(256) else {
        return;
    };
    let inside = disk.inside();
    let above = inside
        .parent()
        .expect("it is below a directory of the test's own");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    fs::set_permissions(above, mode).expect("a directory of the test's own");
    let Some(server) = Replicated::alone(disk.words(), &inside, &disk.seen()) else {
        super::skip("DESKGRID_TEST_PG_BIN names no PostgreSQL (tests/postgres does)");
        return;
    };
    let mut pair = Pair::on(server.database());
    pair.begin();
    let (job, file) = pair.submit(8, 1.0);
    eventually("some have run", LONG, || file.exists().then_some(()));
    let (lease, joins) = (pair.lease(), pair.joins());

    disk.fill();
    let has_no_room = || pair.said("first").contains("PostgreSQL has no room");
    let mut told = Vec::new();
    let (request, submitting) = eventually("there is no room", LONG, || {
        let request = new_request();
        let mut submitting = submit(&pair, &request);
        let taken = eventually("it is taken or not", LONG, || match submitting.ended() {
            Some(_) => Some(true),
            None => has_no_room().then_some(false),
        });
        if !taken {
            return Some((request, submitting));
        }
        told.push((request, answer(submitting)));
        None
    });
    eventually("it says so", LONG, || {
        let (status, said) = pair.health(0)?;
        (status == "503" && said.contains("the store does not answer")).then_some(())
    });
    let told_in_time = submitting.finish();
    assert!([1, 7].contains(&told_in_time.code), "{told_in_time:?}");
    let refused = pair.until_refused(&new_request());
    assert!(
        refused.contains("has kept changes waiting for"),
        "{refused}"
    );
    assert!(refused.contains("try: try again later"), "{refused}");
    std::thread::sleep(LEASE_AND_MORE);
    assert_eq!(pair.process(0).ended(), None);
    assert!(!pair.is_active(1), "the active one says that it lives");

    disk.make_room();
    pair.until_active(0);
    pair.until_standing(1);
    told.push((request.clone(), answer(submit(&pair, &request))));
    for (request, first) in &told {
        let again = answer(submit(&pair, request));
        assert_eq!(again["job"], first["job"], "one request, one job");
    }
    pair.expect_once(&job, 8, &file);
    assert_eq!((pair.lease(), pair.joins()), (lease, joins));
}
