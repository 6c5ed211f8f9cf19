//! File operations of the worker that differ between systems: rights, identity, kinds, and opening
//! files without following links. What only Linux has is marked.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
#[cfg(target_os = "linux")]
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use link::files::unless_gone;
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::os::FileStamp;

/// The unit of `st_blocks`, in bytes, on every file system.
const BLOCK: u64 = 512;
/// The size of a directory that never had many entries, in bytes: larger ones stay slow.
#[cfg(target_os = "linux")]
const SMALL_DIR: i64 = 4096;
/// The flags that a file system sets by itself: that it maps a file by extents (`FS_EXTENT_FL`).
#[cfg(target_os = "linux")]
const USUAL_FLAGS: u32 = 0x0008_0000;

/// The identity of a file, whatever its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(u64, u64);

/// Returns the identity of this file.
pub(crate) fn id_of(meta: &Metadata) -> FileId {
    FileId(meta.dev(), meta.ino())
}

/// Shares the content of a file with a new, empty one, where the file system can: each has its own
/// from the first write on.
pub(crate) fn share(from: &File, to: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::fs::ioctl_ficlone(to, from)?);
    // macOS clones to a new name only.
    #[cfg(not(target_os = "linux"))]
    return Err((from, to)).map_err(|_| io::ErrorKind::Unsupported.into());
}

/// Lets every account read this user's file. A copy of it can be written to, as `cp` takes over the
/// mode.
pub(crate) fn let_read(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o644))
}

/// Returns the number of names (hard links) of the file.
pub(crate) fn names_of(meta: &Metadata) -> u64 {
    meta.nlink()
}

/// Returns the disk space that it takes, in bytes.
pub(crate) fn disk_of(meta: &Metadata) -> u64 {
    meta.blocks() * BLOCK
}

/// Whether its owner may execute the file.
pub(crate) fn is_executable(meta: &Metadata) -> bool {
    meta.permissions().mode() & 0o100 != 0
}

/// Describes a file that is neither a regular file nor a directory.
pub(crate) fn kind_of(meta: &Metadata) -> &'static str {
    let kind = meta.file_type();
    match () {
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

/// Reads exactly `bytes.len()` bytes from this offset on.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Writes all these bytes from this offset on.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Makes a new directory that only this user may enter.
pub(crate) fn make_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)
}

/// Makes an existing directory as one of [`make_private_dir`]. Returns whether it is: empty, this
/// user's alone, and without anything else that its last user could have left.
#[cfg(target_os = "linux")]
pub(crate) fn renew_dir(dir: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(CWD, dir, flags, Mode::empty())?;
    let meta = rustix::fs::fstat(&opened)?;

    // The owner first: from then on nobody else changes anything.
    let user = rustix::process::geteuid();
    let group = rustix::process::getegid();
    if (meta.st_uid, meta.st_gid) != (user.as_raw(), group.as_raw()) {
        rustix::fs::fchown(&opened, Some(user), Some(group))?;
    }
    if meta.st_mode & 0o7777 != 0o700 {
        rustix::fs::fchmod(&opened, Mode::RWXU)?;
    }

    let has_flags =
        rustix::fs::ioctl_getflags(&opened).is_ok_and(|flags| flags.bits() & !USUAL_FLAGS != 0);
    let mut names = [0; 256];
    let has_attributes = !matches!(
        rustix::fs::flistxattr(&opened, &mut names[..]),
        Ok(0) | Err(Errno::NOTSUP)
    );
    if has_flags || has_attributes || meta.st_size > SMALL_DIR {
        return Ok(false);
    }

    let mut space = [MaybeUninit::uninit(); 1024];
    let mut entries = rustix::fs::RawDir::new(&opened, &mut space);
    while let Some(entry) = entries.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns false: whether nothing of a directory's last user is left cannot be told here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn renew_dir(_dir: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Gives a directory with all that is in it to an account, but for files that are the worker's
/// under another name. Nothing of the account's runs yet. To be called where the worker's own
/// account is still at hand.
pub(in crate::os) fn hand_over(dir: &Path, user: u32, group: u32) -> io::Result<()> {
    for entry in walkdir::WalkDir::new(dir) {
        let entry = entry?;
        if !entry.file_type().is_file() || entry.metadata()?.nlink() == 1 {
            std::os::unix::fs::lchown(entry.path(), Some(user), Some(group))?;
        }
    }
    Ok(())
}

/// Lets other accounts pass through a directory without listing it: every other file and directory
/// in it is for this user alone.
pub(crate) fn let_through(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o711))
}

/// Lets nobody but this user into a directory.
pub(crate) fn keep_private(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o700))
}

/// Makes a new file that only this user may access.
pub(crate) fn create_private(path: &Path, executable: bool) -> io::Result<File> {
    let mode = if executable { 0o700 } else { 0o600 };
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
}

/// Takes the right to write to a file from everybody; every account may read it.
pub(crate) fn seal(file: &File, executable: bool) -> io::Result<()> {
    let mode = if executable { 0o555 } else { 0o444 };
    file.set_permissions(Permissions::from_mode(mode))
}

/// Takes the right to change a directory from everybody; every account may read it.
pub(crate) fn seal_dir(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o555))
}

/// Makes a symbolic link to this path.
pub(crate) fn make_link(target: &str, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

/// Returns what changes with a file: its kind and rights, its identity, its length, and the times of
/// its last changes.
pub(crate) fn marks_of(meta: &Metadata) -> [i64; 7] {
    [
        i64::from(meta.mode()),
        meta.ino().cast_signed(),
        meta.size().cast_signed(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    ]
}

const NO_LINK: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// Opens a file for reading without following a symbolic link anywhere below `dir`, and without
/// blocking on a named pipe that was put there meanwhile.
pub(crate) fn open_below(dir: &Path, relative: &Path) -> io::Result<File> {
    let (at, name) = directory_of(dir, relative)?;
    let none = Mode::empty();
    Ok(File::from(openat(
        &at,
        name,
        NO_LINK | OFlags::NONBLOCK,
        none,
    )?))
}

/// Opens the directory that a path below `dir` names a file in, without following a symbolic link; with the file's name.
fn directory_of<'p>(dir: &Path, relative: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
    let directory = NO_LINK | OFlags::DIRECTORY;
    let mut at: OwnedFd = openat(CWD, dir, directory, Mode::empty())?;
    for name in relative.parent().into_iter().flat_map(Path::components) {
        at = openat(&at, name.as_os_str(), directory, Mode::empty())?;
    }

    let name = relative.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok((at, name))
}

/// The length from which a file is moved, in bytes: what is smaller is copied as fast.
#[cfg(target_os = "linux")]
const MOVED: u64 = 1 << 20;

/// Moves the file that was opened at a path below `dir` to `to`, where only this account can open it. Returns
/// whether it is there and nobody can write to it, neither now nor later; else nothing is at `to`, and the file
/// is to be copied from `file`.
#[cfg(target_os = "linux")]
pub(crate) fn moved_for_good(dir: &Path, relative: &Path, file: &File, to: &Path) -> bool {
    let Ok(meta) = file.metadata() else {
        return false;
    };
    if meta.nlink() != 1 || meta.len() < MOVED {
        return false;
    }

    let moved = || {
        // Whoever owned it could open it again by a descriptor that was left somewhere.
        let user = rustix::process::geteuid();
        rustix::fs::fchown(file, Some(user), Some(rustix::process::getegid()))?;
        rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR)?;
        file.set_modified(SystemTime::now())?;

        let (at, name) = directory_of(dir, relative)?;
        renameat(&at, name, CWD, to)?;
        let there = fs::symlink_metadata(to)?;
        let same = id_of(&there) == id_of(&meta) && there.nlink() == 1;
        io::Result::Ok(same && crate::os::linux::nobody_writes(file)?)
    };
    if matches!(moved(), Ok(true)) {
        return true;
    }
    let _ = crate::os::remove_tree(to);
    false
}

/// The same: here it is always copied.
#[cfg(not(target_os = "linux"))]
pub(crate) fn moved_for_good(_dir: &Path, _relative: &Path, _file: &File, _to: &Path) -> bool {
    false
}

/// Visits everything below a directory without following links, whatever rights its owner took
/// away, and however long the paths are; stops when `each` breaks.
pub(crate) fn look_below(dir: &Path, each: &mut dyn FnMut(SeenEntry) -> ControlFlow<()>) {
    let Ok(root) = openat(CWD, dir, DIRECTORY, Mode::empty()) else {
        return;
    };
    let _ = below(&root, 0, each);
}

/// An entry that [`look_below`] visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenEntry {
    /// A file or directory that takes this much disk, in bytes. The stamp is that of
    /// [`crate::os::stamp_of`], where files can share their content.
    Entry(u64, Option<FileStamp>),
    /// A directory nested too deeply to be visited.
    TooDeep,
}

/// The most directories that are open at a time.
const DEPTH: u32 = 200;
const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

fn below(
    dir: &OwnedFd,
    depth: u32,
    each: &mut dyn FnMut(SeenEntry) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Ok(entries) = rustix::fs::Dir::read_from(dir) else {
        return ControlFlow::Continue(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }

        // Files that come and go meanwhile do not count.
        let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let bytes = u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK;
        each(SeenEntry::Entry(bytes, stamp(&stat)))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            continue;
        }

        if depth == DEPTH {
            each(SeenEntry::TooDeep)?;
        } else if let Ok(inner) = enter(dir, name) {
            below(&inner.dir, depth + 1, each)?;
        }
    }

    ControlFlow::Continue(())
}

/// Returns the stamp of a file; `None` for one that was changed before 1970.
#[cfg(target_os = "linux")]
fn stamp(stat: &Stat) -> Option<FileStamp> {
    let size = u64::try_from(stat.st_size).ok()?;
    let seconds = u64::try_from(stat.st_mtime).ok()?;
    let nanos = u32::try_from(stat.st_mtime_nsec).ok()?;
    let modified = UNIX_EPOCH.checked_add(Duration::new(seconds, nanos));
    Some((FileId(stat.st_dev, stat.st_ino), size, modified))
}

/// Returns `None`: files do not share their content here.
#[cfg(not(target_os = "linux"))]
fn stamp(_stat: &Stat) -> Option<FileStamp> {
    None
}

/// A directory opened for visiting.
struct OpenedDir {
    dir: OwnedFd,
    #[cfg(target_os = "linux")]
    _unlocked: Option<Unlocked>,
}

/// A directory whose mode forbade its owner to open it. The mode is restored when this is dropped.
#[cfg(target_os = "linux")]
struct Unlocked(OwnedFd, Mode);

#[cfg(target_os = "linux")]
impl Drop for Unlocked {
    fn drop(&mut self) {
        let _ = rustix::fs::chmod(itself(&self.0), self.1);
    }
}

/// Returns a name for the opened file itself, whatever its own name stands for by now.
#[cfg(target_os = "linux")]
fn itself(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Opens a directory, also if its mode forbids that to its owner.
fn enter(dir: &OwnedFd, name: &CStr) -> io::Result<OpenedDir> {
    let may = rustix::fs::accessat(
        dir,
        name,
        Access::READ_OK | Access::EXEC_OK,
        AtFlags::empty(),
    );

    if may != Err(Errno::ACCESS) {
        return Ok(OpenedDir {
            dir: openat(dir, name, DIRECTORY, Mode::empty())?,
            #[cfg(target_os = "linux")]
            _unlocked: None,
        });
    }
    unlock(dir, name)
}

/// Opens a directory whose mode forbids that. The mode stays changed: what it is of cannot be named
/// without its name here.
#[cfg(not(target_os = "linux"))]
fn unlock(dir: &OwnedFd, name: &CStr) -> io::Result<OpenedDir> {
    rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)?;
    let dir = openat(dir, name, DIRECTORY, Mode::empty())?;
    Ok(OpenedDir { dir })
}

/// Opens a directory whose mode forbids that, and gives it its mode back later.
#[cfg(target_os = "linux")]
fn unlock(dir: &OwnedFd, name: &CStr) -> io::Result<OpenedDir> {
    let locked = openat(dir, name, DIRECTORY | OFlags::PATH, Mode::empty())?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&locked)?.st_mode & 0o7777);
    rustix::fs::chmod(itself(&locked), mode | Mode::RWXU)?;

    let unlocked = Unlocked(locked, mode);
    let dir = openat(
        CWD,
        itself(&unlocked.0),
        DIRECTORY & !OFlags::NOFOLLOW,
        Mode::empty(),
    )?;
    Ok(OpenedDir {
        dir,
        _unlocked: Some(unlocked),
    })
}

/// Removes a file, or a directory with everything below it: whatever rights its owner took away, however
/// long the paths are, and however deep directories lie in each other. Does not follow links.
pub(in crate::os) fn remove_tree(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let name = CString::new(name.as_bytes())?;
    let above = openat(CWD, path.with_file_name("."), DIRECTORY, Mode::empty())?;
    if !is_dir(&above, &name)? {
        return Ok(unlinkat(&above, &*name, AtFlags::empty())?);
    }

    remove_dir(&above, &name)
}

fn remove_dir(above: &OwnedFd, name: &CStr) -> io::Result<()> {
    let top = open_wholly(above, name)?;
    let mut names = 0;
    loop {
        let before = names;
        let emptied = empty(&top, &top, 0, &mut names);
        // What was moved to the top may not have been looked at yet.
        if names == before {
            emptied?;
            return Ok(unlinkat(above, name, AtFlags::REMOVEDIR)?);
        }
    }
}

/// The most directories in each other that [`remove_tree`] has open: what lies deeper is moved up.
const REMOVAL_DEPTH: u32 = 16;

/// Removes what can be removed of a directory's content, and returns the first error. A directory that
/// lies too deep is moved to `top`; `names` counts those that it can no longer have there.
fn empty(dir: &OwnedFd, top: &OwnedFd, depth: u32, names: &mut u64) -> io::Result<()> {
    let mut done = Ok(());
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }

        let removed = match entry.file_type() {
            FileType::Directory | FileType::Unknown => remove_entry(dir, name, top, depth, names),
            _ => unlinkat(dir, name, AtFlags::empty()).map_err(io::Error::from),
        };
        done = done.and(unless_gone(removed).map(drop));
    }
    done
}

fn remove_entry(
    dir: &OwnedFd,
    name: &CStr,
    top: &OwnedFd,
    depth: u32,
    names: &mut u64,
) -> io::Result<()> {
    if !is_dir(dir, name)? {
        return Ok(unlinkat(dir, name, AtFlags::empty())?);
    }

    // Only who may write to a directory can move it, too.
    let inner = open_wholly(dir, name)?;
    if depth < REMOVAL_DEPTH {
        empty(&inner, top, depth + 1, names)?;
        return Ok(unlinkat(dir, name, AtFlags::REMOVEDIR)?);
    }
    while let Err(error) = renameat(dir, name, top, names.to_string()) {
        match error {
            Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR => *names += 1,
            // On another volume or of another project: it is a top for what is below it.
            Errno::XDEV => return remove_dir(dir, name),
            error => return Err(error.into()),
        }
    }
    *names += 1;
    Ok(())
}

fn is_dir(dir: &OwnedFd, name: &CStr) -> io::Result<bool> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Opens a directory, and leaves its owner with all rights on it.
fn open_wholly(dir: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let opened = enter(dir, name)?.dir;
    // Where rights are missing then, the removal says so.
    let _ = rustix::fs::fchmod(&opened, Mode::RWXU);
    Ok(opened)
}

/// Returns the disk space of files that were below a directory and are removed, but still open or
/// mapped by processes of the account that the directory belongs to.
pub(crate) fn removed_below(dir: &Path) -> u64 {
    removed_of(Path::new("/proc"), dir)
}

fn removed_of(processes: &Path, dir: &Path) -> u64 {
    let Ok(meta) = fs::metadata(dir) else {
        return 0;
    };
    let mut found = BTreeMap::new();
    for process in fs::read_dir(processes).into_iter().flatten().flatten() {
        let is_process = process
            .file_name()
            .as_encoded_bytes()
            .first()
            .is_some_and(u8::is_ascii_digit);
        if is_process && process.metadata().is_ok_and(|of| of.uid() == meta.uid()) {
            held_open(&process.path(), dir, meta.dev(), &mut found);
            held_in_memory(&process.path(), dir, &mut found);
        }
    }

    // A mapping may end almost anywhere, and several of them beyond what can be counted.
    found.into_values().fold(0, u64::saturating_add)
}

/// The suffix that the kernel adds to the name of a removed file.
const REMOVED: &[u8] = b" (deleted)";

fn lay_below(name: &[u8], dir: &Path) -> bool {
    let dir = dir.as_os_str().as_bytes();
    name.strip_prefix(dir)
        .is_some_and(|rest| rest.starts_with(b"/") && rest.ends_with(REMOVED))
}

/// Adds removed files that `process` holds as open descriptors.
fn held_open(process: &Path, dir: &Path, device: u64, found: &mut BTreeMap<u64, u64>) {
    for fd in fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let ours =
            fs::read_link(fd.path()).is_ok_and(|name| lay_below(name.as_os_str().as_bytes(), dir));
        if let Some(meta) = ours.then(|| fs::metadata(fd.path()).ok()).flatten()
            && (meta.nlink(), meta.dev()) == (0, device)
        {
            found.insert(meta.ino(), disk_of(&meta));
        }
    }
}

/// Adds removed files that `process` has mapped, each up to its last mapped byte. An open
/// descriptor gives a better number.
fn held_in_memory(process: &Path, dir: &Path, found: &mut BTreeMap<u64, u64>) {
    let Ok(maps) = fs::read(process.join("maps")) else {
        return;
    };
    for line in maps.split(|byte| *byte == b'\n') {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let mut text = || {
            fields
                .next()
                .and_then(|field| std::str::from_utf8(field).ok())
        };
        let (Some(range), Some(_), Some(offset), Some(_), Some(inode)) =
            (text(), text(), text(), text(), text())
        else {
            continue;
        };

        let name = fields.next().unwrap_or_default().trim_ascii_start();
        let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let ends = range
            .split_once('-')
            .and_then(|(start, end)| hex(end)?.checked_sub(hex(start)?));

        if let (true, Some(length), Some(offset), Ok(inode)) =
            (lay_below(name, dir), ends, hex(offset), inode.parse())
        {
            let end = found.entry(inode).or_default();
            *end = (*end).max(offset.saturating_add(length));
        }
    }
}

/// Gives this user back the rights on their own directories and files in a tree; returns the number
/// of repaired ones. Everything at the `spared` paths stays as it is.
pub(crate) fn repair(root: &Path, spared: &[PathBuf]) -> u64 {
    let mut rest = vec![root.to_owned()];
    let mut repaired = 0;
    while let Some(path) = rest.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        let kind = meta.file_type();
        let mode = meta.permissions().mode();

        if spared.contains(&path) || !(kind.is_dir() || kind.is_file()) {
            continue;
        }

        let (needed, given) = if kind.is_dir() {
            (0o700, 0o700)
        } else {
            (0o400, 0o600)
        };
        if mode & needed != needed {
            repaired +=
                u64::from(fs::set_permissions(&path, Permissions::from_mode(mode | given)).is_ok());
        }

        if kind.is_dir() {
            rest.extend(
                fs::read_dir(&path)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.path()),
            );
        }
    }

    repaired
}

/// Gives this user all rights on every directory in a tree.
pub(crate) fn open_up(root: &Path) {
    let mut dirs: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        let _ = fs::set_permissions(&dir, Permissions::from_mode(0o700));
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };

        // `file_type` does not follow links.
        dirs.extend(
            entries
                .flatten()
                .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
                .map(|e| e.path()),
        );
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::mkdirat;

    use super::*;

    /// Makes directories in each other, each with this name, and returns the innermost.
    fn nested(dir: &Path, name: &str, times: usize) -> OwnedFd {
        let mut at = openat(CWD, dir, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..times {
            mkdirat(&at, name, Mode::RWXU).unwrap();
            at = openat(&at, name, DIRECTORY, Mode::empty()).unwrap();
        }
        at
    }

    #[test]
    fn a_directory_is_removed_however_deep_long_and_locked_its_content_is() {
        let top = tempfile::tempdir().unwrap();
        let tree = top.path().join("tree");
        fs::create_dir(&tree).unwrap();
        // A name that could be given to a directory on its way up.
        fs::write(tree.join("0"), "").unwrap();

        // Longer than a path may be, with a directory at its end into which nobody may look.
        let innermost = nested(&tree, &"n".repeat(250), 17);
        mkdirat(&innermost, "x", Mode::RWXU).unwrap();
        mkdirat(&innermost, "x/y", Mode::RWXU).unwrap();
        let locked = openat(&innermost, "x", DIRECTORY, Mode::empty()).unwrap();
        rustix::fs::fchmod(locked, Mode::empty()).unwrap();
        // More than a process may have open, and than its stack could hold.
        nested(&tree, "d", 10_000);

        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn a_link_is_removed_and_what_it_leads_to_stays() {
        let top = tempfile::tempdir().unwrap();
        let [kept, tree, link] = ["kept", "tree", "link"].map(|name| top.path().join(name));
        [&kept, &tree]
            .into_iter()
            .for_each(|dir| fs::create_dir(dir).unwrap());
        fs::write(kept.join("file"), "").unwrap();
        for at in [&link, &tree.join("link")] {
            std::os::unix::fs::symlink(&kept, at).unwrap();
        }

        remove_tree(&link).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && fs::symlink_metadata(&link).is_err());
        assert!(kept.join("file").exists());
    }

    #[test]
    fn files_that_are_mapped_at_their_furthest_end_do_not_add_up_to_nothing() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("dir");
        let process = top.path().join("proc/7");
        [&dir, &process]
            .into_iter()
            .for_each(|dir| fs::create_dir_all(dir).unwrap());
        let map = |offset: &str, inode: u8| {
            let name = dir.join("gone (deleted)");
            format!("1000-2000 r--s {offset} 00:01 {inode} {}\n", name.display())
        };
        let maps = map("7ffffffffffff000", 1) + &map("7ffffffffffff000", 2);
        fs::write(process.join("maps"), maps).unwrap();
        assert_eq!(removed_of(&top.path().join("proc"), &dir), u64::MAX);

        fs::write(process.join("maps"), map("fffffffffffff000", 3)).unwrap();
        assert_eq!(removed_of(&top.path().join("proc"), &dir), u64::MAX);
    }

    #[test]
    fn rights_that_a_task_removed_are_restored_at_the_start() {
        let top = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        let close = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
        let dir = top.path().join("worker");
        let foreign = top.path().join("foreign");
        let (identity, attempts, key) = (
            dir.join("identity"),
            dir.join("attempts"),
            dir.join("identity/key"),
        );
        [&identity, &attempts]
            .into_iter()
            .for_each(|dir| fs::create_dir_all(dir).unwrap());

        [&key, &foreign]
            .into_iter()
            .for_each(|file| fs::write(file, "x").unwrap());
        std::os::unix::fs::symlink(&foreign, dir.join("link")).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o711)).unwrap();
        assert_eq!(repair(&dir, std::slice::from_ref(&attempts)), 0);
        assert_eq!(mode(&dir), 0o711);

        [&key, &identity, &attempts, &foreign, &dir]
            .into_iter()
            .for_each(|path| close(path));
        assert_eq!(repair(&dir, std::slice::from_ref(&attempts)), 3);
        assert_eq!(
            [&dir, &identity, &key].map(|path| mode(path)),
            [0o700, 0o700, 0o600]
        );
        assert_eq!(mode(&foreign), 0, "it is only linked to");
    }
}
