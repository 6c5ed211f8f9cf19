//! The questions and statements that a deed of the store takes where it is in PostgreSQL. They are counted at a
//! database that SQLite plays, without a server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::content::BlobHash;
use common::view::TaskState;
use common::{BlobRef, IdSet, Time};
use rusqlite::{Connection, params_from_iter};

use super::super::group::Group;
use super::super::session::DbSession;
use super::super::takeover::Takeover;
use super::super::{
    Database, Inside, Pg, SimulatedAnswer, SimulatedDatabase, SimulatedFault, SimulatedStatement,
    SimulatedValue, Simulation,
};
use crate::laws::SafetyRules;
use crate::store::db::Db;
use crate::store::tests::{add_job, add_job_with, file, spec};
use crate::store::uploads::LEAST_COUNTED;
use crate::store::{ObjectName, Writer, schema};

/// A database that SQLite plays, and that counts how often it is waited for.
#[derive(Debug)]
struct CountedDatabase {
    tables: Mutex<Connection>,
    flights: AtomicUsize,
}

impl CountedDatabase {
    /// The number of flights so far: each is waited for once, whatever is in it.
    fn flights(&self) -> usize {
        self.flights.load(Ordering::Relaxed)
    }
}

impl SimulatedDatabase for CountedDatabase {
    fn connect(&self) -> Result<u64, SimulatedFault> {
        Ok(1)
    }

    fn fly(
        &self,
        _: u64,
        statements: Vec<SimulatedStatement>,
    ) -> Result<Vec<SimulatedAnswer>, SimulatedFault> {
        self.flights.fetch_add(1, Ordering::Relaxed);
        let tables = self.tables.lock().unwrap();
        let answers = statements.iter().map(|one| execute(&tables, one));
        Ok(answers.collect())
    }

    fn close(&self, _: u64) {}

    fn delete(&self, _: ObjectName) {}

    fn now(&self) -> Time {
        Time(0)
    }

    fn sleep(&self, _: Duration) {}
}

/// Executes a statement; one of a transaction or a lease changes nothing here.
fn execute(tables: &Connection, statement: &SimulatedStatement) -> SimulatedAnswer {
    let sql = &*statement.sql;
    let words = ["BEGIN", "COMMIT", "lease", " turn "];
    if words.iter().any(|word| sql.contains(word)) {
        return SimulatedAnswer::default();
    }

    let mut prepared = tables.prepare_cached(sql).unwrap();
    let columns = prepared.column_count();
    let values = params_from_iter(&statement.values);
    if columns == 0 {
        let changed = prepared.execute(values).unwrap() as u64;
        return SimulatedAnswer {
            changed,
            rows: Vec::new(),
        };
    }

    let mut rows = Vec::new();
    let mut found = prepared.query(values).unwrap();
    while let Some(row) = found.next().unwrap() {
        let cells = (0..columns).map(|at| row.get::<_, SimulatedValue>(at).unwrap());
        rows.push(cells.collect());
    }
    SimulatedAnswer { changed: 0, rows }
}

/// An empty store in such a database.
fn counted() -> (Writer, Arc<CountedDatabase>) {
    let mut tables = Connection::open_in_memory().unwrap();
    schema::migrate(&mut tables).unwrap();
    let database = Arc::new(CountedDatabase {
        tables: Mutex::new(tables),
        flights: AtomicUsize::new(0),
    });
    let place = Database::simulated(Simulation {
        database: database.clone(),
        laws: SafetyRules::KEPT,
    });

    let session = DbSession::to_write(&place).unwrap();
    let group = Group::of(&place, session, Takeover::of_tests(7), 0);
    let store = Writer::on(Db::Pg(Pg::of(place, group))).unwrap();
    (store, database)
}

/// The number of statements that the changes which were not sent yet take.
fn statements(store: &Writer) -> usize {
    match &*super::pg(store).inside.borrow() {
        Inside::Writes(group) => group.statements(),
        Inside::Reads(_) | Inside::Sees(_) => panic!("it writes"),
    }
}

#[test]
fn a_submission_waits_for_one_answer_however_many_files_it_has() {
    let (mut store, database) = counted();
    let files: Vec<BlobRef> = (0..600).map(|n| file(n, 9)).collect();
    for sent in &files[..500] {
        store.content_came("ann", *sent, Time(1)).unwrap();
    }
    store.commit().unwrap();

    let before = database.flights();
    let job = add_job_with(&mut store, 1, (&spec(1), &files), "ann");
    let taken_off = store.content_is_needed(job, "ann").unwrap();
    assert_eq!(taken_off, 500 * LEAST_COUNTED);
    // The changes before it are sent with the question; the one after it goes with the commit.
    assert_eq!(database.flights() - before, 2);
    assert_eq!(statements(&store), 1);
    store.commit().unwrap();
    assert_eq!(database.flights() - before, 3);
    assert!(store.unused_content().unwrap().is_empty());
}

#[test]
fn a_retry_of_many_tasks_that_failed_one_by_one_is_two_statements() {
    let (mut store, _) = counted();
    let job = add_job(&mut store, 1, &spec(2_000));
    // All of them, and every other one, between tasks that finished.
    for step in [1, 2] {
        let failed: IdSet = (1..=500).map(|n| n * step).collect();
        for task in failed.iter() {
            let state = TaskState::Failed;
            let one = IdSet::from_range(task, task);
            store.settle(job, &one, state, "exit code 1").unwrap();
        }
        store.commit().unwrap();

        store.reopen(job, &failed).unwrap();
        assert_eq!(statements(&store), 2);
        store.commit().unwrap();
        let restored = store.restore_job(job).unwrap().unwrap();
        assert!(restored.progress.failed.is_empty());
    }
}

#[test]
fn an_open_job_is_brought_back_with_five_questions() {
    let (mut store, database) = counted();
    let job = add_job(&mut store, 1, &spec(3));
    store.commit().unwrap();
    let before = database.flights();
    let restored = store.restore_job(job).unwrap().unwrap();
    assert_eq!(restored.view.tasks.total, 3);
    // The job, its additions, its settled tasks, and its attempts twice.
    assert_eq!(database.flights() - before, 5);
}

#[test]
fn a_portion_of_old_content_is_one_question() {
    let (mut store, database) = counted();
    add_job_with(&mut store, 1, (&spec(1), &[file(7, 9)]), "ann");
    store.commit().unwrap();
    let hashes: Vec<BlobHash> = (0..1_000).map(|n| file(n, 9).hash).collect();

    let before = database.flights();
    let needed = store.needed(&hashes).unwrap();
    assert_eq!(database.flights() - before, 1);
    assert_eq!(Vec::from_iter(needed), [hashes[7]]);
}
