//! The list of hosts. All of them are fetched now and then; what changes meanwhile is pushed to
//! admins, and those on the screen are asked for each second.

use std::cmp::Ordering;

use common::Time;
use common::view::{HostState, HostView};
use ratatui::text::Line;

use super::board::{Board, BoardEntry, holds};
use super::look::{Column, Theme, Tone, number, of_host, text};

/// The columns of the list, for `row`.
pub(super) const COLUMNS: &[Column] = &[
    text("HOST", 14, 1, 0),
    text("STATE", 11, 0, 0),
    text("WHY", 18, 3, 0),
    number("SINCE", 9, 0),
    number("HOLDS", 5, 1),
    number("SLOTS", 8, 2),
    number("SPEED", 6, 4),
    number("FREE", 5, 5),
    number("FINISHED", 9, 3),
    number("LOST", 6, 6),
];

impl BoardEntry for HostView {
    const SORTS: &'static [&'static str] =
        &["number", "name", "state", "speed", "tasks that it holds"];

    fn key(&self) -> u32 {
        self.id.0
    }

    fn is_listed(&self) -> bool {
        !self.gone
    }

    fn has(&self, word: &str) -> bool {
        let mut labels = self.facts.labels.iter().chain(&self.labels);
        let why = self.reason.as_deref().unwrap_or_default();
        holds(&self.facts.name, word)
            || self.state.to_string().contains(word)
            || holds(why, word)
            || labels.any(|label| holds(label.as_str(), word))
    }

    fn compare(&self, other: &Self, sort: usize) -> Ordering {
        match sort {
            0 => Ordering::Equal,
            1 => self.facts.name.cmp(&other.facts.name),
            2 => worst(self.state).cmp(&worst(other.state)),
            3 => other
                .facts
                .speed
                .factor()
                .total_cmp(&self.facts.speed.factor()),
            _ => other.attempts.len().cmp(&self.attempts.len()),
        }
    }
}

/// The place of a state in the order by state: what somebody should look at comes first.
fn worst(state: HostState) -> u8 {
    match state {
        HostState::Benched => 0,
        HostState::Suspect => 1,
        HostState::Draining => 2,
        HostState::Suspended => 3,
        HostState::Busy => 4,
        HostState::Ready => 5,
        HostState::Lost => 6,
    }
}

/// The sums over all hosts that are expected back.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostSums {
    /// The hosts.
    pub(super) all: usize,
    /// Those of them that lend slots now.
    pub(super) lend: usize,
    /// The slots that they lend.
    pub(super) slots: u64,
}

/// Counts the hosts.
pub(super) fn sums(board: &Board<HostView>) -> HostSums {
    let mut sums = HostSums::default();

    for host in board.all().filter(|host| !host.gone) {
        sums.all += 1;
        let there = matches!(
            host.state,
            HostState::Ready | HostState::Busy | HostState::Benched
        );
        if there && host.slots_usable > 0 {
            sums.lend += 1;
            sums.slots += u64::from(host.slots_usable);
        }
    }
    sums
}

/// Returns the slots that can be used, with all of them where these are more.
pub(super) fn slots(host: &HostView) -> String {
    let usable = host.slots_usable;
    let all = host.facts.slots;
    if usable >= all {
        all.to_string()
    } else {
        format!("{usable} of {all}")
    }
}

/// Returns the cells of a host's row, one for each of [`COLUMNS`].
pub(super) fn row(host: &HostView, theme: Theme, now: Time) -> Vec<Line<'static>> {
    let why = host.reason.as_deref().unwrap_or_default();
    let free = host
        .cpu_availability
        .map(|part| format!("{:.0} %", 100.0 * part));
    let lost = if host.lost > 0 {
        Tone::Plain
    } else {
        Tone::Quiet
    };

    vec![
        theme.text(&host.facts.name, Tone::Plain),
        theme.state(of_host(host.state), &host.state.to_string()),
        theme.text(why, Tone::Plain),
        Line::raw(now.since(host.since).to_string()),
        Line::raw(host.attempts.len().to_string()),
        Line::raw(slots(host)),
        Line::raw(host.facts.speed.to_string()),
        Line::raw(free.unwrap_or_default()),
        Line::raw(host.finished.to_string()),
        theme.text(&host.lost.to_string(), lost),
    ]
}
