//! A condition with patience both ways: it turns on when what speaks for it has lasted, and off
//! when what speaks against it has lasted. What is not here: what any condition is about.

use common::{Span, Time};

/// What speaks for or against a condition at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pull {
    /// For it, at once and without patience.
    Force,
    /// For it.
    On,
    /// Neither for nor against it: it stays as it is.
    Neither,
    /// Against it.
    Off,
}

/// The condition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latch {
    on_after: Span,
    off_after: Span,
    on: bool,
    pull: Pull,
    /// Since when it is pulled this way.
    since: Time,
    /// When it last turned.
    turned: Time,
}

impl Latch {
    /// One that is off, turns on after so long, and off again after so long.
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

    /// Whether it is on.
    pub(super) fn on(&self) -> bool {
        self.on
    }

    /// When it turned to what it is.
    pub(super) fn turned(&self) -> Time {
        self.turned
    }

    /// When it turns if nothing else is pulled.
    pub(super) fn turns_at(&self) -> Option<Time> {
        match (self.on, self.pull) {
            (false, Pull::Force) => Some(self.since),
            (false, Pull::On) => Some(self.since + self.on_after),
            (true, Pull::Off) => Some(self.since + self.off_after),
            _ => None,
        }
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, now: Time) {
        if let Some(at) = self.turns_at().filter(|at| *at <= now) {
            self.on = !self.on;
            self.turned = at;
        }
    }

    /// From now on it is pulled this way.
    pub(super) fn pull(&mut self, now: Time, pull: Pull) {
        self.advance(now);
        if pull != self.pull {
            self.pull = pull;
            self.since = now;
        }
        self.advance(now);
    }
}
