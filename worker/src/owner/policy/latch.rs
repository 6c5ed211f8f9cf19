//! A latch: a condition with delays both ways. It turns on when the signs for it have lasted, and
//! off when the signs against it have lasted.

use common::{Span, Time};

/// The present sign for or against a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pull {
    /// For it, and it turns on at once.
    Force,
    /// For it.
    On,
    /// Neither: it stays as it is.
    Neither,
    /// Against it.
    Off,
}

/// The condition and its delays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latch {
    on_after: Span,
    off_after: Span,
    on: bool,
    pull: Pull,
    /// The time since which it has had this pull.
    since: Time,
    /// The time at which it last turned.
    turned: Time,
}

impl Latch {
    /// Makes a latch that is off, turns on after `on_after`, and off after `off_after`.
    pub(super) fn new(now: Time, on_after: Span, off_after: Span) -> Self {
        Self {
            on_after,
            off_after,
            on: false,
            pull: Pull::Neither,
            since: now,
            turned: now,
        }
    }

    /// Goes on from where this one is, with its own delays.
    pub(super) fn go_on_from(&mut self, before: &Self) {
        *self = Self {
            on_after: self.on_after,
            off_after: self.off_after,
            ..*before
        };
    }

    /// Whether it is on.
    pub(super) fn on(&self) -> bool {
        self.on
    }

    /// Returns the time of its last turn, or of [`Self::recount`].
    pub(super) fn turned(&self) -> Time {
        self.turned
    }

    /// Returns the time at which it turns if the pull stays the same.
    pub(super) fn turns_at(&self) -> Option<Time> {
        match (self.on, self.pull) {
            (false, Pull::Force) => Some(self.since),
            (false, Pull::On) => Some(self.since + self.on_after),
            (true, Pull::Off) => Some(self.since + self.off_after),
            _ => None,
        }
    }

    /// Returns the time since which the signs have been for it, and the time at which it turns on
    /// if they last; `None` if it is on, or they are not.
    pub(super) fn rises(&self) -> Option<(Time, Time)> {
        let at = self.turns_at().filter(|_| !self.on)?;
        Some((self.since, at))
    }

    /// Whether it is on, and turns off if the signs against it last.
    pub(super) fn falls(&self) -> bool {
        self.on && self.pull == Pull::Off
    }

    /// Counts the time since its last turn from `now` on.
    pub(super) fn recount(&mut self, now: Time) {
        self.turned = now;
    }

    /// Advances the latch to `now`.
    pub(super) fn advance(&mut self, now: Time) {
        if let Some(at) = self.turns_at().filter(|at| *at <= now) {
            self.on = !self.on;
            self.turned = at;
        }
    }

    /// Sets the pull from `now` on.
    pub(super) fn pull(&mut self, now: Time, pull: Pull) {
        self.advance(now);
        if pull != self.pull {
            self.pull = pull;
            self.since = now;
        }
        self.advance(now);
    }
}
