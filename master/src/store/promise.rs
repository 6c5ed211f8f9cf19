//! Jobs' promises, as the store has them, and what became of the promise of a settled job. The
//! state of a promise before that is known to the core alone.

use common::view::{JobState, LimitsView, PromiseState, PromiseStatus, TaskCounts};
use common::{JobId, Time};
use serde::{Deserialize, Serialize};

use super::value::values;
use super::{StoreResult, Writer, to_postcard};

/// A job's promise, as the `promise` column holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Promised {
    /// The time at which it was made.
    pub(crate) made: Time,
    /// The time by which the job's last task must be done.
    pub(crate) deadline: Time,
    /// The expected end of the job, as stated when the promise was made.
    pub(crate) finish: Time,
    /// The probability that the deadline is kept, as stated then.
    pub(crate) probability: f64,
    /// Whether the job was accepted on probation, to learn the quality of its user's estimates.
    pub(crate) probation: bool,
    /// Whether it was withdrawn, because tasks were tried again, by hand or after a kill to make
    /// room, and would come too late.
    pub(crate) withdrawn: bool,
    /// The run-time limits that attempts were to get when the promise was made, where limits are
    /// learned.
    pub(crate) limits: Option<LimitsView>,
}

impl Promised {
    /// The promise as clients see it, in this state for this reason.
    pub(crate) fn status(&self, state: PromiseState, why: String) -> PromiseStatus {
        PromiseStatus {
            made: self.made,
            deadline: self.deadline,
            finish: self.finish,
            probability: self.probability,
            probation: self.probation,
            state,
            why,
        }
    }

    /// The promise with [`PromiseState::Withdrawn`], if it was withdrawn; `None` otherwise.
    pub(crate) fn withdrawn(&self) -> Option<PromiseStatus> {
        let why =
            "tasks were tried again, and from the end of the line its deadline could not be kept";
        self.withdrawn
            .then(|| self.status(PromiseState::Withdrawn, why.to_owned()))
    }

    /// The final state of the promise of a job that ended in `state` at `ended`. It is withdrawn if
    /// it was so before, or if the job was cancelled or refused, and broken if tasks failed.
    /// Otherwise it is kept if the job ended at `deadline` at the latest, and else broken.
    pub(crate) fn settled(
        &self,
        state: JobState,
        ended: Time,
        tasks: &TaskCounts,
    ) -> PromiseStatus {
        if let Some(withdrawn) = self.withdrawn() {
            return withdrawn;
        }

        let (kept, why) = match state {
            JobState::Failed => (
                PromiseState::Broken,
                format!("{} of its tasks failed", tasks.failed),
            ),
            JobState::Cancelled | JobState::Refused => {
                (PromiseState::Withdrawn, "the job was cancelled".to_owned())
            }
            _ if ended <= self.deadline => (
                PromiseState::Kept,
                format!("done {} before its deadline", self.deadline.since(ended)),
            ),
            _ => (
                PromiseState::Broken,
                format!("done {} after its deadline", ended.since(self.deadline)),
            ),
        };

        self.status(kept, why)
    }
}

impl Writer {
    /// Stores a job's promise.
    pub(crate) fn keep_promise(&mut self, job: JobId, promised: &Promised) -> StoreResult<()> {
        self.change(
            "UPDATE job SET promise = $1 WHERE id = $2",
            values![to_postcard(promised)?, job.0],
        )
    }

    /// A job's promise, if it has one.
    pub(crate) fn promise(&self, job: JobId) -> StoreResult<Option<Promised>> {
        let sql = "SELECT promise FROM job WHERE id = $1";
        let found = self
            .db()
            .first(sql, values![job.0], |row| row.decoded_if_any(0))?;
        Ok(found.flatten())
    }
}

#[cfg(test)]
mod tests {
    use common::Span;

    use super::*;

    #[test]
    fn only_a_bag_that_finishes_in_time_keeps_its_promise() {
        let at = |secs: u64| Time(Span::from_secs(secs).0);
        let promised = Promised {
            made: at(0),
            deadline: at(100),
            finish: at(60),
            probability: 0.9,
            probation: false,
            withdrawn: false,
            limits: None,
        };

        let tasks = TaskCounts {
            total: 3,
            finished: 1,
            failed: 2,
            ..TaskCounts::default()
        };
        let ended = |state, secs| promised.settled(state, at(secs), &tasks).state;
        assert_eq!(ended(JobState::Finished, 100), PromiseState::Kept);
        assert_eq!(ended(JobState::Finished, 101), PromiseState::Broken);
        assert_eq!(ended(JobState::Failed, 1), PromiseState::Broken);
        assert_eq!(ended(JobState::Cancelled, 1), PromiseState::Withdrawn);

        assert!(
            promised
                .settled(JobState::Failed, at(1), &tasks)
                .why
                .contains("2 of its tasks")
        );

        let late = Promised {
            withdrawn: true,
            ..promised.clone()
        };
        assert_eq!(
            late.settled(JobState::Finished, at(1), &tasks).state,
            PromiseState::Withdrawn
        );
    }
}
