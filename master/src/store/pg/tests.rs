//! Behaviours of a store in PostgreSQL when the connection breaks, when another master comes, and when
//! the database is not one for it. They need a server (`tests/postgres`), and pass without one.

mod copies;
mod counted;
mod health;
mod late;
mod shadow;
mod takeover;

use common::Time;
use common::token::Role;

use super::super::{Reader, StoreError, Writer, schema};
use super::{Database, Inside, LeaseContender, MasterMember, Pg, PgError, of_tests, put_aside};
use crate::store::db::Db;
use crate::store::value::values;

/// A store of this test's own, named by a directory; `None` where there is no server.
fn place() -> Option<(tempfile::TempDir, Database)> {
    let dir = tempfile::tempdir().unwrap();
    let Some(place) = of_tests(dir.path()) else {
        eprintln!("note: DESKGRID_TEST_PG names no server, so nothing was tried");
        return None;
    };
    Some((dir, place))
}

/// Does something by hand, as an admin would.
fn by_hand(place: &Database, sql: &str) {
    let session = super::session::DbSession::to_write(place).unwrap();
    session.execute(sql.to_owned()).unwrap();
}

/// Ends the connection of the master that has the store.
fn cut(place: &Database) {
    by_hand(
        place,
        "DO $$ DECLARE at bigint := (SELECT backend FROM lease); BEGIN
             PERFORM pg_terminate_backend(CAST(at AS integer));
             FOR n IN 1..200 LOOP
                 EXIT WHEN NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = at);
                 PERFORM pg_sleep(0.02), pg_stat_clear_snapshot();
             END LOOP;
         END $$",
    );
}

fn pg(store: &Writer) -> &Pg {
    match store.db() {
        Db::Pg(pg) => pg,
        Db::Lite(_) => panic!("it is in a file"),
    }
}

fn hosts(place: &Database) -> Vec<String> {
    let reader = Reader::of(place.clone());
    let sql = "SELECT name FROM host ORDER BY id";
    reader
        .with(|db| db.all(sql, &[], |row| row.get(0)))
        .unwrap()
}

fn add_host(store: &mut Writer, name: &str) {
    let key = *blake3::hash(name.as_bytes()).as_bytes();
    store.add_peer(Role::Worker, name, key, Time(1)).unwrap();
}

#[test]
fn a_connection_that_breaks_in_a_group_costs_nothing_and_doubles_nothing() {
    let Some((_dir, place)) = place() else { return };
    let mut store = Writer::take(&place).unwrap();
    add_host(&mut store, "one");
    store.commit().unwrap();
    assert_eq!(store.db().commits().unwrap(), 1);

    // Between two groups, with changes that were sent, and with changes that were not.
    cut(&place);
    add_host(&mut store, "two");
    store.commit().unwrap();
    add_host(&mut store, "three");
    assert!(store.peer_named("three").unwrap().is_some(), "it is sent");
    cut(&place);
    add_host(&mut store, "four");
    assert!(store.peer_named("three").unwrap().is_some());
    cut(&place);
    assert_eq!(
        store.count("UPDATE host SET draining = TRUE", &[]).unwrap(),
        4
    );
    store.commit().unwrap();
    cut(&place);
    assert!(
        store.peer_named("four").unwrap().is_some(),
        "reads go on too"
    );

    assert_eq!(hosts(&place), ["one", "two", "three", "four"]);
    assert_eq!(store.db().commits().unwrap(), 3);
}

#[test]
fn a_commit_in_doubt_is_decided_by_its_turn() {
    let Some((_dir, place)) = place() else { return };
    let mut store = Writer::take(&place).unwrap();
    for (name, breaks) in [("answer lost", true), ("sent twice", false)] {
        add_host(&mut store, name);
        // The commit arrives, and nobody hears of it.
        let flown = match &*pg(&store).inside.borrow() {
            Inside::Writes(group) => group.fly(true),
            _ => panic!("it writes"),
        };
        flown.unwrap();
        if breaks {
            cut(&place);
        }
        store.commit().unwrap();
    }
    add_host(&mut store, "later");
    store.commit().unwrap();
    assert_eq!(hosts(&place), ["answer lost", "sent twice", "later"]);
    // Each doubt has one more turn, which says that the one before it is on the replica as well.
    assert_eq!(store.db().commits().unwrap(), 5);
}

#[test]
fn a_second_master_waits_and_one_that_was_taken_over_commits_nothing() {
    let Some((_dir, place)) = place() else { return };
    let mut first = Writer::take(&place).unwrap();
    add_host(&mut first, "first");
    first.commit().unwrap();
    assert!(
        super::take_in_tests(&place).unwrap().is_none(),
        "it is held"
    );

    add_host(&mut first, "too late");
    cut(&place);
    let mut second = Writer::take(&place).unwrap();
    assert_eq!(
        second.db().commits().unwrap(),
        pg(&first).reached().unwrap()
    );
    let over = first.commit().unwrap_err();
    assert!(
        matches!(&over, StoreError::Postgres(PgError::TakenOver(_))),
        "{over}"
    );
    add_host(&mut second, "second");
    second.commit().unwrap();
    assert_eq!(hosts(&place), ["first", "second"]);
}

#[test]
fn a_master_that_was_stopped_in_a_group_is_fenced_off_when_it_goes_on() {
    let Some((_dir, place)) = place() else { return };
    let mut first = Writer::take(&place).unwrap();
    // The lease changes while the connection of the first lives on.
    by_hand(
        &place,
        "UPDATE lease SET token = token + 1, holder = 'another'",
    );
    add_host(&mut first, "fenced");
    let over = first.commit().unwrap_err();
    assert!(
        matches!(&over, StoreError::Postgres(PgError::TakenOver(by)) if by == "another"),
        "{over}"
    );
    assert!(hosts(&place).is_empty());
}

/// A store of three hosts, of which the database has lost two again, with the turns that made them.
fn gone_back(place: &Database) -> Writer {
    let mut store = Writer::take(place).unwrap();
    for name in ["one", "two", "three"] {
        add_host(&mut store, name);
        store.commit().unwrap();
    }
    by_hand(
        place,
        "DELETE FROM turn WHERE seq > 1; DELETE FROM host WHERE name <> 'one';
         DELETE FROM peer WHERE name <> 'one'",
    );
    cut(place);
    store
}

#[test]
fn a_database_that_went_back_gets_again_what_it_lacks_and_nobody_reads_from_it_before() {
    let Some((_dir, place)) = place() else { return };
    let mut store = gone_back(&place);
    let reading = place.clone();
    let reader = std::thread::spawn(move || hosts(&reading));
    let waits = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity
                 WHERE state = 'idle' AND query LIKE '%FROM lease l WHERE grid = 1%' AND pid <> pg_backend_pid())";
    let admin = super::session::DbSession::to_write(&place).unwrap();
    while !reader.is_finished() && !admin.ask(waits).unwrap().get::<_, bool>(0) {}
    assert!(!reader.is_finished(), "it would see one host");

    add_host(&mut store, "four");
    store.commit().unwrap();
    let all = ["one", "two", "three", "four"];
    assert_eq!(hosts(&place), all);
    assert!(
        reader
            .join()
            .unwrap()
            .starts_with(&all.map(str::to_owned)[..3])
    );
    assert_eq!(store.db().commits().unwrap(), 4);
    assert_eq!(pg(&store).reached(), Some(4));
}

#[test]
fn a_database_that_went_back_further_than_is_remembered_is_not_built_upon() {
    let Some((_dir, place)) = place() else { return };
    let mut store = gone_back(&place);
    match &mut *pg(&store).inside.borrow_mut() {
        Inside::Writes(group) => group.forget_recent(),
        _ => panic!("it writes"),
    }
    store.set_meta("x", &[1]).unwrap();
    let back = store.commit().unwrap_err();
    assert!(
        matches!(back, StoreError::Postgres(PgError::WentBack(2))),
        "{back}"
    );
}

#[test]
fn turns_are_trimmed_and_go_on_counting() {
    let Some((_dir, place)) = place() else { return };
    let mut store = Writer::take(&place).unwrap();
    for n in 0..1_100_u32 {
        store.set_meta("n", &n.to_le_bytes()).unwrap();
        store.commit().unwrap();
    }
    drop(store);
    let store = Writer::take(&place).unwrap();
    assert_eq!(store.db().commits().unwrap(), 1_100);
    let turns: i64 = store
        .db()
        .one("SELECT count(*) FROM turn", &[], |row| row.get(0))
        .unwrap();
    assert!(turns < 200, "{turns}");
}

#[test]
fn a_database_of_the_layout_before_gets_the_tables_of_this_one() {
    let Some((_dir, place)) = place() else { return };
    drop(Writer::take(&place).unwrap());
    by_hand(
        &place,
        "DROP VIEW people_jobs, people_hosts, people_attempts; ALTER TABLE attempt DROP COLUMN policed; DROP TABLE site_text, site_answer, rollout, rollout_host, forgotten; UPDATE lease SET layout = 2",
    );
    let store = Writer::take(&place).unwrap();
    assert_eq!(store.site_texts().unwrap(), []);
    assert_eq!(store.site_answers().unwrap(), []);
    assert_eq!(store.rollouts().unwrap(), []);
    let views = "SELECT COUNT(*) FROM people_jobs, people_hosts, people_attempts";
    let count: i64 = store.db().one(views, &[], |row| row.get(0)).unwrap();
    assert_eq!(count, 0);
}

#[test]
fn a_newer_layout_and_a_database_that_only_reads_are_refused_in_words() {
    let Some((_dir, place)) = place() else { return };
    drop(Writer::take(&place).unwrap());
    by_hand(&place, "UPDATE lease SET layout = 99");
    let newer = Writer::take(&place).err().unwrap();
    assert!(
        matches!(newer, StoreError::Newer { found: 99, .. }),
        "{newer}"
    );
    let layout = format!("UPDATE lease SET layout = {}", schema::VERSION);
    by_hand(&place, &layout);

    let url = std::env::var("DESKGRID_TEST_PG").unwrap();
    let url = format!("{url}?options=-c%20default_transaction_read_only%3Don");
    let reads = Database::with_schema(&url, place.schema()).unwrap();
    let refused = Writer::take(&reads).err().unwrap().to_string();
    assert!(
        refused.contains("can only be read") && refused.contains("primary"),
        "{refused}"
    );
    let several = url.replace("@127.0.0.1:", "@127.0.0.1:1,127.0.0.1:");
    let several = several.split_once('?').unwrap().0;
    let several = Database::with_schema(several, place.schema()).unwrap();
    drop(Writer::take(&several).unwrap());
    let nobody = Database::with_schema("postgres://deskgrid@127.0.0.1:1/grid", "x").unwrap();
    let away = Writer::take(&nobody).err().unwrap().to_string();
    assert!(
        away.contains("127.0.0.1:1/grid cannot be reached"),
        "{away}"
    );
}

#[test]
fn a_pooler_that_gives_each_transaction_another_session_is_refused_in_words() {
    let Some((_dir, place)) = place() else { return };
    let Ok(pooler) = std::env::var("DESKGRID_TEST_PG_POOLER") else {
        return;
    };
    let pooled = Database::with_schema(&pooler, place.schema()).unwrap();
    let refused = Writer::take(&pooled).err().unwrap().to_string();
    assert!(refused.contains("pool_mode = session"), "{refused}");
}

#[test]
fn the_server_must_show_a_certificate_of_the_authority_that_the_address_names() {
    let Some((dir, place)) = place() else { return };
    let Ok(authority) = std::env::var("DESKGRID_TEST_PG_CA") else {
        eprintln!("note: there is no openssl, so nothing was tried");
        return;
    };
    let url = std::env::var("DESKGRID_TEST_PG").unwrap();
    let to = |host: &str, authority: &str| {
        let url = url.replace("127.0.0.1", host);
        Database::with_schema(&format!("{url}?sslrootcert={authority}"), place.schema()).unwrap()
    };
    let store = Writer::take(&to("localhost", &authority)).unwrap();
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert!(store.db().one(sql, &[], |row| row.get::<bool>(0)).unwrap());
    drop(store);

    let named = rcgen::generate_simple_self_signed(["authority".to_owned()]).unwrap();
    let other = dir.path().join("other.pem");
    std::fs::write(&other, named.cert.pem()).unwrap();
    for bad in [
        to("localhost", other.to_str().unwrap()),
        to("127.0.0.1", &authority),
    ] {
        let refused = Writer::take(&bad).err().unwrap().to_string();
        assert!(
            refused.contains("cannot be reached") && refused.contains("certificate"),
            "{refused}"
        );
    }
}

#[test]
fn text_that_the_server_cannot_hold_does_not_stop_the_master() {
    let Some((_dir, place)) = place() else { return };
    let mut store = Writer::take(&place).unwrap();
    let name = "a\0b";
    store
        .change("INSERT INTO host (id, name) VALUES (1, $1)", values![name])
        .unwrap();
    store.commit().unwrap();
    assert_eq!(hosts(&place), ["a\u{fffd}b"]);
}

#[test]
fn many_readers_share_a_few_connections_and_each_gets_its_answer() {
    let Some((_dir, place)) = place() else { return };
    let mut store = Writer::take(&place).unwrap();
    add_host(&mut store, "one");
    store.commit().unwrap();
    let reader = Reader::of(place);
    let seen = std::thread::scope(|scope| {
        let read = || {
            let count = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%mine to find%'";
            let ask = |db: &Db| db.one(count, &[], |row| row.get::<i64>(0));
            reader.with(ask).unwrap()
        };
        let readers: Vec<_> = (0..60).map(|_| scope.spawn(read)).collect();
        let seen: Vec<i64> = readers.into_iter().map(|r| r.join().unwrap()).collect();
        seen
    });
    let most = seen.iter().copied().max().unwrap();
    assert!(seen.len() == 60 && (1..=8).contains(&most), "{seen:?}");
}

#[test]
fn an_address_that_makes_no_sense_or_is_not_safe_is_refused_before_anything_is_sent() {
    let refused = |url: &str| Database::parse(url).unwrap_err().to_string();
    assert!(
        refused("mysql://x").contains("postgres://"),
        "{}",
        refused("mysql://x")
    );
    assert!(refused("postgres://h:port/x").contains("is invalid"));
    let open = refused("postgres://deskgrid:secret@db.example.org/grid");
    assert!(
        open.contains("sslrootcert") && open.contains("sslmode=disable"),
        "{open}"
    );
    assert!(!open.contains("secret"));
    let unread = refused("postgres://db.example.org/grid?sslrootcert=/nowhere/ca.pem");
    assert!(unread.contains("/nowhere/ca.pem"), "{unread}");
    for fine in [
        "postgres://deskgrid:secret@127.0.0.1:5433/grid",
        "postgresql://deskgrid@localhost/grid?connect_timeout=3",
        "postgres://deskgrid@db.example.org/grid?sslmode=disable",
    ] {
        let name = Database::parse(fine).unwrap().name();
        assert!(
            name.ends_with("/grid") && !name.contains("secret"),
            "{name}"
        );
    }
}

/// A master that has taken the store, and has written a host into it.
fn with_a_host(place: &Database) -> Writer {
    let mut master = Writer::take(place).unwrap();
    add_host(&mut master, "one");
    master.commit().unwrap();
    master
}

/// Another master on the same database.
fn another(place: &Database) -> LeaseContender {
    let member = MasterMember::here("another".to_owned(), "127.0.0.1:7421".to_owned());
    LeaseContender::new(place, member)
}

#[test]
fn only_the_master_that_has_the_store_puts_it_aside() {
    let Some((_dir, place)) = place() else { return };
    let first = with_a_host(&place);
    let mut other = another(&place);
    let seen = other.look().unwrap();
    let second = other.take(&seen, Time(0)).unwrap().unwrap();

    let over = put_aside(&first, Time(7_000_000)).unwrap_err();
    assert!(
        matches!(&over, StoreError::Postgres(PgError::TakenOver(_))),
        "{over}"
    );
    assert_eq!(hosts(&place), ["one"]);

    let name = put_aside(&second, Time(7_000_000)).unwrap();
    assert_eq!(name, format!("{}_moved_7", place.schema()));
    let url = std::env::var("DESKGRID_TEST_PG").unwrap();
    let moved = Database::with_schema(&url, &name).unwrap();
    assert_eq!(hosts(&moved), ["one"]);
    let left = Pg::reader(moved).rows(super::tables::LEASE, &[]).unwrap();
    assert!(!super::lease::LeaseSeen::of(&left[0]).is_held());
    let gone = Pg::reader(place).has_table("lease").unwrap_err();
    assert!(gone.to_string().contains("does not exist"), "{gone}");
}

#[test]
fn a_takeover_that_meets_a_group_waits_for_it_and_leaves_a_master_that_lives() {
    let Some((_dir, place)) = place() else { return };
    let mut first = with_a_host(&place);
    let mut other = another(&place);
    let seen = other.look().unwrap();

    add_host(&mut first, "two");
    assert!(first.peer_named("two").unwrap().is_some(), "it is sent");
    let taken = std::thread::scope(|scope| {
        let taking = scope.spawn(|| other.take(&seen, Time(0)).unwrap().is_some());
        // The takeover waits for the group, in the database's own view.
        let waits = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)";
        let reader = Reader::of(place.clone());
        for _ in 0..200 {
            let waits = reader.with(|db| db.one(waits, &[], |row| row.get::<bool>(0)));
            if waits.unwrap() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        first.commit().unwrap();
        taking.join().unwrap()
    });
    assert!(!taken, "its turn has moved");
    add_host(&mut first, "three");
    first.commit().unwrap();
    assert_eq!(hosts(&place), ["one", "two", "three"]);
}

#[test]
fn a_stopped_master_with_an_open_group_is_taken_over_and_none_of_its_group_counts() {
    let Some((_dir, place)) = place() else { return };
    let mut first = with_a_host(&place);
    add_host(&mut first, "half");
    assert!(first.peer_named("half").unwrap().is_some(), "it is sent");

    let mut other = another(&place);
    let seen = other.look().unwrap();
    // The first try waits for the group's lock, and ends its connection; the second one takes over.
    assert!(other.take(&seen, Time(0)).unwrap().is_none());
    let again = other.look().unwrap();
    assert_eq!(again.turn, seen.turn);
    let mut second = other.take(&again, Time(0)).unwrap().unwrap();
    assert_eq!(second.db().commits().unwrap(), 1);
    add_host(&mut second, "two");
    second.commit().unwrap();

    let over = first.commit().unwrap_err();
    assert!(
        matches!(&over, StoreError::Postgres(PgError::TakenOver(_))),
        "{over}"
    );
    assert_eq!(hosts(&place), ["one", "two"]);
    assert_eq!(second.db().commits().unwrap(), 2);
}

#[test]
fn an_idle_master_commits_turns_and_finds_out_by_them_that_it_was_taken_over() {
    let Some((_dir, place)) = place() else { return };
    let mut first = Writer::take(&place).unwrap();
    let mut other = another(&place);
    let mut commit = || {
        let turn = other.look().unwrap().turn;
        let commits = first.commits();
        assert!(!first.commit().unwrap(), "there is nothing to commit");
        let more = first.commits() - commits;
        assert_eq!(other.look().unwrap().turn, turn + more as i64);
        more
    };
    // Soon after a turn it is sure enough. What else runs here may take longer than that.
    let sure = (0..50).any(|_| commit() == 0);
    assert!(sure, "no commit was without a turn");

    let before = other.look().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(!first.commit().unwrap());
    let after = other.look().unwrap();
    assert_eq!(after.turn, before.turn + 1);
    assert_eq!(first.commits(), after.reached());

    let second = other.take(&after, Time(0)).unwrap().unwrap();
    assert_eq!(second.commits(), after.reached());
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(first.commit().is_err(), "it says nothing more");
}

#[test]
fn a_master_that_ends_in_order_leaves_the_store_to_whoever_waits() {
    let Some((_dir, place)) = place() else { return };
    let mut first = with_a_host(&place);
    let mut other = another(&place);
    assert!(!other.look().unwrap().is_left_to("another"));
    other.note().unwrap();
    let standbys = Reader::of(place.clone()).standbys().unwrap().unwrap();
    assert_eq!(standbys[0].address, "127.0.0.1:7421");

    first.finish().unwrap();
    let left = other.look().unwrap();
    assert!(left.is_left_to("another"));
    let mut second = other.take(&left, Time(0)).unwrap().unwrap();
    assert!(
        Reader::of(place.clone())
            .standbys()
            .unwrap()
            .unwrap()
            .is_empty()
    );
    add_host(&mut second, "two");
    second.commit().unwrap();
    assert!(first.commit().is_ok(), "it has nothing to say");
    add_host(&mut first, "late");
    assert!(first.commit().is_err());
    assert_eq!(hosts(&place), ["one", "two"]);
}

#[test]
fn the_token_of_the_lease_is_the_incarnation_and_rises_with_each_master() {
    let Some((_dir, place)) = place() else { return };
    let mut last = 0;
    // The clock of the third one is far behind.
    for now in [1_600_000_000_000_000, 1_700_000_000_000_000, 0, 0] {
        let mut contender = another(&place);
        let seen = contender.look().unwrap();
        let mut store = contender.take(&seen, Time(now)).unwrap().unwrap();
        let (incarnation, _) = store.begin(Time(now)).unwrap();
        store.commit().unwrap();
        assert_eq!(
            i64::from(incarnation.0),
            another(&place).look().unwrap().token
        );
        assert!(incarnation.0 > last, "{incarnation} after {last}");
        last = incarnation.0;
    }
}
