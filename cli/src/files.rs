//! Helpers for local files.

use std::io;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::OnceLock;

#[cfg(unix)]
use rustix::fs::Mode;
#[cfg(unix)]
use rustix::process::umask;

use crate::failure::Failure;

/// The mark with which editors on Windows begin a text in UTF-8. It is no part of the text.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Returns a text without the mark of its editor.
pub(crate) fn unmarked(mut text: Vec<u8>) -> Vec<u8> {
    if text.starts_with(MARK) {
        text.drain(..MARK.len());
    }
    text
}

/// Reads a text without the mark of its editor.
///
/// # Errors
/// If the file cannot be read, or is not UTF-8.
pub(crate) fn read_text(file: &Path) -> io::Result<String> {
    let text = unmarked(std::fs::read(file)?);
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
    String::from_utf8(text).map_err(not_text)
}

/// Makes `dir`, and finds before long work what would keep [`write_into`] from writing files of these `names` there
/// after it. Returns those that are there already, which without `force` stay as they are.
///
/// # Errors
/// If the directory cannot be made or written, or something else than a file has the place of one.
#[cfg(feature = "whole")]
pub fn ready_for(dir: &Path, force: bool, names: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    std::fs::create_dir_all(dir).map_err(|error| Failure::cannot("make", dir, &error))?;
    tempfile::tempfile_in(dir).map_err(|error| Failure::cannot("write into", dir, &error))?;

    let mut there = Vec::new();
    for path in names.iter().map(|name| dir.join(name)) {
        match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() || (!force && !meta.is_file()) => {
                let what = format!("{} is there already, and is no file", path.display());
                let hint = "write into another directory";
                return Err(Failure::error("exists", what, hint));
            }
            Ok(_) => there.push(path),
            Err(_) => {}
        }
    }
    Ok(there)
}

/// Writes files into `dir`, which is made if it is not there, by way of a directory that `write` is given.
/// Those that are there already and differ are replaced only with `force`; else nothing is written.
///
/// # Errors
/// Those of `write`; if there is another file of that name, or one cannot be written.
#[cfg(feature = "whole")]
pub fn write_into(
    dir: &Path,
    force: bool,
    write: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|error| Failure::cannot("make", dir, &error))?;
    let aside = tempfile::Builder::new()
        .prefix(".deskgrid-")
        .tempdir_in(dir);
    let aside = aside.map_err(|error| Failure::cannot("write into", dir, &error))?;
    write(aside.path())?;

    let written = std::fs::read_dir(aside.path())
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(|error| Failure::cannot("look into", aside.path(), &error))?;
    for new in written.iter().filter(|_| !force) {
        let path = dir.join(new.file_name());
        let is_other = match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() => {
                link::content::hash_file(&path)? != link::content::hash_file(&new.path())?
            }
            Ok(_) => true,
            Err(_) => false,
        };
        if is_other {
            return Err(Failure::error(
                "exists",
                format!("{} is there already and differs", path.display()),
                "write into another directory, or use --force",
            ));
        }
    }

    for new in written {
        let path = dir.join(new.file_name());
        std::fs::rename(new.path(), &path)
            .map_err(|error| Failure::cannot("write", &path, &error))?;
    }
    Ok(())
}

/// The permissions that new files of this process do not get, as [`note_umask`] read them.
#[cfg(unix)]
static WITHHELD: OnceLock<Mode> = OnceLock::new();

/// Reads the `umask`, while this process has one thread. The system tells it only to those who change it: what another
/// thread made in that moment would have other permissions.
#[cfg(unix)]
pub(crate) fn note_umask() {
    WITHHELD.get_or_init(|| {
        let withheld = umask(Mode::RWXG | Mode::RWXO);
        umask(withheld);
        withheld
    });
}

/// Does nothing: permissions are inherited.
#[cfg(not(unix))]
pub(crate) fn note_umask() {}

/// Gives a file that was private while it was written the permissions of the user's new files, by
/// the `umask`. It stays private where nobody has read that.
#[cfg(unix)]
pub(crate) fn permit(path: &Path, executable: bool) -> io::Result<()> {
    let withheld = WITHHELD.get().copied();
    let withheld = withheld.unwrap_or(Mode::RWXG | Mode::RWXO);
    let all = if executable { 0o777 } else { 0o666 };
    Ok(rustix::fs::chmod(
        path,
        Mode::from_raw_mode(all) & !withheld,
    )?)
}

/// Does nothing: permissions are inherited.
#[cfg(not(unix))]
pub(crate) fn permit(_: &Path, _: bool) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test's panic is its message")]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_stays_private_where_the_umask_was_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (executable, mode) in [(false, 0o600), (true, 0o700)] {
            permit(file.path(), executable).unwrap();
            let found = file.path().metadata().unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode);
        }
    }
}
