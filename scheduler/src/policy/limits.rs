//! How long may this attempt run, and what happens then?

use common::Span;
use common::job::Rules;

/// Where an attempt's time limit comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// The job's own timeout, if it has one; the attempt is killed then and counts as failed.
    Fixed,
}

impl Limits {
    pub(crate) fn limit(self, rules: &Rules) -> Option<Span> {
        match self {
            Limits::Fixed => rules.timeout,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Limits::Fixed => "the job's timeout where it has one: killed then, and counted as failed",
        }
    }
}
