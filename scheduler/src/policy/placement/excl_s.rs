//! EXCL-S (Kondo et al. 2004, section 5.1): PRI-CR without the hosts whose clock rate lies more
//! than [`ExclS::sds`] standard deviations below the mean "over all hosts". Reading: all hosts that
//! are known, present or not. If no host that could take work is fast enough, the fastest of them
//! is taken: a job must not wait for ever.

use common::{HostId, Speed};

use super::{Answer, PlacementView};
use crate::policy::plan::JobPlan;
use crate::policy::setting::{HasSettings, Setting, number};

/// The threshold of speed below which hosts are excluded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExclS {
    /// Standard deviations below the mean (the paper: 1.5, 1, 0.5 and 0.25).
    pub sds: f64,
}

impl ExclS {
    fn threshold(self, view: &impl PlacementView) -> f64 {
        let (mean, sd) = view.speed_mean_sd();
        let fastest = view.fastest().map_or(0.0, Speed::factor);
        (mean - self.sds * sd).min(fastest)
    }
}

impl HasSettings for ExclS {
    fn settings(&self) -> &'static [Setting<Self>] {
        &[Setting {
            name: "sds",
            meaning: "standard deviations of the clock rates below their mean at which a host is too slow",
            get: |answer| answer.sds.to_string(),
            set: |answer, value| number(value, -1e3, 1e3, "a number").map(|sds| answer.sds = sds),
        }]
    }
}

impl Answer for ExclS {
    fn describe(self) -> &'static str {
        "the fastest ready host, never one that is too slow among all hosts"
    }

    fn candidates(self, view: &impl PlacementView, _: &JobPlan) -> impl Iterator<Item = HostId> {
        let threshold = self.threshold(view);
        let fast = move |(speed, _): &(Speed, HostId)| speed.factor() >= threshold;
        view.ready_by_speed().take_while(fast).map(|(_, host)| host)
    }

    fn eligible(self, view: &impl PlacementView, plan: &JobPlan) -> u64 {
        self.candidates(view, plan).count() as u64
    }

    fn objection(self, view: &impl PlacementView, _: &JobPlan, speed: Speed) -> Option<String> {
        let threshold = self.threshold(view);
        let sds = self.sds;
        (speed.factor() < threshold).then(|| {
            format!(
                "too slow: speed {speed} is below {threshold:.2}, which is {sds} standard deviations under the mean"
            )
        })
    }
}
