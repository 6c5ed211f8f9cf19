//! The words of `deskgrid doctor --store` on real servers: with a replica that confirms commits, with one that does
//! not, and with one that is gone.

use serde_json::Value;
use tempfile::TempDir;
use tests::{Output, Replicated, Started, clean, eventually};

use super::pair::LONG;

/// A primary with a replica, and a directory for commands. `None` where there is no server; says so.
fn start(synchronous: bool) -> Option<(Replicated, TempDir)> {
    let Some(servers) = Replicated::start(synchronous) else {
        super::skip("DESKGRID_TEST_PG_BIN names no PostgreSQL (tests/postgres does)");
        return None;
    };
    Some((servers, tempfile::tempdir().expect("a temporary directory")))
}

fn doctor(dir: &TempDir, address: &str, form: &[&str]) -> Output {
    let mut command = clean("deskgrid", dir.path());
    command.args(form).args(["doctor", "--store", address]);
    Started::new(&mut command).finish()
}

/// The severity and the words of what is said of the replicas. The exit code must say whether anything at all is
/// wrong.
fn replication(dir: &TempDir, address: &str) -> (String, String) {
    let answer = doctor(dir, address, &["--output", "json"]);
    let said = answer.json();
    assert_eq!(answer.code, i32::from(said["wrong"] == true), "{said}");

    let findings = said["findings"].as_array().expect("a list");
    let of_database = |finding: &&Value| {
        let check = finding["check"].as_str().unwrap_or_default();
        check == "database: replication"
    };
    let found = findings.iter().find(of_database).expect("it is looked at");
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("severity"), text("what"))
}

#[test]
fn the_doctor_says_whether_what_is_acknowledged_outlives_the_primary() {
    for (synchronous, severity, words) in [
        (true, "ok", "1 of 1 confirm commits"),
        (false, "note", "none of 1 replicas confirms commits"),
    ] {
        let Some((servers, dir)) = start(synchronous) else {
            return;
        };
        let address = servers.database().url;
        let (found, said) = replication(&dir, &address);
        assert_eq!(found, severity, "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn the_doctor_says_in_words_what_is_wrong_with_a_database_and_what_to_do() {
    let Some((servers, dir)) = start(true) else {
        return;
    };
    let address = servers.database().url;
    servers.follow(false);
    eventually("nobody confirms commits", LONG, || {
        (replication(&dir, &address).0 == "wrong").then_some(())
    });

    let answer = doctor(&dir, &address, &[]).expect_code(1);
    let said = answer.stdout;
    for words in [
        "WRONG  database: replication",
        "commits wait for a replica (*), and none of these is connected: the master stands still",
        "try: start the replica, or take it out of synchronous_standby_names",
        "ok     database: rights",
        "wrong",
    ] {
        assert!(said.contains(words), "no {words:?} in: {said}");
    }

    // One that does not answer is wrong as a whole.
    let nobody = "postgres://deskgrid@127.0.0.1:1/grid";
    let said = doctor(&dir, nobody, &[]).expect_code(1).stdout;
    assert!(said.contains("WRONG  database: server"), "{said}");
    assert!(
        said.contains("127.0.0.1:1/grid cannot be reached"),
        "{said}"
    );
    assert!(said.contains("try: see whether the server runs"), "{said}");
    assert!(!said.contains("database: rights"), "{said}");
}
