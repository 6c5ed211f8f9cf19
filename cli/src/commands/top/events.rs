//! The newest events, as `deskgrid events` words them. They are pushed; the oldest are dropped.

use std::collections::{BTreeMap, VecDeque};

use common::event::{EventPage, EventView, Following, GridEvent};
use common::view::{AttemptState, JobState};
use common::wire::client::Request;
use common::{HostId, JobId, TaskId, Time};
use ratatui::text::Line;

use super::super::events::words;
use super::board::ListPlace;
use super::keys::KeyAct;
use super::look::{Column, Theme, Tone, number, of_host, text};
use crate::output::when;

/// The events that are kept, and those of the past that are asked for.
const KEPT: usize = 2_000;
const PAST: u64 = 500;

/// The columns of the list, for `row`.
pub(super) const COLUMNS: &[Column] = &[
    number("EVENT", 9, 1),
    text("TIME", 8, 0, 0),
    text("WHAT HAPPENED", 30, 2, 0),
    text("WHY", 12, 1, 2),
];

/// A `GridEvent` as it is shown.
#[derive(Debug)]
pub(super) struct ShownEvent {
    seq: u64,
    at: Time,
    what: String,
    why: String,
    tone: Tone,
    /// The things that it is about.
    pub(super) job: Option<JobId>,
    pub(super) task: Option<TaskId>,
    pub(super) host: Option<HostId>,
}

/// The newest events, for `Tab::Events`.
#[derive(Debug, Default)]
pub(super) struct EventList {
    lines: VecDeque<ShownEvent>,
    names: BTreeMap<HostId, String>,
    /// The events that the filter lets through, by their number.
    order: Vec<u64>,
    filter: String,
    place: ListPlace,
    /// Whether the newest event stays chosen.
    pinned: bool,
    stale: bool,
    /// The number of the last event that was told.
    pub(super) upto: Option<u64>,
    /// Whether the events of the past have come.
    pub(super) past: bool,
}

impl EventList {
    pub(super) fn new() -> Self {
        Self {
            pinned: true,
            ..Self::default()
        }
    }

    /// The request for what happens from here on.
    pub(super) fn request(&self) -> Request {
        Request::Follow(Following {
            after: self.upto,
            wait: true,
            ..Following::default()
        })
    }

    /// The request for the last events before that.
    pub(super) fn past_request(&self) -> Option<Request> {
        let upto = self.upto?;
        Some(Request::Follow(Following {
            after: Some(upto.saturating_sub(PAST)),
            ..Following::default()
        }))
    }

    /// Takes an [`EventPage`]; it tells how far the follower is.
    pub(super) fn take(&mut self, page: EventPage) {
        self.names.extend(page.hosts);
        for event in &page.events {
            let line = self.line(event);
            // Events of the past come after those that they were before.
            let at = self.lines.partition_point(|other| other.seq < line.seq);
            if self.lines.get(at).is_none_or(|other| other.seq != line.seq) {
                self.lines.insert(at, line);
            }
        }
        let extra = self.lines.len().saturating_sub(KEPT);

        self.lines.drain(..extra);
        self.upto = Some(self.upto.unwrap_or(0).max(page.upto));
        self.stale = true;
    }

    /// Begins anew, after a master that knows less than was told.
    pub(super) fn restart(&mut self) {
        self.upto = None;
        self.past = false;
        self.lines.clear();
        self.stale = true;
    }

    fn line(&self, view: &EventView) -> ShownEvent {
        let event = &view.event;
        let host = event.host();
        let name = host.map(|host| self.names.get(&host).cloned().unwrap_or(host.to_string()));

        ShownEvent {
            seq: view.seq,
            at: view.at,
            what: words(event, name),
            why: event.why().unwrap_or_default().to_owned(),
            tone: tone(event),
            job: event.job(),
            task: event.task(),
            host: host.filter(|_| event.job().is_none()),
        }
    }

    pub(super) fn filter(&mut self, text: &str) {
        self.filter = text.to_lowercase();
        self.stale = true;
    }

    /// Brings the list up to date, for a screen with room for so many.
    pub(super) fn arrange(&mut self, height: usize) {
        if std::mem::take(&mut self.stale) {
            let chosen = self.order.get(self.place.at).copied();
            let has = |line: &&ShownEvent, word: &str| {
                line.what.to_lowercase().contains(word) || line.why.to_lowercase().contains(word)
            };
            let words: Vec<&str> = self.filter.split_whitespace().collect();
            let wanted = self
                .lines
                .iter()
                .filter(|line| words.iter().all(|word| has(line, word)));
            self.order = wanted.map(|line| line.seq).collect();
            let from_top = self.place.at.saturating_sub(self.place.top);
            let at = chosen.map_or(0, |seq| self.order.partition_point(|other| *other < seq));
            self.place.at = if self.pinned { self.order.len() } else { at };
            self.place.top = self.place.at.saturating_sub(from_top);
        }

        self.place.fit(self.order.len(), height);
    }

    /// Moves by a key; returns whether the key moves.
    pub(super) fn go(&mut self, act: KeyAct, height: usize) -> bool {
        let moved = self.place.go(act, self.order.len(), height);
        if moved {
            self.pinned = self.place.at + 1 >= self.order.len();
        }
        moved
    }

    fn by_number(&self, seq: u64) -> Option<&ShownEvent> {
        let at = self.lines.partition_point(|line| line.seq < seq);
        self.lines.get(at).filter(|line| line.seq == seq)
    }

    /// Returns the event that is chosen.
    pub(super) fn chosen(&self) -> Option<&ShownEvent> {
        self.by_number(*self.order.get(self.place.at)?)
    }

    /// The number of events that are shown.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The events on a screen with room for so many, each with whether it is chosen.
    pub(super) fn seen(&self, height: usize) -> impl Iterator<Item = (&ShownEvent, bool)> {
        let at = self.place.at;
        let seen = self.place.seen(self.order.len(), height);
        seen.filter_map(move |index| Some((self.by_number(self.order[index])?, index == at)))
    }
}

fn tone(event: &GridEvent) -> Tone {
    match event {
        GridEvent::TaskFailed { .. } => Tone::Bad,
        GridEvent::AttemptEnded { state, .. } => match state {
            AttemptState::Killed => Tone::Quiet,
            _ => Tone::Bad,
        },
        GridEvent::TaskFinished { .. } => Tone::Good,
        GridEvent::JobSettled { state, .. } => match state {
            JobState::Finished => Tone::Good,
            JobState::Cancelled => Tone::Quiet,
            _ => Tone::Bad,
        },
        GridEvent::TaskSuspended { .. } => Tone::Suspended,
        GridEvent::HostChanged { state, .. } => of_host(*state).1,
        _ => Tone::Plain,
    }
}

/// Returns the cells of an event's row, one for each of [`COLUMNS`].
pub(super) fn row(line: &ShownEvent, theme: Theme) -> Vec<Line<'static>> {
    let at = when::date(line.at);
    vec![
        Line::raw(line.seq.to_string()),
        Line::raw(at.get(11..19).unwrap_or_default().to_owned()),
        theme.text(&line.what, line.tone),
        theme.text(&line.why, Tone::Quiet),
    ]
}
