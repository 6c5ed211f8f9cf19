//! The table of named policies, from which `--policy`, `deskgrid policy list`, the docs and the
//! tests are made.

use common::Span;
use common::job::{DEFAULT_POLICY, PROMISING_POLICY, SPECULATIVE_POLICY};

use super::admission::{Reckoning, Stacking};
use super::ordering::{Batchactive, Disclosed, RequestedOrder};
use super::placement::{ExclPred, ExclS, PriCrWait};
use super::policing::{KillOccasion, Policing, Rule};
use super::replication::{Dup, Gain, Replicated, Requeue, Timeout};
use super::width::{Correction, Soonest};
use super::{Admission, LimitSource, Ordering, Placement, Policy, Replication, Width};

static CATALOGUE: &[Policy] = &[
    Policy {
        name: DEFAULT_POLICY,
        source: "deskgrid: lookahead placement, copies by expected makespan reduction",
        summary: "Tasks to the hosts that will be done soonest, busy ones included; copies to idle hosts where that is \
                  expected to bring the end of the job forward by enough.",
        placement: Placement::Lookahead,
        replication: Replication::Gain(Gain { copies_max: 0.1375 }),
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
    Policy {
        name: "PRI-CR-WAIT",
        source: "Kondo et al. 2004, section 4",
        summary: "PRI-CR, after ten minutes in which hosts are collected, or ten ready hosts for each task.",
        placement: Placement::PriCrWait(PriCrWait {
            wait: Span::from_secs(600),
            ratio: 10.0,
        }),
        ..BASE
    },
    Policy {
        name: "PRI-HISTORY",
        source: "Kondo et al. 2004, section 4",
        summary: "Hosts first that used to stay up for at least a task's work; among them by work done per second.",
        placement: Placement::PriHistory,
        ..BASE
    },
    excl_s(
        "EXCL-S1.5",
        1.5,
        "PRI-CR without the hosts whose clock rate lies more than 1.5 standard deviations below the mean.",
    ),
    excl_s(
        "EXCL-S1",
        1.0,
        "PRI-CR without the hosts whose clock rate lies more than one standard deviation below the mean.",
    ),
    excl_s(
        "EXCL-S.5",
        0.5,
        "PRI-CR without the hosts whose clock rate lies more than half a standard deviation below the mean.",
    ),
    excl_s(
        "EXCL-S.25",
        0.25,
        "PRI-CR without the hosts whose clock rate lies more than a quarter of a standard deviation below the mean.",
    ),
    Policy {
        name: "EXCL-PRED",
        source: "Kondo et al. 2004, section 5.2",
        summary: "PRI-CR without the hosts that would be done after the predicted end of the job.",
        ..PRED
    },
    Policy {
        name: "EXCL-PRED-DUP",
        source: "Kondo et al. 2004, section 6",
        summary: "EXCL-PRED; tasks that start while more hosts are ready than tasks wait are copied.",
        replication: Replication::Dup(Dup {
            which: Replicated::Started,
            requeue: Requeue::Any,
            copies_max: f64::INFINITY,
        }),
        ..PRED
    },
    Policy {
        name: "EXCL-PRED-TO",
        source: "Kondo et al. 2004, section 6",
        summary: "EXCL-PRED; a task that is not done by the end predicted when it started is copied.",
        replication: Replication::Timeout(Timeout {
            chain: true,
            requeue: Requeue::Any,
        }),
        ..PRED
    },
    Policy {
        name: "TOPTIMAL",
        source: "Gainaru et al. 2019, section 4.1",
        summary: "PRI-CR; attempts get limits from the sequence that is cheapest where an attempt costs its whole limit. \
                  Only for hosts that are reserved for it.",
        placement: Placement::PriCr,
        limits: LimitSource::TimeOptimal,
        ..BASE
    },
    Policy {
        name: "ATOPTIMAL",
        source: "Gainaru et al. 2019, section 4.1",
        summary: "TOPTIMAL where small work fills what attempts leave of their limits.",
        placement: Placement::PriCr,
        limits: LimitSource::Adaptive { zeta: 0.21 },
        ..BASE
    },
    Policy {
        name: "WINDOWS",
        source: "deskgrid: speculative backfilling (Gainaru et al. 2019, section 4.3) of owners' absences as recorded",
        summary: "PRI-CR; each host gets the waiting task that should make the most of the time for which it was recorded to \
                  stay idle. For tasks that take very different times.",
        placement: Placement::Windows,
        replication: Replication::Rescue,
        limits: LimitSource::Windowed { killing: false },
        ..BASE
    },
    Policy {
        name: PROMISING_POLICY,
        source: "deskgrid: the calendar of Wozniak et al. with corrected estimates",
        summary: "Deadlines are promised by estimates corrected by how good each user's were, hosts and owners as they \
                  are expected; longest tasks first.",
        admission: Admission::Calendar(Reckoning {
            calibrated: true,
            inflated: true,
            stacking: Stacking::LongestFirst,
            windows: false,
        }),
        replication: Replication::Rescue,
        limits: LimitSource::Policed(Policing {
            rule: Rule::Probabilistic,
            when: KillOccasion::Needed,
        }),
        ..CALENDAR
    },
    Policy {
        name: "CALENDAR",
        source: "Wozniak et al., section 4",
        summary: "Deadlines are promised by estimates as they are given; nobody is killed.",
        ..CALENDAR
    },
    batchactive(
        "SRPTxFCFS",
        "Petrou et al. 2004, section 3.3",
        "What is requested before what is only disclosed, the shortest first; a request takes the place of disclosed work.",
        RequestedOrder::Srpt,
        Disclosed::Fcfs,
    ),
    batchactive(
        "FCFSxFCFS",
        "Petrou et al. 2004, section 3.3",
        "What is requested before what is only disclosed, by time; a request takes the place of disclosed work.",
        RequestedOrder::Fcfs,
        Disclosed::Fcfs,
    ),
    batchactive(
        "SRPTxNEED",
        "deskgrid: SRPTxFCFS with disclosed tasks by predicted need",
        "As SRPTxFCFS, but disclosed tasks go by how likely they are needed next: how many come before it in its job, and \
         how often its user used to go on.",
        RequestedOrder::Srpt,
        NEED,
    ),
    batchactive(
        SPECULATIVE_POLICY,
        "deskgrid: FCFSxFCFS with disclosed tasks by predicted need",
        "As FCFSxFCFS, but disclosed tasks go by how likely they are needed next: how many come before it in its job, and \
         how often its user used to go on.",
        RequestedOrder::Fcfs,
        NEED,
    ),
    batchactive(
        "INTERACTIVE-SRPT",
        "Petrou et al. 2004, section 2",
        "Only what is requested runs, the shortest first.",
        RequestedOrder::Srpt,
        Disclosed::Held,
    ),
    batchactive(
        "INTERACTIVE-FCFS",
        "Petrou et al. 2004, section 2",
        "Only what is requested runs, by time.",
        RequestedOrder::Fcfs,
        Disclosed::Held,
    ),
    batchactive(
        "BATCH-SRPT",
        "Petrou et al. 2004, section 2",
        "What is disclosed runs as if it were requested, the shortest first.",
        RequestedOrder::Srpt,
        Disclosed::AsRequested,
    ),
    batchactive(
        "BATCH-FCFS",
        "Petrou et al. 2004, section 2",
        "What is disclosed runs as if it were requested, by time.",
        RequestedOrder::Fcfs,
        Disclosed::AsRequested,
    ),
    policed(
        "CALENDAR-HARD",
        Rule::Hard,
        "CALENDAR; each bag that arrives has all attempts killed that exceed their estimates.",
    ),
    policed(
        "CALENDAR-GRACE",
        Rule::Grace(0.5),
        "CALENDAR; each bag that arrives has all attempts killed that exceed their estimates by more than half.",
    ),
    policed(
        "CALENDAR-PROB",
        Rule::Probabilistic,
        "CALENDAR; each bag that arrives has attempts killed, the likelier the more they exceed their estimates.",
    ),
    Policy {
        name: "AVG",
        source: "Downey 1997, section 5.1",
        summary: "A job of many ranks starts at once on the free hosts, on no more than its average parallelism.",
        width: Width::Average,
        ..MALLEABLE
    },
    Policy {
        name: "PRED",
        source: "Downey 1997, section 5.3",
        summary: "A job of many ranks holds out for the number of hosts on which it should end the soonest.",
        ..MALLEABLE
    },
    Policy {
        name: "BIAS",
        source: "Downey 1997, section 5.4",
        summary: "PRED; predictions are corrected by how good earlier ones were.",
        width: Width::Soonest(BIASED),
        ..MALLEABLE
    },
    Policy {
        name: "BIAS-PAPER",
        source: "Downey 1997, section 5.4",
        summary: "PRED; predictions are corrected by the paper's line.",
        width: Width::Soonest(Soonest {
            correction: Correction::Paper,
            ..Soonest::PLAIN
        }),
        ..MALLEABLE
    },
    Policy {
        name: "BIAS-LOCK",
        source: "Downey 1997, section 6.1",
        summary: "BIAS; who held out starts on just as many hosts as it held out for.",
        width: Width::Soonest(Soonest {
            lock: true,
            ..BIASED
        }),
        ..MALLEABLE
    },
    Policy {
        name: "BIAS-LOCK-RISK",
        source: "Downey 1997, section 6.1",
        summary: "BIAS-LOCK; only who should save more than a fifth of the run time holds out.",
        width: Width::Soonest(Soonest {
            lock: true,
            risk: 0.2,
            ..BIASED
        }),
        ..MALLEABLE
    },
    Policy {
        name: "HEUR",
        source: "Downey 1997, section 5.5",
        summary: "A job of many ranks holds out for as many hosts as it can use, for a fifth of the time that they would save.",
        width: Width::Patient { k: 0.2 },
        ..MALLEABLE
    },
    Policy {
        name: "PRICED",
        source: "deskgrid: named, but not tried, in Downey 1997, section 6.1",
        summary: "PRED; a job's waiting counts once more for each job that waits behind it.",
        width: Width::Soonest(Soonest {
            price: 1.0,
            ..Soonest::PLAIN
        }),
        ..MALLEABLE
    },
];

const BIASED: Soonest = Soonest {
    correction: Correction::Learned,
    ..Soonest::PLAIN
};

/// The base of the rows for gangs. All ranks go at the pace of the slowest host.
const MALLEABLE: Policy = Policy {
    placement: Placement::PriCr,
    width: Width::Soonest(Soonest::PLAIN),
    ..BASE
};

/// The base of the rows with a calendar.
const CALENDAR: Policy = Policy {
    admission: Admission::Calendar(Reckoning {
        calibrated: false,
        inflated: false,
        stacking: Stacking::Given,
        windows: false,
    }),
    ordering: Ordering::Promised,
    placement: Placement::Calendar,
    limits: LimitSource::Policed(Policing::OFF),
    ..BASE
};

const fn policed(name: &'static str, rule: Rule, summary: &'static str) -> Policy {
    Policy {
        name,
        source: "Wozniak et al., section 4, equations 2 to 4",
        summary,
        limits: LimitSource::Policed(Policing {
            rule,
            when: KillOccasion::Always,
        }),
        ..CALENDAR
    }
}

/// Halves the weight of a task for each task that is expected before it.
const NEED: Disclosed = Disclosed::Need { later: 50 };

const fn batchactive(
    name: &'static str,
    source: &'static str,
    summary: &'static str,
    requested: RequestedOrder,
    disclosed: Disclosed,
) -> Policy {
    let ordering = Ordering::Batchactive(Batchactive {
        requested,
        disclosed,
    });
    Policy {
        name,
        source,
        summary,
        ordering,
        placement: Placement::PriCr,
        ..BASE
    }
}

/// The base of all rows.
const BASE: Policy = Policy {
    name: "",
    source: "",
    summary: "",
    admission: Admission::AcceptAll,
    ordering: Ordering::Fcfs,
    placement: Placement::Fcfs,
    replication: Replication::None,
    limits: LimitSource::Fixed,
    width: Width::Rigid,
};

/// The base of the rows with the makespan prediction.
const PRED: Policy = Policy {
    placement: Placement::ExclPred(ExclPred { revert: 0.0 }),
    ..BASE
};

const fn excl_s(name: &'static str, sds: f64, summary: &'static str) -> Policy {
    Policy {
        name,
        source: "Kondo et al. 2004, section 5.1",
        summary,
        placement: Placement::ExclS(ExclS { sds }),
        ..BASE
    }
}

/// Returns every policy, the default one first.
pub fn catalogue() -> &'static [Policy] {
    CATALOGUE
}

/// Returns the names of the policies that `wanted` accepts, as a list for people: `A, B or C`.
pub fn names(wanted: impl Fn(&Policy) -> bool) -> String {
    let names: Vec<&str> = CATALOGUE
        .iter()
        .filter(|row| wanted(row))
        .map(|row| row.name)
        .collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Returns the policy of this name, with the parameters given in it; `None` where [`super::parse`]
/// fails.
pub fn policy(name: &str) -> Option<Policy> {
    super::parse(name).ok()
}

impl Default for Policy {
    /// Returns the policy of jobs that ask for none.
    fn default() -> Self {
        CATALOGUE[0]
    }
}
