//! The clock and the fate of one running attempt. Suspensions do not count as run time.

use common::{Span, Time};

/// Why an attempt's end is not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is (so far).
    Open,
    /// It ran longer than this.
    TimedOut(Span),
    /// The master wanted it.
    Stopped,
    /// The worker shuts down and gives it back.
    Returned,
}

/// A command that runs, is frozen, or has just ended.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// Which of the worker's commands it is, counted from its start.
    pub number: u64,
    limit: Option<Span>,
    ran: Span,
    suspended: Span,
    /// Since when it has been as it is now; none once it has ended.
    since: Option<Time>,
    frozen: bool,
    /// Whether the master wants its slot for another.
    pub held: bool,
    pub verdict: Verdict,
    /// When the patience with a command that was asked to end is over.
    pub kill_at: Option<Time>,
}

impl Run {
    /// One that starts now.
    pub(super) fn started(now: Time, number: u64, limit: Option<Span>) -> Self {
        let ran = Span::ZERO;
        let suspended = Span::ZERO;
        let frozen = false;
        let held = false;
        Self {
            number,
            limit,
            ran,
            suspended,
            since: Some(now),
            frozen,
            held,
            verdict: Verdict::Open,
            kill_at: None,
        }
    }

    /// Run time so far.
    pub(super) fn ran(&self, now: Time) -> Span {
        if self.frozen {
            self.ran
        } else {
            self.ran + self.stretch(now)
        }
    }

    /// Suspended time so far.
    pub(super) fn suspended(&self, now: Time) -> Span {
        if self.frozen {
            self.suspended + self.stretch(now)
        } else {
            self.suspended
        }
    }

    /// Whether it is suspended.
    pub(super) fn frozen(&self) -> bool {
        self.frozen
    }

    /// For how long it has been suspended this time, if it is.
    pub(super) fn frozen_for(&self, now: Time) -> Option<Span> {
        self.frozen.then(|| self.stretch(now))
    }

    fn stretch(&self, now: Time) -> Span {
        self.since.map_or(Span::ZERO, |since| now.since(since))
    }

    /// It executes no more until it is thawed.
    pub(super) fn freeze(&mut self, now: Time) {
        self.turn(now, true);
    }

    /// It goes on.
    pub(super) fn thaw(&mut self, now: Time) {
        self.turn(now, false);
    }

    /// It has ended: both clocks stop.
    pub(super) fn end(&mut self, now: Time) {
        self.turn(now, false);
        self.since = None;
    }

    fn turn(&mut self, now: Time, frozen: bool) {
        (self.ran, self.suspended) = (self.ran(now), self.suspended(now));
        self.frozen = frozen;
        self.since = self.since.map(|_| now);
    }

    /// Its limit, if it has run that long and nobody has decided its end before.
    pub(super) fn overrun(&self, now: Time) -> Option<Span> {
        self.limit
            .filter(|limit| self.verdict == Verdict::Open && self.ran(now) >= *limit)
    }

    /// When something is to be done about it, if it goes on as it is, and may be frozen for no
    /// longer than `patience`.
    pub(super) fn next_wakeup(&self, patience: Option<Span>) -> Option<Time> {
        let since = self.since.filter(|_| self.verdict == Verdict::Open);
        let left = match self.frozen {
            true => patience.filter(|_| !self.held),
            false => self
                .limit
                .map(|limit| Span(limit.0.saturating_sub(self.ran.0))),
        };
        let over = left.zip(since).map(|(left, since)| since + left);
        [self.kill_at, over].into_iter().flatten().min()
    }
}
