//! The database that masters share: SQLite on a simulated disk, to which each session has a connection of its own.
//! It gets the statements that a server would get; only what SQLite calls otherwise is put into its words. It has
//! a replica that may be behind, and can take its place.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ::master::engine::{
    Engine, LEASE_TABLES, SimulatedAnswer, SimulatedFault, SimulatedStatement, SimulatedValue,
};
use common::{Span, Time};
use rusqlite::{Connection, ErrorCode, params_from_iter};

use super::super::contents::Shelves;
use super::super::{disk, vfs};
use super::world::{HOSTS, TODAY};

/// Its disk's name.
pub(super) const DISK: &str = "database";
const PATH: &str = "/chaos/database/store.sqlite";
/// The files of which a copy is made.
const FILES: [&str; 2] = ["store.sqlite", "store.sqlite-wal"];
/// The time after which a session that does nothing in the middle of a transaction is ended.
const IDLE: Span = Span::from_secs(60);

type Files = BTreeMap<String, Vec<u8>>;

/// The lease as everybody can see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) token: i64,
    pub(super) member: String,
    pub(super) turn: i64,
}

/// The reason why a flight did not come through.
#[derive(Debug)]
pub(super) enum Stopped {
    /// Another session holds what it needs: nothing was done.
    Busy,
    Fault(SimulatedFault),
}

struct Session {
    db: Connection,
    /// The time of its last statement.
    at: Time,
}

/// The server.
pub(super) struct Server {
    sessions: BTreeMap<u64, Session>,
    last: u64,
    /// Sees what is committed.
    pub(super) eyes: Connection,
    /// The replica's state where that is an older one.
    pub(super) replica: Option<(Lease, Time, Files)>,
    /// The lease before somebody last took it, and its token since, if that was committed.
    taken: Option<(Lease, i64)>,
    /// Until then nobody reaches it.
    pub(super) down: Time,
}

/// A fault of this code.
pub(super) fn fault(code: &'static str, words: &str) -> SimulatedFault {
    SimulatedFault {
        code,
        constraint: None,
        words: words.to_owned(),
    }
}

/// The connection is lost, or could not be made.
pub(super) fn lost() -> SimulatedFault {
    fault("08006", "the connection is lost")
}

/// A store as the first master of a grid leaves it, with the tables of the lease and some hosts.
fn fresh() -> &'static Files {
    static FRESH: OnceLock<Files> = OnceLock::new();
    FRESH.get_or_init(|| {
        disk::insert(DISK);
        let config = ::master::Config::default();
        let contents = Arc::new(Shelves::default());
        let dir = Path::new("/chaos/database");
        let laws = ::master::SafetyRules::KEPT;
        let first = Engine::open(dir, Time(TODAY), &config, contents, &disk::Logs, laws, None);
        drop(first.expect("a store is made"));

        let db = Connection::open(PATH).expect("it opens");
        let tables: Vec<&str> = LEASE_TABLES
            .lines()
            .filter(|line| !line.starts_with("ALTER"))
            .collect();
        let hosts: String = (0..HOSTS)
            .map(|n| format!("INSERT INTO host (id, name) VALUES ({}, 'pc-{n}');", n + 1))
            .collect();
        let layout = "UPDATE lease SET layout = (SELECT user_version FROM pragma_user_version)";
        let all = format!("{}; {hosts} {layout};", tables.join("\n"));
        db.execute_batch(&all).expect("the tables are made");
        drop(db);
        let files = disk::on(DISK, |disk| disk.copy(&FILES));
        vfs::forget_memory(DISK);
        files
    })
}

fn connect() -> Connection {
    let db = Connection::open(PATH).expect("it opens");
    db.busy_timeout(std::time::Duration::ZERO)
        .expect("it takes it");
    db.pragma_update(None, "synchronous", "NORMAL")
        .expect("it takes it");
    db.set_prepared_statement_cache_capacity(128);
    db
}

impl Server {
    /// A server with a store on which no master has run.
    pub(super) fn new() -> Self {
        let fresh = fresh();
        disk::insert(DISK);
        disk::on(DISK, |disk| disk.restore(&FILES, fresh));
        Self {
            sessions: BTreeMap::new(),
            last: 0,
            eyes: connect(),
            replica: None,
            taken: None,
            down: Time(0),
        }
    }

    /// Begins a session.
    pub(super) fn connect(&mut self, now: Time) -> u64 {
        self.last += 1;
        let db = connect();
        self.sessions.insert(self.last, Session { db, at: now });
        self.last
    }

    /// Ends a session. What it has not committed is gone.
    pub(super) fn close(&mut self, session: u64) {
        self.sessions.remove(&session);
    }

    /// Ends all sessions.
    pub(super) fn close_all(&mut self) {
        self.sessions.clear();
    }

    /// The lease.
    pub(super) fn lease(&self) -> Lease {
        let sql = "SELECT token, member, COALESCE((SELECT max(seq) FROM turn t WHERE t.token = l.token), 0)
            FROM lease l";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Lease {
                token: row.get(0)?,
                member: row.get(1)?,
                turn: row.get(2)?,
            })
        };
        self.eyes
            .prepare_cached(sql)
            .and_then(|mut lease| lease.query_row([], read))
            .expect("there is a lease")
    }

    /// The replica stays as it is now.
    pub(super) fn copy(&mut self, now: Time) {
        let files = disk::on(DISK, |disk| disk.copy(&FILES));
        self.replica = Some((self.lease(), now, files));
    }

    /// Whether the replica lacks the takeover by which the store has its master, and nothing from before it.
    pub(super) fn lacks_takeover(&self) -> bool {
        let (Some((then, ..)), Some((before, token))) = (&self.replica, &self.taken) else {
            return false;
        };
        *token == self.lease().token && before == then
    }

    /// The replica takes the server's place, behind it or not.
    pub(super) fn promote(&mut self) {
        self.close_all();
        if let Some((_, _, files)) = self.replica.take() {
            self.eyes = Connection::open_in_memory().expect("it opens");
            vfs::forget_memory(DISK);
            disk::on(DISK, |disk| disk.restore(&FILES, &files));
            self.eyes = connect();
        }
    }

    /// Executes statements of a session in their order, until one fails.
    pub(super) fn fly(
        &mut self,
        session: u64,
        statements: &[SimulatedStatement],
        now: Time,
    ) -> Result<Vec<SimulatedAnswer>, Stopped> {
        self.end_idle(now);
        let activity = self.activity();
        if self.is_held_from(session) && statements.iter().any(writes) {
            return Err(Stopped::Busy);
        }
        if let Some(token) = statements.iter().find_map(takes_over) {
            self.taken = Some((self.lease(), token));
        }
        let Some(found) = self.sessions.get_mut(&session) else {
            return Err(Stopped::Fault(lost()));
        };
        found.at = now;

        let mut answers = Vec::new();
        let mut terminated = Vec::new();
        for statement in statements {
            let sql = in_words_of_sqlite(&statement.sql, session, &activity);
            match execute(&found.db, &sql, &statement.values) {
                Ok(answer) => {
                    if statement.sql.contains("pg_terminate_backend") {
                        terminated.extend(answer.rows.iter().filter_map(|row| match row[..] {
                            [SimulatedValue::Integer(pid)] => u64::try_from(pid).ok(),
                            _ => None,
                        }));
                    }
                    answers.push(answer);
                }
                Err(stopped) => {
                    if !found.db.is_autocommit() {
                        let _ = found.db.execute_batch("ROLLBACK");
                    }
                    return Err(stopped);
                }
            }
        }

        terminated.into_iter().for_each(|pid| self.close(pid));
        Ok(answers)
    }

    /// Whether another session is in the middle of a transaction. The simulated disk keeps no connection from
    /// writing beside another, and all transactions here want the one row of the lease.
    fn is_held_from(&self, session: u64) -> bool {
        let mut others = self
            .sessions
            .iter()
            .filter(|(number, _)| **number != session);
        others.any(|(_, other)| !other.db.is_autocommit())
    }

    /// The sessions, as a question of its own.
    fn activity(&self) -> String {
        let one = |pid: &u64| format!("SELECT {pid} AS pid, {pid} AS backend_start");
        let all: Vec<String> = self.sessions.keys().map(one).collect();
        format!("({})", all.join(" UNION ALL "))
    }

    fn end_idle(&mut self, now: Time) {
        self.sessions
            .retain(|_, session| session.db.is_autocommit() || now.since(session.at) < IDLE);
    }
}

/// The token that a takeover gives the lease, if the statement is that of one.
pub(super) fn takes_over(statement: &SimulatedStatement) -> Option<i64> {
    let takes = statement.sql.starts_with("UPDATE lease l SET token");
    match statement.values.first() {
        Some(SimulatedValue::Integer(token)) if takes => Some(*token),
        _ => None,
    }
}

/// Whether a statement begins a transaction, or is one of its own that writes.
fn writes(statement: &SimulatedStatement) -> bool {
    let first = statement.sql.split_whitespace().next().unwrap_or_default();
    !matches!(first, "SELECT" | "ROLLBACK" | "COMMIT")
}

/// The statement as SQLite understands it: it has no rows to lock, since it locks all of them, and knows its
/// connections by other names.
fn in_words_of_sqlite<'s>(sql: &'s str, session: u64, activity: &str) -> Cow<'s, str> {
    let is_common = !["lease", "pg_", "BEGIN", "now()"]
        .iter()
        .any(|word| sql.contains(word));
    if is_common {
        return Cow::Borrowed(sql);
    }
    if sql.starts_with("BEGIN") {
        return Cow::Borrowed("BEGIN IMMEDIATE");
    }
    if sql.contains("pg_tables") {
        return Cow::Borrowed("SELECT TRUE WHERE $1 = $1");
    }
    let mut sql = sql.to_owned();
    for (server, lite) in [
        (" FOR SHARE", ""),
        (" FOR UPDATE", ""),
        ("UPDATE lease l SET", "UPDATE lease AS l SET"),
        ("extract(epoch FROM a.backend_start)", "a.backend_start"),
        ("extract(epoch FROM backend_start)", "backend_start"),
        ("now() - interval '1 day'", "0"),
        ("pg_terminate_backend(a.pid)", "a.pid"),
        ("pg_backend_pid()", &session.to_string()),
        ("pg_stat_activity", activity),
    ] {
        if sql.contains(server) {
            sql = sql.replace(server, lite);
        }
    }
    Cow::Owned(sql)
}

fn execute(
    db: &Connection,
    sql: &str,
    values: &[SimulatedValue],
) -> Result<SimulatedAnswer, Stopped> {
    let refused = |error: &rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Stopped::Busy,
        Some(ErrorCode::ConstraintViolation) if error.to_string().contains("turn.") => {
            let constraint = Some("turn_pkey");
            Stopped::Fault(SimulatedFault {
                constraint,
                ..fault("23505", "the turn is there")
            })
        }
        _ => Stopped::Fault(fault("XX000", &format!("{error}: {sql}"))),
    };
    if values.is_empty() && sql.contains(';') {
        let done = db.execute_batch(sql);
        return done
            .map(|()| SimulatedAnswer::default())
            .map_err(|error| refused(&error));
    }

    let run = || -> rusqlite::Result<SimulatedAnswer> {
        let mut statement = db.prepare_cached(sql)?;
        let mut answer = SimulatedAnswer::default();
        if statement.column_count() == 0 {
            answer.changed = statement.execute(params_from_iter(values))? as u64;
            return Ok(answer);
        }
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            let row: rusqlite::Result<Vec<_>> = (0..columns).map(|at| row.get(at)).collect();
            answer.rows.push(row?);
        }
        Ok(answer)
    };
    let answer = run().map_err(|error| refused(&error))?;
    // By zero SQLite divides to NULL.
    if sql.starts_with("SELECT 1 / count(*)") && answer.rows == [[SimulatedValue::Null]] {
        return Err(Stopped::Fault(fault("22012", "division by zero")));
    }
    Ok(answer)
}
