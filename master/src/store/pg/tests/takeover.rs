//! A database that lacks the takeover of the master that works on it: a replica that was behind took the place of
//! its primary.

use common::Time;
use tempfile::TempDir;

use super::super::super::{StoreError, Writer};
use super::super::{Database, DbSession, Inside, PgError, of_tests};
use super::{add_host, another, by_hand, cut, hosts, pg, place};

/// The tables that the groups of these tests change.
const CHANGED: [&str; 4] = ["lease", "turn", "host", "peer"];

/// Keeps the store as it is now, as a replica does that does not follow any more.
fn keep(place: &Database) {
    let copy = |table: &str| {
        format!("DROP TABLE IF EXISTS kept_{table}; CREATE TABLE kept_{table} AS TABLE {table};")
    };
    by_hand(place, &CHANGED.map(copy).concat());
}

/// The store is as it was kept, and the connection of its master is lost.
fn go_back(place: &Database) {
    cut(place);
    let back =
        |table: &str| format!("DELETE FROM {table}; INSERT INTO {table} TABLE kept_{table};");
    by_hand(place, &CHANGED.map(back).concat());
}

/// A store that a first master has left behind and a second one has taken over, and was kept before that.
fn taken_over(place: &Database) -> Writer {
    taken_over_at(place, Time(0))
}

/// The same, with a second master whose clock shows `now`.
fn taken_over_at(place: &Database, now: Time) -> Writer {
    let mut first = Writer::take(place).unwrap();
    add_host(&mut first, "one");
    first.commit().unwrap();
    keep(place);

    let mut other = another(place);
    let seen = other.look().unwrap();
    let mut second = other.take(&seen, now).unwrap().unwrap();
    for name in ["two", "three"] {
        add_host(&mut second, name);
        second.commit().unwrap();
    }
    second
}

/// The hosts as one sees them who does not know what there was.
fn hosts_of(dir: &TempDir) -> Vec<String> {
    hosts(&of_tests(dir.path()).unwrap())
}

fn expect_went_back(store: &mut Writer, groups: u64) {
    store.set_meta("never", &[1]).unwrap();
    let back = store.commit().unwrap_err();
    assert!(
        matches!(back, StoreError::Postgres(PgError::WentBack(lost)) if lost == groups),
        "{back}"
    );
}

#[test]
fn a_master_that_ends_while_another_one_takes_the_store_ends_well() {
    let Some((_dir, place)) = place() else { return };
    let mut store = Writer::take(&place).unwrap();
    let other = DbSession::to_write(&place).unwrap();
    let takes = "BEGIN; SELECT 1 FROM lease FOR UPDATE";
    other.execute(takes.to_owned()).unwrap();
    store.finish().unwrap();
}

#[test]
fn a_takeover_that_the_database_lacks_is_done_again_with_all_that_came_after_it() {
    let Some((_dir, place)) = place() else { return };
    let mut second = taken_over(&place);
    let token = another(&place).look().unwrap().token;
    go_back(&place);
    add_host(&mut second, "four");
    second.commit().unwrap();

    assert_eq!(hosts(&place), ["one", "two", "three", "four"]);
    let seen = another(&place).look().unwrap();
    assert_eq!((seen.token, &*seen.member), (token, "another"));
    assert_eq!(Some(seen.reached()), pg(&second).reached());
    assert_eq!(seen.reached(), 4);

    // Before it had committed anything as well.
    keep(&place);
    let mut other = another(&place);
    let mut third = other.take(&seen, Time(0)).unwrap().unwrap();
    go_back(&place);
    add_host(&mut third, "five");
    third.commit().unwrap();
    assert_eq!(hosts(&place), ["one", "two", "three", "four", "five"]);
}

#[test]
fn a_takeover_is_not_done_again_where_the_master_before_goes_on_or_lacks_something() {
    for (other_turns, lacks) in [
        ("INSERT INTO turn SELECT token, 2 FROM lease", 2),
        ("DELETE FROM turn", 3),
    ] {
        let Some((dir, place)) = place() else { return };
        let mut second = taken_over(&place);
        go_back(&place);
        by_hand(&place, other_turns);
        let before = another(&place).look().unwrap();
        expect_went_back(&mut second, lacks);
        assert_eq!(another(&place).look().unwrap(), before);
        assert_eq!(hosts_of(&dir), ["one"]);
    }
}

#[test]
fn a_takeover_is_not_done_again_where_another_master_has_taken_the_store_since() {
    let Some((dir, place)) = place() else { return };
    let mut second = taken_over(&place);
    let token = another(&place).look().unwrap().token;
    go_back(&place);
    // Its clock gives it the same token.
    let third = format!(
        "UPDATE lease SET token = {token}, member = 'third', holder = 'the third'; DELETE FROM turn"
    );
    by_hand(&place, &third);
    second.set_meta("never", &[1]).unwrap();
    let over = second.commit().unwrap_err();
    assert!(
        matches!(&over, StoreError::Postgres(PgError::TakenOver(by)) if by == "the third"),
        "{over}"
    );
    assert_eq!(hosts_of(&dir), ["one"]);
}

#[test]
fn a_takeover_is_not_done_again_where_another_master_with_a_slower_clock_has_taken_the_store() {
    let Some((_dir, place)) = place() else { return };
    // Tokens are seconds where clocks allow it: 2026-11-27.
    let mut second = taken_over_at(&place, Time(1_795_737_600_000_000));
    go_back(&place);
    let third = "UPDATE lease SET token = token + 1, member = 'third', holder = 'the third'; DELETE FROM turn";
    by_hand(&place, third);
    second.set_meta("never", &[1]).unwrap();
    let over = second.commit().unwrap_err();
    assert!(
        matches!(&over, StoreError::Postgres(PgError::TakenOver(by)) if by == "the third"),
        "{over}"
    );
}

#[test]
fn a_takeover_is_not_done_again_where_its_first_groups_are_forgotten() {
    let Some((dir, place)) = place() else { return };
    let mut second = taken_over(&place);
    go_back(&place);
    match &mut *pg(&second).inside.borrow_mut() {
        Inside::Writes(group) => group.forget_recent(),
        _ => panic!("it writes"),
    }
    let before = another(&place).look().unwrap();
    expect_went_back(&mut second, 2);
    assert_eq!(
        another(&place).look().unwrap(),
        before,
        "it is left as it is"
    );
    assert_eq!(hosts_of(&dir), ["one"]);
}
