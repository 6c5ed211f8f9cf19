//! A policy is a composition: one answer to each of six questions. The answers are small enums in
//! files of their own, the named compositions rows of one [`catalogue()`]. Answers see plain values
//! or a read-only view and propose; the scheduler checks and applies.

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
    /// What people give to `--policy`.
    pub name: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// May this job enter?
    pub admission: Admission,
    /// Which waiting task is next?
    pub ordering: Ordering,
    /// On which ready host?
    pub placement: Placement,
    /// Which running task deserves another copy now?
    pub replication: Replication,
    /// How long may an attempt run?
    pub limits: Limits,
    /// How many hosts does the job hold out for?
    pub width: Width,
    /// Its parameters with their default values.
    pub parameters: &'static [Parameter],
}

/// A number that a policy works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its default, as people write it, with its unit.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

impl Policy {
    /// How often a host should report while it holds an attempt of a job with this policy, where
    /// that matters.
    pub fn reports(&self) -> Option<Span> {
        match self.replication {
            Replication::Gain(_) => Some(Span::from_secs(5)),
            _ => None,
        }
    }

    /// Whether it tells what is needed from what may be: else whoever only discloses would go
    /// before those who pay.
    pub fn tells_disclosed(&self) -> bool {
        self.ordering
            .batchactive()
            .is_some_and(|answer| answer.disclosed != ordering::Disclosed::AsRequested)
    }

    /// The six questions, each with this policy's answer.
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
