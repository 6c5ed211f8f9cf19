//! Stores of every layout that ever was are opened, and nothing in them is lost. The layouts are written down here as they
//! were: their tables in SQL, and what was submitted as the tuples that it was made of.

use common::content::BlobHash;
use common::job::{Capture, CommandSpec, Input, Needs, Rules, Work};
use common::template::Template;
use common::{BlobRef, HostId, IdSet, Incarnation, JobId, JobSpec, RequestId, Span, TaskSet, Time};
use rusqlite::{Connection, params};
use serde::Serialize;

use super::{NewAttempt, Reader, StoreError, Writer, look, schema};

/// Tables that every layout of version 1 had alike.
const COMMON: &str = "
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
CREATE TABLE blob_use (hash BLOB NOT NULL, job INTEGER NOT NULL, PRIMARY KEY (hash, job)) WITHOUT ROWID;
CREATE INDEX blob_use_by_job ON blob_use (job);
";
/// The attempts as they were at first; what was added later stands in the middle.
const ATTEMPT: [&str; 2] = [
    "CREATE TABLE attempt (
    job INTEGER NOT NULL, task INTEGER NOT NULL, number INTEGER NOT NULL, incarnation INTEGER NOT NULL,
    host INTEGER NOT NULL, state TEXT NOT NULL, duplicate INTEGER NOT NULL, assigned INTEGER NOT NULL,
    started INTEGER, ended INTEGER, ran INTEGER NOT NULL DEFAULT 0, cpu INTEGER NOT NULL DEFAULT 0,
    suspended INTEGER NOT NULL DEFAULT 0, exit_code INTEGER, start_why TEXT NOT NULL, end_why TEXT, result BLOB, ",
    "PRIMARY KEY (job, task, number)) WITHOUT ROWID;",
];
const CHARGED: &str = "charged INTEGER NOT NULL DEFAULT 1, ";
const STATES: &str = "started_from BLOB, saved BLOB, checkpoint_problem TEXT, ";
const CHECKPOINTS: &str = "
CREATE TABLE checkpoint (
    job INTEGER NOT NULL, task INTEGER NOT NULL, saved BLOB NOT NULL, PRIMARY KEY (job, task)) WITHOUT ROWID;
CREATE TABLE checkpoint_blob (
    job INTEGER NOT NULL, task INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (job, task, hash)) WITHOUT ROWID;
CREATE INDEX checkpoint_blob_by_hash ON checkpoint_blob (hash);
";
const AVAILABILITY: &str = "
CREATE TABLE availability (
    host INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, cpu REAL NOT NULL, owner INTEGER, reason TEXT,
    PRIMARY KEY (host, start)) WITHOUT ROWID;
";

/// What every store holds: a job of four tasks, of which one is done, one failed and one runs.
const ROWS: &str = "
INSERT INTO meta VALUES ('incarnation', x'07000000');
INSERT INTO host (name, facts, finished) VALUES ('desk-1', x'00FF', 3);
INSERT INTO peer VALUES (x'00000000000000000000000000000009', 'worker', 'desk-1', x'0102', 1, 5, 0);
INSERT INTO token (secret_hash, role, name, uses_left, expires) VALUES (zeroblob(32), 'worker', 'floor 3', 4, 99);
INSERT INTO attempt (job, task, number, incarnation, host, state, duplicate, assigned, started, ended, start_why, end_why)
    VALUES (1, 1, 1, 7, 1, 'finished', 0, 10, 11, 12, 'first attempt', 'succeeded'),
           (1, 2, 1, 7, 1, 'failed', 0, 10, 11, 12, 'first attempt', 'ended with exit code 1'),
           (1, 3, 1, 7, 1, 'running', 0, 10, 11, NULL, 'first attempt', NULL);
INSERT INTO settled VALUES (1, 2, 2, 'failed', 'attempt 1 ended with exit code 1');
INSERT INTO blob_use VALUES (zeroblob(32), 1);
";

/// A layout that a store had once.
struct Layout {
    name: &'static str,
    version: i64,
    tables: String,
    spec: Vec<u8>,
    /// What that was, as it is today.
    means: JobSpec,
}

fn bytes(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap()
}

fn template(text: &str) -> Template {
    text.parse().unwrap()
}

fn command() -> CommandSpec {
    let blob = BlobRef { hash: BlobHash([0; 32]), size: 5 };
    let input = Input { name: template("in"), executable: true, source: common::job::Source::Shared(blob) };
    let base = CommandSpec::new(vec![template("./work"), template("%{TASK_ID}")]);
    CommandSpec {
        env: vec![("SEED".into(), template("%{JOB_ID}"))],
        inputs: vec![input],
        outputs: vec![template("out-*")],
        stdin: Some(template("in")),
        stdout: Capture::File(template("log")),
        stderr: Capture::Discard,
        ..base
    }
}

/// The rules that all layouts had.
fn rules() -> Rules {
    let (timeout, estimate) = (Some(Span::from_secs(60)), Some(Span::from_secs(5)));
    let policy = "FCFS".to_owned();
    Rules { retries: 2, max_losses: 3, timeout, max_fails: Some(9), priority: -4, policy, estimate, ..Rules::default() }
}

type Rules1 = (u32, u32, Option<Span>, Option<u64>, i32, String, Option<Span>);

fn rules_1() -> Rules1 {
    let Rules { retries, max_losses, timeout, max_fails, priority, policy, estimate, .. } = rules();
    (retries, max_losses, timeout, max_fails, priority, policy, estimate)
}

fn layouts() -> Vec<Layout> {
    let tasks = TaskSet { ids: IdSet::from_range(1, 4), items: ["a", "b", "c", "d"].map(str::to_owned).to_vec() };
    let every = Some(Span::from_secs(30));
    let CommandSpec { argv, env, inputs, outputs, stdin, stdout, stderr, .. } = command();
    let command_1 = (argv, env, inputs, outputs, stdin, stdout, stderr);
    let spec =
        |command, rules| JobSpec { name: "bag".into(), tasks: tasks.clone(), work: Work::Command(command), rules };
    let needs = Needs { confinement: None, network: true };
    let saving = || CommandSpec { checkpoint: every, ..command() };
    let attempt = |more: &str| format!("{COMMON}{}{more}{}", ATTEMPT[0], ATTEMPT[1]);
    let full = attempt(&format!("{CHARGED}{STATES}")) + CHECKPOINTS;
    vec![
        Layout {
            name: "version 1 of the first day",
            version: 1,
            tables: attempt(""),
            spec: bytes(&("bag", &tasks, 1u32, &command_1, rules_1())),
            means: spec(command(), rules()),
        },
        Layout {
            name: "version 1 that forgives before a retry, of jobs that say whether they save",
            version: 1,
            tables: attempt(CHARGED),
            spec: bytes(&("bag", &tasks, 1u32, &command_1, (rules_1(), false))),
            means: spec(command(), rules()),
        },
        Layout {
            name: "version 1 with saved states",
            version: 1,
            tables: full.clone(),
            spec: bytes(&("bag", &tasks, 1u32, (&command_1, every), (rules_1(), true))),
            means: spec(saving(), Rules { checkpoint: true, ..rules() }),
        },
        Layout {
            name: "version 2",
            version: 2,
            tables: full.clone() + AVAILABILITY,
            spec: bytes(&("bag", &tasks, 1u32, (&command_1, every), (rules_1(), true))),
            means: spec(saving(), Rules { checkpoint: true, ..rules() }),
        },
        Layout {
            name: "version 2 of jobs with needs",
            version: 2,
            tables: full + AVAILABILITY,
            spec: bytes(&("bag", &tasks, 1u32, (&command_1, every), (rules_1(), true, needs))),
            means: spec(saving(), Rules { checkpoint: true, needs, ..rules() }),
        },
    ]
}

const REQUEST: RequestId = RequestId(uuid::Uuid::from_u128(77));

fn made(layout: &Layout) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let db = Connection::open(dir.path().join("store.sqlite")).unwrap();
    db.execute_batch(&layout.tables).unwrap();
    db.execute(
        "INSERT INTO job (request, body_hash, name, user, policy, priority, spec, total, state, submitted, started, failed)
         VALUES (?, zeroblob(32), 'bag', 'ann', 'FCFS', -4, ?, 4, 'running', 9, 10, 1)",
        params![REQUEST.0.as_bytes(), layout.spec],
    )
    .unwrap();
    db.execute_batch(ROWS).unwrap();
    db.pragma_update(None, "user_version", layout.version).unwrap();
    dir
}

/// Every table with its columns.
fn shape(db: &Connection) -> Vec<(String, Vec<String>)> {
    let mut query =
        db.prepare("SELECT name FROM sqlite_master WHERE type IN ('table', 'index') ORDER BY name").unwrap();
    let names: Vec<String> = query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let columns = |name: &String| {
        let mut query = db.prepare("SELECT name FROM pragma_table_info(?) ORDER BY name").unwrap();
        let columns = query.query_map([name], |row| row.get(0)).unwrap();
        columns.map(Result::unwrap).collect()
    };
    names.iter().filter(|name| !name.starts_with("sqlite_")).map(|name| (name.clone(), columns(name))).collect()
}

#[test]
fn a_store_of_every_earlier_layout_is_brought_to_the_present_one_with_all_that_is_in_it() {
    let fresh = tempfile::tempdir().unwrap();
    let fresh_shape = shape(Writer::open(fresh.path()).unwrap().db());
    for layout in layouts() {
        let (name, dir) = (layout.name, made(&layout));
        let mut store = Writer::open(dir.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(shape(store.db()), fresh_shape, "{name}");
        let jobs = store.restore_jobs().unwrap();
        assert_eq!(jobs.len(), 1, "{name}");
        let restored = &jobs[0];
        assert_eq!(restored.spec, layout.means, "{name}");
        let progress = &restored.progress;
        let sets = (progress.finished.to_string(), progress.failed.to_string());
        assert_eq!(sets, ("1".to_owned(), "2".to_owned()), "{name}");
        let live: Vec<_> =
            progress.tried.iter().filter(|tried| !tried.live.is_empty()).map(|tried| tried.task).collect();
        assert_eq!(live, [3], "{name}");
        let repeated = *blake3::hash(&bytes(&layout.means)).as_bytes();
        let requested = store.job_of_request(REQUEST).unwrap().map(|known| (known.job, known.body_hash));
        assert_eq!(requested, Some((JobId(1), repeated)), "{name}: a repeated request");
        let hosts = store.restore_hosts().unwrap();
        assert_eq!((hosts[0].name.as_str(), hosts[0].finished), ("desk-1", 3), "{name}");
        assert_eq!(store.tokens().unwrap()[0].uses_left, 4, "{name}");
        assert_eq!(store.begin(Time(1)).unwrap(), (Incarnation(8), None), "{name}");
        goes_on(&mut store, name);
        drop(store);
        let looked = look(&dir.path().join("store.sqlite")).unwrap();
        assert_eq!((looked.faults, looked.version), (Vec::new(), schema::VERSION), "{name}");
    }
}

/// An upgraded store does what a store must.
fn goes_on(store: &mut Writer, name: &str) {
    let attempt = super::tests::attempt(JobId(1), 4, 1);
    store.add_attempt(&NewAttempt { attempt, host: HostId(1), duplicate: false, now: Time(20), why: "first" }).unwrap();
    store.reopen(JobId(1), &IdSet::from_range(2, 2)).unwrap();
    assert!(store.commit().unwrap(), "{name}");
    let progress = store.restore_job(JobId(1)).unwrap().unwrap().progress;
    assert_eq!((progress.failed.len(), progress.tried.len()), (0, 3), "{name}");
}

#[test]
fn a_submission_that_cannot_be_read_stops_an_upgrade_before_it_changes_anything() {
    let mut layout = layouts().swap_remove(3);
    layout.spec.truncate(20);
    let dir = made(&layout);
    let Err(StoreError::Content(why)) = Writer::open(dir.path()) else { panic!("it was opened") };
    assert!(why.contains("job 1"), "{why}");
    let db = Connection::open(dir.path().join("store.sqlite")).unwrap();
    assert_eq!(schema::version(&db).unwrap(), 2);
    assert!(db.prepare("SELECT verdict FROM attempt").is_err(), "no column of the new version is there");
}

#[test]
fn a_repeated_upgrade_finds_nothing_to_do_and_readers_see_the_result() {
    for layout in layouts() {
        let dir = made(&layout);
        drop(Writer::open(dir.path()).unwrap());
        drop(Writer::open(dir.path()).unwrap());
        let spec = Reader::new(dir.path()).spec(JobId(1)).unwrap();
        assert_eq!(spec, Some(layout.means), "{}", layout.name);
    }
}

/// What versions 3 to 5 added to the tables of version 2.
const TO_VERSION_5: &str = "
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
ALTER TABLE host ADD COLUMN owner TEXT;
ALTER TABLE host ADD COLUMN valid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN verdict TEXT;
ALTER TABLE job ADD COLUMN promise BLOB;
ALTER TABLE job ADD COLUMN disclosed INTEGER;
CREATE TABLE request (
    job INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (job, first)) WITHOUT ROWID;
CREATE TABLE account (user TEXT PRIMARY KEY, sums BLOB NOT NULL) WITHOUT ROWID;
UPDATE job SET disclosed = 9;
";

#[test]
fn what_disclosed_tasks_left_before_there_were_bounds_stays_with_their_job() {
    let dir = made(&layouts().swap_remove(3));
    let db = Connection::open(dir.path().join("store.sqlite")).unwrap();
    db.execute_batch(TO_VERSION_5).unwrap();
    db.pragma_update(None, "user_version", 5).unwrap();
    drop(db);
    let mut store = Writer::open(dir.path()).unwrap();
    let fresh = tempfile::tempdir().unwrap();
    assert_eq!(shape(store.db()), shape(Writer::open(fresh.path()).unwrap().db()));
    assert!(store.kept_by_user().unwrap().is_empty() && store.needs_blob(&BlobHash([0; 32])).unwrap());
    assert_eq!(store.removed(JobId(1), &IdSet::from_range(1, 4)).unwrap(), []);
    assert_eq!(store.remove_oldest(None, Time(30)).unwrap(), None);
    let task = common::TaskId::new(JobId(1), 1);
    assert!(store.is_unrequested(task).unwrap() && store.disclosure(JobId(1)).unwrap().is_some());
    assert!(look(&dir.path().join("store.sqlite")).unwrap().named.contains(&BlobHash([0; 32])));
}
