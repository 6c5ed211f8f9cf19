//! What a job with a deadline was promised.

use common::{Span, Time};

use crate::policy::Policy;
use crate::policy::admission::Stacking;

/// What a job was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) deadline: Time,
    /// When that was, and the end that was expected then.
    pub(crate) made: Time,
    pub(crate) finish: Time,
}

/// How much time all promised jobs together can do without, as it was found last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slack {
    pub(crate) spare: Span,
    /// Until when that is taken for granted.
    pub(crate) until: Time,
}

/// The order in which a policy puts tasks on the calendar.
pub(crate) fn stacking(policy: &Policy) -> Stacking {
    policy
        .admission
        .reckoning()
        .map_or(Stacking::Given, |reckoning| reckoning.stacking)
}
