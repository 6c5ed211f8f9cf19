//! Moves of tasks that keep their state: the only attempt of a task, which stands still since its
//! host's owner is there, is given up, and the task goes on elsewhere from its saved state. Which
//! task moves is decided in [`super::lookahead`]. Nothing is done twice, so a move is no copy.

use common::HostId;

use crate::handlers::dispatch::Starter;
use crate::protocol::effect::{Effect, EndReason, StartReason};
use crate::state::job::{Job, LiveCopy};

/// The most attempts of a task that still moves.
const MOST_ATTEMPTS: u32 = 8;
/// The time for which an attempt must have stood still, in seconds: a worker saves the state of its
/// task when the owner comes, and that takes some time to reach the master.
const STILL_FOR_S: f64 = 10.0;

/// Whether a task may leave the host of its only attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// It stays; a copy may join its attempt.
    Never,
    /// Its state is on the way to the master: no copy starts meanwhile from an older one.
    Soon,
    Now,
}

impl Starter<'_> {
    /// Returns whether this task may move to another host.
    pub(super) fn leave(&self, job: &Job, index: u32) -> Leave {
        let record = job.records.get(&index).filter(|_| job.rules.checkpoint);
        let Some(record) = record.filter(|record| record.attempts < MOST_ATTEMPTS) else {
            return Leave::Never;
        };
        let [copy] = record.live[..] else {
            return Leave::Never;
        };
        let Some(host) = self.hosts.table.get(&copy.host) else {
            return Leave::Never;
        };

        let load = host.books.get(&copy.attempt);
        let stays = load.is_none_or(|load| load.frozen || load.stopping);
        if stays || host.owner.lets_run() {
            Leave::Never
        } else if self.now.since(host.owner_since).secs() < STILL_FOR_S {
            Leave::Soon
        } else {
            Leave::Now
        }
    }

    /// Gives up an attempt and starts its task on this host, which has room for it.
    pub(super) fn move_task(
        &mut self,
        job: &mut Job,
        index: u32,
        from: LiveCopy,
        to: HostId,
        fx: &mut Vec<Effect>,
    ) {
        let saved = self.saved(job, index);
        let LiveCopy { attempt, host, .. } = from;
        let why = EndReason::Moved;
        self.hosts
            .stop(host, attempt, why, self.settings, self.now, fx);

        if let Some(record) = job.records.at_mut(&index) {
            record.end(attempt, &EndReason::Moved, false);
            record.saved = record.saved.max(saved);
        }
        let why = StartReason::Requeued(attempt.number);
        self.begin(job, index, to, true, why, fx);
        job.refresh(index, self.settings.max_copies);
    }
}
