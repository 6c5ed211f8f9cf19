//! What can be asked of the scheduler: plain values for people and programs.
//!
//! - [`status`]: hosts, live attempts, counts, and when a job should be done.
//! - [`explain`]: why each task waits, and why each host was passed over.
//!
//! Asking changes nothing. The reasons come from the same predicates that decide (such as
//! `Placement::objection`), so an answer cannot differ from what will happen.

pub(crate) mod explain;
pub(crate) mod status;
