//! Tasks that are disclosed before they are requested (Petrou, Ganger and Gibson 2004).
//!
//! - [`order`]: the next task of a job: requested ones first, then those most likely needed.
//! - [`preemption`]: the least needed running attempt makes room for a requested task, or several
//!   of one host where one is not enough ([`candidates`]).
//! - [`freezing`]: preempted attempts that keep their state are frozen, and thawed later.
//! - [`billing`]: the processor time spent, the billed part of it, and the waits for results.
//!
//! A disclosed task never delays a requested one for longer than it takes to freeze or end it.

pub mod billing;
pub(crate) mod candidates;
pub(crate) mod freezing;
pub(crate) mod order;
pub(crate) mod preemption;
