//! PRI-CR-WAIT (Kondo et al. 2004, section 4): PRI-CR that first collects a pool of ready hosts.
//! The paper waits for ten minutes, or until there are ten ready hosts for each task. Reading: it
//! waits once, from the job's submission; the tasks are those that wait.

use common::Span;

use super::Scene;
use crate::plan::Plan;

/// For how long, and for how many hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriCrWait {
    /// The longest wait (the paper: 10 minutes).
    pub wait: Span,
    /// Ready hosts per waiting task that end the wait (the paper: 10).
    pub ratio: f64,
}

impl PriCrWait {
    pub(super) fn prepare(self, scene: &Scene<'_>, plan: &mut Plan) {
        let ready = scene.hosts.index.ready.len() as f64;
        let until = plan.entered + self.wait;
        plan.waited |= scene.now >= until || ready >= self.ratio * scene.waiting() as f64;
        plan.review = (!plan.waited).then_some(until);
    }

    pub(super) fn objection(self, scene: &Scene<'_>, plan: &Plan) -> Option<String> {
        let left = (plan.entered + self.wait).since(scene.now);
        let enough = (self.ratio * scene.waiting() as f64).ceil();
        (!plan.waited)
            .then(|| format!("collects ready hosts for {left} more, or until {enough} are ready"))
    }
}
