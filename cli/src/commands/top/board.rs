//! A list that is all in memory, such as of hosts: filtered, sorted, with a place in it that stays
//! with its entry. Only what is on the screen is ever drawn.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use super::keys::KeyAct;

/// A place in a list, and the part of the list that is on the screen.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListPlace {
    /// The entry that is chosen.
    pub(super) at: usize,
    /// The first entry on the screen.
    pub(super) top: usize,
}

impl ListPlace {
    /// Moves by a key; returns whether the key moves.
    pub(super) fn go(&mut self, act: KeyAct, len: usize, height: usize) -> bool {
        let page = height.max(1);
        self.at = match act {
            KeyAct::Down => self.at.saturating_add(1),
            KeyAct::Up => self.at.saturating_sub(1),
            KeyAct::PageDown => self.at.saturating_add(page),
            KeyAct::PageUp => self.at.saturating_sub(page),
            KeyAct::First => 0,
            KeyAct::Last => len,
            _ => return false,
        };
        self.fit(len, height);
        true
    }

    /// Keeps the place within a list of this length, and on the screen.
    pub(super) fn fit(&mut self, len: usize, height: usize) {
        self.at = self.at.min(len.saturating_sub(1));
        let least = (self.at + 1).saturating_sub(height.max(1));
        self.top = self
            .top
            .min(len.saturating_sub(height))
            .clamp(least, self.at);
    }

    /// The entries on the screen.
    pub(super) fn seen(&self, len: usize, height: usize) -> Range<usize> {
        self.top.min(len)..self.top.saturating_add(height).min(len)
    }
}

/// An entry of a [`Board`].
pub(super) trait BoardEntry {
    /// The names of the orders.
    const SORTS: &'static [&'static str];
    /// Returns the number that it keeps.
    fn key(&self) -> u32;
    /// Whether it is listed at all.
    fn is_listed(&self) -> bool;
    /// Whether a word of a filter, in lower case, is found in it.
    fn has(&self, word: &str) -> bool;
    /// Compares two of them in the order of this number.
    fn compare(&self, other: &Self, sort: usize) -> Ordering;
}

/// Whether a text holds a word of a `filter`, which is in lower case.
pub(super) fn holds(text: &str, word: &str) -> bool {
    text.to_lowercase().contains(word)
}

/// A list of entries, such as `HostView`.
#[derive(Debug)]
pub(super) struct Board<T: BoardEntry> {
    entries: BTreeMap<u32, T>,
    /// The entries that are shown, in their order.
    order: Vec<u32>,
    /// The entry that is chosen: it stays chosen where it goes.
    chosen: Option<u32>,
    place: ListPlace,
    filter: String,
    sort: usize,
    /// Whether `order` is out of date.
    stale: bool,
    /// Whether an answer has come at all.
    pub(super) loaded: bool,
}

impl<T: BoardEntry> Default for Board<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            order: Vec::new(),
            chosen: None,
            place: ListPlace::default(),
            filter: String::new(),
            sort: 0,
            stale: false,
            loaded: false,
        }
    }
}

impl<T: BoardEntry> Board<T> {
    /// Every entry that is known.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.entries.values()
    }

    pub(super) fn entry(&self, key: u32) -> Option<&T> {
        self.entries.get(&key)
    }

    /// Adds an entry, or puts it in the place of an earlier one.
    pub(super) fn put(&mut self, entry: T) {
        let before = self.entries.insert(entry.key(), entry);
        // Most changes leave the order as it is: thousands of entries are not sorted for them.
        self.stale |= before.is_none() || self.sort != 0 || !self.filter.is_empty();
    }

    /// Changes an entry in place, if it is known, as a `GridEvent` says.
    pub(super) fn change(&mut self, key: u32, change: impl FnOnce(&mut T)) {
        if let Some(entry) = self.entries.get_mut(&key) {
            change(entry);
            self.stale |= self.sort != 0 || !self.filter.is_empty();
        }
    }

    /// Removes the entries that are not to be kept.
    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|_, entry| keep(entry));
        self.stale |= self.entries.len() != before;
    }

    /// Makes the order anew at the next `arrange`.
    pub(super) fn resort(&mut self) {
        self.stale = true;
    }

    /// Filters the list by words, all of which an entry must hold (`BoardEntry::has`).
    pub(super) fn filter(&mut self, text: &str) {
        self.filter = text.to_lowercase();
        self.stale = true;
    }

    /// Sorts in the next of `SORTS`.
    pub(super) fn sort_next(&mut self) {
        self.sort = (self.sort + 1) % T::SORTS.len();
        self.stale = true;
    }

    /// The name of the order, one of `SORTS`.
    pub(super) fn sorted_by(&self) -> &'static str {
        T::SORTS[self.sort]
    }

    /// Brings the order up to date, for a screen with room for so many.
    pub(super) fn arrange(&mut self, height: usize) {
        if std::mem::take(&mut self.stale) {
            let words: Vec<&str> = self.filter.split_whitespace().collect();
            let wanted = |entry: &&T| entry.is_listed() && words.iter().all(|word| entry.has(word));
            let mut shown: Vec<&T> = self.entries.values().filter(wanted).collect();
            let sort = self.sort;
            shown.sort_by(|a, b| a.compare(b, sort).then_with(|| a.key().cmp(&b.key())));
            self.order = shown.into_iter().map(T::key).collect();
            let at = self
                .chosen
                .and_then(|key| self.order.iter().position(|k| *k == key));
            if let Some(at) = at {
                let from_top = self.place.at.saturating_sub(self.place.top);
                self.place = ListPlace {
                    at,
                    top: at.saturating_sub(from_top),
                };
            }
        }

        self.place.fit(self.order.len(), height);
        self.chosen = self.order.get(self.place.at).copied();
    }

    /// Moves by a key; returns whether the key moves.
    pub(super) fn go(&mut self, act: KeyAct, height: usize) -> bool {
        let moved = self.place.go(act, self.order.len(), height);
        self.chosen = self.order.get(self.place.at).copied();
        moved
    }

    /// Chooses an entry, if it is listed.
    pub(super) fn choose(&mut self, key: u32) {
        if let Some(at) = self.order.iter().position(|k| *k == key) {
            self.place.at = at;
            self.chosen = Some(key);
        }
    }

    /// The number of entries that are shown.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the entry that is chosen.
    pub(super) fn chosen(&self) -> Option<&T> {
        self.entries.get(&self.chosen?)
    }

    /// Returns the entries on a screen with room for so many, each with whether it is chosen.
    pub(super) fn seen(&self, height: usize) -> impl Iterator<Item = (&T, bool)> {
        let seen = self.place.seen(self.order.len(), height);
        let at = self.place.at;
        let keys = seen.map(move |index| (self.order[index], index == at));
        keys.filter_map(|(key, chosen)| Some((self.entries.get(&key)?, chosen)))
    }

    /// Whether the end of the list is on the screen.
    pub(super) fn shows_end(&self, height: usize) -> bool {
        self.place.seen(self.order.len(), height).end >= self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Named(u32, &'static str);

    impl BoardEntry for Named {
        const SORTS: &'static [&'static str] = &["number", "name"];
        fn key(&self) -> u32 {
            self.0
        }
        fn is_listed(&self) -> bool {
            true
        }
        fn has(&self, word: &str) -> bool {
            holds(self.1, word)
        }
        fn compare(&self, other: &Self, sort: usize) -> Ordering {
            match sort {
                0 => self.0.cmp(&other.0),
                _ => self.1.cmp(other.1),
            }
        }
    }

    fn seen(board: &Board<Named>) -> Vec<u32> {
        board.seen(2).map(|(entry, _)| entry.0).collect()
    }

    #[test]
    fn the_chosen_entry_stays_chosen_while_the_list_changes() {
        let mut board = Board::default();
        for (number, name) in [(1, "Carol"), (2, "Ann"), (3, "Bob")] {
            board.put(Named(number, name));
        }
        board.arrange(2);
        board.go(KeyAct::Last, 2);
        assert_eq!(board.chosen().unwrap().1, "Bob");
        assert_eq!(seen(&board), [2, 3]);

        board.sort_next();
        board.arrange(2);
        assert_eq!(
            (board.chosen().unwrap().1, seen(&board)),
            ("Bob", vec![2, 3])
        );
        board.filter("a");
        board.arrange(2);
        assert_eq!(seen(&board), [2, 1], "Ann and Carol");
        board.retain(|entry| entry.0 != 1);
        board.arrange(2);
        assert_eq!((board.chosen().unwrap().1, board.len()), ("Ann", 1));
    }

    #[test]
    fn pages_end_where_the_list_ends() {
        let mut place = ListPlace::default();
        assert!(place.go(KeyAct::PageDown, 25, 10) && place.at == 10 && place.top == 1);
        place.go(KeyAct::PageDown, 25, 10);
        place.go(KeyAct::PageDown, 25, 10);
        assert_eq!((place.at, place.top), (24, 15));
        assert_eq!(place.seen(25, 10), 15..25);
        place.go(KeyAct::First, 25, 10);
        assert_eq!((place.at, place.top), (0, 0));
        assert!(place.go(KeyAct::Down, 0, 10) && place.at == 0 && !place.go(KeyAct::Why, 1, 1));
    }
}
