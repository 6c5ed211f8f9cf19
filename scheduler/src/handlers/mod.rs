//! What each event changes, and how attempts start and end.
//!
//! - [`jobs`], [`hosts`], [`attempts`]: one handler for each event, called by `Scheduler::step`.
//! - [`dispatch`]: after each event, waiting tasks get hosts, then copies get slots that are left over,
//!   then short tasks are sent ahead of their slots. `Starter` is what starting one attempt needs.
//! - [`lookahead`]: how deskgrid's own policy starts attempts.
//!
//! A handler changes the state first and then calls the features that take part: each has functions
//! of its own for what was submitted, placed, started or ended. It never fails and never waits.

pub(crate) mod attempts;
pub(crate) mod dispatch;
pub(crate) mod hosts;
pub(crate) mod jobs;
pub(crate) mod lookahead;
