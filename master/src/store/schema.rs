//! The tables of the store, and the migrations of an older store.

use rusqlite::Connection;

use super::{StoreError, StoreResult};

/// The migrations: the entry at index n brings a store from version n to version n + 1. Entries are
/// not changed once they are merged.
pub(super) const MIGRATIONS: &[&str] = &[
    VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7,
];

/// The schema version that this program writes.
pub(crate) const VERSION: usize = MIGRATIONS.len();

/// The tables of version 1. Times are microseconds since the Unix epoch, spans are microseconds.
///
/// - `meta` has single values by name; `experience` is what the scheduler learned of hosts.
/// - `token` has the join tokens, `peer` the identities that joined. `approval` says that who joins
///   with a token waits for an admin; `speaks_for` names the user of one that is for HTTP. Of an identity, `next_key_hash` is the key of a renewal that
///   was not used yet, `former_key_hash` the one before the present, `token` the join token that it
///   came with, `expires` the end of its newest certificate.
/// - `host`: `owner` names, in an admin's words, who owns it; `valid` counts its results in a row
///   that agreed with others'; `labels` has those from admins, with commas between.
/// - `job`: `spec` is postcard of `common::JobSpec`; `promise` is postcard of `store::Promised`,
///   NULL where nothing was promised; `disclosed` is the time at which it was disclosed, NULL where
///   all tasks were needed from the beginning; `estimates` has postcard of spans in the order of
///   the task indices, NULL without an estimate for each task; `open` is 1 while tasks can be added.
/// - `job_label` has the labels of jobs. `job_after` has a row for each job (`before`) that has to end
///   before another one starts: `how` it has to, and whether it has (`met`). `addition` has what was
///   added to jobs, each time as postcard of `common::TaskSet`; `job.spec` is without it, `job.total`
///   with it.
/// - `settled` has failed and cancelled tasks as ranges. A task is finished if it has a finished
///   attempt, else open.
/// - `attempt`: `result` is postcard of `store::AttemptResult`; `charged` says whether a failure
///   or loss still counts against its task, and an `open` result for it (a retry that somebody asked for
///   forgives and drops earlier ones);
///   `started_from` and `saved` are postcard of `common::checkpoint::Saved`; `verdict` says how far
///   a result is believed (`open` while it waits for others, `alone` for one taken without a
///   comparison, `agreed`, `differed`; NULL where results are not compared); `removed` is the time
///   at which its output was evicted to make room.
/// - `blob_use` names the content that a job needs. `checkpoint` has the furthest saved state of
///   each open task that has one, and `checkpoint_blob` the content that it needs.
/// - `content_of` says who has sent what content, and when last: `needed` where a job of that
///   user's needs it.
/// - `availability` has a row for each interval in which a host was up and could be used in the
///   same way. `owner` is 1 where the owner used the host, 0 where not, NULL where unknown;
///   `reason` says why tasks could not run. Between rows a host was down.
/// - `share` has the users who may look at another's job. `audit` is the audit log; `count` says
///   how often something happened again within a minute.
/// - `request` has ranges of disclosed tasks with when they were requested. `account` has postcard
///   of `scheduler::billing::Account`: what was spent on a user's forgotten jobs.
/// - `foretold` has predictions of jobs' waits until `hosts` hosts are free together, or (0) until
///   the job starts, or (the largest number of 32 bits) until it ends. `came` is the actual wait,
///   NULL until it is known. A row outlives its job.
/// - `kept` says whose output of unrequested tasks there is, since when, and how many bytes it
///   takes; `kept_blob` names its content, which is added to `blob_use` once the task is requested.
/// - `event` has a row for each commit in which something happened that followers are told: `body`
///   is postcard of the events in their order, `last` the sequence number of the last of them.
const VERSION_1: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE token (
    id INTEGER PRIMARY KEY, secret_hash BLOB NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL,
    uses_left INTEGER NOT NULL, expires INTEGER NOT NULL, revoked BOOLEAN NOT NULL DEFAULT FALSE,
    approval BOOLEAN NOT NULL DEFAULT FALSE, speaks_for TEXT);
CREATE TABLE peer (
    uuid BLOB PRIMARY KEY, role TEXT NOT NULL, name TEXT NOT NULL, key_hash BLOB NOT NULL, host INTEGER,
    enrolled INTEGER NOT NULL, revoked BOOLEAN NOT NULL DEFAULT FALSE, next_key_hash BLOB, former_key_hash BLOB,
    token INTEGER, approved BOOLEAN NOT NULL DEFAULT TRUE, expires INTEGER) WITHOUT ROWID;
CREATE UNIQUE INDEX peer_by_name ON peer (name);
CREATE INDEX peer_by_key ON peer (key_hash);
CREATE TABLE host (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, facts BLOB, draining BOOLEAN NOT NULL DEFAULT FALSE,
    finished INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0, heard INTEGER, owner TEXT,
    valid INTEGER NOT NULL DEFAULT 0, attendance TEXT NOT NULL DEFAULT 'expected', labels TEXT NOT NULL DEFAULT '');
CREATE TABLE job (
    id INTEGER PRIMARY KEY, request BLOB NOT NULL UNIQUE, body_hash BLOB NOT NULL, name TEXT NOT NULL,
    \"user\" TEXT NOT NULL, policy TEXT NOT NULL, priority INTEGER NOT NULL, spec BLOB NOT NULL, total INTEGER NOT NULL,
    state TEXT NOT NULL, reason TEXT, submitted INTEGER NOT NULL, started INTEGER, ended INTEGER,
    predicted_makespan INTEGER, attempts INTEGER NOT NULL DEFAULT 0, duplicates INTEGER NOT NULL DEFAULT 0,
    finished INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0, cancelled INTEGER NOT NULL DEFAULT 0,
    promise BLOB, disclosed INTEGER, estimates BLOB, open BOOLEAN NOT NULL DEFAULT FALSE,
    needs TEXT NOT NULL);
CREATE INDEX job_by_state ON job (state);
CREATE INDEX job_by_user ON job (\"user\");
CREATE TABLE job_label (label TEXT NOT NULL, job INTEGER NOT NULL, PRIMARY KEY (label, job)) WITHOUT ROWID;
CREATE INDEX job_label_by_job ON job_label (job);
CREATE TABLE job_after (
    job INTEGER NOT NULL, before INTEGER NOT NULL, how TEXT NOT NULL, met BOOLEAN NOT NULL,
    PRIMARY KEY (job, before)) WITHOUT ROWID;
CREATE INDEX job_after_by_before ON job_after (before);
CREATE TABLE addition (
    job INTEGER NOT NULL, number INTEGER NOT NULL, request BLOB NOT NULL UNIQUE, body_hash BLOB NOT NULL,
    \"user\" TEXT NOT NULL, tasks BLOB NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (job, number)) WITHOUT ROWID;
CREATE TABLE settled (
    job INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (job, first)) WITHOUT ROWID;
CREATE TABLE attempt (
    job INTEGER NOT NULL, task INTEGER NOT NULL, number INTEGER NOT NULL, incarnation INTEGER NOT NULL,
    host INTEGER NOT NULL, state TEXT NOT NULL, duplicate BOOLEAN NOT NULL, assigned INTEGER NOT NULL,
    started INTEGER, ended INTEGER, ran INTEGER NOT NULL DEFAULT 0, cpu INTEGER NOT NULL DEFAULT 0,
    suspended INTEGER NOT NULL DEFAULT 0, exit_code INTEGER, charged BOOLEAN NOT NULL DEFAULT TRUE,
    start_why TEXT NOT NULL, end_why TEXT, result BLOB, started_from BLOB, saved BLOB, checkpoint_problem TEXT,
    verdict TEXT, removed INTEGER, PRIMARY KEY (job, task, number)) WITHOUT ROWID;
CREATE TABLE blob_use (hash BLOB NOT NULL, job INTEGER NOT NULL, PRIMARY KEY (hash, job)) WITHOUT ROWID;
CREATE INDEX blob_use_by_job ON blob_use (job);
CREATE TABLE content_of (
    \"user\" TEXT NOT NULL, hash BLOB NOT NULL, size INTEGER NOT NULL, at INTEGER NOT NULL, needed BOOLEAN NOT NULL,
    PRIMARY KEY (\"user\", hash)) WITHOUT ROWID;
CREATE INDEX content_of_by_hash ON content_of (hash);
CREATE TABLE checkpoint (
    job INTEGER NOT NULL, task INTEGER NOT NULL, saved BLOB NOT NULL, PRIMARY KEY (job, task)) WITHOUT ROWID;
CREATE TABLE checkpoint_blob (
    job INTEGER NOT NULL, task INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (job, task, hash)) WITHOUT ROWID;
CREATE INDEX checkpoint_blob_by_hash ON checkpoint_blob (hash);
CREATE TABLE availability (
    host INTEGER NOT NULL, start INTEGER NOT NULL, \"end\" INTEGER NOT NULL, cpu REAL NOT NULL, owner BOOLEAN, reason TEXT,
    PRIMARY KEY (host, start)) WITHOUT ROWID;
CREATE TABLE share (job INTEGER NOT NULL, \"user\" TEXT NOT NULL, PRIMARY KEY (job, \"user\")) WITHOUT ROWID;
CREATE INDEX share_by_user ON share (\"user\");
CREATE TABLE audit (
    number INTEGER PRIMARY KEY, at INTEGER NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
    subject TEXT NOT NULL, allowed BOOLEAN NOT NULL, why TEXT NOT NULL, count INTEGER NOT NULL);
CREATE TABLE request (
    job INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (job, first)) WITHOUT ROWID;
CREATE TABLE account (\"user\" TEXT PRIMARY KEY, sums BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE foretold (
    job INTEGER NOT NULL, hosts INTEGER NOT NULL, at INTEGER NOT NULL, wait INTEGER NOT NULL, low INTEGER NOT NULL,
    high INTEGER NOT NULL, came INTEGER, PRIMARY KEY (job, hosts)) WITHOUT ROWID;
CREATE INDEX foretold_by_at ON foretold (at);
CREATE TABLE kept (
    job INTEGER NOT NULL, task INTEGER NOT NULL, number INTEGER NOT NULL, \"user\" TEXT NOT NULL, at INTEGER NOT NULL,
    bytes INTEGER NOT NULL, PRIMARY KEY (job, task, number)) WITHOUT ROWID;
CREATE INDEX kept_by_age ON kept (at, job, task, number);
CREATE INDEX kept_by_user ON kept (\"user\", at, job, task, number);
CREATE TABLE kept_blob (
    job INTEGER NOT NULL, task INTEGER NOT NULL, number INTEGER NOT NULL, hash BLOB NOT NULL,
    PRIMARY KEY (job, task, number, hash)) WITHOUT ROWID;
CREATE INDEX kept_blob_by_hash ON kept_blob (hash);
CREATE TABLE event (last INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL);
";

/// The tables of version 2.
///
/// - `content` has the objects of a bucket, where content lies in one. `generation` makes each
///   upload's name its own, `counted_on` is the time at which somebody last sent the content or
///   counted on it, `condemned` the one at which the object ceased to count; it is deleted later.
const VERSION_2: &str = "
CREATE TABLE content (
    hash BLOB NOT NULL, generation INTEGER NOT NULL, size INTEGER NOT NULL, counted_on INTEGER NOT NULL,
    condemned INTEGER, PRIMARY KEY (hash, generation)) WITHOUT ROWID;
CREATE UNIQUE INDEX content_alive ON content (hash) WHERE condemned IS NULL;
CREATE INDEX content_by_condemned ON content (condemned) WHERE condemned IS NOT NULL;
";

/// The tables of version 3.
///
/// - `site_text` has the settings for workers: `scope` is a `common::site::SiteScope` as it prints,
///   `body` the text, `who` the admin who stored it. `site_answer` has the last answer of each host to those that
///   hold for it, whose number is `digest`; `refused` is the reason of a refusal, else NULL.
const VERSION_3: &str = "
CREATE TABLE site_text (scope TEXT PRIMARY KEY, body TEXT NOT NULL, who TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE site_answer (host INTEGER PRIMARY KEY, digest INTEGER NOT NULL, at INTEGER NOT NULL, refused TEXT);
";

/// The views of version 4, which nothing here reads: they are for people, and for what they show on a
/// wall. Their names and columns are a contract (docs/metrics.md); times are those of the engine, seconds
/// are numbers. A later version that changes a column below drops and makes its view anew.
///
/// - `people_jobs`: a job's own counts hold once it has ended, so those of one that has not are counted.
/// - `people_attempts` leaves out what attempts left, `people_hosts` what only programs read.
const VERSION_4: &str = "
CREATE VIEW people_jobs AS SELECT
    j.id AS job, j.name AS name, j.\"user\" AS submitted_by, j.state AS state, j.policy AS policy, j.priority AS priority,
    j.total AS tasks,
    CASE WHEN j.ended IS NOT NULL THEN j.finished ELSE (
        SELECT COUNT(DISTINCT a.task) FROM attempt a WHERE a.job = j.id AND a.state = 'finished'
        AND (a.verdict IS NULL OR a.verdict LIKE 'alone %' OR a.verdict = 'agreed ' || a.number)) END AS tasks_finished,
    CASE WHEN j.ended IS NOT NULL THEN j.failed ELSE (
        SELECT CAST(COALESCE(SUM(s.last - s.first + 1), 0) AS INTEGER) FROM settled s
        WHERE s.job = j.id AND s.state = 'failed') END AS tasks_failed,
    CASE WHEN j.ended IS NOT NULL THEN j.cancelled ELSE (
        SELECT CAST(COALESCE(SUM(s.last - s.first + 1), 0) AS INTEGER) FROM settled s
        WHERE s.job = j.id AND s.state = 'cancelled') END AS tasks_cancelled,
    (SELECT COUNT(*) FROM attempt a WHERE a.job = j.id AND a.ended IS NULL) AS attempts_running,
    datetime(j.submitted / 1000000, 'unixepoch') AS submitted, datetime(j.started / 1000000, 'unixepoch') AS started,
    datetime(j.ended / 1000000, 'unixepoch') AS ended,
    CAST(j.started - j.submitted AS REAL) / 1000000 AS waited_seconds,
    CAST(j.ended - j.started AS REAL) / 1000000 AS took_seconds, j.reason AS reason
FROM job j;
CREATE VIEW people_hosts AS SELECT
    h.name AS host, h.id AS number, h.owner AS owner, h.labels AS labels, h.attendance AS attendance, h.draining AS draining,
    h.finished AS attempts_finished, h.lost AS attempts_lost, datetime(h.heard / 1000000, 'unixepoch') AS last_heard
FROM host h;
CREATE VIEW people_attempts AS SELECT
    a.job AS job, j.name AS job_name, j.\"user\" AS submitted_by, a.task AS task, a.number AS attempt, h.name AS host,
    a.state AS state, a.duplicate AS is_copy, datetime(a.assigned / 1000000, 'unixepoch') AS assigned,
    datetime(a.started / 1000000, 'unixepoch') AS started, datetime(a.ended / 1000000, 'unixepoch') AS ended,
    CAST(a.ran AS REAL) / 1000000 AS ran_seconds, CAST(a.cpu AS REAL) / 1000000 AS cpu_seconds,
    CAST(a.suspended AS REAL) / 1000000 AS suspended_seconds, a.exit_code AS exit_code, a.start_why AS start_reason,
    a.end_why AS end_reason
FROM attempt a JOIN job j ON j.id = a.job LEFT JOIN host h ON h.id = a.host;
";

/// The tables of version 5.
///
/// - `rollout` has the new program that hosts of a platform get, as postcard of `store::StoredRollout`;
///   `rollout_host` what has become of it on a host, as postcard of `store::StoredProgress`.
const VERSION_5: &str = "
CREATE TABLE rollout (platform TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE rollout_host (
    platform TEXT NOT NULL, host INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (platform, host)) WITHOUT ROWID;
";

/// The tables of version 6.
///
/// - `forgotten` has the jobs that are gone, while there still are rows of them in other tables; `uncounted` is
///   the number of their requested tasks that are not in their user's `account` yet. The index has the order in which
///   rows of `blob_use` are removed.
const VERSION_6: &str = "
CREATE TABLE forgotten (
    job INTEGER PRIMARY KEY, \"user\" TEXT NOT NULL, submitted INTEGER NOT NULL, disclosed INTEGER,
    uncounted INTEGER NOT NULL);
DROP INDEX blob_use_by_job;
CREATE INDEX blob_use_by_job ON blob_use (job, hash);
";

/// The tables of version 7.
///
/// - `attempt.policed` is set where an attempt ran longer than its estimate and was killed to make room: the work that
///   it had done, as microseconds on a host of speed 1.
const VERSION_7: &str = "
ALTER TABLE attempt ADD COLUMN policed INTEGER;
";

/// The schema version of a store, from `user_version`.
pub(super) fn version(db: &Connection) -> StoreResult<usize> {
    let found: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(found.try_into().unwrap_or(usize::MAX))
}

/// Fails with [`StoreError::Newer`] if a newer program wrote the tables, which have the version `found`.
pub(super) fn check_known(found: usize) -> StoreResult<()> {
    let known = VERSION;
    match found > known {
        true => Err(StoreError::Newer { found, known }),
        false => Ok(()),
    }
}

/// Migrates the store to [`VERSION`], in one transaction.
pub(super) fn migrate(db: &mut Connection) -> StoreResult<()> {
    apply(db, MIGRATIONS)
}

/// Applies those `migrations` that the store has not had yet, all or none.
fn apply(db: &mut Connection, migrations: &[&str]) -> StoreResult<()> {
    let found = version(db)?;
    let known = migrations.len();
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    if found == known {
        return Ok(());
    }

    let change = db.transaction()?;
    for sql in &migrations[found..] {
        change.execute_batch(sql)?;
    }

    change.pragma_update(None, "user_version", known as i64)?;
    change.commit()?;

    if found > 0 {
        tracing::info!(from = found, to = known, "the store was upgraded");
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second version, for these tests only.
    const SECOND: &str = "ALTER TABLE host ADD COLUMN room INTEGER; UPDATE host SET room = 4;";

    fn store_of_version_1() -> Connection {
        let mut db = Connection::open_in_memory().expect("a database in memory");
        apply(&mut db, &[VERSION_1]).expect("version 1");
        db.execute("INSERT INTO host (name) VALUES ('desk-1')", [])
            .expect("a host");
        db
    }

    fn room(db: &Connection) -> rusqlite::Result<i64> {
        db.query_row("SELECT room FROM host WHERE name = 'desk-1'", [], |row| {
            row.get(0)
        })
    }

    #[test]
    fn a_store_of_an_earlier_version_is_upgraded_once_with_all_that_is_in_it() {
        let mut db = store_of_version_1();
        apply(&mut db, &[VERSION_1, SECOND]).expect("an upgrade");
        db.execute("UPDATE host SET room = 5", [])
            .expect("a change");
        apply(&mut db, &[VERSION_1, SECOND]).expect("nothing to do");
        assert_eq!(
            (
                version(&db).expect("a version"),
                room(&db).expect("the new column")
            ),
            (2, 5)
        );
    }

    #[test]
    fn a_store_of_each_earlier_version_gets_the_tables_of_this_one() {
        for known in 1..=VERSION {
            let mut db = Connection::open_in_memory().expect("a database in memory");
            apply(&mut db, &MIGRATIONS[..known]).expect("an earlier version");
            migrate(&mut db).expect("an upgrade");
            for tables in [
                "site_text, site_answer, content, host",
                "people_jobs, people_hosts, people_attempts",
                "rollout, rollout_host, forgotten",
            ] {
                let sql = format!("SELECT COUNT(*) FROM {tables}");
                let count = db.query_row(&sql, [], |row| row.get::<_, i64>(0));
                assert_eq!(count, Ok(0), "{tables} from version {known}");
            }
        }
    }

    #[test]
    fn a_store_in_a_file_has_the_views_with_times_in_utc() {
        let mut db = Connection::open_in_memory().expect("a database in memory");
        migrate(&mut db).expect("the tables");
        let sql = "INSERT INTO job (id, request, body_hash, name, \"user\", policy, priority, spec, total, state, submitted, started, needs)
            VALUES (7, x'00', x'00', 'bag', 'ann', 'ours', 0, x'00', 5, 'running', 1000000, 3500000, '');
            INSERT INTO host (id, name) VALUES (1, 'pc');
            INSERT INTO attempt (job, task, number, incarnation, host, state, duplicate, assigned, ended, start_why, ran)
            VALUES (7, 1, 1, 1, 1, 'finished', FALSE, 1, 2, '', 1500000), (7, 2, 1, 1, 1, 'running', FALSE, 1, NULL, '', 0);
            INSERT INTO settled VALUES (7, 3, 4, 'cancelled', '')";
        db.execute_batch(sql).expect("rows");

        let sql = "SELECT j.tasks_finished || ' ' || j.tasks_cancelled || ' ' || j.attempts_running || ' ' || j.submitted || ' '
            || j.waited_seconds || ' ' || a.host || ' ' || a.ran_seconds
            FROM people_jobs j JOIN people_attempts a ON a.job = j.job AND a.state = 'finished'";
        let told = db.query_row(sql, [], |row| row.get::<_, String>(0));
        assert_eq!(told.expect("a row"), "1 2 1 1970-01-01 00:00:01 2.5 pc 1.5");
    }

    #[test]
    fn an_upgrade_that_fails_changes_nothing() {
        let mut db = store_of_version_1();
        let broken = apply(&mut db, &[VERSION_1, SECOND, "UPDATE nothing SET x = 1"]);
        assert!(matches!(broken, Err(StoreError::Sqlite(_))), "{broken:?}");
        assert_eq!(version(&db).expect("a version"), 1);
        assert!(
            room(&db).is_err(),
            "the second version's column is not there"
        );
    }

    #[test]
    fn a_store_of_a_later_version_is_refused() {
        let mut db = store_of_version_1();
        apply(&mut db, &[VERSION_1, SECOND]).expect("an upgrade");
        let refused = apply(&mut db, &[VERSION_1]);
        assert!(
            matches!(refused, Err(StoreError::Newer { found: 2, known: 1 })),
            "{refused:?}"
        );
    }
}
