//! The table of named policies, from which `--policy`, `deskgrid policy list`, the docs and the
//! tests are made.

use common::Span;
use common::job::{DEFAULT_POLICY, PROMISING_POLICY, SPECULATIVE_POLICY};

use super::admission::{Reckoning, Stacking};
use super::ordering::{Batchactive, Disclosed, Requested};
use super::placement::{ExclPred, ExclS, PriCrWait};
use super::policing::{Policing, Rule, When};
use super::replication::{Dup, Gain, Replicated, Requeue, Timeout};
use super::width::{Correction, Soonest};
use super::{Admission, Limits, Ordering, Parameter, Placement, Policy, Replication, Width};

static CATALOGUE: &[Policy] = &[
    Policy {
        name: DEFAULT_POLICY,
        source: "deskgrid: lookahead placement, copies by expected makespan reduction",
        summary: "Tasks to the hosts that will be done soonest, busy ones included; copies to idle hosts where that is \
                  expected to bring the end of the job forward by enough.",
        placement: Placement::Lookahead,
        replication: Replication::Gain(Gain { copies_max: 0.1375 }),
        parameters: &[Parameter {
            name: "copies_max",
            default: "0.1375",
            meaning: "copies per task that a job may start, on average over jobs, a twentieth less where tasks keep their state; \
                      prices are learned to keep to it",
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
    Policy {
        name: "PRI-CR-WAIT",
        source: "Kondo et al. 2004, section 4",
        summary: "PRI-CR, after ten minutes in which hosts are collected, or ten ready hosts for each task.",
        placement: Placement::PriCrWait(PriCrWait {
            wait: Span::from_secs(600),
            ratio: 10.0,
        }),
        parameters: &[
            Parameter {
                name: "wait",
                default: "600 s",
                meaning: "longest wait for more ready hosts",
            },
            Parameter {
                name: "ratio",
                default: "10",
                meaning: "ready hosts per waiting task that end the wait",
            },
        ],
        ..BASE
    },
    Policy {
        name: "PRI-HISTORY",
        source: "Kondo et al. 2004, section 4",
        summary: "Hosts first that used to stay up for at least a task's work; among them by work done per second.",
        placement: Placement::PriHistory,
        ..BASE
    },
    excl_s("EXCL-S1.5", 1.5, "1.5"),
    excl_s("EXCL-S1", 1.0, "1"),
    excl_s("EXCL-S.5", 0.5, "0.5"),
    excl_s("EXCL-S.25", 0.25, "0.25"),
    Policy {
        name: "EXCL-PRED",
        source: "Kondo et al. 2004, section 5.2",
        summary: "PRI-CR without the hosts that would be done after the predicted end of the job.",
        parameters: &[REVERT],
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
        parameters: &[
            REVERT,
            REQUEUE,
            Parameter {
                name: "copies",
                default: "started",
                meaning: "which tasks are copied once hosts are to spare: those `started` from then on, or also the \
                          `running` ones",
            },
            Parameter {
                name: "copies_max",
                default: "inf",
                meaning: "copies per task that a job may start",
            },
        ],
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
        parameters: &[
            REVERT,
            REQUEUE,
            Parameter {
                name: "chain",
                default: "yes",
                meaning: "whether copies have a timeout too (`yes` or `no`)",
            },
        ],
        ..PRED
    },
    Policy {
        name: "TOPTIMAL",
        source: "Gainaru et al. 2019, section 4.1",
        summary: "PRI-CR; attempts get limits from the sequence that is cheapest where an attempt costs its whole limit. \
                  Only for hosts that are reserved for it.",
        placement: Placement::PriCr,
        limits: Limits::TimeOptimal,
        ..BASE
    },
    Policy {
        name: "ATOPTIMAL",
        source: "Gainaru et al. 2019, section 4.1",
        summary: "TOPTIMAL where small work fills what attempts leave of their limits.",
        placement: Placement::PriCr,
        limits: Limits::Adaptive { zeta: 0.21 },
        parameters: &[Parameter {
            name: "zeta",
            default: "0.21",
            meaning: "rate at which small work arrives, by processor, from 0 to below 1 (as on Intrepid, Table 2)",
        }],
        ..BASE
    },
    Policy {
        name: "WINDOWS",
        source: "deskgrid: speculative backfilling (Gainaru et al. 2019, section 4.3) of owners' absences as recorded",
        summary: "PRI-CR; each host gets the waiting task that should make the most of the time for which it was recorded to \
                  stay idle. For tasks that take very different times.",
        placement: Placement::Windows,
        replication: Replication::Rescue,
        limits: Limits::Windowed { killing: false },
        parameters: &[Parameter {
            name: "limits",
            default: "given",
            meaning: "whether attempts run until the job's own timeout (`given`), or on hosts of which it is known when their \
                      owners come back until limits that past runs of the same user and program teach (`learned`)",
        }],
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
        limits: Limits::Policed(Policing {
            rule: Rule::Probabilistic,
            when: When::Needed,
        }),
        parameters: &[
            Parameter {
                default: "probabilistic",
                ..POLICING
            },
            Parameter {
                default: "needed",
                ..WHEN
            },
            Parameter {
                default: "yes",
                ..CALIBRATED
            },
            Parameter {
                default: "yes",
                ..INFLATED
            },
            Parameter {
                default: "longest-first",
                ..STACKING
            },
            LIMITS,
            WINDOWS,
        ],
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
        Batchactive {
            requested: Requested::Srpt,
            disclosed: Disclosed::Fcfs,
        },
    ),
    batchactive(
        "FCFSxFCFS",
        "Petrou et al. 2004, section 3.3",
        "What is requested before what is only disclosed, by time; a request takes the place of disclosed work.",
        Batchactive {
            requested: Requested::Fcfs,
            disclosed: Disclosed::Fcfs,
        },
    ),
    batchactive(
        "SRPTxNEED",
        "deskgrid: SRPTxFCFS with disclosed tasks by predicted need",
        "As SRPTxFCFS, but disclosed tasks go by how likely they are needed next: how many come before it in its job, and \
         how often its user used to go on.",
        Batchactive {
            requested: Requested::Srpt,
            disclosed: NEED,
        },
    ),
    batchactive(
        SPECULATIVE_POLICY,
        "deskgrid: FCFSxFCFS with disclosed tasks by predicted need",
        "As FCFSxFCFS, but disclosed tasks go by how likely they are needed next: how many come before it in its job, and \
         how often its user used to go on.",
        Batchactive {
            requested: Requested::Fcfs,
            disclosed: NEED,
        },
    ),
    batchactive(
        "INTERACTIVE-SRPT",
        "Petrou et al. 2004, section 2",
        "Only what is requested runs, the shortest first.",
        Batchactive {
            requested: Requested::Srpt,
            disclosed: Disclosed::Held,
        },
    ),
    batchactive(
        "INTERACTIVE-FCFS",
        "Petrou et al. 2004, section 2",
        "Only what is requested runs, by time.",
        Batchactive {
            requested: Requested::Fcfs,
            disclosed: Disclosed::Held,
        },
    ),
    batchactive(
        "BATCH-SRPT",
        "Petrou et al. 2004, section 2",
        "What is disclosed runs as if it were requested, the shortest first.",
        Batchactive {
            requested: Requested::Srpt,
            disclosed: Disclosed::AsRequested,
        },
    ),
    batchactive(
        "BATCH-FCFS",
        "Petrou et al. 2004, section 2",
        "What is disclosed runs as if it were requested, by time.",
        Batchactive {
            requested: Requested::Fcfs,
            disclosed: Disclosed::AsRequested,
        },
    ),
    policed(
        "CALENDAR-HARD",
        Rule::Hard,
        &[
            Parameter {
                default: "hard",
                ..POLICING
            },
            ALWAYS,
            AS_IS,
            BARE,
            GIVEN,
            LIMITS,
            WINDOWS,
        ],
    ),
    policed(
        "CALENDAR-GRACE",
        Rule::Grace(0.5),
        &[
            Parameter {
                default: "grace0.5",
                ..POLICING
            },
            ALWAYS,
            AS_IS,
            BARE,
            GIVEN,
            LIMITS,
            WINDOWS,
        ],
    ),
    policed(
        "CALENDAR-PROB",
        Rule::Probabilistic,
        &[
            Parameter {
                default: "probabilistic",
                ..POLICING
            },
            ALWAYS,
            AS_IS,
            BARE,
            GIVEN,
            LIMITS,
            WINDOWS,
        ],
    ),
    Policy {
        name: "AVG",
        source: "Downey 1997, section 5.1",
        summary: "A job of many ranks starts at once on the free hosts, on no more than its average parallelism.",
        width: Width::Average,
        parameters: &[RANKS],
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
        parameters: &[
            Parameter {
                default: "learned",
                ..CORRECTION
            },
            UNLOCKED,
            RISKLESS,
            FREE,
            RANKS,
        ],
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
        parameters: &[
            Parameter {
                default: "paper",
                ..CORRECTION
            },
            UNLOCKED,
            RISKLESS,
            FREE,
            RANKS,
        ],
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
        parameters: &[
            Parameter {
                default: "learned",
                ..CORRECTION
            },
            LOCKED,
            RISKLESS,
            FREE,
            RANKS,
        ],
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
        parameters: &[
            Parameter {
                default: "learned",
                ..CORRECTION
            },
            LOCKED,
            Parameter {
                default: "0.2",
                ..RISK
            },
            FREE,
            RANKS,
        ],
        ..MALLEABLE
    },
    Policy {
        name: "HEUR",
        source: "Downey 1997, section 5.5",
        summary: "A job of many ranks holds out for as many hosts as it can use, for a fifth of the time that they would save.",
        width: Width::Patient { k: 0.2 },
        parameters: &[
            Parameter {
                name: "k",
                default: "0.2",
                meaning: "for which part of the time that more hosts would save a job waits for them",
            },
            RANKS,
        ],
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
        parameters: &[
            AS_PREDICTED,
            UNLOCKED,
            RISKLESS,
            Parameter {
                default: "1",
                ..PRICE
            },
            RANKS,
        ],
        ..MALLEABLE
    },
];

const BIASED: Soonest = Soonest {
    correction: Correction::Learned,
    ..Soonest::PLAIN
};

const CORRECTION: Parameter = Parameter {
    name: "correction",
    default: "",
    meaning: "what becomes of predicted waits: nothing (`none`), the line of the `paper`, or the one that is `learned`",
};

const LOCK: Parameter = Parameter {
    name: "lock",
    default: "",
    meaning: "whether who held out starts on just as many hosts as it held out for (`yes` or `no`)",
};

const RISK: Parameter = Parameter {
    name: "risk",
    default: "",
    meaning: "the part of its run time that a job must expect to save if it is to hold out",
};

const PRICE: Parameter = Parameter {
    name: "price",
    default: "",
    meaning: "what a second of waiting costs for each job behind, in seconds of one's own",
};

const RANKS: Parameter = Parameter {
    name: "limits",
    default: "given",
    meaning: "whether ranks run until the job's own timeout (`given`), or until limits that past runs of the same user and program \
              on as many hosts teach (`learned`)",
};

const AS_PREDICTED: Parameter = Parameter {
    default: "none",
    ..CORRECTION
};
const UNLOCKED: Parameter = Parameter {
    default: "no",
    ..LOCK
};
const LOCKED: Parameter = Parameter {
    default: "yes",
    ..LOCK
};
const RISKLESS: Parameter = Parameter {
    default: "0",
    ..RISK
};
const FREE: Parameter = Parameter {
    default: "0",
    ..PRICE
};

/// The base of the rows for gangs. All ranks go at the pace of the slowest host.
const MALLEABLE: Policy = Policy {
    placement: Placement::PriCr,
    width: Width::Soonest(Soonest::PLAIN),
    parameters: &[AS_PREDICTED, UNLOCKED, RISKLESS, FREE, RANKS],
    ..BASE
};

const POLICING: Parameter = Parameter {
    name: "policing",
    default: "",
    meaning: "who may be killed when a bag arrives: nobody (`off`), attempts beyond their estimate (`hard`), beyond it by \
              the part K (`graceK`), or the farther the likelier (`probabilistic`)",
};

const WHEN: Parameter = Parameter {
    name: "when",
    default: "",
    meaning: "whether they are killed `always`, or as many as are `needed` where the bag would be refused otherwise",
};

const CALIBRATED: Parameter = Parameter {
    name: "calibrated",
    default: "",
    meaning: "whether estimates are corrected by what is known of who estimates (`yes` or `no`)",
};

const INFLATED: Parameter = Parameter {
    name: "inflated",
    default: "",
    meaning: "whether run times are lengthened by what owners and other load should take (`yes` or `no`)",
};

const STACKING: Parameter = Parameter {
    name: "stacking",
    default: "",
    meaning: "in which order a bag's tasks are put on the calendar and started: as `given`, or `longest-first`",
};

const LIMITS: Parameter = Parameter {
    name: "limits",
    default: "given",
    meaning: "whether attempts of jobs with a deadline run until the job's own timeout (`given`), or until limits that past \
              runs of the same user and program teach (`learned`)",
};

const WINDOWS: Parameter = Parameter {
    name: "windows",
    default: "no",
    meaning: "whether each host gets the task of a job with learned limits that should make the most of its idle window, by \
              how the host was recorded to be available (`yes` or `no`)",
};

const ALWAYS: Parameter = Parameter {
    default: "always",
    ..WHEN
};
const AS_IS: Parameter = Parameter {
    default: "no",
    ..CALIBRATED
};
const BARE: Parameter = Parameter {
    default: "no",
    ..INFLATED
};
const GIVEN: Parameter = Parameter {
    default: "given",
    ..STACKING
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
    limits: Limits::Policed(Policing::OFF),
    parameters: &[
        Parameter {
            default: "off",
            ..POLICING
        },
        Parameter {
            default: "needed",
            ..WHEN
        },
        AS_IS,
        BARE,
        GIVEN,
        LIMITS,
        WINDOWS,
    ],
    ..BASE
};

const fn policed(name: &'static str, rule: Rule, parameters: &'static [Parameter]) -> Policy {
    Policy {
        name,
        source: "Wozniak et al., section 4, equations 2 to 4",
        summary: "Deadlines are promised by estimates as they are given; what exceeds its estimate may be killed whenever \
                  a bag arrives.",
        limits: Limits::Policed(Policing {
            rule,
            when: When::Always,
        }),
        parameters,
        ..CALENDAR
    }
}

/// Halves the weight of a task for each task that is expected before it.
const NEED: Disclosed = Disclosed::Need { later: 50 };

const fn batchactive(
    name: &'static str,
    source: &'static str,
    summary: &'static str,
    answer: Batchactive,
) -> Policy {
    let ordering = Ordering::Batchactive(answer);
    let placement = Placement::PriCr;
    let parameters: &[Parameter] = if matches!(answer.disclosed, Disclosed::Need { .. }) {
        &[LATER, WITH]
    } else {
        &[WITH]
    };

    Policy {
        name,
        source,
        summary,
        ordering,
        placement,
        parameters,
        ..BASE
    }
}

const LATER: Parameter = Parameter {
    name: "later",
    default: "50",
    meaning: "what each further task before a disclosed one counts, beside the chance that its user goes on, in per cent: \
              100 is by that chance alone, 1 by the number of tasks before it",
};

const WITH: Parameter = Parameter {
    name: "with",
    default: "PRI-CR",
    meaning: "the policy from which placement, replication and limits are taken, one that promises nothing",
};

const REVERT: Parameter = Parameter {
    name: "revert",
    default: "0",
    meaning: "how long before the predicted end slow hosts are taken again, in task times on a mean host",
};

const REQUEUE: Parameter = Parameter {
    name: "requeue",
    default: "any",
    meaning: "which lost copies are started again at once while another one lives: `any`, the `primary`, or `never`",
};

/// The base of all rows.
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

/// The base of the rows with the makespan prediction.
const PRED: Policy = Policy {
    placement: Placement::ExclPred(ExclPred { revert: 0.0 }),
    ..BASE
};

const fn excl_s(name: &'static str, sds: f64, default: &'static str) -> Policy {
    Policy {
        name,
        source: "Kondo et al. 2004, section 5.1",
        summary: "PRI-CR without the hosts that are slow among all hosts.",
        placement: Placement::ExclS(ExclS { sds }),
        parameters: match default.as_bytes() {
            b"1.5" => &[Parameter {
                default: "1.5",
                ..SDS
            }],
            b"1" => &[Parameter {
                default: "1",
                ..SDS
            }],
            b"0.5" => &[Parameter {
                default: "0.5",
                ..SDS
            }],
            _ => &[Parameter {
                default: "0.25",
                ..SDS
            }],
        },
        ..BASE
    }
}

const SDS: Parameter = Parameter {
    name: "sds",
    default: "",
    meaning: "standard deviations of the clock rates below their mean at which a host is too slow",
};

/// Returns every policy, the default one first.
pub fn catalogue() -> &'static [Policy] {
    CATALOGUE
}

/// Returns the policy of this name, with the parameters given in it; `None` where [`super::parse`]
/// fails.
pub fn policy(name: &str) -> Option<Policy> {
    super::parse(name).ok()
}

/// Returns the policy of jobs that ask for none.
pub(crate) fn default_policy() -> Policy {
    CATALOGUE[0]
}
