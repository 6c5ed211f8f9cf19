//! The JSON of promises, of learned limits, and of the quality of estimates.

use common::view::{EstimatesView, LimitsView, PromiseStatus, QualityView};
use common::{JobId, Span};
use serde::Serialize;

use super::{Changed, iso};

/// The promise of a job, and its present standing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Standing {
    deadline: String,
    promised_finish: String,
    promise_made: String,
    probability: f64,
    probation: bool,
    /// One of `on-time`, `at-risk`, `kept`, `broken` and `withdrawn`.
    promise: String,
    promise_why: String,
}

impl From<&PromiseStatus> for Standing {
    fn from(view: &PromiseStatus) -> Self {
        Standing {
            deadline: iso(view.deadline),
            promised_finish: iso(view.finish),
            promise_made: iso(view.made),
            probability: view.probability,
            probation: view.probation,
            promise: view.state.to_string(),
            promise_why: view.why.clone(),
        }
    }
}

/// The tasks that `deskgrid job retry` changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Retried {
    #[serde(flatten)]
    changed: Changed,
    /// The job's promise after the retry, if it had one.
    #[serde(flatten)]
    promise: Option<Standing>,
}

impl Retried {
    /// Combines the changed tasks with the promise of their job.
    pub(crate) fn new(changed: &[(JobId, u64)], promise: Option<&PromiseStatus>) -> Self {
        Retried {
            changed: changed.into(),
            promise: promise.map(Standing::from),
        }
    }
}

/// The limits of a job's attempts, as run times on a host of speed 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Limits {
    runs: u64,
    killed: u64,
    algorithm: &'static str,
    zeta: f64,
    /// Empty while too little is known, or where limits do not pay.
    sequence_s: Vec<f64>,
    done: Vec<f64>,
    p_first: Option<f64>,
    expected_cost_s: Option<f64>,
    /// The reason for an empty `sequence_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Limits {
    /// Makes an empty sequence with this reason.
    pub(crate) fn none(why: &str) -> Self {
        Limits::from(&LimitsView {
            why: Some(why.to_owned()),
            ..LimitsView::default()
        })
    }
}

impl From<&LimitsView> for Limits {
    fn from(view: &LimitsView) -> Self {
        Limits {
            runs: view.runs,
            killed: view.killed,
            algorithm: if view.zeta > 0.0 {
                "ATOptimal"
            } else {
                "TOptimal"
            },
            zeta: view.zeta,
            sequence_s: view.limits.iter().map(|limit| limit.secs()).collect(),
            done: view.done.clone(),
            p_first: view.done.first().copied(),
            expected_cost_s: view.expected.map(Span::secs),
            why: view.why.clone(),
        }
    }
}

/// The quality of a user's estimates for a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Quality {
    /// The number of tasks that were compared.
    tasks: u64,
    ratio: f64,
    ratio_low: f64,
    ratio_high: f64,
    qoe: f64,
}

impl From<QualityView> for Quality {
    fn from(
        QualityView {
            tasks,
            ratio: (ratio, ratio_low, ratio_high),
            qoe,
        }: QualityView,
    ) -> Self {
        Quality {
            tasks,
            ratio,
            ratio_low,
            ratio_high,
            qoe,
        }
    }
}

/// The quality of a user's estimates for a program, with their names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Estimates {
    user: String,
    program: String,
    /// The number of tasks that were measured.
    tasks: u64,
    /// `null` where nothing was estimated.
    quality: Option<Quality>,
}

impl From<&EstimatesView> for Estimates {
    fn from(view: &EstimatesView) -> Self {
        Estimates {
            user: view.user.clone(),
            program: view.program.clone(),
            tasks: view.tasks,
            quality: view.quality.map(Quality::from),
        }
    }
}
