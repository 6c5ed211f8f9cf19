//! Several masters on one database in a simulated world. Each master is the real one: it stands by, takes
//! the lease, restores its core from the store, sends its groups with their fence, decides commits in doubt and
//! writes again what a replica lacks. Workers are real engines, too. Made up are the database (SQLite, which gets
//! the same statements), the ways to it and between all others, the clocks, and what goes wrong.
//!
//! A master's code waits for its database in the middle of a group, so each has a thread of its own; but only one
//! of all runs at a time, and the world decides which.

mod database;
mod flights;
mod hosts;
mod ledger;
mod machines;
mod process;
mod trouble;
mod ways;
mod world;

use super::{Run, disk, vfs};

/// Lives through one run with these rules of the masters.
pub fn run_masters(seed: u64, laws: ::master::SafetyRules) -> Run {
    vfs::install();
    disk::clear();
    let mut world = world::World::new(seed, laws);
    let broken = world.live().err();
    let (story, counts) = world.into_story();
    vfs::forget_memory(database::DISK);
    disk::clear();

    Run {
        seed,
        story,
        broken,
        counts,
    }
}
