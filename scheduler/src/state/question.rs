//! The votes on a task whose results are compared (quorum).

use crate::policy::trust::Ballot;
use crate::state::job::TaskRecord;

/// The votes on an unsettled task.
#[derive(Debug, Default)]
pub(crate) struct OpenVotes {
    /// Results so far.
    pub(crate) ballot: Ballot,
    /// The number of results that must agree; 1 where the host's result is believed alone.
    pub(crate) wanted: u32,
}

impl TaskRecord {
    /// Whether a result of it is being compared.
    pub(crate) fn compares(&self) -> bool {
        self.question
            .as_ref()
            .is_some_and(|question| question.ballot.pending() > 0)
    }
}

/// Sets a mark of a task, and counts the tasks that have it.
pub(super) fn mark(mark: &mut bool, now: bool, count: &mut u64) {
    match (std::mem::replace(mark, now), now) {
        (false, true) => *count += 1,
        (true, false) => *count -= 1,
        _ => {}
    }
}
