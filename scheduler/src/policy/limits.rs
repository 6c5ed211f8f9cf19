//! How long may this attempt run, and what happens then?

use common::Span;
use common::job::Rules;

use super::policing::Policing;

/// Where an attempt's time limit comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limits {
    /// The job's own timeout, if it has one; the attempt is killed then and counts as failed.
    Fixed,
    /// The same; and attempts of promised jobs that exceed their estimates may be killed when another bag arrives.
    Policed(Policing),
}

impl Limits {
    pub(crate) fn limit(self, rules: &Rules) -> Option<Span> {
        match self {
            Limits::Fixed | Limits::Policed(_) => rules.timeout,
        }
    }

    /// How estimates are enforced.
    pub(crate) fn policing(self) -> Policing {
        match self {
            Limits::Policed(policing) => policing,
            Limits::Fixed => Policing::OFF,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Limits::Fixed => "the job's timeout where it has one: killed then, and counted as failed",
            Limits::Policed(policing) => policing.describe(),
        }
    }
}
