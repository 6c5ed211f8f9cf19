//! The votes on a task whose results are compared (quorum).

use common::HostId;

use crate::policy::trust::{Ballot, MOST_RESULTS, Vote};
use crate::state::host::Hosts;
use crate::state::job::{Job, TaskRecord};
use crate::state::opinions::WaitingOpinions;
use crate::state::work::count_saved;

/// The votes on an unsettled task.
#[derive(Debug, Default)]
pub(crate) struct OpenVotes {
    /// Results so far.
    pub(crate) ballot: Ballot,
    /// The number of results that must agree; 1 where the host's result is believed alone.
    pub(crate) wanted: u32,
    /// The number of live attempts that are not suspended, as counted in `ComparedTasks`.
    running: u64,
}

impl OpenVotes {
    /// Whether there are so many results that no further ones are asked for.
    pub(crate) fn is_full(&self) -> bool {
        self.ballot.votes().len() >= MOST_RESULTS.saturating_mul(self.wanted) as usize
    }
}

/// The unsettled tasks of a job whose results are compared, as far as they are counted.
#[derive(Debug, Default)]
pub(crate) struct ComparedTasks {
    /// The number of tasks without a live attempt of which a result is being compared.
    pub(super) pending: u64,
    /// The number of live attempts that are not suspended.
    pub(super) running: u64,
    /// Those that wait for another result.
    pub(crate) opinions: WaitingOpinions,
}

impl ComparedTasks {
    /// Counts a task anew whose live attempts or results changed.
    pub(super) fn count(&mut self, record: &mut TaskRecord) {
        let pending = record.live.is_empty() && record.compares();
        mark(&mut record.compared, pending, &mut self.pending);

        if let Some(question) = &mut record.question {
            let running = record.live.iter().filter(|copy| !copy.suspended);
            let running = running.count() as u64;
            let before = std::mem::replace(&mut question.running, running);
            self.running = self.running + running - before;
        }
    }

    /// Leaves out a task that is about to be settled.
    pub(super) fn leave(&mut self, record: &TaskRecord) {
        self.pending -= u64::from(record.compared);
        let question = record.question.as_ref();
        self.running -= question.map_or(0, |question| question.running);
    }
}

impl TaskRecord {
    /// Whether a result of it is being compared.
    pub(crate) fn compares(&self) -> bool {
        self.question
            .as_ref()
            .is_some_and(|question| question.ballot.pending() > 0)
    }

    /// Returns its results so far that are compared with others.
    pub(crate) fn votes(&self) -> &[Vote] {
        let question = self.question.as_ref();
        question.map_or(&[], |question| question.ballot.votes())
    }

    /// Returns the parties that have such results or live attempts of it.
    pub(crate) fn parties(&self, hosts: &Hosts) -> impl Iterator<Item = HostId> {
        let live = self.live.iter().map(|copy| hosts.party(copy.host));
        self.votes().iter().map(|vote| vote.party).chain(live)
    }
}

impl Job {
    /// Lets a task without live attempts wait again; it has a `TaskRecord`.
    pub(crate) fn wait_again(&mut self, index: u32) {
        self.requeued.insert(index);
        if let Some(record) = self.records.at_mut(&index) {
            count_saved(record, true, &mut self.saved_fixed);
        }
        if self.rules.quorum.compares() {
            self.compared.opinions.note(index);
        } else if let Some(speculation) = &mut self.speculation {
            speculation.note_again(index);
        }
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
