//! What the worker asks of files beyond what every system has alike: rights, identity, kinds, and opening without being
//! led elsewhere.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Which file it is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(u64, u64);

/// Which file this is.
pub(crate) fn id_of(meta: &Metadata) -> FileId {
    FileId(meta.dev(), meta.ino())
}

/// How many names the file has.
pub(crate) fn names_of(meta: &Metadata) -> u64 {
    meta.nlink()
}

/// How much disk it takes, in bytes.
pub(crate) fn disk_of(meta: &Metadata) -> u64 {
    /// What the system counts in, whatever the file system does.
    const BLOCK: u64 = 512;
    meta.blocks() * BLOCK
}

/// Whether its owner may execute the file.
pub(crate) fn is_executable(meta: &Metadata) -> bool {
    meta.permissions().mode() & 0o100 != 0
}

/// What it is, where it is neither a regular file nor a directory.
pub(crate) fn kind_of(meta: &Metadata) -> &'static str {
    let kind = meta.file_type();
    match () {
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

/// Reads exactly these bytes from this offset on.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Writes all these bytes from this offset on.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Makes a directory that only this user may enter, and that was not there before.
pub(crate) fn make_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)
}

/// Lets other accounts pass through a directory, though not look around in it: every file and directory beside the way
/// is for this user alone.
pub(crate) fn let_through(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o711))
}

/// Makes a file of this user's that was not there before.
pub(crate) fn create_private(path: &Path, executable: bool) -> io::Result<File> {
    let mode = if executable { 0o700 } else { 0o600 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Opens a file for reading without following a symbolic link anywhere below `dir`, and without waiting for whoever
/// should write to a named pipe put there meanwhile.
pub(crate) fn open_below(dir: &Path, relative: &Path) -> io::Result<File> {
    let (no_link, none) = (OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty());
    let mut at: OwnedFd = openat(CWD, dir, no_link | OFlags::DIRECTORY, none)?;
    for name in relative.parent().into_iter().flat_map(Path::components) {
        at = openat(&at, name.as_os_str(), no_link | OFlags::DIRECTORY, none)?;
    }
    let name = relative.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(File::from(openat(&at, name, no_link | OFlags::NONBLOCK, none)?))
}

/// Gives this user all rights on every directory in a tree.
pub(crate) fn open_up(root: &Path) {
    let mut dirs: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        let _ = fs::set_permissions(&dir, Permissions::from_mode(0o700));
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        // `file_type` does not follow links.
        dirs.extend(entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
}
