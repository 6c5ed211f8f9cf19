//! The tables, and how an older store becomes a newer one.

use rusqlite::{Connection, Transaction};

use super::{StoreError, layouts};

/// Brings the store from one version to the next.
enum Step {
    /// By SQL alone.
    Sql(&'static str),
    /// By SQL, and by changing what the rows hold.
    Code(fn(&Transaction<'_>) -> Result<(), StoreError>),
}

/// Each entry brings the store from its index to the next version. Entries never change once released.
const MIGRATIONS: &[Step] = &[
    Step::Sql(VERSION_1),
    Step::Sql(VERSION_2),
    Step::Sql(VERSION_3),
    Step::Code(version_4),
    Step::Sql(VERSION_5),
    Step::Sql(VERSION_6),
    Step::Sql(VERSION_7),
];

/// The version that this program writes.
pub(crate) const VERSION: usize = MIGRATIONS.len();

/// Times are microseconds since the Unix epoch, spans are microseconds. `spec` and `result` are postcard of
/// `common::JobSpec` and of `store::Result`. Finished tasks are those with a finished attempt; failed and cancelled
/// ones stand in `settled` as ranges; all others are open. `charged` says whether an attempt's failure or loss still counts
/// against its task: a retry that somebody asked for forgives those before it. `checkpoint` has the furthest saved state of
/// each open task that has one, as postcard of `common::checkpoint::Saved` (so have `started_from` and `saved`), and
/// `checkpoint_blob` the content that it needs. `meta` has what the scheduler learned of hosts under `experience`.
const VERSION_1: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE token (
    id INTEGER PRIMARY KEY AUTOINCREMENT, secret_hash BLOB NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL,
    uses_left INTEGER NOT NULL, expires INTEGER NOT NULL, revoked INTEGER NOT NULL DEFAULT 0);
CREATE TABLE peer (
    uuid BLOB PRIMARY KEY, role TEXT NOT NULL, name TEXT NOT NULL, key_hash BLOB NOT NULL, host INTEGER,
    enrolled INTEGER NOT NULL, revoked INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE host (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, facts BLOB, draining INTEGER NOT NULL DEFAULT 0,
    finished INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0, heard INTEGER);
CREATE TABLE job (
    id INTEGER PRIMARY KEY AUTOINCREMENT, request BLOB NOT NULL UNIQUE, body_hash BLOB NOT NULL, name TEXT NOT NULL,
    user TEXT NOT NULL, policy TEXT NOT NULL, priority INTEGER NOT NULL, spec BLOB NOT NULL, total INTEGER NOT NULL,
    state TEXT NOT NULL, reason TEXT, submitted INTEGER NOT NULL, started INTEGER, ended INTEGER,
    predicted_makespan INTEGER, attempts INTEGER NOT NULL DEFAULT 0, duplicates INTEGER NOT NULL DEFAULT 0,
    finished INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0, cancelled INTEGER NOT NULL DEFAULT 0);
CREATE INDEX job_by_state ON job (state);
CREATE TABLE settled (
    job INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (job, first)) WITHOUT ROWID;
CREATE TABLE attempt (
    job INTEGER NOT NULL, task INTEGER NOT NULL, number INTEGER NOT NULL, incarnation INTEGER NOT NULL,
    host INTEGER NOT NULL, state TEXT NOT NULL, duplicate INTEGER NOT NULL, assigned INTEGER NOT NULL,
    started INTEGER, ended INTEGER, ran INTEGER NOT NULL DEFAULT 0, cpu INTEGER NOT NULL DEFAULT 0,
    suspended INTEGER NOT NULL DEFAULT 0, exit_code INTEGER, charged INTEGER NOT NULL DEFAULT 1,
    start_why TEXT NOT NULL, end_why TEXT, result BLOB, started_from BLOB, saved BLOB, checkpoint_problem TEXT,
    PRIMARY KEY (job, task, number)) WITHOUT ROWID;
CREATE TABLE blob_use (hash BLOB NOT NULL, job INTEGER NOT NULL, PRIMARY KEY (hash, job)) WITHOUT ROWID;
CREATE INDEX blob_use_by_job ON blob_use (job);
CREATE TABLE checkpoint (
    job INTEGER NOT NULL, task INTEGER NOT NULL, saved BLOB NOT NULL, PRIMARY KEY (job, task)) WITHOUT ROWID;
CREATE TABLE checkpoint_blob (
    job INTEGER NOT NULL, task INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (job, task, hash)) WITHOUT ROWID;
CREATE INDEX checkpoint_blob_by_hash ON checkpoint_blob (hash);
";

/// How hosts were available: `availability` has a row for each stretch in which a host was up and could be used in the same
/// way. `owner` is 1 where the owner used the host, 0 where not, and NULL where nobody knows; `reason` why tasks could not
/// run. Between rows a host was down.
const VERSION_2: &str = "
CREATE TABLE availability (
    host INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, cpu REAL NOT NULL, owner INTEGER, reason TEXT,
    PRIMARY KEY (host, start)) WITHOUT ROWID;
";

/// Of an identity: `next_key_hash` is the key of a renewal that was not used yet, `former_key_hash` the one before the
/// present, `token` the join token that it came with, `expires` when its newest certificate does. `approval` says that who
/// joins with a token waits for an admin. `share` has the users who may look at another's job. `audit` is the audit log:
/// `count` says how often something happened again within a minute.
const VERSION_3: &str = "
ALTER TABLE peer ADD COLUMN next_key_hash BLOB;
ALTER TABLE peer ADD COLUMN former_key_hash BLOB;
ALTER TABLE peer ADD COLUMN token INTEGER;
ALTER TABLE peer ADD COLUMN approved INTEGER NOT NULL DEFAULT 1;
ALTER TABLE peer ADD COLUMN expires INTEGER;
ALTER TABLE token ADD COLUMN approval INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX peer_by_name ON peer (name);
CREATE INDEX peer_by_key ON peer (key_hash);
CREATE TABLE share (job INTEGER NOT NULL, user TEXT NOT NULL, PRIMARY KEY (job, user)) WITHOUT ROWID;
CREATE INDEX share_by_user ON share (user);
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
    subject TEXT NOT NULL, allowed INTEGER NOT NULL, why TEXT NOT NULL, count INTEGER NOT NULL);
";

/// Owners of hosts and how far their results are to be trusted: `owner` is who a host belongs to, in an admin's words, and
/// `valid` how many of its results in a row agreed with others'. `verdict` says what became of a result that was compared
/// with others': `open`, `alone` (taken without a comparison), `agreed` or `differed`; NULL where no job asked for that.
const VERSION_4: &str = "
ALTER TABLE host ADD COLUMN owner TEXT;
ALTER TABLE host ADD COLUMN valid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN verdict TEXT;
";

/// Disclosed jobs: `disclosed` is when nobody waited yet for a job's tasks, and NULL where all were needed from the
/// beginning; `request` has ranges of tasks with when they were requested. `account` has, as postcard of
/// `scheduler::ledger::Account`, what was spent on a user's forgotten jobs. `promise` is what a job with a deadline was
/// promised, as postcard of `store::Promised`; NULL where nothing was.
const VERSION_5: &str = "
ALTER TABLE job ADD COLUMN promise BLOB;
ALTER TABLE job ADD COLUMN disclosed INTEGER;
CREATE TABLE request (
    job INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (job, first)) WITHOUT ROWID;
CREATE TABLE account (user TEXT PRIMARY KEY, sums BLOB NOT NULL) WITHOUT ROWID;
";

/// A user's jobs are found without a look at everybody's. `foretold` has what was predicted of jobs' waits: until so many hosts
/// were free together, or (0) until a job started. `came` is how long that took, and NULL until it has come. Spans are
/// microseconds. It outlives its job.
///
/// What executed tasks left that nobody has requested: `kept` says whose it is, since when, and how many bytes it takes;
/// `kept_blob` names its content, which comes into `blob_use` once the task is requested. `removed` is when what an attempt
/// left was removed to make room. What tasks left before this version counts as requested, and goes with its job.
const VERSION_6: &str = "
CREATE INDEX job_by_user ON job (user);
CREATE TABLE foretold (
    job INTEGER NOT NULL, hosts INTEGER NOT NULL, at INTEGER NOT NULL, wait INTEGER NOT NULL, low INTEGER NOT NULL,
    high INTEGER NOT NULL, came INTEGER, PRIMARY KEY (job, hosts)) WITHOUT ROWID;
CREATE INDEX foretold_by_at ON foretold (at);
ALTER TABLE attempt ADD COLUMN removed INTEGER;
CREATE TABLE kept (
    job INTEGER NOT NULL, task INTEGER NOT NULL, number INTEGER NOT NULL, user TEXT NOT NULL, at INTEGER NOT NULL,
    bytes INTEGER NOT NULL, PRIMARY KEY (job, task, number)) WITHOUT ROWID;
CREATE INDEX kept_by_age ON kept (at, job, task, number);
CREATE INDEX kept_by_user ON kept (user, at, job, task, number);
CREATE TABLE kept_blob (
    job INTEGER NOT NULL, task INTEGER NOT NULL, number INTEGER NOT NULL, hash BLOB NOT NULL,
    PRIMARY KEY (job, task, number, hash)) WITHOUT ROWID;
CREATE INDEX kept_blob_by_hash ON kept_blob (hash);
";

/// `estimates` has an estimate for each task of a job, as postcard of spans in the order of the indices; NULL where there is one
/// for all of them, or none.
const VERSION_7: &str = "
ALTER TABLE job ADD COLUMN estimates BLOB;
";

/// What version 1 had not from its first day on.
const LATER_IN_VERSION_1: [(&str, &str); 4] = [
    ("charged", "charged INTEGER NOT NULL DEFAULT 1"),
    ("started_from", "started_from BLOB"),
    ("saved", "saved BLOB"),
    ("checkpoint_problem", "checkpoint_problem TEXT"),
];

/// The same, of tables.
const TABLES_LATER_IN_VERSION_1: &str = "
CREATE TABLE IF NOT EXISTS checkpoint (
    job INTEGER NOT NULL, task INTEGER NOT NULL, saved BLOB NOT NULL, PRIMARY KEY (job, task)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoint_blob (
    job INTEGER NOT NULL, task INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (job, task, hash)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS checkpoint_blob_by_hash ON checkpoint_blob (hash);
";

/// Version 1 grew before its release, and what is submitted has got more fields since: both are made up for here.
fn version_4(change: &Transaction<'_>) -> Result<(), StoreError> {
    for (name, column) in LATER_IN_VERSION_1 {
        let there = "SELECT 1 FROM pragma_table_info('attempt') WHERE name = ?";
        if !change.prepare(there)?.exists([name])? {
            change.execute_batch(&format!("ALTER TABLE attempt ADD COLUMN {column}"))?;
        }
    }
    change.execute_batch(TABLES_LATER_IN_VERSION_1)?;
    change.execute_batch(VERSION_4)?;
    layouts::renew(change)
}

/// The version of a store.
pub(super) fn version(db: &Connection) -> Result<usize, StoreError> {
    let found: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(found.try_into().unwrap_or(usize::MAX))
}

/// Brings the store to this program's version, in one transaction.
pub(super) fn migrate(db: &mut Connection) -> Result<(), StoreError> {
    let found = version(db)?;
    if found > VERSION {
        return Err(StoreError::Newer { found, known: VERSION });
    }
    if found == VERSION {
        return Ok(());
    }
    let change = db.transaction()?;
    for step in &MIGRATIONS[found..] {
        match step {
            Step::Sql(sql) => change.execute_batch(sql)?,
            Step::Code(code) => code(&change)?,
        }
    }
    change.pragma_update(None, "user_version", VERSION as i64)?;
    change.commit()?;
    if found > 0 {
        tracing::info!(from = found, to = VERSION, "the store was upgraded");
    }
    Ok(())
}
