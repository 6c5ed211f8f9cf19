//! The host's loan as the master was told of it: for how long its owner's hours lend it. It is told
//! by [`Shell`].

use common::wire::worker::ToMaster;
use common::{Span, Time};

use super::Shell;

/// The end of the host's loan as last reported to the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportedLoan {
    /// There is no master, or it does not ask.
    NoMaster,
    /// Nothing reported yet.
    Untold,
    /// The loan ends at this time, or (`None`) has no end.
    Told(Option<Time>),
}

/// Clocks are adjusted a little all the time: ends no farther apart than this are the same.
const SAME_END: Span = Span::from_secs(30);

impl ReportedLoan {
    /// Whether the master must be told of this end.
    pub(super) fn is_news(self, until: Option<Time>) -> bool {
        match (self, until) {
            (ReportedLoan::NoMaster, _) => false,
            (ReportedLoan::Told(Some(told)), Some(until)) => {
                until.since(told).max(told.since(until)) > SAME_END
            }
            (ReportedLoan::Told(told), until) => told != until,
            (ReportedLoan::Untold, _) => true,
        }
    }
}

impl Shell {
    /// Reports the host's loan to the master if it has changed.
    pub(super) fn lend(&mut self, now: Time) {
        let loan = self.policy.loan();
        let until = loan.map(|loan| now + loan.left);
        if self.lent.is_news(until) {
            self.lent = ReportedLoan::Told(until);
            self.say(ToMaster::Lent(loan));
        }
    }
}
