//! Real processes under injected faults: crashes at every point where something is made durable,
//! power loss, full and broken disks, processes that stand still, bad networks. After each fault
//! the promises of the design are held against what is there ([`ledger`]). The whole-system
//! simulation is elsewhere; here nothing is simulated but the misfortune.
//!
//! The usual run takes a sample of each; `DESKGRID_FAULTS=long` takes all of them
//! (CONTRIBUTING.md). What this machine cannot do is skipped, and said.

mod backups;
mod bridge;
mod bucket;
mod crashes;
mod cutoff;
mod disk;
mod disks;
mod doctor;
mod front;
mod full;
mod gateway;
mod https;
mod ledger;
mod losses;
mod network;
mod old_pcs;
mod other_grid;
mod pair;
mod pauses;
mod proxied;
mod proxy;
mod refused;
mod replica;
mod restores;
mod space;
mod storage;
mod takeover;
mod transfers;
mod views;
mod way;

use tests::{Grid, WorkerSetup};

/// What takes a worker long to find out, or to set up, and is none of these tests' business.
const PLAIN: &str = "speed = 1.0\nconfinement = \"process\"\nfreezer = \"signals\"\n";

/// A worker with so many slots that starts quickly.
fn worker<'a>(grid: &'a mut Grid, name: &str, slots: u32) -> WorkerSetup<'a> {
    grid.worker(name).slots(slots).config(PLAIN)
}

/// Whether everything is to be tried, however long it takes.
fn long() -> bool {
    std::env::var_os("DESKGRID_FAULTS").is_some_and(|value| value == "long")
}

/// The seed of everything random in this run: `DESKGRID_SEED`, or always the same one.
fn seed() -> u64 {
    let seed = std::env::var("DESKGRID_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20_261_121);
    println!("seed {seed}");
    seed
}

/// Says loudly that a test is not done here.
fn skip(why: &str) {
    println!("!! SKIPPED: {why}");
}

/// Whether there is a program of this name; says what is skipped where there is none.
fn have(program: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !there {
        skip(&format!("there is no {program} here (Debian: {package})"));
    }
    there
}
