//! Coalesces refusals on their way into the audit log. Anybody can cause them, as often as they
//! like: equal ones within a minute become one entry with a count, and a minute has a bounded
//! number of entries.

use std::collections::BTreeMap;

use common::{Span, Time};

use crate::store::AuditEntry;

/// The time during which repeats are counted before they are written.
const WINDOW: Span = Span::from_secs(60);
/// The most different refusals that get entries in one `WINDOW`; the others are only counted.
const BUDGET: usize = 120;

/// An action that was refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attempted {
    /// The name or address of the peer.
    pub(crate) who: String,
    /// The action, in one word.
    pub(crate) what: &'static str,
    /// The object of the action.
    pub(crate) subject: String,
    /// The reason of the refusal.
    pub(crate) why: String,
}

impl Attempted {
    fn entry(self, at: Time, count: u32) -> AuditEntry {
        AuditEntry {
            at,
            who: self.who,
            what: self.what,
            subject: self.subject,
            allowed: false,
            why: self.why,
            count,
        }
    }
}

/// Counts repeated refusals.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    since: Time,
    /// The refusals written in this window, each with its first time and the count of its repeats.
    seen: BTreeMap<Attempted, (Time, u32)>,
    /// The refusals beyond the window's `BUDGET`.
    others: u32,
}

impl Coalescer {
    /// Notes a refusal, and returns the entries to write now.
    pub(crate) fn note(&mut self, now: Time, attempted: Attempted) -> Vec<AuditEntry> {
        let mut entries = if now.since(self.since) >= WINDOW {
            self.turn(now)
        } else {
            Vec::new()
        };

        if let Some((_, again)) = self.seen.get_mut(&attempted) {
            *again = again.saturating_add(1);
        } else if self.seen.len() < BUDGET {
            self.seen.insert(attempted.clone(), (now, 0));
            entries.push(attempted.entry(now, 1));
        } else {
            self.others = self.others.saturating_add(1);
        }

        entries
    }

    /// Begins a new window, and returns the entries for the repeats of the one before, and one
    /// entry for all refusals beyond its budget.
    pub(crate) fn turn(&mut self, now: Time) -> Vec<AuditEntry> {
        let seen = std::mem::take(&mut self.seen);
        let others = std::mem::take(&mut self.others);
        let since = std::mem::replace(&mut self.since, now);
        let again = seen.into_iter().filter(|(_, (_, again))| *again > 0);
        let mut entries: Vec<AuditEntry> = again
            .map(|(what, (at, again))| what.entry(at, again))
            .collect();

        if others > 0 {
            let why = "there were too many to list each".to_owned();
            let many = Attempted {
                who: "many".to_owned(),
                what: "refused",
                subject: "various".to_owned(),
                why,
            };
            entries.push(many.entry(since, others));
        }

        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempted(n: u32) -> Attempted {
        Attempted {
            who: format!("192.0.2.{n}"),
            what: "enrol",
            subject: "token 1".into(),
            why: "no such token".into(),
        }
    }

    #[test]
    fn the_first_is_written_at_once_and_repeats_are_counted_and_written_once() {
        let mut log = Coalescer::default();
        let at = |s| Time(0) + Span::from_secs(s);
        assert_eq!(log.note(at(100), attempted(1)).len(), 1);
        for _ in 0..50 {
            assert_eq!(log.note(at(110), attempted(1)), []);
        }

        let repeats = log.note(at(161), attempted(2));
        assert_eq!(
            repeats
                .iter()
                .map(|e| (e.who.as_str(), e.count))
                .collect::<Vec<_>>(),
            [("192.0.2.1", 50), ("192.0.2.2", 1)]
        );

        assert_eq!(log.turn(at(300)), []);
    }

    #[test]
    fn a_flood_of_different_refusals_writes_only_so_many_and_says_how_many_more_there_were() {
        let mut log = Coalescer::default();
        let written: usize = (0..10_000)
            .map(|n| log.note(Time(61_000_000), attempted(n)).len())
            .sum();
        assert_eq!(written, BUDGET);
        let rest = log.turn(Time(200_000_000));
        assert_eq!(
            rest.iter().map(|e| e.count).collect::<Vec<_>>(),
            [10_000 - BUDGET as u32]
        );
    }
}
