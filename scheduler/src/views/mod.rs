//! Read-only views of the scheduler: plain values for people and programs.
//!
//! - [`status`]: hosts, live attempts, counts, and the predicted completion of jobs.
//! - [`running`]: the live attempts of a job, the silence of their hosts, and when they are copied.
//! - [`explain`]: the reasons why tasks wait, and why hosts were passed over.
//!
//! A view changes nothing. The reasons come from the same predicates that decide (such as
//! `Placement::objection`), so an answer agrees with the decision.

pub(crate) mod explain;
pub(crate) mod running;
pub(crate) mod status;
