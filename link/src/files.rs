//! Files that must be whole and, some of them, secret. What differs between systems is in `rights`
//! below.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

#[cfg_attr(windows, path = "files/windows.rs")]
#[cfg_attr(not(windows), path = "files/unix.rs")]
mod rights;

pub(crate) use rights::sync_file;
pub use rights::{free_bytes, is_private, private_dir, sync_dir};

/// Makes a new file that only we may read.
///
/// # Errors
/// If it is there already, or cannot be made.
pub fn create_private(path: &Path) -> io::Result<File> {
    rights::options(0o600)
        .write(true)
        .create_new(true)
        .open(path)
}

/// Returns a warning, with the remedy, if other accounts of this machine may read a file that holds the
/// `secret`.
pub fn exposed(path: &Path, secret: &str) -> Option<String> {
    let open = rights::is_open_to_others(path).unwrap_or(false);
    let path = path.display();
    open.then(|| format!("other accounts may read {secret} in {path}: chmod 600 {path}"))
}

/// Removes a file, if it is there.
///
/// # Errors
/// If it is there and cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    unless_gone(fs::remove_file(path)).map(drop)
}

/// Makes `None` of the failure of an operation on a file that is not there.
///
/// # Errors
/// If it failed for another reason.
pub fn unless_gone<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Writes a file that is there whole or not at all, also after a power loss. `mode` are its
/// permissions, where the system has such.
///
/// # Errors
/// If the file cannot be written, synced or renamed.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace(path, |aside| {
        let options = &mut rights::options(mode);
        options
            .write(true)
            .create_new(true)
            .open(aside)?
            .write_all(bytes)
    })
}

/// Puts what `write` makes aside into the place of a file, also for after a power loss. Where that fails, as on a full disk,
/// the file is as it was, and nothing lies beside it.
///
/// # Errors
/// As [`write_whole`], and if `write` fails.
pub fn replace(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let aside = path.with_extension("new");
    let _ = fs::remove_file(&aside);
    let placed = write(&aside)
        .and_then(|()| sync_file(&aside))
        .and_then(|()| fs::rename(&aside, path));
    if let Err(error) = placed {
        // On a full disk, what was begun would keep it full.
        let _ = fs::remove_file(&aside);
        return Err(error);
    }
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}
