//! Gangs: jobs whose ranks run at once, on several hosts from start to end (Downey 1997 on their
//! width).
//!
//! - [`placement`]: a gang gets all its hosts in one step, or none: so no two gangs can wait for
//!   each other. A rank that lost its host gets another before any other start.
//! - [`line`]: the starts of waiting gangs, one after the other, and their ends.
//! - [`width_choice`]: the number of hosts that a gang waits for, by its policy's `Width`.
//!
//! The state of a gang lives in `state::gang`. Its speedup, and its predicted wait for hosts, are
//! computed by `prediction::malleable`.

pub(crate) mod line;
pub(crate) mod placement;
pub(crate) mod width_choice;
