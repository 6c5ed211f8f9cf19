//! Lookahead placement, deskgrid's own rule: a task goes to a ready host only if the job would not
//! be done sooner with that host idle and a wait for a faster one that is busy.
//!
//! D is the earliest time by which the hosts, ready and busy, could complete all waiting tasks,
//! each host one after the other at its own speed. Ready hosts are taken in the order of
//! `expected_s`, failures and suspensions counted, as long as they would be done by D. If fewer
//! tasks wait than such hosts are ready or will be within moments, the best ones get them.

use crate::prediction::completion_law::Law;
use crate::prediction::experience::Curves;

/// Returns the expected seconds of a task that takes `task_s` on a ready host, with the expected
/// losses by a failure, which costs `restart_s`, and by a suspension. Smaller is better.
pub(crate) fn expected_s(task_s: f64, restart_s: f64, law: &Law, curves: &Curves) -> f64 {
    task_s + (1.0 - law.alive) * restart_s + (1.0 - law.undisturbed) * curves.mean_suspension_s
}
