//! The attempts that were given back and of which the master may not know: there was no connection,
//! or it broke before anybody noticed. The next greeting lists them as held, and they are given back
//! again right after it, by the worker's next run as well: the master counts what is not listed as
//! lost, and charges its task.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use common::attempt::{HeldAttempt, Phase, Spent};
use common::wire::worker::ToMaster;
use common::{AttemptId, Span};
use serde::{Deserialize, Serialize};

/// The file in the worker's directory.
const FILE: &str = "given-back.json";
/// The number of answers to heartbeats by which it is certain that the master has heard what was
/// said before: a heartbeat may overtake it.
const ANSWERS: u64 = 2;

/// An attempt that was given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenBack {
    attempt: AttemptId,
    /// The reason, in words.
    why: String,
    /// The time that it took; `None` where its command was never started.
    spent: Option<Spent>,
}

/// The attempts that the master may still hold for its own.
#[derive(Debug, Default)]
pub(crate) struct UnheardReturns {
    /// Each with the number of answered heartbeats by which the master knows of it.
    all: BTreeMap<AttemptId, (GivenBack, u64)>,
    /// The numbers of heartbeats that were sent and answered over this connection. One answer may
    /// stand for several heartbeats.
    sent: u64,
    answered: u64,
}

impl UnheardReturns {
    /// Goes on with what an earlier run left.
    pub(crate) fn resumed(left: Vec<GivenBack>) -> Self {
        let all = left.into_iter().map(|back| (back.attempt, (back, ANSWERS)));
        Self {
            all: all.collect(),
            ..Self::default()
        }
    }

    /// Notes that these are given back.
    pub(crate) fn returned(&mut self, attempts: &[AttemptId], why: &str) {
        for attempt in attempts {
            let back = GivenBack {
                attempt: *attempt,
                why: why.to_owned(),
                spent: None,
            };
            self.all.insert(*attempt, (back, self.sent + ANSWERS));
        }
    }

    /// Notes the time that one of them took.
    pub(crate) fn spent(&mut self, spent: Spent) {
        if let Some((back, _)) = self.all.get_mut(&spent.attempt) {
            back.spent = Some(spent);
        }
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
    }

    /// Iterates over them as a greeting lists them.
    pub(crate) fn held(&self) -> impl Iterator<Item = HeldAttempt> + '_ {
        self.all.values().map(|(back, _)| HeldAttempt {
            attempt: back.attempt,
            phase: match back.spent {
                Some(_) => Phase::Ended,
                None => Phase::Queued,
            },
            ran: back.spent.map_or(Span::ZERO, |spent| spent.ran),
            frozen_for: Span::ZERO,
            progress: None,
        })
    }

    /// Returns what is to be said over a new connection.
    pub(crate) fn said_again(&mut self) -> Vec<ToMaster> {
        self.sent = 0;
        self.answered = 0;
        let mut attempts: BTreeMap<String, Vec<AttemptId>> = BTreeMap::new();
        let mut spent = Vec::new();
        for (back, known_by) in self.all.values_mut() {
            *known_by = ANSWERS;
            let alike = attempts.entry(back.why.clone()).or_default();
            alike.push(back.attempt);
            spent.extend(back.spent.map(ToMaster::Spent));
        }

        let returned = attempts.into_iter();
        returned
            .map(|(why, attempts)| ToMaster::Returned { attempts, why })
            .chain(spent)
            .collect()
    }

    /// Returns those of which the master may not know.
    pub(crate) fn left(&self) -> Vec<GivenBack> {
        self.all.values().map(|(back, _)| back.clone()).collect()
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

    /// Reads what an earlier run left.
    pub(crate) fn read(&self) -> Vec<GivenBack> {
        let read = match fs::read(&self.0) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        read.unwrap_or_else(|error| {
            tracing::warn!(%error, path = %self.0.display(), "it is not known what was given back: the master counts it as lost");
            Vec::new()
        })
    }

    /// Replaces the content of the file, durably; there is none where nothing is left.
    pub(crate) fn write(&self, left: &[GivenBack]) {
        let written = match left {
            [] => self.remove(),
            left => self.replace(left),
        };
        if let Err(error) = written {
            tracing::warn!(%error, path = %self.0.display(), "it cannot be kept what was given back: the master counts it as lost");
        }
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn replace(&self, left: &[GivenBack]) -> io::Result<()> {
        let text = serde_json::to_vec(left)?;
        let aside = self.0.with_extension("new");
        let _ = fs::remove_file(&aside);

        let mut file = link::files::create_private(&aside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&aside, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::id;

    /// One attempt that took a second, and one that was never started.
    fn unheard() -> UnheardReturns {
        let mut unheard = UnheardReturns::default();
        unheard.returned(&[id(1), id(2)], "test");
        unheard.spent(spent());
        unheard
    }

    fn spent() -> Spent {
        Spent {
            attempt: id(1),
            ran: Span::from_secs(1),
            suspended: Span::ZERO,
            cpu: Span::ZERO,
        }
    }

    #[test]
    fn what_was_given_back_is_said_again_until_heartbeats_after_it_are_answered() {
        let mut unheard = unheard();
        let phases: Vec<Phase> = unheard.held().map(|held| held.phase).collect();
        assert_eq!(phases, [Phase::Ended, Phase::Queued]);

        let again = [
            ToMaster::Returned {
                attempts: vec![id(1), id(2)],
                why: "test".to_owned(),
            },
            ToMaster::Spent(spent()),
        ];
        assert_eq!(unheard.said_again(), again);

        // Over a connection that breaks before there was an answer that must come after it.
        unheard.beats();
        unheard.answered();
        assert_eq!(unheard.said_again(), again);
        for _ in 0..ANSWERS {
            unheard.beats();
            unheard.answered();
        }
        assert_eq!(unheard.left(), []);
    }

    #[test]
    fn answers_to_heartbeats_from_before_prove_nothing() {
        let mut unheard = UnheardReturns::default();
        for _ in 0..3 {
            unheard.beats();
        }
        unheard.returned(&[id(1)], "test");
        for _ in 0..3 {
            unheard.answered();
        }
        assert_eq!(unheard.left().len(), 1);
    }

    #[test]
    fn what_is_left_is_read_by_the_next_run_and_nothing_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = GivenBackFile::below(dir.path());
        let left = unheard().left();
        file.write(&left);
        assert_eq!(file.read(), left);
        assert_eq!(UnheardReturns::resumed(file.read()).left(), left);

        file.write(&[]);
        assert_eq!(file.read(), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert_eq!(file.read(), []);
    }
}
