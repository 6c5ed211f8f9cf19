//! The tables, and how an older store becomes a newer one.

use rusqlite::Connection;

use super::StoreError;

/// Each entry brings the store from its index to the next version. Entries never change once released.
const MIGRATIONS: &[&str] = &[VERSION_1, VERSION_2, VERSION_3];

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

/// Brings the store to this program's version, in one transaction.
pub(super) fn migrate(db: &mut Connection) -> Result<(), StoreError> {
    let found: usize =
        db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?.try_into().unwrap_or(usize::MAX);
    if found > MIGRATIONS.len() {
        return Err(StoreError::Newer { found, known: MIGRATIONS.len() });
    }
    let change = db.transaction()?;
    for step in &MIGRATIONS[found..] {
        change.execute_batch(step)?;
    }
    change.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    Ok(change.commit()?)
}
