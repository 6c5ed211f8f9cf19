//! Remembers in the state directory which files a fetch brought of tasks that had not finished, and which
//! archives it unpacked. A later fetch of the job replaces such files where nobody has changed them since: a
//! retry has left others.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use common::content::BlobRef;
use common::view::JobView;
use serde::{Deserialize, Serialize};

use super::apart::{self, Unpacked, UnpackedEntries};
use crate::state::StateDir;

/// The files that were fetched of a job, by their absolute paths.
#[derive(Debug, Default)]
pub(super) struct EarlierFiles {
    place: PathBuf,
    /// The content of the files of unfinished tasks: of more than one kind while a fetch replaces them.
    files: BTreeMap<PathBuf, BTreeSet<BlobRef>>,
    /// The archives that were unpacked, those of finished tasks too, with what came of each.
    unpacked: BTreeMap<PathBuf, (BlobRef, UnpackedEntries)>,
    /// The directories that files were fetched into while the job was open.
    open: BTreeSet<PathBuf>,
}

/// A line of the record.
#[derive(Serialize, Deserialize)]
struct RecordedFile {
    path: RecordedPath,
    content: BlobRef,
    /// The entries of an archive that was unpacked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<(RecordedPath, Option<BlobRef>)>>,
}

/// A line of the record on a directory that files were fetched into while the job was open.
#[derive(Serialize, Deserialize)]
struct RecordedDir {
    open: RecordedPath,
}

impl RecordedFile {
    fn of_file(path: &Path, content: BlobRef) -> Self {
        Self {
            path: path.into(),
            content,
            entries: None,
        }
    }

    fn of_archive(path: &Path, content: BlobRef, entries: &UnpackedEntries) -> Self {
        let entries = entries.iter();
        let entries = entries.map(|(path, content)| (path.as_path().into(), *content));
        Self {
            path: path.into(),
            content,
            entries: Some(entries.collect()),
        }
    }
}

/// Returns something as a line of text; empty where it has no such form.
fn line_of(recorded: &impl Serialize) -> String {
    serde_json::to_string(recorded).map_or_else(|_| String::new(), |line| line + "\n")
}

/// A path in the record: archives hold names that are no text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RecordedPath {
    Text(String),
    Other(OsString),
}

impl From<&Path> for RecordedPath {
    fn from(path: &Path) -> Self {
        let path = path.as_os_str().to_owned();
        path.into_string().map_or_else(Self::Other, Self::Text)
    }
}

impl From<RecordedPath> for PathBuf {
    fn from(path: RecordedPath) -> Self {
        match path {
            RecordedPath::Text(text) => text.into(),
            RecordedPath::Other(name) => name.into(),
        }
    }
}

impl EarlierFiles {
    /// Reads the record of a job; what cannot be read is not known.
    pub(super) fn of(state: &StateDir, job: &JobView) -> Self {
        // Jobs of other grids have the same numbers.
        let name = format!("{}-{}.jsonl", job.job, job.submitted.0);
        Self::at(state.client().join("fetched").join(name))
    }

    fn at(place: PathBuf) -> Self {
        let text = std::fs::read_to_string(&place).unwrap_or_default();
        let mut read = Self {
            place,
            ..Self::default()
        };
        for line in text.lines() {
            if let Ok(dir) = serde_json::from_str::<RecordedDir>(line) {
                read.open.insert(dir.open.into());
            }
            let Ok(line) = serde_json::from_str::<RecordedFile>(line) else {
                continue;
            };
            let path = PathBuf::from(line.path);
            if let Some(entries) = line.entries {
                let entries = entries.into_iter();
                let entries = entries.map(|(path, content)| (path.into(), content));
                read.unpacked
                    .insert(path, (line.content, entries.collect()));
            } else {
                read.files.entry(path).or_default().insert(line.content);
            }
        }
        read
    }

    /// Adds a directory that files are about to be fetched into while the job is open.
    pub(super) fn add_open(&mut self, dir: &Path) {
        self.open.extend(std::path::absolute(dir));
    }

    /// Whether files were fetched into this directory while the job was open.
    pub(super) fn was_open(&self, dir: &Path) -> bool {
        std::path::absolute(dir).is_ok_and(|dir| self.open.contains(&dir))
    }

    /// Whether this is the content that was fetched to this path.
    pub(super) fn has(&self, path: &Path, content: &BlobRef) -> bool {
        let path = std::path::absolute(path).ok();
        path.and_then(|path| self.files.get(&path))
            .is_some_and(|there| there.contains(content))
    }

    /// Adds a file that is about to be fetched. What was there before counts until it is taken out: the fetch
    /// may be interrupted.
    pub(super) fn add(&mut self, path: &Path, content: BlobRef) {
        if let Ok(path) = std::path::absolute(path) {
            self.files.entry(path).or_default().insert(content);
        }
    }

    /// Takes out a file with all that it may have.
    pub(super) fn remove(&mut self, path: &Path) {
        if let Ok(path) = std::path::absolute(path) {
            self.files.remove(&path);
        }
    }

    /// Adds what came of an archive, which a later fetch replaces unless it `stays`, and stores that at the end of
    /// the record. The lines before it stay as they are until [`save`](Self::save): each task of a job may have left
    /// an archive, and the record has a line for each.
    pub(super) fn add_unpacked(
        &mut self,
        archive: &Path,
        of: BlobRef,
        unpacked: &Unpacked,
        stays: bool,
    ) {
        let mut lines = String::new();
        for (path, content) in &unpacked.made {
            self.remove(path);
            if let Some(content) = content.filter(|_| !stays) {
                self.add(path, content);
                lines += &line_of(&RecordedFile::of_file(path, content));
            }
        }

        if let Ok(archive) = std::path::absolute(archive)
            && unpacked.is_whole()
        {
            lines += &line_of(&RecordedFile::of_archive(&archive, of, &unpacked.made));
            self.unpacked.insert(archive, (of, unpacked.made.clone()));
        }
        self.append(&lines);
    }

    /// Writes lines at the end of the record. Where that fails, the user is asked for `--force` later.
    fn append(&self, lines: &str) {
        let Some(dir) = self.place.parent().filter(|_| !lines.is_empty()) else {
            return;
        };
        let open = || {
            let mut options = OpenOptions::new();
            options.append(true).create(true).open(&self.place)
        };
        let _ = fs::create_dir_all(dir)
            .and_then(|()| open())
            .and_then(|mut record| record.write_all(lines.as_bytes()));
    }

    /// Returns the number of entries of this archive if it was unpacked, and all of them are as they were.
    pub(super) fn unpacked(&self, archive: &Path, content: &BlobRef) -> Option<usize> {
        let archive = std::path::absolute(archive).ok()?;
        let (of, entries) = self.unpacked.get(&archive)?;
        let is_there = |(path, content): (&PathBuf, &Option<BlobRef>)| {
            apart::found(path).is_ok_and(|found| found == Some(*content))
        };
        (of == content && entries.iter().all(is_there)).then_some(entries.len())
    }

    /// Returns what came of this archive when it was unpacked.
    pub(super) fn entries_of(&self, archive: &Path) -> Option<&UnpackedEntries> {
        let archive = std::path::absolute(archive).ok()?;
        self.unpacked.get(&archive).map(|(_, entries)| entries)
    }

    /// Writes the record, if there is anything in it. Where that fails, the user is asked for `--force` later.
    pub(super) fn save(&self) {
        if self.files.is_empty() && self.unpacked.is_empty() && self.open.is_empty() {
            let _ = fs::remove_file(&self.place);
            return;
        }

        let files = self.files.iter().flat_map(|(path, contents)| {
            let line = move |content: &BlobRef| RecordedFile::of_file(path, *content);
            contents.iter().map(line)
        });
        let unpacked = self
            .unpacked
            .iter()
            .map(|(path, (content, entries))| RecordedFile::of_archive(path, *content, entries));
        let open = self.open.iter().map(|dir| RecordedDir {
            open: dir.as_path().into(),
        });
        let text: String = (files.chain(unpacked).map(|file| line_of(&file)))
            .chain(open.map(|dir| line_of(&dir)))
            .collect();

        if let Some(dir) = self.place.parent() {
            let _ = fs::create_dir_all(dir)
                .and_then(|()| link::files::write_whole(&self.place, text.as_bytes(), 0o600));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test's panic is its message")]

    use super::*;

    #[test]
    fn the_old_content_counts_until_the_new_one_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let record = || EarlierFiles::at(dir.path().join("record"));
        let [old, new] = [b"old", b"new"].map(|bytes| link::content::hash_bytes(bytes));
        let path = dir.path().join("out");
        let mut files = record();
        files.add(&path, old);
        files.save();

        let mut files = record();
        files.add(&path, new);
        files.save();
        assert!(record().has(&path, &old) && record().has(&path, &new));

        files.remove(&path);
        files.add(&path, new);
        files.save();
        assert!(!record().has(&path, &old) && record().has(&path, &new));
    }

    #[test]
    fn a_directory_of_an_open_job_is_known_by_its_path_however_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let record = || EarlierFiles::at(dir.path().join("record"));
        let mut files = record();
        files.add_open(&dir.path().join("out"));
        files.save();
        assert!(record().was_open(&dir.path().join("./out/")));
        assert!(!record().was_open(dir.path()));
    }

    #[test]
    fn the_record_is_not_written_anew_for_each_archive() {
        let dir = tempfile::tempdir().unwrap();
        let record = || EarlierFiles::at(dir.path().join("record"));
        let content = link::content::hash_bytes(b"x");
        let mut files = record();
        files.add(&dir.path().join("out"), content);
        files.save();
        // What only an append leaves there.
        let before = fs::read_to_string(dir.path().join("record")).unwrap() + "a mark\n";
        fs::write(dir.path().join("record"), &before).unwrap();

        let archives = ["1.tar", "2.tar", "3.tar"].map(|name| dir.path().join(name));
        for (number, archive) in archives.iter().enumerate() {
            let path = dir.path().join(format!("file-{number}"));
            fs::write(&path, "x").unwrap();
            let unpacked = Unpacked {
                made: [(path, Some(content))].into(),
                ..Unpacked::default()
            };
            files.add_unpacked(archive, content, &unpacked, false);
        }
        let after = fs::read_to_string(dir.path().join("record")).unwrap();
        assert!(after.starts_with(&before), "{after}");

        let check = |files: &EarlierFiles| {
            for archive in &archives {
                assert_eq!(files.unpacked(archive, &content), Some(1));
            }
            for name in ["out", "file-0", "file-2"] {
                assert!(files.has(&dir.path().join(name), &content), "{name}");
            }
        };
        check(&record());
        files.save();
        check(&record());
        let whole = fs::read_to_string(dir.path().join("record")).unwrap();
        assert!(!whole.contains("a mark"), "{whole}");
    }

    #[cfg(unix)]
    #[test]
    fn an_unpacked_archive_is_known_while_all_that_came_of_it_is_as_it_was() {
        use std::os::unix::ffi::OsStringExt;

        let dir = tempfile::tempdir().unwrap();
        let record = || EarlierFiles::at(dir.path().join("record"));
        let odd = OsString::from_vec(b"caf\xe9".to_vec());
        let paths = [
            dir.path().join(odd),
            dir.path().join("link"),
            dir.path().join("d"),
        ];
        std::fs::write(&paths[0], "latin").unwrap();
        std::os::unix::fs::symlink("x", &paths[1]).unwrap();
        std::fs::create_dir(&paths[2]).unwrap();

        let archive = dir.path().join("a.tar");
        let [of, other] = [b"1", b"2"].map(|bytes| link::content::hash_bytes(bytes));
        let entries = paths.clone().map(|path| {
            let found = apart::found(&path).unwrap().unwrap();
            (path, found)
        });
        let unpacked = Unpacked {
            made: entries.into(),
            ..Unpacked::default()
        };
        let mut files = record();
        files.add_unpacked(&archive, of, &unpacked, true);
        assert_eq!(record().unpacked(&archive, &of), Some(3));
        files.save();
        assert_eq!(record().unpacked(&archive, &of), Some(3));
        assert_eq!(record().unpacked(&archive, &other), None);

        std::fs::write(&paths[0], "mine").unwrap();
        assert_eq!(record().unpacked(&archive, &of), None);
    }
}
