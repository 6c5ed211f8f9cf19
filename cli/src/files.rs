//! Helpers for local files.

use std::io;
use std::path::Path;

/// Gives a file that was private while it was written the permissions of the user's new files, by
/// the `umask`.
#[cfg(unix)]
pub(crate) fn permit(path: &Path, executable: bool) -> io::Result<()> {
    use rustix::fs::Mode;
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    let all = if executable { 0o777 } else { 0o666 };
    Ok(rustix::fs::chmod(path, Mode::from_raw_mode(all) & !mask)?)
}

/// Does nothing: permissions are inherited.
#[cfg(not(unix))]
pub(crate) fn permit(_: &Path, _: bool) -> io::Result<()> {
    Ok(())
}
