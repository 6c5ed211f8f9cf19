//! Lookahead placement, deskgrid's own rule: a task goes to a ready host only if the job would not
//! be done sooner with that host idle and a wait for a faster one that is busy.
//!
//! D is the earliest time by which the hosts, ready and busy, could complete all waiting tasks,
//! each host one after the other at its own speed. Ready hosts are taken in the order of
//! `expected_s`, failures and suspensions counted, as long as they would be done by D. If fewer
//! tasks wait than such hosts are ready or will be within moments, the best ones get them.
//!
//! The rule needs all hosts with their attempts, so `Starter::place_ahead` in `handlers::lookahead`
//! applies it, asked by [`Answer::looks_ahead`]. Where it declines the ready hosts, it leaves the time
//! of its next look in the plan (`declined`), and `Job::next_alarm` rings then. Where it knows nothing
//! of tasks yet, the job is placed as under PRI-CR. Copies are chosen by [`Answer::candidates`].

use common::Speed;

use super::{Answer, PlacementView};
use crate::policy::plan::JobPlan;
use crate::prediction::completion_law::CompletionLaw;
use crate::prediction::experience::Curves;

/// Returns the expected seconds of a task that takes `task_s` on a ready host, with the expected
/// losses by a failure, which costs `restart_s`, and by a suspension. Smaller is better.
pub(crate) fn expected_s(task_s: f64, restart_s: f64, law: &CompletionLaw, curves: &Curves) -> f64 {
    task_s + (1.0 - law.alive) * restart_s + (1.0 - law.undisturbed) * curves.mean_suspension_s
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lookahead;

impl Answer for Lookahead {
    fn describe(self) -> &'static str {
        "the host expected to be done soonest, failures and suspensions counted; none where a busy host will be done \
         sooner"
    }

    fn objection(self, view: &impl PlacementView, plan: &JobPlan, _: Speed) -> Option<String> {
        let (until, _) = plan.declined.filter(|(until, _)| view.now() < *until)?;
        let left = until.since(view.now());
        Some(format!(
            "a busy host should be done sooner than this one; looked at again in {left} at the latest"
        ))
    }

    fn looks_ahead(self) -> bool {
        true
    }
}
