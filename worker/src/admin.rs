//! Log lines that an admin must see, told apart by their targets. On Windows the service writes
//! them to the system's event log, too, each target with a number of its own.

/// The start of the service.
pub const STARTED: &str = "admin::started";
/// The end of the service, with its reason.
pub const ENDED: &str = "admin::ended";
/// Joining: that the master refused it or did not answer, that a file for it is awaited, or that it
/// succeeded.
pub const JOINING: &str = "admin::joining";
/// The master's refusal of a worker that has joined, such as one that was revoked.
pub const REFUSED: &str = "admin::refused";
/// Settings from the master that are not taken.
pub const SETTINGS: &str = "admin::settings";
/// Programs from the master that are not taken.
pub const PROGRAMS: &str = "admin::programs";

/// Every target, in the order of the numbers.
const ALL: [&str; 6] = [STARTED, ENDED, JOINING, REFUSED, SETTINGS, PROGRAMS];

/// Returns the number of the events of a target, from 1 on; `None` for the target of any other line.
pub fn event_id(target: &str) -> Option<u32> {
    let place = ALL.iter().position(|known| *known == target);
    place.map(|place| place as u32 + 1)
}

#[cfg(windows)]
pub use crate::os::windows::events::report;
