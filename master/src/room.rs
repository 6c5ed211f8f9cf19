//! Guards the free space of the master's disk: it refuses new work first, and holds some space in a
//! file, so that results of running tasks can be written even after others have filled the disk.
//! The store's files have space allocated behind their ends.
//!
//! The content itself lives in `link::BlobStore`, and `sweep` removes it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use common::units::Bytes;
use common::wire::{Refusal, RefusalCode};
use link::{LinkError, files};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::StoreError;

/// The bytes that the store may need for one group of changes.
pub(crate) const STORE_NEEDS: u64 = 4 << 20;
/// The bytes of the pieces in which held space is given away.
const PIECE: u64 = 1 << 20;
/// The store's files. Each is held open: closing any handle to them would let go of SQLite's locks.
const STORE: [&str; 2] = ["store.sqlite", "store.sqlite-wal"];
/// The bytes by which each store file can grow without asking the disk.
const AHEAD: u64 = 4 << 20;
/// The file that holds a part of the reserve.
const RESERVE: &str = "reserve";
/// The divisor of the reserve: the file holds this part of it.
const HELD_PART: u64 = 4;
/// The divisor of the room: one user's uploads that no job needs may take this part of it.
const UNUSED_PART: u64 = 2;

/// The bytes of SQLite's index beside an open store. It is mapped into memory, so that a process
/// ends at once if the disk cannot hold it.
const BESIDE: u64 = 1 << 20;

/// Checks that the disk has room for the files that SQLite makes beside the store in `home`.
///
/// # Errors
/// Returns `StoreError::Full` if the disk is full. An attempt that fails for another reason is
/// ignored: the real one will report it.
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

/// Checks like [`look_for_room`], but accepts a full disk if a master runs, since that one has made
/// the files.
pub(crate) fn look_for_room_beside(home: &Path) -> Result<(), StoreError> {
    look_for_room(home).or_else(|full| if runs(home) { Ok(()) } else { Err(full) })
}

/// Whether the disk of a directory is full. It tries to allocate space, since the file system's own
/// figures do not count.
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

/// Allocates this many bytes of a file, by writing if the file system cannot allocate.
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

/// Returns the reason, for the admin, if a master with this reserve takes no new work when `left`
/// bytes can be written in `home`.
fn short(home: &Path, left: u64, reserve: u64) -> Option<String> {
    (left <= reserve).then(|| {
        format!(
            "this master takes no new work: {} are left on the disk of {}, and {} of it are kept for the \
             results of what runs (reserve_bytes)",
            Bytes(left),
            home.display(),
            Bytes(reserve)
        )
    })
}

/// Returns the reason, for the admin, if a master in `home` with this reserve takes no new work.
/// Changes nothing.
pub(crate) fn look_at_reserve(home: &Path, reserve: u64) -> Option<String> {
    let free = files::free_bytes(home).unwrap_or(u64::MAX);
    let held = fs::metadata(home.join(RESERVE)).map_or(0, |file| file.len());
    short(home, free.saturating_add(held), reserve)
}

/// Whether a master runs on the directory.
fn runs(home: &Path) -> bool {
    File::open(home.join("lock"))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The room on the disk of one directory.
pub(crate) struct DiskRoom {
    home: PathBuf,
    /// The bytes that new work does not get.
    reserve: u64,
    /// The file that holds a part of the reserve, and its length.
    held: Mutex<Held>,
    store: Mutex<[Option<File>; STORE.len()]>,
}

struct Held {
    file: File,
    bytes: u64,
    /// Whether the file system can allocate space at all.
    able: bool,
}

impl DiskRoom {
    /// Holds a part of `reserve` bytes in a file in `home`, as far as there is space.
    pub(crate) fn open(home: &Path, reserve: u64) -> Result<Self, LinkError> {
        let path = home.join(RESERVE);
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

    /// The reason, for the admin, if the free space suffices for no new work.
    fn takes_nothing_new(&self) -> Option<String> {
        short(&self.home, self.left(), self.reserve).map(|why| {
            format!("{why}. Make room, or put the state directory (--dir) on another disk")
        })
    }

    /// The bytes that can be written, with those that the file holds.
    pub(crate) fn left(&self) -> u64 {
        self.free().saturating_add(self.lock().bytes)
    }

    /// The refusal of new work of this many bytes, if it would use the reserve. Running work gets
    /// what is left.
    pub(crate) fn refuse_new(&self, bytes: u64) -> Option<Refusal> {
        let left = self.left();
        (left.saturating_sub(bytes) < self.reserve).then(|| {
            let [left, reserve] = [left, self.reserve].map(Bytes);
            let what = format!(
                "the master's disk is nearly full: of the {left} that are left, {reserve} are for the results of what runs"
            );
            Refusal::new(RefusalCode::Unavailable, what, "forget jobs that are done with, or ask the admin for more space")
        })
    }

    /// The bytes that one user's uploads without a job may take, with those taken now (`now`): at
    /// most the setting `most`, and at most a part of the room, so that others can still submit.
    pub(crate) fn for_unused(&self, now: u64, most: u64) -> u64 {
        let room = self.left().saturating_sub(self.reserve).saturating_add(now);
        most.min(room / UNUSED_PART)
    }

    /// The refusal of a result of this many bytes, if they do not fit even after held space is
    /// given away.
    pub(crate) fn refuse_result(&self, bytes: u64) -> Option<Refusal> {
        (!self.make_way(bytes)).then(|| {
            let what = format!("the master's disk is full: {} are left", Bytes(self.left()));
            Refusal::new(
                RefusalCode::Unavailable,
                what,
                "it is tried again; the admin has to make room",
            )
        })
    }

    /// Frees held space until this many bytes can be written beside the store's needs; false if
    /// that does not suffice.
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

    /// Allocates the held space again, once there is enough.
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

    /// Allocates space behind the ends of the store's files. On a full disk, one that cannot
    /// allocate, and on macOS they do without.
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
                #[cfg(not(target_os = "macos"))]
                let _ = fallocate(file, FallocateFlags::KEEP_SIZE, meta.len(), AHEAD);
            }
        }
    }

    /// The free bytes of the disk; if they cannot be read, the disk does not count as full.
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

        // The reserve is larger than the disk: nothing new can have room on it.
        let scarce = DiskRoom::open(dir.path(), u64::MAX / 4).unwrap();
        let refusal = scarce.refuse_new(0).expect("refused");
        assert_eq!(refusal.code, RefusalCode::Unavailable);
        assert!(
            refusal.message.contains("nearly full") && refusal.hint.contains("forget"),
            "{refusal:?}"
        );
        assert_eq!(scarce.refuse_result(1 << 20), None);
        let told = scarce.takes_nothing_new().expect("nothing is taken");
        assert!(told.contains("are left on the disk of"), "{told}");

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
    fn held_space_is_released_when_it_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let room = DiskRoom::open(dir.path(), 32 << 20).unwrap();
        assert_eq!(room.lock().bytes, 8 << 20);
        // More than there is: all held space is given away, and that is still not enough.
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
