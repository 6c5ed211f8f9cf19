//! The progress that running tasks report: the numbers are in the scheduler's books, the words here.

use std::collections::{BTreeMap, BTreeSet};

use common::attempt::HeldAttempt;
use common::progress::{sound_part, words_of};
use common::{AttemptId, HostId, JobId, TaskId};

use super::Core;

/// Returns what a host reports of its attempts: the last report of each, without numbers that are no
/// progress.
pub(super) fn sound(held: Vec<HeldAttempt>) -> Vec<HeldAttempt> {
    let mut seen = BTreeSet::new();
    let newest = held.into_iter().rev();
    let mut last: Vec<HeldAttempt> = newest
        .filter(|held| seen.insert(held.attempt))
        .map(|held| HeldAttempt {
            progress: held.progress.and_then(sound_part),
            ..held
        })
        .collect();
    last.reverse();
    last
}

impl Core {
    /// Keeps the words that programs on a host say of their progress. Those of attempts that the
    /// host does not have by the scheduler's books are left out.
    pub(super) fn on_words(&mut self, host: HostId, words: Vec<(AttemptId, String)>) {
        let status = self.scheduler.host(host);
        let of_it: BTreeSet<AttemptId> = status
            .map_or_else(Vec::new, |status| status.attempts)
            .into_iter()
            .collect();
        for (attempt, words) in words {
            if of_it.contains(&attempt) {
                self.words.insert(attempt, words_of(&words));
                self.changed.0 = true;
            }
        }
    }

    /// The part of an unsettled job that is done, if a running task of it reports progress: that of
    /// a task is the furthest of its attempts.
    pub(super) fn part_done(&self, job: JobId) -> Option<f64> {
        let counts = self.scheduler.job_counts(job)?;
        let mut parts = BTreeMap::<TaskId, f32>::new();
        for live in self.scheduler.live_attempts(job) {
            if let Some(part) = live.progress.and_then(sound_part) {
                let best = parts.entry(live.attempt.task).or_default();
                *best = best.max(part);
            }
        }
        let begun: f64 = parts.values().map(|part| f64::from(*part)).sum();
        let total = counts.total.max(1) as f64;
        (!parts.is_empty()).then(|| ((counts.finished as f64 + begun) / total).clamp(0.0, 1.0))
    }
}
