//! File operations of the worker that differ between systems. Rights are inherited from the
//! worker's directory: see `link::files`.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_REPARSE_POINT, FILE_FLAG_OPEN_REPARSE_POINT,
};

/// The identity of a file: its times of creation and of the last write, in the system's ticks. Two
/// files with the same times are taken for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(u64, u64);

/// Returns the identity of this file.
pub(crate) fn id_of(meta: &Metadata) -> FileId {
    FileId(meta.creation_time(), meta.last_write_time())
}

/// Sharing content is not known here.
pub(crate) fn share(_from: &File, _to: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Accounts are not told apart here.
pub(crate) fn let_read(_path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the number of names of the file: always one, because the true number cannot be read
/// without opening it. A task can read any file that it could give a second name.
pub(crate) fn names_of(_meta: &Metadata) -> u64 {
    1
}

/// Returns the disk space that it takes, in bytes: its length, holes included.
pub(crate) fn disk_of(meta: &Metadata) -> u64 {
    meta.len()
}

/// Whether its owner may execute the file: Windows goes by the name, and the mark is for systems
/// that do not.
pub(crate) fn is_executable(_meta: &Metadata) -> bool {
    false
}

/// Describes a file that is neither a regular file nor a directory.
pub(crate) fn kind_of(meta: &Metadata) -> &'static str {
    if meta.file_type().is_symlink() {
        "a symbolic link"
    } else {
        "a device"
    }
}

/// Reads exactly `bytes.len()` bytes from this offset on.
pub(crate) fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_read(bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => (bytes, offset) = (&mut bytes[count..], offset + count as u64),
        }
    }
    Ok(())
}

/// Writes all these bytes from this offset on.
pub(crate) fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => (bytes, offset) = (&bytes[count..], offset + count as u64),
        }
    }
    Ok(())
}

/// Makes a new directory.
pub(crate) fn make_private_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir(dir)
}

/// Takes no directory for a new one: what its last user may have changed of its rights is not looked at.
pub(crate) fn renew_dir(_dir: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Does nothing: no task has another account on Windows.
pub(crate) fn let_through(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Rights come from the worker's directory.
pub(crate) fn keep_private(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes a new file.
pub(crate) fn create_private(path: &Path, _executable: bool) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Files of trees keep their rights here: each attempt gets a copy.
pub(crate) fn seal(_file: &File, _executable: bool) -> io::Result<()> {
    Ok(())
}

/// Directories of trees keep their rights here.
pub(crate) fn seal_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Puts a copy of the file at the place of a symbolic link to it: to make links needs a right here
/// that workers do not have.
pub(crate) fn make_link(target: &str, at: &Path) -> io::Result<()> {
    let from = at.parent().unwrap_or(at).join(target);
    if from.is_dir() {
        let why = format!(
            "`{}` is a symbolic link to a directory, which this system has not",
            at.display()
        );
        return Err(io::Error::other(why));
    }
    std::fs::copy(from, at).map(drop)
}

/// Returns what changes with a file: its kind and rights, its length, and the times at which it was
/// made and last changed.
pub(crate) fn marks_of(meta: &Metadata) -> [i64; 4] {
    [
        i64::from(meta.file_attributes()),
        meta.file_size().cast_signed(),
        meta.creation_time().cast_signed(),
        meta.last_write_time().cast_signed(),
    ]
}

/// Opens a file for reading without following a link or junction anywhere below `dir`. A directory
/// that is exchanged for one between the look and the opening is not noticed: nothing of the
/// attempt runs any more where it matters.
pub(crate) fn open_below(dir: &Path, relative: &Path) -> io::Result<File> {
    let leads_elsewhere =
        |meta: &Metadata| meta.file_attributes() & FILE_ATTRIBUTE_REPARSE_POINT != 0;

    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "a link leads elsewhere");
    let mut at: PathBuf = dir.to_owned();
    for name in relative.parent().into_iter().flat_map(Path::components) {
        at.push(name);
        if leads_elsewhere(&fs::symlink_metadata(&at)?) {
            return Err(refused());
        }
    }

    at.push(relative.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
        .open(&at)?;
    if leads_elsewhere(&file.metadata()?) {
        Err(refused())
    } else {
        Ok(file)
    }
}

/// Whether the file was moved to `to`, where nobody can write to it: here it is always copied.
pub(crate) fn moved_for_good(_dir: &Path, _relative: &Path, _file: &File, _to: &Path) -> bool {
    false
}

/// Removes a file, or a directory and its content, also what is marked read-only.
pub(in crate::os) fn remove_tree(path: &Path) -> io::Result<()> {
    let remove = || match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match remove() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path);
            remove()
        }
        done => done,
    }
}

/// Makes everything in a tree removable by clearing the read-only mark.
pub(crate) fn open_up(root: &Path) {
    let mut dirs: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            // Of the entry itself: links are not followed.
            let Ok(meta) = entry.metadata() else { continue };
            let mut rights = meta.permissions();
            if rights.readonly() && !meta.file_type().is_symlink() {
                #[allow(clippy::permissions_set_readonly_false)] // What it warns of is Unix's.
                rights.set_readonly(false);
                let _ = fs::set_permissions(entry.path(), rights);
            }
            if meta.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("a");
        let file = dir.path().join("a/b/c");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "x").unwrap();
        let mut rights = fs::metadata(&file).unwrap().permissions();
        rights.set_readonly(true);
        fs::set_permissions(&file, rights).unwrap();
        crate::os::remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        crate::os::remove_tree(&tree).unwrap();
    }

    #[test]
    fn bytes_are_read_and_written_at_offsets_and_no_further() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        write_at(&file, b"0123456789", 0).unwrap();
        write_at(&file, b"ab", 4).unwrap();

        let mut bytes = [0; 4];
        read_at(&file, &mut bytes, 3).unwrap();
        assert_eq!(&bytes, b"3ab6");
        assert_eq!(
            read_at(&file, &mut bytes, 8).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(fs::read(open_path(dir.path())).unwrap(), b"0123ab6789");
    }

    fn open_path(dir: &Path) -> PathBuf {
        open_below(dir, Path::new("log")).unwrap();
        dir.join("log")
    }
}

/// Looks at everything below a directory without following links; stops where `each` says so.
pub(crate) fn look_below(dir: &Path, each: &mut dyn FnMut(SeenEntry) -> std::ops::ControlFlow<()>) {
    for entry in walkdir::WalkDir::new(dir)
        .min_depth(1)
        .into_iter()
        .flatten()
    {
        let bytes = entry.metadata().map_or(0, |meta| disk_of(&meta));
        if each(SeenEntry::Entry(bytes, None)).is_break() {
            return;
        }
    }
}

/// An entry that [`look_below`] visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenEntry {
    /// A file or directory that takes so much disk, in bytes; without a stamp, since files do not share
    /// their content here.
    Entry(u64, Option<crate::os::FileStamp>),
    /// A directory in more of them than are looked into: none is, here.
    #[allow(dead_code)] // Another system's limit.
    TooDeep,
}

/// Returns the disk space of removed files that are held open: none, because an open file keeps its
/// name here.
pub(crate) fn removed_below(_dir: &Path) -> u64 {
    0
}

/// Gives this user back what rights somebody took away: tasks cannot do that here by a mode.
pub(crate) fn repair(_root: &Path, _spared: &[PathBuf]) -> u64 {
    0
}
