//! SQLite's door to the simulated disks: files whose names begin with [`disk::ROOT`] lie there, all
//! others where they would otherwise. So the master's own store runs, as it is, on a disk that
//! loses and tears what was not synced.
//!
//! What is not here: what a disk does. All connections to a file are of one thread, and no two of
//! them are in the middle of something at a time; so the locks that readers and writers of the log
//! take from each other always succeed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use rusqlite::ffi;

use super::disk::{self, Disk, Refused};

type Regions = BTreeMap<String, Vec<Box<[u8]>>>;
type Locks = BTreeMap<String, BTreeMap<u64, c_int>>;

thread_local! {
    /// What connections share of each file's log, outside of any disk.
    static SHARED: RefCell<Regions> = const { RefCell::new(Regions::new()) };
    static LOCKS: RefCell<Locks> = const { RefCell::new(Locks::new()) };
    static HANDLES: RefCell<u64> = const { RefCell::new(0) };
}

/// The system's own way to files.
struct Usual(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite's default way to files is a constant that may be called from any thread.
unsafe impl Send for Usual {}
// SAFETY: as above.
unsafe impl Sync for Usual {}

static USUAL: OnceLock<Usual> = OnceLock::new();

/// What SQLite holds of an open file: first what it knows, then what we know.
#[repr(C)]
struct Handle {
    base: ffi::sqlite3_file,
    known: *mut Known,
}

struct Known {
    path: String,
    number: u64,
    transient: bool,
}

/// Has SQLite come here with every file from now on. Said twice, it counts once.
pub(super) fn install() {
    USUAL.get_or_init(|| {
        // SAFETY: both calls may be made at any time; the structure given away is never freed.
        unsafe {
            let usual = ffi::sqlite3_vfs_find(std::ptr::null());
            let ours = Box::leak(Box::new(ffi::sqlite3_vfs {
                pNext: std::ptr::null_mut(),
                ..*usual
            }));
            ours.zName = c"chaos".as_ptr();
            ours.szOsFile = ours.szOsFile.max(size_of::<Handle>() as c_int);
            ours.xOpen = Some(open);
            ours.xDelete = Some(delete);

            ours.xAccess = Some(access);
            ours.xFullPathname = Some(full_pathname);
            ours.xSleep = Some(sleep);
            ffi::sqlite3_vfs_register(ours, 1);
            Usual(usual)
        }
    });
}

/// What processes share through the memory of a machine is gone with them.
pub(super) fn forget_memory(disk: &str) {
    let prefix = format!("{}{disk}/", disk::ROOT);
    SHARED.with_borrow_mut(|shared| shared.retain(|path, _| !path.starts_with(&prefix)));
    LOCKS.with_borrow_mut(|locks| locks.retain(|path, _| !path.starts_with(&prefix)));
}

fn usual() -> *mut ffi::sqlite3_vfs {
    USUAL.get().map_or(std::ptr::null_mut(), |usual| usual.0)
}

/// The name, if it is of a simulated disk.
///
/// # Safety
/// `name` is null or ends with a zero byte.
unsafe fn simulated(name: *const c_char) -> Option<String> {
    if name.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller promises the rest.
    let name = unsafe { CStr::from_ptr(name) }.to_str().ok()?;
    name.starts_with(disk::ROOT).then(|| name.to_owned())
}

fn code(done: Option<Result<(), Refused>>, failed: c_int) -> c_int {
    match done {
        Some(Ok(())) => ffi::SQLITE_OK,
        Some(Err(Refused::Full)) => ffi::SQLITE_FULL,
        _ => failed,
    }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a name or null, and room for as much as we asked for, at least as much
    // as the usual way needs.
    unsafe {
        let Some(path) = simulated(name) else {
            return (*usual()).xOpen.map_or(ffi::SQLITE_ERROR, |open| {
                open(usual(), name, file, flags, out)
            });
        };

        (*file).pMethods = std::ptr::null();
        let there =
            disk::with_path(&path, |disk, file| disk.bytes(file).is_some()).unwrap_or(false);

        if !there {
            let create = |disk: &mut Disk, file: &str| disk.create(file);
            if flags & ffi::SQLITE_OPEN_CREATE == 0
                || !matches!(disk::with_path(&path, create), Some(Ok(())))
            {
                return ffi::SQLITE_CANTOPEN;
            }
        }

        let number = HANDLES.with_borrow_mut(|handles| {
            *handles += 1;
            *handles
        });
        let transient = flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0;
        let handle = file.cast::<Handle>();
        (*handle).known = Box::into_raw(Box::new(Known {
            path,
            number,
            transient,
        }));
        (*handle).base.pMethods = &raw const METHODS;
        if !out.is_null() {
            *out = flags;
        }
    }

    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite gives a name.
    unsafe {
        let Some(path) = simulated(name) else {
            return (*usual())
                .xDelete
                .map_or(ffi::SQLITE_ERROR, |delete| delete(usual(), name, sync));
        };
        if !disk::with_path(&path, |disk, file| disk.bytes(file).is_some()).unwrap_or(false) {
            return ffi::SQLITE_IOERR_DELETE_NOENT;
        }
        code(
            disk::with_path(&path, Disk::remove),
            ffi::SQLITE_IOERR_DELETE,
        )
    }
}

unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a name and a place for the answer.
    unsafe {
        let Some(path) = simulated(name) else {
            return (*usual()).xAccess.map_or(ffi::SQLITE_ERROR, |access| {
                access(usual(), name, flags, out)
            });
        };
        let there =
            disk::with_path(&path, |disk, file| disk.bytes(file).map(<[u8]>::len)).flatten();
        // As on other systems an empty file counts as none where only that is asked.
        *out = c_int::from(
            there.is_some_and(|length| flags != ffi::SQLITE_ACCESS_EXISTS || length > 0),
        );
    }

    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite gives a name, and room for so many bytes.
    unsafe {
        let Some(path) = simulated(name) else {
            return (*usual())
                .xFullPathname
                .map_or(ffi::SQLITE_ERROR, |full| full(usual(), name, room, out));
        };
        if path.len() >= room as usize {
            return ffi::SQLITE_CANTOPEN;
        }
        std::ptr::copy_nonoverlapping(path.as_ptr().cast(), out, path.len());
        *out.add(path.len()) = 0;
    }

    ffi::SQLITE_OK
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, micros: c_int) -> c_int {
    // SAFETY: the usual way sleeps for whoever asks; no simulated file makes anybody wait.
    unsafe { (*usual()).xSleep.map_or(0, |sleep| sleep(usual(), micros)) }
}

/// What we know of an open file of ours.
///
/// # Safety
/// `file` was opened by [`open`] and is not closed.
unsafe fn known<'a>(file: *mut ffi::sqlite3_file) -> &'a Known {
    // SAFETY: the caller promises it.
    unsafe { &*(*file.cast::<Handle>()).known }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes what was opened, once.
    let known = unsafe { Box::from_raw((*file.cast::<Handle>()).known) };
    LOCKS.with_borrow_mut(|locks| {
        if let Some(held) = locks.get_mut(&known.path) {
            held.remove(&known.number);
        }
    });
    if known.transient {
        let _ = disk::with_path(&known.path, Disk::remove);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    amount: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite gives an open file and room for so many bytes.
    let (known, out) = unsafe {
        (
            known(file),
            std::slice::from_raw_parts_mut(out.cast::<u8>(), amount as usize),
        )
    };
    let copied = disk::with_path(&known.path, |disk, file| {
        if disk.is_dead() {
            return None;
        }
        let rest = disk.bytes(file)?.get(at as usize..).unwrap_or_default();
        let length = rest.len().min(out.len());
        out[..length].copy_from_slice(&rest[..length]);
        out[length..].fill(0);
        Some(length)
    });
    match copied.flatten() {
        None => ffi::SQLITE_IOERR_READ,
        Some(length) if length < out.len() => ffi::SQLITE_IOERR_SHORT_READ,
        Some(_) => ffi::SQLITE_OK,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite gives an open file and so many bytes.
    let (known, bytes) = unsafe {
        (
            known(file),
            std::slice::from_raw_parts(bytes.cast::<u8>(), amount as usize),
        )
    };
    code(
        disk::with_path(&known.path, |disk, file| {
            disk.write(file, at as usize, bytes)
        }),
        ffi::SQLITE_IOERR_WRITE,
    )
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    // SAFETY: SQLite gives an open file.
    let known = unsafe { known(file) };
    code(
        disk::with_path(&known.path, |disk, file| disk.cut(file, length as usize)),
        ffi::SQLITE_IOERR_TRUNCATE,
    )
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: SQLite gives an open file.
    let known = unsafe { known(file) };
    code(
        disk::with_path(&known.path, Disk::sync),
        ffi::SQLITE_IOERR_FSYNC,
    )
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    // SAFETY: SQLite gives an open file and a place for the answer.
    unsafe {
        let length = disk::with_path(&known(file).path, |disk, file| {
            disk.bytes(file).map_or(0, <[u8]>::len)
        });
        *out = length.unwrap_or(0) as i64;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite gives an open file.
    let known = unsafe { known(file) };
    LOCKS.with_borrow_mut(|locks| {
        let held = locks.entry(known.path.clone()).or_default();
        let others = held
            .iter()
            .filter(|(number, _)| **number != known.number)
            .map(|(_, level)| *level)
            .max();
        let others = others.unwrap_or(ffi::SQLITE_LOCK_NONE);
        let free = match level {
            ffi::SQLITE_LOCK_EXCLUSIVE => others == ffi::SQLITE_LOCK_NONE,
            ffi::SQLITE_LOCK_SHARED => others < ffi::SQLITE_LOCK_PENDING,
            _ => others < ffi::SQLITE_LOCK_RESERVED,
        };
        if !free {
            return ffi::SQLITE_BUSY;
        }

        let mine = held.entry(known.number).or_insert(level);
        *mine = (*mine).max(level);
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite gives an open file.
    let known = unsafe { known(file) };
    LOCKS.with_borrow_mut(|locks| {
        locks
            .entry(known.path.clone())
            .or_default()
            .insert(known.number, level);
    });
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQLite gives an open file and a place for the answer.
    unsafe {
        let path = &known(file).path;
        let reserved = LOCKS.with_borrow(|locks| {
            locks.get(path).is_some_and(|held| {
                held.values()
                    .any(|level| *level >= ffi::SQLITE_LOCK_RESERVED)
            })
        });
        *out = c_int::from(reserved);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    4096
}

/// As SQLite takes every disk of today: a write that breaks off damages nothing beside it.
unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite gives an open file and a place for the answer. Regions stay where they are
    // until the connections that know of them are gone.
    unsafe {
        let path = &known(file).path;
        *out = SHARED.with_borrow_mut(|shared| {
            let regions = shared.entry(path.clone()).or_default();
            while extend != 0 && regions.len() <= region as usize {
                regions.push(vec![0; size as usize].into_boxed_slice());
            }
            regions
                .get_mut(region as usize)
                .map_or(std::ptr::null_mut(), |region| region.as_mut_ptr().cast())
        });
    }

    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_lock(_: *mut ffi::sqlite3_file, _: c_int, _: c_int, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_barrier(_: *mut ffi::sqlite3_file) {}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    if delete != 0 {
        // SAFETY: SQLite gives an open file, and deletes only what it uses no more.
        let known = unsafe { known(file) };
        SHARED.with_borrow_mut(|shared| shared.remove(&known.path));
    }
    ffi::SQLITE_OK
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::super::chance::Chance;
    use super::super::disk::Fault;
    use super::*;

    fn open_store(name: &str) -> Connection {
        let db = Connection::open(format!("{}{name}/store.sqlite", disk::ROOT)).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        db.pragma_update(None, "synchronous", "FULL").unwrap();
        db
    }

    fn count(db: &Connection) -> i64 {
        db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn committed_sqlite_data_survives_power_loss_at_any_operation() {
        install();
        for at in 0..60 {
            disk::insert("d");
            let db = open_store("d");
            db.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
                .unwrap();
            disk::on("d", |disk| {
                disk.light(
                    at,
                    if at % 2 == 0 {
                        Fault::DiesBefore
                    } else {
                        Fault::DiesAfter
                    },
                );
            });

            let committed = (0..40)
                .take_while(|n| {
                    db.execute("INSERT INTO t VALUES (?, ?)", (n, "x".repeat(900)))
                        .is_ok()
                })
                .count() as i64;
            assert!(committed < 40, "it died at operation {at}");
            drop(db);
            forget_memory("d");
            disk::on("d", |disk| {
                disk.lose_power(&mut Chance::new(u64::from(at), 0));
                disk.revive();
            });

            let db = open_store("d");
            let health: String = db
                .query_row("PRAGMA integrity_check", [], |row| row.get(0))
                .unwrap();
            assert_eq!(health, "ok");

            // The one that was not confirmed may be there.
            assert!(
                (committed..=committed + 1).contains(&count(&db)),
                "{committed} {}",
                count(&db)
            );
            drop(db);
            forget_memory("d");
        }

        disk::clear();
    }

    #[test]
    fn a_reader_beside_the_writer_sees_committed_data() {
        install();
        disk::insert("d");

        let writer = open_store("d");
        let reader = open_store("d");
        writer.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();

        for n in 0..2_000i64 {
            writer.execute("INSERT INTO t VALUES (?)", [n]).unwrap();
            if n % 100 == 0 {
                assert_eq!(count(&reader), n + 1);
            }
        }

        drop(reader);
        assert_eq!(count(&writer), 2_000);
        drop(writer);
        disk::clear();
    }
}
