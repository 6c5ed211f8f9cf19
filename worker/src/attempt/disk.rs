//! How much disk an attempt takes: looked at now and then while it runs, and before its outputs are collected. What is
//! not here: how long a single file may be, and how much is written to the standard streams; those have limits of their
//! own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use walkdir::WalkDir;

use crate::os::files;

/// How long after the start, and after a look, to look again at the soonest and at the latest.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(60);
/// Looking takes at most one part of so many of the time.
const SHARE: u32 = 100;

/// What an attempt's directory may hold; nothing means no limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskLimits {
    /// Disk, in bytes. A hole in a file takes none.
    pub bytes: Option<u64>,
    /// Files and directories.
    pub files: Option<u64>,
}

impl DiskLimits {
    /// What of it is exceeded below `dir`, in words; nothing if nothing is. Stops counting once it knows.
    pub(super) fn exceeded(self, dir: &Path) -> Option<String> {
        let (mut bytes, mut count) = (0_u64, 0_u64);
        if self.bytes.is_none() && self.files.is_none() {
            return None;
        }
        // What comes and goes while this looks does not count.
        for entry in WalkDir::new(dir).min_depth(1).into_iter().flatten() {
            count += 1;
            bytes += entry.metadata().map_or(0, |meta| files::disk_of(&meta));
            if let Some(limit) = self.files.filter(|limit| count > *limit) {
                return Some(format!("its directory holds more than the {limit} files that a task has here"));
            }
            if let Some(limit) = self.bytes.filter(|limit| bytes > *limit) {
                return Some(format!("its directory takes more than the {limit} bytes of disk that a task has here"));
            }
        }
        None
    }

    /// Waits until something is exceeded, and says what.
    pub(super) async fn until_exceeded(self, dir: PathBuf) -> String {
        let mut pause = SOONEST;
        loop {
            tokio::time::sleep(pause).await;
            let dir = dir.clone();
            let look = move || {
                let start = Instant::now();
                (self.exceeded(&dir), start.elapsed())
            };
            match tokio::task::spawn_blocking(look).await {
                Ok((Some(why), _)) => return why,
                Ok((None, took)) => pause = (took * SHARE).clamp(SOONEST, LATEST),
                Err(_) => pause = LATEST,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn files_and_bytes_are_counted_and_holes_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let exceeded = |bytes, files| DiskLimits { bytes, files }.exceeded(dir.path());
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("d/a"), vec![1; 100_000]).unwrap();
        // Where the system does not tell holes, they count.
        let hole = if cfg!(unix) { 1 << 40 } else { 1_000 };
        File::create(dir.path().join("hole")).unwrap().set_len(hole).unwrap();
        assert_eq!(exceeded(Some(1_000_000), Some(3)), None);
        assert!(exceeded(Some(90_000), None).unwrap().contains("90000 bytes"));
        assert!(exceeded(None, Some(2)).unwrap().contains("2 files"));
        assert_eq!(exceeded(None, None), None);
    }
}
