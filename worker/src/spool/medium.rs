//! The medium of the spool's log ([`Medium`]): a file, or its substitute in a simulation. The
//! format of the bytes is defined in `spool`.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use link::files::sync_dir;

use crate::os::files;

/// The log, in the spool's directory.
pub(crate) const LOG: &str = "log";

/// Bytes that can be made durable.
pub trait Medium: Debug + Send {
    /// Returns all bytes.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self) -> io::Result<Vec<u8>>;

    /// Reads exactly `bytes.len()` bytes from this offset on.
    ///
    /// # Errors
    /// If they cannot be read.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all these bytes from this offset on, not durably.
    ///
    /// # Errors
    /// If they cannot be written; some of them may have been.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Sets the length to `length`.
    ///
    /// # Errors
    /// If that cannot be done.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Makes all written bytes durable.
    ///
    /// # Errors
    /// If that fails.
    fn sync(&mut self) -> io::Result<()>;

    /// Replaces all bytes by these, durably: after a crash the old or the new ones are there.
    ///
    /// # Errors
    /// If that fails. The old bytes are still there if the disk was full.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A log in a file.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens or creates the file [`LOG`] in `dir`, and creates `dir` if it is missing.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join(LOG);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        sync_dir(dir)?;
        Ok(Self { path, file })
    }
}

impl Medium for LogFile {
    fn read(&self) -> io::Result<Vec<u8>> {
        std::fs::read(&self.path)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        files::read_at(&self.file, bytes, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        files::write_at(&self.file, bytes, offset)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let written = write_new(&new, bytes);
        let file = written.inspect_err(|_| drop(std::fs::remove_file(&new)))?;

        // The old file is closed first: not every system replaces an open file.
        self.file = file;
        if let Err(error) = std::fs::rename(&new, &self.path) {
            self.file = OpenOptions::new().read(true).write(true).open(&self.path)?;
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }

        // The new bytes are there: no error of this kind may say that the disk was full before.
        sync_dir(self.path.parent().unwrap_or(Path::new("."))).map_err(io::Error::other)
    }
}

/// Makes a file with these bytes, durably.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    files::write_at(&file, bytes, 0)?;
    file.sync_all()?;
    Ok(file)
}
