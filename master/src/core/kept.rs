//! Limits the bytes kept of outputs of executed tasks that nobody has requested, for each user and
//! in all. The oldest are evicted first. A user whose share is full gets no more disclosed work
//! started, whatever is kept of others. The rows live in `store::kept`; their content is swept.

use std::collections::{BTreeMap, BTreeSet};

use common::view::AttemptState;
use common::{Completion, Time};
use scheduler::Event;

use super::Core;
use crate::limits::Limits;
use crate::numbers;
use crate::store::{Removed, StoreResult, bytes_left};

/// The part of a user's share, in per cent, from which on no more unrequested work of that user is
/// started.
const FULL: u64 = 90;
/// The part of a share, in per cent, below which a share that overflowed is no longer full.
/// Evicting one output to make room for another of the same size does not reach it.
const ROOMY: u64 = 50;

/// The bytes kept of unrequested outputs, and their limits.
#[derive(Debug, Default)]
pub(super) struct KeptBytes {
    /// The limits in bytes: of all users together, and of one.
    most: (u64, u64),
    by_user: BTreeMap<String, u64>,
    total: u64,
    /// Users whose own outputs overflowed their shares, until one is requested, forgotten, or
    /// evicted for another user.
    overflown: BTreeSet<String>,
    /// Users whose shares are full, as the scheduler was last told.
    full: BTreeSet<String>,
    /// Users whose kept bytes have changed since the scheduler was last told.
    stirred: BTreeSet<String>,
}

impl KeptBytes {
    pub(super) fn of(limits: &Limits, by_user: BTreeMap<String, u64>) -> Self {
        let most = (limits.unrequested_bytes, limits.unrequested_bytes_per_user);
        let total = by_user
            .values()
            .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        Self {
            most,
            by_user,
            total,
            ..Self::default()
        }
    }

    fn add(&mut self, user: &str, bytes: u64) {
        let sum = self.by_user.entry(user.to_owned()).or_default();
        *sum = sum.saturating_add(bytes);
        self.total = self.total.saturating_add(bytes);
    }

    fn take(&mut self, user: &str, bytes: u64) {
        self.total = self.total.saturating_sub(bytes);
        if let Some(sum) = self.by_user.get_mut(user) {
            *sum = sum.saturating_sub(bytes);
            if *sum == 0 {
                self.by_user.remove(user);
            }
        }
    }

    fn of_user(&self, user: &str) -> u64 {
        self.by_user.get(user).copied().unwrap_or(0)
    }

    /// Whether `bytes` are at least `percent` of a user's share, which is at most the limit of all
    /// users together.
    fn fill(&self, bytes: u64, percent: u64) -> bool {
        u128::from(bytes) * 100 >= u128::from(self.most.0.min(self.most.1)) * u128::from(percent)
    }

    /// Whether a user's share counts as full with `more` bytes. It is not full while nothing is
    /// kept: if not even one output fits, nobody could make room.
    fn is_full(&self, user: &str, more: u64) -> bool {
        let bytes = self.of_user(user).saturating_add(more);
        let overflown = self.overflown.contains(user) && self.fill(bytes, ROOMY);
        bytes > 0 && (self.fill(bytes, FULL) || overflown)
    }

    /// Takes an evicted output of `whose` off the books; the new output of `by` was the reason. If
    /// `by` fills the share, it overflows; a user evicted for another has room.
    fn remove(&mut self, whose: &str, bytes: u64, by: &str) {
        if self.fill(self.of_user(by), FULL) {
            self.overflown.insert(by.to_owned());
        }
        self.take(whose, bytes);
        self.stirred.insert(whose.to_owned());
        if whose != by {
            self.overflown.remove(whose);
        }
    }

    /// The next eviction, if any: of this user's outputs (`Some`) or of anybody's (`None`).
    fn excess<'a>(&self, user: &'a str) -> Option<Option<&'a str>> {
        match (self.of_user(user) > self.most.1, self.total > self.most.0) {
            (true, _) => Some(Some(user)),
            (false, true) => Some(None),
            _ => None,
        }
    }
}

impl Core {
    /// Stores an attempt's `Completion`, with which it ended in this state; the outputs of an
    /// unrequested task are kept only while there is room.
    pub(super) fn keep_result(
        &mut self,
        completion: &Completion,
        state: AttemptState,
        ended: Time,
    ) -> StoreResult<()> {
        let task = completion.attempt.task;
        let user = self
            .jobs
            .get(&task.job)
            .filter(|job| job.disclosed)
            .map(|job| job.view.user.clone());
        let Some(user) = user else {
            return self.store.attempt_result(completion, state, ended);
        };

        if !self.store.is_unrequested(task)? {
            return self.store.attempt_result(completion, state, ended);
        }

        let bytes = self
            .store
            .keep_back(completion, state, ended, &user, self.now)?;
        self.shelf.add(&user, bytes);
        self.shelf.stirred.insert(user.clone());

        while let Some(whose) = self.shelf.excess(&user) {
            let Some(Removed {
                attempt,
                user: whose,
                bytes,
            }) = self.store.remove_oldest(whose, self.now)?
            else {
                break;
            };
            tracing::info!(task = %attempt.task, user = whose, bytes, "unrequested output removed: it takes too much");
            metrics::counter!(numbers::UNREQUESTED).increment(1);
            self.shelf.remove(&whose, bytes, &user);
        }

        Ok(())
    }

    /// Tells the scheduler if the user's share will be full once the output of this attempt is
    /// kept, so that the slot that is free now gets no more disclosed work. [`Core::tell_stirred`]
    /// corrects that later.
    pub(super) fn foresee_share(&mut self, completion: &Completion) -> StoreResult<()> {
        let task = completion.attempt.task;
        let Some(job) = self.jobs.get(&task.job).filter(|job| job.disclosed) else {
            return Ok(());
        };
        let user = job.view.user.clone();
        if self.store.is_unrequested(task)? && self.shelf.is_full(&user, bytes_left(completion)) {
            self.tell_share(&user, true)?;
            self.shelf.stirred.insert(user);
        }
        Ok(())
    }

    /// Tells the scheduler, for every user whose kept bytes have changed, whether the share is
    /// full.
    pub(super) fn tell_stirred(&mut self) -> StoreResult<()> {
        let stirred = std::mem::take(&mut self.shelf.stirred);
        stirred.iter().try_for_each(|user| self.tell_share_of(user))
    }

    fn tell_share_of(&mut self, user: &str) -> StoreResult<()> {
        self.tell_share(user, self.shelf.is_full(user, 0))
    }

    fn tell_share(&mut self, user: &str, full: bool) -> StoreResult<()> {
        let told = match full {
            true => self.shelf.full.insert(user.to_owned()),
            false => self.shelf.full.remove(user),
        };
        if !told {
            return Ok(());
        }

        tracing::info!(
            user,
            full,
            bytes = self.shelf.of_user(user),
            "the share of unrequested output"
        );

        self.step(Event::ShareFull {
            user: user.to_owned(),
            full,
        })
    }

    /// Takes requested or forgotten bytes off a user's share: there may be room again.
    pub(super) fn unshelve(&mut self, user: &str, bytes: u64) -> StoreResult<()> {
        self.shelf.take(user, bytes);
        self.shelf.overflown.remove(user);
        self.tell_share_of(user)
    }

    /// Tells the scheduler after a restart which users' shares are full.
    pub(super) fn tell_shares(&mut self) -> StoreResult<()> {
        let users: Vec<String> = self.shelf.by_user.keys().cloned().collect();
        users.iter().try_for_each(|user| self.tell_share_of(user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf() -> KeptBytes {
        let limits = Limits {
            unrequested_bytes: 100,
            unrequested_bytes_per_user: 50,
            ..Limits::default()
        };
        KeptBytes::of(&limits, BTreeMap::new())
    }

    #[test]
    fn ones_own_goes_first_where_ones_share_is_exceeded_and_anybodys_where_all_of_it_is() {
        let mut shelf = shelf();
        shelf.add("ann", 51);
        assert_eq!(shelf.excess("ann"), Some(Some("ann")));
        shelf.take("ann", 1);
        assert_eq!(shelf.excess("ann"), None);
        shelf.add("bob", 40);
        shelf.add("cyd", 11);
        assert_eq!(
            shelf.excess("cyd"),
            Some(None),
            "all of it is more than there may be"
        );

        shelf.take("ann", 50);
        assert_eq!(
            (shelf.total, shelf.excess("cyd"), shelf.of_user("ann")),
            (51, None, 0)
        );
    }

    #[test]
    fn a_share_is_full_a_little_before_something_has_to_go_and_after_it_had_to_but_not_when_it_is_empty()
     {
        let mut shelf = shelf();
        assert!(shelf.is_full("ann", 60) && !shelf.is_full("ann", 0));
        shelf.add("ann", 44);
        assert!(!shelf.is_full("ann", 0) && shelf.is_full("ann", 1));
        shelf.remove("ann", 0, "ann");
        assert!(
            !shelf.is_full("ann", 0),
            "it was the total that was too small"
        );

        shelf.add("ann", 16);
        shelf.remove("ann", 30, "ann");
        assert!(shelf.is_full("ann", 0));
        shelf.take("ann", 6);
        assert!(!shelf.is_full("ann", 0), "less than half of it is left");
    }

    #[test]
    fn a_user_whose_share_was_taken_has_room_and_a_hoarder_has_none() {
        let mut shelf = shelf();
        shelf.most = (60, 1_000);
        shelf.add("ann", 80);
        assert_eq!(shelf.excess("ann"), Some(None));
        shelf.remove("ann", 40, "ann");
        assert!(shelf.is_full("ann", 0));
        shelf.add("bob", 30);
        shelf.remove("ann", 8, "bob");
        assert!(!shelf.is_full("ann", 0) && !shelf.is_full("bob", 0));
    }
}
