//! Helpers for local files.

use std::io;
use std::path::Path;

/// Gives a file that was private while it was written the permissions of the user's new files, by
/// the `umask`.
#[cfg(unix)]
pub(crate) fn permit(path: &Path, executable: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    let mode = if executable { 0o777 } else { 0o666 } & !mask.as_raw_mode();
    #[allow(clippy::useless_conversion)] // Modes of macOS have 16 bits.
    let mode = mode.into();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Does nothing: permissions are inherited.
#[cfg(not(unix))]
pub(crate) fn permit(_: &Path, _: bool) -> io::Result<()> {
    Ok(())
}
