//! What happened in a run, for people: a line for each thing, with its time.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use common::Time;

/// The lines so far, and how often each kind of thing was seen.
#[derive(Debug, Default)]
pub(super) struct Story {
    text: String,
    counts: BTreeMap<&'static str, u64>,
}

impl Story {
    /// Another line.
    pub(super) fn tell(&mut self, now: Time, who: fmt::Arguments<'_>, what: fmt::Arguments<'_>) {
        let seconds = now.0 / 1_000_000;
        let micros = now.0 % 1_000_000;
        let _ = writeln!(self.text, "{seconds:>6}.{micros:06} {who}: {what}");
    }

    /// Something was seen once more.
    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// The text, and the counts.
    pub(super) fn into_parts(self) -> (String, BTreeMap<&'static str, u64>) {
        (self.text, self.counts)
    }
}
