//! A policy is a composition of answers to six questions. The answers are small enums in modules of
//! their own, the named compositions rows of one [`catalogue()`]. Answers see plain values or a
//! read-only view and propose; the scheduler checks and applies.

use common::Span;

pub mod admission;
pub mod catalogue;
pub mod limits;
pub mod ordering;
mod parse;
pub mod placement;
pub(crate) mod plan;
pub mod policing;
pub mod replication;
pub mod trust;
pub mod width;

pub use admission::Admission;
pub use catalogue::{catalogue, policy};
pub use limits::Limits;
pub use ordering::Ordering;
pub use parse::{BadPolicy, parse};
pub use placement::Placement;
pub use policing::Policing;
pub use replication::Replication;
pub use width::Width;

/// A row of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// The name, as given to `--policy`.
    pub name: &'static str,
    /// The paper or idea it comes from.
    pub source: &'static str,
    /// A summary in one sentence.
    pub summary: &'static str,
    /// Decides whether a job may enter.
    pub admission: Admission,
    /// Orders the waiting tasks.
    pub ordering: Ordering,
    /// Chooses the host among the ready ones.
    pub placement: Placement,
    /// Chooses the running tasks that get a copy.
    pub replication: Replication,
    /// Limits the run time of attempts.
    pub limits: Limits,
    /// Chooses the number of hosts that a gang waits for.
    pub width: Width,
    /// Its parameters with their default values.
    pub parameters: &'static [Parameter],
}

/// A parameter of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its default, as people write it, with its unit.
    pub default: &'static str,
    /// The meaning, as shown to users.
    pub meaning: &'static str,
}

impl Policy {
    /// Returns the interval at which a host should report while it holds an attempt of a job with
    /// this policy, if it needs one.
    pub fn reports(&self) -> Option<Span> {
        match self.replication {
            Replication::Gain(_) => Some(Span::from_secs(5)),
            _ => None,
        }
    }

    /// Whether it tells requested from disclosed tasks: else users who only disclose would go
    /// before those who pay.
    pub fn tells_disclosed(&self) -> bool {
        self.ordering
            .batchactive()
            .is_some_and(|answer| answer.disclosed != ordering::Disclosed::AsRequested)
    }

    /// Returns the six questions, each with this policy's answer.
    pub fn answers(&self) -> [(&'static str, &'static str); 6] {
        [
            ("admission", self.admission.describe()),
            ("ordering", self.ordering.describe()),
            ("placement", self.placement.describe()),
            ("replication", self.replication.describe()),
            ("limits", self.limits.describe()),
            ("width", self.width.describe()),
        ]
    }
}
