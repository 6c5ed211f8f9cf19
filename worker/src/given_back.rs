//! The attempts that ran, were given back, and of which the master may not know: there was no
//! connection, or it broke before anybody noticed. The next greeting lists them as held, and they are
//! given back again right after it, by the worker's next run as well: the master counts what ran and
//! is not listed as lost, and charges its task. What never started is charged to nobody, and is not
//! kept here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use common::attempt::{HeldAttempt, Phase, Spent};
use common::wire::worker::ToMaster;
use common::{AttemptId, Span};

use crate::json_file;

/// The file in the worker's directory.
const FILE: &str = "given-back.json";
/// The number of answers to heartbeats by which it is certain that the master has heard what was
/// said before: a heartbeat may overtake it.
const ANSWERS: u64 = 2;
/// The reason that is said with what is given back again.
const AGAIN: &str = "given back before, perhaps unheard";

/// The attempts that the master may still hold for its own.
#[derive(Debug, Default)]
pub(crate) struct UnheardReturns {
    /// Each with the number of answered heartbeats by which the master knows of it.
    all: BTreeMap<AttemptId, (Spent, u64)>,
    /// The bytes that attempts held which are given back for memory; `None` where nobody could tell. The worker's next run does not know it.
    weighed: BTreeMap<AttemptId, Option<u64>>,
    /// The numbers of heartbeats that were sent and answered over this connection. One answer may
    /// stand for several heartbeats.
    sent: u64,
    answered: u64,
}

impl UnheardReturns {
    /// Goes on with what an earlier run left.
    pub(crate) fn resumed(left: Vec<Spent>) -> Self {
        let all = left
            .into_iter()
            .map(|spent| (spent.attempt, (spent, ANSWERS)));
        Self {
            all: all.collect(),
            ..Self::default()
        }
    }

    /// Notes that an attempt which took this time is given back.
    pub(crate) fn returned(&mut self, spent: Spent) {
        let known_by = self.sent + ANSWERS;
        self.all.insert(spent.attempt, (spent, known_by));
    }

    /// Notes what an attempt held that is given back next.
    pub(crate) fn weighed(&mut self, attempt: AttemptId, bytes: Option<u64>) {
        self.weighed.insert(attempt, bytes);
    }

    /// Begins to count the heartbeats of a new connection.
    pub(crate) fn connects(&mut self) {
        self.sent = 0;
        self.answered = 0;
    }

    /// Counts a heartbeat that is sent.
    pub(crate) fn beats(&mut self) {
        self.sent += 1;
    }

    /// Counts the answer to a heartbeat, and forgets what the master knows by that.
    pub(crate) fn answered(&mut self) {
        self.answered += 1;
        let answered = self.answered;
        self.all.retain(|_, (_, known_by)| *known_by > answered);
        let all = &self.all;
        self.weighed.retain(|id, _| all.contains_key(id));
    }

    /// Iterates over them as a greeting lists them.
    pub(crate) fn held(&self) -> impl Iterator<Item = HeldAttempt> + '_ {
        self.all.values().map(|(spent, _)| HeldAttempt {
            attempt: spent.attempt,
            phase: Phase::Ended,
            ran: spent.ran,
            frozen_for: Span::ZERO,
            progress: None,
        })
    }

    /// Returns what is to be said over a new connection, to a master that understands what attempts held or not.
    pub(crate) fn said_again(&mut self, weighs: bool) -> Vec<ToMaster> {
        if self.all.is_empty() {
            return Vec::new();
        }

        // First, while the master has them on its books.
        let weighed = self.weighed.iter().filter(|_| weighs);
        let weighed = weighed.map(|(attempt, bytes)| ToMaster::Weighed {
            attempt: *attempt,
            bytes: *bytes,
        });
        let mut said: Vec<ToMaster> = weighed.collect();
        said.push(ToMaster::Returned {
            attempts: self.all.keys().copied().collect(),
            why: AGAIN.to_owned(),
        });
        for (spent, known_by) in self.all.values_mut() {
            *known_by = self.sent + ANSWERS;
            said.push(ToMaster::Spent(*spent));
        }
        said
    }

    /// Returns those of which the master may not know.
    pub(crate) fn left(&self) -> Vec<Spent> {
        self.all.values().map(|(spent, _)| *spent).collect()
    }
}

/// The place of what is left when the worker ends.
#[derive(Debug, Clone)]
pub(crate) struct GivenBackFile(PathBuf);

impl GivenBackFile {
    /// The file in this directory of a worker.
    pub(crate) fn below(dir: &Path) -> Self {
        Self(dir.join(FILE))
    }

    /// Takes what an earlier run left. The file goes: it must not outlive what it says, and a worker
    /// that ends in order writes it anew.
    pub(crate) fn take(&self) -> Vec<Spent> {
        let read = json_file::read(&self.0).transpose();
        let Some(read) = read else { return Vec::new() };
        let left = read.unwrap_or_else(|error| {
            tracing::warn!(%error, path = %self.0.display(), "it is not known what was given back: the master counts it as lost");
            Vec::new()
        });

        if let Err(error) = link::files::remove(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "what was given back is said again by the next run");
        }
        left
    }

    /// Keeps this for the next run, durably; there is no file where nothing is left.
    pub(crate) fn write(&self, left: &[Spent]) {
        if left.is_empty() {
            return;
        }
        let text = serde_json::to_vec(left).map_err(io::Error::from);
        let kept = text.and_then(|text| link::files::write_whole(&self.0, &text, 0o600));
        if let Err(error) = kept {
            tracing::warn!(%error, path = %self.0.display(), "it cannot be kept what was given back: the master counts it as lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::machine::tests::id;

    /// Two attempts that took a second each.
    fn unheard() -> UnheardReturns {
        let mut unheard = UnheardReturns::default();
        unheard.returned(spent(1));
        unheard.returned(spent(2));
        unheard
    }

    /// Returns the messages that are sent again over a new connection.
    fn says_again(unheard: &mut UnheardReturns, weighs: bool) -> Vec<ToMaster> {
        unheard.connects();
        unheard.said_again(weighs)
    }

    fn spent(index: u32) -> Spent {
        Spent {
            attempt: id(index),
            ran: Span::from_secs(1),
            suspended: Span::ZERO,
            cpu: Span::ZERO,
        }
    }

    #[test]
    fn what_was_given_back_is_said_again_until_heartbeats_after_it_are_answered() {
        let mut unheard = unheard();
        let held: Vec<_> = unheard.held().map(|h| (h.attempt, h.phase)).collect();
        assert_eq!(held, [(id(1), Phase::Ended), (id(2), Phase::Ended)]);

        let again = [
            ToMaster::Returned {
                attempts: vec![id(1), id(2)],
                why: AGAIN.to_owned(),
            },
            ToMaster::Spent(spent(1)),
            ToMaster::Spent(spent(2)),
        ];
        assert_eq!(says_again(&mut unheard, true), again);

        // Over a connection that breaks before there was an answer that must come after it.
        unheard.beats();
        unheard.answered();
        assert_eq!(says_again(&mut unheard, true), again);
        for _ in 0..ANSWERS {
            unheard.beats();
            unheard.answered();
        }
        assert_eq!(unheard.left(), []);
        assert_eq!(says_again(&mut unheard, true), []);
    }

    #[test]
    fn what_attempts_held_is_said_again_before_them_to_a_master_that_understands_it() {
        let mut unheard = UnheardReturns::default();
        unheard.weighed(id(1), Some(7));
        unheard.weighed(id(2), None);
        for index in 1..=3 {
            unheard.returned(spent(index));
        }

        let said = says_again(&mut unheard, true);
        let weighed = [(1, Some(7)), (2, None)].map(|(index, bytes)| ToMaster::Weighed {
            attempt: id(index),
            bytes,
        });
        assert_eq!(said[..2], weighed);
        assert!(matches!(&said[2], ToMaster::Returned { attempts, .. } if attempts.len() == 3));
        let older = says_again(&mut unheard, false);
        assert_eq!(older, said[2..]);

        for _ in 0..ANSWERS {
            unheard.beats();
            unheard.answered();
        }
        assert!(unheard.weighed.is_empty());
    }

    #[test]
    fn a_heartbeat_before_the_welcome_was_heard_proves_nothing() {
        let mut unheard = unheard();
        unheard.connects();
        unheard.beats();
        assert_ne!(unheard.said_again(true), []);
        for _ in 0..ANSWERS {
            unheard.answered();
        }
        assert_eq!(unheard.left(), [spent(1), spent(2)]);
    }

    #[test]
    fn answers_to_heartbeats_from_before_prove_nothing() {
        let mut unheard = UnheardReturns::default();
        for _ in 0..3 {
            unheard.beats();
        }
        unheard.returned(spent(1));
        for _ in 0..3 {
            unheard.answered();
        }
        assert_eq!(unheard.left(), [spent(1)]);
    }

    #[test]
    fn what_is_left_is_taken_by_one_run_and_nothing_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = GivenBackFile::below(dir.path());
        let left = unheard().left();
        file.write(&left);
        let taken = file.take();
        assert_eq!(taken, left);
        assert_eq!(UnheardReturns::resumed(taken).left(), left);

        assert_eq!(file.take(), []);
        file.write(&[]);
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert_eq!(file.take(), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
