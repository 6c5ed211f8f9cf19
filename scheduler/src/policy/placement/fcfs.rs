//! FCFS (Kondo et al. 2004, section 2.1): hosts in the order in which they became ready. Knows
//! nothing of their speed.

use common::HostId;

use super::View;

pub(super) fn propose(view: &impl View, fit: impl Fn(HostId) -> bool) -> Option<HostId> {
    view.ready_by_since().find(|host| fit(*host))
}
