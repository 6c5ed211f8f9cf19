//! EXCL-PRED-TO (Kondo et al. 2004, section 6): "whenever a task is scheduled, a timeout occurs if
//! the task has not been completed by the predicted makespan. Upon timeout, the task is
//! replicated".
//!
//! Readings: the prediction is the one that holds when the attempt starts. An attempt that starts
//! after it has a task's time on a mean host. A copy has a timeout as well (parameter `chain`).
//!
//! The prediction is made by the placement EXCL-PRED, in the job's [`JobPlan`]. `Starter::start` asks
//! [`Answer::timeout`] for each attempt and keeps the time among the job's `timeouts`;
//! `Job::next_alarm` makes it the scheduler's next wake-up. When it has come, `Job::on_alarm` puts the
//! task among the job's wishes, unless it is done. `Starter::copy` grants the wishes after all waiting
//! tasks, those of tasks on slow hosts first, on the host that EXCL-PRED proposes.

use common::Time;

use super::{Answer, Requeue};
use crate::policy::plan::JobPlan;
use crate::policy::setting::{HasSettings, Setting, YES_OR_NO, name_of, yes_or_no};

/// The options of the timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// Whether copies have a timeout too.
    pub chain: bool,
    /// The lost copies that are started again.
    pub requeue: Requeue,
}

impl HasSettings for Timeout {
    fn settings(&self) -> &'static [Setting<Self>] {
        &[
            Setting {
                name: "requeue",
                meaning: Requeue::MEANING,
                get: |answer| answer.requeue.name(),
                set: |answer, value| Requeue::named(value).map(|requeue| answer.requeue = requeue),
            },
            Setting {
                name: "chain",
                meaning: "whether copies have a timeout too (`yes` or `no`)",
                get: |answer| name_of(answer.chain, &YES_OR_NO),
                set: |answer, value| yes_or_no(value).map(|chain| answer.chain = chain),
            },
        ]
    }
}

impl Answer for Timeout {
    fn describe(self) -> &'static str {
        "a task that is not done by the predicted end of its job, those on slow hosts first"
    }

    fn requeue(self) -> Requeue {
        self.requeue
    }

    fn timeout(self, now: Time, plan: &JobPlan, duplicate: bool) -> Option<Time> {
        let forecast = plan.forecast.filter(|_| self.chain || !duplicate)?;
        Some(if now < forecast.finish {
            forecast.finish
        } else {
            now + forecast.task
        })
    }
}
