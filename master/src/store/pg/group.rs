//! The writer's side: changes are kept until they are known to be durable, so that a group whose
//! commit is in doubt can be decided, and sent again. `turn` decides: it has a row for each group
//! that was committed, and the fence lets a group pass only while the lease is this master's.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::super::value::SqlValue;
use super::super::{StoreError, schema};
use super::cells::KeptValue;
use super::session::{DbSession, Ready, passes, refused, words};
use super::{Database, PgError, tables};

/// The time for which a database that does not answer is asked again: longer than another server
/// needs to take its place.
const PATIENCE: Duration = Duration::from_secs(300);
/// The time for which a start waits until the connection of the master before has ended.
const TAKES: Duration = Duration::from_secs(10);
/// The number of turns after which old ones are removed.
const TRIM_EVERY: i64 = 1_000;

/// The changes since the last commit, and the connection that they go to.
pub(super) struct Group {
    session: DbSession,
    /// The `token` of the lease while it is this master's.
    token: i64,
    /// The last turn that was committed.
    turn: i64,
    changes: Vec<KeptChange>,
    /// The number of changes that the open transaction has.
    sent: usize,
    /// Whether a transaction is open.
    begun: bool,
    /// The texts of statements, each once.
    texts: HashSet<Arc<str>>,
}

struct KeptChange {
    sql: Arc<str>,
    values: Vec<KeptValue>,
}

/// The lease as a master finds it.
struct Lease {
    token: i64,
    holder: String,
    alive: bool,
    turn: i64,
    layout: i64,
}

/// The outcome of a group whose connection was lost.
enum Decided {
    Committed,
    Lost,
}

impl Lease {
    fn read(session: &DbSession) -> Result<Self, Error> {
        let rows = session.rows(tables::LEASE, &[])?;
        let row = &rows[0];
        Ok(Self {
            token: row.get(0),
            holder: row.get(1),
            alive: row.get(2),
            turn: row.get::<_, Option<i64>>(3).unwrap_or(0),
            layout: row.get(4),
        })
    }
}

impl Group {
    /// Takes the store of a place, whose tables are made or upgraded, from a master that has ended.
    pub(super) fn take(place: &Database) -> Result<Self, StoreError> {
        let session = DbSession::to_write(place)?;
        session.look_for_pooler(place)?;
        let begun = Instant::now();

        loop {
            match try_take(&session, place)? {
                Ok(token) => {
                    return Ok(Self {
                        session,
                        token,
                        turn: 0,
                        changes: Vec::new(),
                        sent: 0,
                        begun: false,
                        texts: HashSet::new(),
                    });
                }
                Err(holder) if begun.elapsed() > TAKES => return Err(PgError::Held(holder).into()),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Notes a change for the next commit.
    pub(super) fn note(&mut self, sql: &str, values: &[SqlValue<'_>]) {
        let sql = match self.texts.get(sql) {
            Some(known) => known.clone(),
            None => {
                let text: Arc<str> = Arc::from(sql);
                self.texts.insert(text.clone());
                text
            }
        };
        let values = values.iter().map(KeptValue::from).collect();
        self.changes.push(KeptChange { sql, values });
    }

    /// Makes a change, and waits for the number of rows that it changed.
    pub(super) fn count(
        &mut self,
        place: &Database,
        sql: &str,
        values: &[SqlValue<'_>],
    ) -> Result<usize, StoreError> {
        self.note(sql, values);
        let counts = self.send(place, false)?;
        Ok(counts.last().copied().unwrap_or(0) as usize)
    }

    /// The rows of the answer, as of all changes so far.
    pub(super) fn rows(
        &mut self,
        place: &Database,
        sql: &str,
        values: &[SqlValue<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        loop {
            if self.sent < self.changes.len() {
                self.send(place, false)?;
            }

            match self.session.rows(sql, values) {
                Ok(rows) => return Ok(rows),
                Err(error) if passes(&error) => {
                    self.decide(place, &error)?;
                }
                Err(error) => return Err(refused(&error).into()),
            }
        }
    }

    /// Makes all changes durable.
    pub(super) fn commit(&mut self, place: &Database) -> Result<(), StoreError> {
        if (self.turn + 1) % TRIM_EVERY == 0 {
            self.note(
                tables::TRIM,
                &[SqlValue::Int(self.token), SqlValue::Int(self.turn)],
            );
        }
        self.send(place, true).map(drop)
    }

    /// Sends what was not sent yet, with the commit if wanted, until it has arrived. Returns the
    /// numbers of rows that the changes of the last flight changed.
    fn send(&mut self, place: &Database, commit: bool) -> Result<Vec<u64>, StoreError> {
        loop {
            let error = match self.fly(commit) {
                Ok(counts) => {
                    self.begun = true;
                    self.sent = self.changes.len();
                    if commit {
                        self.end();
                    }
                    return Ok(counts);
                }
                Err(error) => error,
            };

            if error.code() == Some(&SqlState::DIVISION_BY_ZERO) {
                let holder = Lease::read(&self.session).map(|lease| lease.holder);
                return Err(PgError::TakenOver(holder.unwrap_or_default()).into());
            }
            // The turn is there already: the commit that was in doubt has arrived meanwhile.
            let came = error.as_db_error().and_then(|said| said.constraint()) == Some("turn_pkey");
            if !came && !passes(&error) {
                return Err(refused(&error).into());
            }
            if let Decided::Committed = self.decide(place, &error)? {
                self.end();
                // What is seen there need not be on the server's replica yet; what is committed after it says so.
                return self.send(place, true);
            }
        }
    }

    fn end(&mut self) {
        self.turn += 1;
        self.changes.clear();
        self.sent = 0;
        self.begun = false;
    }

    /// Sends what was not sent yet, with the commit if wanted. Returns the numbers of changed rows.
    pub(super) fn fly(&self, commit: bool) -> Result<Vec<u64>, Error> {
        let mut statements: Vec<Ready> = Vec::with_capacity(self.changes.len() - self.sent + 2);
        if !self.begun {
            let fence: Arc<str> = Arc::from(tables::FENCE);
            let turn: Arc<str> = Arc::from(tables::TURN);
            let (token, next) = (KeptValue::Int(self.token), KeptValue::Int(self.turn + 1));
            statements.push(self.session.ready(&fence, vec![token.clone()])?);
            statements.push(self.session.ready(&turn, vec![token, next])?);
        }
        for change in &self.changes[self.sent..] {
            statements.push(self.session.ready(&change.sql, change.values.clone())?);
        }

        let before = (!self.begun).then_some("BEGIN");
        self.session
            .fly(before, statements, commit.then_some("COMMIT"))
    }

    /// Connects again, and finds out what became of the open group. Nothing of it was told to
    /// anybody yet.
    fn decide(&mut self, place: &Database, error: &Error) -> Result<Decided, StoreError> {
        tracing::warn!(
            error = words(error),
            "the connection to PostgreSQL broke; it is made anew"
        );
        let begun = Instant::now();
        let mut pause = Duration::from_millis(50);
        loop {
            let again = DbSession::to_write(place).and_then(|session| {
                let look = || {
                    let lease = Lease::read(&session)?;
                    session.rows(tables::MOVE, &[SqlValue::Int(self.token)])?;
                    Ok::<_, Error>(lease)
                };
                let lease = look().map_err(|error| place.away(&error))?;
                Ok((session, lease))
            });

            match again {
                Ok((session, lease)) => {
                    self.session = session;
                    self.begun = false;
                    self.sent = 0;
                    return self.judge(&lease);
                }
                Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
                Err(error) => tracing::warn!(%error, "the store waits for its database"),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    fn judge(&self, lease: &Lease) -> Result<Decided, StoreError> {
        match lease.turn - self.turn {
            _ if lease.token != self.token => Err(PgError::TakenOver(lease.holder.clone()).into()),
            0 => Ok(Decided::Lost),
            1 => Ok(Decided::Committed),
            behind => Err(PgError::WentBack(behind.unsigned_abs()).into()),
        }
    }
}

/// Tries to take the lease. Returns the token, or the name of the master that holds it.
fn try_take(session: &DbSession, place: &Database) -> Result<Result<i64, String>, StoreError> {
    make_tables(session, place).map_err(|error| refused(&error))?;
    let lease = Lease::read(session).map_err(|error| refused(&error))?;
    let layout = usize::try_from(lease.layout).unwrap_or(usize::MAX);
    if layout > schema::VERSION {
        return Err(StoreError::Newer {
            found: layout,
            known: schema::VERSION,
        });
    }
    if lease.alive {
        return Ok(Err(lease.holder));
    }

    let holder = format!("process {} on {}", std::process::id(), crate::run::node());
    let taken = || -> Result<usize, Error> {
        session.execute("BEGIN".to_owned())?;
        let values = [SqlValue::Text(&holder), SqlValue::Int(lease.token)];
        let count = session.count(tables::TAKE, &values)?;
        session.execute(tables::upgrade(layout))?;
        session.count(
            tables::TRIM,
            &[SqlValue::Int(lease.token), SqlValue::Int(0)],
        )?;
        session.execute("COMMIT".to_owned())?;
        Ok(count)
    };
    match taken() {
        Ok(1) => Ok(Ok(lease.token + 1)),
        Ok(_) => Ok(Err(lease.holder)),
        Err(error) => {
            let _ = session.execute("ROLLBACK".to_owned());
            if passes(&error) {
                Ok(Err(lease.holder))
            } else {
                Err(refused(&error).into())
            }
        }
    }
}

/// Makes the schema and the tables, if they are not there.
fn make_tables(session: &DbSession, place: &Database) -> Result<(), Error> {
    if session.has_table("lease")? {
        return Ok(());
    }
    let made = session.execute(format!("BEGIN; {} COMMIT", tables::made(place.schema())));
    if made.is_err() {
        session.execute("ROLLBACK".to_owned())?;
        // Another master that starts at the same time may have made them.
        if session.has_table("lease")? {
            return Ok(());
        }
    }
    made
}
