//! The clock and the verdict of one running attempt. Suspensions do not count as run time.

use common::{Span, Time};

use super::giving_back::BackReason;

/// The external cause of an attempt's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndCause {
    /// None (so far): it ends by itself.
    Open,
    /// It ran longer than this limit.
    TimedOut(Span),
    /// The master stopped it.
    Stopped,
    /// It held so many bytes of memory while that was short: more than the owner lends.
    HeldTooMuch(u64),
    /// The worker gives it back, for this reason.
    Returned(BackReason),
    /// The worker gives it back since memory is short, and it held so many bytes; `None` where that cannot be told.
    Weighed(Option<u64>),
}

/// A command that runs, is frozen, or has just ended.
#[derive(Debug, Clone)]
pub(super) struct RunningCommand {
    /// The number of the command among those that this worker started.
    pub number: u64,
    limit: Option<Span>,
    ran: Span,
    suspended: Span,
    /// The time since which it has run, or been frozen; `None` once it has ended.
    since: Option<Time>,
    frozen: bool,
    /// Whether the master holds it, to give its slot to another attempt.
    held: bool,
    /// The time at which the master let it go on; that of the start where it was never held.
    released: Time,
    pub verdict: EndCause,
    /// The time at which a command that was asked to end is killed.
    pub kill_at: Option<Time>,
}

impl RunningCommand {
    /// Makes the run of a command that starts now.
    pub(super) fn started(now: Time, number: u64, limit: Option<Span>) -> Self {
        Self {
            number,
            limit,
            ran: Span::ZERO,
            suspended: Span::ZERO,
            since: Some(now),
            frozen: false,
            held: false,
            released: now,
            verdict: EndCause::Open,
            kill_at: None,
        }
    }

    /// Returns the run time so far.
    pub(super) fn ran(&self, now: Time) -> Span {
        if self.frozen {
            self.ran
        } else {
            self.ran + self.stretch(now)
        }
    }

    /// Returns the suspended time so far.
    pub(super) fn suspended(&self, now: Time) -> Span {
        if self.frozen {
            self.suspended + self.stretch(now)
        } else {
            self.suspended
        }
    }

    /// Whether it ends by itself: neither master nor worker has asked it to end.
    pub(super) fn is_open(&self) -> bool {
        self.verdict == EndCause::Open
    }

    /// Whether it is suspended.
    pub(super) fn frozen(&self) -> bool {
        self.frozen
    }

    /// Returns the length of the present suspension, if it is suspended.
    pub(super) fn frozen_for(&self, now: Time) -> Option<Span> {
        self.frozen.then(|| self.stretch(now))
    }

    /// Whether the master holds it.
    pub(super) fn held(&self) -> bool {
        self.held
    }

    /// Has it held by the master, or released.
    pub(super) fn hold(&mut self, now: Time, held: bool) {
        if std::mem::replace(&mut self.held, held) != held {
            self.released = now;
        }
    }

    /// Returns the time for which it has been suspended for the owner alone, if it is: while the
    /// master holds it, it stands still whatever the owner does.
    pub(super) fn yields_for(&self, now: Time) -> Option<Span> {
        self.yields_since().map(|since| now.since(since))
    }

    fn yields_since(&self) -> Option<Time> {
        let since = self.since.filter(|_| self.frozen && !self.held)?;
        Some(since.max(self.released))
    }

    fn stretch(&self, now: Time) -> Span {
        self.since.map_or(Span::ZERO, |since| now.since(since))
    }

    /// Freezes it: its run time stops.
    pub(super) fn freeze(&mut self, now: Time) {
        self.turn(now, true);
    }

    /// Thaws it: its run time goes on.
    pub(super) fn thaw(&mut self, now: Time) {
        self.turn(now, false);
    }

    /// Ends it: both times stop.
    pub(super) fn end(&mut self, now: Time) {
        self.turn(now, false);
        self.since = None;
    }

    fn turn(&mut self, now: Time, frozen: bool) {
        (self.ran, self.suspended) = (self.ran(now), self.suspended(now));
        self.frozen = frozen;
        self.since = self.since.map(|_| now);
    }

    /// Returns its limit, if it has run that long and no verdict was given before.
    pub(super) fn overrun(&self, now: Time) -> Option<Span> {
        self.limit
            .filter(|limit| self.is_open() && self.ran(now) >= *limit)
    }

    /// Returns the next time at which it must be acted on, if it goes on as it is and may be frozen
    /// for the owner for no longer than `patience`.
    pub(super) fn next_wakeup(&self, patience: Option<Span>) -> Option<Time> {
        let left = self.limit.filter(|_| !self.frozen);
        let left = left.map(|limit| Span(limit.0.saturating_sub(self.ran.0)));
        let overrun = left.zip(self.since).map(|(left, since)| since + left);

        let yields = patience.zip(self.yields_since());
        let evicted = yields.map(|(patience, since)| since + patience);
        let ends = overrun.or(evicted).filter(|_| self.is_open());
        [self.kill_at, ends].into_iter().flatten().min()
    }
}
