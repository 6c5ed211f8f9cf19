//! The files of a backup or a restoration before they are whole. An operation that breaks off removes them. One that is killed
//! leaves them, and the next operation of the same name replaces them.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use link::LinkError;

use super::{HOME, OperationError, STORE, archive};

/// The file in a backup's directory, or beside the copy of a store, that says that it is not whole.
pub(super) const UNFINISHED: &str = "unfinished";

/// The word that an operation is to break off, for whoever has started it to say.
#[derive(Debug, Clone, Default)]
pub struct BreakOff(Arc<AtomicBool>);

impl BreakOff {
    /// Has the operation break off: it removes what it has written, and ends with [`OperationError::Interrupted`].
    pub fn say(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn was_said(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Makes sure that the operation may go on.
    pub(super) fn look(&self) -> Result<(), OperationError> {
        match self.was_said() {
            true => Err(OperationError::Interrupted),
            false => Ok(()),
        }
    }

    /// Returns the reason why an operation has ended with this error.
    pub(super) fn reason(&self, error: OperationError) -> OperationError {
        self.look().err().unwrap_or(error)
    }

    /// A reader of the same bytes, which fails once the operation is to break off.
    pub(super) fn over<R>(&self, from: R) -> Breakable<'_, R> {
        Breakable { from, end: self }
    }
}

/// A reader of [`BreakOff::over`].
pub(super) struct Breakable<'a, R> {
    from: R,
    end: &'a BreakOff,
}

impl<R: Read> Read for Breakable<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // Not `ErrorKind::Interrupted`, after which a copy goes on.
        if self.end.was_said() {
            return Err(io::Error::other("it was interrupted"));
        }
        self.from.read(to)
    }
}

/// A file or directory that an operation writes, and that has its name once it is whole.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    /// Locked as long as it is written: the file or directory, and the one that it has replaced.
    _held: Vec<File>,
}

impl Part {
    /// Makes the file or directory with `make`. What is there already is replaced if `is_left` recognises it as what a killed
    /// operation has left, and no operation that still runs has it locked.
    ///
    /// # Errors
    /// If something else is there, or it cannot be made.
    pub(super) fn take(
        path: &Path,
        is_left: impl Fn(&Path) -> bool,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Self, OperationError> {
        let taken = || OperationError::Exists {
            path: path.to_owned(),
        };
        let mut held = Vec::new();
        if fs::symlink_metadata(path).is_ok() {
            let left = open(path).ok();
            let left = left.filter(|left| left.try_lock().is_ok() && is_left(path));
            held.push(left.ok_or_else(taken)?);
            remove(path).map_err(LinkError::file("cannot remove", path))?;
        }

        make(path).map_err(LinkError::file("cannot make", path))?;
        let made = open(path).map_err(LinkError::file("cannot open", path))?;
        // Another operation that has locked it meanwhile takes it for left behind, and replaces it. Where there are no locks,
        // nothing is replaced.
        if matches!(made.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(taken());
        }
        held.push(made);
        Ok(Self {
            path: path.to_owned(),
            _held: held,
        })
    }

    /// Returns its path until it is whole.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it: it will not be whole.
    pub(super) fn discard(self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "what was written could not be removed");
        }
    }
}

/// Whether this is what a killed backup has left: a directory that says so of itself, or an archive that
/// breaks off. A whole backup is never one, whatever its name is.
pub(super) fn is_of_a_backup(path: &Path) -> bool {
    is_unfinished(path, |name| name == HOME)
        .unwrap_or_else(|| is_rest_of_archive(path).unwrap_or(false))
}

/// Whether this is the directory in which a killed backup has left its copy of the store.
pub(super) fn is_of_a_copy(path: &Path) -> bool {
    let of_a_store = |name: &OsStr| name.to_string_lossy().starts_with(STORE);
    is_unfinished(path, of_a_store).unwrap_or(false)
}

/// Whether a directory says of itself that it is not whole, and all that it has is `known`; `None` where this is none.
fn is_unfinished(path: &Path, known: impl Fn(&OsStr) -> bool) -> Option<bool> {
    let entries = fs::read_dir(path).ok()?;
    let names: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.file_name())).collect();
    Some(names.is_ok_and(|names| {
        let says_so = names.is_empty() || names.iter().any(|name| name == UNFINISHED);
        says_so && names.iter().all(|name| name == UNFINISHED || known(name))
    }))
}

fn is_rest_of_archive(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    // A backup begins with the store.
    let begins = format!("{HOME}/{STORE}");
    let mut head = Vec::new();
    (&mut file)
        .take(begins.len() as u64)
        .read_to_end(&mut head)?;
    file.rewind()?;
    Ok(length == 0 || head == begins.as_bytes() && archive::breaks_off(&mut file, length)?)
}

fn open(path: &Path) -> io::Result<File> {
    // The lock of a file on another machine takes the right to write it.
    File::options().read(true).write(!path.is_dir()).open(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path)?.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    }
}
