//! Jobs whose ranks run at once, on several hosts from start to end (Downey 1997 on their width).
//!
//! - [`placement`]: all hosts in one step, or none: so no two jobs can wait for each other. A rank that
//!   lost its host gets another before anything else does.
//! - [`width_choice`]: for how many hosts a job holds out, by its policy's answer on width.
//!
//! What is known of such a job is `state::gang`; how fast it is on how many hosts, and how long it
//! would wait for them, is computed by `prediction::malleable`.

pub(crate) mod placement;
pub(crate) mod width_choice;
