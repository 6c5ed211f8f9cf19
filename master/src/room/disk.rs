//! One disk that the master writes on: what is free there, and a file that holds a part of the reserve,
//! which shrinks where others have filled the disk.
//!
//! `DiskRoom` decides who gets the room.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use common::units::Bytes;
use common::wire::{Refusal, RefusalCode};
use link::{LinkError, files};
use rustix::fs::{FallocateFlags, fallocate};

use super::PIECE;
use crate::locked;

/// The file that holds a part of the reserve.
const RESERVE: &str = "reserve";
/// The divisor of the reserve: the file holds this part of it.
const HELD_PART: u64 = 4;

/// The use that a master makes of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskUse {
    /// It has the store, and the content as well if that lies nowhere else.
    Store,
    /// It has only the content of files.
    Content,
}

impl DiskUse {
    fn name(self) -> &'static str {
        match self {
            Self::Store => "the master's disk",
            Self::Content => "the disk of the master's content",
        }
    }

    /// The remedy beside making room, for the admin.
    fn way_out(self) -> &'static str {
        match self {
            Self::Store => "put the state directory (--dir) on another disk",
            Self::Content => "move the content to another disk (--content)",
        }
    }
}

/// The function that measures the free bytes of the disk of a directory.
pub(super) type FreeBytes = fn(&Path) -> io::Result<u64>;

/// The disk of one directory.
pub(super) struct Disk {
    dir: PathBuf,
    has: DiskUse,
    /// The bytes that new work does not get.
    reserve: u64,
    /// The file that holds a part of the reserve, and its length.
    held: Mutex<Held>,
    measure: FreeBytes,
}

struct Held {
    file: File,
    bytes: u64,
    /// Whether the file system can allocate space at all.
    able: bool,
}

/// Returns the reason, for the admin, if a master with this reserve takes no new work when `left`
/// bytes can be written in `dir`.
fn short(dir: &Path, left: u64, reserve: u64) -> Option<String> {
    (left <= reserve).then(|| {
        format!(
            "this master takes no new work: {} are left on the disk of {}, and {} of it are kept for the \
             results of what runs (reserve_bytes)",
            Bytes(left),
            dir.display(),
            Bytes(reserve)
        )
    })
}

/// Returns the reason, for the admin, if a master that writes in `dir` with this reserve takes no new work.
/// Changes nothing.
pub(crate) fn look_at_reserve(dir: &Path, reserve: u64) -> Option<String> {
    let free = files::free_bytes(dir).unwrap_or(u64::MAX);
    let held = fs::metadata(dir.join(RESERVE)).map_or(0, |file| file.len());
    short(dir, free.saturating_add(held), reserve)
}

impl Disk {
    /// Holds a part of `reserve` bytes in a file in `dir`, as far as there is space beside `needed` bytes.
    pub(super) fn open(
        (dir, has): (&Path, DiskUse),
        (reserve, needed): (u64, u64),
        measure: FreeBytes,
    ) -> Result<Self, LinkError> {
        let path = dir.join(RESERVE);
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
        let disk = Self {
            dir: dir.to_owned(),
            has,
            reserve,
            held: Mutex::new(held),
            measure,
        };
        if !disk.make_way(needed) {
            tracing::warn!(left = disk.left(), "{} is full", has.name());
        }

        disk.tend();
        if let Some(why) = disk.takes_nothing_new() {
            tracing::warn!("{why}");
        }

        Ok(disk)
    }

    /// The disk of the content in `dir`, with as much held, measured in the same way.
    pub(super) fn beside(&self, dir: &Path) -> Result<Self, LinkError> {
        let place = (dir, DiskUse::Content);
        Self::open(place, (self.reserve, 0), self.measure)
    }

    /// The directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The reason, for the admin, if the free space suffices for no new work.
    pub(super) fn takes_nothing_new(&self) -> Option<String> {
        short(&self.dir, self.left(), self.reserve)
            .map(|why| format!("{why}. Make room, or {}", self.has.way_out()))
    }

    /// The bytes that can be written, with those that the file holds.
    pub(super) fn left(&self) -> u64 {
        self.free().saturating_add(self.held())
    }

    /// The bytes that new work can have.
    pub(super) fn left_for_new(&self) -> u64 {
        self.left().saturating_sub(self.reserve)
    }

    /// The bytes that the file holds.
    pub(super) fn held(&self) -> u64 {
        locked(&self.held).bytes
    }

    /// The refusal of new work of this many bytes, if it would use the reserve.
    pub(super) fn refuse_new(&self, bytes: u64) -> Option<Refusal> {
        let left = self.left();
        (left.saturating_sub(bytes) < self.reserve).then(|| {
            let [left, reserve] = [left, self.reserve].map(Bytes);
            let what = format!(
                "{} is nearly full: of the {left} that are left, {reserve} are for the results of what runs",
                self.has.name()
            );
            Refusal::new(RefusalCode::Unavailable, what, "forget jobs that are done with, or ask the admin for more space")
        })
    }

    /// The refusal of a result that needs this many bytes, if they do not fit even after held space is
    /// given away.
    pub(super) fn refuse_result(&self, bytes: u64) -> Option<Refusal> {
        (!self.make_way(bytes)).then(|| {
            let left = Bytes(self.left());
            let what = format!("{} is full: {left} are left", self.has.name());
            Refusal::new(
                RefusalCode::Unavailable,
                what,
                "it is tried again; the admin has to make room",
            )
        })
    }

    /// Frees held space until this many bytes can be written; false if that does not suffice.
    pub(super) fn make_way(&self, bytes: u64) -> bool {
        let missing = bytes.saturating_sub(self.free());
        if missing == 0 {
            return true;
        }

        let mut held = locked(&self.held);
        let less = held.bytes.saturating_sub(missing.div_ceil(PIECE) * PIECE);
        if held.bytes > 0 && held.file.set_len(less).is_ok() {
            tracing::warn!(
                held = less,
                "{} is full: room that was held for results is given away",
                self.has.name()
            );
            held.bytes = less;
        }

        drop(held);
        self.free() >= bytes
    }

    /// Allocates the held space again, once there is enough.
    pub(super) fn tend(&self) {
        let whole = self.reserve / HELD_PART;
        let mut held = locked(&self.held);
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
                tracing::warn!(
                    %error,
                    "no room can be held on {} for the case that it is full",
                    self.has.name()
                );
            }
        }
    }

    /// The free bytes of the disk; if they cannot be read, the disk does not count as full.
    fn free(&self) -> u64 {
        (self.measure)(&self.dir).unwrap_or(u64::MAX)
    }
}
