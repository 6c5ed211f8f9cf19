//! Rights and durability as Unix has them: modes, and directories that are synced like files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// For making a file with this mode.
pub(super) fn options(mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(mode);
    options
}

/// Makes the content of a file durable.
pub(crate) fn sync_file(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes the names in a directory durable.
///
/// # Errors
/// If the directory cannot be opened or synced.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Makes a directory, and those above it, that only we may enter.
///
/// # Errors
/// If it cannot be made.
pub fn private_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}

/// Whether nobody but the owner may read the file.
///
/// # Errors
/// If it is not there.
pub fn is_private(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 == 0)
}

/// Whether other accounts may read the file. A group may read what belongs to root: that is how a file
/// is given to the account of a service.
///
/// # Errors
/// If it is not there.
pub(super) fn is_open_to_others(path: &Path) -> io::Result<bool> {
    let meta = fs::metadata(path)?;
    let shared = if meta.uid() == 0 { 0o007 } else { 0o077 };
    Ok(meta.permissions().mode() & shared != 0)
}

/// Returns the bytes that this process can still write to the file system of `dir`.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stats = rustix::fs::statvfs(dir)?;
    Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
}
