//! Backs up the store as of one moment, the content that it names, and the master's keys, while the
//! master may run. The backup is written beside its target, read back, and only then renamed.
//! `restore` puts it in place again.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use common::Time;
use common::content::BlobHash;
use link::{LinkError, files};

use super::archive::{self, ArchiveEntry};
use super::part::{self, BreakOff, Breakable, Part, UNFINISHED};
use super::places::MasterPlaces;
use super::source::{self, Item};
use super::{HOME, OperationError, STORE, SweepHold, bucket};
use crate::clock::Clock;
use crate::{Config, authority, room, store};

/// The extent of a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackedUp {
    /// The moment of the store's copy, in microseconds since the Unix epoch.
    pub taken: Time,
    /// Bytes of the store's copy.
    pub store_bytes: u64,
    /// Files of content.
    pub content_files: u64,
    /// Bytes of content.
    pub content_bytes: u64,
    /// The bucket that has the content, which is not in the backup then.
    pub elsewhere: Option<String>,
    /// Files that were missing, or damaged: those are in the backup as they are, and a restoration leaves them out.
    pub faults: Vec<String>,
    /// Words about files that are none of a master's, and are not in the backup.
    pub notes: Vec<String>,
}

/// The target of a backup: a directory or an archive.
enum Sink {
    Dir(PathBuf),
    Archive(BufWriter<File>),
}

/// A file as it was written.
struct BackedUpFile {
    name: String,
    size: u64,
    hash: blake3::Hash,
}

/// Backs up the master in the state directory `dir` to `target`, which must not exist: an archive
/// in one file if its name ends in `.tar`, else a directory that is a state directory itself. The
/// master may run meanwhile. Of its settings those count that say where store and content are.
///
/// # Errors
/// If there is no master's state, something is there already, it would not fit, does not read
/// back as written, or is to break off (`end`).
pub fn backup(
    dir: &Path,
    target: &Path,
    config: &Config,
    end: &BreakOff,
) -> Result<BackedUp, OperationError> {
    let places = MasterPlaces::of(dir, config)?;
    let home = &places.home;
    let is_there = match places.database {
        Some(_) => authority::exists(home)?,
        None => home.join(STORE).exists(),
    };
    if !is_there {
        return Err(OperationError::NoMaster {
            dir: dir.to_owned(),
        });
    }

    if target.exists() {
        return Err(OperationError::Exists {
            path: target.to_owned(),
        });
    }

    room::look_for_room_beside(home)?;
    let _hold = SweepHold::against_sweeping(home, end)?;
    let part = Part::take(
        &beside(target, "part"),
        part::is_of_a_backup,
        |path| match is_archive(target) {
            true => files::create_private(path).map(drop),
            false => make_unfinished(path),
        },
    )?;
    let beside_it = beside(target, "store");
    let copy = match Part::take(&beside_it, part::is_of_a_copy, make_unfinished) {
        Ok(copy) => copy,
        Err(error) => {
            part.discard();
            return Err(error);
        }
    };

    let snapshot = copy.path().join(STORE);
    let written = write(&places, &snapshot, target, (part.path(), end));
    // The file that says whose directory it is goes last.
    remove_store(&snapshot);
    copy.discard();
    let done = written.and_then(|done| put_in_place(part.path(), target).map(|()| done));
    done.map_err(|error| {
        part.discard();
        end.reason(error)
    })
}

/// Makes a directory that says of itself that it is not whole.
fn make_unfinished(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    files::private_dir(path)?;
    files::create_private(&path.join(UNFINISHED)).map(drop)
}

/// Removes the copy of a store, with the files that SQLite makes beside it.
fn remove_store(path: &Path) {
    for end in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(format!("{}{end}", path.display()));
    }
}

/// Whether a backup of this name is one file.
fn is_archive(target: &Path) -> bool {
    target
        .extension()
        .is_some_and(|extension| extension == "tar")
}

/// The path `target` with `.what` after its name.
fn beside(target: &Path, what: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".{what}"));
    name.into()
}

fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn write(
    places: &MasterPlaces,
    snapshot: &Path,
    target: &Path,
    (part, end): (&Path, &BreakOff),
) -> Result<BackedUp, OperationError> {
    let home = &places.home;
    let taken = Clock::start().now();
    places.compare()?;
    let reader = places.reader();
    let store_bytes = match reader.database_bytes()? {
        Some(bytes) => bytes,
        None => size(&home.join(STORE))? + size(&home.join("store.sqlite-wal")).unwrap_or(0),
    };
    enough_room(parent(target), store_bytes)?;
    files::create_private(snapshot).map_err(LinkError::file("cannot write", snapshot))?;
    reader.copy_to(snapshot, taken, places.bucket().is_none())?;
    end.look()?;

    let (db, _) = store::open_to_look(snapshot)?;
    let mut named = store::named(&db)?;
    places.add_states(&mut named, store::earlier_starts(&db)?)?;
    let place = places.bucket();
    let (content, missing) = match place {
        Some(_) => (
            Vec::new(),
            bucket::unknown(&named, &store::live_objects(&db)?),
        ),
        None => places.content(&named),
    };
    drop(db);

    let mut done = BackedUp {
        taken,
        store_bytes: size(snapshot)?,
        elsewhere: place.map(ToString::to_string),
        ..BackedUp::default()
    };
    done.faults = missing
        .iter()
        .map(|hash| format!("content {hash}, which the store names, is missing"))
        .collect();
    let (others, stray) = source::others(home)?;
    done.notes.extend(source::left_out(&stray));

    let store = Item {
        name: format!("{HOME}/{STORE}"),
        path: snapshot.to_owned(),
        size: done.store_bytes,
        mode: 0o600,
        hash: None,
    };
    let items: Vec<Item> = [store].into_iter().chain(others).chain(content).collect();
    enough_room(parent(target), items.iter().map(|item| item.size).sum())?;

    let kept = put_all(&items, (part, end), is_archive(target), &mut done)?;
    verify(part, &kept, end)?;
    Ok(done)
}

/// Gives a backup that was read back its name.
fn put_in_place(part: &Path, target: &Path) -> Result<(), OperationError> {
    finish(part, is_archive(target)).map_err(LinkError::file("cannot write", part))?;
    fs::rename(part, target).map_err(LinkError::file("cannot rename", part))?;
    files::sync_dir(parent(target)).map_err(LinkError::file("cannot sync", parent(target)))?;
    Ok(())
}

/// Makes a whole backup of what was written and read back: from now on nothing takes it for left behind.
fn finish(part: &Path, is_archive: bool) -> io::Result<()> {
    if is_archive {
        let mut file = File::options().append(true).open(part)?;
        archive::end(&mut file)?;
        return file.sync_all();
    }
    fs::remove_file(part.join(UNFINISHED))?;
    files::sync_dir(part)
}

fn size(path: &Path) -> Result<u64, OperationError> {
    Ok(fs::metadata(path)
        .map_err(LinkError::file("cannot read", path))?
        .len())
}

pub(super) fn enough_room(dir: &Path, needed: u64) -> Result<(), OperationError> {
    match files::free_bytes(dir) {
        Ok(free) if free < needed => Err(OperationError::Space {
            dir: dir.to_owned(),
            needed,
            free,
        }),
        Ok(_) => Ok(()),
        Err(error) => Err(LinkError::file("cannot write to", dir)(error).into()),
    }
}

fn put_all(
    items: &[Item],
    (part, end): (&Path, &BreakOff),
    archive: bool,
    done: &mut BackedUp,
) -> Result<Vec<BackedUpFile>, OperationError> {
    let cannot = |error| LinkError::file("cannot write", part)(error);
    let mut sink = if archive {
        let file = File::options().write(true).open(part).map_err(cannot)?;
        Sink::Archive(BufWriter::new(file))
    } else {
        files::private_dir(&part.join(HOME)).map_err(cannot)?;
        Sink::Dir(part.to_owned())
    };

    let mut kept = Vec::new();
    for item in items {
        let hash = sink.put(item, end)?;
        match item.hash {
            Some(named) if named.0 != *hash.as_bytes() => {
                done.faults.push(format!(
                    "content {named} is damaged (it hashes to {}): a restore will leave it out",
                    BlobHash(*hash.as_bytes())
                ));
            }
            Some(_) => {
                done.content_files += 1;
                done.content_bytes += item.size;
            }
            None => {}
        }

        kept.push(BackedUpFile {
            name: item.name.clone(),
            size: item.size,
            hash,
        });
    }

    sink.sync().map_err(LinkError::file("cannot write", part))?;
    Ok(kept)
}

impl Sink {
    /// Copies a file, and returns the hash of the copied bytes.
    fn put(&mut self, item: &Item, end: &BreakOff) -> Result<blake3::Hash, OperationError> {
        let file = File::open(&item.path).map_err(LinkError::file("cannot read", &item.path))?;
        let mut hashing = Hashing {
            from: end.over(file),
            hasher: blake3::Hasher::new(),
        };
        let entry = ArchiveEntry {
            name: item.name.clone(),
            size: item.size,
            mode: item.mode,
        };
        let put = match self {
            Sink::Archive(out) => archive::append(out, &entry, &mut hashing),
            Sink::Dir(dir) => put_file(&dir.join(&item.name), item, &mut hashing),
        };
        put.map_err(LinkError::file("cannot back up", &item.path))?;

        Ok(hashing.hasher.finalize())
    }

    /// Makes everything durable.
    fn sync(self) -> io::Result<()> {
        match self {
            Sink::Archive(out) => out
                .into_inner()
                .map_err(io::IntoInnerError::into_error)?
                .sync_all(),
            Sink::Dir(dir) => sync_tree(&dir),
        }
    }
}

fn put_file(path: &Path, item: &Item, from: &mut impl Read) -> io::Result<()> {
    fs::create_dir_all(parent(path))?;
    let mut file = files::create_private(path)?;
    let copied = io::copy(&mut from.take(item.size), &mut file)?;
    if copied != item.size {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it became shorter while it was read",
        ));
    }
    file.sync_all()
}

/// Makes the names in a directory, and in those below it, durable.
pub(super) fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        }
    }
    files::sync_dir(dir)
}

/// Reads everything back and compares it with the hashes taken while it was written. Each name must
/// be one that a restoration takes.
fn verify(part: &Path, kept: &[BackedUpFile], end: &BreakOff) -> Result<(), OperationError> {
    let differs = |why: String| OperationError::NotVerified {
        path: part.to_owned(),
        why,
    };
    let unknown = |file: &&BackedUpFile| source::meaning(&file.name).is_none();
    if let Some(file) = kept.iter().find(unknown) {
        return Err(differs(format!("no restore would take {}", file.name)));
    }

    if part.is_dir() {
        for BackedUpFile { name, size, hash } in kept {
            let path = part.join(name);
            let file = File::open(&path).map_err(LinkError::file("cannot read", &path))?;
            let found =
                hash_of(&mut end.over(file)).map_err(LinkError::file("cannot read", &path))?;
            if found != (*hash, *size) {
                return Err(differs(format!("{name} is not what was written")));
            }
        }
        return Ok(());
    }

    let file = File::open(part).map_err(LinkError::file("cannot read", part))?;
    let mut file = io::BufReader::new(end.over(file));
    for BackedUpFile { name, size, hash } in kept {
        let read = |file: &mut io::BufReader<Breakable<'_, File>>| {
            let entry = archive::next(file)?;
            let found = hash_of(&mut file.take(*size))?;
            archive::skip_padding(file, *size)?;
            Ok((entry.map(|entry| entry.name), found))
        };
        let found = read(&mut file).map_err(LinkError::file("cannot read", part))?;
        if found != (Some(name.clone()), (*hash, *size)) {
            return Err(differs(format!("{name} is not what was written")));
        }
    }

    Ok(())
}

/// The hash of a reader's bytes, and their number.
pub(super) fn hash_of(from: &mut impl Read) -> io::Result<(blake3::Hash, u64)> {
    copy_hashed(from, &mut io::sink())
}

/// Copies a reader's bytes; returns their hash, and their number.
pub(super) fn copy_hashed(
    from: &mut impl Read,
    to: &mut impl Write,
) -> io::Result<(blake3::Hash, u64)> {
    let mut hashing = Hashing {
        from,
        hasher: blake3::Hasher::new(),
    };
    let size = io::copy(&mut hashing, to)?;
    Ok((hashing.hasher.finalize(), size))
}

/// A reader that hashes the bytes read through it.
struct Hashing<R> {
    from: R,
    hasher: blake3::Hasher,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.hasher.update(&to[..n]);
        Ok(n)
    }
}
