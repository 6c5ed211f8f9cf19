//! Checks that the store is the one that the master left, before anything is changed. A grid whose
//! store is lost would refuse all its peers, so a master that finds this does not start, and says
//! how to go on.
//!
//! Whether the store's contents make sense is checked by [`crate::store`] and
//! [`crate::operations`].

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use common::{Span, Time};
use link::LinkError;
use uuid::Uuid;

use crate::clock::Clock;
use crate::core::note_of;
use crate::store::{self, Mark, Marked, StoreFacts, Writer};
use crate::{Accept, MasterError, authority};

pub(crate) const STORE: &str = "store.sqlite";
const LOG: &str = "store.sqlite-wal";
/// The time by which the clock may lie behind the last note of the master being up: some clocks are
/// set by the network only after a start.
const SLACK: Span = Span::from_secs(600);

/// The way in which a store is not the one that the master left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// There is no store, though there are keys of a grid.
    Missing,
    /// The store is empty, though there are keys of a grid.
    Empty,
    /// The store belongs to another grid than the keys.
    OtherGrid,
    /// The store lacks this many of the newest acknowledged groups of changes.
    Older(u64),
    /// It was changed since the master ended in order.
    Changed,
    /// No readable mark says how far the store got.
    Unmarked,
    /// There are no keys of the grid, though the store has identities.
    NoKeys,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Missing => {
                f.write_str("the store is missing, though the keys of a grid are there")
            }
            Lost::Empty => f.write_str(
                "the store is empty, or its log has gone, though the keys of a grid are there",
            ),
            Lost::OtherGrid => f.write_str("the store is that of another grid than the keys"),
            Lost::Older(missing) => write!(
                f,
                "the store lacks the last {missing} groups of changes that the master made durable: it is an older one, or its \
                 log (store.sqlite-wal) has gone or was cut"
            ),
            Lost::Changed => {
                f.write_str("the store was changed, or damaged, since the master ended in order")
            }
            Lost::Unmarked => f.write_str(
                "the file `mark`, in which the master notes how far its store got, is missing or cannot be read: this store may \
                 be an older one",
            ),
            Lost::NoKeys => f.write_str(
                "the CA's certificate is missing, though the store knows who belongs to the grid",
            ),
        }
    }
}

impl Lost {
    /// The remedy, shown to the admin.
    pub fn hint(self) -> &'static str {
        match self {
            Lost::Missing | Lost::Empty | Lost::OtherGrid => {
                "put store.sqlite (with store.sqlite-wal) back; or move the directory `master` aside, then: deskgrid master \
                 restore BACKUP. Moved aside with nothing in its place, a new grid begins: everybody has to join it"
            }
            Lost::Older(_) | Lost::Changed => {
                "put back store.sqlite and store.sqlite-wal as they were, or restore a backup. To go on with what is there, and \
                 without what is missing: deskgrid master start --accept-store"
            }
            Lost::Unmarked => {
                "put back store.sqlite, store.sqlite-wal and mark as they were, or restore a backup. To go on with what is \
                 there, as if it were a backup: deskgrid master start --accept-store"
            }
            Lost::NoKeys => "put ca.der and ca.key.der of a backup in its place",
        }
    }

    /// Whether there is no store to look at.
    pub(crate) fn is_empty(self) -> bool {
        matches!(self, Lost::Missing | Lost::Empty)
    }
}

/// Compares the store in `home` with its mark and the keys, and returns the difference, if any.
/// Changes nothing. A store that cannot be read is reported by whoever opens it.
pub(crate) fn look(home: &Path) -> Result<Option<Lost>, MasterError> {
    let ca = authority::exists(home)?;
    let mark = marked(home);
    let path = home.join(STORE);
    let begun = ca || mark.is_some();

    match fs::metadata(&path) {
        Err(_) => return Ok(begun.then_some(Lost::Missing)),
        Ok(meta) if meta.len() == 0 => return Ok(begun.then_some(Lost::Empty)),
        Ok(_) => {}
    }

    let closed = log_bytes(home) == 0;
    let changed = match mark.and_then(|mark| mark.whole) {
        Some(whole) if closed => {
            hash(home).map_err(LinkError::file("cannot read", &path))? != whole
        }
        _ => false,
    };
    Ok(known(&path, home, ca, mark)?.unwrap_or(changed.then_some(Lost::Changed)))
}

/// The `Mark` beside the store; one that cannot be read counts as none.
fn marked(home: &Path) -> Option<Marked> {
    Mark::read(home).unwrap_or_else(|error| {
        tracing::warn!(%error, "how far the store got cannot be read");
        None
    })
}

/// The difference that the store itself shows. The outer `None` means that the store tells nothing,
/// or agrees with its surroundings. `Some(None)` is a copy, which is older and changed on purpose.
fn known(
    path: &Path,
    home: &Path,
    ca: bool,
    mark: Option<Marked>,
) -> Result<Option<Option<Lost>>, MasterError> {
    let Ok((db, version)) = store::open_to_look(path) else {
        return Ok(None);
    };
    if version == 0 {
        return Ok((ca || mark.is_some()).then_some(Some(Lost::Empty)));
    }

    let Ok(found) = StoreFacts::of(&db) else {
        return Ok(None);
    };
    let Some(grid) = found.grid else {
        return Ok(ca.then_some(Some(Lost::Empty)));
    };
    if !ca {
        return Ok(found.peers.then_some(Some(Lost::NoKeys)));
    }
    if authority::grid_of(home)?.is_some_and(|of_ca| of_ca != grid) {
        return Ok(Some(Some(Lost::OtherGrid)));
    }
    if found.copied {
        return Ok(Some(None));
    }

    // A grid gets its keys only after its store has a mark.
    let Some(mark) = mark.filter(|mark| mark.grid == grid) else {
        return Ok(Some(Some(Lost::Unmarked)));
    };
    let missing = mark.commits.saturating_sub(found.commits);
    Ok((missing > 0).then_some(Some(Lost::Older(missing))))
}

/// The bytes of the store and its log.
pub(crate) fn store_bytes(home: &Path) -> u64 {
    let store = fs::metadata(home.join(STORE)).map_or(0, |meta| meta.len());
    store + log_bytes(home)
}

fn log_bytes(home: &Path) -> u64 {
    fs::metadata(home.join(LOG)).map_or(0, |log| log.len())
}

/// The hash of the store's file. Nobody in this process may have the store open: closing the file
/// would release SQLite's locks.
fn hash(home: &Path) -> io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut File::open(home.join(STORE))?, &mut hasher)?;
    Ok(*hasher.finalize().as_bytes())
}

/// Opens the store in `home` to write, if it is the one that the master left or an admin accepts
/// it.
pub(crate) fn open(home: &Path, clock: Clock, accept: Accept) -> Result<Writer, MasterError> {
    let hint = "start the master with its address: deskgrid master start --store postgres://...";
    crate::database::in_a_file(home, hint)?;
    crate::room::look_for_room(home)?;
    let lost = look(home)?;
    match lost {
        Some(Lost::Older(_) | Lost::Changed | Lost::Unmarked) if accept.store => {}
        Some(lost) => return Err(MasterError::Lost(lost)),
        None => {}
    }
    look_at_clock(home, clock, accept)?;

    let closed = marked(home).filter(|mark| mark.whole.is_some());
    if let Some(mark) = closed {
        // From here on the file changes, and its hash no longer holds.
        let open = Marked {
            whole: None,
            ..mark
        };
        Mark::write(home, open).map_err(LinkError::file("cannot write", home.join("mark")))?;
    }

    let opened = Writer::open(home);
    if let (Err(_), Some(mark)) = (&opened, closed) {
        close_again(home, mark);
    }
    let mut store = opened?;

    if let Some(lost) = lost {
        tracing::warn!("{lost}; it is taken as a copy");
        store.is_a_copy(clock.now())?;
        store.commit()?;
    }

    Ok(store)
}

/// Restores the mark of an orderly end, if the store was not changed after all.
fn close_again(home: &Path, mark: Marked) {
    let same = hash(home).ok() == mark.whole;
    if log_bytes(home) == 0
        && same
        && let Err(error) = Mark::write(home, mark)
    {
        tracing::warn!(%error, "it cannot be noted how the store was left");
    }
}

/// Refuses a clock that is before a time at which the master was up: it would issue certificates
/// that nobody accepts, and count leases anew. A store that names no such time is opened.
pub(crate) fn look_at_clock(home: &Path, clock: Clock, accept: Accept) -> Result<(), MasterError> {
    let known = || StoreFacts::of(&store::open_to_look(&home.join(STORE)).ok()?.0).ok();
    compare_clock(known().and_then(|known| known.up), clock, accept)
}

/// The same, for a store that noted this time in `meta`.
pub(crate) fn compare_clock(
    up: Option<Vec<u8>>,
    clock: Clock,
    accept: Accept,
) -> Result<(), MasterError> {
    let now = clock.now();
    let up = up.and_then(note_of).unwrap_or_default();
    let behind = up.since(now);
    if behind <= SLACK {
        return Ok(());
    }

    let shown = |time: Time| {
        humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_micros(time.0)).to_string()
    };
    if accept.clock {
        tracing::warn!(
            up = shown(up),
            "the master was up at a later time than the clock shows now"
        );
        return Ok(());
    }

    Err(MasterError::Clock {
        now: shown(now),
        up: shown(up),
        behind: link::coarse(behind.secs()),
    })
}

/// Writes the mark beside the store from now on, with each commit.
pub(crate) fn watch(home: &Path, store: &mut Writer, grid: Uuid) -> Result<(), MasterError> {
    let marked = Marked {
        grid,
        commits: store.commits(),
        whole: None,
    };
    store.keep(
        Mark::write(home, marked).map_err(LinkError::file("cannot write", home.join("mark")))?,
    );
    Ok(())
}

/// Notes the state of the store after a start that failed, once the store is closed. After an error
/// of the store itself nothing is noted, as it may not be whole.
pub(crate) fn note_refusal(home: &Path, error: &MasterError) {
    if matches!(error, MasterError::Store(_)) {
        return;
    }
    if let Some(mark) = marked(home) {
        note_end(home, mark.grid);
    }
}

/// Notes the hash of the store's file after an orderly end. If the store still has a log, or this
/// fails, the mark only says how far it got.
pub(crate) fn note_end(home: &Path, grid: Uuid) {
    let note = || -> io::Result<()> {
        let Some(mark) = Mark::read(home)?.filter(|mark| mark.grid == grid) else {
            return Ok(());
        };
        if log_bytes(home) > 0 || !home.join(STORE).exists() {
            return Ok(());
        }

        Mark::write(
            home,
            Marked {
                whole: Some(hash(home)?),
                ..mark
            },
        )
        .map(drop)
    };

    if let Err(error) = note() {
        tracing::warn!(%error, "it cannot be noted how the store was left");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        Clock::start()
    }

    /// A grid with keys, after an orderly end.
    fn grid() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), Accept::default(), true, |_| ()).unwrap();
        dir
    }

    /// One start of a master, some changes, and its end: in order, or not.
    fn run(
        home: &Path,
        accept: Accept,
        orderly: bool,
        change: fn(&mut Writer),
    ) -> Result<u32, MasterError> {
        let mut store = open(home, clock(), accept)?;
        let grid = Uuid::from_bytes(store.meta("grid", || *Uuid::from_u128(5).as_bytes())?);
        store.commit()?;
        watch(home, &mut store, grid)?;
        crate::authority::Authority::open(home, grid, std::time::Duration::from_secs(86_400))?;

        let (incarnation, _) = store.begin(clock().now())?;
        store.set_meta("up", &clock().now().0.to_le_bytes())?;
        store.commit()?;
        change(&mut store);
        store.commit()?;

        if orderly {
            store.finish()?;
            drop(store);
            note_end(home, grid);
        } else {
            killed(home, store);
        }

        Ok(incarnation.0)
    }

    /// Leaves the files as a killed master does: with their bytes from before the store is closed.
    fn killed(home: &Path, store: Writer) {
        let files = [STORE, LOG, "mark"];
        let left = files.map(|name| (home.join(name), fs::read(home.join(name)).unwrap()));
        drop(store);
        left.into_iter()
            .for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    }

    fn refused(home: &Path) -> Lost {
        match open(home, clock(), Accept::default()) {
            Err(MasterError::Lost(lost)) => lost,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was opened"),
        }
    }

    #[test]
    fn a_master_starts_again_after_an_orderly_end_and_after_a_kill() {
        let dir = grid();
        assert_eq!(
            fs::metadata(dir.path().join(LOG)).map_or(0, |log| log.len()),
            0,
            "the file alone is whole"
        );
        for orderly in [true, false, false, true, false] {
            run(dir.path(), Accept::default(), orderly, |store| {
                store.set_meta("x", &[1]).unwrap();
            })
            .unwrap();
            assert_eq!(look(dir.path()).unwrap(), None);
        }
    }

    #[test]
    fn a_master_with_keys_and_a_store_that_is_missing_or_empty_does_not_start_and_changes_nothing()
    {
        let dir = grid();
        let store = dir.path().join(STORE);
        let whole = fs::read(&store).unwrap();

        fs::remove_file(&store).unwrap();
        assert_eq!(refused(dir.path()), Lost::Missing);
        assert!(!store.exists());
        fs::write(&store, "").unwrap();
        assert_eq!(refused(dir.path()), Lost::Empty);
        assert_eq!(fs::read(&store).unwrap(), b"");
        assert!(
            open(
                dir.path(),
                clock(),
                Accept {
                    store: true,
                    clock: true
                }
            )
            .is_err(),
            "nobody accepts that"
        );

        fs::write(&store, whole).unwrap();
        run(dir.path(), Accept::default(), true, |_| ()).unwrap();
    }

    #[test]
    fn a_store_of_another_grid_or_without_its_keys_is_refused() {
        let dir = grid();
        let other = tempfile::tempdir().unwrap();
        let mut store = open(other.path(), clock(), Accept::default()).unwrap();
        store.meta("grid", || [9; 16]).unwrap();
        store.commit().unwrap();
        drop(store);
        fs::copy(other.path().join(STORE), dir.path().join(STORE)).unwrap();
        assert_eq!(refused(dir.path()), Lost::OtherGrid);

        let dir = grid();
        let add = |store: &mut Writer| {
            drop(
                store
                    .add_peer(common::token::Role::Client, "ann", [1; 32], Time(1))
                    .unwrap(),
            );
        };
        run(dir.path(), Accept::default(), true, add).unwrap();
        fs::remove_file(dir.path().join("ca.der")).unwrap();
        assert_eq!(refused(dir.path()), Lost::NoKeys);
    }

    #[test]
    fn a_store_that_lacks_durable_events_is_refused_until_an_admin_accepts_it() {
        for lose_log in [true, false] {
            let dir = grid();
            let store = dir.path().join(STORE);
            let log = dir.path().join(LOG);
            let before = fs::read(&store).unwrap();
            let last = run(dir.path(), Accept::default(), !lose_log, |store| {
                store.set_meta("x", &[1]).unwrap();
            })
            .unwrap();
            let _ = fs::remove_file(dir.path().join("store.sqlite-shm"));

            if lose_log {
                fs::remove_file(&log).unwrap();
            } else {
                fs::write(&store, before).unwrap();
            }

            assert!(
                matches!(refused(dir.path()), Lost::Older(1..)),
                "log: {lose_log}"
            );

            let accept = Accept {
                store: true,
                clock: false,
            };
            let next = run(dir.path(), accept, true, |_| ()).unwrap();
            assert!(
                next > last,
                "numbers are not given twice: {next} after {last}"
            );
            run(dir.path(), Accept::default(), true, |_| ()).unwrap();
        }
    }

    fn is_closed(home: &Path) -> bool {
        Mark::read(home)
            .unwrap()
            .is_some_and(|mark| mark.whole.is_some())
    }

    #[test]
    fn a_start_that_comes_to_nothing_leaves_the_store_as_an_orderly_end_does() {
        let dir = grid();
        let mark = Mark::read(dir.path()).unwrap().unwrap();
        let refused = MasterError::Authority("no".to_owned());

        drop(open(dir.path(), clock(), Accept::default()).unwrap());
        assert!(!is_closed(dir.path()), "it was open");
        note_refusal(dir.path(), &refused);
        assert!(is_closed(dir.path()));

        // Nothing is noted of a store that failed, or of one that is open.
        let store = open(dir.path(), clock(), Accept::default()).unwrap();
        note_refusal(
            dir.path(),
            &MasterError::Store(crate::StoreError::Content("x".to_owned())),
        );
        assert!(!is_closed(dir.path()));
        drop(store);

        // A store that could not be opened stays as it was.
        note_end(dir.path(), mark.grid);
        let whole = Mark::read(dir.path()).unwrap().unwrap();
        Mark::write(
            dir.path(),
            Marked {
                whole: None,
                ..whole
            },
        )
        .unwrap();
        close_again(dir.path(), whole);
        assert!(is_closed(dir.path()));
        fs::write(dir.path().join(STORE), "other").unwrap();
        Mark::write(
            dir.path(),
            Marked {
                whole: None,
                ..whole
            },
        )
        .unwrap();
        close_again(dir.path(), whole);
        assert!(!is_closed(dir.path()), "it is not what it was");
    }

    #[test]
    fn a_store_without_a_valid_mark_is_refused_until_an_admin_accepts_it() {
        for garbage in [None, Some("what is this?"), Some("")] {
            let dir = grid();
            let last = run(dir.path(), Accept::default(), true, |_| ()).unwrap();
            let path = dir.path().join("mark");
            match garbage {
                None => fs::remove_file(&path).unwrap(),
                Some(text) => fs::write(&path, text).unwrap(),
            }
            assert_eq!(refused(dir.path()), Lost::Unmarked, "{garbage:?}");
            assert_eq!(look(dir.path()).unwrap(), Some(Lost::Unmarked));

            let accept = Accept {
                store: true,
                clock: false,
            };
            let next = run(dir.path(), accept, true, |_| ()).unwrap();
            assert!(
                next > last,
                "numbers are not given twice: {next} after {last}"
            );
            run(dir.path(), Accept::default(), true, |_| ()).unwrap();
        }
    }

    #[test]
    fn a_first_start_that_broke_off_anywhere_locks_nobody_out() {
        for steps in 0..4 {
            let dir = tempfile::tempdir().unwrap();
            let mut store = open(dir.path(), clock(), Accept::default()).unwrap();
            if steps > 0 {
                store
                    .meta("grid", || *Uuid::from_u128(5).as_bytes())
                    .unwrap();
                store.commit().unwrap();
            }
            if steps > 1 {
                watch(dir.path(), &mut store, Uuid::from_u128(5)).unwrap();
            }
            if steps > 2 {
                let life = std::time::Duration::from_secs(86_400);
                crate::authority::Authority::open(dir.path(), Uuid::from_u128(5), life).unwrap();
            }
            drop(store);
            run(dir.path(), Accept::default(), true, |_| ()).unwrap();
        }
    }

    #[test]
    fn each_flipped_bit_of_a_store_that_was_closed_in_order_is_noticed() {
        let dir = grid();
        let store = dir.path().join(STORE);
        let whole = fs::read(&store).unwrap();

        for bit in (0..whole.len() * 8).step_by(whole.len() * 8 / 60) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&store, &bytes).unwrap();
            let opened = open(dir.path(), clock(), Accept::default());
            assert!(opened.is_err(), "bit {bit}");
            assert_eq!(fs::read(&store).unwrap(), bytes, "nothing was changed");
        }

        fs::write(&store, whole).unwrap();
        run(dir.path(), Accept::default(), true, |_| ()).unwrap();
    }

    #[test]
    fn a_clock_before_the_masters_last_word_is_refused_until_an_admin_says_that_it_is_right() {
        let dir = grid();
        let ahead = |store: &mut Writer| {
            let later = clock().now() + Span::from_secs(40 * 86_400);
            store.set_meta("up", &later.0.to_le_bytes()).unwrap();
        };
        run(dir.path(), Accept::default(), true, ahead).unwrap();

        match open(dir.path(), clock(), Accept::default()) {
            Err(error @ MasterError::Clock { .. }) => {
                assert!(error.to_string().contains("40 days behind"), "{error}");
            }
            _ => panic!("it was opened"),
        }

        assert_eq!(look(dir.path()).unwrap(), None, "nothing is lost by that");
        assert!(is_closed(dir.path()), "a flipped bit is still noticed");
        run(
            dir.path(),
            Accept {
                store: false,
                clock: true,
            },
            true,
            |_| (),
        )
        .unwrap();

        run(dir.path(), Accept::default(), true, |_| ()).unwrap();
    }
}
