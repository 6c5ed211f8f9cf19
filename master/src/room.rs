//! Room on the master's disk: how much is left, who may still have some of it, and a file that
//! holds a part of it, so that results of running tasks can be written even after others have
//! filled the disk. New work goes without first. The store's files have room of their own behind
//! their ends.
//!
//! Not here: what is written, or what becomes of it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use common::wire::{Refusal, RefusalCode};
use link::{LinkError, files};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::StoreError;

/// What the store may need for one group of changes, in bytes.
const STORE_NEEDS: u64 = 4 << 20;
/// The held room is given away in pieces of this size, in bytes.
const PIECE: u64 = 1 << 20;
/// The store's files. Each is held open: closing any handle to them would let go of SQLite's locks.
const STORE: [&str; 2] = ["store.sqlite", "store.sqlite-wal"];
/// By so much each of them can grow without asking the disk, in bytes.
const AHEAD: u64 = 4 << 20;
/// Of the reserve, one part in so many is held by the file.
const HELD_PART: u64 = 4;
/// Of the room, one part in so many may be taken by what one user sent and no job needs.
const UNUSED_PART: u64 = 2;

/// What SQLite makes beside a store while it is open, in bytes: an index of its log, which is
/// mapped into memory, so that a process ends at once where the disk cannot hold it.
const BESIDE: u64 = 1 << 20;

/// Makes sure that the disk has room for what is made beside the store in `home` while it is open.
///
/// # Errors
/// If the disk is full. What cannot be tried is told where it is needed.
pub(crate) fn look_for_room(home: &Path) -> Result<(), StoreError> {
    if is_full(home) {
        let dir = home.to_owned();
        Err(StoreError::Full {
            dir,
            mib: BESIDE >> 20,
        })
    } else {
        Ok(())
    }
}

/// The same for who comes beside a master that may run: that one has made what is needed.
pub(crate) fn look_for_room_beside(home: &Path) -> Result<(), StoreError> {
    look_for_room(home).or_else(|full| if runs(home) { Ok(()) } else { Err(full) })
}

/// Whether the disk of a directory is full: what counts is what can be had, not what it says.
pub(crate) fn is_full(dir: &Path) -> bool {
    let path = dir.join(format!("room-{}.new", std::process::id()));
    let tried = File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)
        .and_then(|file| take(&file, BESIDE));
    let _ = fs::remove_file(&path);
    tried.is_err_and(|error| link::is_full(&error))
}

/// Fills a file.
fn take(mut file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            let piece = vec![0xA5; usize::try_from(PIECE).unwrap_or(1 << 20)];
            for _ in 0..bytes.div_ceil(PIECE) {
                file.write_all(&piece)?;
            }
            file.sync_all()
        }
        done => Ok(done?),
    }
}

/// Whether a master runs on the directory.
fn runs(home: &Path) -> bool {
    File::open(home.join("lock"))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The room on the disk of one directory.
pub(crate) struct DiskRoom {
    home: PathBuf,
    /// What is never given to new work, in bytes.
    reserve: u64,
    /// The file that holds a part of it, and its length.
    held: Mutex<Held>,
    store: Mutex<[Option<File>; STORE.len()]>,
}

struct Held {
    file: File,
    bytes: u64,
    /// Whether the file system can hold room at all.
    able: bool,
}

impl DiskRoom {
    /// Holds room in `home`, a part of `reserve` bytes, as far as there is any.
    pub(crate) fn open(home: &Path, reserve: u64) -> Result<Self, LinkError> {
        let path = home.join("reserve");
        let failed = |e| LinkError::file("cannot make", &path)(e);
        let open = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = open.map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let held = Held {
            file,
            bytes,
            able: true,
        };
        let room = Self {
            home: home.to_owned(),
            reserve,
            held: Mutex::new(held),
            store: Mutex::default(),
        };
        if !room.make_way(0) {
            tracing::warn!(left = room.left(), "the master's disk is full");
        }

        room.tend();
        if let Some(why) = room.takes_nothing_new() {
            tracing::warn!("{why}");
        }

        Ok(room)
    }

    /// Why nothing new is taken with the room that there is, if so, for the admin.
    fn takes_nothing_new(&self) -> Option<String> {
        let left = self.left();
        (left <= self.reserve).then(|| {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            format!(
                "this master takes no new work: {:.1} MiB are left on the disk of {}, and {:.1} MiB of it are kept for the \
                 results of what runs (reserve_bytes). Make room, or put the state directory (--dir) on another disk",
                mib(left),
                self.home.display(),
                mib(self.reserve)
            )
        })
    }

    /// Bytes that can be written, those that the file holds included.
    pub(crate) fn left(&self) -> u64 {
        self.free().saturating_add(self.lock().bytes)
    }

    /// Why new work that takes so many bytes gets no room, if so. What is going on gets what is
    /// left.
    pub(crate) fn refuse_new(&self, bytes: u64) -> Option<Refusal> {
        let left = self.left();
        (left.saturating_sub(bytes) < self.reserve).then(|| {
            let reserve = self.reserve;
            let what = format!(
                "the master's disk is nearly full: of the {left} bytes that are left, {reserve} are for the results of what runs"
            );
            Refusal::new(RefusalCode::Unavailable, what, "forget jobs that are done with, or ask the admin for more space")
        })
    }

    /// How many bytes one user's content that no job needs may take, those that it takes now
    /// included: as many as the master's settings say, and never more than a part of the room, so
    /// that others can still submit.
    pub(crate) fn for_unused(&self, now: u64, most: u64) -> u64 {
        let room = self.left().saturating_sub(self.reserve).saturating_add(now);
        most.min(room / UNUSED_PART)
    }

    /// Why a result of so many bytes gets no room, if so. What the file holds is given away for it.
    pub(crate) fn refuse_result(&self, bytes: u64) -> Option<Refusal> {
        (!self.make_way(bytes)).then(|| {
            let what = format!("the master's disk is full: {} bytes are left", self.left());
            Refusal::new(
                RefusalCode::Unavailable,
                what,
                "it is tried again; the admin has to make room",
            )
        })
    }

    /// Sees to it that so many bytes can be written beside what the store needs, and says whether
    /// that is so.
    pub(crate) fn make_way(&self, bytes: u64) -> bool {
        let needed = bytes.saturating_add(STORE_NEEDS);
        let missing = needed.saturating_sub(self.free());
        if missing == 0 {
            return true;
        }

        let mut held = self.lock();
        let less = held.bytes.saturating_sub(missing.div_ceil(PIECE) * PIECE);
        if held.bytes > 0 && held.file.set_len(less).is_ok() {
            tracing::warn!(
                held = less,
                "the master's disk is full: room that was held for results is given away"
            );
            held.bytes = less;
        }

        drop(held);
        self.free() >= needed
    }

    /// Holds again what was given away, once there is enough.
    pub(crate) fn tend(&self) {
        let whole = self.reserve / HELD_PART;
        let mut held = self.lock();
        if !held.able
            || held.bytes == whole
            || self.free().saturating_add(held.bytes) < self.reserve + whole
        {
            return;
        }

        let filled = held.file.set_len(whole.min(held.bytes)).and_then(|()| {
            if whole > 0 {
                Ok(fallocate(&held.file, FallocateFlags::empty(), 0, whole)?)
            } else {
                Ok(())
            }
        });
        match filled {
            Ok(()) => held.bytes = whole,
            Err(error) => {
                held.able = false;
                tracing::warn!(%error, "no room can be held on the master's disk for the case that it is full");
            }
        }
    }

    /// Sees to it that the store's files can grow. Where the disk is full already, or cannot do
    /// that, they go without.
    pub(crate) fn extend_store(&self) {
        let mut files = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, slot) in STORE.iter().zip(files.iter_mut()) {
            if slot.is_none() {
                *slot = File::options().write(true).open(self.home.join(name)).ok();
            }
            let Some(file) = slot else { continue };
            let Ok(meta) = file.metadata() else { continue };
            let behind_end = (meta.blocks() * 512).saturating_sub(meta.len());
            if behind_end < AHEAD / 2 {
                let _ = fallocate(file, FallocateFlags::KEEP_SIZE, meta.len(), AHEAD);
            }
        }
    }

    /// What cannot be asked is not taken for full.
    fn free(&self) -> u64 {
        files::free_bytes(&self.home).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(dir: &Path) -> u64 {
        files::free_bytes(dir).unwrap()
    }

    #[test]
    fn a_part_of_the_reserve_is_held_as_a_file_and_survives_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let length = || std::fs::metadata(dir.path().join("reserve")).unwrap().len();
        let room = DiskRoom::open(dir.path(), 8 << 20).unwrap();

        assert_eq!(length(), 2 << 20);
        assert!(room.left() > 2 << 20);
        drop(room);
        DiskRoom::open(dir.path(), 8 << 20).unwrap();
        assert_eq!(length(), 2 << 20);
        DiskRoom::open(dir.path(), 0).unwrap();
        assert_eq!(
            length(),
            0,
            "a master that is told to keep nothing gives back what it held"
        );
    }

    #[test]
    fn new_work_is_refused_while_results_are_still_taken() {
        let dir = tempfile::tempdir().unwrap();
        let plenty = DiskRoom::open(dir.path(), 1 << 20).unwrap();
        assert_eq!(plenty.refuse_new(1 << 20), None);
        assert_eq!(plenty.takes_nothing_new(), None);

        // A reserve that is larger than the disk: nothing new can have room on it.
        let scarce = DiskRoom::open(dir.path(), u64::MAX / 4).unwrap();
        let refusal = scarce.refuse_new(0).expect("refused");
        assert_eq!(refusal.code, RefusalCode::Unavailable);
        assert!(
            refusal.message.contains("nearly full") && refusal.hint.contains("forget"),
            "{refusal:?}"
        );
        assert_eq!(scarce.refuse_result(1 << 20), None);
        let told = scarce.takes_nothing_new().expect("nothing is taken");
        assert!(told.contains("MiB are left on the disk of"), "{told}");

        let refusal = scarce
            .refuse_result(free(dir.path()) * 2)
            .expect("that much is not there");
        assert_eq!(refusal.code, RefusalCode::Unavailable);
    }

    #[test]
    fn the_stores_files_have_room_behind_their_ends() {
        let dir = tempfile::tempdir().unwrap();
        let room = DiskRoom::open(dir.path(), 0).unwrap();
        let path = dir.path().join(STORE[0]);
        std::fs::write(&path, b"some").unwrap();
        room.extend_store();
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!(meta.len(), 4, "it looks as it did");
        assert!(meta.blocks() * 512 >= AHEAD, "{} blocks", meta.blocks());
    }

    #[test]
    fn what_is_held_is_given_away_when_it_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let room = DiskRoom::open(dir.path(), 32 << 20).unwrap();
        assert_eq!(room.lock().bytes, 8 << 20);
        // More than there is: everything that is held goes, and it is still not enough.
        assert!(!room.make_way(free(dir.path()) * 2));
        assert_eq!(room.lock().bytes, 0);
        room.tend();
        assert_eq!(
            room.lock().bytes,
            8 << 20,
            "and it is held again once there is enough"
        );
    }
}
