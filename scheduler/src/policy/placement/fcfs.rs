//! FCFS (Kondo et al. 2004, section 2.1): hosts in the order in which they became ready. Knows
//! nothing of their speed.

use common::HostId;

use super::{Answer, PlacementView};
use crate::policy::plan::JobPlan;

#[derive(Debug, Clone, Copy)]
pub(super) struct Fcfs;

impl Answer for Fcfs {
    fn describe(self) -> &'static str {
        "the host that has been ready for longest"
    }

    fn candidates(self, view: &impl PlacementView, _: &JobPlan) -> impl Iterator<Item = HostId> {
        view.ready_by_since()
    }
}
