//! Sessions with a database: how they begin, and what a database must be like to have the store.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::Span;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};

use super::cells::{DbRow, KeptValue, SentValue};
use super::error::{DbError, words};
use super::lease::LeaseSeen;
use super::runs::{KeptChange, RowChange};
use super::simulated::{SimulatedSession, SimulatedStatement, Simulation};
use super::{PgError, wait};
use crate::locked;
use crate::store::value::SqlValue;

/// The oldest server that is known to understand the store, as `server_version_num`.
const OLDEST: i32 = 130_000;
/// The time for which a reader waits for a server that lacks changes.
const WAITS: Span = Span::from_secs(10);
/// The schema of the store's tables.
const SCHEMA: &str = "deskgrid";

/// The least time without a commit after which masters take the store from each other.
const LEAST_LEASE: Span = Span::from_secs(3);

/// Where a store is: a database, and the schema in it; and the time without a commit after which other
/// masters take it.
#[derive(Debug, Clone)]
pub(crate) struct Database(Arc<Inner>, Span);

#[derive(Debug)]
struct Inner {
    config: Config,
    schema: String,
    tls: Option<super::tls::Connector>,
    /// The token and the last turn of this process, if it has the store: a server that knows less of
    /// them was behind, and is not read from until they are there again.
    reached: Mutex<(i64, i64)>,
    /// What stands in its place in a simulated world.
    simulation: Option<Simulation>,
}

impl Database {
    /// Reads the address of a database, such as `postgres://deskgrid@db.example.org/grid`.
    pub(crate) fn parse(url: &str) -> Result<Self, PgError> {
        Self::with_schema(url, SCHEMA)
    }

    /// The same in a schema of this name.
    pub(crate) fn with_schema(url: &str, schema: &str) -> Result<Self, PgError> {
        let bad = |why: String| PgError::Address(why);
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(bad(
                "it has to begin with postgres://, as in postgres://deskgrid@db.example.org/grid"
                    .to_owned(),
            ));
        }

        let (url, roots) = without_roots(url);
        let mut config: Config = url.parse().map_err(|error: Error| bad(words(&error)))?;
        let tls = roots
            .as_deref()
            .map(super::tls::Connector::new)
            .transpose()
            .map_err(bad)?;
        match (config.get_ssl_mode(), &tls) {
            (SslMode::Disable, None) => {}
            (SslMode::Disable, Some(_)) => {
                return Err(bad(
                    "it says sslmode=disable and names an sslrootcert".to_owned()
                ));
            }
            (_, Some(_)) => drop(config.ssl_mode(SslMode::Require)),
            (SslMode::Prefer, None) if config.get_hosts().iter().all(is_here) => {
                config.ssl_mode(SslMode::Disable);
            }
            (_, None) => {
                return Err(bad(
                    "the database is on another machine: name the certificate of the authority that its certificate comes \
                     from, as in ?sslrootcert=/etc/deskgrid/db-ca.pem, or write sslmode=disable where the network is safe"
                        .to_owned(),
                ));
            }
        }

        // Of several servers the one that takes changes is wanted; a single one is told apart in words.
        let wanted = match config.get_hosts() {
            [_, _, ..] => TargetSessionAttrs::ReadWrite,
            _ => TargetSessionAttrs::Any,
        };
        config
            .application_name("deskgrid")
            .connect_timeout(Duration::from_secs(5))
            .keepalives_idle(Duration::from_secs(2))
            .tcp_user_timeout(Duration::from_secs(8))
            .target_session_attrs(wanted);
        let schema = schema.to_owned();
        let inner = Arc::new(Inner {
            config,
            schema,
            tls,
            reached: Mutex::default(),
            simulation: None,
        });
        Ok(Self(inner, LEAST_LEASE))
    }

    /// The `Database` of a simulated world.
    pub(crate) fn simulated(simulation: Simulation) -> Self {
        let inner = Arc::new(Inner {
            config: Config::new(),
            schema: SCHEMA.to_owned(),
            tls: None,
            reached: Mutex::default(),
            simulation: Some(simulation),
        });
        Self(inner, LEAST_LEASE)
    }

    /// The same, where others take the store after this time without a commit.
    pub(crate) fn with_lease(self, lease: Span) -> Self {
        Self(self.0, lease)
    }

    /// The time after which a commit that was sent says nothing more of who has the store: a second before
    /// others may have taken it.
    pub(super) fn silent_after(&self) -> Span {
        Span(self.1.0.saturating_sub(Span::from_secs(1).0))
    }

    /// The simulated world that it is of, if it is of one.
    pub(super) fn simulation(&self) -> Option<&Simulation> {
        self.0.simulation.as_ref()
    }

    /// The schema of the store's tables.
    pub(super) fn schema(&self) -> &str {
        &self.0.schema
    }

    /// Whether its address has a password in it.
    pub(crate) fn has_password(&self) -> bool {
        self.0.config.get_password().is_some()
    }

    /// The database in words, without the password.
    pub(crate) fn name(&self) -> String {
        let config = &self.0.config;
        let host = |(at, host): (usize, &Host)| {
            let ports = config.get_ports();
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                #[cfg(unix)]
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        };

        let hosts: Vec<String> = config.get_hosts().iter().enumerate().map(host).collect();
        let database = config.get_dbname().or(config.get_user()).unwrap_or("?");
        format!("{}/{database}", hosts.join(","))
    }

    /// Notes that this process has committed this turn.
    pub(super) fn has_reached(&self, token: i64, turn: i64) {
        *locked(&self.0.reached) = (token, turn);
    }

    fn unfit(&self, why: impl Into<String>) -> PgError {
        PgError::Unfit {
            place: self.name(),
            why: why.into(),
        }
    }

    pub(super) fn away(&self, error: &DbError) -> PgError {
        PgError::Away {
            place: self.name(),
            why: error.words(),
        }
    }

    /// The answer to a question, or its error in words.
    pub(super) fn answered<T>(&self, asked: Result<T, DbError>) -> Result<T, PgError> {
        asked.map_err(|error| match error.passes() {
            true => self.away(&error),
            false => refused(&error),
        })
    }
}

/// Takes `sslrootcert=FILE` out of an address.
fn without_roots(url: &str) -> (String, Option<String>) {
    let Some((front, query)) = url.split_once('?') else {
        return (url.to_owned(), None);
    };
    let (roots, rest): (Vec<&str>, Vec<&str>) = query
        .split('&')
        .partition(|option| option.starts_with("sslrootcert="));

    let roots = roots.last().and_then(|root| root.split_once('='));
    let front = if rest.is_empty() {
        front.to_owned()
    } else {
        format!("{front}?{}", rest.join("&"))
    };
    (front, roots.map(|(_, file)| file.to_owned()))
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

pub(super) fn refused(error: &DbError) -> PgError {
    PgError::Refused(error.words())
}

/// A connection that is set up, with the statements that are prepared on it.
pub(super) struct DbSession {
    way: SessionWay,
    prepared: RefCell<HashMap<Arc<str>, Statement>>,
    /// Those over arrays, by the text for one row.
    prepared_for_many: RefCell<HashMap<Arc<str>, Statement>>,
}

/// The way of a `DbSession` to the database.
enum SessionWay {
    Server(Arc<Client>),
    Simulated(SimulatedSession),
}

/// A statement that can be sent, with its values.
pub(super) enum Ready {
    /// It is prepared at the server.
    Prepared(Statement, Vec<SentValue>),
    /// It goes to a `SimulatedDatabase`.
    Simulated(SimulatedStatement),
}

impl DbSession {
    fn connect(place: &Database) -> Result<Self, PgError> {
        let way = match place.simulation() {
            Some(simulation) => SimulatedSession::connect(simulation)
                .map(SessionWay::Simulated)
                .map_err(DbError::from),
            None => Self::client_of(place).map(SessionWay::Server),
        };
        Ok(Self {
            way: way.map_err(|error| place.away(&error))?,
            prepared: RefCell::default(),
            prepared_for_many: RefCell::default(),
        })
    }

    fn client_of(place: &Database) -> Result<Arc<Client>, DbError> {
        let inner = place.0.clone();
        let connected = wait(async move {
            let setup = format!(
                "SET search_path = \"{}\"; SET synchronous_commit = on; SET jit = off; SET lock_timeout = '5s';
                 SET plan_cache_mode = force_generic_plan; SET client_min_messages = warning;
                 SET idle_in_transaction_session_timeout = '60s'",
                inner.schema
            );
            let client = open(&inner).await?;
            client.batch_execute(&setup).await?;
            Ok::<_, Error>(client)
        });

        Ok(connected.map(Arc::new)?)
    }

    /// The server's `Client`. What is asked over it is not asked of a `SimulatedDatabase`.
    fn client(&self) -> Arc<Client> {
        match &self.way {
            SessionWay::Server(client) => client.clone(),
            SessionWay::Simulated(_) => unreachable!("a simulated database has no server"),
        }
    }

    /// A session of a reader. Where another server has taken the place of the one before, it is waited
    /// for until the writer has seen to what may be missing there.
    pub(super) fn to_read(place: &Database) -> Result<Self, PgError> {
        let session = Self::connect(place)?;
        let since = place.since_boot();
        loop {
            let has_all = session.has_all(place);
            if has_all.map_err(|error| place.away(&error))? {
                return Ok(session);
            }
            // In a simulated world the writer shares this thread, so waiting would keep it from its work.
            if place.simulation().is_some() || place.since_boot().since(since) > WAITS {
                return Err(place.unfit("it lacks changes that it had confirmed"));
            }
            place.sleep(Duration::from_millis(50));
        }
    }

    /// Whether the server has all that this process has committed.
    fn has_all(&self, place: &Database) -> Result<bool, DbError> {
        let (token, turn) = *locked(&place.0.reached);
        if turn == 0 {
            return Ok(true);
        }
        let seen = LeaseSeen::read(self)?;
        Ok((seen.token, seen.turn) >= (token, turn))
    }

    /// A session of the writer, with a database that takes changes.
    pub(super) fn to_write(place: &Database) -> Result<Self, PgError> {
        let session = Self::connect(place)?;
        if place.simulation().is_some() {
            return Ok(session);
        }
        let asked = session.ask(
            "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
             current_setting('transaction_read_only') = 'on', current_setting('server_encoding'),
             current_setting('fsync') = 'on'",
        );
        let row = asked.map_err(|error| place.away(&error.into()))?;
        let (version, standby): (i32, bool) = (row.get(0), row.get(1));
        let (read_only, encoding, syncs): (bool, String, bool) =
            (row.get(2), row.get(3), row.get(4));

        if version < OLDEST {
            let had = version / 10_000;
            return Err(place.unfit(format!("it is version {had}, and 13 or newer is needed")));
        }
        if standby || read_only {
            return Err(place.unfit(
                "it can only be read: it is a standby, or its user or database is read-only. Name the primary",
            ));
        }
        if encoding != "UTF8" {
            return Err(place.unfit(format!(
                "its texts are {encoding}: make a database with ENCODING 'UTF8'"
            )));
        }
        if !syncs {
            tracing::warn!(
                "PostgreSQL runs with fsync off: a power failure there loses or damages the store"
            );
        }
        Ok(session)
    }

    /// Whether the connection stands, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        match &self.way {
            SessionWay::Server(client) => !client.is_closed(),
            // The next question says so.
            SessionWay::Simulated(_) => true,
        }
    }

    /// The one row of an answer to a question without values.
    pub(super) fn ask(&self, sql: &str) -> Result<tokio_postgres::Row, Error> {
        let client = self.client();
        let sql = sql.to_owned();
        wait(async move { client.query_one(&sql, &[]).await })
    }

    /// Executes statements without values, in one message.
    pub(super) fn execute(&self, sql: String) -> Result<(), DbError> {
        if let SessionWay::Simulated(simulated) = &self.way {
            simulated.ask(&sql, std::iter::empty())?;
            return Ok(());
        }
        let client = self.client();
        Ok(wait(async move { client.batch_execute(&sql).await })?)
    }

    /// Whether there is a table of this name.
    pub(super) fn has_table(&self, name: &str) -> Result<bool, DbError> {
        let rows = self.rows(super::tables::HAS_TABLE, &[SqlValue::Text(name)])?;
        Ok(rows[0].get(0))
    }

    /// Executes a statement, and returns the number of rows that it changed.
    pub(super) fn count(&self, sql: &str, values: &[SqlValue<'_>]) -> Result<usize, DbError> {
        let count = match self.ready(&Arc::from(sql), values.iter().map(KeptValue::from))? {
            Ready::Prepared(statement, values) => {
                let client = self.client();
                wait(async move { client.execute(&statement, &parameters(&values)).await })?
            }
            statement @ Ready::Simulated(_) => self
                .fly(None, vec![statement], None)?
                .first()
                .copied()
                .unwrap_or(0),
        };
        Ok(count as usize)
    }

    /// The rows of the answer to a question.
    pub(super) fn rows(&self, sql: &str, values: &[SqlValue<'_>]) -> Result<Vec<DbRow>, DbError> {
        let values = values.iter().map(KeptValue::from);
        if let SessionWay::Simulated(simulated) = &self.way {
            let rows = simulated.ask(sql, values)?.rows;
            return Ok(rows.into_iter().map(DbRow::Simulated).collect());
        }
        let statement = self.prepare(&self.prepared, &Arc::from(sql), str::to_owned)?;
        let values: Vec<SentValue> = values.map(SentValue::One).collect();
        let client = self.client();
        let rows = wait(async move { client.query(&statement, &parameters(&values)).await })?;
        Ok(rows.into_iter().map(DbRow::Server).collect())
    }

    /// The next rows of a cursor. Their columns are those of the cursor, so nothing is kept prepared.
    pub(super) fn portion(&self, sql: &str) -> Result<Vec<DbRow>, DbError> {
        let client = self.client();
        let sql = sql.to_owned();
        let rows = wait(async move { client.query(&sql, &[]).await })?;
        Ok(rows.into_iter().map(DbRow::Server).collect())
    }

    /// A statement with its values. It is prepared, if that was not done yet.
    pub(super) fn ready(
        &self,
        sql: &Arc<str>,
        values: impl Iterator<Item = KeptValue>,
    ) -> Result<Ready, DbError> {
        if let SessionWay::Simulated(_) = &self.way {
            return Ok(Ready::Simulated(SimulatedStatement::of(sql, values)));
        }
        let statement = self.prepare(&self.prepared, sql, str::to_owned)?;
        Ok(Ready::Prepared(
            statement,
            values.map(SentValue::One).collect(),
        ))
    }

    /// One statement for all these changes, which are of one kind. `None` if a value is not of its
    /// column's type, or the database is a simulated one, which knows no arrays.
    pub(super) fn ready_for_many(
        &self,
        row: &RowChange,
        changes: &[&KeptChange],
    ) -> Result<Option<Ready>, DbError> {
        let (Some(first), SessionWay::Server(_)) = (changes.first(), &self.way) else {
            return Ok(None);
        };
        let sql = &first.text.sql;
        let one = self.prepare(&self.prepared, sql, str::to_owned)?;
        let many = self.prepare(&self.prepared_for_many, sql, |_| {
            row.over_arrays(one.params())
        })?;

        let column = |(at, kind)| {
            let values = changes.iter().map(|change| &change.values[at]);
            SentValue::array(values, kind).ok()
        };
        let columns: Option<Vec<SentValue>> = one.params().iter().enumerate().map(column).collect();
        Ok(columns.map(|columns| Ready::Prepared(many, columns)))
    }

    fn prepare(
        &self,
        among: &RefCell<HashMap<Arc<str>, Statement>>,
        sql: &Arc<str>,
        text: impl FnOnce(&str) -> String,
    ) -> Result<Statement, DbError> {
        let known = among.borrow().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }

        let client = self.client();
        let text = text(sql);
        let statement = wait(async move { client.prepare(&text).await })?;
        among.borrow_mut().insert(sql.clone(), statement.clone());
        Ok(statement)
    }

    /// Sends everything at once and waits then: `before`, statements, and `after`. Returns the numbers
    /// of rows that the statements changed, or the first error.
    pub(super) fn fly(
        &self,
        before: Option<String>,
        statements: Vec<Ready>,
        after: Option<&'static str>,
    ) -> Result<Vec<u64>, DbError> {
        let mut prepared = Vec::new();
        let mut texts = Vec::new();
        for statement in statements {
            match statement {
                Ready::Prepared(statement, values) => prepared.push((statement, values)),
                Ready::Simulated(statement) => texts.push(statement),
            }
        }

        let SessionWay::Simulated(simulated) = &self.way else {
            let client = self.client();
            let flown =
                wait(async move { flight(&client, before.as_deref(), &prepared, after).await });
            return Ok(flown?);
        };
        let plain = |sql: &str| SimulatedStatement::of(sql, std::iter::empty());
        let ends = [before.is_some(), after.is_some()].map(usize::from);
        let all = before.as_deref().map(plain).into_iter().chain(texts);
        let answers = simulated.fly(all.chain(after.map(plain)).collect())?;
        let counts = answers.iter().map(|answer| answer.changed);
        let count = answers.len() - ends[0] - ends[1];
        Ok(counts.skip(ends[0]).take(count).collect())
    }

    /// Fails if what is done in one transaction is not seen by the same server process as what is
    /// done in the next: a pooler stands between that gives each transaction another one.
    pub(super) fn look_for_pooler(&self, place: &Database) -> Result<(), PgError> {
        if place.simulation().is_some() {
            return Ok(());
        }
        let other = Self::connect(place)?;
        let pid = |session: &DbSession| {
            session
                .ask("SELECT pg_backend_pid()")
                .map(|row| row.get::<_, i32>(0))
        };
        let look = || -> Result<bool, DbError> {
            let mut seen = Vec::new();
            // Whichever of two idle ones a pooler hands out next, in one of the rounds it is the other's.
            for (first, second) in [(self, &other), (&other, self)] {
                first.execute("BEGIN".to_owned())?;
                second.execute("BEGIN".to_owned())?;
                seen.push((pid(first)?, pid(second)?));
                first.execute("COMMIT".to_owned())?;
                second.execute("COMMIT".to_owned())?;
                let alone = pid(first)?;
                if seen.last().is_some_and(|(at, _)| *at != alone) {
                    return Ok(true);
                }
            }
            Ok(seen[0] != (seen[1].1, seen[1].0))
        };

        if look().map_err(|error| place.away(&error))? {
            return Err(place.unfit(
                "a pooler stands between that gives each transaction another session (pgbouncer's pool_mode = transaction). \
                 Name the database itself, or a pool with pool_mode = session",
            ));
        }
        Ok(())
    }
}

async fn open(inner: &Inner) -> Result<Client, Error> {
    match &inner.tls {
        None => {
            let (client, connection) = inner.config.connect(NoTls).await?;
            tokio::spawn(connection);
            Ok(client)
        }
        Some(tls) => {
            let (client, connection) = inner.config.connect(tls.clone()).await?;
            tokio::spawn(connection);
            Ok(client)
        }
    }
}

fn parameters(values: &[SentValue]) -> Vec<&(dyn ToSql + Sync)> {
    values
        .iter()
        .map(|value| value as &(dyn ToSql + Sync))
        .collect()
}

async fn flight(
    client: &Client,
    before: Option<&str>,
    statements: &[(Statement, Vec<SentValue>)],
    after: Option<&str>,
) -> Result<Vec<u64>, Error> {
    use std::pin::Pin;
    use std::task::Poll;
    type Sending<'a> = Pin<Box<dyn Future<Output = Result<Option<u64>, Error>> + Send + 'a>>;

    let mut steps: Vec<Sending<'_>> = Vec::with_capacity(statements.len() + 2);
    let simple = |sql: &str| {
        let sql = sql.to_owned();
        async move { client.batch_execute(&sql).await.map(|()| None) }
    };
    if let Some(sql) = before {
        steps.push(Box::pin(simple(sql)));
    }
    for (statement, values) in statements {
        steps.push(Box::pin(async move {
            client
                .execute(statement, &parameters(values))
                .await
                .map(Some)
        }));
    }
    if let Some(sql) = after {
        steps.push(Box::pin(simple(sql)));
    }

    // The first look at each sends it, in this order; nothing is waited for in between.
    let mut early = Vec::with_capacity(steps.len());
    std::future::poll_fn(|context| {
        for step in &mut steps {
            early.push(match step.as_mut().poll(context) {
                Poll::Ready(done) => Some(done),
                Poll::Pending => None,
            });
        }
        Poll::Ready(())
    })
    .await;

    let mut counts = Vec::new();
    for (step, early) in steps.into_iter().zip(early) {
        let done = match early {
            Some(done) => done,
            None => step.await,
        };
        counts.extend(done?);
    }
    Ok(counts)
}
