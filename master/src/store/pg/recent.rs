//! The groups that were committed lately. A replica that was behind its primary and takes its place lacks some of
//! them; as long as they are here, they are written again.

use std::collections::VecDeque;

use common::{Span, Time};

use super::cells::KeptValue;
use super::runs::KeptChange;

/// The time for which a group is kept: longer than a replica that works is behind.
const KEPT_FOR: Span = Span::from_secs(60);
/// The most bytes that all of them take.
const KEPT_BYTES: usize = 256 << 20;

/// The changes of a group that was committed.
pub(super) struct RecentGroup {
    pub(super) turn: i64,
    pub(super) changes: Vec<KeptChange>,
    bytes: usize,
    at: Time,
}

/// The last groups, in the order of their turns, which follow each other without a gap.
#[derive(Default)]
pub(super) struct RecentGroups {
    groups: VecDeque<RecentGroup>,
    bytes: usize,
}

impl RecentGroups {
    /// Keeps a group that was committed at `now` as this turn, and forgets old ones.
    pub(super) fn keep(&mut self, turn: i64, changes: Vec<KeptChange>, now: Time) {
        let bytes = changes.iter().map(size).sum();
        self.bytes += bytes;
        self.groups.push_back(RecentGroup {
            turn,
            changes,
            bytes,
            at: now,
        });

        while let Some(first) = self.groups.front()
            && (self.bytes > KEPT_BYTES || now.since(first.at) > KEPT_FOR)
        {
            self.bytes -= first.bytes;
            self.groups.pop_front();
        }
    }

    /// The groups after this turn; `None` if some of them are not here any more.
    pub(super) fn after(&self, turn: i64) -> Option<impl Iterator<Item = &RecentGroup>> {
        let has_next = self.groups.front()?.turn <= turn + 1;
        has_next.then(|| self.groups.iter().filter(move |group| group.turn > turn))
    }

    /// Forgets all of them, as after a long time.
    #[cfg(test)]
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// The bytes that a change takes, about.
fn size(change: &KeptChange) -> usize {
    let value = |value: &KeptValue| {
        let apart = match value {
            KeptValue::Text(text) => text.len(),
            KeptValue::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        apart + size_of::<KeptValue>()
    };
    change.values.iter().map(value).sum::<usize>() + size_of::<KeptChange>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::runs::KeptText;
    use super::*;

    fn change(bytes: usize) -> KeptChange {
        KeptChange {
            text: Arc::new(KeptText::new("UPDATE meta SET value = $1")),
            values: vec![KeptValue::Bytes(vec![0; bytes].into())],
            counted: false,
        }
    }

    fn turns_after(recent: &RecentGroups, turn: i64) -> Option<Vec<i64>> {
        let groups = recent.after(turn)?;
        Some(groups.map(|group| group.turn).collect())
    }

    #[test]
    fn groups_are_kept_for_a_minute_and_as_long_as_there_is_room() {
        let at = |secs: u64| Time(Span::from_secs(secs).0);
        let mut recent = RecentGroups::default();
        assert_eq!(turns_after(&recent, 0), None);
        for turn in 1..=100 {
            recent.keep(turn, vec![change(10)], at(turn.unsigned_abs()));
        }
        assert_eq!(turns_after(&recent, 97), Some(vec![98, 99, 100]));
        assert_eq!(turns_after(&recent, 100), Some(vec![]));
        assert_eq!(turns_after(&recent, 38), None, "the 39th is too old");
        assert_eq!(turns_after(&recent, 39).map(|all| all.len()), Some(61));

        recent.keep(101, vec![change(KEPT_BYTES / 2)], at(100));
        recent.keep(102, vec![change(KEPT_BYTES / 2)], at(100));
        assert_eq!(turns_after(&recent, 100), None);
        assert_eq!(turns_after(&recent, 101), Some(vec![102]));
    }
}
