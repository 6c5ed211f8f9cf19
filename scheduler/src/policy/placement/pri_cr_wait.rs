//! PRI-CR-WAIT (Kondo et al. 2004, section 4): PRI-CR that first collects a pool of ready hosts.
//! The paper waits for ten minutes, or until there are ten ready hosts for each task. Reading: it
//! waits once, from the job's submission; the tasks are those that wait.

use common::Span;

use super::View;
use crate::policy::plan::Plan;

/// The bounds of the wait for more hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriCrWait {
    /// The longest wait (the paper: 10 minutes).
    pub wait: Span,
    /// Ready hosts per waiting task that end the wait (the paper: 10).
    pub ratio: f64,
}

impl PriCrWait {
    pub(super) fn prepare(self, view: &impl View, plan: &mut Plan) {
        let ready = view.ready() as f64;
        let until = plan.entered + self.wait;
        plan.waited |= view.now() >= until || ready >= self.ratio * view.waiting() as f64;
        plan.review = (!plan.waited).then_some(until);
    }

    pub(super) fn objection(self, view: &impl View, plan: &Plan) -> Option<String> {
        let left = (plan.entered + self.wait).since(view.now());
        let enough = (self.ratio * view.waiting() as f64).ceil();
        (!plan.waited)
            .then(|| format!("collects ready hosts for {left} more, or until {enough} are ready"))
    }
}
