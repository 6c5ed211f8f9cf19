//! Promises: accepted deadlines, and the slack of all of them.

use common::{Span, Time};

use crate::policy::Policy;
use crate::policy::admission::Stacking;

/// A job's accepted deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) deadline: Time,
    /// The time at which it was promised.
    pub(crate) made: Time,
    /// The completion predicted then; `None` where that is not known, or does not count any more.
    pub(crate) finish: Option<Time>,
}

impl Promise {
    /// Creates the promise of this deadline that was made with this offer.
    pub(crate) fn offered(deadline: Time, made: Time, finish: Time) -> Self {
        Self {
            deadline,
            made,
            finish: Some(finish),
        }
    }
}

/// The time that all jobs with a promise together can spare, as computed last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slack {
    pub(crate) spare: Span,
    /// The time until which it is taken to hold.
    pub(crate) until: Time,
}

/// Returns the order in which a policy places tasks on the `Calendar`.
pub(crate) fn stacking(policy: &Policy) -> Stacking {
    policy
        .admission
        .reckoning()
        .map_or(Stacking::Given, |reckoning| reckoning.stacking)
}
