//! Masters that could never take over the store of the database that they are started on: they end, say why
//! and what to do, and leave everything as it is.

use std::collections::BTreeMap;
use std::fs;

use tests::{Postgres, eventually};

use super::pair::{LONG, Pair};

/// Waits until this master has ended, which must say all of these words after what it has said `before`.
fn expect_refused(pair: &mut Pair, which: usize, before: usize, words: &[&str]) {
    let code = eventually("it ends", LONG, || pair.process(which).ended());
    assert_ne!(code, 0);
    let said = pair.said(pair.masters[which].name).split_off(before);
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
}

/// The masters that say that they stand by.
fn standbys(pair: &Pair) -> String {
    pair.server.psql("SELECT count(*) FROM deskgrid.member")
}

/// A digest of all rows of the store.
fn digest(pair: &Pair) -> String {
    let all = "SELECT md5(CAST(schema_to_xml('deskgrid', true, false, '') AS text))";
    pair.server.psql(all)
}

/// The files of a master's directory, but its notes of a start.
fn files(pair: &Pair, which: usize) -> BTreeMap<String, Vec<u8>> {
    let dir = pair.state(pair.masters[which].name).join("master");
    let all = fs::read_dir(dir).expect("a directory of the test's own");
    let file = |entry: fs::DirEntry| {
        let bytes = fs::read(entry.path()).ok()?;
        Some((entry.file_name().into_string().ok()?, bytes))
    };
    all.flatten().filter_map(file).collect()
}

#[test]
fn a_master_that_is_older_than_the_layout_of_the_database_never_stands_by() {
    let Some(mut pair) = Pair::with_first() else {
        return;
    };
    pair.launch(1);
    pair.until_standing(1);
    eventually("the other one knows of it", LONG, || {
        (standbys(&pair) == "1").then_some(())
    });

    // A newer program has migrated the store while this one stands by.
    let layout = pair.server.psql("SELECT layout FROM deskgrid.lease");
    let needs = [
        "has version 99",
        "version 99 is needed",
        "try: install the deskgrid",
    ];
    let before = pair.said("second").len();
    pair.server.psql("UPDATE deskgrid.lease SET layout = 99");
    expect_refused(&mut pair, 1, before, &needs);
    assert_eq!(standbys(&pair), "0", "nobody counts on it");

    // Nor does it begin to stand by.
    let before = pair.said("second").len();
    pair.launch(1);
    expect_refused(&mut pair, 1, before, &needs);
    let said = pair.said("second").split_off(before);
    assert!(!said.contains("stands by:"), "{said}");
    assert_eq!(standbys(&pair), "0");
    assert_eq!(pair.server.psql("SELECT layout FROM deskgrid.lease"), "99");
    pair.until_active(0);

    // Nor does it take a store that nobody has.
    pair.kill(0);
    let (before, store) = (pair.said("first").len(), digest(&pair));
    pair.launch(0);
    expect_refused(&mut pair, 0, before, &needs);
    assert_eq!(digest(&pair), store);

    let back = format!("UPDATE deskgrid.lease SET layout = {layout}");
    pair.server.psql(&back);
    pair.launch(0);
    pair.until_active(0);
    pair.launch(1);
    pair.until_standing(1);
}

#[test]
fn a_master_with_the_keys_of_another_grid_is_refused_and_changes_nothing() {
    let Some(mut pair) = Pair::prepared() else {
        return;
    };
    let Some(own) = Postgres::with_database() else {
        return;
    };
    let not_its_own = pair.server.url.clone();
    pair.masters[1].store = own.url;
    "content-of-another-grid".clone_into(&mut pair.masters[1].content);
    for which in [0, 1] {
        pair.launch(which);
        pair.until_active(which);
    }
    pair.process(1).terminate();
    eventually("it ends in order", LONG, || pair.process(1).ended());

    // The wrong database is named: while its master is active, after that was killed, and after an orderly end.
    let own = std::mem::replace(&mut pair.masters[1].store, not_its_own);
    let kept = files(&pair, 1);
    for end in ["active", "killed", "ended"] {
        match end {
            "active" => {}
            "killed" => pair.kill(0),
            _ => {
                pair.launch(0);
                pair.until_active(0);
                pair.process(0).terminate();
                eventually("it ends in order", LONG, || pair.process(0).ended());
                // What may be missing in a store can be accepted; another grid's cannot.
                pair.masters[1].words = vec!["--accept-store".to_owned()];
            }
        }
        let (before, lease) = (pair.said("second").len(), pair.lease());
        let store = (end != "active").then(|| digest(&pair));

        pair.launch(1);
        let words = [
            "that of another grid",
            "Name the database of this grid",
            "try:",
        ];
        expect_refused(&mut pair, 1, before, &words);
        assert_eq!(pair.lease(), lease, "{end}");
        assert_eq!(standbys(&pair), "0", "{end}");
        if let Some(store) = store {
            assert_eq!(digest(&pair), store, "{end}");
        }
        assert_eq!(files(&pair, 1), kept, "{end}");
    }

    // Each goes on with its own.
    pair.masters[1].words.clear();
    pair.masters[1].store = own;
    for which in [0, 1] {
        pair.launch(which);
        pair.until_active(which);
    }
}
