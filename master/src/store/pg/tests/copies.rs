//! Reads a database as of one moment, beside the master that writes: copies it, and looks whether it is
//! sound.

use common::job::Work;
use common::{IdSet, JobId, JobSpec, RequestId, TaskSet};
use uuid::Uuid;

use super::{Db, Reader, StoreError, Time, Writer, by_hand, place, values};
use crate::store::pg::{Database, PgError};
use crate::store::{NewJob, copies, lite, look_in, transfer};

/// More hosts than a page of a copy, or a portion of an answer, has.
const HOSTS: i64 = 4_500;

fn add(store: &mut Writer, host: i64) {
    let sql = "INSERT INTO host (id, name) VALUES ($1, $2)";
    store
        .change(sql, values![host, format!("h{host}")])
        .unwrap();
}

/// A store with many hosts and a job.
fn full(place: &Database) -> Writer {
    let mut store = Writer::take(place).unwrap();
    store.set_meta("grid", &[7; 16]).unwrap();
    for id in 1..=HOSTS {
        add(&mut store, id);
    }
    let tasks = TaskSet {
        ids: IdSet::from_range(1, 3),
        items: Vec::new(),
    };
    let spec = JobSpec {
        name: "bag".into(),
        tasks,
        work: Work::Noop,
        rules: common::job::Rules::default(),
    };
    let request = RequestId(Uuid::from_u128(1));
    let new = NewJob {
        request,
        body_hash: [0; 32],
        user: "ann",
        spec: &spec,
        content: &spec.content(),
        estimates: &[],
        now: Time(1),
    };
    assert_eq!(store.add_job(&new).unwrap(), JobId(1));
    store.commit().unwrap();
    store
}

fn count(db: &Db) -> i64 {
    db.one("SELECT COUNT(*) FROM host", &[], |row| row.get(0))
        .unwrap()
}

#[test]
fn a_snapshot_sees_one_state_while_the_master_goes_on() {
    let Some((_dir, place)) = place() else { return };
    let mut store = full(&place);
    let reader = Reader::of(place.clone());
    let seen = reader.with_snapshot(|db| {
        assert_eq!(count(db), HOSTS);
        add(&mut store, HOSTS + 1);
        store.commit().unwrap();

        // Answers within answers, each longer than a portion.
        let mut rows = 0;
        db.each("SELECT id FROM host ORDER BY id", &[], |row| {
            rows += 1;
            let id: i64 = row.get(0)?;
            if id % 1_500 == 0 {
                let sql = "SELECT name FROM host WHERE id > $1";
                let after: Vec<String> = db.all(sql, values![id], |row| row.get(0))?;
                assert_eq!(after.len() as i64, HOSTS - id);
            }
            Ok(())
        })?;
        assert_eq!((rows, count(db)), (HOSTS, HOSTS));
        Ok(())
    });
    seen.unwrap();
    assert_eq!(reader.with(|db| Ok(count(db))).unwrap(), HOSTS + 1);
}

#[test]
fn a_snapshot_whose_connection_breaks_is_an_error_and_not_another_state() {
    let Some((_dir, place)) = place() else { return };
    let mut store = full(&place);
    let reader = Reader::of(place.clone());
    let broken = reader.with_snapshot(|db| {
        let Db::Pg(seen) = db else { panic!("a file") };
        let pid: i32 = seen.rows("SELECT pg_backend_pid()", &[]).unwrap()[0].get(0);
        add(&mut store, HOSTS + 1);
        store.commit().unwrap();
        by_hand(&place, &format!("SELECT pg_terminate_backend({pid})"));
        // Its end takes a moment.
        let look = "SELECT COUNT(*) FROM host, pg_sleep(0.01)";
        (0..500).try_for_each(|_| seen.rows(look, &[]).map(drop))
    });
    assert!(
        matches!(broken, Err(StoreError::Postgres(PgError::Away { .. }))),
        "{broken:?}"
    );
}

#[test]
fn a_copy_of_a_database_is_a_file_with_every_row_and_knows_that_it_is_one() {
    let Some((dir, place)) = place() else { return };
    let store = full(&place);
    let path = dir.path().join("copy");
    Reader::of(place).copy_to(&path, Time(5), true).unwrap();
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");

    let (copy, version) = crate::store::open_to_look(&path).unwrap();
    assert_eq!(version, crate::store::VERSION);
    assert_eq!(copies::copied(&copy).unwrap(), Some(Time(5)));
    assert!(copy.commits().unwrap() >= store.commits());
    drop(copy);
    let looked = crate::store::look(&path).unwrap();
    assert_eq!((looked.faults, looked.jobs), (vec![], 1));

    let copied = lite::open_at(&path, &crate::store::log::FileLogs).unwrap();
    let forget = "DELETE FROM meta WHERE key = 'copied'";
    copied.count(forget, &[]).unwrap();
    transfer::same(&copied, store.db()).unwrap();
}

#[test]
fn a_copy_of_an_older_layout_is_refused_with_what_to_do() {
    let Some((dir, place)) = place() else { return };
    drop(full(&place));
    by_hand(&place, "UPDATE lease SET layout = 2");
    let copy = dir.path().join("copy");
    let refused = Reader::of(place).copy_to(&copy, Time(5), true).unwrap_err();
    let told = refused.to_string();
    assert!(
        told.contains("start a master of this deskgrid first"),
        "{told}"
    );
}

/// Looks at the store after this was done by hand, and returns the faults.
fn faults_after(place: &Database, sql: &str) -> Vec<String> {
    by_hand(place, sql);
    look_in(&Reader::of(place.clone())).unwrap().faults
}

#[test]
fn what_is_damaged_or_missing_in_a_database_is_found() {
    let Some((_dir, place)) = place() else { return };
    let reader = Reader::of(place.clone());
    let empty = look_in(&reader).unwrap();
    assert_eq!(empty.faults, ["there are no tables of it in the database"]);

    drop(full(&place));
    let sound = look_in(&reader).unwrap();
    assert_eq!((sound.faults, sound.jobs), (vec![], 1));
    assert!(sound.notes[0].contains("pg_amcheck"), "{:?}", sound.notes);

    let cases = [
        (
            "INSERT INTO availability VALUES (9999, 1, 2, 1.0, NULL, NULL)",
            "availability of a host that is not there 9999",
        ),
        (
            "UPDATE job SET spec = set_byte(spec, 3, get_byte(spec, 3) # 1)",
            "job 1: what was submitted cannot be read",
        ),
        (
            "UPDATE job SET state = 'finished'",
            "an end that does not fit its state, of the job 1",
        ),
    ];
    for (sql, told) in cases {
        let faults = faults_after(&place, sql);
        assert!(faults.iter().any(|f| f.contains(told)), "{sql}: {faults:?}");
    }
    let faults = faults_after(
        &place,
        "DROP INDEX peer_by_name; DROP VIEW people_hosts; ALTER TABLE job DROP COLUMN needs; DROP TABLE kept",
    );
    for told in [
        "the view people_hosts",
        "the index peer_by_name",
        "the column job.needs",
        "the column kept.bytes",
    ] {
        let told = format!("{told} is missing");
        assert!(faults.contains(&told), "{told}: {faults:?}");
    }

    by_hand(&place, "UPDATE lease SET layout = 99");
    let newer = look_in(&reader);
    assert!(
        matches!(newer, Err(StoreError::Newer { found: 99, .. })),
        "{newer:?}"
    );
}
