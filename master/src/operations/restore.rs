//! Puts a backup in place. A master that starts on it learns from the store that it is a copy, and
//! acts on that. The target must hold no master: nothing is merged.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use common::content::BlobHash;
use link::{LinkError, files};

use super::backup::{copy_hashed, enough_room};
use super::part::{BreakOff, Part};
use super::source::{self, Meaning, meaning};
use super::{CONTENT, HOME, OperationError, STORE, archive, bucket};
use crate::content_place::BucketPlace;
use crate::{room, store};

/// The extent of a restoration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files of content.
    pub content_files: u64,
    /// The bytes of all files.
    pub bytes: u64,
    /// Content that the store names and the backup does not have, or not whole.
    pub faults: Vec<String>,
    /// Words about files of the backup that are none of a master's, and were left out.
    pub notes: Vec<String>,
    /// Content that is in the backup, is damaged, and was left out.
    damaged: BTreeSet<BlobHash>,
}

/// Puts the backup `from` (a directory, or an archive) into the state directory `dir`, which must
/// not hold a master's state. Everything is verified on the way, and appears there only once it is
/// whole; content that is damaged is left out.
///
/// # Errors
/// If it is no whole backup, something is there already, or it is to break off (`end`).
pub fn restore(from: &Path, dir: &Path, end: &BreakOff) -> Result<Restored, OperationError> {
    let home = dir.join(HOME);
    // A machine's setup may have made an empty directory.
    if fs::read_dir(&home).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(OperationError::Exists { path: home });
    }

    let part = Part::take(&dir.join("master.part"), Path::is_dir, files::private_dir)?;
    let restored = match fill(from, part.path(), end) {
        Ok(restored) => restored,
        Err(error) => {
            part.discard();
            return Err(end.reason(error));
        }
    };

    let _ = fs::remove_dir(&home);
    fs::rename(part.path(), &home).map_err(LinkError::file("cannot rename", part.path()))?;
    files::sync_dir(dir).map_err(LinkError::file("cannot sync", dir))?;
    Ok(restored)
}

/// Puts everything below `part`, durably.
fn fill(from: &Path, part: &Path, end: &BreakOff) -> Result<Restored, OperationError> {
    let opened = File::open(part).map_err(LinkError::file("cannot open", part))?;
    room_for(from, part)?;
    let mut restored = unpack(from, part, end)?;
    restored.faults = verify(from, part, &restored.damaged)?;
    make_durable(&opened, part).map_err(LinkError::file("cannot sync", part))?;
    end.look()?;
    Ok(restored)
}

/// Makes all that was written below `part` durable at once: with a sync of each, a million files take
/// hours. What failed to come to the disk since `part` was `opened` is an error, of content only from
/// Linux 5.8 on; the files beside it, the store among them, are synced one by one.
#[cfg(target_os = "linux")]
fn make_durable(opened: &File, part: &Path) -> io::Result<()> {
    for entry in fs::read_dir(part)? {
        let path = entry?.path();
        if path.is_file() {
            File::open(path)?.sync_all()?;
        }
    }
    Ok(rustix::fs::syncfs(opened)?)
}

/// Makes all that was written below `part` durable, one by one: this system cannot sync a whole file
/// system and say whether that went well.
#[cfg(not(target_os = "linux"))]
fn make_durable(_opened: &File, part: &Path) -> io::Result<()> {
    for path in plain_files(part)? {
        File::open(path)?.sync_all()?;
    }
    super::backup::sync_tree(part)
}

fn no_backup(path: &Path, why: impl Into<String>) -> OperationError {
    OperationError::NoBackup {
        path: path.to_owned(),
        why: why.into(),
    }
}

/// Checks that all of a backup fits.
fn room_for(from: &Path, part: &Path) -> Result<(), OperationError> {
    let cannot = |error| LinkError::file("cannot read", from)(error);
    let files = if from.is_dir() {
        plain_files(&from.join(HOME)).unwrap_or_default()
    } else {
        vec![from.to_owned()]
    };
    let mut bytes = 0;
    for file in files {
        bytes += fs::metadata(file).map_err(cannot)?.len();
    }
    enough_room(part, bytes)
}

fn unpack(from: &Path, part: &Path, end: &BreakOff) -> Result<Restored, OperationError> {
    let mut restored = Restored::default();
    let mut unknown = Vec::new();
    if from.is_dir() {
        let home = from.join(HOME);
        if !home.join(STORE).is_file() {
            return Err(no_backup(from, "it has no master/store.sqlite"));
        }

        for path in plain_files(&home).map_err(LinkError::file("cannot read", &home))? {
            let below = path
                .strip_prefix(from)
                .unwrap_or(&path)
                .to_string_lossy()
                .into_owned();
            let Some(meaning) = meaning(&below) else {
                // A state directory has files of its process, too.
                if source::is_stray(&below) {
                    unknown.push(below);
                }
                continue;
            };
            let file = File::open(&path).map_err(LinkError::file("cannot read", &path))?;
            restored.put(part, &below, &meaning, &mut end.over(file))?;
        }

        restored.notes.extend(source::left_out(&unknown));
        return Ok(restored);
    }

    let file = File::open(from).map_err(LinkError::file("cannot read", from))?;
    let mut file = BufReader::new(end.over(file));
    let broken = |error: io::Error| no_backup(from, error.to_string());
    while let Some(entry) = archive::next(&mut file).map_err(broken)? {
        let mut body = (&mut file).take(entry.size);
        let size = match meaning(&entry.name) {
            Some(meaning) => restored.put(part, &entry.name, &meaning, &mut body)?,
            None => io::copy(&mut body, &mut io::sink()).map_err(broken)?,
        };
        if size != entry.size {
            return Err(no_backup(from, "it ends in the middle"));
        }

        archive::skip_padding(&mut file, size).map_err(broken)?;
        if meaning(&entry.name).is_none() {
            unknown.push(entry.name);
        }
    }

    restored.notes.extend(source::left_out(&unknown));
    Ok(restored)
}

fn plain_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => found.extend(plain_files(&entry.path())?),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found.sort_unstable();
    Ok(found)
}

impl Restored {
    /// Writes a file from a backup below `part`, not durably yet, and returns its size. Content that is
    /// damaged is noted, and does not stay.
    fn put(
        &mut self,
        part: &Path,
        name: &str,
        meaning: &Meaning,
        from: &mut impl Read,
    ) -> Result<u64, OperationError> {
        let path = part.join(name.strip_prefix(&format!("{HOME}/")).unwrap_or(name));
        let cannot = |error| LinkError::file("cannot write", &path)(error);
        fs::create_dir_all(path.parent().unwrap_or(part)).map_err(cannot)?;

        let mut file = files::create_private(&path).map_err(cannot)?;
        let (hash, size) = copy_hashed(from, &mut file).map_err(cannot)?;

        self.bytes += size;
        match meaning {
            Meaning::Content(named) if named.0 != *hash.as_bytes() => {
                fs::remove_file(&path).map_err(cannot)?;
                self.damaged.insert(*named);
            }
            Meaning::Content(_) => self.content_files += 1,
            Meaning::Store | Meaning::Other => {}
        }
        Ok(size)
    }
}

/// Checks that the store is sound, and returns the content that it names and that is missing, or was left out
/// because it is `damaged`.
fn verify(
    from: &Path,
    part: &Path,
    damaged: &BTreeSet<BlobHash>,
) -> Result<Vec<String>, OperationError> {
    let path = part.join(STORE);
    if !path.is_file() {
        return Err(no_backup(from, "it has no master/store.sqlite"));
    }

    room::look_for_room(part)?;
    let looked = store::look(&path)?;
    if let Some(fault) = looked.faults.first() {
        return Err(no_backup(from, format!("its store: {fault}")));
    }
    if looked.copied.is_none() {
        let why = "its store is not marked as a copy: this is a master's own directory. Make a backup of it with `deskgrid master backup`";
        return Err(no_backup(from, why));
    }

    // Content in a bucket is in no backup: `master check` looks at it.
    let missing = match BucketPlace::of_master(part)? {
        Some(_) => bucket::unknown(&looked.named, &looked.objects),
        None => source::content(&part.join(CONTENT), &looked.named).1,
    };
    Ok(missing
        .iter()
        .map(|hash| match damaged.contains(hash) {
            true => format!("content {hash} is damaged in the backup"),
            false => format!("content {hash}, which the store names, is not in the backup"),
        })
        .collect())
}
