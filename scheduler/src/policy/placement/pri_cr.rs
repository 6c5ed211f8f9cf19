//! PRI-CR (Kondo et al. 2004, section 4): "hosts in the server's ready queue are prioritized by
//! their clock rates".

use common::HostId;

use super::{Answer, PlacementView};
use crate::policy::plan::JobPlan;
use crate::policy::setting::HasSettings;

#[derive(Debug, Clone, Copy)]
pub(super) struct PriCr;

impl HasSettings for PriCr {}

impl Answer for PriCr {
    fn describe(self) -> &'static str {
        "the fastest ready host; of equals the one that has been ready for longest"
    }

    fn propose(
        self,
        view: &impl PlacementView,
        _: &JobPlan,
        fit: impl Fn(HostId) -> bool,
    ) -> Option<HostId> {
        view.ready_by_speed()
            .map(|(_, host)| host)
            .find(|host| fit(*host))
    }
}
