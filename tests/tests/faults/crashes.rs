//! Processes that are killed: the master at every sync and every commit of a script, both ends at
//! random under load; and syncs that fail.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tests::{Grid, Started, eventually};

use super::ledger::Ledger;
use super::{have, long, seed, worker};

/// How long anything of a script may take.
const PATIENCE: Duration = Duration::from_secs(90);
/// No start of a master, and no round of a script, has more syncs than this in one thread.
const MOST: u32 = 60;

/// No words: a program is started as it is.
const NOTHING: [&str; 0] = [];

/// What happens to a sync.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// SIGKILL before it is done.
    Kill,
    /// It is not done, and the disk says so.
    Eio,
}

/// The words that run a program until its `nth` sync in one thread (of this file alone, if one is
/// given) meets the fault.
fn tracer(log: &Path, of: Option<&Path>, nth: u32, fault: Fault) -> Vec<OsString> {
    let what = match fault {
        Fault::Kill => "signal=KILL",
        Fault::Eio => "error=EIO",
    };
    let inject = format!("inject=fsync,fdatasync:{what}:when={nth}");
    let mut words: Vec<OsString> = ["strace", "-D", "-f", "-q", "-y", "-o"]
        .map(Into::into)
        .into();
    words.push(log.into());
    words.extend(
        [
            "-e",
            "trace=fsync,fdatasync",
            "-e",
            "signal=none",
            "-e",
            &inject,
        ]
        .map(OsString::from),
    );

    if let Some(path) = of {
        words.extend([OsString::from("-P"), path.into()]);
    }

    words
}

/// What the last sync in a tracer's log was to make durable, in a word.
fn last_sync(log: &Path) -> Option<&'static str> {
    let text = fs::read_to_string(log).ok()?;
    let line = text.lines().rev().find(|line| line.contains("sync("))?;
    let path = line.split_once('<')?.1.split_once('>')?.0;
    let (place, name) = path.rsplit_once('/')?;
    Some(match name {
        "store.sqlite-wal" => "a commit",
        "store.sqlite" => "the store",
        _ if place.ends_with("content/incoming") => "content",
        _ if path.contains("/content") => "a directory of content",
        _ if path.contains("/client") => "the admin's identity",
        "master" | "admin" | "state" => "the master's directory",
        _ => "another file",
    })
}

/// Waits until the client or the master has ended; whether the master still lives.
fn either(grid: &mut Grid, client: &mut Started) -> bool {
    eventually("the client or the master ends", PATIENCE, || {
        if grid.master().ended().is_some() {
            return Some(false);
        }
        client.ended().map(|_| true)
    })
}

/// Waits until the master that was launched is up, or has ended; whether it is up.
fn up(grid: &mut Grid) -> bool {
    let address = grid.state("admin").join("master").join("address");
    eventually("the master is up, or has ended", PATIENCE, || {
        if grid.master().ended().is_some() {
            return Some(false);
        }
        address.exists().then_some(true)
    })
}

/// One round of the script: a bag with files both ways is submitted and computed. Whether the
/// master lived to its end.
fn round(grid: &mut Grid, ledger: &mut Ledger, bag: usize) -> (bool, Option<(usize, Started)>) {
    let mut client = ledger.submission(grid, bag);
    if !either(grid, &mut client) {
        return (false, Some((bag, client)));
    }
    let output = client.finish();
    if !ledger.note(bag, &output) {
        // The master may be dying at this moment.
        return (grid.master().ended().is_none(), None);
    }
    let job = output.json()["job"].to_string();
    let mut waiting = grid.background(["job", "wait", &job, "--timeout", "60s"]);
    (either(grid, &mut waiting), None)
}

/// A life of the master under the tracer, with a worker, until the fault; then a life without, in
/// which everything that was promised is looked for. Gives what the fault met; none if the script
/// came to its end without. The first bag of its script may have been planned before.
fn life(
    (grid, ledger): (&mut Grid, &mut Ledger),
    mut planned: Option<usize>,
    of: Option<&Path>,
    nth: u32,
    fault: Fault,
) -> Option<&'static str> {
    let log = grid.dir().join(format!("trace-{}-{nth}", ledger.len()));
    grid.kill_worker("h1");
    grid.kill_master();

    let _ = fs::remove_file(grid.state("admin").join("master").join("address"));
    grid.wrap("master", tracer(&log, of, nth, fault));
    grid.launch_master();

    let _ = worker(grid, "h1", 2).launch();
    let mut unanswered = None;
    let mut lives = up(grid);

    for _ in 0..2 {
        if lives {
            let bag = planned.take().unwrap_or_else(|| ledger.plan(1));
            (lives, unanswered) = round(grid, ledger, bag);
        }
    }

    let code = grid.master().ended();
    if matches!(fault, Fault::Eio) && !lives {
        assert_eq!(code, Some(1), "a master whose sync failed says so and ends");
    }

    grid.kill_master();
    grid.wrap("master", NOTHING);
    grid.start_master();
    if let Some((bag, client)) = unanswered {
        ledger.note(bag, &client.finish());
    }

    ledger.check(grid);
    if lives {
        None
    } else {
        Some(last_sync(&log).unwrap_or("what no log says"))
    }
}

/// A grid with a worker, for lives.
fn living() -> (Grid, Ledger) {
    let mut grid = Grid::start();
    worker(&mut grid, "h1", 2).start();
    (grid, Ledger::new(0.0))
}

/// The places of the sweep that are tried: each one, or some of them by seed.
fn places(most: u32, sample: usize) -> Vec<u32> {
    if long() {
        return (1..=most).collect();
    }
    let mut rng = StdRng::seed_from_u64(seed());
    let mut some: BTreeSet<u32> = (1..=2).collect();
    while some.len() < sample {
        some.insert(rng.random_range(1..=10));
    }
    some.into_iter().collect()
}

/// Lives with the fault at each place in turn, until one comes to its end; gives what was met.
fn sweep(of: Option<&str>, fault: Fault, sample: usize) -> BTreeSet<&'static str> {
    let (mut grid, mut ledger) = living();
    let path: Option<PathBuf> = of.map(|name| grid.state("admin").join("master").join(name));
    let mut met = BTreeSet::new();

    for nth in places(MOST, sample) {
        match life((&mut grid, &mut ledger), None, path.as_deref(), nth, fault) {
            Some(what) => {
                println!("sync {nth}: {what}");
                met.insert(what);
            }
            None => {
                println!("sync {nth}: the script ended before it");
                break;
            }
        }
    }

    ledger.settle(&grid);
    met
}

#[test]
fn no_acknowledged_work_is_lost_when_the_master_is_killed_at_any_sync() {
    if !have("strace", "strace") {
        return;
    }
    let met = sweep(None, Fault::Kill, 4);
    assert!(met.contains("a commit"), "{met:?}");
    if long() {
        assert!(
            met.contains("the store") && met.contains("the master's directory"),
            "{met:?}"
        );
    }
}

/// The number of an identity, by which the master tells apart who sends what.
fn number_of(grid: &Grid, name: &str) -> String {
    let store = grid.state("admin").join("master").join("store.sqlite");
    let store = rusqlite::Connection::open(store).expect("a store");
    let query = "SELECT lower(hex(uuid)) FROM peer WHERE name = ?";
    store
        .query_row(query, [name], |row| row.get(0))
        .expect("an identity of this name")
}

/// What is known by its hash before: where the master will put the input of a bag and its task's
/// output.
fn places_of(grid: &Grid, ledger: &Ledger, bag: usize) -> Vec<(&'static str, PathBuf)> {
    let content = grid.state("admin").join("master").join("content");
    let hex = |text: String| blake3::hash(text.as_bytes()).to_hex().to_string();
    let input = hex(ledger.input(bag));
    let output = hex(ledger.output(bag, 1) + "\n");
    let user = number_of(grid, "user");
    let worker = number_of(grid, "h1");
    let part =
        |from: &str, hash: &str| content.join("incoming").join(format!("{from}.{hash}.part"));

    let dir = |hash: &str| content.join(&hash[..2]);
    vec![
        ("content", part(&user, &input)),
        ("a directory of content", dir(&input)),
        ("content", part(&worker, &output)),
        ("a directory of content", dir(&output)),
    ]
}

#[test]
fn no_acknowledged_work_is_lost_when_the_master_is_killed_while_storing() {
    if !have("strace", "strace") {
        return;
    }

    let (mut grid, mut ledger) = living();
    for place in 0..4 {
        let bag = ledger.plan(1);
        let (what, path) = places_of(&grid, &ledger, bag).swap_remove(place);
        let met = life(
            (&mut grid, &mut ledger),
            Some(bag),
            Some(&path),
            1,
            Fault::Kill,
        );
        assert_eq!(met, Some(what), "{}", path.display());
    }

    ledger.settle(&grid);
}

#[test]
fn no_acknowledged_work_is_lost_when_the_master_is_killed_at_a_commit() {
    if have("strace", "strace") {
        assert_eq!(
            sweep(Some("store.sqlite-wal"), Fault::Kill, 4),
            ["a commit"].into()
        );
    }
}

#[test]
fn a_commit_whose_sync_fails_ends_the_master_and_is_not_acknowledged() {
    if have("strace", "strace") {
        assert_eq!(
            sweep(Some("store.sqlite-wal"), Fault::Eio, 3),
            ["a commit"].into()
        );
    }
}

#[test]
fn a_first_start_that_is_killed_at_any_sync_can_be_repeated() {
    if !have("strace", "strace") {
        return;
    }

    let mut met = BTreeSet::new();
    for nth in places(MOST, 4) {
        let mut grid = Grid::prepared_fast("");
        let log = grid.dir().join("trace");
        grid.wrap("master", tracer(&log, None, nth, Fault::Kill));
        grid.launch_master();

        let lives = up(&mut grid);
        grid.kill_master();
        grid.wrap("master", NOTHING);
        grid.begin();
        assert!(grid.jobs().is_empty());

        if lives {
            break;
        }

        met.extend(last_sync(&log));
    }

    println!("{met:?}");
    assert!(!met.is_empty(), "it was never killed");
}

#[test]
fn no_acknowledged_work_is_lost_by_random_kills_under_load() {
    let mut rng = StdRng::seed_from_u64(seed());
    let kills = if long() { 100 } else { 6 };
    let mut grid = Grid::start();
    let workers = ["h1", "h2", "h3"];
    for name in workers {
        worker(&mut grid, name, 2).start();
    }

    let mut ledger = Ledger::new(0.2);
    for _ in 0..kills {
        let bag = ledger.plan(rng.random_range(1..=if long() { 6 } else { 3 }));
        let client = ledger.submission(&grid, bag);

        // The moment of the kill: anywhere in the life of a bag.
        std::thread::sleep(Duration::from_millis(rng.random_range(0..900)));
        match rng.random_range(0..5) {
            0 | 1 => {
                let name = workers[rng.random_range(0..workers.len())];
                grid.kill_worker(name);
                let _ = worker(&mut grid, name, 2).launch();
            }
            more => {
                // Some deaths of the master take a worker with them.
                let with = (more == 4).then(|| workers[rng.random_range(0..workers.len())]);
                grid.kill_master();
                if let Some(name) = with {
                    grid.kill_worker(name);
                }
                grid.start_master();
                if let Some(name) = with {
                    let _ = worker(&mut grid, name, 2).launch();
                }
            }
        }

        ledger.note(bag, &client.finish());
        ledger.check(&grid);
    }

    assert_eq!(ledger.len(), kills);
    ledger.settle(&grid);
}
