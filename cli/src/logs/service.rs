//! The log of a service, which has no standard error: a file that goes on from start to start, so
//! that why a service ended can be read in it afterwards. A full one is put aside, in the place of
//! the one before.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The size of a full file, in bytes.
const FULL: u64 = 4_000_000;

/// The file that is written.
pub(crate) struct ServiceLog {
    path: PathBuf,
    file: File,
    written: u64,
}

impl ServiceLog {
    /// Goes on with the file at `path`, or makes it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self {
            path: path.to_owned(),
            written: file.metadata()?.len(),
            file,
        })
    }

    /// Puts the full file aside. Where somebody holds it, it is emptied: a disk must not fill up.
    fn turn(&mut self) -> io::Result<()> {
        let _ = fs::rename(&self.path, self.path.with_extension("1.log"));
        *self = Self::open(&self.path)?;

        if self.written >= FULL {
            self.file.set_len(0)?;
            self.written = 0;
        }
        Ok(())
    }
}

impl io::Write for ServiceLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.written >= FULL {
            self.turn()?;
        }
        let written = self.file.write(line)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn why_a_service_ended_is_still_in_its_log_after_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("worker.log");
        for line in ["it ended for a reason\n", "it starts\n"] {
            ServiceLog::open(&path)
                .unwrap()
                .write_all(line.as_bytes())
                .unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap();
        assert_eq!(kept, "it ended for a reason\nit starts\n");
    }

    #[test]
    fn a_log_that_is_written_for_ever_keeps_the_newest_lines_and_a_bounded_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("worker.log");
        let line = |number: u64| format!("{number:099}\n");
        let lines = 5 * FULL / 100;
        let mut log = ServiceLog::open(&path).unwrap();
        for number in 0..lines {
            log.write_all(line(number).as_bytes()).unwrap();
        }

        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["worker.1.log", "worker.log"]);
        let oldest = fs::read_to_string(dir.path().join("worker.1.log")).unwrap();
        assert!(
            oldest.starts_with(&line(3 * FULL / 100)),
            "none is lost between"
        );
        let newest = fs::read_to_string(&path).unwrap();
        assert!(newest.ends_with(&line(lines - 1)));
        assert!(oldest.len() as u64 <= FULL + 100);
    }
}
