//! When did somebody last touch this host, and is it in use because of that? Signs of the owner
//! only ever get newer: what was seen once is not unseen by another look. What is not here:
//! sensors.

use common::{Span, Time};

/// The rule for input.
#[derive(Debug, Clone)]
pub(super) struct Input {
    /// Time without input before tasks start, before frozen ones go on, and after which frozen ones
    /// are gone.
    start: Span,
    resume: Span,
    evict_after: Option<Span>,
    /// The newest sign of the owner: so long before that time.
    sign: Option<(Time, Span)>,
    /// Whether something cannot be seen: as long as it cannot, the owner counts as there.
    blind: bool,
    in_use: bool,
    /// Since when it is so; none where it has been in use from the start.
    since: Option<Time>,
}

impl Input {
    /// Of which nothing is known. `start` is not less than `resume`.
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

    /// For how long nobody has touched anything; none where nothing was ever seen, nor hidden.
    pub(super) fn idle(&self, now: Time) -> Option<Span> {
        match self.blind {
            true => Some(Span::ZERO),
            false => self.sign.map(|(at, idle)| idle + now.since(at)),
        }
    }

    /// Time without input that lets tasks go on, as things are.
    pub(super) fn wanted(&self, now: Time) -> Span {
        if self.too_late().is_none_or(|late| now >= late) {
            self.start
        } else {
            self.resume
        }
    }

    /// From when on nothing frozen is left that could go on; none where that is so already.
    fn too_late(&self) -> Option<Time> {
        self.since.map(|since| {
            self.evict_after
                .map_or(Time(u64::MAX), |after| since + after)
        })
    }

    /// Input that is newer than this makes the host in use: half of what lets tasks go on, so that
    /// two sensors which are not quite of one opinion about one key press do not freeze and thaw in
    /// turn.
    fn recent(&self) -> Span {
        Span((self.resume.0 / 2).max(1))
    }

    /// When the host stops to be in use, if nobody touches it.
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

    /// Lets time pass.
    pub(super) fn advance(&mut self, now: Time) {
        if self.blind {
            self.sign = Some((now, Span::ZERO));
        }
        if self.turns_at().is_some_and(|at| at <= now) {
            self.in_use = false;
        }
    }

    /// What sensors say now: the newest input, and whether one of them cannot see.
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
