//! Disks of the simulated world: what was written and not synced may be lost, or torn, when the
//! power goes; writes can fail, and a machine can die at any of them.
//!
//! Disks lie in a register of the thread, since SQLite knows files only by name. What is not here:
//! SQLite's way to them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::chance::Chance;

/// What of a write that is torn arrives is a multiple of this, in bytes.
const SECTOR: usize = 512;

thread_local! {
    static DISKS: RefCell<BTreeMap<String, Disk>> = const { RefCell::new(BTreeMap::new()) };
}

/// Where all disks are, in the names of files: `/chaos/DISK/FILE`.
pub(super) const ROOT: &str = "/chaos/";

/// What is to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process dies just before the operation takes effect.
    DiesBefore,
    /// The process dies just after the operation has taken effect.
    DiesAfter,
    /// The operation fails; what a sync did not bring to the disk may never come there.
    Fails,
}

/// Why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The process is dead: nothing that it does has an effect.
    Dead,
    /// The device failed.
    Broken,
    /// There is no room.
    Full,
}

/// One machine's disk.
#[derive(Debug, Default)]
pub(super) struct Disk {
    files: BTreeMap<String, File>,
    /// How many bytes have room; no bound where there is none.
    capacity: Option<usize>,
    /// How many operations from now on something goes wrong, and what.
    fuse: Option<(u32, Fault)>,
    dead: bool,
}

#[derive(Debug, Default)]
struct File {
    /// As a process sees it.
    seen: Vec<u8>,
    /// As it is after the power has gone.
    durable: Vec<u8>,
    /// What leads from the one to the other.
    pending: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, new) => {
                let end = at + new.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*at..end].copy_from_slice(new);
            }
            Change::Cut(length) => bytes.resize(*length, 0),
        }
    }
}

impl Refused {
    /// As a program sees it.
    pub(super) fn error(self) -> io::Error {
        match self {
            Refused::Dead => io::Error::other("the process is dead"),
            Refused::Broken => io::Error::other("the disk failed"),
            Refused::Full => io::ErrorKind::StorageFull.into(),
        }
    }
}

/// Puts a new disk into the register.
pub(super) fn insert(name: &str) {
    DISKS.with_borrow_mut(|disks| disks.insert(name.to_owned(), Disk::default()));
}

/// Does something with a disk.
pub(super) fn on<T>(name: &str, act: impl FnOnce(&mut Disk) -> T) -> T {
    DISKS.with_borrow_mut(|disks| act(disks.entry(name.to_owned()).or_default()))
}

/// Removes every disk of this thread.
pub(super) fn clear() {
    DISKS.with_borrow_mut(BTreeMap::clear);
}

/// Does something with the disk on which a file of this whole name lies, and the file's name there.
pub(super) fn with_path<T>(path: &str, act: impl FnOnce(&mut Disk, &str) -> T) -> Option<T> {
    let (disk, file) = path.strip_prefix(ROOT)?.split_once('/')?;
    Some(on(disk, |disk| act(disk, file)))
}

/// The master's log on the simulated disks.
pub(super) struct Logs;

impl master::engine::Logs for Logs {
    fn read(&self, log: &Path) -> io::Result<Vec<u8>> {
        let bytes = with_path(&log.to_string_lossy(), |disk, file| {
            disk.bytes(file).map(<[u8]>::to_vec)
        });
        bytes
            .flatten()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, log: &Path, bytes: &[u8]) -> io::Result<()> {
        let write =
            |disk: &mut Disk, file: &str| disk.write(file, 0, bytes).and_then(|()| disk.sync(file));
        with_path(&log.to_string_lossy(), write)
            .unwrap_or(Err(Refused::Broken))
            .map_err(Refused::error)
    }
}

impl Disk {
    /// Whether something goes wrong with this operation: nothing, or only after it.
    fn burn(&mut self) -> Result<bool, Refused> {
        if self.dead {
            return Err(Refused::Dead);
        }

        match &mut self.fuse {
            Some((0, fault)) => {
                let fault = *fault;
                self.fuse = None;
                match fault {
                    Fault::DiesBefore => {
                        self.dead = true;
                        Err(Refused::Dead)
                    }
                    Fault::DiesAfter => Ok(true),
                    Fault::Fails => Err(Refused::Broken),
                }
            }
            Some((left, _)) => {
                *left -= 1;
                Ok(false)
            }
            None => Ok(false),
        }
    }

    fn end(&mut self, dies: bool) -> Result<(), Refused> {
        if dies {
            self.dead = true;
            return Err(Refused::Dead);
        }
        Ok(())
    }

    fn change(&mut self, file: &str, change: Change) -> Result<(), Refused> {
        let dies = self.burn()?;
        if let (Change::Write(at, bytes), Some(capacity)) = (&change, self.capacity) {
            let used: usize = self.files.values().map(|file| file.seen.len()).sum();
            let length = self.files.get(file).map_or(0, |file| file.seen.len());
            if used + (at + bytes.len()).saturating_sub(length) > capacity {
                return Err(Refused::Full);
            }
        }
        let file = self.files.entry(file.to_owned()).or_default();
        change.apply(&mut file.seen);
        file.pending.push(change);
        self.end(dies)
    }

    /// Writes all these bytes from there on.
    pub(super) fn write(&mut self, file: &str, at: usize, bytes: &[u8]) -> Result<(), Refused> {
        self.change(file, Change::Write(at, bytes.to_vec()))
    }

    /// Makes the file as long as this.
    pub(super) fn cut(&mut self, file: &str, length: usize) -> Result<(), Refused> {
        self.change(file, Change::Cut(length))
    }

    /// Makes everything in the file durable. What a failed sync leaves behind is clean to the
    /// system, and lost to the disk: so it is on Linux.
    pub(super) fn sync(&mut self, file: &str) -> Result<(), Refused> {
        let dies = match self.burn() {
            Err(Refused::Broken) => {
                if let Some(file) = self.files.get_mut(file) {
                    file.pending.clear();
                }
                return Err(Refused::Broken);
            }
            other => other?,
        };

        if let Some(file) = self.files.get_mut(file) {
            for change in file.pending.drain(..) {
                change.apply(&mut file.durable);
            }
        }

        self.end(dies)
    }

    /// Puts a whole new content in the file's place, durably.
    pub(super) fn replace(&mut self, file: &str, bytes: &[u8]) -> Result<(), Refused> {
        let dies = self.burn()?;
        let new = File {
            seen: bytes.to_vec(),
            durable: bytes.to_vec(),
            ..File::default()
        };
        self.files.insert(file.to_owned(), new);
        self.end(dies)
    }

    /// Removes a file, durably.
    pub(super) fn remove(&mut self, file: &str) -> Result<(), Refused> {
        let dies = self.burn()?;
        self.files.remove(file);
        self.end(dies)
    }

    /// Makes the file where it is missing.
    pub(super) fn create(&mut self, file: &str) -> Result<(), Refused> {
        if self.dead {
            return Err(Refused::Dead);
        }
        self.files.entry(file.to_owned()).or_default();
        Ok(())
    }

    /// What a process sees in the file.
    pub(super) fn bytes(&self, file: &str) -> Option<&[u8]> {
        self.files.get(file).map(|file| &file.seen[..])
    }

    /// Has something go wrong at an operation, so many from now.
    pub(super) fn light(&mut self, operations: u32, fault: Fault) {
        self.fuse = Some((operations, fault));
    }

    /// Nothing is to go wrong any more.
    pub(super) fn heal(&mut self) {
        self.fuse = None;
        self.capacity = None;
    }

    /// Lets only so many bytes more onto the disk.
    pub(super) fn limit(&mut self, room: Option<usize>) {
        let used: usize = self.files.values().map(|file| file.seen.len()).sum();
        self.capacity = room.map(|room| used + room);
    }

    /// Whether the process that uses it is dead.
    pub(super) fn is_dead(&self) -> bool {
        self.dead
    }

    /// The process that uses it dies.
    pub(super) fn kill(&mut self) {
        self.dead = true;
    }

    /// Another process begins to use it.
    pub(super) fn revive(&mut self) {
        self.dead = false;
        self.fuse = None;
    }

    /// The power goes: of what was not synced, each write arrives, or does not, or is torn.
    pub(super) fn lose_power(&mut self, chance: &mut Chance) {
        for file in self.files.values_mut() {
            for change in std::mem::take(&mut file.pending) {
                match (chance.below(10), change) {
                    (0..5, change) => change.apply(&mut file.durable),
                    (5..8, Change::Write(at, mut bytes)) => {
                        bytes.truncate(
                            chance.below((bytes.len() / SECTOR + 1) as u64) as usize * SECTOR,
                        );
                        Change::Write(at, bytes).apply(&mut file.durable);
                    }
                    _ => {}
                }
            }

            file.seen.clone_from(&file.durable);
        }
    }

    /// A copy of these files as they are seen, for another time.
    pub(super) fn copy(&self, files: &[&str]) -> BTreeMap<String, Vec<u8>> {
        let seen = |name: &&str| Some(((*name).to_owned(), self.files.get(*name)?.seen.clone()));
        files.iter().filter_map(seen).collect()
    }

    /// Puts a copy in the place of these files.
    pub(super) fn restore(&mut self, files: &[&str], copy: &BTreeMap<String, Vec<u8>>) {
        for name in files {
            self.files.remove(*name);
        }
        for (name, bytes) in copy {
            let file = File {
                seen: bytes.clone(),
                durable: bytes.clone(),
                ..File::default()
            };
            self.files.insert(name.clone(), file);
        }
    }
}
