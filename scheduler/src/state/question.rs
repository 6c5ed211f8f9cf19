//! The votes on a task whose results are compared (quorum).

use crate::policy::trust::Ballot;

/// The votes on an unsettled task.
#[derive(Debug, Default)]
pub(crate) struct OpenVotes {
    /// Results so far.
    pub(crate) ballot: Ballot,
    /// The number of results that must agree; 1 where the host's result is believed alone.
    pub(crate) wanted: u32,
}
