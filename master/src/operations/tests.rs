//! Tests backups, checks and restorations of real directories: what they leave, and what they
//! refuse.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::checkpoint::Saved;
use common::job::{CommandSpec, Input, InputKind, InputSource, Rules, Work};
use common::token::Role;
use common::{BlobRef, IdSet, Incarnation, JobId, JobSpec, RequestId, TaskSet, Time};
use link::BlobStore;
use uuid::Uuid;

use super::{BreakOff, HOME, OperationError, SweepHold, archive};
use crate::Config;
use crate::authority::Authority;
use crate::store::tests::{attempt, start, state};
use crate::store::{NewJob, NewToken, Redeemed, Writer};

fn backup(dir: &Path, target: &Path) -> Result<super::BackedUp, OperationError> {
    super::backup(dir, target, &Config::default(), &BreakOff::default())
}

fn restore(from: &Path, dir: &Path) -> Result<super::Restored, OperationError> {
    super::restore(from, dir, &BreakOff::default())
}

fn check(dir: &Path, read_content: bool) -> Result<super::Checked, OperationError> {
    super::check(dir, &Config::default(), read_content)
}

/// The state directory of a stopped master.
struct Place {
    dir: tempfile::TempDir,
    blob: BlobRef,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("state/master");
        link::files::private_dir(&home).unwrap();

        let mut store = Writer::open(&home).unwrap();
        let blob = BlobStore::open(&home.join("content"))
            .unwrap()
            .add_reader(&b"an input"[..])
            .unwrap();
        BlobStore::open(&home.join("content"))
            .unwrap()
            .add_reader(&b"nobody's"[..])
            .unwrap();
        Authority::open(&home, Uuid::nil(), std::time::Duration::from_secs(86_400)).unwrap();
        store.begin(Time(5)).unwrap();
        store.meta("grid", || *Uuid::nil().as_bytes()).unwrap();

        let secret_hash = [7; 32];
        let expires = Time(u64::MAX >> 2);
        let token = NewToken {
            secret_hash,
            role: Role::Worker,
            name: "floor 3",
            uses: 2,
            expires,
            approval: false,
            speaks_for: None,
        };
        store.add_token(&token).unwrap();
        add_job(&mut store, 1, blob);
        store.commit().unwrap();
        crate::whole::watch(&home, &mut store, Uuid::nil()).unwrap();

        fs::write(home.join("lock"), "").unwrap();
        Self { dir, blob }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn home(&self) -> PathBuf {
        self.state().join("master")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn blob_path(&self, home: &Path) -> PathBuf {
        BlobStore::open(&home.join("content"))
            .unwrap()
            .path_of(&self.blob.hash)
    }
}

fn add_job(store: &mut Writer, id: u128, blob: BlobRef) -> u32 {
    let mut command = CommandSpec::new(vec!["true".parse().unwrap()]);
    command.inputs = vec![Input {
        name: "in".parse().unwrap(),
        kind: InputKind::File,
        source: InputSource::Shared(blob),
    }];

    let tasks = TaskSet {
        ids: IdSet::from_range(1, 3),
        items: Vec::new(),
    };
    let spec = JobSpec {
        name: "bag".into(),
        tasks,
        work: Work::Command(command),
        rules: Rules::default(),
    };

    let request = RequestId(Uuid::from_u128(id));
    store
        .add_job(&NewJob {
            request,
            body_hash: [0; 32],
            user: "ann",
            spec: &spec,
            content: &spec.content(),
            estimates: &[],
            now: Time(9),
        })
        .unwrap()
        .0
}

#[test]
fn a_backup_in_either_shape_is_restored_with_all_that_was_committed_and_nothing_else() {
    for target in ["monday", "monday.tar"] {
        let place = Place::new();
        let mut store = Writer::open(&place.home()).unwrap();
        add_job(&mut store, 2, place.blob);

        let done = backup(&place.state(), &place.at(target)).unwrap();
        assert_eq!(
            (done.content_files, done.content_bytes, &done.faults[..]),
            (1, 8, &[][..]),
            "{target}"
        );
        store.commit().unwrap();
        drop(store);

        if place.at(target).is_dir() {
            assert_eq!(
                check(&place.at(target), true).unwrap().faults,
                [],
                "{target}: it is a state directory itself"
            );
        }

        let elsewhere = place.at("elsewhere");
        let restored = restore(&place.at(target), &elsewhere).unwrap();
        assert_eq!(
            (restored.content_files, restored.faults),
            (1, Vec::new()),
            "{target}"
        );

        let home = elsewhere.join("master");
        let checked = check(&elsewhere, true).unwrap();
        assert_eq!(
            (checked.faults, checked.jobs, checked.copied.is_some()),
            (Vec::new(), 1, true),
            "{target}"
        );
        assert_eq!(
            fs::read(place.blob_path(&home)).unwrap(),
            b"an input",
            "{target}"
        );
        assert!(
            !home.join("lock").exists(),
            "{target}: what belongs to a process stays with it"
        );

        let mode = |name: &str| fs::metadata(home.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("ca.key.der"), mode(".")), (0o600, 0o700), "{target}");
        assert_eq!(
            fs::read(home.join("ca.der")).unwrap(),
            fs::read(place.home().join("ca.der")).unwrap()
        );
    }
}

#[test]
fn a_state_from_which_a_running_attempt_is_to_start_comes_back_from_a_backup() {
    let place = Place::new();
    let files = BlobStore::open(&place.home().join("content")).unwrap();
    let mut store = Writer::open(&place.home()).unwrap();
    let any = common::wire::enrol::WantedRole::Any;
    let joined = store.redeem(1, [7; 32], "desk-1", [1; 32], any, Time(9));
    assert!(matches!(joined, Ok(Redeemed::Peer(_))));

    let [first, copy] = [1, 2].map(|number| attempt(JobId(1), 1, number));
    let states = [1, 2, 3].map(|sequence| state(&files, sequence));
    start(&mut store, first);
    for (saved, file) in &states {
        store.keep_checkpoint(first, saved, &[file.hash]).unwrap();
        if saved.sequence == 2 {
            start(&mut store, copy);
            store.starts_from(copy, saved).unwrap();
        }
    }
    store.commit().unwrap();
    drop(store);

    for target in ["monday", "monday.tar"] {
        let done = backup(&place.state(), &place.at(target)).unwrap();
        assert_eq!(done.faults, Vec::<String>::new(), "{target}");
        let elsewhere = place.at(&format!("{target} restored"));
        let restored = restore(&place.at(target), &elsewhere).unwrap();
        assert_eq!(restored.faults, Vec::<String>::new(), "{target}");

        let back = BlobStore::open(&elsewhere.join("master/content")).unwrap();
        let is_back =
            |(saved, file): &(Saved, BlobRef)| [back.has(&saved.manifest), back.has(file)];
        let found: Vec<[bool; 2]> = states.iter().map(is_back).collect();
        assert_eq!(found, [[false; 2], [true; 2], [true; 2]], "{target}");
    }
}

/// Puts a file of this name into a backup that is made already.
fn smuggle(backup: &Path, name: &str) {
    if backup.is_dir() {
        fs::write(backup.join(name), "why").unwrap();
        return;
    }

    let mut bytes = fs::read(backup).unwrap();
    // The archive ends in two empty blocks.
    bytes.truncate(bytes.len() - 1_024);
    let entry = archive::ArchiveEntry {
        name: name.to_owned(),
        size: 3,
        mode: 0o600,
    };
    archive::append(&mut bytes, &entry, &mut &b"why"[..]).unwrap();
    archive::end(&mut bytes).unwrap();
    fs::write(backup, bytes).unwrap();
}

#[test]
fn a_file_that_is_none_of_a_masters_is_named_and_left_out_by_a_backup_and_by_a_restoration() {
    let place = Place::new();
    let long = "n".repeat(120);
    for name in ["notes: read me", &long] {
        fs::write(place.home().join(name), "a person's").unwrap();
    }

    for target in ["monday", "monday.tar"] {
        let done = backup(&place.state(), &place.at(target)).unwrap();
        assert!(
            matches!(&done.notes[..], [one] if one.contains("notes: read me") && one.contains(&long)),
            "{target}: {:?}",
            done.notes
        );
        assert!(done.faults.is_empty(), "{target}: {:?}", done.faults);

        smuggle(&place.at(target), "master/who: knows");
        let elsewhere = place.at(&format!("{target} restored"));
        let restored = restore(&place.at(target), &elsewhere).unwrap();
        assert!(
            matches!(&restored.notes[..], [one] if one.contains("who: knows")),
            "{target}: {:?}",
            restored.notes
        );
        assert!(restored.faults.is_empty(), "{target}: {restored:?}");
        assert!(!elsewhere.join("master/who: knows").exists(), "{target}");
        assert_eq!(
            check(&elsewhere, true).unwrap().faults,
            [],
            "{target}: the rest is whole"
        );
    }
}

#[test]
fn a_master_on_a_copy_gives_out_nothing_that_the_other_may_have_given_out() {
    let place = Place::new();
    backup(&place.state(), &place.at("copy")).unwrap();

    let now = Time(1_700_000_000 * 1_000_000);
    let mut store = Writer::open(&place.at("copy/master")).unwrap();
    let (incarnation, taken_up) = store.begin(now).unwrap();
    assert_eq!(incarnation, Incarnation(1_700_000_000));
    assert_eq!(taken_up.unwrap().tokens, 1);
    assert!(
        add_job(&mut store, 9, place.blob) > 1_000,
        "numbers of jobs go on further up"
    );

    let used = store
        .redeem(
            1,
            [7; 32],
            "desk-1",
            [1; 32],
            common::wire::enrol::WantedRole::Any,
            now,
        )
        .unwrap();
    assert!(matches!(used, Redeemed::Refused(why) if why.contains("revoked")));
    store.commit().unwrap();
    drop(store);

    let mut store = Writer::open(&place.at("copy/master")).unwrap();
    assert_eq!(
        store.begin(now).unwrap(),
        (Incarnation(1_700_000_001), None),
        "only once"
    );
    store.commit().unwrap();

    // A wrong clock must not make an incarnation come again.
    backup(&place.at("copy"), &place.at("again")).unwrap();
    let mut store = Writer::open(&place.at("again/master")).unwrap();
    assert_eq!(store.begin(Time(0)).unwrap().0, Incarnation(1_700_000_002));

    // The original does not know of its copies.
    let mut store = Writer::open(&place.home()).unwrap();
    assert_eq!(
        store.begin(now).unwrap(),
        (Incarnation(122_163_200), None),
        "seconds since 2020"
    );
}

#[test]
fn a_backup_overwrites_nothing_and_leaves_no_partial_file() {
    let place = Place::new();
    fs::write(place.at("there.tar"), "mine").unwrap();

    let refused = backup(&place.state(), &place.at("there.tar"));
    assert!(matches!(refused, Err(OperationError::Exists { .. })));
    assert_eq!(fs::read(place.at("there.tar")).unwrap(), b"mine");

    let nowhere = backup(&place.at("no such place"), &place.at("x.tar"));
    assert!(matches!(nowhere, Err(OperationError::NoMaster { .. })));
    backup(&place.state(), &place.at("good.tar")).unwrap();
    assert!(matches!(
        restore(&place.at("good.tar"), &place.state()),
        Err(OperationError::Exists { .. })
    ));

    let left: Vec<_> = fs::read_dir(place.dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn a_damaged_backup_is_refused_and_leaves_nothing() {
    let place = Place::new();
    backup(&place.state(), &place.at("good.tar")).unwrap();

    let good = fs::read(place.at("good.tar")).unwrap();
    for (what, change) in [
        (
            "cut",
            Box::new(|bytes: &mut Vec<u8>| bytes.truncate(5_000)) as Box<dyn Fn(&mut Vec<u8>)>,
        ),
        (
            "a name that leads out",
            Box::new(|bytes| bytes[..8].copy_from_slice(b"../../ca")),
        ),
        ("no archive", Box::new(|bytes| bytes.fill(0xAB))),
        (
            "a damaged store",
            Box::new(|bytes| bytes[512 + 100..512 + 4_000].fill(0xAA)),
        ),
    ] {
        let mut bytes = good.clone();
        change(&mut bytes);
        fs::write(place.at("bad.tar"), bytes).unwrap();
        let to = place.at("elsewhere");
        let error = restore(&place.at("bad.tar"), &to)
            .err()
            .unwrap_or_else(|| panic!("{what} was taken"));
        assert!(
            !error.to_string().is_empty() && fs::read_dir(&to).unwrap().next().is_none(),
            "{what}: {error}"
        );
    }

    let own = restore(&place.state(), &place.at("elsewhere"));
    assert!(
        matches!(own, Err(OperationError::NoBackup { .. })),
        "a master's own directory is no backup"
    );
}

/// The names in a directory.
fn names(dir: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn what_breaks_off_leaves_nothing_and_can_be_done_again() {
    let place = Place::new();
    let end = BreakOff::default();
    end.say();
    for target in ["copy", "copy.tar"] {
        let target = place.at(target);
        let before = names(place.dir.path());
        let broken = super::backup(&place.state(), &target, &Config::default(), &end);
        assert!(matches!(broken, Err(OperationError::Interrupted)));
        assert_eq!(names(place.dir.path()), before);
        backup(&place.state(), &target).unwrap();

        let to = tempfile::tempdir().unwrap();
        let broken = super::restore(&target, to.path(), &end);
        assert!(matches!(broken, Err(OperationError::Interrupted)));
        assert_eq!(names(to.path()).len(), 0);
        restore(&target, to.path()).unwrap();
    }
}

#[test]
fn what_a_killed_operation_left_is_replaced_and_what_is_in_use_or_somebodys_is_not() {
    let place = Place::new();
    link::files::private_dir(&place.at("copy.part/master")).unwrap();
    fs::write(place.at("copy.part/master/ca.key.der"), "a part").unwrap();
    fs::write(place.at("copy.part/unfinished"), "").unwrap();
    link::files::private_dir(&place.at("copy.store")).unwrap();
    for name in ["unfinished", "store.sqlite", "store.sqlite-journal"] {
        fs::write(place.at("copy.store").join(name), "a part").unwrap();
    }
    fs::write(place.at("copy.tar.part"), "master/store.sqlite").unwrap();
    fs::write(place.at("early.tar.part"), "").unwrap();
    for target in ["copy", "copy.tar", "early.tar"] {
        backup(&place.state(), &place.at(target)).unwrap();
    }
    assert!(names(&place.at("copy")) == [HOME] && !place.at("copy.store").exists());

    let to = place.at("elsewhere");
    link::files::private_dir(&to.join("master.part/content")).unwrap();
    restore(&place.at("copy.tar"), &to).unwrap();
    assert_eq!(names(&to), [HOME]);

    fs::create_dir(place.at("mine.part")).unwrap();
    fs::write(place.at("mine.part/notes"), "mine").unwrap();
    fs::write(place.at("mine.tar.part"), "mine").unwrap();
    fs::write(place.at("other.tar.part"), "").unwrap();
    let other = fs::File::options()
        .write(true)
        .open(place.at("other.tar.part"));
    let other = other.unwrap();
    other.lock().unwrap();
    for target in ["mine", "mine.tar", "other.tar"] {
        let refused = backup(&place.state(), &place.at(target));
        assert!(
            matches!(refused, Err(OperationError::Exists { .. })),
            "{target}"
        );
    }
    assert_eq!(fs::read(place.at("mine.part/notes")).unwrap(), b"mine");
    assert_eq!(fs::read(place.at("mine.tar.part")).unwrap(), b"mine");
}

#[test]
fn a_backup_waits_for_a_sweep_and_breaks_off_meanwhile_when_it_is_told_to() {
    let place = Place::new();
    let before = names(place.dir.path());
    let sweep = SweepHold::for_sweeping(&place.home()).unwrap();
    assert!(sweep.is_some());
    let end = BreakOff::default();
    end.say();
    let broken = super::backup(&place.state(), &place.at("copy"), &Config::default(), &end);
    assert!(matches!(broken, Err(OperationError::Interrupted)));
    assert_eq!(names(place.dir.path()), before);

    drop(sweep);
    backup(&place.state(), &place.at("copy")).unwrap();
}

#[test]
fn what_somebody_has_where_a_backup_copies_the_store_is_left_alone() {
    let place = Place::new();
    let its = ["file.store", "file.store-wal", "copied.store-shm"].map(|name| place.at(name));
    for path in &its {
        fs::write(path, "mine").unwrap();
    }
    let copied = place.at("copied.store");
    fs::create_dir(&copied).unwrap();
    fs::write(copied.join("store.sqlite"), "mine").unwrap();
    let before = names(place.dir.path());

    for target in ["file", "copied"] {
        let refused = backup(&place.state(), &place.at(target));
        let Err(OperationError::Exists { path }) = refused else {
            panic!("{target}: {refused:?}");
        };
        assert_eq!(path, place.at(&format!("{target}.store")));
    }
    assert_eq!(names(place.dir.path()), before);
    for path in its.iter().chain([&copied.join("store.sqlite")]) {
        assert_eq!(fs::read(path).unwrap(), b"mine");
    }

    backup(&place.state(), &place.at("other")).unwrap();
    let mut after = before;
    after.push("other".into());
    after.sort_unstable();
    assert_eq!(names(place.dir.path()), after);
}

#[test]
fn a_whole_backup_is_not_replaced_by_one_for_which_its_name_is_that_of_a_part() {
    let place = Place::new();
    let whole = place.at("whole.tar");
    backup(&place.state(), &whole).unwrap();
    let bytes = fs::read(&whole).unwrap();
    fs::rename(&whole, place.at("copy.tar.part")).unwrap();
    backup(&place.state(), &place.at("copy.part")).unwrap();

    for target in ["copy", "copy.tar"] {
        let refused = backup(&place.state(), &place.at(target));
        assert!(
            matches!(refused, Err(OperationError::Exists { .. })),
            "{target}"
        );
    }
    assert_eq!(fs::read(place.at("copy.tar.part")).unwrap(), bytes);
    assert_eq!(names(&place.at("copy.part")), [HOME]);

    // All but the archive's end, and a part of a file.
    for left in [bytes.len() - 1_024, bytes.len() / 2] {
        fs::write(place.at("copy.tar.part"), &bytes[..left]).unwrap();
        backup(&place.state(), &place.at("copy.tar")).unwrap();
        fs::remove_file(place.at("copy.tar")).unwrap();
    }
}

#[test]
fn damaged_content_is_named_and_left_out_and_all_else_is_restored() {
    let place = Place::new();
    let backups = || ["whole.tar", "rotten.tar", "rotten"].map(|name| place.at(name));
    let [whole, rotten, rotten_dir] = backups();
    backup(&place.state(), &whole).unwrap();

    // On the master's disk before the backup, and in a whole backup afterwards.
    let blob = place.blob_path(&place.home());
    fs::write(&blob, "an Input").unwrap();
    for target in [&rotten, &rotten_dir] {
        let done = backup(&place.state(), target).unwrap();
        assert!(
            matches!(&done.faults[..], [one] if one.contains("damaged")),
            "{:?}",
            done.faults
        );
    }
    let mut bytes = fs::read(&whole).unwrap();
    let content = bytes.windows(8).position(|w| w == b"an input").unwrap();
    bytes[content] ^= 1;
    fs::write(&whole, bytes).unwrap();

    for (at, from) in backups().iter().enumerate() {
        let to = place.at(&format!("restored {at}"));
        let done = restore(from, &to).unwrap();
        assert!(
            matches!(&done.faults[..], [one] if one.contains("is damaged in the backup")),
            "{:?}",
            done.faults
        );
        assert!(!place.blob_path(&to.join(HOME)).exists());
        assert_eq!(
            fs::read(to.join(HOME).join("ca.der")).unwrap(),
            fs::read(place.home().join("ca.der")).unwrap()
        );
    }
}

#[test]
fn a_check_finds_missing_damaged_and_exposed_files_and_tells_the_cure() {
    let place = Place::new();
    let faults = || {
        let found = check(&place.state(), true).unwrap().faults;
        assert!(
            found.iter().all(|fault| !fault.hint.is_empty()),
            "{found:?}"
        );
        found
            .into_iter()
            .map(|fault| fault.what)
            .collect::<Vec<_>>()
    };
    assert_eq!(faults(), Vec::<String>::new());

    let path = place.blob_path(&place.home());
    fs::write(&path, "an Input").unwrap();
    assert!(
        matches!(&faults()[..], [one] if one.contains("damaged")),
        "{:?}",
        faults()
    );
    assert_eq!(
        check(&place.state(), false).unwrap().faults,
        [],
        "content is there, and was not read"
    );

    let done = backup(&place.state(), &place.at("of it")).unwrap();
    assert!(done.faults[0].contains("damaged"), "{:?}", done.faults);
    fs::remove_file(&path).unwrap();
    assert!(
        matches!(&faults()[..], [one] if one.contains("missing")),
        "{:?}",
        faults()
    );
    fs::write(&path, "an input").unwrap();

    fs::set_permissions(
        place.home().join("ca.key.der"),
        fs::Permissions::from_mode(0o640),
    )
    .unwrap();
    assert!(
        matches!(&faults()[..], [one] if one.contains("may read the CA's key")),
        "{:?}",
        faults()
    );
    fs::set_permissions(
        place.home().join("ca.key.der"),
        fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    fs::set_permissions(place.home(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(
        matches!(&faults()[..], [one] if one.contains("may enter")),
        "{:?}",
        faults()
    );
    fs::set_permissions(place.home(), fs::Permissions::from_mode(0o700)).unwrap();

    let other = Place::new();
    fs::copy(other.home().join("ca.der"), place.home().join("ca.der")).unwrap();
    assert!(
        matches!(&faults()[..], [one] if one.contains("does not belong")),
        "{:?}",
        faults()
    );
}

#[test]
fn a_look_finds_rows_that_refer_to_nothing_and_values_that_mean_nothing() {
    for (change, told) in [
        (
            "INSERT INTO peer (uuid, role, name, key_hash, enrolled) VALUES (zeroblob(16), 'cdmin', 'x', zeroblob(32), 1)",
            "of table peer: role: `cdmin` is not a role",
        ),
        ("UPDATE token SET role = 'wnrker'", "row 1 of table token: role"),
        ("UPDATE token SET uses_left = x'00'", "row 1 of table token: uses_left"),
        ("UPDATE job SET name = x'FF'", "row 1 of table job: name"),
        ("UPDATE job SET submitted = 'x'", "row 1 of table job: submitted"),
        ("INSERT INTO host (name, facts) VALUES ('x', x'00')", "row 1 of table host: facts"),
        ("UPDATE meta SET value = x'00' WHERE key = 'incarnation'", "row incarnation of table meta: value"),
        ("INSERT INTO settled VALUES (77, 1, 1, 'failed', 'x')", "settled tasks of a job that is not there 77"),
        ("INSERT INTO blob_use VALUES (zeroblob(32), 78)", "content of a job that is not there 78"),
        ("UPDATE job SET state = 'dreaming'", "job 1"),
        ("UPDATE job SET spec = x'00'", "job 1: what was submitted cannot be read"),
        ("UPDATE job SET total = 9", "another number of tasks"),
        ("UPDATE job SET state = 'finished'", "an end that does not fit its state"),
        ("UPDATE job SET state = 'finished', ended = 5", "only 0 of its 3 tasks are"),
        (
            "INSERT INTO peer (uuid, role, name, key_hash, host, enrolled) VALUES (x'01', 'worker', 'x', x'02', 9, 1)",
            "the identity of a host that is not there 9",
        ),
        (
            "INSERT INTO attempt (job, task, number, incarnation, host, state, duplicate, assigned, start_why)
             VALUES (1, 1, 1, 1, 5, 'finished', 0, 1, 'x')",
            "attempts on a host that is not there 5",
        ),
    ] {
        let place = Place::new();
        let db = rusqlite::Connection::open(place.home().join("store.sqlite")).unwrap();
        db.execute_batch(change).unwrap();
        drop(db);
        let found = check(&place.state(), true).unwrap().faults;
        assert!(found.iter().any(|fault| fault.what.contains(told)), "{change}: {found:?}");
    }
}

#[test]
fn a_look_at_a_grid_without_hosts_finds_nothing_wrong_with_its_users() {
    let place = Place::new();
    let mut store = Writer::open(&place.home()).unwrap();
    store
        .add_peer(Role::Client, "ann", [1; 32], Time(1))
        .unwrap();
    store.commit().unwrap();
    drop(store);
    assert_eq!(check(&place.state(), true).unwrap().faults, []);
}

#[test]
fn a_look_at_a_store_that_cannot_be_opened_says_so() {
    let place = Place::new();
    let path = place.home().join("store.sqlite");
    let whole = fs::read(&path).unwrap();
    let page = |bytes: &[u8]| usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));

    for (what, at) in [
        ("head", 0..100),
        ("schema", 100..page(&whole)),
        ("pages", 2 * page(&whole)..whole.len()),
    ] {
        let mut bytes = whole.clone();
        bytes[at].fill(0xA5);
        fs::write(&path, bytes).unwrap();
        let found = check(&place.state(), true).unwrap().faults;
        assert!(
            found.iter().any(|fault| fault.hint.contains("restore")),
            "{what}: {found:?}"
        );
        assert!(
            Writer::open(&place.home()).is_err(),
            "{what}: a master does not start on it"
        );
    }

    let mut newer = whole;
    newer[60..64].copy_from_slice(&99u32.to_be_bytes());
    fs::write(&path, newer).unwrap();

    let found = check(&place.state(), true).unwrap().faults;
    assert!(
        found[0].what.contains("version 99") && found[0].hint.contains("newer"),
        "{found:?}"
    );
}
