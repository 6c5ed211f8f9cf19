//! The whole system in a simulated world: the master's core with its store, the scheduler, the
//! workers' machines, sessions and spools are the ones that run in earnest; the network, the disks,
//! the clocks, the tasks and the people are made up, and misbehave. One seed is one run, to the
//! last byte of its story.
//!
//! What is not here: QUIC, TLS, processes and real files. Those are tried where they are real.

mod audit;
mod barrier;
mod chance;
mod contents;
pub mod days;
mod disk;
mod faults;
mod master;
mod masters;
mod net;
mod people;
mod story;
mod tasks;
#[allow(unsafe_code)] // SQLite is C.
mod vfs;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use ::master::engine::StoreShadow;
pub use masters::run_masters;

/// Which rules the simulated master and workers keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Laws {
    /// The master's.
    pub master: ::master::SafetyRules,
    /// The workers'.
    pub worker: ::worker::engine::CrashRules,
}

impl Laws {
    /// All of them, as in earnest.
    pub const KEPT: Self = Self {
        master: ::master::SafetyRules::KEPT,
        worker: ::worker::engine::CrashRules::KEPT,
    };
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Which.
    pub seed: u64,
    /// What happened, line by line.
    pub story: String,
    /// What must not happen and did, if anything.
    pub broken: Option<String>,
    /// What was seen, by name: how much of the world a run has tried.
    pub counts: std::collections::BTreeMap<&'static str, u64>,
}

impl Run {
    /// The seed, what went wrong, and how it came to that.
    pub fn report(&self) -> String {
        let lines: Vec<&str> = self.story.lines().collect();
        let shown = lines.len().min(SHOWN);
        let left_out = lines.len() - shown;
        format!(
            "seed {}: {}\nthe last {shown} lines of its story ({left_out} before them; DESKGRID_CHAOS_SEED={} shows all):\n{}\n",
            self.seed,
            self.broken.as_deref().unwrap_or("nothing is wrong"),
            self.seed,
            lines[left_out..].join("\n")
        )
    }
}

/// So many lines of a story are shown unless somebody asks for all.
const SHOWN: usize = 250;

/// Lives through one run.
pub fn run(seed: u64, laws: Laws) -> Run {
    live(world::World::new(seed, laws))
}

/// Lives through one run, in which each change of the master's store is made in a database, too. A
/// difference between the two engines is something that must not happen.
pub fn run_on_both_engines(seed: u64, shadow: &StoreShadow) -> Run {
    let mut world = world::World::new(seed, Laws::KEPT);
    world.master.shadow = Some(shadow.clone());
    let mut run = live(world);
    if let Err(why) = shadow.verdict() {
        run.broken = Some(format!("the engines of the store differ: {why}"));
    }
    run
}

fn live(mut world: world::World) -> Run {
    let seed = world.seed;
    let ended = catch_unwind(AssertUnwindSafe(|| world.live()));
    let broken = match ended {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(why),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };

    let (story, counts) = world.into_story();
    disk::clear();
    Run {
        seed,
        story,
        broken,
        counts,
    }
}
