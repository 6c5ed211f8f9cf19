//! EXCL-PRED (Kondo et al. 2004, section 5.2): PRI-CR without the hosts that could not be done by
//! the predicted end of the job.
//!
//! The end is predicted as wr (see [`crate::predict::makespan`]) when the job's first task can
//! start, and again whenever as many tasks have finished as there were hosts at the last
//! prediction. A host is left out at time t if t + start cost + work / speed lies beyond it.
//!
//! Readings: N is the number of hosts that can take work when the prediction is made. The paper
//! goes back to PRI-CR at "pred - .95 * meanops, where meanops is the mean clock rate", a time less
//! a rate. Taken by the number, that is one second before the end, and only this gives the paper's
//! results; so the default is the end itself. Taken with the unit that may have been meant, it is
//! 0.95 of a task's time on a mean host before the end: parameter `revert`. A new prediction
//! excludes again.

use common::{HostId, Span, Speed, Time};

use super::Scene;
use crate::host::Host;
use crate::plan::{Forecast, Plan};
use crate::predict;

/// When exclusion ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExclPred {
    /// How long before the predicted end hosts are excluded no more, in task times on a mean host.
    pub revert: f64,
}

impl ExclPred {
    pub(super) fn prepare(self, scene: &Scene<'_>, plan: &mut Plan) {
        if plan.forecast.is_none_or(|old| scene.finished() >= old.next) {
            plan.forecast = self.forecast(scene).or(plan.forecast);
        }
        plan.review = plan
            .forecast
            .map(|f| f.reverts)
            .filter(|at| *at > scene.now);
    }

    fn forecast(self, scene: &Scene<'_>) -> Option<Forecast> {
        let fleet = &scene.hosts.index;
        let work_s = scene.work_s()?;
        let hosts = fleet.usable_slots;
        let rate = fleet.fleet.mean_rate()?;
        let mean_speed = fleet.fleet.speed_mean_sd().0;
        let finish = scene.now
            + predict::makespan(
                scene.unsettled(),
                hosts,
                work_s,
                rate,
                scene.settings.start_cost,
            )?;

        let early = Span::from_secs_f64(self.revert * work_s / mean_speed);
        let reverts = Time(finish.0.saturating_sub(early.0));
        let task = scene.settings.start_cost + Span::from_secs_f64(work_s / rate);
        Some(Forecast {
            finish,
            reverts,
            task,
            next: scene.finished() + hosts,
        })
    }

    /// Until when a host must be able to finish a task, while that is asked for.
    fn deadline(scene: &Scene<'_>, plan: &Plan) -> Option<(Time, f64)> {
        let forecast = plan
            .forecast
            .filter(|forecast| scene.now < forecast.reverts)?;
        Some((forecast.finish, scene.work_s()?))
    }

    /// The ready hosts that would be done in time, the fastest first.
    pub(super) fn in_time(scene: &Scene<'_>, plan: &Plan) -> impl Iterator<Item = HostId> {
        let deadline = Self::deadline(scene, plan);
        let in_time = move |(speed, _): &(Speed, HostId)| {
            deadline
                .is_none_or(|(end, work_s)| scene.now + scene.duration_at(work_s, *speed) <= end)
        };
        scene
            .ready_by_speed()
            .take_while(in_time)
            .map(|(_, host)| host)
    }

    pub(super) fn propose(
        self,
        scene: &Scene<'_>,
        plan: &Plan,
        fit: impl Fn(HostId) -> bool,
    ) -> Option<HostId> {
        Self::in_time(scene, plan).find(|host| fit(*host))
    }

    pub(super) fn objection(self, scene: &Scene<'_>, plan: &Plan, host: &Host) -> Option<String> {
        let (end, work_s) = Self::deadline(scene, plan)?;
        let takes = scene.duration_at(work_s, host.speed);
        let left = end.since(scene.now);
        (takes > left).then(|| {
            format!("too slow: a task would take {takes} there, and the job should end in {left}")
        })
    }
}
