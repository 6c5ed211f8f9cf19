//! Control groups: the places where the worker may make some, and their use for an attempt:
//! freezing and killing everything in a group at once, and limits that hold for all its processes
//! together.
//!
//! Version 2 where the worker may make groups there, version 1 for what version 2 does not offer.
//! The worker makes one *ground* in each hierarchy that it uses, the spawner makes *rooms* in them,
//! and hands a room from attempt to attempt. The subreaper `init` knows which
//! processes belong to an attempt.

mod find;
mod ground;
mod room;

pub(super) use ground::Pool;
pub use ground::{Grounds, Survey};
pub(super) use room::{OpenRoom, Room};

/// Returns the least memory that this process's own groups and those above them leave it, in bytes.
pub(crate) fn memory_bound() -> Option<u64> {
    find::Own::read().memory_bound()
}
