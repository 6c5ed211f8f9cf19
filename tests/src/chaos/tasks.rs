//! What commands do in the simulated world, in the place of processes: they take their time, can be
//! frozen, obey or do not, fail, and leave a result that says whose it is. What is not here: when
//! the worker wants what of them.

use common::attempt::{Outcome, OutputFile, Stream};
use common::wire::worker::Command;
use common::{Content, Span, Time};
use link::content::hash_bytes;
use worker::engine::AttemptEnding;

use super::chance::Chance;

/// A command on a worker.
#[derive(Debug)]
pub(super) struct Task {
    argv: Vec<String>,
    /// Counts what was planned for it: what was planned before is void.
    pub(super) plan: u64,
    /// Whether its command has been started.
    pub(super) started: bool,
    /// Whether somebody has asked it to end, and how.
    pub(super) signal: Option<i32>,
    /// Whether it is being thrown away.
    pub(super) doomed: bool,
    /// How much of it is left, and since when it runs, if it does.
    left: Span,
    since: Option<Time>,
}

/// What comes next for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Its inputs are placed.
    Staged,
    /// They are not.
    NotStaged,
    /// Its command has ended.
    Exited,
    /// What it left is collected.
    Collected,
    /// It is thrown away.
    Gone,
}

impl Task {
    /// A task that is to be made.
    pub(super) fn new(command: &Command, chance: &mut Chance) -> Self {
        let left = match chance.below(6) {
            0 => Span::from_millis(chance.between(1, 900)),
            1..5 => Span::from_secs(chance.between(1, 40)),
            _ => Span::from_secs(chance.between(40, 180)),
        };

        Self {
            argv: command.argv.clone(),
            plan: 0,
            started: false,
            signal: None,
            doomed: false,
            left,
            since: None,
        }
    }

    /// It runs from now on; gives how long it will.
    pub(super) fn go(&mut self, now: Time) -> Span {
        self.since = Some(now);
        self.left
    }

    /// Whether it has a slot: it runs, and nobody has ended it.
    pub(super) fn runs(&self) -> bool {
        self.since.is_some() && self.signal.is_none() && !self.doomed
    }

    /// It stands still from now on.
    pub(super) fn halt(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            self.left = Span(self.left.0.saturating_sub(now.since(since).0));
        }
    }

    /// What it left, and how it ended.
    pub(super) fn ending(&self, chance: &mut Chance, lies: bool) -> AttemptEnding {
        let kind = &self.argv[0];
        let nonce = &self.argv[1];
        let index = self.argv[2].parse().unwrap_or(0);
        let outcome = match (self.signal, &kind[..]) {
            (Some(signal), _) => Outcome::Signalled(signal),
            (None, "fail") => Outcome::Exited(1),
            (None, "flaky") if chance.one_in(3) => Outcome::Exited(2),
            _ => Outcome::Succeeded,
        };

        let mut ending = AttemptEnding::bare(outcome);
        if ending.outcome.success() {
            (ending.stdout, ending.outputs) = result(kind, nonce, index);
            if lies {
                ending.stdout = Stream {
                    content: Content::Inline(b"lies".to_vec()),
                    dropped: 0,
                };
            }
        }

        ending
    }
}

/// What a command of this kind leaves: its words, and its files.
pub(super) fn result(kind: &str, nonce: &str, index: u32) -> (Stream, Vec<OutputFile>) {
    let text = format!("{nonce}:{index}");
    let stdout = Stream {
        content: Content::Inline(text.clone().into_bytes()),
        dropped: 0,
    };
    let file = || {
        let blob = hash_bytes(format!("the file of {text}").as_bytes());
        Some(OutputFile {
            path: "out".parse().ok()?,
            blob,
            executable: false,
        })
    };
    let files = if kind == "files" {
        file().into_iter().collect()
    } else {
        Vec::new()
    };
    (stdout, files)
}
