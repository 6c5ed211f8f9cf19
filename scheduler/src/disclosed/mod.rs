//! Tasks that are disclosed before anybody waits for them (Petrou, Ganger and Gibson 2004).
//!
//! - [`order`]: which task of a job is next: requested ones first, then those most likely needed.
//! - [`preemption`]: a running attempt that is needed least makes room for one that somebody waits for.
//! - [`freezing`]: attempts that made room and keep their state are frozen, and go on later.
//! - [`billing`]: what was spent, what of it is billed, and how long was waited for results.
//!
//! A disclosed task never delays a requested one for longer than it takes to freeze or end it.

pub mod billing;
pub(crate) mod freezing;
pub(crate) mod order;
pub(crate) mod preemption;
