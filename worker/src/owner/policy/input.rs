//! The input rule's state: the owner's last touch of this host, and whether the host is in use
//! because of it. Signs of the owner only get newer: a later look cannot undo an earlier sign.

use common::{Span, Time};

/// The state of the input rule.
#[derive(Debug, Clone)]
pub(super) struct InputPolicy {
    /// Time without input before tasks start (`start`), before frozen ones are thawed (`resume`),
    /// and the time after which frozen ones are given back (`evict_after`).
    start: Span,
    resume: Span,
    evict_after: Option<Span>,
    /// The newest sign of the owner: the time of the look, and the time without input before it.
    sign: Option<(Time, Span)>,
    /// Whether some sensor cannot see; until it can, the owner counts as there.
    blind: bool,
    in_use: bool,
    /// The time since which it is in use; `None` if it has been so from the start.
    since: Option<Time>,
}

impl InputPolicy {
    /// Makes the state before any sight. `start` is not less than `resume`.
    pub(super) fn new(start: Span, resume: Span, evict_after: Option<Span>) -> Self {
        Self {
            start: start.max(resume),
            resume,
            evict_after,
            sign: None,
            blind: false,
            in_use: false,
            since: None,
        }
    }

    /// Whether the host is in use.
    pub(super) fn in_use(&self) -> bool {
        self.in_use
    }

    /// Returns the time without input at `now`; `None` if there was no sight, and no blind sensor,
    /// so far.
    pub(super) fn idle(&self, now: Time) -> Option<Span> {
        match self.blind {
            true => Some(Span::ZERO),
            false => self.sign.map(|(at, idle)| idle + now.since(at)),
        }
    }

    /// Returns the time without input after which tasks may run, as things are.
    pub(super) fn wanted(&self, now: Time) -> Span {
        if self.too_late().is_none_or(|late| now >= late) {
            self.start
        } else {
            self.resume
        }
    }

    /// Returns the time from which on every frozen task has been given back; `None` if that is so
    /// already.
    fn too_late(&self) -> Option<Time> {
        self.since.map(|since| {
            self.evict_after
                .map_or(Time(u64::MAX), |after| since + after)
        })
    }

    /// Returns the age below which input means that the host is in use. It is half of `resume`, so
    /// that two sensors that disagree a little about one key press do not freeze and thaw in turn.
    fn recent(&self) -> Span {
        Span((self.resume.0 / 2).max(1))
    }

    /// Returns the time at which the host stops to be in use, if there is no further input.
    pub(super) fn turns_at(&self) -> Option<Time> {
        let (at, idle) = self.sign.filter(|_| self.in_use && !self.blind)?;
        let reached = |wanted: Span| at + Span(wanted.0.saturating_sub(idle.0));
        let resumes = reached(self.resume);
        let in_time = self.too_late().is_some_and(|late| resumes < late);
        Some(if in_time {
            resumes
        } else {
            reached(self.start)
        })
    }

    /// Advances the state to `now`.
    pub(super) fn advance(&mut self, now: Time) {
        if self.blind {
            self.sign = Some((now, Span::ZERO));
        }
        if self.turns_at().is_some_and(|at| at <= now) {
            self.in_use = false;
        }
    }

    /// Takes a new sight: the newest input, and whether some sensor cannot see.
    pub(super) fn seen(&mut self, now: Time, newest: Option<Span>, blind: bool) {
        self.advance(now);
        let first = self.sign.is_none();
        let newest = if blind { Some(Span::ZERO) } else { newest };
        if let Some(newest) = newest
            && self.idle(now).is_none_or(|idle| newest < idle)
        {
            self.sign = Some((now, newest));
        }
        self.blind = blind;

        match self.idle(now) {
            Some(idle) if first => self.in_use = idle < self.start,
            Some(idle) if !self.in_use && idle < self.recent() => {
                (self.in_use, self.since) = (true, Some(now));
            }
            _ => {}
        }
    }
}
