//! What must be true of jobs of ranks: none begins before all of them are ready, none is started
//! without the master's word, and none is ended for another's sake. What is not here: that they all
//! end, which is looked at for every job.

use std::collections::BTreeSet;

use common::{AttemptId, JobId, TaskId};

/// Why a rank may be ended: with its job, since another attempt of it was done, or since its job
/// gave up all its hosts.
const REASONS: [&str; 3] = ["cancelled", "attempt ", "given up with the other ranks"];

/// What was seen of ranks.
#[derive(Debug, Default)]
pub(super) struct Barrier {
    /// Attempts that were given out to wait.
    given: BTreeSet<AttemptId>,
    /// Attempts whose files have been in place.
    ready: BTreeSet<AttemptId>,
    /// Attempts that heard that they are to begin, with their workers.
    told: BTreeSet<(usize, AttemptId)>,
    /// Jobs that have begun, as far as the running master knows.
    begun: BTreeSet<JobId>,
    /// Ranks that had begun, and ended by themselves under the running master: they are tried again
    /// alone.
    alone: BTreeSet<TaskId>,
}

impl Barrier {
    pub(super) fn on_given(&mut self, attempt: AttemptId) {
        self.given.insert(attempt);
    }

    pub(super) fn on_staged(&mut self, attempt: AttemptId) {
        self.ready.insert(attempt);
    }

    pub(super) fn on_told(&mut self, worker: usize, attempts: &[AttemptId]) {
        self.told
            .extend(attempts.iter().map(|attempt| (worker, *attempt)));
    }

    /// The master has heard how these ended.
    pub(super) fn on_acknowledged(&mut self, worker: usize, attempts: &[AttemptId]) {
        let begun = attempts
            .iter()
            .filter(|attempt| self.told.contains(&(worker, **attempt)));
        self.alone.extend(begun.map(|attempt| attempt.task));
    }

    pub(super) fn on_master_gone(&mut self) {
        self.begun.clear();
        self.alone.clear();
    }

    /// A rank is to begin, of a job of which these are the newest attempts of ranks that are not
    /// done.
    pub(super) fn on_begin(
        &mut self,
        attempt: AttemptId,
        mut open: impl Iterator<Item = AttemptId>,
    ) -> Result<(), String> {
        if self.begun.contains(&attempt.task.job) {
            return Ok(());
        }

        let ready =
            |other: &AttemptId| self.ready.contains(other) || self.alone.contains(&other.task);
        if let Some(other) = open.find(|other| !ready(other)) {
            return Err(format!(
                "{attempt:?} is to begin, and {other:?} has never been ready"
            ));
        }

        self.begun.insert(attempt.task.job);
        Ok(())
    }

    /// An attempt is to be ended.
    pub(super) fn on_stop(&mut self, attempt: AttemptId, why: &str) -> Result<(), String> {
        if !self.given.contains(&attempt) {
            return Ok(());
        }
        if why.starts_with(REASONS[2]) {
            self.begun.remove(&attempt.task.job);
            self.alone.retain(|task| task.job != attempt.task.job);
        }
        match REASONS.iter().any(|reason| why.starts_with(reason)) {
            true => Ok(()),
            false => Err(format!("the rank {attempt:?} is ended: {why}")),
        }
    }

    pub(super) fn on_started(&self, worker: usize, attempt: AttemptId) -> Result<(), String> {
        match self.given.contains(&attempt) && !self.told.contains(&(worker, attempt)) {
            true => Err(format!(
                "worker-{worker} starts the rank {attempt:?}, and was not told to"
            )),
            false => Ok(()),
        }
    }
}
