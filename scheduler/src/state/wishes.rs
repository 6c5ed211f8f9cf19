//! The copies that a job wants to start, the most urgent first.

use std::collections::{BTreeMap, BTreeSet};

use common::{AttemptId, Speed, Time};

use crate::policy::replication::{CopyPurpose, Urgency};
use crate::protocol::effect::CopyReason;
use crate::state::job::{Job, LiveCopy};

/// Wishes for copies, at most one for each task.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    ranked: BTreeSet<(Urgency, u32)>,
    by_task: BTreeMap<u32, (Urgency, Wish)>,
}

/// A copy that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The number of the attempt that is copied.
    pub(crate) of: u32,
    pub(crate) why: CopyReason,
}

impl Wishes {
    /// Adds a wish for a copy of this task. An earlier wish stays if it is at least as urgent.
    pub(crate) fn add(&mut self, task: u32, urgency: Urgency, wish: Wish) {
        let old = self.by_task.get(&task);
        if old.is_some_and(|(old, _)| *old <= urgency) {
            return;
        }
        self.remove(task);
        self.ranked.insert((urgency, task));
        self.by_task.insert(task, (urgency, wish));
    }

    /// Removes the wish of this task.
    pub(crate) fn remove(&mut self, task: u32) {
        if self.by_task.is_empty() {
            return;
        }
        if let Some((urgency, _)) = self.by_task.remove(&task) {
            self.ranked.remove(&(urgency, task));
        }
    }

    /// Returns all wishes, the most urgent first.
    pub(crate) fn all(&self) -> Vec<(u32, CopyPurpose, Wish)> {
        let of = |(urgency, task): &(Urgency, u32)| Some((*task, urgency.class, self.of(*task)?));
        self.ranked.iter().filter_map(of).collect()
    }

    /// Returns the most urgent wish that replaces a lost primary.
    pub(crate) fn first_primary(&self) -> Option<(u32, Wish)> {
        let first = self.ranked.first();
        let (_, task) = first.filter(|(urgency, _)| urgency.class == CopyPurpose::Primary)?;
        Some((*task, self.of(*task)?))
    }

    /// Returns the wish of this task.
    pub(crate) fn of(&self, task: u32) -> Option<Wish> {
        self.by_task.get(&task).map(|(_, wish)| *wish)
    }

    /// Returns the number of wishes that replace a lost primary.
    pub(crate) fn primaries(&self) -> u64 {
        self.ranked
            .iter()
            .take_while(|(urgency, _)| urgency.class == CopyPurpose::Primary)
            .count() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_task.is_empty()
    }
}

impl Job {
    /// Gives an attempt a timeout, if the policy has timeouts.
    pub(crate) fn time_out(&mut self, attempt: AttemptId, primary: bool, now: Time) {
        let replication = self.policy.replication;
        let timeout = replication.timeout(now, &self.plan, !primary);
        self.timeouts
            .extend(timeout.map(|at| (at, attempt.task.index, attempt.number)));
    }

    /// Gives each running attempt a timeout.
    pub(crate) fn time_out_live(&mut self, now: Time) {
        let live: Vec<LiveCopy> = self.copies().copied().collect();
        for copy in live {
            self.time_out(copy.attempt, copy.primary, now);
        }
    }

    /// Adds a wish for a copy of each task that has only one live attempt.
    pub(crate) fn want_copies_of_all(&mut self, max_copies: u32) {
        let records = self.records.iter();
        let singles = records.filter_map(|(index, record)| match record.live[..] {
            [copy] => Some((index, copy.attempt.number)),
            _ => None,
        });
        for (index, number) in singles.collect::<Vec<_>>() {
            self.want_copy(index, number, CopyReason::Spare, max_copies);
        }
    }

    /// Adds a wish for a copy of a task, unless it has `max_copies` already. One for a primary that
    /// was lost or frozen replaces it.
    pub(crate) fn want_copy(&mut self, index: u32, of: u32, why: CopyReason, max_copies: u32) {
        let Some(record) = self.records.get(&index) else {
            return;
        };
        let waits = record.live.is_empty() || self.requeued.contains(index);
        let may_start = !waits && !record.is_spent(&self.rules);
        if (record.live.len() as u64) < u64::from(max_copies) && may_start {
            let speed = record.primary_speed.unwrap_or(Speed::REFERENCE);
            let class = match why {
                CopyReason::PrimaryLost | CopyReason::Frozen => CopyPurpose::Primary,
                _ => CopyPurpose::Duplicate,
            };
            self.wishes
                .add(index, Urgency { class, speed }, Wish { of, why });
        }
    }
}
