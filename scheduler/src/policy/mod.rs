//! A policy is a composition of answers to six questions. The answers are small enums in modules of
//! their own, the named compositions rows of one [`catalogue()`]. Answers see plain values or a
//! read-only view and propose; the scheduler checks and applies.

use common::Span;

use setting::{ExpectedValues, HasSettings, Parametric, Setting};

pub mod admission;
pub mod catalogue;
pub mod limits;
pub mod ordering;
mod parse;
pub mod placement;
pub(crate) mod plan;
pub mod policing;
pub mod replication;
pub(crate) mod setting;
pub mod trust;
pub mod width;

pub use admission::Admission;
pub use catalogue::{catalogue, names, policy};
pub use limits::LimitSource;
pub use ordering::Ordering;
pub use parse::{BadPolicy, parse};
pub use placement::Placement;
pub use policing::Policing;
pub use replication::Replication;
pub use setting::Parameter;
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
    pub limits: LimitSource,
    /// Chooses the number of hosts that a gang waits for.
    pub width: Width,
}

impl Policy {
    /// Returns the interval at which a host should report while it holds an attempt of a job with
    /// this policy, if it needs one.
    pub fn reports(&self) -> Option<Span> {
        self.replication.gain().map(|_| Span::from_secs(5))
    }

    /// Returns its parameters with their present values: those of its answers, and its own.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut copy = *self;
        let mut all: Vec<Parameter> = copy
            .parametric()
            .iter()
            .flat_map(|answer| answer.parameters())
            .collect();
        all.extend(Parametric::parameters(self));
        all
    }

    /// Sets a parameter. The error tells the values that can be given.
    fn set(&mut self, name: &str, value: &str) -> Result<(), ExpectedValues> {
        let mut answers = self.parametric();
        let set = answers
            .iter_mut()
            .find_map(|answer| answer.set(name, value));
        set.or_else(|| Parametric::set(self, name, value))
            .unwrap_or(Err("the policy does not use it"))
    }

    /// Returns its answers that may have parameters, in the order in which these are shown.
    fn parametric(&mut self) -> Vec<&mut dyn Parametric> {
        let mut answers: Vec<&mut dyn Parametric> = vec![&mut self.limits];
        answers.extend(self.admission.parametric());
        answers.push(&mut self.ordering);
        answers.extend(self.placement.parametric());
        answers.extend(self.replication.parametric());
        answers.push(&mut self.width);
        answers
    }

    /// Whether it tells requested from disclosed tasks: else users who only disclose would go
    /// before those who pay.
    pub fn tells_disclosed(&self) -> bool {
        self.ordering
            .batchactive()
            .is_some_and(|answer| answer.disclosed != ordering::Disclosed::AsRequested)
    }

    /// Whether it starts disclosed tasks only once they are requested.
    pub fn holds_disclosed(&self) -> bool {
        self.ordering
            .batchactive()
            .is_some_and(|answer| answer.disclosed == ordering::Disclosed::Held)
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

/// The parameters of whole policies: `with` of those that tell disclosed tasks apart, and `limits`
/// of those for gangs.
impl HasSettings for Policy {
    fn settings(&self) -> &'static [Setting<Self>] {
        if self.ordering.batchactive().is_some() {
            &ordering::WITH
        } else if self.width != Width::Rigid {
            &width::LIMITS
        } else {
            &[]
        }
    }
}
