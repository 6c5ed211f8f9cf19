//! PRI-CR (Kondo et al. 2004, section 4): "hosts in the server's ready queue are prioritized by
//! their clock rates".

use common::HostId;

use super::View;

pub(super) fn propose(view: &impl View, fit: impl Fn(HostId) -> bool) -> Option<HostId> {
    view.ready_by_speed()
        .map(|(_, host)| host)
        .find(|host| fit(*host))
}
