//! Checks whether a master's files are sound: the store, the content that it names, and the
//! permissions of the keys. It changes nothing, and may run beside the master. It repairs nothing:
//! each fault says what to do.

use std::fs::File;
use std::path::{Path, PathBuf};

use common::Time;
use common::content::BlobHash;
use link::{LinkError, files};

use super::backup::hash_of;
use super::part::BreakOff;
use super::places::MasterPlaces;
use super::{HOME, OperationError, STORE, SweepHold, bucket};
use crate::clock::Clock;
use crate::content_place::{BucketPlace, ContentSetting};
use crate::store::{self, DatabaseSight, Looked};
use crate::{Accept, Config, MasterError, PgError, StoreError, authority, room, whole};

/// The most damaged or missing blobs that are named one by one.
const SHOWN: usize = 100;

/// A fault that was found, and the way to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The fault, shown to the admin.
    pub what: String,
    /// The remedy, shown to the admin.
    pub hint: String,
}

/// The result of a check: faults, and the extent of what was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// The faults; empty if all is well.
    pub faults: Vec<Fault>,
    /// Remarks about things that are no faults.
    pub notes: Vec<String>,
    /// The moment of the copy, if this is a backup on which no master was started yet.
    pub copied: Option<Time>,
    /// Jobs in the store.
    pub jobs: u64,
    /// Attempts in the store.
    pub attempts: u64,
    /// Files of content that the store names.
    pub content_files: u64,
    /// The bytes of these files.
    pub content_bytes: u64,
}

/// Looks at the surroundings of the master in the state directory `dir`: whether its disks have more
/// room than the configuration keeps for results, and whether the machine's clock is behind what
/// its store has seen. Changes nothing, and reads neither jobs nor content.
pub fn surroundings(dir: &Path, config: &Config) -> Vec<Fault> {
    let home = dir.join(HOME);
    let short = |dir: &PathBuf| room::look_at_reserve(dir, config.reserve_bytes);
    let room = written(home.clone(), config);
    let room = room.iter().filter_map(short).map(|what| Fault {
        what,
        hint: "make room on that disk, or forget jobs that are done with".to_owned(),
    });

    let clock = whole::look_at_clock(&home, Clock::start(), Accept::default());
    let clock = clock.err().map(|error| Fault {
        what: error.to_string(),
        hint: "set this machine's clock (on most systems: timedatectl set-ntp true)".to_owned(),
    });

    room.chain(clock).collect()
}

/// The directories on disks of their own to which a master in `home` writes.
fn written(home: PathBuf, config: &Config) -> Vec<PathBuf> {
    match config.content_in(&home) {
        Ok(ContentSetting::Directory(dir)) if room::is_elsewhere(&home, &dir) => vec![home, dir],
        _ => vec![home],
    }
}

/// Looks at the database that has, or is to have, a store: whether it can, what is promised where its
/// server is lost, and what needs mending there. Changes nothing. The results have the names of the checks.
///
/// `address` is that of `master start --store`.
pub fn database(address: &str) -> Vec<(&'static str, DatabaseSight)> {
    store::look_at_database(address)
}

/// Returns the database that the master in the state directory `dir` was started with, in words; `None`
/// if its store is a file.
pub fn database_of(dir: &Path) -> Option<String> {
    crate::database::named(&dir.join(HOME))
}

/// Looks at the bucket that has, or is to have, the content of a master with these settings, or else that
/// of the master in `dir`. Returns it in words, with what is wrong with it or its name; `None` if there is none.
/// Writes a short object and deletes it.
pub fn bucket_fault(dir: &Path, config: &Config) -> Option<(String, Option<Fault>)> {
    let home = dir.join(HOME);
    let place = match config.content_in(&home) {
        Ok(ContentSetting::Bucket(place)) => place,
        Ok(ContentSetting::Directory(_)) => BucketPlace::of_master(&home).ok().flatten()?,
        Err(error) => {
            let hint = "a bucket is named like this: --content s3://BUCKET[/PREFIX]".to_owned();
            let what = error.to_string();
            return Some((config.content.clone()?, Some(Fault { what, hint })));
        }
    };
    Some((place.to_string(), bucket::fault_of(&place)))
}

/// Checks the master in the state directory `dir` (which may be a backup). Hashes its content only
/// if `read_content`. Of the settings those count that say where store and content are.
///
/// # Errors
/// If there is no master's state, or it cannot be looked at.
pub fn check(dir: &Path, config: &Config, read_content: bool) -> Result<Checked, OperationError> {
    let places = MasterPlaces::of(dir, config)?;
    let home = &places.home;
    if !home.join(STORE).exists() && !authority::exists(home).unwrap_or(false) {
        return Err(OperationError::NoMaster {
            dir: dir.to_owned(),
        });
    }

    room::look_for_room_beside(home)?;
    let _hold = SweepHold::against_sweeping(home, &BreakOff::default())?;
    let mut checked = Checked::default();

    // Before anything else: the mark names what was durable at that moment.
    let is_there = match places.database {
        Some(_) => checked.compare_database(&places),
        None => checked.compare_file(home),
    };
    if !is_there {
        checked.look_at_keys(home)?;
        return Ok(checked);
    }

    let looked = match places.database {
        Some(_) => store::look_in(&places.reader()),
        None => store::look(&home.join(STORE)),
    };
    let looked = match looked {
        Ok(looked) => looked,
        Err(full @ StoreError::Full { .. }) => return Err(full.into()),
        Err(error) => {
            let hint = match error {
                StoreError::Newer { .. } => "use the deskgrid that wrote it, or a newer one",
                _ => places.remedy(),
            };
            checked.fault(error.to_string(), hint);
            Looked::default()
        }
    };

    checked.add_store(&looked, places.remedy());
    checked.look_at_keys(home)?;
    match places.bucket() {
        Some(place) => checked.look_at_bucket(&places, place, &looked, read_content),
        None => checked.look_at_content(&places, &looked, read_content),
    }
    Ok(checked)
}

pub(super) const RESTORE: &str =
    "stop the master, keep the directory, and put a backup in its place: deskgrid master restore";

impl Checked {
    fn fault(&mut self, what: impl Into<String>, hint: impl Into<String>) {
        self.faults.push(Fault {
            what: what.into(),
            hint: hint.into(),
        });
    }

    /// Compares the file of the store with its mark. Returns whether there is one to look at.
    fn compare_file(&mut self, home: &Path) -> bool {
        match whole::look(home) {
            Ok(None) => true,
            Ok(Some(lost)) => {
                self.fault(lost.to_string(), RESTORE);
                !lost.is_empty()
            }
            Err(error) => {
                self.fault(error.to_string(), RESTORE);
                true
            }
        }
    }

    /// The same for a store in a database, whose errors say what to do where it is not the grid's.
    fn compare_database(&mut self, places: &MasterPlaces) -> bool {
        let error = match places.compare() {
            Ok(()) => return true,
            Err(error) => error,
        };
        let (hint, is_there) = match &error {
            MasterError::Content { fault, .. } => (fault.hint(), true),
            MasterError::Bucket(bucket) => (bucket.fault.hint(), true),
            MasterError::Store(StoreError::Postgres(PgError::Away { .. })) => {
                ("see to the database, or to its address (--store)", false)
            }
            _ => (places.remedy(), false),
        };

        self.fault(error.to_string(), hint);
        is_there
    }

    fn add_store(&mut self, looked: &Looked, remedy: &str) {
        self.jobs = looked.jobs;
        self.attempts = looked.attempts;
        for what in &looked.faults {
            self.fault(format!("the store: {what}"), remedy);
        }
        self.notes.extend(looked.notes.iter().cloned());

        self.copied = looked.copied;
        if looked.version != 0 && looked.version < store::VERSION {
            let found = looked.version;
            let new = store::VERSION;
            self.notes.push(format!(
                "the store has version {found}; the next start brings it to {new}"
            ));
        }
    }

    /// Checks that only the owner can read the keys, and that they belong together.
    fn look_at_keys(&mut self, home: &Path) -> Result<(), OperationError> {
        let private =
            |path: &Path| files::is_private(path).map_err(LinkError::file("cannot read", path));
        if !private(home)? {
            let shown = home.display();
            self.fault(
                format!("others may enter {shown}"),
                format!("chmod 700 {shown}"),
            );
        }

        let key = home.join("ca.key.der");
        if key.exists() && !private(&key)? {
            let shown = key.display();
            self.fault(
                format!("others may read the CA's key {shown}"),
                format!("chmod 600 {shown}"),
            );
            return Ok(());
        }

        // Reading the CA does not depend on the grid's number.
        let wrong = match authority::exists(home) {
            Ok(false) => Some("the CA is missing".to_owned()),
            _ => authority::check(home).err().map(|error| error.to_string()),
        };
        if let Some(what) = wrong {
            self.fault(what, "put ca.der and ca.key.der of a backup in its place");
        }

        Ok(())
    }

    fn look_at_content(&mut self, places: &MasterPlaces, looked: &Looked, read_content: bool) {
        let (items, missing) = places.content(&looked.named);
        let mut bad: Vec<String> = missing
            .iter()
            .map(|hash| format!("content {hash} is missing"))
            .collect();
        for item in &items {
            self.content_files += 1;
            self.content_bytes += item.size;

            let Some(hash) = item.hash.filter(|_| read_content) else {
                continue;
            };
            match File::open(&item.path).and_then(|mut file| hash_of(&mut file)) {
                Ok((found, _)) if *found.as_bytes() == hash.0 => {}
                Ok((found, _)) => bad.push(format!(
                    "content {hash} is damaged: it hashes to {}",
                    found.to_hex()
                )),
                Err(error) => bad.push(format!("content {hash} cannot be read: {error}")),
            }
        }

        let hint = format!(
            "put the file of the same name from a backup into {}; an input can also be sent by submitting it again",
            places.directory().unwrap_or(&places.home).display()
        );
        self.list_bad(bad, &hint);
    }

    /// Checks the content that lies in a bucket.
    fn look_at_bucket(
        &mut self,
        places: &MasterPlaces,
        place: &BucketPlace,
        looked: &Looked,
        read_content: bool,
    ) {
        let found = match bucket::look(place, (&looked.named, &looked.objects), read_content) {
            Ok(found) => found,
            Err(error) => return self.fault(error.to_string(), error.fault.hint()),
        };

        self.content_files += found.files;
        self.content_bytes += found.bytes;
        self.notes.extend(found.notes);
        self.faults.extend(found.unread);
        let reader = places.reader();
        let with_jobs = |(hash, what): (BlobHash, String)| {
            let jobs = reader.jobs_with(&hash).ok();
            let jobs: Vec<String> = jobs
                .iter()
                .flat_map(common::IdSet::iter)
                .map(|id| id.to_string())
                .collect();
            format!("{what}; it is of job {}", jobs.join(", "))
        };
        let bad = found.bad.into_iter().map(with_jobs).collect();
        let hint = "send it again: an input by submitting it again, a result by computing it again (deskgrid job retry JOB --damaged)";
        self.list_bad(bad, hint);
    }

    fn list_bad(&mut self, bad: Vec<String>, hint: &str) {
        let more = bad.len().saturating_sub(SHOWN);
        for what in bad.into_iter().take(SHOWN) {
            self.fault(what, hint);
        }

        if more > 0 {
            self.fault(
                format!("{more} more files of content are missing or damaged"),
                RESTORE,
            );
        }
    }
}
