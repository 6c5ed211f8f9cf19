//! A job's estimates of its tasks' run times, and the order in which the tasks go on the calendar.

use std::cmp::Reverse;

use common::{IdSet, Span};

use crate::policy::admission::Stacking;
use crate::protocol::event::Terms;

/// A job's terms, with the order of its tasks where that is not by index.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stack {
    pub(crate) terms: Terms,
    /// The mean of the tasks' own estimates.
    mean: Option<Span>,
    /// All tasks, if each has its own estimate.
    ids: IdSet,
    /// The same in calendar order, if that is not by index; those before `first` do not wait any
    /// more.
    order: Vec<u32>,
    first: usize,
}

impl Stack {
    pub(crate) fn new(ids: &IdSet, terms: Terms, stacking: Stacking) -> Self {
        if terms.estimates.is_empty() {
            return Self {
                terms,
                ..Self::default()
            };
        }

        let mut order: Vec<(u32, Span)> = Vec::new();
        if stacking == Stacking::LongestFirst {
            order = ids.iter().zip(terms.estimates.iter().copied()).collect();
            order.sort_by_key(|(index, estimate)| (Reverse(*estimate), *index));
        }

        let order = order.into_iter().map(|(index, _)| index).collect();
        let sum: u128 = terms.estimates.iter().map(|of| u128::from(of.0)).sum();
        let mean = sum / terms.estimates.len() as u128;
        Self {
            mean: Some(Span(u64::try_from(mean).unwrap_or(u64::MAX))),
            terms,
            ids: ids.clone(),
            order,
            first: 0,
        }
    }

    /// Returns the mean of the tasks' own estimates, in seconds, if they have such.
    pub(crate) fn mean_s(&self) -> Option<f64> {
        self.mean.map(Span::secs)
    }

    /// Returns a task's own estimate, if it has one.
    pub(crate) fn estimate(&self, index: u32) -> Option<Span> {
        if self.terms.estimates.is_empty() {
            return None;
        }
        self.terms
            .estimates
            .get(usize::try_from(self.ids.rank(index)).ok()?)
            .copied()
    }

    /// Returns the tasks in `fresh`, in calendar order.
    pub(crate) fn sorted<'a>(&'a self, fresh: &'a IdSet) -> impl Iterator<Item = u32> + 'a {
        let listed = self.order.iter().skip(self.first).copied();
        let plain = self.order.is_empty().then(|| fresh.iter());
        listed
            .filter(|index| fresh.contains(*index))
            .chain(plain.into_iter().flatten())
    }

    /// Advances `first` past tasks that do not wait any more.
    pub(crate) fn advance(&mut self, fresh: &IdSet) {
        while self
            .order
            .get(self.first)
            .is_some_and(|index| !fresh.contains(*index))
        {
            self.first += 1;
        }
    }

    /// Resets `first`, since tasks may wait again.
    pub(crate) fn rewind(&mut self) {
        self.first = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_go_first_and_of_equals_the_first_one() {
        let ids = IdSet::from_iter([2, 5, 6, 9]);
        let secs = [3, 8, 8, 1];
        let terms = Terms {
            estimates: secs.map(Span::from_secs).to_vec(),
            ..Terms::default()
        };
        let mut stack = Stack::new(&ids, terms.clone(), Stacking::LongestFirst);
        let mut fresh = ids.clone();
        assert_eq!(stack.sorted(&fresh).collect::<Vec<_>>(), [5, 6, 2, 9]);

        assert_eq!(stack.estimate(9), Some(Span::from_secs(1)));
        fresh.remove(5);
        stack.advance(&fresh);
        assert_eq!(stack.sorted(&fresh).collect::<Vec<_>>(), [6, 2, 9]);
        fresh.insert(5);
        stack.rewind();
        assert_eq!(stack.sorted(&fresh).collect::<Vec<_>>(), [5, 6, 2, 9]);

        let given = Stack::new(&ids, terms, Stacking::Given);
        assert_eq!(given.sorted(&fresh).collect::<Vec<_>>(), [2, 5, 6, 9]);
    }
}
