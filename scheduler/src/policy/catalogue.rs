//! The one table of named policies: `--policy`, `deskgrid policy list`, the docs and the tests are made from it.

use super::{Admission, Limits, Ordering, Parameter, Placement, Policy, Replication, Width};
use common::job::DEFAULT_POLICY;

static CATALOGUE: &[Policy] = &[
    Policy {
        name: DEFAULT_POLICY,
        source: "deskgrid: PRI-CR, with suspended tasks rescued by idle hosts",
        summary: "Fastest ready host first; a task that is stuck on a suspended or silent host is copied to a host \
                  that would idle otherwise.",
        placement: Placement::PriCr,
        replication: Replication::Rescue,
        parameters: &[Parameter {
            name: "max_copies",
            default: "2 attempts",
            meaning: "live attempts of one task, the first included (the master's setting)",
        }],
        ..BASE
    },
    Policy {
        name: "FCFS",
        source: "Kondo et al. 2004, section 2.1",
        summary: "Tasks in order to hosts in the order in which they became ready.",
        ..BASE
    },
    Policy {
        name: "PRI-CR",
        source: "Kondo et al. 2004, section 4",
        summary: "Tasks in order to the fastest ready host.",
        placement: Placement::PriCr,
        ..BASE
    },
];

/// What rows have in common unless they say otherwise.
const BASE: Policy = Policy {
    name: "",
    source: "",
    summary: "",
    admission: Admission::AcceptAll,
    ordering: Ordering::Fcfs,
    placement: Placement::Fcfs,
    replication: Replication::None,
    limits: Limits::Fixed,
    width: Width::Rigid,
    parameters: &[],
};

/// Every policy, the default one first.
pub fn catalogue() -> &'static [Policy] {
    CATALOGUE
}

/// The policy of this name.
pub fn policy(name: &str) -> Option<&'static Policy> {
    CATALOGUE.iter().find(|policy| policy.name == name)
}

/// The policy of jobs that ask for none.
pub(crate) fn default_policy() -> &'static Policy {
    &CATALOGUE[0]
}
