//! What is known of the results of a task whose results are compared.

use crate::policy::trust::Ballot;

/// What is known of the results of a task that is not settled.
#[derive(Debug, Default)]
pub(crate) struct Question {
    /// Results so far.
    pub(crate) ballot: Ballot,
    /// How many must agree; one where its host is believed alone.
    pub(crate) wanted: u32,
}
