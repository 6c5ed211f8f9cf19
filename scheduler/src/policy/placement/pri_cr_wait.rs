//! PRI-CR-WAIT (Kondo et al. 2004, section 4): PRI-CR that first collects a pool of ready hosts.
//! The paper waits for ten minutes, or until there are ten ready hosts for each task. Reading: it
//! waits once, from the job's submission; the tasks are those that wait.
//!
//! [`Answer::prepare`] looks before each round of placement whether the wait is over, and leaves the
//! time at which it will be in the job's plan: `Job::next_alarm` rings then. Until then no host is
//! proposed, and `job explain` says for how long.

use common::{HostId, Span, Speed};

use super::pri_cr::PriCr;
use super::{Answer, PlacementView};
use crate::policy::plan::JobPlan;
use crate::policy::setting::{HasSettings, Setting, number};

/// The bounds of the wait for more hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriCrWait {
    /// The longest wait (the paper: 10 minutes).
    pub wait: Span,
    /// Ready hosts per waiting task that end the wait (the paper: 10).
    pub ratio: f64,
}

impl HasSettings for PriCrWait {
    fn settings(&self) -> &'static [Setting<Self>] {
        &[
            Setting {
                name: "wait",
                meaning: "longest wait for more ready hosts",
                get: |answer| format!("{} s", answer.wait.secs()),
                set: |answer, value| {
                    answer.wait = Span::from_secs_f64(number(value, 0.0, 1e9, "seconds")?);
                    Ok(())
                },
            },
            Setting {
                name: "ratio",
                meaning: "ready hosts per waiting task that end the wait",
                get: |answer| answer.ratio.to_string(),
                set: |answer, value| {
                    answer.ratio = number(value, 0.0, 1e9, "a number of at least 0")?;
                    Ok(())
                },
            },
        ]
    }
}

impl Answer for PriCrWait {
    fn describe(self) -> &'static str {
        "none until enough hosts are ready or the wait is over, then the fastest"
    }

    fn candidates(self, view: &impl PlacementView, plan: &JobPlan) -> impl Iterator<Item = HostId> {
        let after = plan.waited.then(|| PriCr.candidates(view, plan));
        after.into_iter().flatten()
    }

    fn prepares(self) -> bool {
        true
    }

    fn prepare(self, view: &impl PlacementView, plan: &mut JobPlan) {
        let ready = view.ready() as f64;
        let until = plan.entered + self.wait;
        plan.waited |= view.now() >= until || ready >= self.ratio * view.waiting() as f64;
        plan.review = (!plan.waited).then_some(until);
    }

    fn eligible(self, view: &impl PlacementView, plan: &JobPlan) -> u64 {
        if plan.waited { view.ready() } else { 0 }
    }

    fn objection(self, view: &impl PlacementView, plan: &JobPlan, _: Speed) -> Option<String> {
        let left = (plan.entered + self.wait).since(view.now());
        let enough = (self.ratio * view.waiting() as f64).ceil();
        (!plan.waited)
            .then(|| format!("collects ready hosts for {left} more, or until {enough} are ready"))
    }
}
