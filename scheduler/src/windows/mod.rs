//! Backfill: an interval that is too short for the next task in the queue is given to another one
//! (Gainaru et al. 2019, section 4.3).
//!
//! - [`backfill`]: gaps on hosts that are reserved for gangs, or lent until a given time.
//! - [`idle`]: the choice of a task for a host whose owner is expected to stay away for a time of
//!   known law.
//!
//! The loans of hosts live in `state::owner_hours`; the gain of a task in a window is computed by
//! `prediction::reservation`.

pub(crate) mod backfill;
pub(crate) mod idle;
