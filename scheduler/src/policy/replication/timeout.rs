//! EXCL-PRED-TO (Kondo et al. 2004, section 6): "whenever a task is scheduled, a timeout occurs if
//! the task has not been completed by the predicted makespan. Upon timeout, the task is
//! replicated".
//!
//! Readings: the prediction is the one that holds when the attempt starts. An attempt that starts
//! after it has a task's time on a mean host. A copy has a timeout as well (parameter `chain`).

use common::Time;

use super::Requeue;
use crate::policy::plan::Plan;

/// The options of the timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// Whether copies have a timeout too.
    pub chain: bool,
    /// The lost copies that are started again.
    pub requeue: Requeue,
}

impl Timeout {
    pub(super) fn at(self, now: Time, plan: &Plan, duplicate: bool) -> Option<Time> {
        let forecast = plan.forecast.filter(|_| self.chain || !duplicate)?;
        Some(if now < forecast.finish {
            forecast.finish
        } else {
            now + forecast.task
        })
    }
}
