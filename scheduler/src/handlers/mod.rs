//! The handlers of events, and the starts and ends of attempts.
//!
//! - [`jobs`], [`hosts`], [`attempts`]: one handler for each event, called by `Scheduler::step`.
//! - [`after`]: jobs that wait for others, and jobs that stay open.
//! - [`dispatch`]: after each event, waiting tasks get hosts, then copies get the slots that are
//!   left, then short tasks are prefetched. `Starter` holds the references that starting an attempt
//!   needs.
//! - [`lookahead`]: how deskgrid's own policy starts attempts.
//! - [`memory`]: what tasks count as that were given back for memory.
//! - [`moves`]: how a task that keeps its state leaves a host whose owner is there.
//! - [`parking`]: jobs that no known host could ever run.
//! - [`saving`]: how tasks that need more than a slot come to it.
//!
//! A handler changes the state first and then calls the features that take part: each has functions
//! of its own for jobs submitted, and attempts placed, started or ended. It never fails and never
//! waits.

pub(crate) mod after;
pub(crate) mod attempts;
pub(crate) mod dispatch;
pub(crate) mod hosts;
pub(crate) mod jobs;
pub(crate) mod lookahead;
pub(crate) mod memory;
pub(crate) mod moves;
pub(crate) mod parking;
pub(crate) mod saving;
