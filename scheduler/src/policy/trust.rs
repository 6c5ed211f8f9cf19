//! The belief in results. A ballot counts the results of a task that agree. A host with enough
//! agreeing results has most of its results believed alone; some are audited all the same. After
//! BOINC's adaptive replication (D. P. Anderson, "BOINC: A Platform for Volunteer Computing",
//! 2019). The caller compares results; `crate::faults::quorum` draws the consequences.
//!
//! Readings: only results that were compared with others' count; a host with n of them in a row, n
//! at least [`TRUSTED_FROM`], is audited with a chance of 1/n. Agreement need not be transitive:
//! the quorum is of results that agree with one of them.

use common::{AttemptId, HostId};

/// The number of results in a row that must have agreed with others' before a host is believed
/// alone.
pub const TRUSTED_FROM: u32 = 10;
/// The number of results at which a task without a quorum fails, as a multiple of the quorum.
pub const MOST_RESULTS: u32 = 3;

/// A result of an undecided task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vote {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its host.
    pub host: HostId,
    /// The present owner of the host: hosts of one party have one vote together.
    pub party: HostId,
    /// Whether it was compared with all results that came before it.
    pub compared: bool,
    /// The numbers of the attempts with whose results it agrees.
    agrees: Vec<u32>,
}

/// The results of an undecided task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ballot {
    votes: Vec<Vote>,
}

impl Ballot {
    /// Returns the results in the order in which they came.
    pub fn votes(&self) -> &[Vote] {
        &self.votes
    }

    /// Adds a result, unless it is there already; the first one counts as compared. Returns whether
    /// it is new.
    pub fn add(&mut self, attempt: AttemptId, host: HostId, party: HostId) -> bool {
        let new = self
            .votes
            .iter()
            .all(|vote| vote.attempt.number != attempt.number);
        if new {
            let compared = self.votes.is_empty();
            self.votes.push(Vote {
                attempt,
                host,
                party,
                compared,
                agrees: Vec::new(),
            });
        }

        new
    }

    /// Gives the results of a host to another party: its owner has changed. Returns whether there
    /// are any.
    pub fn reown(&mut self, host: HostId, party: HostId) -> bool {
        let mut any = false;
        for vote in self.votes.iter_mut().filter(|vote| vote.host == host) {
            vote.party = party;
            any = true;
        }
        any
    }

    /// Notes the other results with which a result agrees; changes nothing if it was compared
    /// before.
    pub fn compared(&mut self, number: u32, agrees: &[u32]) {
        let there: Vec<u32> = self.votes.iter().map(|vote| vote.attempt.number).collect();
        let agrees = |other: u32| other != number && agrees.contains(&other);
        let Some(vote) = self
            .votes
            .iter_mut()
            .find(|v| v.attempt.number == number && !v.compared)
        else {
            return;
        };
        vote.compared = true;
        vote.agrees
            .extend(there.iter().copied().filter(|other| agrees(*other)));
        vote.agrees.sort_unstable();

        vote.agrees.dedup();
        for other in self
            .votes
            .iter_mut()
            .filter(|vote| agrees(vote.attempt.number))
        {
            if let Err(at) = other.agrees.binary_search(&number) {
                other.agrees.insert(at, number);
            }
        }
    }

    /// Returns the number of results that wait for their comparison.
    pub fn pending(&self) -> usize {
        self.votes.iter().filter(|vote| !vote.compared).count()
    }

    /// Returns the number of parties that agree with a result, its own among them. No host is
    /// counted twice either, in the order in which the results came.
    fn backing(&self, vote: &Vote) -> usize {
        let mut counted: Vec<&Vote> = Vec::new();
        let alike = |other: &&Vote| {
            let number = other.attempt.number;
            number == vote.attempt.number || vote.agrees.contains(&number)
        };
        for other in self.votes.iter().filter(alike) {
            let same = |past: &&Vote| past.host == other.host || past.party == other.party;
            if !counted.iter().any(same) {
                counted.push(other);
            }
        }

        counted.len()
    }

    /// Whether two results were compared and do not agree.
    pub fn differs(&self) -> bool {
        let compared = || self.votes.iter().filter(|vote| vote.compared);
        let apart = |one: &Vote, other: &Vote| {
            let number = other.attempt.number;
            number != one.attempt.number && !one.agrees.contains(&number)
        };
        compared().any(|one| compared().any(|other| apart(one, other)))
    }

    /// Returns the largest number of parties that agree with one result.
    pub fn lead(&self) -> usize {
        self.votes
            .iter()
            .filter(|vote| vote.compared)
            .map(|vote| self.backing(vote))
            .max()
            .unwrap_or(0)
    }

    /// Returns the result that counts, with the numbers of those that agree with it (its own among
    /// them), once `size` parties agree; among several such results the one with the most parties,
    /// then the earliest attempt.
    pub fn winner(&self, size: u32) -> Option<(AttemptId, Vec<u32>)> {
        let compared = self.votes.iter().filter(|vote| vote.compared);
        let best = compared
            .max_by_key(|vote| (self.backing(vote), std::cmp::Reverse(vote.attempt.number)))?;
        let agreeing = || {
            let mut numbers = best.agrees.clone();
            numbers.push(best.attempt.number);
            numbers.sort_unstable();
            (best.attempt, numbers)
        };
        (self.backing(best) >= size as usize).then(agreeing)
    }

    /// Returns the least number of further results needed until `size` parties agree.
    pub fn missing(&self, size: u32) -> usize {
        (size as usize).saturating_sub(self.lead() + self.pending())
    }
}

/// Whether a result is to be compared with others', from a host with `valid` agreeing results in a
/// row. The draw cannot be predicted by the host: `seed` is the master's secret.
pub fn audited(seed: u64, attempt: AttemptId, valid: u32) -> bool {
    valid < TRUSTED_FROM || draw(seed, attempt).is_multiple_of(u64::from(valid))
}

/// Returns a pseudorandom number that depends on `seed` and the attempt.
fn draw(seed: u64, attempt: AttemptId) -> u64 {
    let parts = [
        attempt.task.job.0,
        attempt.task.index,
        attempt.number,
        attempt.incarnation.0,
    ];
    mixed(seed, parts.map(u64::from))
}

/// Returns a pseudorandom number that depends on all of these (SplitMix64 over the parts).
pub(super) fn mixed(seed: u64, parts: [u64; 4]) -> u64 {
    parts
        .into_iter()
        .fold(seed, |state, part| mix(state ^ part))
}

fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::{Incarnation, JobId, TaskId};
    use proptest::prelude::*;

    fn attempt(index: u32, number: u32) -> AttemptId {
        AttemptId {
            task: TaskId::new(JobId(3), index),
            number,
            incarnation: Incarnation(2),
        }
    }

    /// Creates a ballot of results of these classes, from hosts of these parties.
    fn ballot(results: &[(u32, u32)]) -> Ballot {
        let mut ballot = Ballot::default();
        for (number, (party, class)) in (1..).zip(results) {
            let agrees: Vec<u32> = (1..number)
                .zip(results)
                .filter(|(_, (_, other))| other == class)
                .map(|(number, _)| number)
                .collect();
            ballot.add(attempt(1, number), HostId(number), HostId(*party));
            ballot.compared(number, &agrees);
        }
        ballot
    }

    proptest! {
        /// Compares `Ballot` with a count by class.
        #[test]
        fn a_result_counts_exactly_if_enough_parties_gave_it(
            results in prop::collection::vec((0u32..4, 0u32..3), 0..9), size in 1u32..5,
        ) {
            let parties = |class: u32| {
                let mut found: Vec<u32> = results.iter().filter(|(_, c)| *c == class).map(|(p, _)| *p).collect();
                found.sort_unstable();
                found.dedup();
                found.len()
            };
            let most = (0..3).map(parties).max().unwrap_or(0);
            let ballot = ballot(&results);
            prop_assert_eq!(ballot.lead(), most);
            prop_assert_eq!(ballot.missing(size), (size as usize).saturating_sub(most));

            match ballot.winner(size) {
                None => prop_assert!(most < size as usize),
                Some((winner, agreeing)) => {
                    let class = results[winner.number as usize - 1].1;
                    prop_assert!(parties(class) >= size as usize && parties(class) == most);
                    let want: Vec<u32> = (1..).zip(&results).filter(|(_, (_, c))| *c == class).map(|(n, _)| n).collect();
                    prop_assert_eq!(agreeing, want);
                }
            }
        }

        #[test]
        fn a_ballot_ignores_repeated_and_unknown_votes(
            results in prop::collection::vec((0u32..4, 0u32..3), 1..6), number in 0u32..9, others in prop::collection::vec(0u32..9, 0..4),
        ) {
            let mut told = ballot(&results);
            told.compared(number, &others);
            prop_assert!(!told.add(attempt(1, 1), HostId(9), HostId(9)));
            prop_assert_eq!(told, ballot(&results));
        }

        #[test]
        fn audits_are_as_frequent_as_they_should_be_and_never_left_out_below_the_threshold(
            seed in any::<u64>(), valid in 0u32..40,
        ) {
            let audits = (0..4_000).filter(|index| audited(seed, attempt(*index, 1), valid)).count() as f64;
            if valid < TRUSTED_FROM {
                prop_assert_eq!(audits, 4_000.0);
            } else {
                let mean = 4_000.0 / f64::from(valid);
                prop_assert!((audits - mean).abs() < 6.0 * mean.sqrt(), "{} of 4000 at 1/{}", audits, valid);
            }
        }
    }

    #[test]
    fn a_host_has_one_vote_whatever_parties_its_results_are_of() {
        let mut ballot = Ballot::default();
        for (number, (host, party)) in (1..).zip([(2, 1), (2, 2), (3, 3)]) {
            ballot.add(attempt(1, number), HostId(host), HostId(party));
        }
        ballot.compared(2, &[1]);
        assert_eq!((ballot.lead(), ballot.winner(2)), (1, None));
        ballot.compared(3, &[1, 2]);
        assert_eq!((ballot.lead(), ballot.missing(3)), (2, 1));

        assert!(!ballot.reown(HostId(4), HostId(2)), "it has no result");
        assert!(ballot.reown(HostId(3), HostId(2)));
        assert!(ballot.reown(HostId(2), HostId(2)));
        assert_eq!((ballot.lead(), ballot.winner(2)), (1, None));
    }

    #[test]
    fn agreement_that_is_not_transitive_takes_the_middle_one() {
        let mut ballot = Ballot::default();
        for number in 1..=3 {
            ballot.add(attempt(1, number), HostId(number), HostId(number));
        }
        ballot.compared(2, &[1]);
        assert_eq!((ballot.pending(), ballot.missing(3)), (1, 0));
        ballot.compared(3, &[2]);
        assert_eq!(ballot.winner(3), Some((attempt(1, 2), vec![1, 2, 3])));
    }
}
