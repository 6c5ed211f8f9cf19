//! The disk space that an attempt takes: checked at intervals while it runs and is not frozen, and
//! before its outputs are collected. The length of a single file and the standard streams have limits of their own.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::units::Bytes;

use crate::os::FileStamp;
use crate::os::files::{self, SeenEntry};

/// The shortest and the longest pause before the next check.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(60);
/// The checks take at most the part `1 / SHARE` of the time.
const SHARE: u32 = 100;

/// The limits of an attempt's directory; `None` means no limit.
#[derive(Debug, Clone)]
pub(super) struct DiskLimits {
    /// Disk space, in bytes. A hole in a file takes none.
    pub bytes: Option<u64>,
    /// The number of files and directories.
    pub files: Option<u64>,
    /// The files whose content is also the cache's. They take no disk space of the attempt's while
    /// they are as they were.
    pub shared: Arc<BTreeSet<FileStamp>>,
}

impl DiskLimits {
    /// Returns the limit that is exceeded below `dir` after the attempt, in words, or `None`. Stops
    /// counting once it knows.
    pub(super) fn exceeded(&self, dir: &Path) -> Option<String> {
        self.count(dir).exceeded
    }

    /// As [`Self::exceeded`], while processes of the attempt run: they may hold removed files, which are
    /// looked for among all processes of the system.
    fn exceeded_by_running(&self, dir: &Path) -> Option<String> {
        let mut count = self.count(dir);
        if count.exceeded.is_none() && self.bytes.is_some() {
            count.take(files::removed_below(dir));
        }

        count.exceeded
    }

    fn count(&self, dir: &Path) -> DiskCount<'_> {
        let mut count = DiskCount {
            limits: self,
            bytes: 0,
            files: 0,
            exceeded: None,
        };
        if self.bytes.is_some() || self.files.is_some() {
            files::look_below(dir, &mut |seen| count.add(seen));
        }

        count
    }

    /// Waits until a limit is exceeded, and returns it in words.
    pub(super) async fn until_exceeded(self, dir: PathBuf) -> String {
        let mut pause = SOONEST;
        loop {
            tokio::time::sleep(pause).await;
            let limits = self.clone();
            let dir = dir.clone();
            let look = move || {
                let start = Instant::now();
                (limits.exceeded_by_running(&dir), start.elapsed())
            };
            match tokio::task::spawn_blocking(look).await {
                Ok((Some(why), _)) => return why,
                Ok((None, took)) => pause = (took * SHARE).clamp(SOONEST, LATEST),
                Err(_) => pause = LATEST,
            }
        }
    }
}

/// The usage counted so far.
struct DiskCount<'a> {
    limits: &'a DiskLimits,
    bytes: u64,
    files: u64,
    exceeded: Option<String>,
}

impl DiskCount<'_> {
    fn add(&mut self, seen: SeenEntry) -> ControlFlow<()> {
        match seen {
            SeenEntry::Entry(bytes, stamp) => {
                self.files += 1;
                if !stamp.is_some_and(|stamp| self.limits.shared.contains(&stamp)) {
                    self.take(bytes);
                }
            }
            SeenEntry::TooDeep => {
                self.exceeded =
                    Some("its directories lie deeper in each other than is looked".to_owned());
            }
        }

        if let Some(limit) = self.limits.files.filter(|limit| self.files > *limit) {
            self.exceeded = Some(format!(
                "its directory holds more than the {limit} files that a task has here"
            ));
        }

        if self.exceeded.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn take(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some(limit) = self.limits.bytes.filter(|limit| self.bytes > *limit) {
            self.exceeded = Some(format!(
                "its files take more than the {} of disk that a task has here",
                Bytes(limit)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn limits(bytes: Option<u64>, files: Option<u64>) -> DiskLimits {
        DiskLimits {
            bytes,
            files,
            shared: Arc::default(),
        }
    }

    #[test]
    fn more_than_can_be_counted_exceeds_every_limit() {
        let dir = tempfile::tempdir().unwrap();
        let limits = limits(Some(1), None);
        let mut count = limits.count(dir.path());
        count.take(1);
        assert_eq!(count.exceeded, None);
        count.take(u64::MAX);
        assert!(count.exceeded.is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn shared_files_do_not_count_until_they_are_changed() {
        use std::io::Write;

        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("input");
        fs::write(&input, vec![1; 100_000]).unwrap();
        let stamp = crate::os::stamp_of(&fs::symlink_metadata(&input).unwrap());
        let limits = DiskLimits {
            shared: Arc::new(BTreeSet::from([stamp])),
            ..limits(Some(90_000), Some(1))
        };
        assert_eq!(limits.exceeded(dir.path()), None);

        let other = dir.path().join("other");
        fs::rename(&input, &other).unwrap();
        assert_eq!(limits.exceeded(dir.path()), None, "the same file");
        let mut file = File::options().append(true).open(&other).unwrap();
        file.write_all(b"more").unwrap();
        let why = limits.exceeded(dir.path());
        assert!(why.unwrap().contains("87.9 KiB"));
    }

    #[test]
    fn files_and_bytes_are_counted_and_holes_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let exceeded = |bytes, files| limits(bytes, files).exceeded(dir.path());
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("d/a"), vec![1; 100_000]).unwrap();

        // Where the system does not tell holes, they count.
        let hole = if cfg!(unix) { 1 << 40 } else { 1_000 };
        File::create(dir.path().join("hole"))
            .unwrap()
            .set_len(hole)
            .unwrap();
        assert_eq!(exceeded(Some(1_000_000), Some(3)), None);
        assert!(exceeded(Some(90_000), None).unwrap().contains("87.9 KiB"));
        assert!(exceeded(None, Some(2)).unwrap().contains("2 files"));
        assert_eq!(exceeded(None, None), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn removed_locked_and_deep_files_are_counted() {
        use std::io::Write;
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let exceeded = |bytes, files| limits(bytes, files).exceeded_by_running(dir.path());
        let mut file = File::create(dir.path().join("gone")).unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        fs::remove_file(dir.path().join("gone")).unwrap();
        assert_eq!(exceeded(Some(110_000), None), None);
        assert!(exceeded(Some(90_000), None).unwrap().contains("87.9 KiB"));

        // After the attempt nobody holds one: nobody is asked.
        assert_eq!(limits(Some(90_000), None).exceeded(dir.path()), None);

        drop(file);
        assert_eq!(exceeded(Some(90_000), None), None);

        let locked = dir.path().join("locked");
        fs::create_dir(&locked).unwrap();
        fs::write(locked.join("file"), [1; 100_000]).unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
        assert!(exceeded(Some(90_000), None).unwrap().contains("87.9 KiB"));
        assert_eq!(
            fs::metadata(&locked).unwrap().permissions().mode() & 0o777,
            0
        );

        // Deeper than a path may be long.
        let deep = "mkdir d; cd d; n=0; while [ $n -lt 300 ]; do mkdir dddddddddddddddd && cd -P . && cd dddddddddddddddd; \
                    n=$((n+1)); done";
        let made = std::process::Command::new("sh")
            .args(["-c", deep])
            .current_dir(dir.path())
            .status()
            .unwrap();
        assert!(made.success());
        assert!(exceeded(None, Some(1_000)).unwrap().contains("deeper"));
    }
}
