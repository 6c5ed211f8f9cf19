//! The ledger: the processor time spent on users' tasks, the billed part of it, and the users'
//! waits for results (Petrou et al. 2004, section 3.1). The caller stores it, and says when a task
//! ends.

use std::collections::BTreeMap;

use common::{Span, Time};
use serde::{Deserialize, Serialize};

/// A task that has ended, or that its user is through with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Processor time spent on it, by all its attempts.
    pub used: Span,
    /// The run time of the attempt that counts.
    pub service: Span,
    /// The time of its request, if any. A task that was never only disclosed was requested when it
    /// was submitted.
    pub requested: Option<Time>,
    /// The time at which it was executed, if it was.
    pub executed: Option<Time>,
}

impl LedgerEntry {
    /// Returns its user's wait for the result: 0 if it was executed before it was requested.
    pub fn visible_response(&self) -> Option<Span> {
        Some(self.executed?.since(self.requested?))
    }

    /// Whether it was requested before it was executed.
    pub fn waited_for(&self) -> bool {
        self.requested
            .is_some_and(|requested| self.executed.is_none_or(|executed| executed >= requested))
    }
}

/// Sums over tasks. Times are in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The number of tasks.
    pub tasks: u64,
    /// The number of those that were requested.
    pub requested: u64,
    /// The number of those that were requested and executed.
    pub finished: u64,
    /// Processor time spent on all of them.
    pub used_s: f64,
    /// Processor time spent on requested tasks, which is billed.
    pub billed_s: f64,
    /// Processor time spent on tasks that were requested before they were executed.
    pub waited_for_s: f64,
    /// The users' waits for results.
    pub response: Distribution,
    /// The same waits, as a multiple of the task's `service`.
    pub slowdown: Distribution,
}

impl Account {
    /// Adds a task, with [`Self::spend`] and [`Self::wait`].
    pub fn add(&mut self, entry: &LedgerEntry) {
        self.spend(entry);
        if let Some(response) = entry.visible_response() {
            self.wait(response, entry.service);
        }
    }

    /// Adds the processor time spent on a task.
    pub fn spend(&mut self, entry: &LedgerEntry) {
        let used_s = entry.used.secs();
        self.tasks += 1;
        self.used_s += used_s;
        if entry.requested.is_some() {
            self.requested += 1;
            self.billed_s += used_s;
        }
        if entry.waited_for() {
            self.waited_for_s += used_s;
        }
    }

    /// Adds the wait for a result.
    pub fn wait(&mut self, response: Span, service: Span) {
        self.finished += 1;
        self.response.add(response.secs());
        if service > Span::ZERO {
            self.slowdown.add(response.secs() / service.secs());
        }
    }

    /// Adds all sums of another account.
    pub fn merge(&mut self, other: &Account) {
        self.tasks += other.tasks;
        self.requested += other.requested;
        self.finished += other.finished;
        self.used_s += other.used_s;
        self.billed_s += other.billed_s;
        self.waited_for_s += other.waited_for_s;
        self.response.merge(&other.response);
        self.slowdown.merge(&other.slowdown);
    }

    /// Returns the unbilled processor time, spent on tasks that were never requested.
    pub fn free_s(&self) -> f64 {
        (self.used_s - self.billed_s).max(0.0)
    }

    /// Returns the price of a user who is billed for everything, over the price of the requested
    /// tasks: "scaled billed resources" in the paper. At least 1; `None` where nothing was
    /// requested.
    pub fn scaled_if_all_billed(&self) -> Option<f64> {
        (self.billed_s > 0.0).then(|| self.used_s / self.billed_s)
    }

    /// Returns the same over the tasks that were not yet executed when requested, which gives the
    /// paper's numbers.
    pub fn scaled_by_waited_for(&self) -> Option<f64> {
        (self.waited_for_s > 0.0).then(|| self.used_s / self.waited_for_s)
    }
}

/// A histogram of values that are not negative, with bins of a ratio of 1.1, so that quantiles are
/// known to within half a bin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The number of values below [`LEAST`], which count as 0.
    zeros: u64,
    /// The number of values in each bin, by the logarithm of its upper end to the base [`STEP`].
    steps: BTreeMap<i16, u64>,
}

/// The ratio of the ends of a bin.
const STEP: f64 = 1.1;
/// Values below this count as 0.
const LEAST: f64 = 1e-6;

impl Distribution {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        if value < LEAST {
            self.zeros += 1;
        } else {
            *self
                .steps
                .entry((value.ln() / STEP.ln()).ceil() as i16)
                .or_default() += 1;
        }
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Distribution) {
        self.count += other.count;
        self.sum += other.sum;
        self.zeros += other.zeros;
        for (step, count) in &other.steps {
            *self.steps.entry(*step).or_default() += count;
        }
    }

    /// Returns the mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Returns the quantile of this part, to within a twentieth; `None` without values.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        if self.count == 1 {
            return Some(self.sum);
        }

        let wanted = (part.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let mut seen = self.zeros;
        if self.count == 0 || seen >= wanted {
            return (self.count > 0).then_some(0.0);
        }

        for (step, count) in &self.steps {
            seen += count;
            if seen >= wanted {
                // The place within the bin is unknown. No value exceeds the sum of all.
                return Some(STEP.powf(f64::from(*step) - 0.5).min(self.sum));
            }
        }

        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(used_s: u64, requested_s: Option<u64>, executed_s: Option<u64>) -> LedgerEntry {
        let at = |s: u64| Time(s * 1_000_000);
        let used = Span::from_secs(used_s);
        let service = Span::from_secs(10);
        LedgerEntry {
            used,
            service,
            requested: requested_s.map(at),
            executed: executed_s.map(at),
        }
    }

    #[test]
    fn an_account_bills_only_requested_tasks() {
        let mut account = Account::default();
        account.add(&entry(6, Some(0), Some(6)));
        account.add(&entry(4, Some(11), Some(10)));
        account.add(&entry(5, None, Some(12)));
        account.add(&entry(3, None, None));
        assert_eq!(
            (account.used_s, account.billed_s, account.free_s()),
            (18.0, 10.0, 8.0)
        );

        assert_eq!(
            (account.tasks, account.requested, account.finished),
            (4, 2, 2)
        );
        assert_eq!(account.scaled_if_all_billed(), Some(1.8));
        assert_eq!(account.scaled_by_waited_for(), Some(3.0));
        assert_eq!(
            (account.response.mean(), account.response.quantile(0.5)),
            (Some(3.0), Some(0.0))
        );
        assert_eq!(account.slowdown.sum, 0.6);
    }

    proptest! {
        #[test]
        fn quantiles_are_right_to_within_a_twentieth(mut values in proptest::collection::vec(1e-3..1e6_f64, 1..200), part in 0.0..=1.0_f64) {
            let mut all = Distribution::default();
            let mut parts = [Distribution::default(), Distribution::default()];
            for (at, value) in values.iter().enumerate() {
                all.add(*value);
                parts[at % 2].add(*value);
            }

            let [mut merged, rest] = parts;
            merged.merge(&rest);
            prop_assert_eq!(merged.quantile(part), all.quantile(part));
            values.sort_by(f64::total_cmp);

            let exact = values[((part * values.len() as f64).ceil() as usize).max(1) - 1];
            let found = all.quantile(part).expect("there are values");
            let off = (found / exact).ln().abs();
            prop_assert!(off <= STEP.ln() / 2.0 + 1e-6, "{} of {}", found, exact);
        }
    }
}
