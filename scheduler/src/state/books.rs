//! The live attempts of one host, by id. Most hosts have one or two; where many short tasks are
//! prefetched, they come and go at the ends.

use common::AttemptId;
use smallvec::SmallVec;

use crate::state::host::HostAttempt;

/// Live attempts with each one's `HostAttempt`, in the order of their ids.
#[derive(Debug, Default)]
pub(crate) struct HostAttempts {
    entries: SmallVec<[(AttemptId, HostAttempt); 1]>,
}

impl HostAttempts {
    /// Returns the index of an attempt (`Ok`), or the one where it belongs (`Err`).
    fn find(&self, attempt: &AttemptId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(attempt, |(id, _)| *id)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, attempt: &AttemptId) -> Option<&HostAttempt> {
        self.entries
            .get(self.find(attempt).ok()?)
            .map(|(_, load)| load)
    }

    pub(crate) fn at_mut(&mut self, attempt: &AttemptId) -> Option<&mut HostAttempt> {
        let at = self.find(attempt).ok()?;
        Some(&mut self.entries[at].1)
    }

    pub(crate) fn contains(&self, attempt: &AttemptId) -> bool {
        self.find(attempt).is_ok()
    }

    /// Adds an attempt, or replaces its load.
    pub(crate) fn insert(&mut self, attempt: AttemptId, load: HostAttempt) {
        match self.find(&attempt) {
            Ok(at) => self.entries[at].1 = load,
            Err(at) => self.entries.insert(at, (attempt, load)),
        }
    }

    pub(crate) fn remove(&mut self, attempt: &AttemptId) -> Option<HostAttempt> {
        let at = self.find(attempt).ok()?;
        Some(self.entries.remove(at).1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AttemptId, &HostAttempt)> {
        self.entries.iter().map(|(attempt, load)| (attempt, load))
    }

    pub(crate) fn attempts(&self) -> impl Iterator<Item = AttemptId> {
        self.entries.iter().map(|(attempt, _)| *attempt)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use common::{Incarnation, JobId, Span, TaskId, Time};
    use proptest::prelude::*;

    use super::*;

    fn load(ran: u64) -> HostAttempt {
        HostAttempt {
            ran: Span(ran),
            ..HostAttempt::assigned(Time(0), false, 0)
        }
    }

    proptest! {
        #[test]
        fn host_attempts_behave_like_an_ordered_map(
            steps in proptest::collection::vec((any::<bool>(), 1..4_u32, 1..8_u32, any::<u8>()), 0..60)
        ) {
            let mut books = HostAttempts::default();
            let mut model = BTreeMap::new();
            for (add, job, index, ran) in steps {
                let attempt = AttemptId { task: TaskId::new(JobId(job), index), number: 1, incarnation: Incarnation(1) };
                if add {
                    books.insert(attempt, load(u64::from(ran)));
                    model.insert(attempt, Span(u64::from(ran)));
                } else {
                    prop_assert_eq!(books.remove(&attempt).map(|load| load.ran), model.remove(&attempt));
                }

                prop_assert_eq!(books.len(), model.len());
                prop_assert_eq!(books.contains(&attempt), model.contains_key(&attempt));
                prop_assert_eq!(books.get(&attempt).map(|load| load.ran), model.get(&attempt).copied());
                prop_assert_eq!(books.at_mut(&attempt).map(|load| load.ran), model.get(&attempt).copied());
                prop_assert!(books.iter().map(|(attempt, load)| (*attempt, load.ran)).eq(model.clone()));
                prop_assert!(books.attempts().eq(model.keys().copied()));
            }
        }
    }
}
