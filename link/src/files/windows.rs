//! Rights and durability as Windows has them. What is private is so by where it lies: files inherit
//! who may read them from their directory, and a user's profile (or the directory that the
//! service's installation made) is open to that user, the system and administrators only. Nothing
//! here sets or checks an access list.
#![allow(unsafe_code)] // One question to the system that std does not ask.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;

/// For making a file with the rights of its directory: modes are not known here.
pub(super) fn options(_mode: u32) -> OpenOptions {
    OpenOptions::new()
}

/// Makes the content of a file durable: only a handle that may write can ask for it.
pub(crate) fn sync_file(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.sync_all()
}

/// Checks that the directory is there. Its names need nothing: the file system keeps a journal of
/// them, and offers no sync of a directory.
///
/// # Errors
/// If it is not there.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    let dir = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    if fs::metadata(dir)?.is_dir() {
        Ok(())
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// Makes a directory, and those above it. Who may enter is inherited from where it lies.
///
/// # Errors
/// If it cannot be made.
pub fn private_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// Whether the file is there: who may read it follows from its directory, and is not checked.
///
/// # Errors
/// If it is not there.
pub fn is_private(path: &Path) -> io::Result<bool> {
    fs::metadata(path).map(|_| true)
}

/// Whether the file is known to be open to others, which is not checked.
///
/// # Errors
/// If it is not there.
pub(super) fn is_open_to_others(path: &Path) -> io::Result<bool> {
    fs::metadata(path).map(|_| false)
}

/// Returns the bytes that this process can still write to the file system of `dir`.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let name: Vec<u16> = dir.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;

    // SAFETY: a string with its final zero and a pointer to a local; the other two answers are not
    // wanted.
    let known = unsafe {
        GetDiskFreeSpaceExW(
            name.as_ptr(),
            &raw mut free,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    if known == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(free)
    }
}
