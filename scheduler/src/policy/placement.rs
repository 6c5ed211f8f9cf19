//! On which ready host does the next task start, or on none yet?

use std::cmp::Reverse;
use std::collections::BTreeSet;

use common::{HostId, Speed, Time};

/// Which ready host is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The one that has been ready for longest.
    Fcfs,
    /// The fastest one (Kondo et al. 2004, section 4: "prioritized by their clock rates").
    PriCr,
}

/// The hosts with a free slot, in every order that an answer asks for.
#[derive(Debug, Default)]
pub(crate) struct ReadyHosts {
    by_since: BTreeSet<(Time, HostId)>,
    by_speed: BTreeSet<(Reverse<Speed>, Time, HostId)>,
}

impl ReadyHosts {
    pub(crate) fn insert(&mut self, host: HostId, since: Time, speed: Speed) {
        self.by_since.insert((since, host));
        self.by_speed.insert((Reverse(speed), since, host));
    }

    pub(crate) fn remove(&mut self, host: HostId, since: Time, speed: Speed) {
        self.by_since.remove(&(since, host));
        self.by_speed.remove(&(Reverse(speed), since, host));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_since.is_empty()
    }
}

impl Placement {
    /// The host to take next; none where the job had better wait.
    pub(crate) fn propose(self, ready: &ReadyHosts) -> Option<HostId> {
        match self {
            Placement::Fcfs => ready.by_since.first().map(|(_, host)| *host),
            Placement::PriCr => ready.by_speed.first().map(|(_, _, host)| *host),
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Placement::Fcfs => "the host that has been ready for longest",
            Placement::PriCr => "the fastest ready host; of equals the one that has been ready for longest",
        }
    }
}
