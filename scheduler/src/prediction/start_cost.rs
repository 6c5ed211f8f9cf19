//! The cost of starting an attempt, measured: the time from its assignment until its command runs,
//! with the transfer of its files and the way of the messages.

use std::collections::VecDeque;

use common::Span;

/// The start costs of the latest attempts of all jobs.
#[derive(Debug, Default)]
pub(crate) struct StartCosts {
    recent: VecDeque<Span>,
}

impl StartCosts {
    /// The number of attempts that count.
    const LATEST: usize = 32;

    /// Notes the start cost of one more attempt.
    pub(crate) fn note(&mut self, cost: Span) {
        if self.recent.len() == Self::LATEST {
            self.recent.pop_front();
        }
        self.recent.push_back(cost);
    }

    /// Returns the longest; `None` before the first attempt.
    pub(crate) fn longest(&self) -> Option<Span> {
        self.recent.iter().copied().max()
    }

    /// Returns the median, which a few transfers of large files do not change; `None` before the
    /// first attempt.
    pub(crate) fn median(&self) -> Option<Span> {
        let mut sorted: Vec<Span> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_latest_attempts_and_bears_a_few_long_transfers() {
        let mut costs = StartCosts::default();
        assert_eq!(costs.median(), None);
        for cost in [
            Span::from_secs(900),
            Span::from_millis(20),
            Span::from_millis(30),
        ] {
            costs.note(cost);
        }
        assert_eq!(costs.median(), Some(Span::from_millis(30)));

        (0..StartCosts::LATEST).for_each(|_| costs.note(Span::from_secs(2)));
        assert_eq!(costs.median(), Some(Span::from_secs(2)));
    }
}
