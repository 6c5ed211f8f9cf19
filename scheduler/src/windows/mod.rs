//! Time that hosts are idle for and that is too short for the next task in line is given to another
//! one (Gainaru et al. 2019, section 4.3).
//!
//! - [`backfill`]: gaps on hosts that are kept for jobs of several ranks, or until their owners want
//!   them back.
//! - [`idle`]: which of a promised job's tasks goes to a host whose owner was recorded to stay away for
//!   a known time.
//!
//! Until when a host is lent is `state::owner_hours`; what a task should make of a window is computed
//! by `prediction::reservation`.

pub(crate) mod backfill;
pub(crate) mod idle;
