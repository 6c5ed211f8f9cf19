//! What the spool's log lies on: a file, or what a simulated world has instead. What is not here:
//! what the bytes mean.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use link::files::sync_dir;

use crate::os::files;

/// Bytes that can be made durable.
pub trait Medium: Debug + Send {
    /// All that is there.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self) -> io::Result<Vec<u8>>;

    /// Exactly so many bytes from this offset on.
    ///
    /// # Errors
    /// If they cannot be read.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all these bytes from this offset on, not durably.
    ///
    /// # Errors
    /// If they cannot be written; some of them may have been.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes it as long as this.
    ///
    /// # Errors
    /// If that cannot be done.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Makes durable what was written.
    ///
    /// # Errors
    /// If that is not so.
    fn sync(&mut self) -> io::Result<()>;

    /// Puts these bytes in the place of all others, durably: after a crash there are the old ones
    /// or the new.
    ///
    /// # Errors
    /// If the old ones are still there.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A file.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens the file, or begins it, in a directory that is made where it is missing.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join("log");
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
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&new)?;
        files::write_at(&file, bytes, 0)?;
        file.sync_all()?;

        // The old one is closed first: not every system replaces a file that is open.
        self.file = file;
        if let Err(error) = std::fs::rename(&new, &self.path) {
            self.file = OpenOptions::new().read(true).write(true).open(&self.path)?;
            return Err(error);
        }

        sync_dir(self.path.parent().unwrap_or(Path::new(".")))
    }
}
