//! The requests of `top` and the news that come of them, as values: so that every picture can be
//! tried without a master. `Pacer` keeps them to one at a time and seldom enough.
//!
//! The way to the master is in `line`.

use std::collections::BTreeMap;

use common::token::Role;
use common::wire::client::{Reply, Request};
use common::{BlobRef, Span, Time};

use crate::failure::Failure;

/// The purpose of a request. Of each at most one is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AskSlot {
    /// `Request::Jobs`: the jobs that are not settled.
    OpenJobs,
    /// `Request::Jobs`: the newest job.
    NewestJob,
    /// `Request::Jobs`: those with lower numbers than the known ones.
    OlderJobs,
    /// `Request::Jobs`: those on the screen.
    SeenJobs,
    /// `Request::Tasks`: those on the screen.
    Tasks,
    /// `Request::Hosts`: every host.
    AllHosts,
    /// `Request::Hosts`: those on the screen.
    SeenHosts,
    /// The request for the `TextOf` that is read.
    Text,
    /// A change that a person asked for, such as `Request::Cancel`.
    Change,
    /// `Request::Follow`: the events from now on.
    Events,
    /// `Request::Follow`: the events before that.
    PastEvents,
    /// `Request::Tail`: the output of a running task.
    Log,
    /// `Request::Outputs`, and then content: the rest of the output of a settled task.
    LogRest,
}

/// A request on its way to the master.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum GridAsk {
    /// Answered by one [`GridNews::Answer`].
    Once {
        /// Its purpose, an `AskSlot`.
        slot: AskSlot,
        /// Its number, which the answer repeats.
        serial: u64,
        /// The request.
        request: Request,
        /// The number of entries after which the answer is given up.
        most: usize,
    },
    /// Answered by a [`GridNews::Piece`] for each reply, and a [`GridNews::Ended`].
    Stream {
        /// Its purpose, an `AskSlot`.
        slot: AskSlot,
        /// Its number, which the answers repeat.
        serial: u64,
        /// The request.
        request: Request,
    },
    /// Answered by one [`GridNews::Bytes`].
    Content {
        /// Its purpose, an `AskSlot`.
        slot: AskSlot,
        /// Its number, which the answer repeats.
        serial: u64,
        /// The content.
        blob: BlobRef,
        /// The first byte that is wanted.
        from: u64,
    },
    /// Nothing more is wanted of the stream in this slot.
    Stop(AskSlot),
}

/// News from the master, as `MasterLine` brings them.
#[derive(Debug, Clone)]
pub(crate) enum GridNews {
    /// The whole answer to a [`GridAsk::Once`].
    Answer(AskSlot, u64, Result<Vec<Reply>, Failure>),
    /// A reply to a [`GridAsk::Stream`].
    Piece(AskSlot, u64, Reply),
    /// The end of a [`GridAsk::Stream`].
    Ended(AskSlot, u64, Result<(), Failure>),
    /// The answer to a [`GridAsk::Content`].
    Bytes(AskSlot, u64, Result<Vec<u8>, Failure>),
    /// The connection is gone, for this reason.
    Lost(String),
    /// There is a connection, as this user with these rights.
    Back(String, Role),
}

/// The present time, as `TopClock` tells it: by the wall clock, for people, and since the start, for pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopMoment {
    /// The time by the wall clock.
    pub wall: Time,
    /// The time since the start.
    pub up: Span,
}

/// The requests that are under way, and when the next ones are due.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    turns: BTreeMap<AskSlot, SlotTurn>,
    serial: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct SlotTurn {
    /// The number of the request that is under way, and when it was sent.
    under_way: Option<(u64, Span)>,
    /// The time that its answer took, if that has come and is not heard yet.
    took: Option<Span>,
    /// The earliest time of the next one.
    due: Span,
}

/// An answer takes at most this part of the time until the next request: a master that is busy is
/// asked less often.
const PART: u64 = 10;

impl Pacer {
    /// Whether a request may be sent in this slot.
    pub(super) fn is_due(&self, slot: AskSlot, now: Span) -> bool {
        let turn = self.turns.get(&slot).copied().unwrap_or_default();
        turn.under_way.is_none() && turn.due <= now
    }

    /// Whether no request of this slot counts: none was sent since somebody hurried it.
    pub(super) fn is_new(&self, slot: AskSlot) -> bool {
        !self.turns.contains_key(&slot)
    }

    /// Whether a request is under way in this slot.
    pub(super) fn is_under_way(&self, slot: AskSlot) -> bool {
        let turn = self.turns.get(&slot);
        turn.is_some_and(|turn| turn.under_way.is_some())
    }

    /// Notes that a request is sent; returns its number.
    pub(super) fn begin(&mut self, slot: AskSlot, now: Span) -> u64 {
        self.serial += 1;
        let turn = self.turns.entry(slot).or_default();
        turn.under_way = Some((self.serial, now));
        turn.took = None;
        self.serial
    }

    /// Notes that an answer has come which is heard later: the time until then is not the master's.
    pub(super) fn came(&mut self, slot: AskSlot, serial: u64, now: Span) {
        let Some(turn) = self.turns.get_mut(&slot) else {
            return;
        };
        if let Some((_, since)) = turn.under_way.filter(|(current, _)| *current == serial) {
            turn.took = Some(Span(now.0.saturating_sub(since.0)));
        }
    }

    /// Whether this is the request that is under way in its slot.
    pub(super) fn is_current(&self, slot: AskSlot, serial: u64) -> bool {
        let turn = self.turns.get(&slot).and_then(|turn| turn.under_way);
        turn.is_some_and(|(current, _)| current == serial)
    }

    /// Notes that a request is answered: the next one is due after `pause`, or after a multiple of
    /// the time that this answer took.
    pub(super) fn end(&mut self, slot: AskSlot, now: Span, pause: Span) {
        let turn = self.turns.entry(slot).or_default();
        let since = turn.under_way.take().map_or(now, |(_, since)| since);
        let took = turn.took.take();
        let took = took.map_or(now.0.saturating_sub(since.0), |took| took.0);
        turn.due = now + Span(pause.0.max(took.saturating_mul(PART)));
    }

    /// Notes that a stream has ended: the next one is due after `pause`, however long it lasted.
    pub(super) fn over(&mut self, slot: AskSlot, now: Span, pause: Span) {
        let turn = self.turns.entry(slot).or_default();
        turn.under_way = None;
        turn.took = None;
        turn.due = now + pause;
    }

    /// Makes the next request due now; an answer that is under way counts no more.
    pub(super) fn hurry(&mut self, slot: AskSlot) {
        self.turns.remove(&slot);
    }

    /// Makes the next request due no later than `pause` from now.
    pub(super) fn soon(&mut self, slot: AskSlot, now: Span, pause: Span) {
        let turn = self.turns.entry(slot).or_default();
        turn.due = turn.due.min(now + pause);
    }

    /// Drops everything that is under way, as when the connection is gone.
    pub(super) fn clear(&mut self) {
        self.turns.clear();
    }

    /// Returns the time for which the oldest request in one of `slots` has waited for its answer.
    pub(super) fn silence(&self, slots: &[AskSlot], now: Span) -> Span {
        let turns = slots.iter().filter_map(|slot| self.turns.get(slot));
        let since = turns.filter_map(|turn| turn.under_way).map(|(_, at)| at);
        since
            .min()
            .map_or(Span::ZERO, |at| Span(now.0.saturating_sub(at.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Span {
        Span(seconds * 1_000_000)
    }

    #[test]
    fn one_request_is_under_way_and_a_slow_answer_makes_the_pause_longer() {
        let mut pacer = Pacer::default();
        let slot = AskSlot::AllHosts;
        assert!(pacer.is_due(slot, s(0)));
        let serial = pacer.begin(slot, s(0));
        assert!(!pacer.is_due(slot, s(9)) && pacer.is_current(slot, serial));
        assert_eq!(pacer.silence(&[slot], s(9)), s(9));

        pacer.end(slot, s(3), s(1));
        assert!(!pacer.is_due(slot, s(32)) && pacer.is_due(slot, s(33)));
        pacer.soon(slot, s(4), s(1));
        assert!(pacer.is_due(slot, s(5)) && !pacer.is_current(slot, serial));
    }

    #[test]
    fn what_is_wanted_at_once_makes_an_earlier_answer_stale() {
        let mut pacer = Pacer::default();
        let old = pacer.begin(AskSlot::Tasks, s(0));
        pacer.hurry(AskSlot::Tasks);
        assert!(pacer.is_due(AskSlot::Tasks, s(0)));
        let new = pacer.begin(AskSlot::Tasks, s(0));
        assert!(!pacer.is_current(AskSlot::Tasks, old) && pacer.is_current(AskSlot::Tasks, new));
    }
}
