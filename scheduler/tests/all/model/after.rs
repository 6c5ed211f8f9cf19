//! The model of order between jobs, and of jobs that stay open: *order* (no task starts before the
//! jobs that its own comes after have ended, and none after one that did not succeed as it had to)
//! and *open* (no open job is settled).

use common::{EndCondition, JobId, TaskId};
use scheduler::effect::CancelReason;
use scheduler::{Effect, Event};

use super::Model;

impl Model {
    /// Notes what an event says of order and of open jobs.
    pub(super) fn note_order(&mut self, event: &Event) {
        match event {
            Event::JobSubmitted { job, bag, .. } => {
                let waits = |before: &JobId| self.jobs.get(before).filter(|job| !job.settled);
                let unmet = bag.after.iter().filter(|after| waits(&after.job).is_some());
                let unmet = unmet.filter(|after| after.job != *job);
                let unmet = unmet.map(|after| (after.job, after.how)).collect();
                let missed = bag.after.iter().find(|after| {
                    let before = self.jobs.get(&after.job);
                    after.job != *job
                        && before.is_some_and(|before| {
                            before.settled && !after.how.is_met_by(before.state())
                        })
                });
                self.submitted = Some((*job, unmet, missed.map(|after| after.job)));
            }
            Event::TasksAdded { job, tasks } => {
                if let Some(job) = self.jobs.get_mut(job).filter(|job| job.takes_more) {
                    job.all.extend(tasks.iter());
                }
            }
            Event::JobClosed { job } | Event::JobCancelled { job, tasks: None } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.takes_more = false;
                }
            }
            _ => {}
        }
    }

    /// Takes in what a submitted job waits for, once it is admitted.
    pub(super) fn admit_in_order(&mut self, id: JobId) {
        let Some((job, unmet, missed)) = self.submitted.take().filter(|(job, ..)| *job == id)
        else {
            return;
        };
        self.missed.extend(missed.map(|before| (job, before)));
        if let Some(job) = self.jobs.get_mut(&job) {
            job.after = unmet;
        }
    }

    /// Notes what an effect means for order and for open jobs, before all else.
    pub(super) fn apply_order(&mut self, effect: &Effect) {
        match effect {
            Effect::TasksCancelled { job, why, .. } => {
                if let CancelReason::After(before) = why {
                    assert!(
                        self.missed.remove(&(*job, *before)),
                        "job {job} is cancelled for job {before}, which did what it had to"
                    );
                }
                let closes = !matches!(why, CancelReason::Asked | CancelReason::Unrequested);
                if let Some(job) = self.jobs.get_mut(job).filter(|_| closes) {
                    job.takes_more = false;
                }
            }
            Effect::JobSettled { job, state } => {
                let settled = self.jobs.get_mut(job).expect("the job is there");
                let most = settled.rules.max_fails.unwrap_or(u64::MAX);
                let before = self.missed.len();
                self.missed.retain(|(id, _)| id != job);
                let in_vain = self.missed.len() < before;
                // Nothing of it may be left to cancel.
                if settled.failed.len() as u64 > most || in_vain {
                    settled.takes_more = false;
                }
                for (id, waiting) in &mut self.jobs {
                    let how = waiting.after.remove(job);
                    if how.is_some_and(|how| !how.is_met_by(*state)) && !waiting.all_closed() {
                        self.missed.insert((*id, *job));
                        assert_eq!(how, Some(EndCondition::Ok));
                    }
                }
            }
            Effect::Start { attempt, .. } => {
                let TaskId { job, .. } = attempt.task;
                let waits = self.jobs.get(&job).map(|job| &job.after);
                assert!(
                    waits.is_some_and(std::collections::BTreeMap::is_empty),
                    "{attempt} is started before {waits:?} have ended"
                );
                let missed = self.missed.iter().find(|(missed, _)| *missed == job);
                assert_eq!(missed, None, "{attempt} is started, though it was in vain");
            }
            _ => {}
        }
    }
}
