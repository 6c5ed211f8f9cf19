//! The notes of what was submitted and is not forgotten, as they outlive a crash: a file for each attempt, written
//! before it is submitted, and a log of the jobs that they became in the other grid.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::content::BlobHash;
use common::platform::HostPlatform;
use common::wire::worker::Assignment;
use common::{AttemptId, BlobRef, JobId};
use link::files;
use serde::{Deserialize, Serialize};

/// The directory of the attempts' files, and the log of jobs, below the bridge's directory.
const ATTEMPTS: &str = "attempts";
const SUBMITTED: &str = "submitted";
/// The length of the log, in bytes, from which on it is begun anew while nothing runs.
const CUT_ABOVE: u64 = 64 * 1024;

/// An attempt as it was given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JournalEntry {
    pub(crate) assignment: Assignment,
    /// The platform for which its inputs were chosen, that of the other grid's hosts.
    pub(crate) platform: HostPlatform,
    /// The contents of its trees, by the hash of their lists.
    pub(crate) parts: BTreeMap<BlobHash, Vec<BlobRef>>,
}

/// The rest of an earlier run: a [`JournalEntry`], and its job if that was noted.
pub(crate) type LeftEntry = (JournalEntry, Option<JobId>);

/// The notes.
#[derive(Debug)]
pub(crate) struct Journal {
    attempts: PathBuf,
    log: PathBuf,
    /// The number of attempts in it.
    count: Mutex<usize>,
}

impl Journal {
    /// Opens the notes in `dir`, or begins them; returns what an earlier run left.
    ///
    /// # Errors
    /// If they cannot be read or written.
    pub(crate) fn open(dir: &Path) -> io::Result<(Self, Vec<LeftEntry>)> {
        let attempts = dir.join(ATTEMPTS);
        files::private_dir(&attempts)?;
        let journal = Self {
            attempts,
            log: dir.join(SUBMITTED),
            count: Mutex::new(0),
        };

        let jobs = journal.jobs()?;
        let mut left = Vec::new();
        let mut kept = String::new();
        for found in fs::read_dir(&journal.attempts)? {
            let path = found?.path();
            if path.is_file() && path.extension().is_some_and(|kind| kind == "new") {
                // A note that a crash kept from getting its name was never submitted.
                fs::remove_file(&path)?;
                continue;
            }
            let Some(entry) = read_entry(&path)? else {
                continue;
            };
            let name = file_name(entry.assignment.attempt);
            let job = jobs.get(&name).copied();
            if let Some(job) = job {
                kept += &line(&name, job);
            }
            left.push((entry, job));
        }

        files::write_whole(&journal.log, kept.as_bytes(), 0o600)?;
        *journal.lock() = left.len();
        Ok((journal, left))
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the log; a line that was cut off says nothing.
    fn jobs(&self) -> io::Result<BTreeMap<String, JobId>> {
        let text = match fs::read_to_string(&self.log) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };

        let whole = text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'));
        Ok(whole
            .filter_map(|line| {
                let (name, job) = line.split_once(' ')?;
                Some((name.to_owned(), job.parse().ok()?))
            })
            .collect())
    }

    /// Notes an attempt, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn add(&self, entry: &JournalEntry) -> io::Result<()> {
        let path = self.attempts.join(file_name(entry.assignment.attempt));
        let bytes = postcard::to_stdvec(entry).map_err(io::Error::other)?;
        let mut count = self.lock();
        files::write_whole(&path, &bytes, 0o600)?;
        *count += 1;
        Ok(())
    }

    /// Notes the job that an attempt became, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn note(&self, attempt: AttemptId, job: JobId) -> io::Result<()> {
        let _turn = self.lock();
        let mut log = File::options().append(true).create(true).open(&self.log)?;
        log.write_all(line(&file_name(attempt), job).as_bytes())?;
        log.sync_all()
    }

    /// Removes an attempt; one that is not there is none.
    pub(crate) fn remove(&self, attempt: AttemptId) {
        let mut count = self.lock();
        let path = self.attempts.join(file_name(attempt));
        match fs::remove_file(&path) {
            Ok(()) => *count = count.saturating_sub(1),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a note cannot be removed");
            }
        }

        let long = fs::metadata(&self.log).is_ok_and(|log| log.len() > CUT_ABOVE);
        if *count == 0 && long {
            // What is left of it would say nothing: there are no attempts.
            let _ = fs::remove_file(&self.log);
        }
    }
}

/// Reads the file of an attempt; `None` for one that is not whole, which was never submitted.
fn read_entry(path: &Path) -> io::Result<Option<JournalEntry>> {
    let entry = match path.is_dir() {
        true => None,
        false => postcard::from_bytes(&fs::read(path)?).ok(),
    };
    if entry.is_none() {
        tracing::warn!(path = %path.display(), "this is no note of a bridge: it is left alone");
    }
    Ok(entry)
}

fn file_name(attempt: AttemptId) -> String {
    let AttemptId {
        task,
        number,
        incarnation,
    } = attempt;
    format!("{}-{}-{number}-{incarnation}", task.job, task.index)
}

fn line(name: &str, job: JobId) -> String {
    format!("{name} {job}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::wire::worker::Errand;
    use common::{Incarnation, TaskId};

    fn entry(index: u32) -> JournalEntry {
        JournalEntry {
            assignment: Assignment {
                attempt: AttemptId {
                    task: TaskId::new(JobId(7), index),
                    number: 1,
                    incarnation: Incarnation(9),
                },
                limit: None,
                report_every: None,
                work: Errand::Noop,
            },
            platform: HostPlatform::new("linux", "x86_64", ""),
            parts: BTreeMap::new(),
        }
    }

    #[test]
    fn a_directory_among_the_notes_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        for stray in ["stray", "stray.new"] {
            fs::create_dir_all(dir.path().join(ATTEMPTS).join(stray)).unwrap();
        }
        let (_, left) = Journal::open(dir.path()).unwrap();
        assert!(left.is_empty());
    }

    #[test]
    fn attempts_are_found_again_with_their_jobs_until_they_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, left) = Journal::open(dir.path()).unwrap();
        assert!(left.is_empty());
        (1..=3).for_each(|index| journal.add(&entry(index)).unwrap());
        journal
            .note(entry(1).assignment.attempt, JobId(40))
            .unwrap();
        journal
            .note(entry(2).assignment.attempt, JobId(41))
            .unwrap();
        journal.remove(entry(2).assignment.attempt);

        // The end of a line that a crash cut off.
        let mut log = File::options()
            .append(true)
            .open(dir.path().join(SUBMITTED))
            .unwrap();
        log.write_all(b"7-3-1-9 4").unwrap();

        for _ in 0..2 {
            let (_, mut left) = Journal::open(dir.path()).unwrap();
            left.sort_by_key(|(entry, _)| entry.assignment.attempt);
            assert_eq!(left, [(entry(1), Some(JobId(40))), (entry(3), None)]);
        }
    }
}
