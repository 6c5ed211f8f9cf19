//! Checks a store without changing it: that the file is sound, that everything it names exists in
//! it, and that all its values can be read. [`crate::operations`] checks the content of files, and
//! decides what follows from a fault.

use std::collections::BTreeSet;
use std::path::Path;

use common::content::BlobHash;
use common::job::JobSpec;
use common::view::{AttemptState, JobState, TaskState};
use common::{IdSet, Span};
use rusqlite::OpenFlags;
use uuid::Uuid;

use super::db::Db;
use super::lite::{self, connect};
use super::reader::Reader;
use super::value;
use super::{AttemptResult, StoreError, StoreResult, from_postcard, meaning, schema, word};

/// The greatest number of faults of one kind that are listed one by one.
const SHOWN: usize = 20;

/// SQL queries that must return no row, each with the fault that a row stands for. A row has one
/// number, that of the job or host.
const REFERENCES: [(&str, &str); 14] = [
    ("SELECT DISTINCT job FROM attempt WHERE job NOT IN (SELECT id FROM job UNION SELECT job FROM forgotten)", "attempts of a job that is not there"),
    (
        "SELECT DISTINCT job FROM settled WHERE job NOT IN (SELECT id FROM job UNION SELECT job FROM forgotten)",
        "settled tasks of a job that is not there",
    ),
    ("SELECT DISTINCT job FROM blob_use WHERE job NOT IN (SELECT id FROM job UNION SELECT job FROM forgotten)", "content of a job that is not there"),
    (
        "SELECT DISTINCT job FROM checkpoint WHERE job NOT IN (SELECT id FROM job UNION SELECT job FROM forgotten)
         UNION SELECT DISTINCT job FROM checkpoint_blob WHERE job NOT IN (SELECT id FROM job UNION SELECT job FROM forgotten)",
        "saved states of a job that is not there",
    ),
    (
        "SELECT DISTINCT c.job FROM checkpoint_blob c
         WHERE NOT EXISTS (SELECT 1 FROM checkpoint s WHERE s.job = c.job AND s.task = c.task)",
        "content of saved states that are not there, of the job",
    ),
    (
        "SELECT DISTINCT job FROM kept WHERE job NOT IN (SELECT id FROM job UNION SELECT job FROM forgotten)
         UNION SELECT DISTINCT b.job FROM kept_blob b
         WHERE NOT EXISTS (SELECT 1 FROM kept k WHERE k.job = b.job AND k.task = b.task AND k.number = b.number)",
        "unrequested output that is not there, of the job",
    ),
    (
        "SELECT DISTINCT k.job FROM kept k JOIN request r ON r.job = k.job AND k.task BETWEEN r.first AND r.last",
        "requested output that could be removed, of the job",
    ),
    (
        "SELECT DISTINCT job FROM job_label WHERE job NOT IN (SELECT id FROM job UNION SELECT job FROM forgotten)
         UNION SELECT DISTINCT job FROM job_after WHERE job NOT IN (SELECT id FROM job UNION SELECT job FROM forgotten)
         UNION SELECT DISTINCT job FROM addition WHERE job NOT IN (SELECT id FROM job UNION SELECT job FROM forgotten)",
        "labels, order or added tasks of a job that is not there",
    ),
    ("SELECT job FROM forgotten WHERE job IN (SELECT id FROM job)", "forgotten, though it is there, is the job"),
    ("SELECT id FROM job WHERE open AND ended IS NOT NULL", "open for more tasks, though it has ended, is the job"),
    (
        "SELECT DISTINCT host FROM attempt WHERE host NOT IN (SELECT id FROM host)",
        "attempts on a host that is not there",
    ),
    (
        "SELECT DISTINCT host FROM peer WHERE host IS NOT NULL AND host NOT IN (SELECT id FROM host)",
        "the identity of a host that is not there",
    ),
    (
        "SELECT DISTINCT host FROM availability WHERE host NOT IN (SELECT id FROM host)",
        "availability of a host that is not there",
    ),
    (
        "SELECT id FROM job WHERE state NOT IN ('waiting', 'running') AND ended IS NULL
         OR state IN ('waiting', 'running') AND ended IS NOT NULL",
        "an end that does not fit its state, of the job",
    ),
];

/// The findings of [`look`].
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// The faults, each as a sentence for users.
    pub(crate) faults: Vec<String>,
    /// The store's schema version.
    pub(crate) version: usize,
    /// The number of jobs in the store. `attempts` is the number of attempts.
    pub(crate) jobs: u64,
    pub(crate) attempts: u64,
    /// The hashes of the blobs that the store names.
    pub(crate) named: BTreeSet<BlobHash>,
    /// The objects that have the content, if it lies in a bucket.
    pub(crate) objects: Vec<(BlobHash, super::LiveObject)>,
    /// The time at which the store was copied, if it is a copy on which no master was started yet.
    pub(crate) copied: Option<common::Time>,
    /// Remarks about things that are no faults, such as what was not looked at.
    pub(crate) notes: Vec<String>,
}

/// Opens a store's file for reading, and returns its schema version. Fails with
/// [`StoreError::Newer`] if a newer program wrote it.
pub(crate) fn open(path: &Path) -> StoreResult<(Db, usize)> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|e| e.on_disk_of(path))?;
    let version = schema::version(&db).map_err(|e| e.damages(path))?;
    schema::check_known(version)?;
    Ok((Db::Lite(db), version))
}

/// The facts that [`crate::whole`] compares with the mark before a master starts.
#[derive(Debug)]
pub(crate) struct StoreFacts {
    /// The grid to which the store belongs; `None` until its first start is through.
    pub(crate) grid: Option<Uuid>,
    /// The number of transactions that were committed.
    pub(crate) commits: u64,
    /// Whether it is a copy on which no master was started yet.
    pub(crate) copied: bool,
    /// Whether anybody has joined the grid.
    pub(crate) peers: bool,
    /// The time at which its master was last up, as the bytes of the `up` entry in `meta`.
    pub(crate) up: Option<Vec<u8>>,
    /// The seed of its connections, the `quic seed` entry in `meta`.
    pub(crate) seed: Option<[u8; 32]>,
    /// The directory in which its content lies, the `content` entry in `meta`.
    pub(crate) content: Option<Uuid>,
    /// Whether any job names content.
    pub(crate) names_content: bool,
    /// Whether some master has it at this moment, where masters take it from each other.
    pub(crate) held: bool,
}

impl StoreFacts {
    /// Reads these facts from a store in a database; `None` if there is none in it.
    pub(crate) fn in_database(reader: &Reader) -> StoreResult<Option<Self>> {
        reader.with(|db| match db.has_table("meta")? {
            true => Self::of(db).map(Some),
            false => Ok(None),
        })
    }

    /// Reads these facts from a store.
    pub(crate) fn of(db: &Db) -> StoreResult<Self> {
        Ok(Self {
            grid: db.meta_of("grid")?.map(Uuid::from_bytes),
            commits: db.commits()?,
            copied: super::copies::copied(db)?.is_some(),
            peers: db.exists("SELECT 1 FROM peer LIMIT 1", &[])?,
            up: db.meta("up")?,
            seed: db.meta_of("quic seed")?,
            content: db
                .meta_of(crate::content_place::NOTE)?
                .map(Uuid::from_bytes),
            names_content: db.exists("SELECT 1 FROM blob_use LIMIT 1", &[])?,
            held: db.is_held()?,
        })
    }
}

/// Checks a store's file and the values in it. If an older program wrote it, only the file itself
/// and the names of content are read; the rest is checked after its upgrade.
pub(crate) fn look(path: &Path) -> StoreResult<Looked> {
    through(path).map_err(|error| error.on_disk_of(path))
}

fn through(path: &Path) -> StoreResult<Looked> {
    let (db, version) = open(path)?;
    // One transaction, so that every query sees the same state, however long the check takes.
    db.begin_to_read()?;
    let mut looked = Looked {
        version,
        ..Looked::default()
    };
    integrity(&db, path, &mut looked.faults)?;
    if looked.faults.is_empty() {
        values(&db, &mut looked)?;
    }
    Ok(looked)
}

/// Checks a store in a database, as of one moment: its layout, and the values in it. Its pages are its
/// server's.
pub(crate) fn look_in(reader: &Reader) -> StoreResult<Looked> {
    reader.with_snapshot(|db| {
        let mut looked = Looked {
            version: db.version()?,
            ..Looked::default()
        };
        schema::check_known(looked.version)?;
        if looked.version == 0 {
            let missing = "there are no tables of it in the database";
            looked.faults.push(missing.to_owned());
            return Ok(looked);
        }

        layout(db, &mut looked)?;
        if looked.faults.is_empty() {
            values(db, &mut looked)?;
        }
        Ok(looked)
    })
}

/// Compares the parts of a layout of this version with those that a database has.
fn layout(db: &Db, looked: &mut Looked) -> StoreResult<()> {
    let Db::Pg(pg) = db else {
        return Ok(());
    };
    let (found, sums) = pg.layout()?;
    if looked.version == schema::VERSION {
        let found: BTreeSet<String> = found.into_iter().collect();
        let wanted = super::transfer::parts()?.into_iter();
        let missing = wanted.filter(|part| !found.contains(part));
        looked
            .faults
            .extend(missing.map(|part| format!("{part} is missing")));
    }

    let sums = match sums {
        true => "has checksums for them",
        false => "has no checksums for them (initdb --data-checksums, pg_checksums)",
    };
    looked.notes.push(format!(
        "the database's own pages and indexes were not read: its server {sums}, and pg_amcheck looks at them"
    ));
    Ok(())
}

/// Checks the values of a store, whose version is known.
fn values(db: &Db, looked: &mut Looked) -> StoreResult<()> {
    looked.named = named(db)?;
    if db.has_table("content")? {
        looked.objects = super::live_objects(db)?;
    }
    looked.copied = super::copies::copied(db)?;
    if looked.version == schema::VERSION {
        references(db, &mut looked.faults)?;
        meaning::look(db, &mut looked.faults)?;
        jobs(db, looked)?;
        attempts(db, looked)?;
    }
    Ok(())
}

/// The same as `look`, on the engine on which the tests run.
#[cfg(test)]
pub(super) fn of_tests(dir: &Path) -> Looked {
    let Some(place) = super::pg::of_tests(dir) else {
        return look(&dir.join(lite::FILE)).unwrap();
    };
    let mut looked = Looked {
        version: schema::VERSION,
        ..Looked::default()
    };
    let look = |db: &Db| values(db, &mut looked);
    Reader::of(place).with(look).unwrap();
    looked
}

/// Checks the file itself, page by page and index by index, with SQLite's `integrity_check`.
fn integrity(db: &Db, path: &Path, faults: &mut Vec<String>) -> StoreResult<()> {
    let Db::Lite(db) = db else {
        return Ok(());
    };
    match lite::faults(db, SHOWN).map_err(|error| error.on_disk_of(path)) {
        Ok(told) => faults.extend(told),
        Err(full @ StoreError::Full { .. }) => return Err(full),
        Err(error) => faults.push(error.to_string()),
    }
    Ok(())
}

/// The hashes of all blobs that some job needs.
pub(crate) fn named(db: &Db) -> StoreResult<BTreeSet<BlobHash>> {
    let mut named = BTreeSet::new();
    for table in ["blob_use", "checkpoint_blob", "kept_blob"] {
        // A store of an older version lacks some of them.
        if db.has_table(table)? {
            let sql = format!("SELECT DISTINCT hash FROM {table}");
            db.each(&sql, &[], |row| {
                named.insert(BlobHash(row.get(0)?));
                Ok(())
            })?;
        }
    }
    Ok(named)
}

/// The jobs that need this content.
pub(super) fn jobs_with(db: &Db, hash: &BlobHash) -> StoreResult<IdSet> {
    let sql = "SELECT job FROM blob_use WHERE hash = $1 UNION SELECT job FROM checkpoint_blob WHERE hash = $1
        UNION SELECT job FROM kept_blob WHERE hash = $1";
    super::reader::ids(db, sql, value::values![hash.0])
}

fn references(db: &Db, faults: &mut Vec<String>) -> StoreResult<()> {
    for (question, meaning) in REFERENCES {
        let first = format!("{question} LIMIT {SHOWN}");
        db.each(&first, &[], |row| {
            faults.push(format!("{meaning} {}", row.get::<i64>(0)?));
            Ok(())
        })?;
    }
    Ok(())
}

fn jobs(db: &Db, looked: &mut Looked) -> StoreResult<()> {
    let sql = "SELECT id, state, spec, total, finished + failed + cancelled, estimates FROM job ORDER BY id";
    db.each(sql, &[], |row| {
        let (id, state, bytes): (u32, String, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (total, settled): (i64, i64) = (row.get(3)?, row.get(4)?);
        looked.jobs += 1;

        let mut fault = |what: String| looked.faults.push(format!("job {id}: {what}"));
        let state = word::<JobState>(&state)
            .map_err(|e| fault(e.to_string()))
            .ok();
        match from_postcard::<JobSpec>(&bytes) {
            Err(error) => fault(format!("what was submitted cannot be read: {error}")),
            Ok(mut spec) => match super::order::grown(db, common::JobId(id), &mut spec) {
                Err(error) => fault(format!("what was added to it cannot be read: {error}")),
                Ok(_) if spec.tasks.ids.len() as i64 != total => {
                    fault("it has another number of tasks".to_owned());
                }
                Ok(_) => {}
            },
        }

        let said = row
            .get::<Option<Vec<u8>>>(5)?
            .map(|bytes| from_postcard::<Vec<Span>>(&bytes));
        match said {
            Some(Err(error)) => fault(format!(
                "the estimates of its tasks cannot be read: {error}"
            )),
            Some(Ok(said)) if said.len() as i64 != total => {
                fault("it has another number of estimates".to_owned());
            }
            _ => {}
        }

        if state.is_some_and(|s| s.settled() && s != JobState::Refused) && settled != total {
            fault(format!(
                "it is over, but only {settled} of its {total} tasks are"
            ));
        }
        Ok(())
    })
}

fn attempts(db: &Db, looked: &mut Looked) -> StoreResult<()> {
    let sql = "SELECT job, task, number, state, ended IS NULL, result FROM attempt";
    db.each(sql, &[], |row| {
        let (job, task, number): (u32, u32, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (state, open, result): (String, bool, Option<Vec<u8>>) =
            (row.get(3)?, row.get(4)?, row.get(5)?);
        looked.attempts += 1;
        if looked.faults.len() > 10 * SHOWN {
            return Ok(());
        }

        let mut fault = |what: String| {
            looked
                .faults
                .push(format!("attempt {number} of task {job}.{task}: {what}"));
        };
        match word::<AttemptState>(&state) {
            Err(error) => fault(error.to_string()),
            Ok(state) if state.live() != open => {
                fault(format!("it is {state}, which does not fit its end"));
            }
            Ok(_) => {}
        }

        if let Some(Err(error)) = result.map(|bytes| from_postcard::<AttemptResult>(&bytes)) {
            fault(format!("what it left cannot be read: {error}"));
        }
        Ok(())
    })?;

    db.each("SELECT job, state FROM settled", &[], |row| {
        let (job, state): (u32, String) = (row.get(0)?, row.get(1)?);
        if !matches!(
            word::<TaskState>(&state),
            Ok(TaskState::Failed | TaskState::Cancelled)
        ) {
            looked
                .faults
                .push(format!("job {job}: tasks are settled as `{state}`"));
        }
        Ok(())
    })
}
