//! EXCL-PRED (Kondo et al. 2004, section 5.2): PRI-CR without the hosts that could not be done by
//! the predicted end of the job.
//!
//! The end is predicted as wr (see [`crate::prediction::predict::makespan`]) when the job's first
//! task can start, and again whenever as many tasks have finished as there were hosts at the last
//! prediction. A host is left out at time t if t + start cost + work / speed lies beyond it.
//!
//! Readings: N is the number of hosts that can take work when the prediction is made. The paper
//! goes back to PRI-CR at "pred - .95 * meanops, where meanops is the mean clock rate", a time less
//! a rate. Taken by the number, that is one second before the end, and only this gives the paper's
//! results; so the default is the end itself. Taken with the unit that may have been meant, it is
//! 0.95 of a task's time on a mean host before the end: parameter `revert`. A new prediction
//! excludes again.
//!
//! [`Answer::prepare`] makes the prediction before a round of placement and leaves it in the job's
//! [`JobPlan`], with the time from which on slow hosts are taken again as `review`: `Job::next_alarm`
//! rings then, and the job is placed anew. [`Answer::candidates`] reads the prediction from the plan; so
//! does the replication of EXCL-PRED-TO, for its timeouts.

use common::{HostId, Span, Speed, Time};

use super::{Answer, PlacementView};
use crate::policy::plan::{JobPlan, PredictedCompletion};
use crate::policy::setting::{HasSettings, Setting, number};
use crate::prediction::predict;

/// The end of the exclusion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExclPred {
    /// The time before the predicted end from which hosts are no longer excluded, in task times on
    /// a mean host.
    pub revert: f64,
}

impl ExclPred {
    fn forecast(self, view: &impl PlacementView) -> Option<PredictedCompletion> {
        let work_s = view.work_s()?;
        let hosts = view.usable_slots();
        let rate = view.mean_rate()?;
        let mean_speed = view.speed_mean_sd().0;
        let finish = view.now()
            + predict::makespan(view.unsettled(), hosts, work_s, rate, view.start_cost())?;

        let early = Span::from_secs_f64(self.revert * work_s / mean_speed);
        Some(PredictedCompletion {
            finish,
            reverts: Time(finish.0.saturating_sub(early.0)),
            task: view.start_cost() + Span::from_secs_f64(work_s / rate),
            next: view.finished() + hosts,
        })
    }

    /// Returns the time by which a host must be able to finish a task, with the work of a task,
    /// while hosts are excluded.
    fn deadline(view: &impl PlacementView, plan: &JobPlan) -> Option<(Time, f64)> {
        let forecast = plan
            .forecast
            .filter(|forecast| view.now() < forecast.reverts)?;
        Some((forecast.finish, view.work_s()?))
    }
}

impl HasSettings for ExclPred {
    fn settings(&self) -> &'static [Setting<Self>] {
        &[Setting {
            name: "revert",
            meaning: "how long before the predicted end slow hosts are taken again, in task times on a mean host",
            get: |answer| answer.revert.to_string(),
            set: |answer, value| {
                answer.revert = number(value, 0.0, 1e3, "a number of at least 0")?;
                Ok(())
            },
        }]
    }
}

impl Answer for ExclPred {
    fn describe(self) -> &'static str {
        "the fastest ready host, unless it would be done after the predicted end of the job; from that end on any"
    }

    fn candidates(self, view: &impl PlacementView, plan: &JobPlan) -> impl Iterator<Item = HostId> {
        let deadline = Self::deadline(view, plan);
        let in_time = move |(speed, _): &(Speed, HostId)| {
            deadline
                .is_none_or(|(end, work_s)| view.now() + view.duration_at(work_s, *speed) <= end)
        };
        view.ready_by_speed()
            .take_while(in_time)
            .map(|(_, host)| host)
    }

    fn prepares(self) -> bool {
        true
    }

    fn prepare(self, view: &impl PlacementView, plan: &mut JobPlan) {
        if plan.forecast.is_none_or(|old| view.finished() >= old.next) {
            plan.forecast = self.forecast(view).or(plan.forecast);
        }
        plan.review = plan
            .forecast
            .map(|f| f.reverts)
            .filter(|at| *at > view.now());
    }

    fn eligible(self, view: &impl PlacementView, plan: &JobPlan) -> u64 {
        self.candidates(view, plan).count() as u64
    }

    fn objection(self, view: &impl PlacementView, plan: &JobPlan, speed: Speed) -> Option<String> {
        let (end, work_s) = Self::deadline(view, plan)?;
        let takes = view.duration_at(work_s, speed);
        let left = end.since(view.now());
        (takes > left).then(|| {
            format!("too slow: a task would take {takes} there, and the job should end in {left}")
        })
    }
}
