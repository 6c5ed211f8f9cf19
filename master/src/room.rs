//! Guards the free space of the master's disks, that of the store and that of the content where this is
//! another one: it refuses new work first, and holds some space in a file on each, so that results of
//! running tasks can be written even after others have filled the disk. The store's files have space
//! allocated behind their ends.
//!
//! The content itself lives in `link::BlobStore`, and `sweep` removes it.

mod disk;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use common::wire::Refusal;
use link::{LinkError, files};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::{StoreError, StoreResult, locked};
use disk::{Disk, DiskUse, FreeBytes};

pub(crate) use disk::look_at_reserve;

/// The bytes that the store may need for one group of changes.
pub(crate) const STORE_NEEDS: u64 = 4 << 20;
/// The bytes of the pieces in which held space is given away.
const PIECE: u64 = 1 << 20;
/// The store's files. Each is held open: closing any handle to them would let go of SQLite's locks.
const STORE: [&str; 2] = ["store.sqlite", "store.sqlite-wal"];
/// The bytes by which each store file can grow without asking the disk.
const AHEAD: u64 = 4 << 20;
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
pub(crate) fn look_for_room(home: &Path) -> StoreResult<()> {
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
pub(crate) fn look_for_room_beside(home: &Path) -> StoreResult<()> {
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

/// Whether a directory lies on another device than the one of the master.
pub(crate) fn is_elsewhere(home: &Path, dir: &Path) -> bool {
    let device = |dir: &Path| fs::metadata(dir).map(|meta| meta.dev());
    // One that cannot be looked at is none of its own.
    matches!((device(home), device(dir)), (Ok(one), Ok(other)) if one != other)
}

/// Whether a master runs on the directory.
fn runs(home: &Path) -> bool {
    File::open(home.join("lock"))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The room for the store and for the content of files, which lie on one disk or on two.
pub(crate) struct DiskRoom {
    store: Disk,
    /// The disk of the content, where that is another one.
    content: Option<Disk>,
    store_files: Mutex<[Option<File>; STORE.len()]>,
}

impl DiskRoom {
    /// Holds a part of `reserve` bytes in a file in `home`, as far as there is space.
    pub(crate) fn open(home: &Path, reserve: u64) -> Result<Self, LinkError> {
        Self::open_with(home, reserve, files::free_bytes)
    }

    fn open_with(home: &Path, reserve: u64, measure: FreeBytes) -> Result<Self, LinkError> {
        let place = (home, DiskUse::Store);
        Ok(Self {
            store: Disk::open(place, (reserve, STORE_NEEDS), measure)?,
            content: None,
            store_files: Mutex::default(),
        })
    }

    /// Watches over the disk of the content, which lies in `dir`, if it is not the one of the store. As
    /// much is held there then.
    pub(crate) fn with_content(self, dir: &Path) -> Result<Self, LinkError> {
        match is_elsewhere(self.store.dir(), dir) {
            true => self.beside(dir),
            false => Ok(self),
        }
    }

    fn beside(mut self, dir: &Path) -> Result<Self, LinkError> {
        self.content = Some(self.store.beside(dir)?);
        Ok(self)
    }

    /// The refusal of new work with files of this many bytes, if it would use a reserve. Running work
    /// gets what is left.
    pub(crate) fn refuse_new(&self, bytes: u64) -> Option<Refusal> {
        match &self.content {
            None => self.store.refuse_new(bytes),
            Some(content) => content
                .refuse_new(bytes)
                .or_else(|| self.store.refuse_new(0)),
        }
    }

    /// The bytes that one user's uploads without a job may take, with those taken now (`now`): at
    /// most the setting `most`, and at most a part of the room, so that others can still submit.
    pub(crate) fn for_unused(&self, now: u64, most: u64) -> u64 {
        let content = self.content.as_ref().unwrap_or(&self.store);
        let room = content.left_for_new().saturating_add(now);
        most.min(room / UNUSED_PART)
    }

    /// The refusal of a result of this many bytes, if they do not fit even after held space is
    /// given away.
    pub(crate) fn refuse_result(&self, bytes: u64) -> Option<Refusal> {
        match &self.content {
            None => self.store.refuse_result(bytes.saturating_add(STORE_NEEDS)),
            Some(content) => content
                .refuse_result(bytes)
                .or_else(|| self.store.refuse_result(STORE_NEEDS)),
        }
    }

    /// Keeps enough of the store's disk free for the store, even if others have filled it.
    pub(crate) fn tend_store(&self) {
        self.store.make_way(STORE_NEEDS);
        self.extend_store();
        self.store.tend();
    }

    /// Holds space for content again, once there is enough. It may be on a network, so the core does
    /// not wait for this.
    pub(crate) fn tend_content(&self) {
        if let Some(content) = &self.content {
            content.tend();
        }
    }

    /// Allocates space behind the ends of the store's files. On a full disk, one that cannot
    /// allocate, and on macOS they do without.
    fn extend_store(&self) {
        let mut files = locked(&self.store_files);
        for (name, slot) in STORE.iter().zip(files.iter_mut()) {
            if slot.is_none() {
                *slot = File::options()
                    .write(true)
                    .open(self.store.dir().join(name))
                    .ok();
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
}

#[cfg(test)]
mod tests {
    use common::wire::RefusalCode;

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
        assert!(room.store.left() > 2 << 20);
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
        assert_eq!(plenty.store.takes_nothing_new(), None);

        // The reserve is larger than the disk: nothing new can have room on it.
        let scarce = DiskRoom::open(dir.path(), u64::MAX / 4).unwrap();
        let refusal = scarce.refuse_new(0).expect("refused");
        assert_eq!(refusal.code, RefusalCode::Unavailable);
        assert!(
            refusal.message.contains("nearly full") && refusal.hint.contains("forget"),
            "{refusal:?}"
        );
        assert_eq!(scarce.refuse_result(1 << 20), None);
        let told = scarce.store.takes_nothing_new().expect("nothing is taken");
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
        assert_eq!(room.store.held(), 8 << 20);
        // More than there is: all held space is given away, and that is still not enough.
        assert!(!room.store.make_way(free(dir.path()) * 2));
        assert_eq!(room.store.held(), 0);
        room.tend_store();
        assert_eq!(
            room.store.held(),
            8 << 20,
            "and it is held again once there is enough"
        );
    }

    /// The free bytes of a made-up disk: what a file in the directory says.
    fn told(dir: &Path) -> io::Result<u64> {
        let text = fs::read_to_string(dir.join("free"))?;
        text.parse().map_err(io::Error::other)
    }

    /// A master with 64 MiB in reserve, and a directory for content on a disk of its own; so much is free on
    /// the two, in MiB.
    fn on_two_disks(home: u64, content: u64) -> (DiskRoom, [tempfile::TempDir; 2]) {
        let dirs = [home, content].map(|mib| {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("free"), (mib << 20).to_string()).unwrap();
            dir
        });
        let room = DiskRoom::open_with(dirs[0].path(), 64 << 20, told).unwrap();
        (room.beside(dirs[1].path()).unwrap(), dirs)
    }

    #[test]
    fn content_on_a_disk_of_its_own_is_measured_there_and_the_store_where_it_is() {
        let (room, _dirs) = on_two_disks(100, 10_000);
        assert_eq!(room.refuse_new(5_000 << 20), None, "not on the small disk");
        assert_eq!(room.for_unused(0, 4_000 << 20), 4_000 << 20);
        assert_eq!(room.refuse_result(9_000 << 20), None);

        let (room, dirs) = on_two_disks(10_000, 1_000);
        let length = |dir: &Path| fs::metadata(dir.join("reserve")).unwrap().len();
        let held = dirs.each_ref().map(|dir| length(dir.path()));
        assert_eq!(held, [16 << 20, 16 << 20], "each holds its own");
        assert!(room.for_unused(0, u64::MAX) < 500 << 20);
        let refusal = room
            .refuse_new(1_000 << 20)
            .expect("it would use the reserve");
        assert!(
            refusal.message.contains("content is nearly full"),
            "{refusal:?}"
        );

        // Others fill the disk of the content: results get what was held there.
        fs::write(dirs[1].path().join("free"), "0").unwrap();
        assert!(
            room.refuse_new(0).is_some(),
            "no new work, with files or without"
        );
        assert!(
            room.refuse_result(1 << 20).is_some(),
            "this disk stays full"
        );
        let held = dirs.each_ref().map(|dir| length(dir.path()));
        assert_eq!(held, [16 << 20, 15 << 20]);
        fs::write(dirs[1].path().join("free"), (1_000_u64 << 20).to_string()).unwrap();
        room.tend_content();
        assert_eq!(length(dirs[1].path()), 16 << 20, "and it is held again");

        let (room, _dirs) = on_two_disks(10, 10_000);
        let refusal = room.refuse_new(0).expect("the store has no room");
        assert!(
            refusal.message.contains("master's disk is nearly"),
            "{refusal:?}"
        );
        assert_eq!(room.refuse_result(1 << 20), None);
    }
}
