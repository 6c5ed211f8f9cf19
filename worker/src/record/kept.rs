//! Availability intervals on their way to the master, in a file, until the master has them.
//! Bounded: the oldest are dropped first. Not synced: they are not worth waking the disk of a PC
//! for.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use common::Time;
use common::availability::AvailabilityInterval;
use common::journal;
use serde::{Deserialize, Serialize};

/// The file is written anew once it is longer than this, in bytes, and mostly of no use.
const REWRITE_ABOVE: u64 = 64 * 1024;

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
enum KeptLine {
    /// The next number, and the end of the recorded time.
    Base { next: u64, until: Time },
    /// An interval with its number.
    Stretch(u64, AvailabilityInterval),
    /// Records after this time are void: the clock was wrong.
    ForgetAfter(Time),
}

/// The intervals that the master does not have yet.
#[derive(Debug)]
pub(crate) struct UnsentIntervals {
    path: PathBuf,
    file: File,
    bytes: u64,
    limit: usize,
    pending: VecDeque<(u64, AvailabilityInterval)>,
    next: u64,
    until: Time,
}

impl UnsentIntervals {
    /// Opens or creates the file. Damaged entries, and everything after them, are left out.
    pub(crate) fn open(path: &Path, limit: usize) -> io::Result<Self> {
        let bytes = link::files::unless_gone(fs::read(path))?.unwrap_or_default();
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let mut kept = Self {
            path: path.to_owned(),
            file,
            bytes: 0,
            limit,
            pending: VecDeque::new(),
            next: 1,
            until: Time(0),
        };

        let mut at = 0;
        loop {
            match journal::first::<KeptLine>(&bytes[at..]) {
                Ok(Some((entry, length))) => {
                    kept.take(entry);
                    at += length;
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "the rest of what was recorded cannot be read");
                    break;
                }
            }
        }

        kept.rewrite()?;
        Ok(kept)
    }

    fn take(&mut self, entry: KeptLine) {
        match entry {
            KeptLine::Base { next, until } => (self.next, self.until) = (next, until),
            KeptLine::Stretch(number, stretch) => {
                self.next = self.next.max(number.saturating_add(1));
                self.until = stretch.end;
                self.pending.push_back((number, stretch));
                if self.pending.len() > self.limit {
                    self.pending.pop_front();
                }
            }
            KeptLine::ForgetAfter(time) => {
                self.pending.retain(|(_, stretch)| stretch.end <= time);
                self.until = self.until.min(time);
            }
        }
    }

    /// Returns the end of the recorded time.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// Keeps a complete interval.
    pub(crate) fn add(&mut self, stretch: AvailabilityInterval) -> io::Result<()> {
        self.write(KeptLine::Stretch(self.next, stretch))
    }

    /// Drops the intervals that a wrong clock recorded.
    pub(crate) fn forget_after(&mut self, time: Time) -> io::Result<()> {
        self.write(KeptLine::ForgetAfter(time))
    }

    fn write(&mut self, entry: KeptLine) -> io::Result<()> {
        let mut bytes = Vec::new();
        journal::append(&entry, &mut bytes).map_err(io::Error::other)?;
        self.take(entry);
        self.bytes += bytes.len() as u64;
        // Half an entry, from a full disk, ends the readable part: the file is rewritten at the
        // next chance.
        self.file
            .write_all(&bytes)
            .inspect_err(|_| self.bytes = u64::MAX / 2)?;
        self.rewrite_if_due()
    }

    /// Returns the oldest intervals, at most `most`, with the number of the last of them.
    pub(crate) fn batch(&self, most: usize) -> Option<(u64, Vec<AvailabilityInterval>)> {
        let batch = self.pending.iter().take(most);
        let last = self
            .pending
            .get(most.saturating_sub(1))
            .or(self.pending.back())?
            .0;
        Some((last, batch.map(|(_, stretch)| stretch.clone()).collect()))
    }

    /// Drops the intervals up to this number, which the master has.
    pub(crate) fn acknowledge(&mut self, last: u64) -> io::Result<()> {
        while self
            .pending
            .front()
            .is_some_and(|(number, _)| *number <= last)
        {
            self.pending.pop_front();
        }
        if self.pending.is_empty() {
            self.rewrite()
        } else {
            self.rewrite_if_due()
        }
    }

    fn rewrite_if_due(&mut self) -> io::Result<()> {
        // An entry seldom takes less than this.
        let useful = self.pending.len() as u64 * 24;
        if self.bytes > REWRITE_ABOVE && self.bytes / 4 > useful {
            self.rewrite()
        } else {
            Ok(())
        }
    }

    /// Writes the pending intervals, and nothing else, into a new file.
    fn rewrite(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut append =
            |entry: &KeptLine| journal::append(entry, &mut bytes).map_err(io::Error::other);
        let base = KeptLine::Base {
            next: self.next,
            until: self.until,
        };
        append(&base)?;

        let mut until = Time(0);
        for (number, stretch) in &self.pending {
            append(&KeptLine::Stretch(*number, stretch.clone()))?;
            until = stretch.end;
        }

        if until != self.until {
            append(&base)?;
        }

        let new = self.path.with_extension("new");
        fs::write(&new, &bytes)?;

        // The old file is closed first: not every system replaces an open file.
        self.file = OpenOptions::new().append(true).open(&new)?;
        if let Err(error) = fs::rename(&new, &self.path) {
            self.file = OpenOptions::new().append(true).open(&self.path)?;
            return Err(error);
        }

        self.bytes = bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::host::OwnerState;

    fn stretch(start: u64) -> AvailabilityInterval {
        AvailabilityInterval::of(Time(start), Time(start + 10), OwnerState::Away, 1.0)
    }

    fn starts(kept: &UnsentIntervals) -> Vec<u64> {
        kept.batch(usize::MAX)
            .map_or_else(Vec::new, |(_, all)| all.iter().map(|s| s.start.0).collect())
    }

    fn with(starts: &[u64], limit: usize) -> (tempfile::TempDir, PathBuf, UnsentIntervals) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("availability");
        let mut kept = UnsentIntervals::open(&path, limit).unwrap();
        starts
            .iter()
            .for_each(|start| kept.add(stretch(*start)).unwrap());
        (dir, path, kept)
    }

    #[test]
    fn undelivered_intervals_are_kept_over_a_restart() {
        let (_dir, path, mut kept) = with(&[10, 20, 30, 40], 100);
        assert_eq!(
            kept.batch(3).map(|(last, all)| (last, all.len())),
            Some((3, 3))
        );
        kept.acknowledge(2).unwrap();
        drop(kept);

        let mut kept = UnsentIntervals::open(&path, 100).unwrap();
        // An acknowledgement is not written down: what was sent before is sent again, and is there
        // once.
        kept.acknowledge(2).unwrap();
        assert_eq!((starts(&kept), kept.until()), (vec![30, 40], Time(50)));
        kept.acknowledge(9).unwrap();
        assert_eq!(kept.batch(3), None);
        drop(kept);

        let mut kept = UnsentIntervals::open(&path, 100).unwrap();
        assert_eq!(
            (kept.batch(3), kept.until()),
            (None, Time(50)),
            "what was recorded is not recorded again"
        );
        kept.add(stretch(60)).unwrap();
        assert_eq!(kept.batch(3), Some((5, vec![stretch(60)])), "numbers rise");
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_and_the_file_stays_small() {
        let all: Vec<u64> = (0..20_000).map(|n| n * 10).collect();
        let (_dir, path, kept) = with(&all, 50);
        assert_eq!(starts(&kept), all[19_950..]);
        assert!(fs::metadata(&path).unwrap().len() < 2 * REWRITE_ABOVE);
        drop(kept);
        assert_eq!(
            starts(&UnsentIntervals::open(&path, 50).unwrap()),
            all[19_950..]
        );
    }

    #[test]
    fn a_torn_or_damaged_end_is_left_out() {
        let (_dir, path, kept) = with(&[10, 20], 100);
        drop(kept);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        let mut kept = UnsentIntervals::open(&path, 100).unwrap();
        assert_eq!(starts(&kept), [10]);
        kept.add(stretch(70)).unwrap();
        drop(kept);
        assert_eq!(
            starts(&UnsentIntervals::open(&path, 100).unwrap()),
            [10, 70]
        );
        fs::write(&path, b"\x05\0\0\0nonsense and more").unwrap();
        assert_eq!(UnsentIntervals::open(&path, 100).unwrap().batch(1), None);
    }

    #[test]
    fn intervals_of_a_wrong_clock_are_deleted() {
        let (_dir, path, mut kept) = with(&[10, 20, 5_000, 6_000], 100);
        kept.forget_after(Time(100)).unwrap();
        kept.add(stretch(110)).unwrap();
        assert_eq!(starts(&kept), [10, 20, 110]);
        drop(kept);
        let kept = UnsentIntervals::open(&path, 100).unwrap();
        assert_eq!(
            (starts(&kept), kept.until()),
            (vec![10, 20, 110], Time(120))
        );
    }
}
