//! The words of the doctor on a real server: what a master finds there, and what holds back the removal of old rows.

use common::Span;

use super::super::DatabaseHealth::{Note, Well, Wrong};
use super::super::DatabaseSight;
use super::super::health::{look, look_for_long_open};
use super::super::session::DbSession;
use super::{by_hand, place};

#[test]
fn the_doctor_looks_at_a_database() {
    let away = look("postgres://deskgrid@127.0.0.1:1/grid");
    assert_eq!((away.len(), away[0].1.health), (1, Wrong), "{away:?}");
    let Some((_dir, place)) = place() else { return };
    let address = std::env::var("DESKGRID_TEST_PG").unwrap();

    let found = look(&address);
    let of = |check: &str| &found.iter().find(|found| found.0 == check).unwrap().1;
    for check in [
        "server",
        "pooler",
        "rights",
        "commits",
        "open transactions",
        "transaction numbers",
    ] {
        assert_eq!(of(check).health, Well, "{:?}", of(check));
    }
    assert_eq!(of("replication").health, Note, "{:?}", of("replication"));

    // A replica that has begun to follow, and is gone.
    let name = place.schema();
    let begun = format!("SELECT pg_create_physical_replication_slot('{name}', true)");
    by_hand(&place, &begun);
    let held = look(&address);
    by_hand(
        &place,
        &format!("SELECT pg_drop_replication_slot('{name}')"),
    );
    let slot = held.iter().find(|found| found.0 == "replication slots");
    assert!(
        slot.is_some_and(|(_, slot)| slot.health == Note && slot.what.contains(name)),
        "{held:?}"
    );

    if let Ok(pooler) = std::env::var("DESKGRID_TEST_PG_POOLER") {
        let found = look(&pooler);
        assert!(
            found
                .iter()
                .any(|(check, sight)| *check == "pooler" && sight.health == Wrong),
            "{found:?}"
        );
    }
}

/// The words on the transactions that are open for longer than `limit`.
fn open_transactions(limit: Span) -> DatabaseSight {
    let address = std::env::var("DESKGRID_TEST_PG").unwrap();
    let found = look_for_long_open(&address, limit);
    let of = found
        .into_iter()
        .find(|(check, _)| *check == "open transactions");
    of.unwrap().1
}

/// Looks until what holds back old rows is this, beside what other tests do on the same server.
fn until_held_by(who: &str) {
    while !open_transactions(Span::ZERO).what.contains(who) {
        std::thread::yield_now();
    }
}

#[test]
fn a_transaction_that_holds_a_snapshot_is_told_of_once_it_is_old() {
    let Some((_dir, place)) = place() else { return };
    let analyst = DbSession::to_write(&place).unwrap();
    let pid: i32 = analyst.ask("SELECT pg_backend_pid()").unwrap().get(0);
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
    analyst.execute(begin.to_owned()).unwrap();

    let who = format!("process {pid} (deskgrid)");
    until_held_by(&who);
    let held = open_transactions(Span::ZERO);
    assert_eq!(held.health, Wrong, "{held:?}");
    assert!(held.what.contains("the store grows"), "{held:?}");
    assert!(held.todo.contains("pg_terminate_backend"), "{held:?}");
    let young = open_transactions(Span::from_secs(3_600));
    assert_eq!(young.health, Well, "{young:?}");

    analyst.execute("COMMIT".to_owned()).unwrap();
    let later = open_transactions(Span::ZERO);
    assert!(!later.what.contains(&who), "{later:?}");
}
