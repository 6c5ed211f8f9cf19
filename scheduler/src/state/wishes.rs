//! The copies that a job wants to start, the most urgent first.

use std::collections::{BTreeMap, BTreeSet};

use crate::policy::replication::{CopyPurpose, Urgency};
use crate::protocol::effect::CopyReason;

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
        if self
            .by_task
            .get(&task)
            .is_some_and(|(old, _)| *old <= urgency)
        {
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
        let of = |(urgency, task): &(Urgency, u32)| {
            Some((*task, urgency.class, self.by_task.get(task)?.1))
        };
        self.ranked.iter().filter_map(of).collect()
    }

    /// Returns the most urgent wish that replaces a lost primary.
    pub(crate) fn first_primary(&self) -> Option<(u32, Wish)> {
        let (urgency, task) = self
            .ranked
            .first()
            .filter(|(urgency, _)| urgency.class == CopyPurpose::Primary)?;
        let (_, wish) = self.by_task.get(task).filter(|(of, _)| of == urgency)?;
        Some((*task, *wish))
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
